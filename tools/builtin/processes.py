"""The agent's view of what it has started in the background: look, wait, talk to it, end it."""

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from tools.ansi import plain, unfinished
from tools.approval.typed_input import about_process
from tools.approval.wrapper import needs_approval
from tools.arguments import parse_object
from tools.backends.base import Backend, BackendFailed, ProcessStatus
from tools.base import BadArguments, Tool, ToolContext, ToolFailed, ToolOutput, workplace_of
from tools.builtin.terminal import make_room, terminal_tool
from tools.content import in_bytes
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
    "Somebody has written meanwhile. What they say follows here, or is for the next turn: then end this one soon "
    "instead of waiting again. The process goes on."
)

Action = Literal["list", "poll", "log", "wait", "kill", "write", "submit"]


def process_tools(book: ProcessBook, rules: TerminalRules | None = None) -> tuple[Tool, Tool]:
    """`terminal` and `process` over the same book."""
    rules = rules or TerminalRules()
    return terminal_tool(book, rules), process_tool(book, rules)


def process_tool(book: ProcessBook, rules: TerminalRules) -> Tool:
    """The tool over a book of the caller's choice: nobody sees more than what has the holder of their workplace."""
    typed = Typed()

    async def process(
        context: ToolContext,
        action: Annotated[Action, Field(description="What to do")],
        session_id: Annotated[str, Field(description="Which one: the proc_… of terminal; not for list")] = "",
        data: Annotated[
            str, Field(description="For write and submit: what to type; \\u0003 is Ctrl-C where it has a terminal")
        ] = "",
        timeout: Annotated[
            float, Field(description="For wait: how many seconds at most", gt=0, allow_inf_nan=False)
        ] = rules.timeout_seconds,
        offset: Annotated[
            int, Field(description="For log: the first line, counted from 1; without it the last lines are given", ge=0)
        ] = 0,
        limit: Annotated[int, Field(description="For log: how many lines at most", ge=1, le=MAX_LINES)] = _LINES,
        size: Annotated[
            str, Field(description="For write: the size of its terminal from now on, such as 120x40", pattern=_SIZE)
        ] = "",
        raw: Annotated[bool, Field(description="Leave colours and cursor movements in the output")] = False,
    ) -> dict[str, Any]:
        """Look after what terminal has started in the background.

        list them; poll: how it stands, and its output since the last poll; log: lines of what is kept of its output;
        wait for its end; kill it and all its children; write to its input; submit: write, and press Enter.
        """
        place = workplace_of(context)
        if action == "list":
            await make_room(place, book, wanted=0)
            return {"processes": [_listed(one) for one in await book.read_all(place.holder)]}
        found = await book.find(place.holder, session_id)
        if found is None:
            raise ToolFailed(_unknown(session_id, await book.read_all(place.holder)))
        one = _One(process=found, backend=place.backend, book=book)
        match action:
            case "poll":
                return await one.polled(raw=raw)
            case "log":
                return await one.lines(offset, limit, raw=raw)
            case "wait":
                return await one.waited_for(timeout, rules.longest_seconds, context.user_wrote, raw=raw)
            case "kill":
                return await one.killed()
            case "write" | "submit":
                if size:
                    await one.resize(size)
                told = await one.sent(data, with_enter=action == "submit", may_be_nothing=bool(size))
                typed.sent(found.id, context.call_id)
                return told

    built = build_tool(process, toolset="terminal", needs_workplace=True, brings="tool:process")
    asking = needs_approval(built, about_process(rules, book, typed))
    return replace(asking, run=_one_after_the_other(asking, typed), only_waits=lambda said: _action(said)[0] == "wait")


def _one_after_the_other(tool: Tool, typed: Typed) -> Callable[[str, ToolContext], Awaitable[ToolOutput]]:
    """What is typed into one process: what one call has typed is known when the next is looked at."""

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        action, session_id = _action(arguments)
        if action not in ("write", "submit"):
            return await tool.run(arguments, context)
        async with typed.turn_of(session_id):
            return await tool.run(arguments, context)

    return run


