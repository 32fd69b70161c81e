"""Through a script, command by command, with what is known at each: variables, folder, input, files just written."""

import fnmatch
import posixpath
import re
from collections.abc import Iterator, Mapping

from tools.shell_guard.code import inspect_code, modules_of
from tools.shell_guard.expansion import EVERYTHING, GLOB, UNKNOWN, Scope, fields, joined
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.inspection import Inspection, named_in_code
from tools.shell_guard.interpreters import interpret, language_of
from tools.shell_guard.makefiles import script_of
from tools.shell_guard.names import names
from tools.shell_guard.parsing import UnparsableCommand, parse
from tools.shell_guard.paths import located, scoped
from tools.shell_guard.printing import printed
from tools.shell_guard.projects import loaded, scripts_of
from tools.shell_guard.rules.executing import run_by_options
from tools.shell_guard.setting import names_unsure
from tools.shell_guard.syntax import Assignment, Block, Chain, Pipeline, Redirect, Script, Simple, Statement
from tools.shell_guard.wrappers import Argv, InlineCode, Inner, Origin, ScriptFile, ShellText, unwrap, variables_before

MAX_DEPTH = 24  # of commands in commands
MAX_STEPS = 1_500
MAX_WORDS = 4_000  # of all commands together
MAX_FILE_CHARS = 20_000  # of a script that was written before
_PATTERN = re.compile(r"[*?]|\[.")
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_RESERVED = names("{ } if then else elif fi for while until do done case esac select function in [[ ]]")
_RUN_BY_OTHERS = names(
    "PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_SSH_COMMAND BROWSER LESSOPEN "
    "PROMPT_COMMAND PS4"
)
# What an interpreter looks for when a folder or a bare name is given.
_ENDS = {"python": ("/__main__.py",), "node": (".js", ".mjs", ".cjs", ".ts", "/index.js"), "ruby": (".rb",)}
_LOADED = {"python": (".py",), "node": (".js", ".mjs", ".cjs", ".ts"), "ruby": (".rb",), "perl": (".pm", ".pl")}
# bash runs what stands there whenever it takes the text for the name of a variable or for a number.
_EVALUATED = re.compile(r"\[\s*(?:\$\(|`)")
_EVALUATING = names("test [ let declare typeset local readonly export printf read unset wait mapfile readarray getopts")
_RUN_TIME_NAME = ask("run-time-command", "which command it runs is decided only when it runs")


