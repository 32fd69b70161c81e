"""Which files matter: secrets, what a shell or the system runs by itself, and the system itself."""

import fnmatch
import functools
import posixpath
import re
from collections.abc import Iterable, Iterator

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.programs import listed, pattern_of

_HARMLESS = pattern_of("paths", "harmless")
_SYSTEM = pattern_of("paths", "system")
_HARMLESS_DEVICE = pattern_of("paths", "harmless-device")
_DISK = pattern_of("paths", "disk")
_SINGLE = re.compile(r"\[([^]!^\[])\]")  # [s]hadow is shadow
_MAX_PARTS = 64
_MAX_NAME_CHARS = 255
_NOT_NORMAL = re.compile(r"/\.{0,2}(?:/|$)|^\.{1,2}(?:/|$)")
_UNSURE = re.compile(r"[*?\[\x00]")
_HINT = pattern_of("paths", "hint")
_HOME = re.compile(r"~\w*|/root|/(?:home|Users)/[^/]+")
_EVERYTHING = pattern_of("paths", "everything")
_TEMPORARY = pattern_of("paths", "temporary")


def locate(path: str, folder: str, home: str) -> str:
    """Return a path as absolute, or from `~`, as far as that is known; the home is `~`."""
    path = path if path.startswith(("/", "~", UNKNOWN)) else f"{folder or UNKNOWN}/{path}"
    path = _normal(path) if path else path
    known_home = home.rstrip("/")
    if known_home not in ("", "~") and (path == known_home or path.startswith(f"{known_home}/")):
        return "~" + path[len(known_home) :]
    return path


def locate_scope(word: str, folder: str, home: str) -> str:
    """Return the place that a yes would be for: absolute where that is known, `…` for what is not."""
    path = word if word.startswith(("/", "~", UNKNOWN)) else f"{folder or UNKNOWN}/{word}"
    if path.startswith("~") and home not in ("", "~"):
        path = UNKNOWN + path[1:]  # the home is written out by now: this is a file named so, or another's home
    return _normal(path).replace(UNKNOWN, "…")


def _normal(path: str) -> str:
    if not _NOT_NORMAL.search(path):  # as most are
        return path
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal  # which it leaves at the front, as POSIX has it


def secret_in(path: str) -> bool:
    """Return whether a located path, which may hold patterns, may be a secret."""
    return not _HARMLESS.search(path) and _fits(path, "secrets")


def runs_by_itself(path: str) -> bool:
    return _fits(path, "run-by-themselves")


def is_system(path: str) -> bool:
    return bool(_SYSTEM.match(path)) and not _HARMLESS_DEVICE.match(path)


def is_disk(path: str) -> bool:
    return bool(_DISK.match(path))


def is_nothing(path: str) -> bool:
    """Return whether it is a device that takes everything and keeps nothing."""
    return bool(_HARMLESS_DEVICE.match(path))


def is_temporary(path: str) -> bool:
    return bool(_TEMPORARY.match(path)) and ".." not in path


def is_everything(path: str, home: str = "") -> bool:
    """Return whether a path is a whole system or home, which nothing should ever delete or change."""
    if home.startswith("/") and f"{home.rstrip('/')}/".startswith(f"{path.rstrip('/')}/"):
        return True  # the home is in it
    parts = path.split("/")
    while len(parts) > 1 and re.fullmatch(r"\*|\.\*|\{.*\}|\.", parts[-1]):
        parts.pop()
    return bool(_EVERYTHING.fullmatch("/".join(parts) or "/"))


def is_home(path: str) -> bool:
    return bool(_HOME.fullmatch(path))


def holds_secrets(path: str) -> bool:
    """Return whether a folder holds secrets, if it is read with all that is in it."""
    return is_home(path) or path in ("/", "/home", "/Users", "~/.config") or secret_in(path)


def is_settings(path: str) -> bool:
    """Return whether it is `.env` or its like, which a project reads: secret, but nothing that runs."""
    return bool(re.search(r"/\.env(?:\.\w+)*$", path)) and not runs_by_itself(path)


