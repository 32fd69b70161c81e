"""Find hooks in folders and check them without running any of their code.

A hook is a folder with HOOK.yaml and either handler.py or a `command:`. A broken one is listed with file and line, and
never run.
"""

import ast
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hermes_config.config_file import parse
from hermes_config.errors import ConfigError
from hermes_config.ownership import find_stranger
from hooks.events import EVENTS, is_event

DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 10.0, 3_600.0
BUILTIN = Path(__file__).parent / "builtin"
_NEEDED = {"boot": "BOOT.md"}  # a bundled hook without its file in the home is not even read
_KEYS = ("name", "description", "events", "timeout", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    name: str
    folder: Path
    description: str = ""
    events: tuple[str, ...] = ()  # with wildcards
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    command: tuple[str, ...] = ()  # empty: handler.py
    bundled: bool = False
    enabled: bool = True
    problem: str = ""  # why it is not run; names file and line

    @property
    def is_usable(self) -> bool:
        return self.enabled and not self.problem


class _Broken(Exception):
    """The text says what is wrong, and where."""


def find_hooks(home: Path, disabled: Collection[str], *, only_usable: bool = False) -> list[Hook]:
    """Return the hooks of a home and the bundled ones. With `only_usable`, what is switched off is not even read."""
    folders = [(one, False) for one in _subfolders(home / "hooks")]
    folders += [(one, True) for one in _subfolders(BUILTIN)]
    found: dict[str, Hook] = {}
    for folder, bundled in folders:
        needed = _NEEDED.get(folder.name) if bundled else None
        if only_usable and (folder.name in disabled or (needed and not (home / needed).exists())):
            continue
        hook = load_hook(folder, bundled=bundled)
        if hook.name in found:
            problem = f"{folder}: {found[hook.name].folder} has the same name; rename one of them"
            hook = replace(hook, name=f"{hook.name} (second)", problem=problem)
        found[hook.name] = replace(hook, enabled=hook.name not in disabled)
    return [hook for hook in found.values() if hook.is_usable or not only_usable]


def load_hook(folder: Path, *, bundled: bool = False) -> Hook:
    """Read a hook; a problem is part of the result."""
    broken = Hook(name=folder.name, folder=folder, bundled=bundled)
    try:
        return replace(_read(folder, check_owner=not bundled), bundled=bundled)
    except _Broken as error:
        return replace(broken, problem=str(error))
    except ConfigError as error:
        return replace(broken, problem=str(error).rstrip("."))
    except OSError as error:
        return replace(broken, problem=f"{error.filename or folder}: {(error.strerror or str(error)).lower()}")


def _subfolders(folder: Path) -> Sequence[Path]:
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith((".", "_")))
    except FileNotFoundError:
        return ()


def _read(folder: Path, *, check_owner: bool) -> Hook:
    file = folder / "HOOK.yaml"
    if not file.is_file():
        raise _Broken(f"{folder}: there is no HOOK.yaml")
    handler = folder / "handler.py"
    for path in (folder, file, handler):
        if check_owner and path.exists() and (problem := find_stranger(path)):
            raise _Broken(problem)
    try:
        document = parse(file.read_text(encoding="utf-8"), file)
    except UnicodeDecodeError as error:
        raise _Broken(f"{file}: is not text in UTF-8") from error
    hook = _check(document, file)
    if not hook.command:
        _check_handler(handler)
    return hook


def _check(document: dict[Any, Any], file: Path) -> Hook:
    def fail(key: str, problem: str) -> _Broken:
        lines = getattr(document, "lc", None)
        line = f" line {lines.key(key)[0] + 1}" if lines is not None and key in document else ""
        return _Broken(f"{file}{line}: {problem}")

    for key in document:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1)
            raise fail(key, f"unknown key {key!r}{f'; did you mean {near[0]!r}?' if near else ''}")
    name = document.get("name", file.parent.name)
    if name != file.parent.name:
        raise fail("name", f"must be the name of the folder, {file.parent.name!r}")
    given = document.get("events", ())
    events = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
    if not events:
        raise fail("events", "`events` must list at least one event, such as agent:end")
    for event in events:
        if not isinstance(event, str) or not is_event(event):
            near = get_close_matches(str(event), EVENTS, n=1)
            raise fail("events", f"there is no event {event!r}{f'; did you mean {near[0]}?' if near else ''}")
    timeout = document.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT_SECONDS:
        raise fail("timeout", f"`timeout` must be a number of seconds up to {MAX_TIMEOUT_SECONDS:.0f}")
    return Hook(
        name=name,
        folder=file.parent,
        description=str(document.get("description") or ""),
        events=events,
        timeout_seconds=float(timeout),
        command=_split_command(document.get("command", ""), fail),
    )


def _split_command(given: Any, fail: Any) -> tuple[str, ...]:
    try:
        words = shlex.split(given) if isinstance(given, str) else [str(word) for word in given]
    except (ValueError, TypeError):
        raise fail("command", "`command` must be a command line or a list of words") from None
    return tuple(words)


def _check_handler(handler: Path) -> None:
    if not handler.is_file():
        raise _Broken(f"{handler.parent}: there is neither handler.py nor a `command:` in HOOK.yaml")
    try:
        tree = ast.parse(handler.read_bytes(), handler.name)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _Broken(f"{handler}{line}: {words}") from error
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if "handle" not in functions:
        raise _Broken(f"{handler}: there is no function `handle(event_type, context)`")
