"""One conversation in an editor: streams a turn, shows what its calls change, and asks for permission."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from acp import Client, RequestError, helpers, schema
from pydantic import BaseModel

from agent_core.conversation import ToolCall
from agent_core.events import (
    Emit,
    Event,
    ReasoningDelta,
    Restarted,
    TextDelta,
    ToolFinished,
    ToolReported,
    ToolStarted,
    ignore,
)
from agent_core.model import ModelError
from gateway.approvals.terminal import Answer, Prompt
from gateway.approvals.wording import MAX_SHOWN_CHARS, escape_invisible, parse_verdict
from gateway.errors import CommandRefused
from gateway.outbound.live_reply import RedactingEmitter
from gateway.store import transcripts
from gateway.store.sessions import find_current
from gateway.terminal_chat import LocalChat
from gateway.wording import shorten
from hermes_cli.editor import rendering
from hermes_cli.editor.rendering import FileChange, Update
from hermes_config.redaction import Redactor
from tools.approval.gate import Question
from tools.arguments import parse_object
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext, ToolFailed
from tools.builtin.patching import patch

M = TypeVar("M", bound=BaseModel)

_MAX_DIFF_BYTES = 1_000_000
_MAX_REPLAYED = 1_000


class Busy(Exception):
    """Another prompt of this conversation is being answered."""


@dataclass(slots=True, kw_only=True)
class EditorSession:
    id: str
    client: Client
    redactor: Redactor
    wait_seconds: float  # for an answer to a question
    make_chat: Callable[[Prompt], LocalChat]
    chat: LocalChat = field(init=False)
    _turn: asyncio.Task[str] | None = None
    _updates: asyncio.Queue[Update] = field(default_factory=asyncio.Queue)
    _emit: Emit = ignore
    _streamed: str = ""  # of the reply that is being written
    _announced: set[str] = field(default_factory=set)  # calls of this turn
    _changes: dict[str, FileChange] = field(default_factory=dict)  # by call
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)  # open as long as the session
    _has_answered: bool = False
    _is_silent: bool = False  # the editor shows no questions

    def __post_init__(self) -> None:
        chat = self.make_chat(self._ask)
        offer = chat.runner.offer_tools

        async def announce_all(*given: Any) -> list[Tool]:
            return [self._announcing(tool) for tool in await offer(*given)]

        self.chat = replace(chat, runner=replace(chat.runner, offer_tools=announce_all))

    async def answer(self, text: str) -> schema.StopReason:
        """Answer a prompt. Raises Busy."""
        if self._turn is not None:
            raise Busy
        self._streamed = ""
        self._announced.clear()
        self._changes.clear()
        self._emit = RedactingEmitter(self.redactor, self._show)
        self._turn = asyncio.create_task(self.chat.say(text, self._emit))
        sending = asyncio.create_task(self._send())
        try:
            stopped = await self._finish(self._turn)
            await self._updates.join()
        finally:
            self._turn = None
            sending.cancel()
        return stopped

    def cancel(self) -> None:
        if self._turn is not None:
            self._turn.cancel()

    async def close(self) -> None:
        """End what the session has begun: its turn, and the MCP servers of the editor."""
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait([self._turn])
        await self.resources.aclose()

    async def list_commands(self) -> None:
        """Tell the editor which commands there are."""
        commands = rendering.list_commands(self.chat.commands.available(self.chat.role, "cli"))
        await self.client.session_update(session_id=self.id, update=commands)

    async def replay(self) -> None:
        """Show the editor what was said before."""
        session = await self.chat.db.read(partial(find_current, key=str(self.chat.key)))
        if session is None:
            return
        entries = await self.chat.db.read(partial(transcripts.entries, session_id=session.id, limit=_MAX_REPLAYED))
        said = [one.message for one in entries if not one.is_undone]
        for update in rendering.replay(said, self.chat.workplace):
            await self.client.session_update(session_id=self.id, update=self._clean(update))

    async def _finish(self, turn: asyncio.Task[str]) -> schema.StopReason:
        try:
            self._show_rest(await turn)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the editor is gone
                raise
            return "cancelled"
        except (ModelError, CommandRefused, ToolFailed) as error:
            self._put(rendering.say(str(error)))
        return "end_turn"

    async def _send(self) -> None:
        while True:
            update = await self._updates.get()
            await self.client.session_update(session_id=self.id, update=self._clean(update))
            self._updates.task_done()

    def _put(self, update: Update) -> None:
        self._updates.put_nowait(update)

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._streamed += text
                self._put(rendering.say(text))
            case ReasoningDelta(text=text):
                self._put(rendering.think(text))
            case Restarted() if self._streamed:
                self._streamed = ""
                self._put(rendering.say("\n\n(The model begins its answer again.)\n\n"))
            case ToolStarted(call=call):
                self._streamed = ""
                if call.id in self._announced:
                    self._put(helpers.update_tool_call(call.id, status="in_progress"))
                else:
                    self._announced.add(call.id)
                    self._put(rendering.begin_call(call, self.chat.workplace, self._changes.get(call.id)))
            case ToolReported(call=call, line=line):
                self._put(rendering.report_call(call, line))
            case ToolFinished(call=call, result=result):
                self._put(rendering.end_call(call, result, self._changes.get(call.id)))
            case _:
                pass

    def _show_rest(self, answer: str) -> None:
        """Show the parts of the answer that were not streamed: notes below it, and the answers to commands."""
        answer, streamed = self.redactor.clean(answer), self._streamed.strip()
        if streamed and answer.startswith(streamed):
            answer = answer[len(streamed) :]
        if answer.strip():
            self._put(rendering.say(answer if self._streamed else answer.strip()))

    def _announcing(self, tool: Tool) -> Tool:
        """Return the tool; the editor is told of each call, and what it would change, before anybody is asked."""

        async def admit(arguments: str, context: ToolContext) -> None:
            if context.delegate is None:  # a call of a delegated task: the call that delegates it is shown
                return await tool.admit(arguments, context)
            if context.workplace is not None and (
                change := await _find_change(tool.name, arguments, context.workplace)
            ):
                self._changes[context.call_id] = change
            self._emit(ToolStarted(call=ToolCall(id=context.call_id, name=tool.name, arguments=arguments)))
            return await tool.admit(arguments, context)

        return replace(tool, admit=admit)

    def _clean(self, shown: M) -> M:
        """Hide secrets. Those that come in pieces were hidden before."""
        return type(shown).model_validate(self.redactor.clean_all(shown.model_dump(by_alias=True)))

    async def _ask(self, question: Question, call_id: str) -> Answer:
        if self._is_silent:
            return "nobody"
        await self._updates.join()  # an editor must know the call about which it is asked
        shown = call_id if call_id in self._announced else call_id.partition("/")[0]  # a delegated task's: its parent
        try:
            async with asyncio.timeout(self.wait_seconds):
                reply = await self.client.request_permission(
                    session_id=self.id,
                    tool_call=self._clean(rendering.ask(question, shown, self._changes.get(call_id))),
                    options=rendering.offer(question),
                )
        except TimeoutError:
            return self._note_silence(question, f"Nobody answered within {self.wait_seconds:g} s")
        except RequestError:
            return self._note_silence(question, "This editor cannot ask for permission")
        self._has_answered = True
        chosen = reply.outcome.option_id if isinstance(reply.outcome, schema.AllowedOutcome) else "deny"
        verdict = parse_verdict(chosen)
        return verdict if verdict in ("once", "deny") or (verdict and question.rules) else "deny"

    def _note_silence(self, question: Question, what: str) -> Answer:
        action = shorten(escape_invisible(question.action), MAX_SHOWN_CHARS).replace("`", "'")
        words = f"{what}, so this was not done: `{action}`."
        if not self._has_answered:
            self._is_silent = True
            words += (
                " I will not ask again in this conversation. Where questions are shown, it goes on with: "
                "`hermes chat --continue`"
            )
        self._put(rendering.say(f"\n\n{words}\n\n"))
        return "nobody"


async def _find_change(name: str, arguments: str, place: Workplace) -> FileChange | None:
    """Return what a call would do to a file; None where that cannot be told, or is no text or too large to show."""
    if name not in ("file_write", "file_patch"):
        return None
    try:
        given = parse_object(arguments)
        path = place.locate(str(given["path"]))
        before = await _read(path, place)
        if name == "file_write":
            return FileChange(path=path, before=before, after=str(given["content"]))
        if before is None:
            return None
        patched = patch(
            before, str(given["old_string"]), str(given["new_string"]), replace_all=bool(given.get("replace_all"))
        )
        return FileChange(path=path, before=before, after=patched.text)
    except (ToolFailed, KeyError, UnicodeDecodeError):
        return None


async def _read(path: str, place: Workplace) -> str | None:
    """Return the text of a file; None when there is none."""
    files = place.backend.files
    if await files.look(path) is None:
        return None
    return (await files.read(path, max_bytes=_MAX_DIFF_BYTES)).content.decode()
