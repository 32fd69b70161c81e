"""One value changed in the text of config.yaml, every other character left as its author wrote it."""

import json
import re
from pathlib import Path
from typing import Any

from hermes_config.errors import ConfigError
from hermes_config.settings import CONFIG_VERSION
from hermes_config.yaml_file import VERSION_KEY, check_version, parse

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# Words that YAML, in one of its versions, takes for something other than text.
RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def with_value(text: str, path: Path, dotted: str, value: object) -> str:
    """The new text; ConfigError, naming the file, where the old one is broken or written too cleverly."""
    before = parse(text, path)
    check_version(before, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not before:
        after = _appended(text, f"{VERSION_KEY}: {CONFIG_VERSION}{newline}", newline)
        after = _appended(after, _block(dotted.split("."), _rendered(value), "", newline), newline)
    else:
        after = _edited(text, path, dotted, _rendered(value), newline)
    if not _differs_only_there(before, after, path, dotted, value):
        raise ConfigError(f"{path} is written in a way that is not safe to change here; edit {dotted} by hand.")
    return after


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


def _differs_only_there(before: dict[Any, Any], after: str, path: Path, dotted: str, value: object) -> bool:
    """Anchors and merges can make one line speak for several keys; then the edit is refused."""
    wanted = _plain(before)
    *sections, leaf = dotted.split(".")
    target = wanted
    for name in sections:
        target[name] = target.get(name) or {}
        target = target[name]
    target[leaf] = _plain(value)
    try:
        found = _plain(parse(after, path))
    except ConfigError:
        return False
    found.pop(VERSION_KEY, None)
    wanted.pop(VERSION_KEY, None)
    return bool(found == wanted)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