def find_filled(target: str, sources: Iterable[str], *, is_for_home: bool) -> Iterator[str]:
    """Yield the paths that copied files would get, if the target is a folder."""
    yield f"{target}/{UNKNOWN}"
    for source in sources:
        name = posixpath.basename(source.rstrip("/"))
        # A copy of ~/.bashrc that is kept somewhere else is no start-up file.
        if name and (is_for_home or not runs_by_itself(f"/{UNKNOWN}/{name}")):
            yield from (f"{target}/{name}", f"{target}/{name}/{UNKNOWN}")


def find_paths(word: str) -> Iterator[str]:
    """Yield the paths that may be inside of a word: itself, and what follows `=`, `@`, `:` or an option's letter."""
    yield word
    yield from (part for part in re.split(r"[=@:,]", word)[1:] if part)
    if re.match(r"-\w[/~.]", word):
        yield word[2:]


def may_be_below(path: str, folder: str) -> bool:
    """Return whether a located path, which may hold patterns, may be a folder or below it."""
    if not _UNSURE.search(path):
        return f"{path}/".startswith(f"{folder}/")
    given, wanted = path.split("/"), folder.split("/")
    pairs = zip(wanted, given, strict=False)
    return len(given) >= len(wanted) and all(
        fnmatch.fnmatchcase(one, part.replace(UNKNOWN, "*")) for one, part in pairs
    )


def _fits(path: str, section: str) -> bool:
    if not _HINT.search(path):
        return False
    if not _UNSURE.search(path, 1):  # the folder in front may be unknown
        return _together(section).search(path) is not None
    return _may_fit(_SINGLE.sub(r"\1", path), section)


@functools.cache
def _together(section: str) -> re.Pattern[str]:
    """Return all patterns as one expression, for paths without patterns of their own."""
    wanted = [re.escape(pattern).replace(r"\*\*/", "(?:^|/)").replace(r"\*", "[^/]*") for pattern in listed(section)]
    return re.compile(f"(?:{'|'.join(one if one[0] == '(' else f'^{one}' for one in wanted)})(?:/|$)")


@functools.lru_cache(maxsize=1024)
def _may_fit(path: str, section: str) -> bool:
    parts = [part for part in path.split("/") if part not in ("", "~")]
    if len(parts) > _MAX_PARTS or any(len(part) > _MAX_NAME_CHARS for part in parts):
        return True  # no path looks like that, and comparing it would take long
    for pattern in listed(section):
        wanted = pattern.removeprefix("**/").lstrip("~/").split("/")
        spots = range(len(parts)) if pattern[0] == "*" else range(path.startswith(pattern[0]))
        if any(_all_fit(parts[spot:], wanted) for spot in spots):
            return True
    return False


def _all_fit(parts: list[str], wanted: list[str]) -> bool:
    """Return whether parts may be those of a secret. With named folders a mere `*` for the file is enough, and
    the other way round."""
    if len(parts) < len(wanted):
        return False
    *folders, last = zip(parts, wanted, strict=False)
    if not all(_may_be(part, one) for part, one in folders):
        return False
    is_named = bool(folders) and not any(map(_UNSURE.search, parts[: len(folders)]))
    return _may_be(*last) and (is_named or _is_telling(*last))


@functools.lru_cache(maxsize=4096)
def _may_be(part: str, wanted: str) -> bool:
    if not _UNSURE.search(part):
        return fnmatch.fnmatchcase(part, wanted)
    if part[0] in "*?[" and wanted[0] == ".":  # a shell's pattern leaves out what begins with a dot
        return False
    likely = wanted.replace("id_*", "id_rsa").replace("*", "")
    return wanted == "*" or fnmatch.fnmatchcase(likely, part.replace(UNKNOWN, "*"))


def _is_telling(part: str, wanted: str) -> bool:
    """Return whether a pattern tells most of a name: `*.json` may be anything, `.e*` and `*hadow` do."""
    if not _UNSURE.search(part) or wanted == "*":
        return True
    begins = re.split(r"[*?\[\x00]", part, maxsplit=1)[0]
    begins_alike = len(begins) > 1 or begins == "."
    letters = len(re.sub(r"\[[^]]*\]|[*?\x00]", "", part))
    return begins_alike or (UNKNOWN not in part and letters * 2 > len(wanted))
