"""Read config.yaml with line numbers and plain error messages, and edit one value in its text.

An edit leaves every other character as its author wrote it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes_config.errors import ConfigError
from hermes_config.keys import catalogue, explain_unknown, flat_names, sections, summarize, variables
from hermes_config.secrets import find as find_secret
from hermes_config.settings import CONFIG_VERSION
from hermes_config.sources import GUARDED, Findings, Given, read_text

VERSION_KEY = "_config_version"
# `model: demo` is short for the name of the model.
MODEL_SECTION, MODEL_NAME = "model", "model.name"
# A part of a parser message that can only be YAML syntax, never a word of the file.
_SYNTAX_IN_QUOTES = re.compile(r"""(["'])([^\w\s"']{1,3}|<[a-z ]+>)\1""")


def read_config_file(path: Path, findings: Findings) -> list[Given]:
    text = read_text(path)
    if text is None:
        return []
    document = parse(text, path)
    check_version(document, path)
    return list(_read_section(document, "", path, findings))


def parse(text: str, path: Path) -> dict[Any, Any]:
    """Return the document as a mapping that knows its lines, empty for an empty file; raise ConfigError."""
    # Imported here: without a config.yaml nobody pays for the parser.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        document = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path} line {mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{where}: {_explain_problem(error, text)}; edit that line.") from None
    except (YAMLError, ValueError) as error:
        # Its message could quote the file, and with it a secret in the wrong place.
        position = getattr(error, "position", None)
        where = f"{path} line {text.count(chr(10), 0, position) + 1}" if isinstance(position, int) else str(path)
        raise ConfigError(f"{where}: contains a character or value that YAML does not allow; remove it.") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; edit the file.") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path} line 1: must contain sections such as `gateway:`, but is {summarize(document)}.")
    return document


def check_version(document: dict[Any, Any], path: Path) -> None:
    version = document.get(VERSION_KEY, CONFIG_VERSION)
    where = f"{path} line {_find_line(document, VERSION_KEY)}"
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError(
            f"{where}: {VERSION_KEY} is {summarize(version)}, but must be a whole number; write {CONFIG_VERSION}."
        )
    if version > CONFIG_VERSION:
        raise ConfigError(
            f"{where}: this file was written for a newer Hermes ({VERSION_KEY} {version}; this one knows "
            f"{CONFIG_VERSION}). Nothing was changed; update Hermes, or restore the older file."
        )


def _find_line(mapping: dict[Any, Any], name: object) -> int:
    """Return the line of a key, counted from 1; for a key from a YAML merge, the line of its mapping."""
    place = getattr(mapping, "lc", None)
    if place is None:
        return 1
    try:
        return int(place.key(name)[0]) + 1
    except (KeyError, TypeError):
        return int(place.line or 0) + 1


def _read_section(mapping: dict[Any, Any], prefix: str, path: Path, findings: Findings) -> Iterator[Given]:
    for name, value in mapping.items():
        dotted = flat_names().get(f"{prefix}{name}", f"{prefix}{name}")
        line = _find_line(mapping, name)
        where = f"{path} line {line}"
        if dotted == VERSION_KEY:
            continue
        if secret := _explain_secret(dotted, str(name)):
            findings.errors.append(f"{where}: {secret}")
        elif "." in str(name):
            _report_unknown(dotted, where, findings)
        elif dotted in catalogue():
            yield from _read_value(dotted, value, f"{path.name} line {line}", where)
        elif dotted not in sections():
            _report_unknown(dotted, where, findings)
        elif dotted == MODEL_SECTION and isinstance(value, str):
            yield from _read_value(MODEL_NAME, value, f"{path.name} line {line}", where)
        elif isinstance(value, dict):
            yield from _read_section(value, f"{dotted}.", path, findings)
        elif value is not None:
            findings.errors.append(
                f"{where}: {dotted} is {summarize(value)}, but must be a section: keys indented below `{dotted}:`."
            )


def _read_value(dotted: str, value: object, source: str, where: str) -> Iterator[Given]:
    if value is None:
        return
    yield Given(
        key=dotted,
        value=value,
        source=source,
        where=where,
        fix=f"run `hermes config set {dotted} {catalogue()[dotted].example}` or edit that line",
        typed=True,
    )


def _explain_secret(dotted: str, name: str) -> str:
    """Say where a secret belongs; empty when the key is none."""
    secret = find_secret(name)
    if secret is None and dotted != "secrets":
        return ""
    env = secret.env if secret else "NAME"
    return (
        f"{dotted} is a secret and does not belong in this file; "
        f"delete it here and run `hermes config set {env} …`, which puts it into .env."
    )


def _report_unknown(dotted: str, where: str, findings: Findings) -> None:
    if key := variables().get(dotted):
        findings.warnings.append(f"{where}: {dotted} has no effect here; write it as {key}")
    elif dotted in catalogue():
        section, _, leaf = dotted.rpartition(".")
        # Accepted, it could silently disagree with the same key in its section.
        findings.errors.append(f"{where}: {dotted} must be written as {leaf} indented below `{section}:`.")
    elif dotted.split(".")[0] in GUARDED:
        findings.errors.append(
            f"{where}: {explain_unknown(dotted)} "
            "It guards who may do what, so it is not ignored; correct or delete that line."
        )
    else:
        findings.warnings.append(f"{where}: {explain_unknown(dotted)} It has no effect.")


def _explain_problem(error: Any, text: str) -> str:
    problem = str(error.problem or error.context or "")
    duplicate = re.match(r'found duplicate key "([^"]*)"', problem)
    if duplicate:
        return f"{duplicate[1]} is given twice; keep one"
    mark = error.problem_mark
    lines = text.splitlines()
    if "\\t" in problem or (mark and mark.line < len(lines) and re.match(r" *\t", lines[mark.line])):
        return "a tab where YAML requires spaces"
    if "single document" in str(error.context) + problem:
        return "a second document begins here (---), but only one is allowed"
    # Quoted pieces of the file are dropped: any of them could be a secret.
    said = re.sub(r"""\s*(["']).*\1""", "", _SYNTAX_IN_QUOTES.sub(r"`\2`", problem)).strip()
    hint = "; check the indentation and the quotes here and in the line above" if "<block" in said else ""
    return f"not valid YAML: {said}{hint}"


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# Words that YAML, in one of its versions, does not take for text.
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def set_in_text(text: str, path: Path, dotted: str, value: object) -> str:
    """Return the text with a value changed or added; raise ConfigError where that cannot be done safely."""
    if _is_windows(text):
        return set_in_text(text.replace("\r\n", "\n"), path, dotted, value).replace("\n", "\r\n")
    text = _expand_model(text, path)
    document = parse(text, path)
    names = dotted.split(".")
    if document:
        after = _set(text, path, names, _render(value))
    else:
        after = _append(text, f"{VERSION_KEY}: {CONFIG_VERSION}\n")
        after = _append(after, _build_block(names, _render(value), ""))
    expected = section = _to_plain(document)
    for name in names[:-1]:
        section[name] = section.get(name) or {}
        section = section[name]
    section[names[-1]] = _to_plain(value)
    _check_result(after, expected, path, dotted)
    return after


def remove_from_text(text: str, path: Path, dotted: str) -> str:
    """Return the text without a key and without sections that had no other key; their comments stay.

    Returns the same text where the key is missing. Raises ConfigError as `set_in_text` does.
    """
    if _is_windows(text):
        return remove_from_text(text.replace("\r\n", "\n"), path, dotted).replace("\n", "\r\n")
    expanded = _expand_model(text, path)
    document = parse(expanded, path)
    names = dotted.split(".")
    chain = _find_chain(expanded, names) if document else []
    if len(chain) < len(names):
        return text
    after = _remove(expanded, chain)
    expected = section = _to_plain(document)
    for name in names[:-1]:
        section = section[name]
    del section[names[-1]]
    _check_result(after, expected, path, dotted)
    return after


def _is_windows(text: str) -> bool:
    return 0 < text.count("\n") == text.count("\r\n")


def _expand_model(text: str, path: Path) -> str:
    """Replace `model: demo` by a section, so that its keys can be changed like any others."""
    document = parse(text, path)
    check_version(document, path)
    if not isinstance(document.get(MODEL_SECTION), str):
        return text
    [(root, key, child)] = _find_chain(text, [MODEL_SECTION])
    name = text[child.start_mark.index : child.end_mark.index]
    section = f" {{name: {name}}}" if root.flow_style else f"\n  name: {name}"
    return text[: _find_colon(text, key)] + section + text[child.end_mark.index :]


def _compose(text: str) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="rt", pure=True).compose(text)


