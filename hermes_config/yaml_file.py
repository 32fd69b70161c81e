"""config.yaml: its values with the lines they stand on, and what is wrong with it in plain words."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes_config.errors import ConfigError
from hermes_config.given import Findings, Given, read_text
from hermes_config.keys import catalogue, explain_unknown, flat_names, sections, summarize, variables
from hermes_config.secrets import find as find_secret
from hermes_config.settings import CONFIG_VERSION

VERSION_KEY = "_config_version"
GUARDED = ("access", "approvals")
# `model: demo` is short for the name of the model.
MODEL_SECTION, MODEL_NAME = "model", "model.name"
# A piece of a message of the parser that can only be YAML itself, never a word of the file.
_SAFE_QUOTE = re.compile(r"""(["'])([^\w\s"']{1,3}|<[a-z ]+>)\1""")


def from_config_file(path: Path, findings: Findings) -> list[Given]:
    text = read_text(path)
    if text is None:
        return []
    document = parse(text, path)
    check_version(document, path)
    return list(_values(document, "", path, findings))


def parse(text: str, path: Path) -> dict[Any, Any]:
    """The document as a mapping that knows its lines; empty for an empty file; ConfigError otherwise."""
    # Reading without a config.yaml must not pay for the parser.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        document = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path} line {mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{where}: {_plain_problem(error, text)}; edit that line.") from None
    except (YAMLError, ValueError) as error:
        # Its own words could quote the file, and with it a secret in the wrong place.
        position = getattr(error, "position", None)
        where = f"{path} line {text.count(chr(10), 0, position) + 1}" if isinstance(position, int) else str(path)
        raise ConfigError(f"{where}: holds a character or value that YAML does not allow; remove it.") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply to be settings; edit the file.") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path} line 1: must hold sections such as `gateway:`, but is {summarize(document)}.")
    return document


def check_version(document: dict[Any, Any], path: Path) -> None:
    version = document.get(VERSION_KEY, CONFIG_VERSION)
    where = f"{path} line {line_of(document, VERSION_KEY)}"
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ConfigError(
            f"{where}: {VERSION_KEY} is {summarize(version)}, but must be a whole number; write {CONFIG_VERSION}."
        )
    if version > CONFIG_VERSION:
        raise ConfigError(
            f"{where}: this file was written for a newer Hermes ({VERSION_KEY} {version}; this one knows "
            f"{CONFIG_VERSION}). Nothing was changed; update Hermes, or bring back the older file."
        )


def line_of(mapping: dict[Any, Any], name: object) -> int:
    """Counted from 1; a key that came by a merge has the line of its mapping."""
    place = getattr(mapping, "lc", None)
    if place is None:
        return 1
    try:
        return int(place.key(name)[0]) + 1
    except (KeyError, TypeError):
        return int(place.line or 0) + 1


def _values(mapping: dict[Any, Any], prefix: str, path: Path, findings: Findings) -> Iterator[Given]:
    for name, value in mapping.items():
        dotted = flat_names().get(f"{prefix}{name}", f"{prefix}{name}")
        line = line_of(mapping, name)
        where = f"{path} line {line}"
        if dotted == VERSION_KEY:
            continue
        if secret := _secret_in(dotted, str(name)):
            findings.errors.append(f"{where}: {secret}")
        elif "." in str(name):
            _unknown(dotted, where, findings)
        elif dotted in catalogue():
            yield from _value(dotted, value, f"{path.name} line {line}", where)
        elif dotted not in sections():
            _unknown(dotted, where, findings)
        elif dotted == MODEL_SECTION and isinstance(value, str):
            yield from _value(MODEL_NAME, value, f"{path.name} line {line}", where)
        elif isinstance(value, dict):
            yield from _values(value, f"{dotted}.", path, findings)
        elif value is not None:
            findings.errors.append(
                f"{where}: {dotted} is {summarize(value)}, but must be a section: keys indented below `{dotted}:`."
            )


def _value(dotted: str, value: object, source: str, where: str) -> Iterator[Given]:
    if value is None:
        return
    yield Given(
        key=dotted,
        value=value,
        source=source,
        where=where,
        mend=f"run `hermes config set {dotted} {catalogue()[dotted].example}` or edit that line",
        typed=True,
    )


def _secret_in(dotted: str, name: str) -> str:
    secret = find_secret(name)
    if secret is None and dotted != "secrets":
        return ""
    env = secret.env if secret else "NAME"
    return (
        f"{dotted} is a secret and does not belong in this file; "
        f"delete it here and run `hermes config set {env} …`, which keeps it in .env."
    )


def _unknown(dotted: str, where: str, findings: Findings) -> None:
    if key := variables().get(dotted):
        findings.warnings.append(f"{where}: {dotted} has no effect here; write it as {key}")
    elif dotted in catalogue():
        section, _, leaf = dotted.rpartition(".")
        # Taken as meant, it could quietly disagree with the same key in its section.
        findings.errors.append(f"{where}: {dotted} must be written as {leaf} indented below `{section}:`.")
    elif dotted.split(".")[0] in GUARDED:
        findings.errors.append(
            f"{where}: {explain_unknown(dotted)} "
            "It guards who may do what, so it is not passed over; correct or delete that line."
        )
    else:
        findings.warnings.append(f"{where}: {explain_unknown(dotted)} It has no effect.")


def _plain_problem(error: Any, text: str) -> str:
    problem = str(error.problem or error.context or "")
    duplicate = re.match(r'found duplicate key "([^"]*)"', problem)
    if duplicate:
        return f"{duplicate[1]} is given twice; keep one"
    mark = error.problem_mark
    lines = text.splitlines()
    if "\\t" in problem or (mark and mark.line < len(lines) and re.match(r" *\t", lines[mark.line])):
        return "a tab, where YAML wants spaces"
    if "single document" in str(error.context) + problem:
        return "a second document begins here (---), but one file holds one"
    # Quoted pieces of the file are dropped: any of them could be a secret.
    said = re.sub(r"""\s*(["']).*\1""", "", _SAFE_QUOTE.sub(r"`\2`", problem)).strip()
    hint = "; check the indentation and the quotes here and in the line above" if "<block" in said else ""
    return f"not valid YAML: {said}{hint}"
