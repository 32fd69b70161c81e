"""Options and arguments that make an ordinary command run another one."""

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator

from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import Run, ask
from tools.shell_guard.names import names
from tools.shell_guard.options import read, read_around_first, read_leading
from tools.shell_guard.rules.versions import commands_of
from tools.shell_guard.suspects import suspected
from tools.shell_guard.wrappers import MAKE_OPTIONS, SSH_OPTIONS, Inner, ScriptFile, ShellText

_WORKERS = names(
    "gzip pigz bzip2 pbzip2 lbzip2 xz pixz zstd zstdmt lz4 lzip lzma lzop brotli ssh less more most cat bat vi vim nano"
)
_AWK_RUNS = re.compile(r"\bsystem\s*\(|\bgetline\b|\|&|@(?:load|include)\b|@\w+\s*\(")
_AWK_OPTIONS = "-F -v -f --file --field-separator --assign -e --source -i --include -l --load -E --exec"
_AWK_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|#[^\n]*|\w+|\|\||>=|[^ \t\r]', re.DOTALL)
_AWK_PATTERN = re.compile(r"/(?:[^/\\\n]|\\.)*/?", re.DOTALL)
_AWK_OPERAND = re.compile(r'(?!(?:print|printf|return|in|case|else|do)\b)[\w)\]$]+|".*"', re.DOTALL)
_TERMINAL = re.compile(r">+\s*\"(?:/dev/std(?:err|out)|-)\"")
_SED_ADDRESS = re.compile(r"[\d\x00]+(?:~[\d\x00]+)?|\$|[+~][\d\x00]+")
_SED_FLAGS = re.compile(r"[gpiImM0-9 \t]*")
_SED_WRITES = re.compile(r"[wW](?!\s*/dev/std(?:out|err)\s*$)", re.MULTILINE)
_SED_BRACKET = re.compile(r"\[\^?\]?(?:\[:[a-z]{1,8}:\]|[^\]])*+\]")
_SED_TEXT = re.compile(r"(?:[^\\\n]|\\.)*+", re.DOTALL)
_SED_OPTIONS = "-e --expression -f --file -l --line-length -i?"
# Options with code, of languages whose code is not looked at closely.
_EVALUATING = {
    "emacs": "--eval -eval --execute -execute",
    **dict.fromkeys(("octave", "octave-cli"), "--eval"),
    "gnuplot": "-e",
    "dc": "-e --expression",
    "m4": "-D --define",
    "sbcl": "--eval",
    "swipl": "-g -t",
    "kak": "-e",
    "sage": "-c",
    "blender": "--python-expr",
    **dict.fromkeys(("clojure", "clj", "bb", "emacsclient"), "-e --eval"),
    **dict.fromkeys(names("racket ghc groovy scala kotlin swift ocaml osascript csi jrunscript latexmk"), "-e"),
    **dict.fromkeys(("ecl", "mit-scheme"), "--eval"),
    **dict.fromkeys(("tclsh", "expect", "guile", "gs"), "-c"),
    "erl": "-eval",
    "clisp": "-x",
    "matlab": "-batch -r",
    "maxima": "--batch-string",
    "gimp": "-b",
    **dict.fromkeys(("jshell", "gp"), ""),  # from their input only
    "rpm": "--eval -E",
}
_EVALUATED = re.compile(
    r"(?i)delete|remove|unlink|rmdir|system|syscmd|shell|command|-process|run-program|write|save|rename|exec|spawn|popen|"
    r"%pipe|%\(|%sh|%\{lua|!\s*[a-z./]|\bos[.:]|\bload|\bfs/|`"
)
_ESCAPING = re.compile(r"--?(?:shell-escape|enable-write18)")
_DEBUGGER = re.compile(
    r"\s*(?:py|python|python-interactive|pi|source|script|command\s+script|pipe|\||make|dump|append)\b|.*\bsystem\b"
)
_JUDGED = names("git gdb lldb fzf sk go")  # what they run is judged like any command, and that is all
_EDITOR = re.compile(r"[!]|\bsystem\b|:?\b(?:shell|ter\w*|w(?:rite)?!?|python3?|py3?|lua|perl|ruby|call|source|so)\b")


def run_by_options(run: Run) -> Iterator[Inner]:
    """Yield what options and other words run, and a reason to ask when that or the program's text may do more."""
    texts = list(dict.fromkeys(found(run))) if (found := _RUNNING.get(run.name)) else []
    yield from (ShellText(text) for text in texts)
    if files := _FILES.get(run.name):
        yield from (ScriptFile(run.name, path) for path in read(run.words, files).values(*files.split()))
    is_program = (program := _PROGRAMS.get(run.name)) is not None and program(run)
    is_unsure = run.name not in _JUDGED and any(_first_name(text) not in _WORKERS for text in texts)
    if is_program or is_unsure:
        yield ask("option-runs", f"an option or program text of {run.name} runs or writes something else")
    yield from suspected(run)


