"""Commands that run other commands, and the commands that each of them would run.

The options of such programs are too many to know, so the command may begin at any of the first words, up to the first
one that is known to be a program.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.shell_guard.expansion import CHANNEL, UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.interpreters import ScriptFile, ShellText, interpret, is_interpreter
from tools.shell_guard.options import read, read_leading
from tools.shell_guard.programs import has_dangers, listed, value_of


@dataclass(frozen=True, slots=True)
class Argv:
    """Another command, word by word."""

    words: tuple[str, ...]


Inner = Argv | ShellText | ScriptFile | CommandRisk

_SCRIPTS = "-c --command --session-command"  # options of su and its like
_LOOKS_ONLY = {"command": "-v -V", "sudo": "-l --list -v --validate -K -V"}
_SSH_OPTIONS = "-p -i -l -o -F -J -L -R -D -W -w -b -c -e -m -O -Q -S -E -I -B"  # those with a value
_ASSIGNMENT = re.compile(r"([^=]*)=(.*)", re.DOTALL)  # env takes any name
_NUMBER = re.compile(r"[\d.]+[smhdk]?|0x\w+")
_PUT_IN = re.compile(r"\{[^ }]{0,4}\}")
_EXEC = re.compile(r"-(?:exec|ok)(?:dir)?|-[HILasigulpq01]*[xX]|--exec(?:-batch)?(?:=(.*))?", re.DOTALL)
RUN_TIME_NAME = ask("run-time-command", "which command it runs is decided only when it runs")
_MOST_WORDS = 12  # of a program that are looked at
# Whatever is named so among the words of a program that nobody here knows is judged from there on.
_SUSPECTS = listed("suspects")
_NAMED = "|".join(sorted(map(re.escape, _SUSPECTS), key=len, reverse=True))
_SCRIPT_IN_WORD = re.compile(rf"(?:^|[;&|(\n=])[ \t]*(?:[\w./-]*/)?(?:{_NAMED})[\d.]*[ \t]")


def unwrap(run: Run) -> Iterator[Inner]:
    """Yield the commands that the command itself would run."""
    if run.name in listed("wrappers"):
        yield from _after(run)
    elif special := _SPECIAL.get(run.name):
        yield from special(run)
    elif files := value_of("program-files", run.name):
        yield from (ScriptFile(path) for path in read(run.words, files).values(*files.split()))
    elif is_interpreter(run.name):
        yield from interpret(run)
    elif run.name not in listed("texts") and not listed("package-words").intersection(run.words[:2]):
        yield from _find_suspects(run.words)


def is_wrapper(name: str) -> bool:
    return name in listed("wrappers") or name in _SPECIAL


def variables_before(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the variables that `env` and its like set for the command behind them."""
    if run.name in ("env", "sudo", "genv"):
        for word in run.words:
            if found := _ASSIGNMENT.fullmatch(word):
                yield found[1], found[2]
            elif not word.startswith("-"):
                return


def _after(run: Run) -> Iterator[Inner]:
    words = run.words[1:] if run.name == "perf" else run.words  # its first word is what it does
    if set(words[:1]) & set(_LOOKS_ONLY.get(run.name, "").split()):
        return
    if run.name in ("env", "genv") and any(re.match(r"-[iv0]*S|--s", word) for word in words):
        yield ask("run-time-script", "env -S splits a text into a command by rules of its own")
    if run.name in ("xargs", "gxargs", "parallel", "sem", "rush"):
        words = _fill_in(words)
        if not words:
            yield RUN_TIME_NAME
    if run.name in ("su", "runuser", "sg", "newgrp", "script", "flock"):
        yield from map(ShellText, read(words, _SCRIPTS).values(*_SCRIPTS.split()))
    candidates = list(_candidates(tuple(word for word in words if word != "--")))
    yield from candidates
    is_login = run.name in ("sudo", "doas") and {"-s", "-i", "--shell", "--login"} & set(words)
    is_fed = run.name in ("su", "newgrp", "script") and run.stdin is not None
    if (is_login and not candidates) or (is_fed and len(candidates) < 2):
        yield Argv(("sh",))


