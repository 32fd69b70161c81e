"""Inspect one command, one redirection or one variable by the rules of its family and those for all."""

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tools.shell_guard.expansion import UNKNOWN, shown
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.harmless import is_known_harmless
from tools.shell_guard.interpreters import is_interpreter, language_of
from tools.shell_guard.names import names
from tools.shell_guard.options import read
from tools.shell_guard.paths import (
    holds_secrets,
    is_disk,
    is_home,
    is_nothing,
    is_settings,
    is_system,
    is_temporary,
    located,
    mentioned,
    received,
    runs_by_itself,
    scoped,
    secret_in,
)
from tools.shell_guard.rules import data, files, machine, network, versions
from tools.shell_guard.rules.plain import Rule
from tools.shell_guard.wrappers import InlineCode, unwrap

Policy = Literal["risky", "unknown"]

_FAMILIES = (files.RULES, machine.RULES, versions.RULES, data.RULES, network.RULES)
# Their words are text, or names of files that they do not open.
_MENTIONING = names(
    "echo printf ls stat test [ file du dirname basename realpath readlink which type command mkdir touch export "
    "declare ssh ssh-add ssh-keygen source . docker docker-compose podman cd pushd chmod chown rmdir rm man alias "
    "exit return read"
)
_TEXT_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "jq", "zgrep"})
# What they are given to read they do not write to.
_ONLY_READING = names(
    "cat less more head tail grep egrep fgrep rg diff cmp wc sort uniq source . ls stat file bat jq awk md5sum "
    "sha256sum test [ tar zip cut nl od xxd hexdump strings view tac rev realpath readlink dirname basename cd "
    "find git sed"
)
_LOOKING_AT_DISKS = names("lsblk blkid smartctl df findmnt udevadm iostat lsof fuser mount umount dumpe2fs e2label")
_COPYING = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
_WRITING = frozenset({"tee", "sponge", "touch", "mkdir", "truncate", "patch", "ed", "ex", "unzip", "mkfifo", "mknod"})
_WRITE_OPTIONS = {
    "curl": "-o --output --output-dir -c --cookie-jar -D --dump-header",
    "wget": "-O --output-document -o --output-file -P --directory-prefix -a",
    "sort": "-o --output",
    "shuf": "-o --output",
    "tar": "-C --directory",
    "unzip": "-d",
    "git": "-o --output",
    "gcc": "-o",
    "openssl": "-out",
    "rsync": "--log-file",
    "docker": "-o --output",
}
_UNPACKING = {"tar": "-C --directory", "unzip": "-d"}
_RECURSIVE_READERS = {  # with the option that makes them so; some need none
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), "-r -R --recursive --dereference-recursive"),
    "rg": "-. --hidden -u --unrestricted",
    **dict.fromkeys(("cp", "rsync", "scp"), "-r -R -a --recursive --archive"),
    "zip": "-r -R --recurse-paths",
    **dict.fromkeys(("rgrep", "tar"), ""),
}
_LOADING = re.compile(
    r"LD_(?:PRELOAD|LIBRARY_PATH|AUDIT)|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PS4|PYTHON(?:STARTUP|HOME|INSPECT|WARNINGS|BREAKPOINT)|PERL5(?:OPT|LIB|DB)|"
    r"RUBY(?:OPT|LIB)|GIT_(?:SSH\w*|EXTERNAL_DIFF|PROXY_COMMAND|ASKPASS|EXEC_PATH|CONFIG\w*|TEMPLATE_DIR)|(?:SSH|SUDO)_ASKPASS|"
    r"LESS(?:OPEN|CLOSE|KEY\w*)|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|GCONV_PATH|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|npm_config_script_shell|"
    r"TAR_OPTIONS|ZIPOPT|MANOPT|MAKEFILES|PSQLRC|RIPGREP_CONFIG_PATH|BORG_PASSCOMMAND|FZF_DEFAULT_COMMAND"
)
# Variables with a program that others run, and the programs that are nothing new there.
_PROGRAM = re.compile(
    r"(?:GIT_|MAN|PSQL_|SYSTEMD_|BAT_|AWS_)?PAGER|(?:GIT_|SUDO_|KUBE_|PSQL_|SYSTEMD_|GIT_SEQUENCE_)?EDITOR|VISUAL|BROWSER|"
    r"LESSEDIT|FCEDIT|(?:RSYNC|BORG|CVS)_RSH|SVN_SSH|CC|CXX|LD|RUSTC|RUSTDOC|(?:CARGO_BUILD_)?RUSTC\w*WRAPPER|"
    r"CARGO_BUILD_RUSTC|CARGO_TARGET_\w+_(?:RUNNER|LINKER)"
)
_USUAL_PROGRAMS = re.compile(
    r"(?:/usr(?:/local)?/bin/)?(?:cat|less|more|most|bat|delta|vim?|nvim|nano|emacs(?:client)?|micro|hx|code|subl|ed|true|"
    r"ssh|ccache|sccache|rustc|firefox|chromium|xdg-open|open|w3m|lynx|ld(?:\.\w+)?|mold|zig|[\w.-]*(?:cc|"
    r"\+\+|clang)(?:-\d+)?)|-[\w+-]+|\d+"
)
_USUAL_FLAGS = re.compile(r"-{0,2}(?:[jklsBnirR]+[\d\x00]*|no-print-directory|output-sync(?:=\w+)?|jobs(?:=\d+)?)|\d+")
_OPEN_FOLDER = re.compile(r"(?:^|:)(?:/tmp|/var/tmp|/dev/shm)(?:[/:]|$)")
_TRUNCATING = frozenset({">", ">|", "&>", ">&"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    policy: Policy
    is_there: Callable[[str], bool]

    def command(self, run: Run) -> Iterator[CommandRisk]:
        for family in _FAMILIES:
            for one in (run, *_as_module(run)):
                if (rule := family.get(one.name) or _numbered(family, one.name)) is not None:
                    yield from rule(one)
        yield from _secrets(run)
        yield from _everything_below(run)
        yield from self._writes(run)
        if self.policy == "unknown" and not is_known_harmless(run):
            yield ask("unknown-command", f"{shown(run.name)} is not known to be harmless", shown(run.path or run.name))

    def redirect(self, operator: str, target: str, run: Run) -> Iterator[CommandRisk]:
        path = located(target, run.folder, run.home)
        if not target or target == "-" or (target.isdigit() and "&" in operator):
            return
        if operator == "<":
            if secret_in(path):
                yield _secret(path, scoped(target, run.folder, run.home))
            if run.name == "ssh" and not is_nothing(path):
                yield ask("upload", f"it sends {shown(path)} to another machine")
            return
        yield from self._written(target, run, truncates=operator in _TRUNCATING)

    def variable(self, name: str, value: str) -> Iterator[CommandRisk]:
        if _LOADING.fullmatch(name) or _loads(name, value):
            yield ask("loading-variable", f"{name} makes programs load or run something else", name)
        elif name == "PATH" and re.search(r"(?:^|:)(?:/tmp|/var/tmp|/dev/shm|\.)(?:[/:]|$)|^:|::|:$", value):
            yield ask("loading-variable", "PATH makes it run programs from a folder anybody can write to", name)
        elif name.startswith("GIT_TRACE") and runs_by_itself(located(value, "", "")):
            yield ask("write-start-up", f"it writes to {shown(value)}, which is read or run by itself later")

    def _writes(self, run: Run) -> Iterator[CommandRisk]:
        """To files that are run by themselves or belong to the system."""
        options = read(run.words, _WRITE_OPTIONS.get(run.name, ""))
        targets = options.values(*_WRITE_OPTIONS.get(run.name, "").split())
        if run.name in _COPYING:
            yield from self._copies(run)
        elif run.name == "mkdir":  # an empty folder runs nothing
            targets += [word for word in options.rest if is_system(located(word, run.folder, run.home))]
        elif run.name in _WRITING:
            targets += options.rest
        elif run.name in ("dd", "dcfldd", "dc3dd"):
            targets += [word.partition("=")[2] for word in run.words if word.startswith(("of=", "wipe="))]
        elif (run.name == "sed" and options.has("-i", "--in-place")) or (run.name == "perl" and options.has("-i")):
            targets += options.rest
        elif not (run.name in _ONLY_READING | _MENTIONING or is_interpreter(run.name) or any(unwrap(run))):
            targets += [word for word in options.rest if runs_by_itself(located(word, run.folder, run.home))]
            yield from _disks(run)
        if run.name in _UNPACKING:
            yield from self._unpacks(run)
        truncates = run.name == "dd" or (run.name == "tee" and not options.has("-a", "--append"))
        for target in targets:
            yield from self._written(target, run, truncates=truncates)

    def _copies(self, run: Run) -> Iterator[CommandRisk]:
        options = read(run.words, "-t --target-directory -S --suffix -m --mode -o -g -e --rsh --exclude --include")
        aims = options.values("-t", "--target-directory")
        *sources, last = options.rest or ("",)
        target, sources = (aims[0], [*sources, last]) if aims else (last, sources)
        if not target:
            return
        is_for_home = is_home(located(target, run.folder, run.home))
        yield from self._written(target, run, truncates=False)
        for place in received(target, sources, is_for_home=is_for_home):
            if runs_by_itself(located(place, run.folder, run.home)):
                yield from self._written(place, run, truncates=False)
        if run.name == "mv":
            for source in sources:
                yield from self._written(source, run, truncates=False)
        is_all = options.has("-T", "--no-target-directory") or any(
            re.search(r"/\.?$|(?:^|/)\.?\*$", one) for one in sources
        )
        if is_all and is_for_home:
            yield _filled(target, run)

    def _unpacks(self, run: Run) -> Iterator[CommandRisk]:
        taken = _UNPACKING[run.name]
        if run.name == "tar" and not _tar_does(run, r"x", r"--(?:ex|get)"):
            return
        for folder in read(run.words, taken).values(*taken.split()):
            path = located(folder, run.folder, run.home)
            if is_home(path):
                yield _filled(folder, run)
            elif runs_by_itself(f"{path}/{UNKNOWN}"):
                yield from self._written(f"{folder}/{UNKNOWN}", run, truncates=False)

    def _written(self, target: str, run: Run, *, truncates: bool) -> Iterator[CommandRisk]:
        path = located(target, run.folder, run.home)
        seen, scope = shown(path), scoped(target, run.folder, run.home)
        if is_nothing(path):
            return
        if is_disk(path):
            yield block("write-disk", "it writes to a disk below its files")
        elif re.match(r"/dev/(?:tcp|udp)/", path):
            yield ask("raw-connection", "it sends something over a bare connection")
        elif runs_by_itself(path) or (secret_in(path) and not is_settings(path)):
            yield ask("write-start-up", f"it writes to {seen}, which is read or run by itself later", scope)
        elif is_system(path) or path == "/":
            yield ask("change-system", f"it writes to {seen}, which belongs to the system", scope)
        elif truncates and UNKNOWN in path and not is_temporary(path):
            yield ask("overwrite-file", "which file it overwrites is decided only when it runs")
        elif truncates and not is_temporary(path) and self.is_there(path):
            yield ask("overwrite-file", f"it overwrites {seen}", scope)


def _loads(name: str, value: str) -> bool:
    """Return whether the content makes programs run something."""
    if name == "NODE_OPTIONS":
        return bool(re.search(r"--(?:require|import|\S*loader)|-r\b|\x00", value))
    if name == "LESS":
        return bool(re.search(r"[+!|\x00]|-k|--lesskey", value))
    if name in ("MAKEFLAGS", "GNUMAKEFLAGS"):
        return not all(map(_USUAL_FLAGS.fullmatch, value.split()))
    if name in ("GOFLAGS", "RUSTFLAGS", "FZF_DEFAULT_OPTS"):
        return bool(re.search(r"exec|linker|preview|bind|\x00", value))
    if name == "PYTHONPATH":
        return bool(_OPEN_FOLDER.search(value))
    return bool(_PROGRAM.fullmatch(name)) and not all(map(_USUAL_PROGRAMS.fullmatch, value.split()))


def _as_module(run: Run) -> Iterator[Run]:
    """`python -m pip …` is `pip …`."""
    if language_of(run.name) == "python":
        options = read(run.words, "-m -c -W -X", stops_at_first=True)
        for module in options.values("-m"):
            yield replace(run, name=module.partition(".")[0], words=options.rest)
        for path in options.rest[:1]:
            yield replace(run, name=posixpath.basename(path), words=options.rest[1:])


def _filled(target: str, run: Run) -> CommandRisk:
    scope = scoped(target, run.folder, run.home)
    return ask("write-start-up", "it puts files into a home, among which may be some that are run by themselves", scope)


def _disks(run: Run) -> Iterator[CommandRisk]:
    """Programs that are not known, with a disk: it is seldom only looked at."""
    has_rule = run.name in files.RULES or _numbered(files.RULES, run.name) is not None
    if run.name in _LOOKING_AT_DISKS or has_rule:
        return
    if any(is_disk(located(part, run.folder, run.home)) for word in run.words for part in mentioned(word)):
        yield ask("write-disk", "it may write to a disk below its files")


def _numbered(family: dict[str, Rule], name: str) -> Rule | None:
    """mkfs.ext4 is mkfs."""
    return family.get(name.partition(".")[0])


def _secrets(run: Run) -> Iterator[CommandRisk]:
    if run.name in _MENTIONING:
        return
    is_program = is_interpreter(run.name)
    for word in _opened(run):
        if is_program and re.search(r"\s|\(", word):  # code, which is looked at as such
            continue
        for part in mentioned(word):
            if secret_in(path := located(part, run.folder, run.home)):
                yield _secret(path, scoped(part, run.folder, run.home))


def _opened(run: Run) -> tuple[str, ...]:
    """Those of its words that may name a file that it reads."""
    words = run.words
    if run.name == "git":
        return _opened_by_git(run)
    if run.name in _TEXT_FIRST and not {"-e", "-f"} & set(words):
        first = next((place for place, word in enumerate(words) if not word.startswith("-")), len(words))
        return words[:first] + words[first + 1 :]
    if run.name in ("cp", "mv", "install", "rsync", "scp") and len(words) > 1 and not words[-1].startswith("-"):
        has_aim = any(word.startswith(("-t", "--target")) for word in words)
        return words if has_aim else words[:-1]
    return words


def _opened_by_git(run: Run) -> tuple[str, ...]:
    """Most of its words are messages, names and patterns."""
    action, *words = read(run.words, versions.BEFORE, stops_at_first=True).rest or ("",)
    if action not in _GIT_MENTIONING:
        return run.words
    if action == "log" and any(re.match(r"-\w*p|--patch|-u|-L", word) for word in words):
        return tuple(words)
    given = "-F --file -f" if action == "config" else "-F --file"
    return tuple(read(words, given).values(*given.split()))


_GIT_MENTIONING = names("commit log tag config add rm check-ignore status")


def _everything_below(run: Run) -> Iterator[CommandRisk]:
    """A home that is read with all that is in it."""
    if (wanted := _RECURSIVE_READERS.get(run.name)) is None:
        return
    options = read(run.words)
    if (wanted and not options.has(*wanted.split())) or (
        run.name == "tar" and not _tar_does(run, r"[cru]", r"--(?:cr|app|upd)")
    ):
        return
    for word in _opened(run):
        path = located(word, run.folder, run.home)
        if not word.startswith("-") and holds_secrets(path) and not secret_in(path):
            yield ask(
                "read-secret", f"it reads all of {shown(path)}, secrets included", scoped(word, run.folder, run.home)
            )


def _tar_does(run: Run, letter: str, option: str) -> bool:
    """The first word may do without its dash."""
    words = (f"-{word}" if not place and not word.startswith("-") else word for place, word in enumerate(run.words))
    return any(re.match(rf"-\w*{letter}|{option}", word) for word in words)


def _secret(path: str, scope: str) -> CommandRisk:
    return ask("read-secret", f"it reads {shown(path)}, which holds secrets", scope)


def named_in_code(code: InlineCode, folder: str, home: str) -> Iterator[CommandRisk]:
    """Files that the strings of a program name."""
    for word in dict.fromkeys(re.split(r"[^\w~./*-]+", code.text)):
        if "/" not in word and not word.startswith("."):
            continue
        path = located(word, "", "")
        if secret_in(path):
            yield _secret(word, scoped(word, folder, home))
        elif code.origin != "command" and runs_by_itself(path):  # given with the command, all writing is asked about
            yield ask("write-start-up", f"its code names {shown(path)}, which is read or run by itself later")