def _first_name(text: str) -> str:
    return posixpath.basename((text.split() or [""])[0])


def _options(with_value: str, *running: str) -> Callable[[Run], Iterator[str]]:
    """The values of these options are run."""
    return lambda run: iter(read(run.words, with_value).values(*running))


def _tar(run: Run) -> Iterator[str]:
    running = "--checkpoint-action --to-command --use-compress-program --rsh-command --info-script --new-volume-script "
    running += "--rmt-command -I -F"
    options = read(_dashed(run.words), f"{running} -C -f --file --directory -T -X -b -g -H -K -L -N -V --exclude")
    for value in options.values("--checkpoint-action"):
        if value.startswith("exec="):
            yield value.removeprefix("exec=")
    yield from options.values(*running.split()[1:])


def _dashed(words: tuple[str, ...]) -> list[str]:
    """The old way: `cfI x.tar zstd` is `-c -f x.tar -I zstd`."""
    if not words or words[0].startswith("-"):
        return list(words)
    found, rest = list[str](), list(words[1:])
    for letter in words[0]:
        found.append(f"-{letter}")
        if letter in "CFHIKLNTVXbfg" and rest:
            found.append(rest.pop(0))
    return found + rest


def _ssh(run: Run) -> Iterator[str]:
    options = (read_around_first if run.name == "ssh" else read)(run.words, SSH_OPTIONS)
    for value in options.values("-o"):
        if found := re.match(
            r"(?i)(?:proxycommand|localcommand|knownhostscommand|remotecommand|match\s+exec|pkcs11provider|"
            r"securitykeyprovider|xauthlocation|include)[\s=]+(.*)",
            value,
        ):
            yield found[1]
    if run.name != "ssh":
        yield from options.values("-S", "-D")
    yield from (f"./{path}" for path in options.values("-F") if path not in ("none", "/dev/null"))


def _awk(run: Run) -> bool:
    options = read_leading(run.words, _AWK_OPTIONS)
    files = options.values("-f", "--file", "-E", "--exec")
    programs = options.values("-e", "--source") or ([] if files else list(options.rest[:1]))
    programs += _piped(run, files)
    return options.has("-l", "--load") or UNKNOWN in programs or any(map(_awk_does_more, programs))


def _piped(run: Run, files: list[str]) -> list[str]:
    """The program, where it is read from the input."""
    return [run.stdin or ""] if {"-", "/dev/stdin"}.intersection(files) else []


def _awk_does_more(program: str) -> bool:
    return _AWK_RUNS.search(program) is not None or _awk_prints_elsewhere(program)


def _awk_prints_elsewhere(program: str) -> bool:
    """Return whether `print` is followed by a pipe or redirection outside of strings, patterns and brackets."""
    place, depth, before, is_printing = 0, 0, "", False
    while found := _AWK_PIECE.search(program, place):
        if found[0] == "/" and not _AWK_OPERAND.fullmatch(before):  # no division
            found = _AWK_PATTERN.match(program, found.start()) or found
        piece, place = found[0], found.end()
        if piece in ("print", "printf"):
            is_printing, depth = True, 0
        elif piece in (";", "}") or (piece == "\n" and before not in (",", "\\")):
            is_printing = False
        elif piece in ("|", ">") and is_printing and not depth and not _TERMINAL.match(program, found.start()):
            return True
        depth += (piece in ("(", "[")) - (piece in (")", "]"))
        before = piece
    return False


def _sed(run: Run) -> bool:
    options = read(run.words, _SED_OPTIONS)
    files = options.values("-f", "--file")
    scripts = options.values("-e", "--expression") or ([] if files else [*filter(None, options.rest)][:1])
    scripts += _piped(run, files)
    return UNKNOWN in scripts or _sed_does_more("\n".join(scripts))


def _sed_does_more(script: str) -> bool:
    """Return whether it runs something (`e`) or writes a file (`w`), by going through its commands."""
    place = 0
    while (place := _past_addresses(script, place)) < len(script):
        command = script[place]
        if command == "s":
            flags = _SED_FLAGS.match(script, _past_parts(script, place + 1, has_pattern=True))
            place = flags.end() if flags else len(script)
            command = script[place : place + 1] if script[place : place + 1] in ("e", "w") else ""
        if command == "e" or (command in ("w", "W") and _SED_WRITES.match(script, place)):
            return True
        place = _past_command(script, place, command)
    return False


