"""Go through a script command by command, with what is known at each: variables, folder, input, files just written."""

import posixpath
import re
from collections.abc import Iterator, Mapping

from tools.shell_guard.checks import Checks
from tools.shell_guard.expansion import (
    EVERYTHING,
    GLOB,
    UNKNOWN,
    Scope,
    join_pieces,
    names_unsure,
    render,
    scripts_in,
    split_word,
)
from tools.shell_guard.findings import CommandRisk, Run, ask, block
from tools.shell_guard.interpreters import ScriptFile, ShellText, is_shell, module_of
from tools.shell_guard.parsing import UnparsableCommand, parse
from tools.shell_guard.paths import is_nothing, is_temporary, locate, locate_scope
from tools.shell_guard.programs import is_known_harmless, listed, names
from tools.shell_guard.syntax import Block, Redirect, Script, Simple, Statement, Word
from tools.shell_guard.wrappers import RUN_TIME_NAME, Argv, Inner, unwrap, variables_before

MAX_DEPTH = 24  # of commands in commands
MAX_STEPS = 1_500
MAX_WORDS = 4_000  # of all commands together
MAX_FILE_CHARS = 20_000  # of a script that was written before
_PATTERN = re.compile(r"[*?]|\[.")
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_RESERVED = names("{ } if then else elif fi for while until do done case esac select function in [[ ]]")
_INPUT = re.compile(r"/(?:dev|proc)/")  # stdin and its aliases, as a script: /dev/stdin, /proc/self/fd/0


