"""Reading one word as a network address. Where programs could read it in two ways, its host is not known."""

import re
from dataclasses import dataclass

from tools.shell_guard.expansion import UNKNOWN

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")
_COPIED = re.compile(r"(?:([^/@:\s]+)@)?(\[[0-9A-Fa-f:.]+\]|[^/:@\s]{2,}):(?!//)(.*)", re.DOTALL)
_IS_LOCAL = re.compile(r"(?:/|\.{1,2}(?:/|$)|~|file:)")


@dataclass(frozen=True, slots=True)
class HostAddress:
    host: str  # empty when it cannot be known
    has_more: bool  # than a host and a port


def has_scheme(word: str) -> bool:
    return _SCHEME.match(word) is not None


def is_local(word: str) -> bool:
    """A path of this machine."""
    return _IS_LOCAL.match(word) is not None


def address_of(word: str) -> HostAddress:
    """Of `https://host/path`, `host:port`, `user@host`."""
    found = _SCHEME.match(word)
    authority, *rest = re.split(r"[/?#]", word[found.end() if found else 0 :], maxsplit=1)
    before, at, host = authority.rpartition("@")
    has_more = bool(at) or any(rest) or UNKNOWN in word
    is_plain = "@" not in before and UNKNOWN not in authority and not re.search(r"[\\\s]", word)
    return HostAddress(known_host(re.sub(r":\d*$", "", host)) if is_plain else "", has_more)


def copied(word: str) -> HostAddress | None:
    """Of `user@host:path` and `rsync://host/path`; None for a path of this machine."""
    if has_scheme(word):
        return None if is_local(word) else HostAddress(address_of(word).host, has_more=True)
    if is_local(word):
        return None
    if found := _COPIED.fullmatch(word):
        return HostAddress(known_host(found[2]), has_more=True)
    return HostAddress("", has_more=True) if UNKNOWN in word.partition("/")[0] else None


def known_host(name: str) -> str:
    """As names are compared: in small letters, without the dot of the root. Empty when it is none."""
    lowered = name.lower().removesuffix(".")
    is_number = lowered.isdigit()  # an address written in another way, or no host at all
    return lowered.strip("[]") if _HOST.fullmatch(lowered) and not is_number else ""