def _find_chain(text: str, names: list[str]) -> list[tuple[Any, Any, Any]]:
    """Return mapping, key and value for each of the names, as far as they exist."""
    node = _compose(text)
    chain: list[tuple[Any, Any, Any]] = []
    for name in names:
        pairs = node.value if isinstance(node.value, list) else []
        pair = next((pair for pair in pairs if isinstance(pair, tuple) and pair[0].value == name), None)
        if pair is None:
            break
        chain.append((node, *pair))
        node = pair[1]
    return chain


def _set(text: str, path: Path, names: list[str], rendered: str) -> str:
    chain = _find_chain(text, names)
    missing = names[len(chain) :]
    if not chain:
        return _insert(text, _compose(text), missing, rendered)
    _, key, child = chain[-1]
    colon = _find_colon(text, key)
    if not missing:
        return f"{text[:colon]} {rendered}{text[_find_end(text, key, child) :]}"
    if _is_empty(child):
        return _insert_after_line(text, colon, _build_block(missing, rendered, " " * (key.start_mark.column + 2)))
    if not isinstance(child.value, list):
        name = names[len(chain) - 1]
        raise ConfigError(f"{path} line {key.start_mark.line + 1}: {name} must be a section; edit that line first.")
    return _insert(text, child, missing, rendered)


