"""Decide whether a human must approve input to a background process, read together with earlier input.

Input to a shell or an interpreter is commands. Input to any other program is answers, which need approval only if they
would be dangerous as a command. Earlier input is kept in memory: a restart forgets it.
"""

import asyncio
import hashlib
import posixpath
import re
from dataclasses import dataclass, replace
from typing import Literal

from tools.approval.command import Asked, CommandReview, exists, question_from, review
from tools.approval.gate import Question
from tools.approval.wrapper import About
from tools.backends.base import Workplace
from tools.base import ToolContext
from tools.content import cut_middle
from tools.process_book import Process, ProcessBook
from tools.shell_guard.guard import Judgement, judge
from tools.terminal_rules import TerminalRules
from tools.typed import MAX_CHARS, Sofar, Typed, as_lines

_SHELLS = frozenset(
    {"ssh", "su", "login", "screen", "tmux", "script", "mosh", "telnet", "nsenter", "chroot", "machinectl"}
)
_CLIENTS = frozenset({"psql", "mysql", "mariadb", "sqlite3", "mongosh", "redis-cli", "duckdb", "gdb", "lldb"})
# Rules that mean nothing for an answer to a program's question.
_NOT_FOR_ANSWERS = frozenset({"unreadable", "run-time-command", "run-time-script", "interpreter-code"})
_ESCAPE = re.compile(r"^\s*(?:[:.\\/]*!+|[.\\]?(?:shell|system|exec|run)\b)\s*")
_HISTORY = re.compile(r"(?:^|[^\\\w=\[(])!(?![\s=(]|$)", re.MULTILINE)
_MAX_LINES = 1_000
_KEYS = Judgement(verdict="ask", reasons=("it presses keys whose effect cannot be known",))
_FROM_HISTORY = Judgement(verdict="ask", reasons=("it runs an unknown earlier command of the history",))
_TOO_MANY = Judgement(verdict="ask", reasons=(f"it types more than {_MAX_LINES:,} lines, too many to read",))
_TOO_MUCH = Judgement(verdict="ask", reasons=(f"more than {MAX_CHARS:,} characters were typed, too many to read",))


@dataclass(frozen=True, slots=True)
class InputReader:
    """The kind of program that reads the input."""

    kind: Literal["shell", "code", "answers"]
    program: str = ""


def about_process(rules: TerminalRules, book: ProcessBook, typed: Typed) -> About:
    """Return the check of calls of the process tool."""

    async def about(given: dict[str, object], context: ToolContext) -> Question | None:
        place, data = context.workplace, given.get("data", "")
        if place is None or given.get("action") not in ("write", "submit") or not isinstance(data, str):
            return None
        process = await book.find(place.holder, str(given.get("session_id", "")))
        if process is None:
            return None  # the tool itself says so
        if place.outside and process.handle.backend == place.outside.backend.name:  # it was let out of the sandbox
            place = place.outside
        before = typed.sofar(process.id)
        after = Sofar(text=before.text + data + ("\n" if given["action"] == "submit" else ""), is_whole=before.is_whole)
        reader = await asyncio.to_thread(reader_of, process.command)
        question, is_over = await _question(process, reader, before, after, data, rules, place, context)
        kept = _remember(after, reader, was_asked=question is not None, is_over=is_over, is_terminal=process.pty)
        typed.expect(process.id, context.call_id, kept)
        return question

    return about


def reader_of(command: str) -> InputReader:
    from tools.shell_guard.interpreters import is_interpreter, is_shell

    found = InputReader("answers")
    for argv in judge(command).argv:
        name = posixpath.basename(argv[0])
        operands = [word for word in argv[1:] if not word.startswith(("-", "+")) or word == "-"]
        if name in _SHELLS or (is_shell(name) and (not operands or {"-s", "-i"} & set(argv))):
            return InputReader("shell", name)
        if name in _CLIENTS or (is_interpreter(name) and (operands[:1] in ([], ["-"]) or "-i" in argv)):
            found = InputReader("code", name)
    return found


