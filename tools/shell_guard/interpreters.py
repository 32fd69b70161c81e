"""Shells and interpreters. A shell's text is read like any command; code in another language asks, unread."""

import functools
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.options import read_leading
from tools.shell_guard.programs import lines_of

_SHELL = re.compile(
    r"r?(?:ba|da|z|k|mk|pdk|fi|a|c|tc|ya|elvi|n|xon|osh|oi)?sh(?:-[\d.]+)?|nu|osh|pwsh|powershell(?:\.exe)?"
)
_FOREIGN = re.compile(r"elvish|nu|xonsh|pwsh|powershell(?:\.exe)?|t?csh")  # shells with a grammar of their own
_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)", re.DOTALL)
_SHOWS = frozenset({"-h", "--help", "--version", "-V"})  # options with which it runs nothing
_UNREAD = ask("unread-code", "it runs what nobody has read")
_RUN_TIME = ask("run-time-script", "which script it runs is decided only when it runs")


@dataclass(frozen=True, slots=True)
class ShellText:
    """A script that a shell reads; `is_here` when it is the same shell, with the same variables."""

    text: str
    is_here: bool = False


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """A file that is run; of interest when it was written just now."""

    path: str
    is_shell: bool = False


class _Language(NamedTuple):
    programs: re.Pattern[str]
    values: tuple[str, ...]  # options that take one
    code: re.Pattern[str]  # options that hold code


@functools.cache
def _languages() -> list[_Language]:
    """Return all of them, Python first."""
    return [
        _Language(re.compile(line.names[0]), tuple(line.names[1:]), re.compile(line.pattern, re.DOTALL))
        for line in lines_of("interpreters")
    ]


def interpret(run: Run) -> Iterator["ShellText | ScriptFile | CommandRisk"]:
    """Yield what a shell or an interpreter would run; nothing for any other program."""
    if is_shell(run.name):
        yield from _shell(run)
    elif language := language_of(run.name):
        yield from _program(run, language)


def is_shell(name: str) -> bool:
    return _SHELL.fullmatch(name) is not None


@functools.lru_cache(maxsize=1024)
def language_of(name: str) -> _Language | None:
    return next((language for language in _languages() if language.programs.fullmatch(name)), None)


def is_interpreter(name: str) -> bool:
    return is_shell(name) or language_of(name) is not None


def _shell(run: Run) -> Iterator["ShellText | ScriptFile | CommandRisk"]:
    options = read_leading(
        [word for word in run.words if not re.fullmatch(r"\+\w+", word)], "-o -O --rcfile --init-file"
    )
    for path in options.values("--rcfile", "--init-file"):
        yield ask("start-up-file", f"its shell first runs {path}")
    rest = options.rest
    if options.has("-c", "--command", "-C", "--init-command", "-Command", "-EncodedCommand"):
        if _FOREIGN.fullmatch(run.name) or not rest or rest[0].startswith("-"):
            yield ask("unreadable", "it cannot be said what its shell runs")
        else:
            yield ShellText(rest[0])
    elif options.has("--help", "--version"):
        return
    elif rest and rest[0] != "-" and not options.has("-s"):
        yield _file(rest[0], is_shell=not _FOREIGN.fullmatch(run.name))
    elif run.stdin is not None:
        yield _UNREAD if UNKNOWN in run.stdin or _FOREIGN.fullmatch(run.name) else ShellText(run.stdin)


def _program(run: Run, language: _Language) -> Iterator["ShellText | ScriptFile | CommandRisk"]:
    """Find the code or the file that an interpreter runs.

    The first word that is no option is a file; behind an unknown long option it may be the value of that."""
    words, is_unsure, place = run.words, False, 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word = words[place]
        given = f"{word}={words[place + 1]}" if word in language.values and place + 1 < len(words) else word
        if language.code.fullmatch(given):
            yield _inline(run)
            return
        if _MODULE.fullmatch(word) and language is _languages()[0]:
            return  # it is looked at under its own name
        is_unsure = is_unsure or (word.startswith("--") and "=" not in word and word not in language.values)
        place += 2 if word in language.values else 1
    rest = words[place:]
    if run.name in ("deno", "bun") and rest[:1] == ("run",):
        yield from _program(replace(run, words=rest[1:]), language)
        return
    if rest[:1] in (("eval",), ("exec",)) or (is_unsure and any(map(language.code.fullmatch, rest))):
        yield _inline(run)
        return
    path = "".join(rest[:1])
    if path not in ("", "-"):
        yield _file(path)
        if any(word.startswith("|") or word.rstrip().endswith("|") for word in rest):  # a command for perl and ruby
            yield _UNREAD
    elif run.stdin is not None and not _SHOWS & set(words):
        yield ask("interpreter-code", f"{run.name} runs its input, which nobody reads here", run.name)


def _inline(run: Run) -> CommandRisk:
    return ask("interpreter-code", f"{run.name} runs code of the command line, which nobody reads here", run.name)


def module_of(run: Run) -> tuple[str, ...]:
    """Return `python -m pip …` as `pip …`, and `python manage.py …` as `manage.py …`; empty for others."""
    if language_of(run.name) is not _languages()[0]:  # Python
        return ()
    for place, word in enumerate(run.words):
        if found := _MODULE.fullmatch(word):
            behind = run.words[place + 1 :]
            words = (found[1], *behind) if found[1] else behind
            return (words[0].partition(".")[0], *words[1:]) if words else ()
        if not word.startswith("-"):
            return (posixpath.basename(word), *run.words[place + 1 :])
    return ()


def _file(path: str, *, is_shell: bool = False) -> "ScriptFile | CommandRisk":
    return _RUN_TIME if UNKNOWN in path else ScriptFile(path, is_shell)
