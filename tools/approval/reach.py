"""Tell which addresses a command names, and whether it sends anything there. Nothing else is predicted."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.shell_guard.programs import listed, pattern_of

_FETCHERS = frozenset({"curl", "wget", "http", "https", "xh", "aria2c", "axel"})
_QUIET = pattern_of("fetcher-options", "quiet")
_WITH_VALUE = pattern_of("fetcher-options", "with-value")
_ACCEPTS = re.compile(r"(?i)accept(?:-language)?:|user-agent: [\w./ -]{0,40}$")
_REMOTE_WORD = re.compile(r"(?!-)[\w./-]+|--(?:rebase|prune|all|tags|ff-only|quiet)|-[pqtv]")
# Addresses that git is told to use from then on, which later commands contact by a name.
_KEPT = re.compile(r"(?i)^url\.(.+)\.(?:push)?insteadof$|(?:://|@)([^/:\s]+)")
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://|[^/@\s]+@[\w.-]+|[\w.-]+\.[A-Za-z]{2,}(?:[:/]|$)|\d+\.\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The addresses that a command names; without any, it cannot be known whom it contacts."""

    program: str
    addresses: tuple[str, ...] = ()
    sends: bool = False


def reach_of(argv: Sequence[str]) -> Reach | None:
    """Return whom a command contacts; None when it names nobody and is no program of the network."""
    name, words = posixpath.basename(argv[0]), list(argv[1:])
    if name == "git":
        return _git(words)
    addresses = tuple(word for word in words if not word.startswith("-") and _ADDRESS.match(word.rpartition("=")[2]))
    if name in _FETCHERS:
        return _fetch(name, words)
    if name in ("ssh", "mosh", "ping", "dig", "host", "nslookup", "traceroute", "whois"):
        named = [word for word in words if not word.startswith("-")][:1]
        return Reach(program=name, addresses=tuple(dict.fromkeys((*named, *addresses))))
    if name in ("rsync", "scp") and not any(":" in word for word in words):
        return None
    if name in listed("sends"):
        return Reach(program=name, addresses=addresses, sends=True)
    if {"publish", "push", "upload", "deploy"}.intersection(words[:2]) and name in listed("contacts"):
        return Reach(program=name, sends=True)
    if name in listed("contacts") and not listed("stays-here").intersection(words[:1]):
        return Reach(program=name, addresses=addresses)
    spelled = tuple(
        word for word in words if re.match(r"(?:--?[\w-]+=)?[A-Za-z][\w+.-]*://(?!$)", word) and "file://" not in word
    )
    return Reach(program=name, addresses=spelled) if spelled else None


def _fetch(name: str, words: list[str]) -> Reach | None:
    """Return the addresses of a fetcher; anything else that it tells the host counts as sent."""
    addresses, sends, waiting = list[str](), False, ""
    for word in words:
        if waiting:
            sends = sends or (waiting in ("-H", "--header") and not _ACCEPTS.match(word))
            waiting = ""
        elif word in ("-H", "--header") or _WITH_VALUE.fullmatch(word):
            waiting = word
        elif not word.startswith("-"):
            addresses.append(word)
        elif not _QUIET.fullmatch(word) and not re.match(r"--(?:output\S*|max-time|retry|timeout)=|-o\S", word):
            sends = True
    if {"--version", "--help"} & set(words) or not words:
        return None
    spelled = [word for word in addresses if "://" in word] if sends else []  # the others may be values of options
    return Reach(program=name, addresses=tuple(spelled or addresses), sends=sends)


def _git(words: list[str]) -> Reach | None:
    while words[:1] and words[0].startswith("-"):
        words = words[2:] if words[0] in ("-C", "-c") else words[1:]
    action, *rest = words or [""]
    addresses = tuple(word for word in rest if _ADDRESS.search(word))
    match action:
        case "push" | "send-email" | "send-pack":
            return Reach(program="git", addresses=addresses, sends=True)
        case "fetch" | "pull" if all(_REMOTE_WORD.fullmatch(word) for word in rest):
            return None  # a remote that the repository knows by name
        case "clone" | "fetch" | "pull" | "ls-remote" | "archive":
            return Reach(program="git", addresses=addresses)
        case "remote" | "submodule" | "config" if "user.email" not in rest:
            kept = [found[1] or found[2] for word in rest if (found := _KEPT.search(word))]
            return Reach(program="git", addresses=tuple(kept)) if kept else None
        case _:
            return None