def _action(arguments: str) -> tuple[str, str]:
    """What is asked for, and of which process; what cannot be read asks for nothing."""
    try:
        given = parse_object(arguments)
    except BadArguments:
        given = {}
    return str(given.get("action")), str(given.get("session_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    """A process of whoever asks."""

    process: Process
    backend: Backend
    book: ProcessBook

    async def polled(self, *, raw: bool) -> dict[str, Any]:
        standing = await self._standing()
        shown, note = await self._news(standing, raw=raw)
        return self._told(standing, note, output=shown)

    async def waited_for(
        self, timeout: float, longest: float, user_wrote: asyncio.Event | None, *, raw: bool
    ) -> dict[str, Any]:
        seconds = min(timeout, longest)
        standing = await self._until_ended(seconds, user_wrote)
        notes = [f"The timeout was made {seconds:g} seconds, the longest there is."] if seconds < timeout else []
        if standing.is_running:
            wrote = user_wrote is not None and user_wrote.is_set()
            notes.append(_WROTE if wrote else f"It still runs after {seconds:g} seconds.")
        shown, note = await self._news(standing, raw=raw)
        return self._told(standing, *notes, note, output=shown)

    async def lines(self, offset: int, limit: int, *, raw: bool) -> dict[str, Any]:
        standing = await self._standing()
        text, _ = await self._text(0, standing)
        text = text if raw else plain(text, from_terminal=self.process.pty)
        lines = text.removesuffix("\n").split("\n") if text else []
        first = offset or max(1, len(lines) - limit + 1)
        shown, left_out = _cut("\n".join(lines[first - 1 : first - 1 + limit]))
        note = f"{left_out:,} characters are left out; ask for fewer lines." if left_out else ""
        return self._told(standing, note, output=shown, total_lines=len(lines), offset=first, limit=limit)

    async def killed(self) -> dict[str, Any]:
        await self.backend.kill(self.process.handle)
        return self._told(await self._standing())

    async def resize(self, size: str) -> None:
        if not self.process.pty:
            raise ToolFailed("It has no terminal: start it with pty=true.")
        columns, _, rows = size.partition("x")
        await self.backend.resize(self.process.handle, columns=int(columns), rows=int(rows))

    async def sent(self, data: str, *, with_enter: bool, may_be_nothing: bool = False) -> dict[str, Any]:
        # A terminal's Enter is a carriage return; programs that read keys wait for that one.
        typed = data + ("\r" if self.process.pty else "\n") if with_enter else data
        if not typed and not may_be_nothing:
            raise ToolFailed("There is nothing to write: give it as data.")
        encoded = typed.encode("utf-8", "replace")
        if encoded:
            await self.backend.write(self.process.handle, encoded)
        return {"session_id": self.process.id, "bytes_sent": len(encoded)}

    async def _standing(self) -> ProcessStatus:
        standing = (await self.backend.statuses([self.process.handle])).get(self.process.id)
        if standing is None:
            raise BackendFailed("The state of the process cannot be read now. Try again later.")
        if not standing.is_running:
            await self.book.mark_ended(self.process.id, standing.exit_code)
        return standing

    async def _until_ended(self, seconds: float, user_wrote: asyncio.Event | None) -> ProcessStatus:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        pause = _FIRST_PAUSE_SECONDS
        while (standing := await self._standing()).is_running:
            left = until - loop.time()
            if left <= 0 or (user_wrote and user_wrote.is_set()):
                break
            await _pause(min(pause, left), user_wrote)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        return standing

    async def _news(self, standing: ProcessStatus, *, raw: bool) -> tuple[str, str]:
        """What it wrote since the last look, and a note about that."""
        text, end = await self._text(self.process.polled, standing)
        await self.book.mark_polled(self.process.id, end)
        shown, left_out = _cut(text if raw else plain(text, from_terminal=self.process.pty))
        return shown, f"{left_out:,} characters are left out; log has them." if left_out else ""

    async def _text(self, since: int, standing: ProcessStatus) -> tuple[str, int]:
        """What it wrote from there on, as far as it is kept, and up to where. What is half there waits for its rest."""
        text, position = "", since
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # No further than it was when we looked: some write faster than anybody reads.
        while position < standing.output_bytes:
            output = await self.backend.read(self.process.handle, since=position)
            if not output.content:
                break
            if output.start > position:
                text += decoder.decode(b"", final=True)
                text += f"\n[… {in_bytes(output.start - position)} of output are no longer kept …]\n"
            text += decoder.decode(output.content)
            position = output.end
        if not standing.is_running:
            return text + decoder.decode(b"", final=True), position
        whole = text.removesuffix(unfinished(text))
        return whole, position - len(decoder.getstate()[0]) - (len(text) - len(whole))

    def _told(self, standing: ProcessStatus, *notes: str, **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = {"session_id": self.process.id, "status": "running" if standing.is_running else "exited"}
        told |= {} if standing.is_running else {"exit_code": standing.exit_code}
        said = " ".join(filter(None, (*notes, standing.note)))
        return told | more | ({"note": said} if said else {})


async def _pause(seconds: float, user_wrote: asyncio.Event | None) -> None:
    if user_wrote is None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            await user_wrote.wait()
    except TimeoutError:
        return


def _listed(process: Process) -> dict[str, Any]:
    ended = process.ended_ms is not None
    told: dict[str, Any] = {
        "session_id": process.id,
        "command": process.command[:_COMMAND_CHARS],
        "status": "exited" if ended else "running",
        "pid": process.handle.pid,
        "workdir": process.workdir,
        "seconds": ((process.ended_ms or now_ms()) - process.started_ms) // 1000,
    }
    return told | ({"exit_code": process.exit_code} if ended else {})


def _unknown(session_id: str, known: Sequence[Process]) -> str:
    words = f"There is no process {session_id}" if session_id else "Say which process by its session_id"
    yours = ", ".join(process.id for process in known)
    return f"{words}; yours are {yours}." if yours else f"{words}; you have none."


def _cut(text: str) -> tuple[str, int]:
    """Head and tail of it, and how much is missing between them."""
    left_out = len(text) - MAX_SHOWN_CHARS
    if left_out <= 0:
        return text, 0
    half = MAX_SHOWN_CHARS // 2
    return f"{text[:half]}\n[… {left_out:,} characters are left out here …]\n{text[-half:]}", left_out


for _tool in process_tools(ProcessesInMemory()):
    registry.add(_tool, module=__name__)
