"""Commands that run other commands: what each of them would run."""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.makefiles import script_of
from tools.shell_guard.names import names
from tools.shell_guard.options import Options, read, read_around_first, read_leading

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
class InlineCode:
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


Inner = Argv | ShellText | InlineCode | ScriptFile | CommandRisk


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A command that is followed by another one."""

    with_value: str = ""
    own_words: int = 0  # of its own, before the other command
    sets_variables: bool = False
    looks_only: str = ""  # options with which it runs nothing
    is_loose: bool = False  # its options are too many to know: the other command may begin at any word


_ENV = "-u --unset -C --chdir -S --split-string -a --argv0"
_PREFIXES = {
    **dict.fromkeys(names("nohup setsid builtin coproc ! busybox toybox unbuffer rlwrap torsocks chronic"), _Prefix()),
    "pkexec": _Prefix("--user"),
    "caffeinate": _Prefix("-t -w"),
    "fakeroot": _Prefix("-s -i -l -b --lib --faked"),
    **dict.fromkeys(("proxychains", "proxychains4"), _Prefix("-f")),
    **dict.fromkeys(("gosu", "su-exec"), _Prefix(own_words=1)),
    "sshpass": _Prefix("-p -f -d -P"),
    "time": _Prefix("-f --format -o --output"),
    "command": _Prefix(looks_only="-v -V"),
    "exec": _Prefix("-a"),
    "env": _Prefix(_ENV, sets_variables=True),
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
            "aa-exec setarch linux32 linux64 eatmydata cpulimit prlimit daemonize cgexec trickle"
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
_RUN_TIME_SCRIPT = ask("run-time-script", "which script it runs is decided only when it runs")
_MOST_CANDIDATES = 12
_FD_EXEC = re.compile(r"-[HILasigulpq01]*[xX]|--exec(?:-batch)?(?:=(.*))?", re.DOTALL)
_PUT_IN = re.compile(r"\{[^ }]{0,4}\}")
_ENV_SPLIT = re.compile(r"(?:-[iv0]*S|--s[a-z-]*=?)(.*)", re.DOTALL)
_LOADER = re.compile(r"ld-(?:linux|musl)[\w.-]*|ld\.so")
_XARGS = "-I -J -R -n -P -L -d -E -s -a --arg-file --max-args --max-procs --delimiter --max-chars --process-slot-var"
_PARALLEL = (
    "-j --jobs -P --max-procs -n -N --max-args -I -d --delimiter -a --arg-file --timeout --retries --joblog -C "
    "--colsep -S --sshlogin --tmpdir --workdir --wd --results --load --memfree --tagstring --block --halt --delay "
    "--env --nice"
)
_SU = "-c --command --session-command -s --shell -u --user -g --group -G --supp-group -w --whitelist-environment -T"
_SCRIPT = "-c --command -I --log-in -O --log-out -B --log-io -T --log-timing -E --echo -m --logging-format -o"
_DOCKER = "-H --host -c --context -l --log-level --config --tlscacert --tlscert --tlskey"
_COMPOSE = "-f --file -p --project-name --profile --env-file --project-directory --ansi --parallel --progress"
_CONTAINER = (
    "-v --volume -e --env -w --workdir -u --user --name -p --publish --network --net --mount --entrypoint -l --label "
    "--env-file -h --hostname --platform --gpus -m --memory --cpus --shm-size --add-host --restart --pull --ulimit "
    "--dns --dns-search --device --cap-add --cap-drop --security-opt --tmpfs --log-driver --log-opt --link --expose "
    "--ip --pid --ipc --userns --uts --runtime --stop-signal --stop-timeout -a --attach --cidfile --group-add "
    "--volumes-from --sysctl --memory-swap --cpuset-cpus -c --cpu-shares --network-alias --health-cmd --pids-limit "
    "--index"
)
_DAEMON = (
    "-x --exec -a --startas -p --pidfile -n --name -u --user -c --chuid -g --group -d --chdir -r --chroot -N -k -s"
)
_STARTING = ("run", "exec", "create")  # of containers
# Those with a value that may not be left out, as that of -j may.
MAKE_OPTIONS = "-f --file --makefile -C --directory -I --include-dir -o --old-file -W --what-if --eval -E"
_ASSIGNMENT = re.compile(r"([^=]*)=(.*)", re.DOTALL)  # env takes any name


def unwrap(run: Run) -> Iterator[Inner]:
    """Yield the commands that the command itself would run."""
    prefix = _Prefix() if _LOADER.fullmatch(run.name) else _PREFIXES.get(run.name)
    if prefix is not None:
        yield from _after(run, prefix)
    elif special := _SPECIAL.get(run.name):
        yield from special(run)


def variables_before(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the variables that `env` and its like set for the command behind them."""
    prefix = _PREFIXES.get(run.name)
    if prefix is None or not prefix.sets_variables:
        return
    for word in _read_prefix(run, prefix).rest:
        if not (found := _ASSIGNMENT.fullmatch(word)):
            return
        yield found[1], found[2]


def _read_prefix(run: Run, prefix: _Prefix) -> Options:
    options = read_leading(run.words, prefix.with_value)
    if run.name == "env" and options.rest[:1] == ("-",):  # an option here
        behind = read_leading(options.rest[1:], prefix.with_value)
        return Options((*options.given, *behind.given), behind.rest, options.takers)
    return options


def _after(run: Run, prefix: _Prefix) -> Iterator[Inner]:
    options = _read_prefix(run, prefix)
    if options.has(*prefix.looks_only.split()):
        return
    if run.name == "env" and options.has("-S", "--split-string"):
        yield from _split_by_env(run.words)
        return
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