async def _question(
    process: Process,
    reader: InputReader,
    before: Sofar,
    after: Sofar,
    data: str,
    rules: TerminalRules,
    place: Workplace,
    context: ToolContext,
) -> tuple[Question | None, bool]:
    """Return the question, if any, and whether the input is complete once it was sent."""
    text, is_known = as_lines(after.text) if process.pty else (after.text, True)
    leaves = place is not context.workplace and reader.kind != "answers"
    asked = Asked(
        tool="process",
        command=_as_command(reader, text),
        action=_action(process, before, data),
        folder=process.workdir if after.is_whole else "",
        facts=(process.id, process.command, data, after.text),
        outside="" if leaves else None,
    )
    if reader.kind == "answers":
        isolated = place.backend.isolates
        # Only lines that are new or continue: the others were judged when they were typed.
        new = after.text.removeprefix(before.text)
        lines = text.split("\n")[-1 - new.count("\n") - new.count("\r") :]
        judgement = (
            Judgement(verdict="safe") if isolated else await asyncio.to_thread(_judge_answers, lines, asked, place)
        )
        return question_from(asked, CommandReview(judgement=judgement), place, context), True
    special = _special(reader, text, is_known=is_known, is_terminal=process.pty)
    if special is not None and not place.backend.isolates:
        return question_from(asked, CommandReview(judgement=special), place, context), text.endswith("\n")
    look = await _review_commands(asked, reader, text, rules, place, context)
    is_over = text.endswith("\n") and not text.endswith("\\\n") and "unreadable" not in _names(look.judgement)
    return question_from(asked, look, place, context), is_over


async def _review_commands(
    asked: Asked, reader: InputReader, text: str, rules: TerminalRules, place: Workplace, context: ToolContext
) -> CommandReview:
    """Review typed commands. A line that has not ended does not run yet, so it may be impossible to parse."""
    look = await review(asked, replace(rules, allowlist=()), place, context)
    if _names(look.judgement) != {"unreadable"}:
        return look
    whole, ended, _ = text.rpartition("\n")
    if text.endswith("\n"):
        return look
    complete = replace(asked, command=_as_command(reader, whole + ended))
    return await review(complete, replace(rules, allowlist=()), place, context)


def _special(reader: InputReader, text: str, *, is_known: bool, is_terminal: bool) -> Judgement | None:
    if not is_known:
        return _KEYS
    if len(text) > MAX_CHARS:
        return _TOO_MUCH
    is_interactive = is_terminal and reader.kind == "shell"
    return _FROM_HISTORY if is_interactive and _HISTORY.search(re.sub(r"'[^'\n]*'", "''", text)) else None


def _judge_answers(lines: list[str], asked: Asked, place: Workplace) -> Judgement:
    """Judge each line by itself: the lines are no script."""
    home = place.backend.home
    read = dict.fromkeys(one for line in lines for one in (line, _ESCAPE.sub("", line)) if one.strip())
    if len(read) > _MAX_LINES:
        return _TOO_MANY
    if any(len(line) > MAX_CHARS for line in read):
        return _TOO_MUCH
    found = [Judgement(verdict="safe")]
    for line in read:
        judged = judge(line, cwd=asked.folder, home=home, is_there=lambda path: exists(path, home))
        if _names(judged) - _NOT_FOR_ANSWERS:
            found.append(judged)
    return max(found, key=lambda one: ("safe", "ask", "block").index(one.verdict))


def _as_command(reader: InputReader, text: str) -> str:
    if reader.kind != "code":
        return text
    mark = f"END_{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return f"{reader.program} <<'{mark}'\n{text}\n{mark}"


def _names(judgement: Judgement) -> set[str]:
    return {rule.name for rule in judgement.rules}


def _action(process: Process, before: Sofar, data: str) -> str:
    said = f"type into {process.id} ({cut_middle(process.command, 200)}): {data}"
    return f"{said}\nafter this was typed: {cut_middle(before.text, 2_000)}" if before.text else said


def _remember(after: Sofar, reader: InputReader, *, was_asked: bool, is_over: bool, is_terminal: bool) -> Sofar:
    """Return the input to remember: nothing after an approval, except a line that has not ended."""
    if was_asked and is_over:
        return Sofar(is_whole=False)
    if len(after.text) <= MAX_CHARS:
        return after
    if reader.kind == "answers":  # only the line that has not ended matters
        return Sofar(text=re.split(r"[\r\n]" if is_terminal else r"\n", after.text)[-1], is_whole=False)
    return after if not was_asked else Sofar(text=after.text[-MAX_CHARS:], is_whole=False)
