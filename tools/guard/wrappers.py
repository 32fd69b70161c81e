"""Commands that run other commands: what each of them would run."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tools.guard.expansion import UNKNOWN
from tools.guard.findings import Finding, Run, ask
from tools.guard.names import names
from tools.guard.options import read, read_around_first

Origin = Literal["command", "file", "project"]


@dataclass(frozen=True, slots=True)
class Argv:
    """Another command, word by word."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShellText:
    """A script that a shell reads; `is_here` when it is the same shell, with the same variables."""

    text: str
    is_here: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """A program in another language: given with the command, in a file, or of a project that is run as a whole."""

    language: str
    text: str
    origin: Origin = "command"


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """A file that is run; of interest when it was written before."""

    language: str
    path: str
    is_project: bool = False  # one of many that a program may load


Inner = Argv | ShellText | Code | ScriptFile | Finding


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A command that is followed by another one."""

    with_value: str = ""
    own_words: int = 0  # of its own, before the other command
    sets_variables: bool = False
    looks_only: str = ""  # options with which it runs nothing
    is_loose: bool = False  # its options are too many to know: the other command may begin at any word


_PREFIXES = {
    **dict.fromkeys(("nohup", "setsid", "builtin", "coproc", "!", "fakeroot", "busybox", "toybox"), _Prefix()),
    **dict.fromkeys(
        ("unbuffer", "rlwrap", "torsocks", "proxychains", "proxychains4", "pkexec", "caffeinate"), _Prefix()
    ),
    "time": _Prefix("-f --format -o --output"),
    "command": _Prefix(looks_only="-v -V"),
    "exec": _Prefix("-a"),
    "env": _Prefix("-u --unset -C --chdir", sets_variables=True),
    "nice": _Prefix("-n --adjustment"),
    "ionice": _Prefix("-c --class -n --classdata -p --pid -P -u"),
    "stdbuf": _Prefix("-i --input -o --output -e --error"),
    "timeout": _Prefix("-s --signal -k --kill-after", own_words=1),
    "chrt": _Prefix("-T -P -D", own_words=1),
    "taskset": _Prefix(own_words=1),
    "numactl": _Prefix("-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred"),
    "chroot": _Prefix(own_words=1),
    "unshare": _Prefix("-S -G -R -w --root --wd --setuid --setgid", is_loose=True),
    "nsenter": _Prefix("-t --target -S -G --setuid --setgid", is_loose=True),
    **dict.fromkeys(
        names(
            "bwrap firejail systemd-run valgrind gdb proot setpriv capsh runcon chpst dbus-run-session xvfb-run "
            "aa-exec setarch linux32 linux64 eatmydata cpulimit prlimit start-stop-daemon daemonize cgexec trickle"
        ),
        _Prefix(is_loose=True),
    ),
    "strace": _Prefix("-e -o -p -s -E -u -P -S -a -b -I -O -X"),
    "ltrace": _Prefix("-e -o -p -s -u -l -n -a"),
    "perf": _Prefix("-e -o -F -p", own_words=1, is_loose=True),
    "sudo": _Prefix(
        "-u --user -g --group -h --host -p --prompt -C -D --chdir -R --chroot -T -r --role -t --type -U",
        sets_variables=True,
        looks_only="-l --list -v --validate -K -V",
    ),
    "doas": _Prefix("-u -C"),
}
SSH_OPTIONS = "-p -i -l -o -F -J -L -R -D -W -w -b -c -e -m -O -Q -S -E -I -B"  # those with a value
_MOST_CANDIDATES = 12
_LOADER = re.compile(r"ld-(?:linux|musl)[\w.-]*|ld\.so")
_XARGS = "-I -n -P -L -d -E -s -a --arg-file --max-args --max-procs --delimiter --max-chars"
_ASSIGNMENT = re.compile(r"([^=]*)=(.*)", re.DOTALL)  # env takes any name


def unwrap(run: Run) -> Iterator[Inner]:
    """What the command itself would run; nothing for one that runs no other."""
    prefix = _Prefix() if _LOADER.fullmatch(run.name) else _PREFIXES.get(run.name)
    if prefix is not None:
        yield from _after(run, prefix)
    elif special := _SPECIAL.get(run.name):
        yield from special(run)


def variables_before(run: Run) -> Iterator[tuple[str, str]]:
    """What `env` and its like set for the command behind them."""
    prefix = _PREFIXES.get(run.name)
    if prefix is None or not prefix.sets_variables:
        return
    for word in read(run.words, prefix.with_value, stops_at_first=True).rest:
        if not (found := _ASSIGNMENT.fullmatch(word)):
            return
        yield found[1], found[2]


def _after(run: Run, prefix: _Prefix) -> Iterator[Inner]:
    options = read(
        run.words, prefix.with_value + (" -S --split-string" if run.name == "env" else ""), stops_at_first=True
    )
    if options.has(*prefix.looks_only.split()):
        return
    for text in options.values("-S", "--split-string"):
        if run.name == "env":
            yield ShellText(" ".join((text, *options.rest)))
    rest = options.rest[prefix.own_words :]
    if prefix.sets_variables:
        while rest and _ASSIGNMENT.fullmatch(rest[0]):
            rest = rest[1:]
    # An option that is not known here may have taken the first word for its value.
    is_unsure = any(option.startswith("--") and not value for option, value in options.given)
    candidates = _MOST_CANDIDATES if prefix.is_loose else 2 if is_unsure else 1
    for place in range(min(candidates, len(rest))):
        yield Argv(rest[place:])
    if not rest and run.name in ("sudo", "doas") and options.has("-s", "-i", "--shell", "--login"):
        yield Argv(("sh",))


def _xargs(run: Run) -> Iterator[Inner]:
    options = read(run.words, _XARGS, stops_at_first=True)
    marks = [
        mark for mark in (*options.values("-I", "--replace"), "{}" if options.has("-i", "--replace") else "") if mark
    ]
    if not options.rest:
        return
    if marks:
        yield Argv(tuple(word.replace(marks[0], UNKNOWN) for word in options.rest))
    else:
        yield Argv((*options.rest, UNKNOWN))


def _find(run: Run) -> Iterator[Inner]:
    words = list(run.words)
    for place, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = words[place + 1 :]
            ends = [at for at, one in enumerate(rest) if one in (";", "+")]
            inner = rest[: ends[0]] if ends else rest
            yield Argv(tuple(one.replace("{}", UNKNOWN) for one in inner))


def _fd(run: Run) -> Iterator[Inner]:
    for place, word in enumerate(run.words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            yield Argv(tuple(re.sub(r"\{[./]{0,2}\}", UNKNOWN, one) for one in (*run.words[place + 1 :], "{}")))


def _parallel(run: Run) -> Iterator[Inner]:
    options = read(
        run.words, "-j --jobs -n -N -I -d --delimiter -a --arg-file --timeout --retries", stops_at_first=True
    )
    inner = options.rest
    given = [place for place, word in enumerate(inner) if word.startswith((":::", "::::"))]
    command = inner[: given[0]] if given else inner
    if not command:
        yield ask("run-time-command", "it runs commands that are decided when it runs")
        return
    yield Argv(tuple(re.sub(r"\{[^ }]{0,4}\}", UNKNOWN, word) for word in (*command, "{}")))


def _text_of_rest(with_value: str = "", own_words: int = 0) -> Callable[[Run], Iterator[Inner]]:
    """The words behind the options are one script."""

    def inner(run: Run) -> Iterator[Inner]:
        rest = read(run.words, with_value, stops_at_first=True).rest[own_words:]
        if rest:
            yield ShellText(" ".join(rest))

    return inner


def _text_of_option(with_value: str, *names: str) -> Callable[[Run], Iterator[Inner]]:
    """The value of an option is a script."""

    def inner(run: Run) -> Iterator[Inner]:
        options = read(run.words, with_value)
        texts = options.values(*names)
        yield from (ShellText(text) for text in texts)
        if run.name == "runuser" and options.has("-u"):
            yield Argv(options.rest)
        elif not texts and run.name in ("su", "runuser") and run.stdin is not None:
            yield Argv(("sh",))

    return inner


def _flock(run: Run) -> Iterator[Inner]:
    options = read(run.words, "-w --timeout -E --conflict-exit-code", stops_at_first=True)
    match options.rest:
        case [_, "-c" | "--command", text, *_]:
            yield ShellText(text)
        case [_, *rest] if rest:
            yield Argv(tuple(rest))


def _container(run: Run) -> Iterator[Inner]:
    """The command inside of a container: only what follows the image or the container's name."""
    match run.words:
        case ["run" | "exec" | "create", *words] | ["container", "run" | "exec" | "create", *words]:
            taken = (
                "-v --volume -e --env -w --workdir -u --user --name -p --publish --network --mount --entrypoint -l "
                "--label --env-file -h --hostname --platform --gpus -m --memory --cpus --shm-size --add-host --restart"
            )
            options = read(words, taken, stops_at_first=True)
            if options.rest[1:]:
                yield Argv(options.rest[1:])
            for entry in options.values("--entrypoint"):
                yield Argv((entry, *options.rest[1:]))


