"""The conversation at a real terminal: an input line that stays, answers that grow above it, questions in place."""

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.styles import Style

from agent_core.events import Emit
from agent_core.model import ModelError
from gateway.approvals.terminal import Answer
from gateway.errors import CommandRefused
from hermes_cli.input_line import ChatCompleter, Pastes, RawTerminalInput, bind_keys, find_files, open_history
from hermes_cli.live_view import LiveView
from hermes_cli.prompting import describe_question, offer, read_answer
from tools.approval.gate import Question

_LEAVE = ("/quit", "/exit")
_STOP = ("/stop", "stop", "cancel")
_AGAIN_SECONDS = 2.0  # within which a second Ctrl-C leaves
_REFRESH_SECONDS = 0.1
_STYLE = Style.from_dict({"bottom-toolbar": "noreverse dim", "prompt": "bold"})


Say = Callable[[str, Emit, Sequence[Path]], Awaitable[str]]
"""Answers a message or a command, with the attached files. Raises ModelError and CommandRefused."""


@dataclass(slots=True, kw_only=True)
class InteractiveChat:
    say: Say
    view: LiveView
    completer: ChatCompleter
    history: Path
    status: Callable[[LiveView], list[str]]  # what the line below the input says, most important first
    wait_seconds: float = 60
    _turn: asyncio.Task[None] | None = None
    _queued: deque[str] = field(default_factory=deque)  # as typed, with large pastes folded
    _pastes: Pastes = field(default_factory=Pastes)
    _question: tuple[Question, asyncio.Future[Answer]] | None = None
    _interrupted_at: float = -_AGAIN_SECONDS
    _session: PromptSession[str] | None = None

    async def run(self) -> None:
        """Talk until Ctrl-D, /quit or Ctrl-C twice."""
        color = self.view.color and self.view.skin != "mono"
        self._session = PromptSession(
            self._prompt,
            input=RawTerminalInput(sys.stdin),
            multiline=True,
            completer=self.completer,
            complete_while_typing=True,
            history=open_history(self.history),
            key_bindings=bind_keys(interrupt=self._interrupt, unfold=self.view.unfold, pastes=self._pastes),
            bottom_toolbar=self._toolbar,
            style=_STYLE,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            prompt_continuation="  ",
        )
        # One prompt for the whole conversation: between two, keys would reach a terminal in another mode.
        self._session.default_buffer.accept_handler = self._take
        refresh = asyncio.create_task(self._refresh())
        with (
            StdoutProxy(raw=True, sleep_between_writes=_REFRESH_SECONDS / 5) as above,
            contextlib.redirect_stdout(above),
            contextlib.redirect_stderr(above),
            contextlib.suppress(EOFError),
        ):
            try:
                await self._session.prompt_async()
            finally:
                refresh.cancel()
                await self._stop()

    async def ask(self, question: Question, call_id: str = "") -> Answer:
        """Ask before a risky call, in the place of the input line; "nobody" when there is no answer in time."""
        assert self._session is not None
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._question = question, answered
        buffer = self._session.default_buffer
        stashed, buffer.text = buffer.text, ""  # what was typed before is no answer to it
        self.view.ask(describe_question(question, width=self.view.width()))
        try:
            async with asyncio.timeout(self.wait_seconds):
                return await answered
        except TimeoutError:
            self.view.note(f"No answer within {self.wait_seconds:g} s, so it was not done.")
            return "nobody"
        finally:
            self._question = None
            buffer.text = stashed

    def _take(self, buffer: Buffer) -> bool:
        """Handle what was typed; return False, so that the input line is emptied."""
        text = buffer.text.strip()
        if self._question is not None:
            question, answered = self._question
            verdict = read_answer(text, question)
            if verdict is None:
                self.view.note("That is no answer to the question. Type a letter in brackets, then Enter.")
            elif not answered.done():
                self.view.note(f"You answered: {verdict}")
                answered.set_result(verdict)
        elif text in _LEAVE:
            self._leave()
        elif text == "/clear":
            assert self._session is not None
            self._session.app.renderer.clear()
        elif self._turn is not None and text.lower() in _STOP:
            self._turn.cancel()
        elif text:
            self._queued.append(text)
            self._begin_next()
        return False

    def _leave(self) -> None:
        assert self._session is not None
        self._session.app.exit(exception=EOFError)

    def _begin_next(self) -> None:
        if self._turn is None and self._queued:
            text = self._queued.popleft()
            self.view.echo(text)
            self._turn = asyncio.create_task(self._answer(text))

    async def _answer(self, typed: str) -> None:
        self.view.begin()
        try:
            text = self._pastes.expand(typed)
            self.view.end(await self.say(text, self.view, find_files(text)))
        except asyncio.CancelledError:
            self.view.discard()
            self.view.note("Stopped.\n")
        except (ModelError, CommandRefused) as error:
            self.view.discard()
            self.view.note(f"{self.view.clean(str(error))}\n", style="red")
        finally:
            self._turn = None
            self._begin_next()

    def _interrupt(self, buffer: Buffer) -> None:
        now = time.monotonic()
        if now - self._interrupted_at < _AGAIN_SECONDS:
            self._leave()
            return
        self._interrupted_at = now
        if self._turn is not None:
            buffer.insert_text("\n".join(self._queued))  # so that nothing typed is lost
            self._queued.clear()
            self._turn.cancel()
        elif buffer.text:
            buffer.reset()

    async def _stop(self) -> None:
        self._queued.clear()
        if self._turn is not None:
            self._turn.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._turn

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            asks_again = time.monotonic() - self._interrupted_at < _AGAIN_SECONDS + 2 * _REFRESH_SECONDS
            if self._session is not None and (self._turn is not None or asks_again):
                self._session.app.invalidate()

    def _prompt(self) -> AnyFormattedText:
        if self._question is not None:
            return ANSI(f"{offer(self._question[0])}: ")
        lines = self.view.render(max(terminal_size().lines - 8, 3)).splitlines()
        lines += [f"  waiting: {' '.join(text.split())[:60]}" for text in self._queued]
        return ANSI("\n".join([*lines, "> "]))

    def _toolbar(self) -> AnyFormattedText:
        if time.monotonic() - self._interrupted_at < _AGAIN_SECONDS:
            return "Press Ctrl-C again to leave."
        width, shown = self.view.width(), ""
        for item in self.status(self.view):
            longer = f"{shown} · {item}" if shown else item
            if len(longer) > width:
                break
            shown = longer
        return shown


def terminal_size() -> os.terminal_size:
    """Return the size of the window now. Not from COLUMNS, which does not follow it."""
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except OSError:
        return os.terminal_size((80, 24))


def write_stdout(text: str) -> None:
    """Write above the input line. Looks stdout up each time: while the line is shown, it is patched."""
    sys.stdout.write(text)
    sys.stdout.flush()
