"""The `process` tool: list, read, wait for, write to and end background processes."""

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from tools.ansi import plain, unfinished
from tools.approval.typed_input import about_process
from tools.arguments import parse_object
from tools.backends.base import BackendFailed, ProcessControl, ProcessStatus, Workplace
from tools.base import BadArguments, Tool, ToolContext, ToolFailed, ToolOutput, workplace_of
from tools.builtin.terminal import make_room, terminal_tool
from tools.content import cut_middle, in_bytes
from tools.process_book import Process, ProcessBook, ProcessesInMemory, now_ms
from tools.registry import build_tool, registry
from tools.terminal_rules import TerminalRules
from tools.typed import Typed

MAX_SHOWN_CHARS = 20_000
MAX_LINES = 2_000
_LINES = 200
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_COMMAND_CHARS = 200
_SIZE = r"^([1-9][0-9]{0,2}x[1-9][0-9]{0,2})?$"
_WROTE = (
    "The user has sent a message, so the wait was cut short; the process goes on. If the message does not follow here, "
    "end this turn soon instead of waiting again."
)

Action = Literal["list", "poll", "log", "wait", "kill", "write", "submit"]


def process_tools(book: ProcessBook, rules: TerminalRules | None = None) -> tuple[Tool, Tool]:
    """Build `terminal` and `process` over the same book."""
    rules = rules or TerminalRules()
    return terminal_tool(book, rules), process_tool(book, rules)


def process_tool(book: ProcessBook, rules: TerminalRules) -> Tool:
    """Build the tool over a book. A caller sees only processes with the holder of their workplace."""
    typed = Typed()

    async def process(
        context: ToolContext,
        action: Annotated[Action, Field(description="One of the actions above")],
        session_id: Annotated[
            str, Field(description="The proc_… id that terminal returned. Required for all actions but list.")
        ] = "",
        data: Annotated[
            str, Field(description="write, submit: text to type; \\u0003 is Ctrl-C if the process has a terminal")
        ] = "",
        timeout: Annotated[
            float, Field(description="wait: most seconds to wait", gt=0, allow_inf_nan=False)
        ] = rules.timeout_seconds,
        offset: Annotated[
            int, Field(description="log: first line to return, counted from 1; 0 returns the last lines", ge=0)
        ] = 0,
        limit: Annotated[int, Field(description="log: most lines to return", ge=1, le=MAX_LINES)] = _LINES,
        size: Annotated[
            str, Field(description="write: new size of its terminal, columns x rows, for example 120x40", pattern=_SIZE)
        ] = "",
        raw: Annotated[bool, Field(description="Keep colours and cursor movements in the output")] = False,
    ) -> dict[str, Any]:
        """Manage background processes that terminal has started with background=true.

        list: all of them. poll: status, and output since the last poll. log: lines of the stored output. wait: until it
        ends, or the timeout. kill: end it and all its children. write: type data into its input. submit: write, then
        press Enter, for example to answer a question: action=submit, data=yes.
        """
        place = workplace_of(context)
        if action == "list":
            await make_room(place, book, wanted=0)
            return {"processes": [_list_entry(process) for process in await book.read_all(place.holder)]}
        found = await book.find(place.holder, session_id)
        if found is None:
            raise ToolFailed(_describe_unknown(session_id, await book.read_all(place.holder)))
        target = _Target(process=found, backend=place.control_of(found.handle), book=book)
        match action:
            case "poll":
                return await target.poll(raw=raw)
            case "log":
                return await target.read_log(offset, limit, raw=raw)
            case "wait":
                return await target.wait(timeout, rules.longest_seconds, context.user_wrote, raw=raw)
            case "kill":
                return await target.kill()
            case "write" | "submit":
                _check_backend(found, place)
                if size:
                    await target.resize(size)
                result = await target.write(data, with_enter=action == "submit", may_be_nothing=bool(size))
                typed.sent(found.id, context.call_id)
                return result

    asking = build_tool(
        process,
        toolset="terminal",
        needs_workplace=True,
        brings="tool:process",
        only_waits=lambda said: _action(said)[0] == "wait",
        about=about_process(rules, book, typed),
    )
    return replace(asking, run=_run_in_order(asking, typed))


def _check_backend(process: Process, place: Workplace) -> None:
    """Refuse input to a process elsewhere: it would be judged by the isolation of the current backend."""
    known = {place.backend.name, place.outside.backend.name if place.outside else place.backend.name}
    if process.handle.backend not in known and process.handle.backend in place.controls:
        raise ToolFailed("That process was started in another backend. It can be read and killed, but gets no input.")


def _run_in_order(tool: Tool, typed: Typed) -> Callable[[str, ToolContext], Awaitable[ToolOutput]]:
    """Run calls that type into the same process one by one: each is judged knowing what was typed before it."""

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        action, session_id = _action(arguments)
        if action not in ("write", "submit"):
            return await tool.run(arguments, context)
        async with typed.turn_of(session_id):
            return await tool.run(arguments, context)

    return run