def _insert(text: str, mapping: Any, names: list[str], rendered: str) -> str:
    if mapping.flow_style:
        inside = mapping.end_mark.index - 1
        entry = "".join(f"{name}: {{" for name in names[:-1]) + f"{names[-1]}: {rendered}" + "}" * (len(names) - 1)
        return text[:inside] + (", " if mapping.value else "") + entry + text[inside:]
    block = _build_block(names, rendered, " " * mapping.start_mark.column)
    if not mapping.start_mark.column:
        return _append(text, block)
    return _insert_after_line(text, _find_end(text, *mapping.value[-1]), block)


def _remove(text: str, chain: list[tuple[Any, Any, Any]]) -> str:
    """Remove the last key of the chain, and those above it as long as they are alone in their mapping."""
    top = len(chain) - 1
    while top and len(chain[top][0].value) == 1:
        top -= 1
    mapping, key, child = chain[top]
    if mapping.flow_style:
        place = next(number for number, pair in enumerate(mapping.value) if pair[0] is key)
        if place:
            start, end = _find_end(text, *mapping.value[place - 1]), _find_end(text, key, child)
        else:
            following = mapping.value[1][0].start_mark if len(mapping.value) > 1 else mapping.end_mark
            start, end = key.start_mark.index, following.index - (len(mapping.value) == 1)
        return text[:start] + text[end:]
    # There may be comments between the lines of a section and its only key, so each line is removed by itself.
    for mapping, key, child in reversed(chain[top:]):
        if mapping.flow_style:
            continue  # removed with the line of the block around it
        is_section = isinstance(child.value, list) and child.value and isinstance(child.value[0], tuple)
        last = _find_colon(text, key) if is_section and not child.flow_style else _find_end(text, key, child)
        start = text.rfind("\n", 0, key.start_mark.index) + 1
        end = text.find("\n", last)
        text = text[:start] + ("" if end < 0 else text[end + 1 :])
    return text


def _build_block(names: list[str], rendered: str, indent: str) -> str:
    return "\n".join(f"{indent}{'  ' * depth}{name}:" for depth, name in enumerate(names)) + f" {rendered}\n"


def _insert_after_line(text: str, position: int, block: str) -> str:
    end = text.find("\n", position)
    return _append(text, block) if end < 0 else text[: end + 1] + block + text[end + 1 :]


def _append(text: str, block: str) -> str:
    return text + ("\n" if text and not text.endswith("\n") else "") + block


def _find_end(text: str, key: Any, child: Any) -> int:
    """Return the end of a value; the mark of a block would include the comments below it."""
    if _is_empty(child):
        return _find_colon(text, key)
    if not isinstance(child.value, list) or child.flow_style:
        return int(child.end_mark.index)
    last = child.value[-1]
    return _find_end(text, *last) if isinstance(last, tuple) else _find_end(text, last, last)


def _find_colon(text: str, key: Any) -> int:
    return text.index(":", key.end_mark.index) + 1


def _is_empty(node: Any) -> bool:
    return bool(node.start_mark.index == node.end_mark.index)


def _render(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_render(item) for item in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return json.dumps(value, ensure_ascii=False)


def _check_result(after: str, expected: dict[Any, Any], path: Path, dotted: str) -> None:
    """Refuse an edit that changed more than one key, as anchors and merges may cause."""
    try:
        found = _drop_empty(_to_plain(parse(after, path)))
    except ConfigError:
        found = None
    if found != _drop_empty(expected):
        raise ConfigError(f"{path} is written in a way that cannot be changed safely here; edit {dotted} by hand.")


def _drop_empty(document: dict[Any, Any]) -> dict[Any, Any]:
    """Leave out the version and empty sections, which mean nothing."""
    kept = {
        name: _drop_empty(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if name != VERSION_KEY
    }
    return {name: value for name, value in kept.items() if value not in (None, {})}


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_plain(item) for name, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, list | tuple) else value
