"""One value changed or removed in the text of config.yaml, every other character left as its author wrote it."""

import json
import re
from pathlib import Path
from typing import Any

from hermes_config.errors import ConfigError
from hermes_config.settings import CONFIG_VERSION
from hermes_config.yaml_file import MODEL_SECTION, VERSION_KEY, check_version, parse

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# Words that YAML, in one of its versions, takes for something other than text.
RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def with_value(text: str, path: Path, dotted: str, value: object) -> str:
    """The new text; ConfigError, naming the file, where the old one is broken or written too cleverly."""
    newline = "\r\n" if "\r\n" in text else "\n"
    text = _write_out_model(text, path, newline)
    before = parse(text, path)
    if not before:
        after = _appended(text, f"{VERSION_KEY}: {CONFIG_VERSION}{newline}", newline)
        after = _appended(after, _block(dotted.split("."), _rendered(value), "", newline), newline)
    else:
        after = _edited(text, path, dotted, _rendered(value), newline)
    wanted = _plain(before)
    *above, leaf = dotted.split(".")
    target = wanted
    for name in above:
        target[name] = target.get(name) or {}
        target = target[name]
    target[leaf] = _plain(value)
    _check_result(after, wanted, path, dotted)
    return after


def without_value(text: str, path: Path, dotted: str) -> str:
    """Return the text without this key, and without the sections that held nothing else; their comments stay.

    The text comes back as it was where it lacks the key. Raises ConfigError as `with_value` does.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    written_out = _write_out_model(text, path, newline)
    before = parse(written_out, path)
    names = dotted.split(".")
    chain = _chain(written_out, names) if before else []
    if not chain:
        return text
    after = _removed(written_out, chain)
    wanted = _plain(before)
    target = wanted
    for name in names[:-1]:
        target = target[name]
    del target[names[-1]]
    _check_result(after, wanted, path, dotted)
    return after


def _write_out_model(text: str, path: Path, newline: str) -> str:
    """Replace `model: demo` by the section it stands for, so that its keys can be changed like any others."""
    document = parse(text, path)
    check_version(document, path)
    if not isinstance(document.get(MODEL_SECTION), str):
        return text
    from ruamel.yaml import YAML

    root = YAML(typ="rt", pure=True).compose(text)
    key, child = next((key, child) for key, child in root.value if key.value == MODEL_SECTION)
    name = text[child.start_mark.index : child.end_mark.index]
    section = f" {{name: {name}}}" if root.flow_style else f"{newline}  name: {name}"
    return text[: _colon(text, key)] + section + text[child.end_mark.index :]


def _chain(text: str, names: list[str]) -> list[tuple[Any, Any, Any]]:
    """Return mapping, key and value for each name on the way to the last; empty when one of them is missing."""
    from ruamel.yaml import YAML

    node = YAML(typ="rt", pure=True).compose(text)
    chain: list[tuple[Any, Any, Any]] = []
    for name in names:
        pairs = node.value if isinstance(node.value, list) else []
        pair = next((pair for pair in pairs if isinstance(pair, tuple) and pair[0].value == name), None)
        if pair is None:
            return []
        chain.append((node, *pair))
        node = pair[1]
    return chain


def _removed(text: str, chain: list[tuple[Any, Any, Any]]) -> str:
    """Remove the last key of the chain, and those above it for as long as they are alone in their mapping."""
    top = len(chain) - 1
    while top and len(chain[top][0].value) == 1:
        top -= 1
    mapping, key, child = chain[top]
    if mapping.flow_style:
        place = next(number for number, pair in enumerate(mapping.value) if pair[0] is key)
        if place:
            start, end = _end(text, *mapping.value[place - 1]), _end(text, key, child)
        else:
            following = mapping.value[1][0].start_mark if len(mapping.value) > 1 else mapping.end_mark
            start, end = key.start_mark.index, following.index - (len(mapping.value) == 1)
        return text[:start] + text[end:]
    # Comments stand between the lines of a section and its only key: each is removed by itself.
    for mapping, key, child in reversed(chain[top:]):
        if mapping.flow_style:
            continue  # goes with the line of the block that holds it
        is_section = isinstance(child.value, list) and child.value and isinstance(child.value[0], tuple)
        last = _colon(text, key) if is_section and not child.flow_style else _end(text, key, child)
        start = text.rfind("\n", 0, key.start_mark.index) + 1
        end = text.find("\n", last)
        text = text[:start] + ("" if end < 0 else text[end + 1 :])
    return text


def _edited(text: str, path: Path, dotted: str, rendered: str, newline: str) -> str:
    from ruamel.yaml import YAML

    node = YAML(typ="rt", pure=True).compose(text)
    names = dotted.split(".")
    for depth, name in enumerate(names):
        pair = next(((key, child) for key, child in node.value if key.value == name), None)
        if pair is None:
            return _inserted(text, node, names[depth:], rendered, newline)
        key, child = pair
        if depth == len(names) - 1:
            return _replaced(text, key, child, rendered)
        if _is_empty(child):
            inner = " " * (key.start_mark.column + 2)
            return _after_line(text, _colon(text, key), _block(names[depth + 1 :], rendered, inner, newline), newline)
        if not isinstance(child.value, list):
            raise ConfigError(f"{path} line {key.start_mark.line + 1}: {name} must be a section; edit that line first.")
        node = child
    raise AssertionError("a dotted key has at least one name")


def _replaced(text: str, key: Any, child: Any, rendered: str) -> str:
    colon = _colon(text, key)
    return f"{text[:colon]} {rendered}{text[_end(text, key, child) :]}"


def _inserted(text: str, node: Any, names: list[str], rendered: str, newline: str) -> str:
    if node.flow_style:
        inside = node.end_mark.index - 1
        entry = "".join(f"{name}: {{" for name in names[:-1]) + f"{names[-1]}: {rendered}" + "}" * (len(names) - 1)
        return text[:inside] + (", " if node.value else "") + entry + text[inside:]
    block = _block(names, rendered, " " * node.start_mark.column, newline)
    if not node.start_mark.column:
        return _appended(text, block, newline)
    return _after_line(text, _end(text, *node.value[-1]), block, newline)


def _block(names: list[str], rendered: str, indent: str, newline: str) -> str:
    lines = [f"{indent}{'  ' * depth}{name}:" for depth, name in enumerate(names)]
    return newline.join(lines) + f" {rendered}{newline}"


def _after_line(text: str, position: int, block: str, newline: str) -> str:
    end = text.find("\n", position)
    return _appended(text, block, newline) if end < 0 else text[: end + 1] + block + text[end + 1 :]


def _appended(text: str, block: str, newline: str) -> str:
    return text + (newline if text and not text.endswith("\n") else "") + block


def _end(text: str, key: Any, child: Any) -> int:
    """Where the value's last character stands; a block's own mark would reach over the comments below it."""
    if _is_empty(child):
        return _colon(text, key)
    if not isinstance(child.value, list) or child.flow_style:
        return int(child.end_mark.index)
    last = child.value[-1]
    return _end(text, *last) if isinstance(last, tuple) else _end(text, last, last)


def _colon(text: str, key: Any) -> int:
    return text.index(":", key.end_mark.index) + 1


def _is_empty(node: Any) -> bool:
    return bool(node.start_mark.index == node.end_mark.index)


def _rendered(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_rendered(item) for item in value) + "]"
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in RESERVED:
        return value
    return json.dumps(value, ensure_ascii=False)


def _check_result(after: str, wanted: dict[Any, Any], path: Path, dotted: str) -> None:
    """Refuse an edit that changed more than one key: anchors and merges let one line speak for several."""
    try:
        found = _plain(parse(after, path))
    except ConfigError:
        found = None
    if found is None or _without_empty(found) != _without_empty(wanted):
        raise ConfigError(f"{path} is written in a way that is not safe to change here; edit {dotted} by hand.")


def _without_empty(document: dict[Any, Any]) -> dict[Any, Any]:
    """Leave out the version and empty sections, which say nothing."""
    kept = {
        name: _without_empty(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if name != VERSION_KEY
    }
    return {name: value for name, value in kept.items() if value not in (None, {})}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