def _action(arguments: str) -> tuple[str, str]:
    """Return the action and the process id; neither when the arguments cannot be read."""
    try:
        given = parse_object(arguments)
    except BadArguments:
        given = {}
    return str(given.get("action")), str(given.get("session_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A process of the caller, and where it runs."""

    process: Process
    backend: ProcessControl
    book: ProcessBook

    async def poll(self, *, raw: bool) -> dict[str, Any]:
        status = await self._status()
        shown, note = await self._read_new(status, raw=raw)
        return self._result(status, note, output=shown)

    async def wait(
        self, timeout: float, longest: float, user_wrote: asyncio.Event | None, *, raw: bool
    ) -> dict[str, Any]:
        seconds = min(timeout, longest)
        status = await self._wait_for_end(seconds, user_wrote)
        notes = [f"The timeout was reduced to {seconds:g} s, the longest allowed."] if seconds < timeout else []
        if status.is_running:
            wrote = user_wrote is not None and user_wrote.is_set()
            notes.append(_WROTE if wrote else f"Still running after {seconds:g} s.")
        shown, note = await self._read_new(status, raw=raw)
        return self._result(status, *notes, note, output=shown)

    async def read_log(self, offset: int, limit: int, *, raw: bool) -> dict[str, Any]:
        status = await self._status()
        text, _ = await self._read_text(0, status)
        text = text if raw else plain(text, from_terminal=self.process.pty)
        lines = text.removesuffix("\n").split("\n") if text else []
        first = offset or max(1, len(lines) - limit + 1)
        shown, note = _cut("\n".join(lines[first - 1 : first - 1 + limit]), "ask for fewer lines.")
        return self._result(status, note, output=shown, total_lines=len(lines), offset=first, limit=limit)

    async def kill(self) -> dict[str, Any]:
        await self.backend.kill(self.process.handle)
        return self._result(await self._status())

    async def resize(self, size: str) -> None:
        if not self.process.pty:
            raise ToolFailed("The process has no terminal. Start it with pty=true.")
        columns, _, rows = size.partition("x")
        await self.backend.resize(self.process.handle, columns=int(columns), rows=int(rows))

    async def write(self, data: str, *, with_enter: bool, may_be_nothing: bool = False) -> dict[str, Any]:
        # A terminal's Enter is a carriage return; programs that read keys wait for that one.
        typed = data + ("\r" if self.process.pty else "\n") if with_enter else data
        if not typed and not may_be_nothing:
            raise ToolFailed("There is nothing to write: data is empty.")
        encoded = typed.encode("utf-8", "replace")
        if encoded:
            await self.backend.write(self.process.handle, encoded)
        return {"session_id": self.process.id, "bytes_sent": len(encoded)}

    async def _status(self) -> ProcessStatus:
        status = (await self.backend.statuses([self.process.handle])).get(self.process.id)
        if status is None:
            raise BackendFailed("The state of the process cannot be read now. Try again later.")
        if not status.is_running:
            await self.book.mark_ended(self.process.id, status.exit_code)
        return status

    async def _wait_for_end(self, seconds: float, user_wrote: asyncio.Event | None) -> ProcessStatus:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while (status := await self._status()).is_running:
            left = until - loop.time()
            if left <= 0 or (user_wrote and user_wrote.is_set()):
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(min(pause, left)):
                    await (user_wrote or asyncio.Event()).wait()
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        return status

    async def _read_new(self, status: ProcessStatus, *, raw: bool) -> tuple[str, str]:
        """Return the output since the last look, and a note about it."""
        text, end = await self._read_text(self.process.polled, status)
        await self.book.mark_polled(self.process.id, end)
        return _cut(text if raw else plain(text, from_terminal=self.process.pty), "log has them.")

    async def _read_text(self, since: int, status: ProcessStatus) -> tuple[str, int]:
        """Return the stored output from a position on, and where it ends. Half a character waits for its rest."""
        text, position = "", since
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # No further than it was when we looked: some write faster than anybody reads.
        while position < status.output_bytes:
            output = await self.backend.read(self.process.handle, since=position)
            if not output.content:
                break
            if output.start > position:
                text += decoder.decode(b"", final=True)
                text += f"\n[… {in_bytes(output.start - position)} of output no longer stored …]\n"
            text += decoder.decode(output.content)
            position = output.end
        if not status.is_running:
            return text + decoder.decode(b"", final=True), position
        whole = text.removesuffix(unfinished(text))
        return whole, position - len(decoder.getstate()[0]) - (len(text) - len(whole))

    def _result(self, status: ProcessStatus, *notes: str, **more: Any) -> dict[str, Any]:
        result: dict[str, Any] = {"session_id": self.process.id, "status": "running" if status.is_running else "exited"}
        result |= {} if status.is_running else {"exit_code": status.exit_code}
        note = " ".join(filter(None, (*notes, status.note)))
        return result | more | ({"note": note} if note else {})


def _list_entry(process: Process) -> dict[str, Any]:
    ended = process.ended_ms is not None
    entry: dict[str, Any] = {
        "session_id": process.id,
        "command": process.command[:_COMMAND_CHARS],
        "status": "exited" if ended else "running",
        "pid": process.handle.pid,
        "workdir": process.workdir,
        "seconds": ((process.ended_ms or now_ms()) - process.started_ms) // 1000,
    }
    return entry | ({"exit_code": process.exit_code} if ended else {})


def _describe_unknown(session_id: str, known: Sequence[Process]) -> str:
    problem = f"There is no process {session_id}." if session_id else "The session_id is missing."
    yours = ", ".join(process.id for process in known)
    return f"{problem} Yours: {yours}." if yours else f"{problem} You have no background processes."


def _cut(text: str, advice: str) -> tuple[str, str]:
    """Shorten to head and tail; return that, and a note if anything is omitted."""
    left_out = len(text) - MAX_SHOWN_CHARS
    note = f"{left_out:,} characters omitted; {advice}" if left_out > 0 else ""
    return cut_middle(text, MAX_SHOWN_CHARS), note


for _tool in process_tools(ProcessesInMemory()):
    registry.add(_tool, module=__name__)
