"""Ask the person at the terminal for approval. No answer means no."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import wrap
from types import FrameType
from typing import TextIO

import click

from agent_core.events import Event, ToolStarted
from gateway.approvals.terminal import Answer
from gateway.approvals.wording import MAX_SHOWN_CHARS, Verdict, escape_invisible, read_verdict
from gateway.wording import shorten
from hermes_config.environment import is_dumb_terminal
from tools.approval.gate import Question

_LETTERS: dict[str, Verdict] = {"o": "once", "s": "session", "a": "always", "d": "deny", "": "deny"}


@dataclass(slots=True, kw_only=True)
class Screen:
    """Writes progress to stderr during a turn, and holds it back while a question is shown."""

    lines: TextIO = field(default_factory=lambda: sys.stdin)
    wait_seconds: float = 60
    stop: Callable[[], object] = lambda: None  # ends the turn
    was_stopped: bool = False
    _held_back: list[str] | None = None

    def show(self, event: Event) -> None:
        if isinstance(event, ToolStarted):
            line = f"  … {event.call.name}"
            if self._held_back is None:
                click.echo(line, err=True)
            else:
                self._held_back.append(line)

    async def ask(self, question: Question, call_id: str = "") -> Answer:
        if not (self.lines.isatty() and sys.stderr.isatty()):
            what = f"{question.tool}: {shorten(escape_invisible(question.action), MAX_SHOWN_CHARS)}"
            click.echo(
                f"Not done, because approval needs a terminal: {what} "
                f"({'; '.join(map(escape_invisible, question.reasons))})",
                err=True,
            )
            return "nobody"
        with self._alone(), self._interruptible():
            _drop_typed(self.lines)  # what was typed before the question was read is no answer to it
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            click.echo("\n".join(["", *describe_question(question, width=width)]), err=True)
            try:
                async with asyncio.timeout(self.wait_seconds):
                    return await self._answer(question)
            except TimeoutError:
                _drop_typed(self.lines)
                click.echo(f"\nNo answer within {self.wait_seconds:g} s, so it was not done.", err=True)
                return "nobody"

    async def _answer(self, question: Question) -> Verdict:
        while True:
            click.echo(f"{offer(question)} (deny after {self.wait_seconds:g} s): ", nl=False, err=True)
            await wait_for_line(self.lines)
            line = self.lines.readline()
            if not line:  # Ctrl-D
                click.echo(err=True)
                return "deny"
            if verdict := read_answer(line, question):
                return verdict

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._held_back = []
        try:
            yield
        finally:
            held_back, self._held_back = self._held_back, None
            for line in held_back:
                click.echo(line, err=True)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C end the turn instead of the whole conversation."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.was_stopped = True
            click.echo(err=True)
            self.stop()

        def interrupted(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(stop)

        # Not by the loop's own `add_signal_handler`: taking that away takes asyncio.run's handler away, too.
        before = signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def can_draw(lines: TextIO) -> bool:
    """Return whether both ends are a terminal that can move its cursor."""
    return lines.isatty() and sys.stdout.isatty() and not is_dumb_terminal()


async def wait_for_line(lines: TextIO) -> None:
    """Wait for a line. Not in a thread: asyncio.run waits for its threads, so Ctrl-C would wait for Enter."""
    there = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(lines.fileno(), there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(lines.fileno())


def _drop_typed(lines: TextIO) -> None:
    import termios

    termios.tcflush(lines.fileno(), termios.TCIFLUSH)


def offer(question: Question) -> str:
    """Return the answers that a question allows."""
    return "[o]nce, [s]ession, [a]lways, [d]eny" if question.rules else "[o]nce, [d]eny"


def read_answer(line: str, question: Question) -> Verdict | None:
    """Return the answer that a line gives to the question; None when it gives none that is allowed."""
    said = line.strip().lower()
    verdict = _LETTERS.get(said) or read_verdict(said)
    return verdict if verdict in ("once", "deny") or (verdict and question.rules) else None


def describe_question(question: Question, *, width: int = 10_000) -> list[str]:
    """Return the lines of the question. Each line of the action is indented, so that it cannot imitate ours."""
    from rich.cells import chop_cells  # not loaded where nothing asks

    width = max(width, 20)
    written = escape_invisible(question.action).expandtabs(4).split("\n")
    action = [piece for line in written for piece in chop_cells(line, width - 4) or [""]]
    words = [f"Where: {_flat(question.where)}"] if question.where else []
    words += [f"Reason: {_flat(reason).rstrip('.')}." for reason in question.reasons]
    if question.rules:
        words.append(f"After session or always, these need no question: {', '.join(map(_flat, question.rules))}")
    wrapped = (line for one in words for line in wrap(one, width, break_on_hyphens=False))
    return ["May I do this?", *(f"    {line}" for line in action), *wrapped]


def _flat(text: str) -> str:
    return " ".join(escape_invisible(text).split())