def _past_command(script: str, place: int, command: str) -> int:
    match command:
        case "":  # its flags were the last of it
            return place
        case "y":
            return _past_parts(script, place + 1, has_pattern=False)
        case "a" | "i" | "c":  # to the end of the line, and of the next where a backslash ends it
            text = _SED_TEXT.match(script, place + 1)
            return text.end() if text else len(script)
        case "#" | "r" | "R" | "w" | "W" | "v":
            return _past_line(script, place)
        case ":" | "b" | "t" | "T" | "q" | "Q" | "l" | "L":
            return min(_past_line(script, place), script.find(";", place) % (len(script) + 1))
        case _:
            return place + 1


def _past_addresses(script: str, place: int) -> int:
    while place < len(script):
        letter = script[place]
        if letter in " \t\n;{},!":
            place += 1
        elif letter == "/":
            place = _past_part(script, place + 1, "/", has_brackets=True)
            place = _past(script, place, "IM")
        elif letter == "\\":
            place = _past_part(script, place + 2, script[place + 1 : place + 2], has_brackets=True)
            place = _past(script, place, "IM")
        elif found := _SED_ADDRESS.match(script, place):
            place = found.end()
        else:
            break
    return place


def _past(script: str, place: int, letters: str) -> int:
    while place < len(script) and script[place] in letters:
        place += 1
    return place


def _past_parts(script: str, place: int, *, has_pattern: bool) -> int:
    """Behind `s/…/…/` or `y/…/…/`, from its first mark on."""
    mark = script[place : place + 1]
    place = _past_part(script, place + 1, mark, has_brackets=has_pattern)
    return _past_part(script, place, mark, has_brackets=False)


def _past_part(script: str, place: int, mark: str, *, has_brackets: bool) -> int:
    while place < len(script):
        letter = script[place]
        if letter == mark:
            return place + 1
        if letter == "[" and has_brackets:
            place = _past_bracket(script, place)
        else:
            place += 2 if letter == "\\" else 1
    return place


def _past_bracket(script: str, place: int) -> int:
    """A mark inside of `[…]` is none."""
    found = _SED_BRACKET.match(script, place) if script.find("]", place) > 0 else None
    return found.end() if found else place + 1


def _past_line(script: str, place: int) -> int:
    return script.find("\n", place) % (len(script) + 1)  # -1 becomes the end


def _editor(run: Run) -> bool:
    commands = read(run.words, "-c -S -u --cmd").values("-c", "--cmd")
    commands += [word for word in run.words if word.startswith("+")]
    return any(map(_EDITOR.search, commands)) or (run.name in ("ed", "ex") and run.stdin is not None)


def _pager(run: Run) -> bool:
    return any(re.match(r"\+.*[!|]", word) for word in run.words)


def _typesets(run: Run) -> bool:
    return any(map(_ESCAPING.fullmatch, run.words))


def _evaluates(run: Run) -> bool:
    """Languages that are seldom used: the text is searched for what sounds like more than reckoning."""
    options = _EVALUATING[run.name]
    texts = [*read(run.words, options).values(*options.split()), run.stdin or ""]
    return any(UNKNOWN in text or _EVALUATED.search(text) for text in texts)