class Walk:
    """The examination of one command: `findings`, and in `argvs` every command that would run."""

    def __init__(self, *, checks: Checks, written: Mapping[str, str] | None = None) -> None:
        self.findings: dict[CommandRisk, None] = {}
        self.argvs: list[tuple[str, ...]] = []
        self.unknown: dict[CommandRisk, None] = {}  # commands that are not known to be harmless
        self._checks = checks
        self._home = checks.home
        self._earlier = {locate(path, "", self._home): text for path, text in (written or {}).items()}
        self._written: dict[str, str] = {}  # by this command itself
        self._read: set[tuple[str, str]] = set()  # files that were gone through, each with its folder
        self._input: str | None = None  # for commands that are given none of their own
        self._aliases: dict[str, str] = {}
        self._functions: list[str] = []
        self._is_parallel = 0
        self._steps = 0
        self._words = 0

    def text(self, text: str, scope: Scope, stdin: str | None = None, depth: int = 0) -> None:
        if UNKNOWN in text:
            self._add(ask("run-time-script", "part of what its inner shell runs is decided only when it runs"))
            text = text.replace(UNKNOWN, "${_}")
        try:
            script = parse(text)
            scope.unsure |= names_unsure(script)
            self._script(script, scope, stdin, depth)
        except UnparsableCommand as problem:
            self._add(ask("unreadable", str(problem)))

    def _add(self, *findings: CommandRisk) -> None:
        self.findings.update(dict.fromkeys(findings))

    def _script(self, script: Script, scope: Scope, stdin: str | None, depth: int) -> None:
        for statement in script:
            self._statement(statement, scope, stdin, depth)

    def _statement(self, statement: Statement, scope: Scope, stdin: str | None, depth: int) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            raise UnparsableCommand("it is too long or nested too deep to be read")
        if isinstance(statement, Simple):
            self._simple(statement, scope, stdin, depth)
        else:
            self._block(statement, scope, stdin, depth)

    def _block(self, made: Block, scope: Scope, stdin: str | None, depth: int) -> None:
        self._run_inside(made.words, scope, depth)
        stdin, targets = self._redirects(made.redirects, scope, stdin, depth, name=made.kind)
        is_function, is_pipeline = made.kind == "function", made.kind == "pipeline"
        if is_function or made.kind == "fed":  # whoever calls a function decides what it reads
            stdin = UNKNOWN
        inside = Scope(self._home, {}, scope.unsure) if is_function else scope if made.kind == "group" else scope.copy()
        below = depth if made.kind in ("pipeline", "chain") else depth + 1
        is_parallel = is_pipeline or made.kind == "background"
        self._is_parallel += is_parallel
        self._functions += [made.name] * is_function
        for place, part in enumerate(made.body):
            own = inside.copy() if is_pipeline else inside
            self._statement(part, own, UNKNOWN if is_pipeline and place else stdin, below)
            inside.forget_changes_of(own)
        self._is_parallel -= is_parallel
        self._functions = self._functions[:-1] if is_function else self._functions
        scope.forget_changes_of(inside)
        self._written.update(dict.fromkeys(targets, UNKNOWN))

    def _run_inside(self, word: Word, scope: Scope, depth: int) -> None:
        for script in scripts_in(word):
            self._script(script, scope.copy(), None, depth + 1)

    def _expand(self, word: Word, scope: Scope, depth: int) -> str:
        self._run_inside(word, scope, depth)
        return join_pieces(word, scope)

    # One command.

    def _simple(self, command: Simple, scope: Scope, stdin: str | None, depth: int) -> None:
        for word in command.words:
            self._run_inside(word, scope, depth)
        words = [one for word in command.words for one in split_word(word, scope)]
        values = {one.name: self._expand(one.value, scope, depth) for one in command.assignments}
        for name, value in values.items():
            self._check_variable(name, value)
        stdin = stdin if stdin is not None else self._input
        stdin, targets = self._redirects(command.redirects, scope, stdin, depth, name=words[0] if words else "")
        if words == ["exec"]:  # what it is given, all that follow are given
            self._input = stdin
        if not words or words[0] in _DECLARING:
            scope.variables.update(values)
            inner = scope
        else:
            inner = scope.copy() if values else scope
            inner.variables.update(values)
        if words:
            self._run(tuple(words), inner, stdin, depth)
        text = stdin if words == ["cat"] and stdin is not None else UNKNOWN if words else ""
        for target in targets:
            self._written[target] = self._written.get(target, "") + text

    def _check_variable(self, name: str, value: str) -> None:
        if name == "PATH":
            self.unknown[ask("unknown-command", "it changes where programs are looked for", "PATH")] = None
        self._add(*self._checks.variable(name, value))

    def _redirects(
        self, redirects: tuple[Redirect, ...], scope: Scope, stdin: str | None, depth: int, *, name: str
    ) -> tuple[str | None, list[str]]:
        """Return the input after them, and the files that are written to."""
        targets: list[str] = []
        for redirect in redirects:
            target = self._expand(redirect.target, scope, depth)
            if redirect.operator == "<<":
                stdin = target
                continue
            self._add(*self._checks.redirect(redirect.operator, target, self._run_of((name,), scope, stdin)))
            key = self._key(target, scope)
            if redirect.operator == "<&":
                stdin = stdin if target == "0" else UNKNOWN
            elif redirect.operator.startswith("<"):
                is_hidden = UNKNOWN in target or (_INPUT.match(key) and key != "/dev/null")
                stdin = self._written.get(key, self._earlier.get(key, UNKNOWN if is_hidden else None))
            elif not (target.isdigit() and "&" in redirect.operator):
                targets.append(key)
        return stdin, targets

    def _run(self, words: tuple[str, ...], scope: Scope, stdin: str | None, depth: int) -> None:
        self._steps += 1
        self._words += len(words)
        if depth > MAX_DEPTH or self._steps > MAX_STEPS or self._words > MAX_WORDS:
            raise UnparsableCommand("it is too long or nested too deep to be read")
        name, arguments = words[0], tuple(word.replace(GLOB, "") for word in words[1:])
        self.argvs.append((name.replace(GLOB, ""), *arguments))
        if UNKNOWN in name or _PATTERN.search(name):  # a pattern is no name, quoted or not
            self._add(RUN_TIME_NAME)
            return
        if name in _RESERVED:
            raise UnparsableCommand("it cannot be read as a shell command")
        run = self._run_of((name, *arguments), scope, stdin)
        module = module_of(run)
        of_module = self._run_of(module, scope, stdin) if module else None
        if run.name in self._functions and self._is_parallel:
            self._add(block("fork-bomb", "it multiplies without end"))
        self._add(*self._checks.command(run), *(self._checks.command(of_module, is_module=True) if of_module else ()))
        if not is_known_harmless(run.name, run.words):
            reason = f"{render(run.name)} is not known to be harmless"
            self.unknown[ask("unknown-command", reason, render(run.path or run.name))] = None
        if meant := self._aliases.pop(name, ""):  # not known meanwhile, as it may name itself
            self.text(" ".join((meant, *arguments)), scope.copy(), stdin, depth + 1)
            self._aliases[name] = meant
        for variable, value in variables_before(run):
            self._check_variable(variable, value)
        for inner in (*self._program_files(run, module), *unwrap(run)):
            self._inner(inner, scope, stdin, depth)
        self._follow(run, scope)

    def _program_files(self, run: Run, module: tuple[str, ...]) -> Iterator[Inner]:
        """Yield the program itself, if it is a file by its path or by the name of one that was just written."""
        if run.path:
            yield ScriptFile(run.path, is_shell=True)
        else:
            yield from (ScriptFile(path, is_shell=True) for path in self._written if path.endswith(f"/{run.name}"))
        names_run = {run.name, *module[:1]}
        if names_run & listed("project-runners") and not all(
            is_nothing(path) or is_temporary(path) for path in self._written
        ):
            yield ask("unread-code", f"{run.name} may run a file that this very command writes")
        yield from (ScriptFile(path) for one in module[:1] for path in self._written if path.endswith(f"/{one}.py"))

    def _run_of(self, words: tuple[str, ...], scope: Scope, stdin: str | None) -> Run:
        folder = scope.value("PWD")
        name = posixpath.basename(words[0]) or words[0]
        path = locate_scope(words[0], folder, self._home) if "/" in words[0] else ""
        return Run(name=name, path=path, words=words[1:], stdin=stdin, folder=folder, home=self._home)

    def _inner(self, inner: Inner, scope: Scope, stdin: str | None, depth: int) -> None:
        """Go through the commands that a command runs in turn."""
        match inner:
            case CommandRisk():
                self._add(inner)
            case Argv(words):
                if words and words[0]:
                    self._run(words, scope, stdin, depth + 1)
            case ShellText(text, is_here):
                there = scope if is_here else Scope(self._home, {"PWD": scope.value("PWD")})
                self.text(text, there, stdin, depth + 1)
            case ScriptFile():
                self._script_file(inner, scope, depth)

    def _script_file(self, file: ScriptFile, scope: Scope, depth: int) -> None:
        """Read a shell script that was written meanwhile. Any other such file asks; one from before does not."""
        key = self._key(file.path, scope)
        if _INPUT.match(key) and key != "/dev/null":
            self._add(ask("unread-code", "it runs its input, which nobody has read"))
            return
        found = self._matching(key)
        if found is None or (found, scope.value("PWD")) in self._read:
            return
        self._read.add((found, scope.value("PWD")))
        text = self._written.get(found, self._earlier.get(found, UNKNOWN))
        first = text.partition("\n")[0]
        is_script = file.is_shell and (not first.startswith("#!") or any(map(is_shell, re.split(r"[/\s]+", first))))
        if UNKNOWN not in text and is_script and len(text) <= MAX_FILE_CHARS and depth <= MAX_DEPTH:
            self.text(text, Scope(self._home, {"PWD": scope.value("PWD")}), None, depth + 1)
        elif found in self._written:
            self._add(ask("unread-code", f"it runs {render(found)}, which it has only just written"))
        else:
            folder = locate_scope(posixpath.dirname(file.path) or ".", scope.value("PWD"), self._home)
            self._add(ask("run-written", f"it runs {render(found)}, which was written in this conversation", folder))

    def _matching(self, key: str) -> str | None:
        """Return the path of a file that was written meanwhile; a pattern or an unknown part may stand for any."""
        for known in (self._written, self._earlier):
            if key in known:
                return key
        if UNKNOWN in key or _PATTERN.search(key):
            folder = posixpath.dirname(key)
            return next((path for path in self._written if posixpath.dirname(path) == folder), None)
        above = [path for path, text in self._written.items() if text == UNKNOWN and key.startswith(f"{path}/")]
        hidden = [path for path in self._written if UNKNOWN in path and path.endswith(posixpath.basename(key))]
        return next(iter((*above, *hidden)), None)

    # What a command changes for those after it.

    def _follow(self, run: Run, scope: Scope) -> None:
        match run.name:
            case "cd" | "pushd":
                rest = [word for word in run.words if not word.startswith(("-", "+"))]
                target = rest[0] if rest else self._home
                is_known = "-" not in run.words and (rest or run.name == "cd")
                folder = locate(target, run.folder, "") if is_known else UNKNOWN
                scope.variables["PWD"] = UNKNOWN if UNKNOWN in folder else folder
            case "popd":
                scope.variables["PWD"] = UNKNOWN
            case "source" | ".":
                scope.unsure |= {EVERYTHING}
            case "alias":
                self._aliases |= dict(word.split("=", 1) for word in run.words if "=" in word)
            case name if name in listed("writers"):
                self._remember_copies(run, scope)

    def _remember_copies(self, run: Run, scope: Scope) -> None:
        """Record what a program writes by its own means, under every name that may be it; unpacked, it may be any."""
        words = [re.sub(r"^(?:of=|-\w*[oO](?=.)|--out\S*=)", "", word) for word in run.words]
        if run.name in ("tar", "unzip") and not {"-l", "-t", "tf"} & set(words):
            words.append(".")
        bases = [re.split(r"[/:]", word.removesuffix(".git").rstrip("/"))[-1] for word in words]
        names = [word for word in (*words, *bases) if word and not word.startswith("-")]
        into = [posixpath.join(words[-1], base) for base in bases if base and run.name in ("cp", "mv", "ln", "install")]
        self._written |= {self._key(name, scope): UNKNOWN for name in (*names, *into)}

    def _key(self, path: str, scope: Scope) -> str:
        return locate(path, scope.value("PWD"), self._home)