class Walk:
    """One command's examination. What is found is in `findings`, what would run in `argvs`, `runs` and `codes`."""

    def __init__(self, *, home: str, inspection: Inspection, written: Mapping[str, str] | None = None) -> None:
        self.findings: dict[CommandRisk, None] = {}
        self.argvs: list[tuple[str, ...]] = []
        self.runs: list[Run] = []
        self.codes: list[InlineCode] = []
        self.assigned: list[tuple[str, str]] = []
        self.opened: list[tuple[str, str]] = []  # redirections and what they read or write
        self._home = home
        self._inspection = inspection
        self._written = {located(path, "", home): text for path, text in (written or {}).items()}
        self._earlier = dict(self._written)  # than this command
        self._read: set[tuple[str, str, str]] = set()  # files, with folder and text: each is read once
        self._input: str | None = None  # for commands that are given none of their own
        self._aliases: dict[str, str] = {}
        self._functions: list[str] = []
        self._is_parallel = 0
        self._steps = 0
        self._words = 0

    def text(self, text: str, scope: Scope, stdin: str | None = None, depth: int = 0) -> str:
        """Gives what it prints, `UNKNOWN` when that cannot be said."""
        if UNKNOWN in text:
            self._found(ask("run-time-script", "part of what its inner shell runs is decided only when it runs"))
            text = text.replace(UNKNOWN, "${_}")
        try:
            script = parse(text)
            scope.unsure |= names_unsure(script)
            return self._script(script, scope, stdin, depth)
        except UnparsableCommand as problem:
            self._found(ask("unreadable", str(problem)))
            return UNKNOWN

    def _found(self, *findings: CommandRisk) -> None:
        self.findings.update(dict.fromkeys(findings))

    def _script(self, script: Script, scope: Scope, stdin: str | None, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise UnparsableCommand("it is nested too deep to be read")
        texts = [self._statement(statement, scope, stdin, depth) for statement in script]
        return "".join(texts) if UNKNOWN not in "".join(texts) else UNKNOWN

    def _statement(self, statement: Statement, scope: Scope, stdin: str | None, depth: int) -> str:
        self._take_step()
        match statement:
            case Simple():
                return self._simple(statement, scope, stdin, depth)
            case Pipeline(parts):
                return self._pipeline(parts, scope, stdin, depth)
            case Chain(parts):
                inner = scope.copy()
                texts = [self._statement(part, inner, stdin, depth) for part in parts]
                scope.forget_changes_of(inner)
                return texts[-1] if len(texts) == 1 else UNKNOWN
            case Block():
                return self._block(statement, scope, stdin, depth)

    def _take_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise UnparsableCommand("it is too long to be read")

    def _pipeline(self, parts: tuple[Statement, ...], scope: Scope, stdin: str | None, depth: int) -> str:
        passed = stdin
        self._is_parallel += 1
        for part in parts:
            inner = scope.copy()
            passed = self._statement(part, inner, passed, depth)
            scope.forget_changes_of(inner)
        self._is_parallel -= 1
        return passed or ""

    def _block(self, made: Block, scope: Scope, stdin: str | None, depth: int) -> str:
        for word in made.words:
            fields(word, scope, lambda script: self._output(script, scope, depth))
        stdin, targets = self._redirects(made.redirects, scope, stdin, depth, name=made.kind)
        if made.kind in ("function", "fed"):  # whoever calls a function decides what it reads
            stdin = UNKNOWN
        if made.kind == "group":
            text = self._script(made.body, scope, stdin, depth + 1)
        else:
            inner = Scope(self._home, {}, scope.unsure) if made.kind == "function" else scope.copy()
            text = self._inside(made, inner, stdin, depth + 1)
            scope.forget_changes_of(inner)
        self._remember_written(targets, text)
        return text if made.kind in ("group", "subshell") else UNKNOWN

    def _inside(self, made: Block, scope: Scope, stdin: str | None, depth: int) -> str:
        is_background, is_function = made.kind == "background", made.kind == "function"
        self._is_parallel += is_background
        if is_function:
            self._functions.append(made.name)
        try:
            return self._script(made.body, scope, stdin, depth)
        finally:
            self._is_parallel -= is_background
            if is_function:
                self._functions.pop()

    def _output(self, script: Script, scope: Scope, depth: int) -> str:
        """Return the text that a substitution becomes."""
        return self._script(script, scope.copy(), None, depth + 1).rstrip("\n")

    # One command.

    def _simple(self, command: Simple, scope: Scope, stdin: str | None, depth: int) -> str:
        words: list[str] = []
        for word in command.words:
            words += fields(word, scope, lambda script: self._output(script, scope, depth))
        values = dict(self._assigned(command.assignments, scope, depth))
        stdin = stdin if stdin is not None else self._input
        stdin, targets = self._redirects(command.redirects, scope, stdin, depth, name=words[0] if words else "")
        if words == ["exec"]:  # what it is given, all that follow are given
            self._input = stdin
        if not words:
            scope.variables.update(values)
            self._remember_written(targets, "")
            return ""
        if words[0] in _DECLARING:
            scope.variables.update(values)
            inner = scope
        else:
            inner = scope.copy() if values else scope
            inner.variables.update(values)
        text = self._run(tuple(words), inner, stdin, depth)
        self._remember_written(targets, text)
        return text if not targets else ""

    def _assigned(self, assignments: tuple[Assignment, ...], scope: Scope, depth: int) -> Iterator[tuple[str, str]]:
        for assignment in assignments:
            value = joined(assignment.value, scope, lambda script: self._output(script, scope, depth))
            self._check_variable(assignment.name, value, scope, depth)
            yield assignment.name, value

    def _check_variable(self, name: str, value: str, scope: Scope, depth: int) -> None:
        self.assigned.append((name, value))
        if _EVALUATED.search(value):
            self._found(_RUN_TIME_NAME)
        self._found(*self._inspection.variable(name, value))
        if name in _RUN_BY_OTHERS and value and not re.fullmatch(r"[\w./-]+", value):
            self.text(value, Scope(self._home, {"PWD": scope.value("PWD")}), None, depth + 1)

    def _redirects(
        self, redirects: tuple[Redirect, ...], scope: Scope, stdin: str | None, depth: int, *, name: str
    ) -> tuple[str | None, list[str]]:
        """The input after them, and the files that are written to."""
        targets: list[str] = []
        for redirect in redirects:
            target = joined(redirect.target, scope, lambda script: self._output(script, scope, depth))
            if redirect.operator == "<<":
                stdin = target
                continue
            self.opened.append((redirect.operator, target))
            place = self._run_of((name,), scope, stdin)
            self._found(*self._inspection.redirect(redirect.operator, target, place))
            if redirect.operator == "<&":
                stdin = stdin if target == "0" else UNKNOWN
            elif redirect.operator.startswith("<"):
                is_hidden = UNKNOWN in target or target.startswith(("/dev/tcp", "/dev/udp"))
                stdin = self._written.get(self._key(target, scope), UNKNOWN if is_hidden else None)
            else:
                targets.append(self._key(target, scope))
        return stdin, targets

    def _run(self, words: tuple[str, ...], scope: Scope, stdin: str | None, depth: int) -> str:
        self._steps += 1
        self._words += len(words)
        if depth > MAX_DEPTH or self._steps > MAX_STEPS or self._words > MAX_WORDS:
            raise UnparsableCommand("it is too long or nested too deep to be read")
        name, arguments = words[0], tuple(word.replace(GLOB, "") for word in words[1:])
        self.argvs.append((name.replace(GLOB, ""), *arguments))
        if UNKNOWN in name or _PATTERN.search(name):  # a pattern is no name, quoted or not
            self._found(_RUN_TIME_NAME)
            return UNKNOWN
        if name in _RESERVED:
            raise UnparsableCommand("it cannot be read as a shell command")
        run = self._run_of((name, *arguments), scope, stdin)
        self.runs.append(run)
        if name in self._functions and self._is_parallel:
            self._found(block("fork-bomb", "it multiplies without end"))
        if meant := self._aliases.pop(name, ""):  # not known meanwhile, as it may name itself
            self.text(" ".join((meant, *arguments)), scope.copy(), stdin, depth + 1)
            self._aliases[name] = meant
        self._found(*self._inspection.command(run))
        if name in _EVALUATING and any(_EVALUATED.search(word) for word in arguments):
            self._found(_RUN_TIME_NAME)
        for variable, value in variables_before(run):
            self._check_variable(variable, value, scope, depth)
        for path in self._written_as(name, scope):
            self._inner(ScriptFile("sh", path), scope, stdin, depth)
        for inner in (*unwrap(run), *interpret(run), *run_by_options(run), *loaded((name, *arguments), self._written)):
            self._inner(inner, scope, stdin, depth)
        self._follow(run, scope)
        return self._copied(run, scope) or printed(run)

    def _written_as(self, name: str, scope: Scope) -> list[str]:
        """Files written before that a command may be; where programs are looked for is not known."""
        if "/" in name:
            return [name] if self._key(name, scope) in self._written else []
        return [path for path in self._written if path.endswith(f"/{name}")]

    def _copied(self, run: Run, scope: Scope) -> str:
        """Return the text that `cat` prints of files that were written before."""
        texts = [self._written.get(self._key(word, scope)) for word in run.words] if run.name == "cat" else []
        return "".join(text for text in texts if text is not None) if None not in texts else ""

    def _run_of(self, words: tuple[str, ...], scope: Scope, stdin: str | None) -> Run:
        folder = scope.value("PWD")
        name = posixpath.basename(words[0]) or words[0]
        path = scoped(words[0], folder, self._home) if "/" in words[0] else ""
        return Run(name=name, path=path, words=words[1:], stdin=stdin, folder=folder, home=self._home)

    def _inner(self, inner: Inner, scope: Scope, stdin: str | None, depth: int) -> None:
        """Walk the commands that a command runs in turn."""
        match inner:
            case CommandRisk():
                self._found(inner)
            case Argv(words):
                if words and words[0]:
                    self._run(words, scope, stdin, depth + 1)
            case ShellText(text, is_here):
                there = scope if is_here else Scope(self._home, {"PWD": scope.value("PWD")})
                self.text(text, there, stdin, depth + 1)
            case InlineCode(language):
                self._take_step()
                self.codes.append(inner)
                self._found(*named_in_code(inner, scope.value("PWD"), self._home))
                for path in self._imported(inner):
                    self._script_file(ScriptFile(language, path, inner.origin == "project"), scope, depth + 1)
                for found in inspect_code(inner):
                    self._inner(found, scope, None, depth + 1)
            case ScriptFile():
                self._script_file(inner, scope, depth)

    def _imported(self, code: InlineCode) -> Iterator[str]:
        """Files written before that the code loads, wherever they are: what a search path holds is not known."""
        if self._written:
            modules = {module.replace(".", "/").lstrip("/") for module in modules_of(code)}
            for path in self._written:
                stem, end = posixpath.splitext(path)
                stem = stem.removesuffix("/__init__").removesuffix("/index")
                is_fit = code.language not in _LOADED or end in _LOADED[code.language]
                if is_fit and any(module and f"/{stem}".endswith(f"/{module}") for module in modules):
                    yield path

    def _script_file(self, file: ScriptFile, scope: Scope, depth: int) -> None:
        path = file.path
        if path.startswith("/dev/fd/") or path == "/dev/stdin":
            self._found(ask("unread-code", "it runs what nobody has read"))
            return
        for name in self._files_named(file, scope):
            key = self._key(name, scope)
            content = self._written.get(key)
            if content is not None and (once := (key, scope.value("PWD"), content)) not in self._read:
                self._read.add(once)
                # What this command has written itself is as good as given with it.
                is_given = self._earlier.get(key) != content
                origin: Origin = "project" if file.is_project else "command" if is_given else "file"
                self._content(posixpath.basename(name), InlineCode(file.language, content, origin), scope, depth)

    def _files_named(self, file: ScriptFile, scope: Scope) -> Iterator[str]:
        yield file.path
        yield from (f"{file.path}{end}" for end in _ENDS.get(file.language, ()))
        if _PATTERN.search(file.path):
            pattern = self._key(file.path, scope)
            yield from [path for path in self._written if fnmatch.fnmatchcase(path, pattern)]

    def _content(self, name: str, file: InlineCode, scope: Scope, depth: int) -> None:
        language, content = file.language, file.text
        first = content.partition("\n")[0]
        if language == "make":
            language, content = "sh", script_of(content)
        elif language == "npm":
            language, content = "sh", scripts_of(content)
        elif language == "sh" and first.startswith("#!"):
            language = next(filter(None, map(language_of, re.split(r"[/\s]+", first))), "")
        if UNKNOWN in content or not language:
            self._found(ask("unread-code", f"it runs {name}, which it has only just written"))
        elif len(content) > MAX_FILE_CHARS or depth > MAX_DEPTH:
            self._found(ask("unreadable", f"{name}, which it runs, is too long or nested too deep to be read"))
        else:
            inner = ShellText(content) if language == "sh" else InlineCode(language, content, file.origin)
            self._inner(inner, scope, None, depth + 1)

    # What a command changes for those after it.

    def _follow(self, run: Run, scope: Scope) -> None:
        match run.name:
            case "cd" | "pushd":
                rest = [word for word in run.words if not word.startswith(("-", "+"))]
                target = rest[0] if rest else self._home
                is_known = "-" not in run.words and (rest or run.name == "cd")
                folder = located(target, run.folder, "") if is_known else UNKNOWN
                scope.variables["PWD"] = UNKNOWN if UNKNOWN in folder else folder
            case "popd":
                scope.variables["PWD"] = UNKNOWN
            case "source" | ".":
                scope.unsure |= {EVERYTHING}
            case "alias":
                self._aliases |= dict(word.split("=", 1) for word in run.words if "=" in word)
            case _:
                self._follow_files(run, scope)

    def _follow_files(self, run: Run, scope: Scope) -> None:
        """Record the files that a command writes by its own means, so that running them is noticed."""
        match run.name:
            case "tee":
                for word in run.words:
                    self._written[self._key(word, scope)] = run.stdin or UNKNOWN
            case "cp" | "mv" | "ln" | "install":
                rest = [self._key(word, scope) for word in run.words if not word.startswith("-")]
                for path in rest[:-1]:
                    if path in self._written:
                        text = self._written[path] if len(rest) == 2 else UNKNOWN
                        self._written |= {rest[-1]: text, f"{rest[-1]}/{posixpath.basename(path)}": text}
            case "curl" | "wget" | "openssl" | "xxd" | "dd" | "scp":
                for word in (word.removeprefix("of=") for word in run.words if not word.startswith("-")):
                    self._written[self._key(word, scope)] = UNKNOWN
                    self._written[self._key(posixpath.basename(word), scope)] = UNKNOWN

    def _remember_written(self, targets: list[str], text: str) -> None:
        for target in targets:
            before = self._written.get(target, "")
            self._written[target] = before + text

    def _key(self, path: str, scope: Scope) -> str:
        return located(path, scope.value("PWD"), self._home)
