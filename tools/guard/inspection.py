"""What speaks against one command, one redirection or one variable: the rules of each family, and those for all."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tools.guard.expansion import UNKNOWN, shown
from tools.guard.findings import Finding, Run, ask, block
from tools.guard.harmless import is_known_harmless
from tools.guard.interpreters import is_interpreter
from tools.guard.names import names
from tools.guard.options import read
from tools.guard.paths import (
    is_disk,
    is_nothing,
    is_system,
    is_temporary,
    located,
    mentioned,
    runs_by_itself,
    scoped,
    secret_in,
)
from tools.guard.rules import data, files, machine, network, versions
from tools.guard.wrappers import Code

Policy = Literal["risky", "unknown"]

_FAMILIES = (files.RULES, machine.RULES, versions.RULES, data.RULES, network.RULES)
# Their words are text, or names of files that they do not open.
_MENTIONING = names(
    "echo printf ls stat test [ file du dirname basename realpath readlink which type command mkdir touch export "
    "declare ssh ssh-add ssh-keygen source . docker docker-compose podman cd pushd chmod chown rmdir rm man alias "
    "exit return read"
)
_TEXT_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "jq", "zgrep"})
_READING = names(
    "cat less more head tail grep egrep fgrep rg diff cmp wc sort uniq source . ls stat file bat jq awk md5sum "
    "sha256sum test [ tar zip cut nl od xxd hexdump strings view tac rev realpath readlink dirname basename cd "
    "find git sed"
)
_COPYING = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
_WRITING = frozenset({"tee", "sponge", "touch", "mkdir", "truncate", "patch", "ed", "ex", "unzip", "mkfifo", "mknod"})
_WRITE_OPTIONS = {
    "curl": "-o --output --output-dir -c --cookie-jar -D --dump-header",
    "wget": "-O --output-document -o --output-file -P --directory-prefix -a",
    "sort": "-o --output",
    "tar": "-C --directory",
    "unzip": "-d",
    "git": "--output",
    "gcc": "-o",
    "openssl": "-out",
}
_LOADING = re.compile(
    r"LD_(?:PRELOAD|LIBRARY_PATH|AUDIT)|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PS4|PYTHON(?:STARTUP|HOME|INSPECT|WARNINGS|BREAKPOINT)|PERL5(?:OPT|LIB|DB)|"
    r"RUBY(?:OPT|LIB)|GIT_(?:SSH\w*|EXTERNAL_DIFF|PROXY_COMMAND|ASKPASS|EXEC_PATH|CONFIG\w*|TEMPLATE_DIR)|SSH_ASKPASS|"
    r"LESS(?:OPEN|CLOSE)|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|GCONV_PATH|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|npm_config_script_shell"
)
_TRUNCATING = frozenset({">", ">|", "&>", ">&"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    policy: Policy
    is_there: Callable[[str], bool]

    def command(self, run: Run) -> Iterator[Finding]:
        for family in _FAMILIES:
            if (rule := family.get(run.name) or _numbered(family, run.name)) is not None:
                yield from rule(run)
        yield from _secrets(run)
        yield from self._writes(run)
        if self.policy == "unknown" and not is_known_harmless(run):
            yield ask("unknown-command", f"{shown(run.name)} is not known to be harmless", shown(run.path or run.name))

    def redirect(self, operator: str, target: str, run: Run) -> Iterator[Finding]:
        path = located(target, run.folder, run.home)
        if not target or target == "-" or (target.isdigit() and "&" in operator):
            return
        if operator == "<":
            if secret_in(path):
                yield _secret(path, scoped(target, run.folder, run.home))
            return
        yield from self._written(target, run, truncates=operator in _TRUNCATING)

    def variable(self, name: str, value: str) -> Iterator[Finding]:
        loads = name == "NODE_OPTIONS" and re.search(r"--(?:require|import|\S*loader)|-r\b|\x00", value)
        if loads or _LOADING.fullmatch(name):
            yield ask("loading-variable", f"{name} makes programs load or run something else", name)
        elif name == "PATH" and re.search(r"(?:^|:)(?:/tmp|/var/tmp|/dev/shm|\.)(?:[/:]|$)|^:|::|:$", value):
            yield ask("loading-variable", "PATH makes it run programs from a folder anybody can write to", name)

    def _writes(self, run: Run) -> Iterator[Finding]:
        """To files that are run by themselves or belong to the system."""
        options = read(run.words, _WRITE_OPTIONS.get(run.name, ""))
        wanted = _WRITE_OPTIONS.get(run.name, "").split()
        targets = options.values(*wanted)
        if run.name in _COPYING:
            aims = read(run.words, "-t --target-directory").values("-t", "--target-directory")
            targets += aims or options.rest[-1:]
            targets += options.rest if run.name == "mv" else []
        elif run.name in _WRITING:
            targets += options.rest
        elif run.name == "dd":
            targets += [word[3:] for word in run.words if word.startswith("of=")]
        elif (run.name == "sed" and options.has("-i", "--in-place")) or (run.name == "perl" and options.has("-i")):
            targets += options.rest
        elif run.name not in _READING and run.name not in _MENTIONING and not is_interpreter(run.name):
            targets += [word for word in options.rest if runs_by_itself(located(word, run.folder, run.home))]
        truncates = run.name == "dd" or (run.name == "tee" and not options.has("-a", "--append"))
        for target in targets:
            yield from self._written(target, run, truncates=truncates)

    def _written(self, target: str, run: Run, *, truncates: bool) -> Iterator[Finding]:
        path = located(target, run.folder, run.home)
        seen, scope = shown(path), scoped(target, run.folder, run.home)
        if is_nothing(path):
            return
        if is_disk(path):
            yield block("write-disk", "it writes to a disk below its files")
        elif re.match(r"/dev/(?:tcp|udp)/", path):
            yield ask("raw-connection", "it sends something over a bare connection")
        elif runs_by_itself(path) or secret_in(path):
            yield ask("write-start-up", f"it writes to {seen}, which is read or run by itself later", scope)
        elif is_system(path) or path == "/":
            yield ask("change-system", f"it writes to {seen}, which belongs to the system", scope)
        elif truncates and UNKNOWN in path and not is_temporary(path):
            yield ask("overwrite-file", "which file it overwrites is decided only when it runs")
        elif truncates and not is_temporary(path) and self.is_there(path):
            yield ask("overwrite-file", f"it overwrites {seen}", scope)


def _numbered(family: dict[str, files.Rule], name: str) -> files.Rule | None:
    """mkfs.ext4 is mkfs."""
    return family.get(name.partition(".")[0])


def _secrets(run: Run) -> Iterator[Finding]:
    if run.name in _MENTIONING:
        return
    words = run.words
    if run.name == "git":
        words = (
            () if {"commit", "log", "tag", "config", "add", "rm", "check-ignore", "status"} & set(words[:3]) else words
        )
    if run.name in _TEXT_FIRST and not {"-e", "-f"} & set(words):
        first = next((word for word in words if not word.startswith("-")), "")
        words = tuple(word for word in words if word != first)
    is_program = is_interpreter(run.name)
    for word in words:
        if is_program and re.search(r"\s|\(", word):  # code, which is looked at as such
            continue
        for part in mentioned(word):
            if secret_in(path := located(part, run.folder, run.home)):
                yield _secret(path, scoped(part, run.folder, run.home))


def _secret(path: str, scope: str) -> Finding:
    return ask("read-secret", f"it reads {shown(path)}, which holds secrets", scope)


def named_in_code(code: Code, folder: str, home: str) -> Iterator[Finding]:
    """Files that the strings of a program name."""
    for word in dict.fromkeys(re.split(r"[^\w~./*-]+", code.text)):
        if "/" not in word and not word.startswith("."):
            continue
        path = located(word, "", "")
        if secret_in(path):
            yield _secret(word, scoped(word, folder, home))
        elif code.origin != "command" and runs_by_itself(path):  # given with the command, all writing is asked about
            yield ask("write-start-up", f"its code names {shown(path)}, which is read or run by itself later")
