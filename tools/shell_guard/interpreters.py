"""Shells and interpreters: the text they are given on their command line or by a pipe, and the files they run."""

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from tools.shell_guard.expansion import CHANNEL, UNKNOWN
from tools.shell_guard.findings import Run, ask
from tools.shell_guard.options import Options, read, read_leading
from tools.shell_guard.wrappers import Argv, InlineCode, Inner, ScriptFile, ShellText

_SHELL = re.compile(r"r?(?:ba|da|z|k|mk|pdk|fi|a|c|tc|ya)?sh(?:-[\d.]+)?")
_UNREAD = "it runs what nobody has read"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    name: str
    programs: re.Pattern[str]
    code: str  # options whose value is code
    values: str = ""  # other options with a value
    files: str = ""  # options that name a file or module that is loaded besides
    shows: str = "-h --help --version"  # options with which it prints something and runs nothing


_LANGUAGES = (
    _Language(
        name="python",
        programs=re.compile(r"(?:micro|i|b|pt|graal)?python[\d.]*(?:w|d|-dbg)?|pypy[\d.]*|graalpy|py"),
        code="-c",
        values="-W -X -Q --check-hash-based-pycs",
        shows="-h --help --version -V",
    ),
    _Language(
        name="perl",
        programs=re.compile(r"perl[\d.]*"),
        code="-e -E",
        values="-I -M? -m? -F? -i? -x? -D? -V?",
        shows="-h -v -V --help --version",
    ),
    _Language(
        name="ruby",
        programs=re.compile(r"j?ruby[\d.]*"),
        code="-e",
        values="-I -C -E -F? -K? -W? -i? -x? -T? -0?",
        files="-r --require",
    ),
    _Language(
        name="node",
        programs=re.compile(r"node|nodejs|bun|deno|tsx|ts-node"),
        code="-e -p --eval --print -pe",
        values="-C --conditions --title --stack-size --env-file --max-old-space-size -O -P",
        files="-r --require --import --loader --experimental-loader",
        shows="-h --help -v --version",
    ),
    _Language(
        name="php",
        programs=re.compile(r"php[\d.]*"),
        code="-r --run -B --process-begin -R --process-code -E --process-end",
        values="-d --define -c --php-ini -z --zend-extension -S --server -t --docroot",
        files="-f --file -F --process-file",
        shows="-h --help -v --version -i --info -m --modules",
    ),
    _Language(name="lua", programs=re.compile(r"lua[\d.]*|luajit|texlua"), code="-e", files="-l", shows="--version"),
    _Language(
        name="julia", programs=re.compile(r"julia"), code="-e --eval -E --print", files="-L --load", values="-t -p"
    ),
    _Language(name="R", programs=re.compile(r"R|Rscript"), code="-e", files="-f --file"),
    _Language(name="guile", programs=re.compile(r"guile"), code="-c -e", files="-l -s", values="-L"),
    _Language(name="erlang", programs=re.compile(r"erl"), code="-eval", values="-pa -pz -s"),
    _Language(
        name="other",
        programs=re.compile(r"osascript|groovy|scala|elixir|iex|ghc|racket|raku|kotlin|swift|ocaml"),
        code="-e -E",
        values="-i -l",
    ),
    _Language(
        name="expect",
        programs=re.compile(r"expect|tclsh[\d.]*|(?:pwsh|powershell)(?:\.exe)?"),
        code="-c -Command",
        values="-f",
    ),
)
# Letters without a value of their own: -l, -0 and -C take no more than digits and letters behind them.
_PERL_LETTERS = re.compile(r"-(?:0x[\dA-Fa-f]+|\d|C[IOEioADSLa\d]*|dt?(?::.*)?|[aclnpsStTuUwWX])+", re.DOTALL)
_PYTHON_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)", re.DOTALL)
_COMMANDS = frozenset({"twine", "keyring", "hermes", "hermes_cli"})  # modules that are known by the same name
_MODULE = re.compile(r"-?[\w:]+(?:=[^;]*)?")
_ENCODED = re.compile(r"(?i)-e(?:nc?|c|ncodedcommand)?")
_LOADING_SETTING = re.compile(r"\s*(?:auto_(?:ap|pre)pend_file|extension|zend_extension|error_log)\s*=", re.IGNORECASE)


def interpret(run: Run) -> Iterator[Inner]:
    if not language_of(run.name):
        return
    if _SHELL.fullmatch(run.name):
        yield from _shell(run)
    elif language := _language(run.name):
        yield from _program(run, language)


@functools.lru_cache(maxsize=1024)
def language_of(name: str) -> str:
    """Of a program that runs others' text; empty for any other program."""
    if _SHELL.fullmatch(name):
        return "sh"
    language = _language(name)
    return language.name if language else ""


def is_interpreter(name: str) -> bool:
    return language_of(name) != ""


def _language(name: str) -> _Language | None:
    return next((language for language in _LANGUAGES if language.programs.fullmatch(name)), None)


def _shell(run: Run) -> Iterator[Inner]:
    words = [word for word in run.words if not re.fullmatch(r"\+\w+", word)]
    if run.name == "fish":
        options = read_leading(words, "-c --command -C --init-command -d -D -o -f")
        yield from map(ShellText, options.values("-c", "--command", "-C", "--init-command"))
        if options.has("-c", "--command"):
            return
    else:
        options = read_leading(words, "-o -O --rcfile --init-file")
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