def _split_by_env(words: tuple[str, ...]) -> Iterator[Inner]:
    """The text may begin with options of env itself, and all behind it belongs to the command."""
    for place, word in enumerate(words):
        if found := _ENV_SPLIT.fullmatch(word):
            text, *behind = (found[1], *words[place + 1 :]) if found[1] else words[place + 1 :] or ("",)
            yield ShellText(" ".join(("env", text, *map(shlex.quote, behind))))
            return


def _xargs(run: Run) -> Iterator[Inner]:
    options = read_leading(run.words, _XARGS)
    marks = [
        mark
        for mark in (*options.values("-I", "-J", "--replace"), "{}" if options.has("-i", "--replace") else "")
        if mark
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
        if found := _FD_EXEC.fullmatch(word):
            words = (*filter(None, found.groups()), *run.words[place + 1 :], "{}")
            yield Argv(tuple(re.sub(r"\{[./]{0,2}\}", UNKNOWN, one) for one in words))


def _parallel(run: Run) -> Iterator[Inner]:
    inner = read_leading(run.words, _PARALLEL).rest
    given = [place for place, word in enumerate(inner) if word.startswith((":::", "::::"))]
    command = inner[: given[0]] if given else inner
    if not command:
        yield ask("run-time-command", "it runs commands that are decided when it runs")
    elif " " in command[0]:  # a script; what is put in comes quoted
        yield ShellText(_PUT_IN.sub('"${_}"', " ".join((*command, "{}"))))
    else:
        yield Argv(tuple(_PUT_IN.sub(UNKNOWN, word) for word in (*command, "{}")))


def _text_of_rest(with_value: str = "", own_words: int = 0) -> Callable[[Run], Iterator[Inner]]:
    """The words behind the options are one script."""

    def inner(run: Run) -> Iterator[Inner]:
        rest = read_leading(run.words, with_value).rest[own_words:]
        if rest:
            yield ShellText(" ".join(rest))

    return inner


def _script(run: Run) -> Iterator[Inner]:
    options = read(run.words, _SCRIPT)
    yield from map(ShellText, options.values("-c", "--command"))
    if not options.has("-c", "--command") and len(options.rest) < 2 and run.stdin is not None:
        yield Argv(("sh",))


def _newgrp(run: Run) -> Iterator[Inner]:
    if run.stdin is not None:
        yield Argv(("sh",))


def _su(run: Run) -> Iterator[Inner]:
    leading = read_leading(run.words, _SU)
    if run.name == "runuser" and leading.has("-u", "--user"):
        yield Argv(leading.rest)
        return
    texts = read(run.words, _SU).values("-c", "--command", "--session-command")
    yield from map(ShellText, texts)
    if not texts and run.stdin is not None:
        yield Argv(("sh",))


def _flock(run: Run) -> Iterator[Inner]:
    options = read_leading(run.words, "-w --wait --timeout -E --conflict-exit-code")
    match options.rest:
        case [_, "-c" | "--command", text, *_]:
            yield ShellText(text)
        case [_, *rest] if rest:
            yield Argv(tuple(rest))


def _container(run: Run) -> Iterator[Inner]:
    """The command inside of a container: only what follows the image or the name of the container or service."""
    rest = read_leading(run.words, _DOCKER).rest if run.name != "docker-compose" else ("compose", *run.words)
    match rest:
        case ["compose", *words]:
            rest = read_leading(words, _COMPOSE).rest
        case ["container", *words]:
            rest = tuple(words)
    if rest and rest[0] in _STARTING:
        options = read_leading(rest[1:], _CONTAINER)
        if options.rest[1:]:
            yield Argv(options.rest[1:])
        for entry in options.values("--entrypoint"):
            yield Argv((entry, *options.rest[1:]))


def _kubectl(run: Run) -> Iterator[Inner]:
    if {"exec", "run", "debug"}.intersection(run.words) and "--" in run.words:
        yield Argv(run.words[run.words.index("--") + 1 :])


def _daemon(run: Run) -> Iterator[Inner]:
    options = read(run.words, _DAEMON)
    for program in options.values("-x", "--exec", "-a", "--startas"):
        if options.has("-S", "--start"):
            yield Argv((program, *options.rest))


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
        yield ScriptFile("sh", path) if path != UNKNOWN else _RUN_TIME_SCRIPT


def _alias(run: Run) -> Iterator[Inner]:
    for word in run.words:
        if "=" in word:
            yield ShellText(word.partition("=")[2], is_here=True)


def _ssh(run: Run) -> Iterator[Inner]:
    rest = read_around_first(run.words, SSH_OPTIONS).rest[1:]
    if rest:
        yield ShellText(" ".join(rest))


def _make(run: Run) -> Iterator[Inner]:
    options = read(run.words, MAKE_OPTIONS)
    folders = "".join(f"{folder}/" for folder in options.values("-C", "--directory"))
    files = options.values("-f", "--file", "--makefile") or ["GNUmakefile", "makefile", "Makefile"]
    for file in files:
        if file in ("-", "/dev/stdin") and run.stdin is not None:
            yield ShellText(UNKNOWN if UNKNOWN in run.stdin else script_of(run.stdin))
        else:
            yield ScriptFile("make", folders + file) if file != UNKNOWN else _RUN_TIME_SCRIPT


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
    "su": _su,
    "runuser": _su,
    "sg": _sg,
    "newgrp": _newgrp,
    "start-stop-daemon": _daemon,
    "script": _script,
    "entr": _text_of_rest(),
    "flock": _flock,
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), _container),
    "kubectl": _kubectl,
    "oc": _kubectl,
    "make": _make,
    "gmake": _make,
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "alias": _alias,
}