def _make(run: Run) -> Iterator[str]:
    yield from (word.partition("=")[2] for word in run.words if re.match(r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS)=", word))
    yield from (text for word in run.words for text in re.findall(r"\$[({]shell\s+([^)}]*)", word))
    yield from read(run.words, MAKE_OPTIONS).values("--eval", "-E")


def _cmake(run: Run) -> Iterator[str]:
    if run.words[:2] == ("-E", "remove_directory"):
        yield shlex.join(("rm", "-r", *run.words[2:]))


def _bind(run: Run) -> Iterator[str]:
    yield from (value.partition(":")[2] for value in read(run.words, "-x -f -m -q -u -r").values("-x"))


def _has(*options: str) -> Callable[[Run], bool]:
    return lambda run: read(run.words).has(*options)


def _git(run: Run) -> Iterator[str]:
    action, *rest = read_leading(run.words, "-C -c --git-dir --work-tree").rest or ("",)
    match (action, *read_leading(rest).rest):
        case ["bisect", "run", *words] | ["submodule", "foreach", *words]:
            command = read_leading(words).rest
            yield shlex.join(command) if len(command) > 1 else "".join(command)  # one word is a script
    yield from commands_of(run)


def _debugger(run: Run) -> Iterator[str]:
    """Its commands `shell …` and `!…`."""
    for command in _debugger_commands(run):
        if found := re.match(r"\s*(?:platform\s+)?(?:shell\s|!)(.*)", command, re.DOTALL):
            yield found[1]


def _debugs_more(run: Run) -> bool:
    return UNKNOWN in (run.stdin or "") or any(map(_DEBUGGER.match, _debugger_commands(run)))


def _debugger_commands(run: Run) -> list[str]:
    names = ("-ex", "--ex", "-iex", "--iex", "-eval-command", "--eval-command", "-o", "-O", "--one-line")
    return read(run.words, " ".join(names)).values(*names) + (run.stdin or "").splitlines()


def _go(run: Run) -> Iterator[str]:
    words = [f"-{word}" if re.match(r"-\w\w", word) else word for word in run.words]
    yield from read(words, "--exec --toolexec --vettool").values("--exec", "--toolexec", "--vettool")


def _finder(run: Run) -> Iterator[str]:
    for text in read(run.words, "--preview --bind -q --query").values("--preview"):
        yield re.sub(r"\{[^ }]{0,8}\}", "${_}", text)
    for binding in read(run.words, "--preview --bind").values("--bind"):
        yield from re.findall(r"(?:execute|become|reload|transform)[\w-]*[(:\[{](.*?)[)\]}]?$", binding)


def _compiler(run: Run) -> Iterator[str]:
    yield from (text.replace(",", " ") for text in read(run.words, "-wrapper -o -x").values("-wrapper"))


def _apt(run: Run) -> Iterator[str]:
    for setting in read(run.words, "-o --option -c -t").values("-o", "--option"):
        if found := re.match(r"(?i).*(?:invoke|pre-install-pkgs|post-install-pkgs|proxycommand)[^=]*=(.*)", setting):
            yield found[1]


_RUNNING: dict[str, Callable[[Run], Iterator[str]]] = {
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    "rsync": _options("-e --rsh --rsync-path --exclude --include -f", "-e", "--rsh", "--rsync-path"),
    **dict.fromkeys(("ssh", "scp", "sftp"), _ssh),
    "git": _git,
    "sort": _options("--compress-program -o -k -t -S -T", "--compress-program"),
    "split": _options("--filter -b -l -n -a", "--filter"),
    "man": _options("-P --pager -H --html -M -S", "-P", "--pager", "-H", "--html"),
    "zip": _options("-TT --unzip-command -x -i", "-TT", "--unzip-command"),
    "tcpdump": _options("-z -w -r -i -c -C -G -W", "-z"),
    "nmap": _options("--script -p -o -oN -oX", "--script"),
    **dict.fromkeys(("make", "gmake"), _make),
    **dict.fromkeys(("gdb", "lldb"), _debugger),
    **dict.fromkeys(("fzf", "sk"), _finder),
    **dict.fromkeys(("gcc", "g++", "cc", "c++"), _compiler),
    **dict.fromkeys(("apt", "apt-get", "aptitude"), _apt),
    "go": _go,
    "rpm": _options("--pipe", "--pipe"),
    "cpio": _options("--rsh-command -F -O -I -H", "--rsh-command"),
    "cmake": _cmake,
    "bind": _bind,
    "mapfile": _options("-C -c -d -n -O -s -u", "-C"),
    "readarray": _options("-C -c -d -n -O -s -u", "-C"),
    "complete": _options("-C -F -W -A -G", "-C"),
    "npm": _options("-c --call --script-shell", "-c", "--call", "--script-shell"),
    "npx": _options("-c --call -p --package", "-c", "--call"),
    "rg": _options("--pre -e -g -t -f", "--pre"),
}
_PROGRAMS: dict[str, Callable[[Run], bool]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _awk),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("vi", "vim", "nvim", "view", "vimdiff", "gvim", "rvim", "ex", "ed"), _editor),
    **dict.fromkeys(("less", "more", "most"), _pager),
    **dict.fromkeys(("gdb", "lldb"), _debugs_more),
    **dict.fromkeys(_EVALUATING, _evaluates),
    **dict.fromkeys(names("tex latex pdftex pdflatex xelatex lualatex"), _typesets),
    "hash": _has("-p"),  # another program under a name that is known
    "enable": _has("-f"),
    "fc": _has("-s", "-e"),
}
_FILES = {  # options that name a program in a file
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), "-f --file -E --exec"),
    **dict.fromkeys(("sed", "gsed"), "-f --file"),
    **dict.fromkeys(("vi", "vim"), "-S -u"),
    "nvim": "-S -u -l",
    **dict.fromkeys(("gdb", "lldb"), "-x --command -s --source"),
    "emacs": "-l --load --script",
    "cmake": "-P",
}
