"""Shells and interpreters: the text they are given on their command line or by a pipe, and the files they run."""

import functools
import re
from collections.abc import Iterator

from tools.guard.expansion import CHANNEL, UNKNOWN
from tools.guard.findings import Run, ask
from tools.guard.options import Options, read
from tools.guard.wrappers import Code, Inner, ScriptFile, ShellText

_SHELL = re.compile(r"r?(?:ba|da|z|k|mk|pdk|fi|a|c|tc|ya)?sh(?:-[\d.]+)?")
_LANGUAGES = (
    # name, options with code, other options with a value, options that name something else to run
    (re.compile(r"python[\d.]*w?|pypy[\d.]*"), "-c", "-W -X -Q --check-hash-based-pycs", "-m"),
    (re.compile(r"perl[\d.]*"), "-e -E", "-I -M -m -F -l -0 -i", ""),
    (re.compile(r"j?ruby[\d.]*"), "-e", "-I -r -C -E -F -K -W", ""),
    (re.compile(r"node|nodejs|bun|deno"), "-e -p --eval --print -pe", "-r --require --import --loader -C", ""),
    (re.compile(r"php[\d.]*"), "-r -B -R -E", "-d -c -z -S -t", "-f"),
    (
        re.compile(r"lua[\d.]*|luajit|Rscript|julia|osascript|groovy|scala|erl|elixir|ghc|racket|guile"),
        "-e -E -l",
        "-i",
        "",
    ),
    (re.compile(r"expect|tclsh[\d.]*|pwsh|powershell"), "-c -Command", "-f", ""),
)
_UNREAD = "it runs what nobody has read"


def interpret(run: Run) -> Iterator[Inner]:
    if not language_of(run.name):
        return
    if _SHELL.fullmatch(run.name):
        yield from _shell(run)
        return
    for name, code, values, other in _LANGUAGES:
        if name.fullmatch(run.name):
            language = language_of(run.name)
            options = read(run.words, f"{code} {values} {other}", stops_at_first=True)
            yield from _program(run, language, options, code.split(), other.split())


@functools.lru_cache(maxsize=1024)
def language_of(name: str) -> str:
    """Of a program that runs others' text; empty for any other program."""
    if _SHELL.fullmatch(name):
        return "sh"
    found = (pattern.pattern for pattern, *_ in _LANGUAGES if pattern.fullmatch(name))
    return re.split(r"[|\[]", next(found, ""))[0].replace("j?", "")


def is_interpreter(name: str) -> bool:
    return language_of(name) != ""


def _shell(run: Run) -> Iterator[Inner]:
    words = [word for word in run.words if not re.fullmatch(r"\+\w+", word)]
    options = read(words, "-o -O --rcfile --init-file", stops_at_first=True)
    for path in options.values("--rcfile", "--init-file"):
        yield ask("start-up-file", f"its shell first runs {path}")
    rest = options.rest
    if options.has("-c", "--command"):
        if rest and rest[0].startswith("-"):
            yield ask("unreadable", "it cannot be said which of its words the shell runs")
        elif rest:
            yield ShellText(rest[0])
    elif rest and not options.has("-s"):
        yield from _file("sh", rest[0], run)
    else:
        yield from _input("sh", run)


def _program(run: Run, language: str, options: Options, code: list[str], other: list[str]) -> Iterator[Inner]:
    texts = options.values(*code)
    yield from (Code(language, text) for text in texts)
    yield from (ScriptFile(language, path) for path in _files_by_option(language, options))
    if texts or options.has(*other, "-h", "--help", "--version", "-V", "-v"):
        return
    match options.rest:
        case ["eval", text, *_]:  # deno
            yield Code(language, text)
        case [path, *_]:
            yield from _file(language, path, run)
        case _:
            yield from _input(language, run)


def _files_by_option(language: str, options: Options) -> Iterator[str]:
    """Of interest only where they were written before."""
    match language:
        case "python":
            for module in options.values("-m"):
                path = module.replace(".", "/")
                yield from (f"{path}.py", f"{path}/__main__.py")
        case "php":
            yield from options.values("-f")
        case "node" | "ruby":
            yield from options.values("-r", "--require", "--import", "--loader")


def _file(language: str, path: str, run: Run) -> Iterator[Inner]:
    if UNKNOWN in path and not path.startswith(CHANNEL):
        yield ask("run-time-script", "which script it runs is decided only when it runs")
        return
    if path in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        yield from _input(language, run)
    elif path.startswith(CHANNEL):
        yield ask("unread-code", _UNREAD)
    else:
        yield ScriptFile(language, path)


def _input(language: str, run: Run) -> Iterator[Inner]:
    if run.stdin is None:
        return
    if UNKNOWN in run.stdin:
        yield ask("unread-code", _UNREAD)
    elif language == "sh":
        yield ShellText(run.stdin)
    else:
        yield Code(language, run.stdin)