def _program(run: Run, language: _Language) -> Iterator[Inner]:
    if language.name == "python" and (named := _module_of(run.words)):
        yield from _module(run, *named)
        return
    options = _read(run, language)
    texts = options.values(*language.code.split())
    yield from (InlineCode(language.name, text) for text in texts if text != "-")
    yield from _loaded(language, options)
    yield from _peculiar(run, language, options)
    if "-" in texts:
        yield from _input(language.name, run)
    elif not texts and not options.has(*language.shows.split()):
        yield from _main(run, language, options)


def _main(run: Run, language: _Language, options: Options) -> Iterator[Inner]:
    """The program in a file or from the input."""
    if any(option.startswith("--") and not value for option, value in options.given):
        # An option that is not known here may have a value, behind which there is code.
        yield from (
            InlineCode(language.name, text) for text in _read_all(options.rest, language).values(*language.code.split())
        )
    match options.rest:
        case ["eval", *rest] if language.name == "node":  # deno
            yield from (InlineCode(language.name, text) for text in read(rest).rest[:1])
        case ["exec", text, *_] if run.name == "bun":
            yield ShellText(text)
        case ["run", *rest] if language.name == "node":
            inner = _read_all(rest, language)
            yield from (InlineCode(language.name, text) for text in inner.values(*language.code.split()))
            for path in inner.rest[:1]:
                yield from _file(language.name, path, run)
        case [path, *_]:
            yield from _file(language.name, path, run)
        case _ if not options.has("-f", "--file"):
            yield from _input(language.name, run)


def _read(run: Run, language: _Language) -> Options:
    words = map(_without_letters, run.words) if language.name == "perl" else run.words
    return read_leading(words, _with_value(language))


def _read_all(words: Iterable[str], language: _Language) -> Options:
    return read(words, _with_value(language))


def _with_value(language: _Language) -> str:
    return f"{language.code} {language.values} {language.files}"


def _without_letters(word: str) -> str:
    """`-0777ne` is `-e` as far as it matters here."""
    found = _PERL_LETTERS.match(word)
    return "-n" + word[found.end() :] if found else word


def _loaded(language: _Language, options: Options) -> Iterator[Inner]:
    """Files are of interest only where they were written before."""
    for path in options.values(*language.files.split()):
        if path.startswith("data:"):
            kind, _, text = path.partition(",")
            yield InlineCode(language.name, unquote(text)) if "base64" not in kind else ask("unread-code", _UNREAD)
        else:
            yield ScriptFile(language.name, path)
    if language.name == "perl":
        for module in options.values("-M", "-m"):
            if _MODULE.fullmatch(module):
                yield ScriptFile("perl", f"{module.partition('=')[0].strip('-').replace('::', '/')}.pm")
            else:
                yield InlineCode("perl", module)


def _peculiar(run: Run, language: _Language, options: Options) -> Iterator[Inner]:
    """Yield what is special to one interpreter."""
    if language.name in ("perl", "ruby"):  # which open a "file" with a bar as a command
        piped = [word.strip("| ") for word in options.rest if word.startswith("|") or word.rstrip().endswith("|")]
        yield from map(ShellText, piped)
    elif language.name == "php" and any(map(_LOADING_SETTING.match, options.values("-d", "--define"))):
        yield ask("start-up-file", "a setting makes its php load or write something else")
    elif language.name == "expect" and run.name.startswith("p") and any(map(_ENCODED.fullmatch, run.words)):
        yield ask("unread-code", _UNREAD)


def _module_of(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """The module of `python -m`, and the words behind it, which are its own."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if found := _PYTHON_MODULE.fullmatch(words[place]):
            behind = words[place + 1 :]
            return (found[1], behind) if found[1] else (behind[0], behind[1:]) if behind else None
        if words[place].startswith("-c"):
            return None
        place += 2 if words[place] in ("-W", "-X", "-Q") else 1
    return None


def _module(run: Run, module: str, behind: tuple[str, ...]) -> Iterator[Inner]:
    """A module of a file, or one that is a command, or is given code or another file in turn."""
    path = module.replace(".", "/")
    yield from (ScriptFile("python", f"{path}.py"), ScriptFile("python", f"{path}/__main__.py"))
    if module in _COMMANDS:
        yield Argv((module, *behind))
    match module:
        case "timeit":
            options = read(behind, "-n --number -r --repeat -s --setup -u --unit")
            yield from (InlineCode("python", text) for text in (*options.values("-s", "--setup"), *options.rest))
        case "code" | "asyncio" | "IPython":
            yield from (InlineCode("python", text) for text in read(behind, "-c").values("-c"))
            yield from _input("python", run)
        case "cProfile" | "profile" | "pdb" | "trace":
            options = read_leading(behind, "-o --outfile -s --sort -c --command -m --file -f")
            yield from (InlineCode("python", text) for text in options.values("-c", "--command"))
            for script in options.rest[:1]:
                yield from _file("python", script, run)


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
        yield InlineCode(language, run.stdin)