def _candidates(words: tuple[str, ...]) -> Iterator[Inner]:
    """Yield the command from each word at which it may begin: one behind an option may be that option's value."""
    is_first, before = True, ""
    for place, word in enumerate(words[:_MOST_WORDS]):
        is_value, before = before.startswith("-"), word
        if word.startswith("-") or _NUMBER.fullmatch(word) or (is_first and _ASSIGNMENT.fullmatch(word)):
            continue
        if " " in word:
            yield ShellText(" ".join(words[place:]).replace(UNKNOWN, '"${_}"'))
            return
        if UNKNOWN in word:
            yield from [RUN_TIME_NAME] if is_first else []
            return
        yield Argv(words[place:])
        if is_command(word) and not is_value:
            return
        is_first = False


def is_command(word: str) -> bool:
    is_named = word in listed("harmless") or word in listed("texts") or has_dangers(word)
    return "/" in word or is_named or is_wrapper(word) or is_interpreter(word)


def _fill_in(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of xargs or parallel, with what it puts in as unknown; empty when its input is the command."""
    given = next((place for place, word in enumerate(words) if word.startswith(":::")), len(words))
    options = read_leading(words[:given], "-I -J -n -P -L -d -a -E -s -j -N")
    marks = "|".join((_PUT_IN.pattern, *(re.escape(mark) for mark in options.values("-I", "-J") if mark)))
    command = tuple(re.sub(marks, UNKNOWN, word) for word in options.rest)
    return (*command, UNKNOWN) if command else ()


def _find_suspects(words: tuple[str, ...]) -> Iterator[Inner]:
    for place, word in enumerate(words[:_MOST_WORDS]):
        name = word.rpartition("/")[2]
        if name in _SUSPECTS or name.rstrip("0123456789.") in _SUSPECTS or name.startswith("mkfs."):
            yield Argv(words[place:])
            return
        if (
            " " in word
            and not (place and words[place - 1] in listed("message-options"))
            and _SCRIPT_IN_WORD.search(f"{word} ")
        ):
            yield ShellText(word.rpartition("=")[2] if re.match(r"-{0,2}[\w.-]+=", word) else word)


def _find(run: Run) -> Iterator[Inner]:
    """Yield the commands of find and fd, which adds what it has found."""
    for place, word in enumerate(run.words):
        if found := _EXEC.fullmatch(word):
            rest = (*filter(None, found.groups()), *run.words[place + 1 :])
            end = next((at for at, one in enumerate(rest) if one in (";", "+")), len(rest))
            added = ("{}",) if run.name in ("fd", "fdfind") else ()
            yield Argv(tuple(_PUT_IN.sub(UNKNOWN, one) for one in (*rest[:end], *added)))


def _container(run: Run) -> Iterator[Inner]:
    """Yield the command inside of a container, which follows the name of an image or a pod, among options."""
    starts = [place for place, word in enumerate(run.words) if word in ("run", "exec", "create", "debug")]
    if starts:
        yield from _find_suspects(run.words[starts[0] + 1 :])


def _ssh(run: Run) -> Iterator[Inner]:
    """Yield the command for the other machine. Options may stand before and behind its name."""
    rest = read_leading(read_leading(run.words, _SSH_OPTIONS).rest[1:], _SSH_OPTIONS).rest
    if rest:
        yield ShellText(" ".join(rest))


def _texts(run: Run) -> Iterator[Inner]:
    """Yield what eval, trap and alias run in this very shell."""
    words = read_leading(run.words).rest
    if run.name == "alias":
        yield from (ShellText(word.partition("=")[2], is_here=True) for word in words if "=" in word)
    elif run.name == "eval":
        yield ShellText(" ".join(words), is_here=True)
    elif len(words) > 1 and words[0] != "-":
        yield ShellText(words[0], is_here=True)


def _source(run: Run) -> Iterator[Inner]:
    for path in read(run.words).rest[:1]:
        if path == UNKNOWN or path.startswith(CHANNEL):
            yield ask("run-time-script", "which script it runs is decided only when it runs")
        else:
            yield ScriptFile(path, is_shell=True)


_SPECIAL: dict[str, Callable[[Run], Iterator[Inner]]] = {
    **dict.fromkeys(("find", "gfind", "fd", "fdfind"), _find),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc"), _container),
    "ssh": _ssh,
    **dict.fromkeys(("eval", "trap", "alias"), _texts),
    **dict.fromkeys(("source", "."), _source),
}