def _kubectl(run: Run) -> Iterator[Inner]:
    if "exec" in run.words and "--" in run.words:
        yield Argv(run.words[run.words.index("--") + 1 :])


def _sg(run: Run) -> Iterator[Inner]:
    yield from (ShellText(text) for text in run.words[1:][-1:])


def _eval(run: Run) -> Iterator[Inner]:
    words = run.words[1:] if run.words[:1] == ("--",) else run.words
    yield ShellText(" ".join(words), is_here=True)


def _trap(run: Run) -> Iterator[Inner]:
    words = read(run.words).rest
    if len(words) > 1 and words[0] != "-":
        yield ShellText(words[0], is_here=True)


def _source(run: Run) -> Iterator[Inner]:
    for path in read(run.words).rest[:1]:
        yield ScriptFile("sh", path)


def _alias(run: Run) -> Iterator[Inner]:
    for word in run.words:
        if "=" in word:
            yield ShellText(word.partition("=")[2], is_here=True)


def _ssh(run: Run) -> Iterator[Inner]:
    rest = read_around_first(run.words, SSH_OPTIONS).rest[1:]
    if rest:
        yield ShellText(" ".join(rest))


def _make(run: Run) -> Iterator[Inner]:
    options = read(run.words, "-f --file --makefile -C --directory -j -I -o -W --eval -E")
    folders = "".join(f"{folder}/" for folder in options.values("-C", "--directory"))
    files = options.values("-f", "--file", "--makefile") or ["GNUmakefile", "makefile", "Makefile"]
    yield from (ScriptFile("make", folders + file) for file in files)


_SPECIAL: dict[str, Callable[[Run], Iterator[Inner]]] = {
    "xargs": _xargs,
    "gxargs": _xargs,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "parallel": _parallel,
    "watch": _text_of_rest("-n --interval"),
    "ssh": _ssh,
    "su": _text_of_option("-c --command -s --shell -g -G", "-c", "--command"),
    "runuser": _text_of_option("-c --command -s --shell -u -g -G", "-c", "--command"),
    "sg": _sg,
    "script": _text_of_option("-c --command -I -O -B -T -E -m -o", "-c", "--command"),
    "entr": _text_of_rest(),
    "flock": _flock,
    "docker": _container,
    "podman": _container,
    "nerdctl": _container,
    "kubectl": _kubectl,
    "make": _make,
    "gmake": _make,
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "alias": _alias,
}
