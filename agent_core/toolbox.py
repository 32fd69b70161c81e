"""Run the tool calls of a message at once, and give each exactly one result, whatever happens."""

import asyncio
import json
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from itertools import count
from typing import Any, TypeVar

import structlog

from agent_core.conversation import Journal, Message, ToolCall, tool_result
from agent_core.events import Emit, ToolFinished, ToolReported, ToolStarted
from agent_core.history import interrupted_by_restart
from agent_core.provenance import defer_provenance, read_provenance
from tools.base import BadArguments, Tool, ToolContext, ToolFailed, ToolOutput
from tools.content import Part, Text, cut_middle
from tools.provenance import HERMES, UNKNOWN_TOOL, Provenance, nothing_heard

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_ERROR_CHARS = 1_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """The tools of one turn."""

    tools: Mapping[str, Tool]
    journal: Journal
    context: ToolContext
    emit: Emit
    slots: asyncio.Semaphore | None  # shared with other turns; None: no limit
    max_runs: int  # of this turn at once, so that some slots are left to others
    max_result_chars: int

    async def run(
        self, calls: Sequence[ToolCall], conversation: Sequence[Message] = (), *, started: Collection[str] = ()
    ) -> list[Message]:
        """Return the results in the order of the calls; each is journalled as soon as it is there.

        `conversation` ends with the message that makes the calls. A call that an earlier process `started` is not run
        again, unless its tool continues where it was.
        """
        heard = self._read_provenance(conversation)
        own_slots = asyncio.Semaphore(self.max_runs)
        going_on = {name for name, tool in self.tools.items() if tool.continues}
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    self._leave_interrupted(call)
                    if call.id in started and call.name not in going_on
                    else self._run(call, heard, own_slots, is_begun=call.id in started)
                )
                for call in calls
            ]
        return [task.result() for task in tasks]

    def _read_provenance(self, conversation: Sequence[Message]) -> Callable[[], Provenance]:
        """Return what is heard here, and before that by the agent that has given this one a task."""
        here, before = defer_provenance(conversation, tuple(self.tools.values())), self.context.heard
        return here if before is nothing_heard else cache(lambda: before().plus(here()))

    async def _leave_interrupted(self, call: ToolCall) -> Message:
        result = interrupted_by_restart(call)
        await self.journal.append(result)
        return result

    async def _run(
        self, call: ToolCall, heard: Callable[[], Provenance], own_slots: asyncio.Semaphore, *, is_begun: bool
    ) -> Message:
        # Before the slot and the mark: a call that waits for a human has had no effect, and must not block others.
        context = replace(
            self.context,
            call_id=call.id,
            heard=heard,
            tools=self.tools,
            call=self._make_caller(call, heard),
            report=lambda line: self.emit(ToolReported(call=call, line=line)),
        )
        result = await self._admit(call, context)
        if result is not None:
            began = time.monotonic()
            self.emit(ToolStarted(call=call))
        else:
            # In this order: a call that waits for the first holds no second.
            async with own_slots, self._shared_slot(call):
                if not is_begun:
                    await self.journal.tool_started(call)
                began = time.monotonic()
                self.emit(ToolStarted(call=call))
                result = await self._cap(await self._call(call, context))
        seconds = time.monotonic() - began
        await self.journal.append(result)
        self.emit(ToolFinished(call=call, result=result, seconds=seconds))
        return result

    def _make_caller(
        self, outer: ToolCall, heard: Callable[[], Provenance]
    ) -> Callable[[str, str], Awaitable[tuple[str, bool]]]:
        """Return the function by which a call makes further ones, under the same rules. It holds their slot."""
        results: list[Message] = []  # heard by those that follow
        made = count(1)

        async def call(name: str, arguments: str) -> tuple[str, bool]:
            inner = ToolCall(id=f"{outer.id}/{next(made)}", name=name, arguments=arguments)
            context = replace(
                self.context,
                call_id=inner.id,
                heard=lambda: heard().plus(read_provenance(results, ())),
                tools=self.tools,
            )
            began = time.monotonic()
            result = await self._admit(inner, context)
            self.emit(ToolStarted(call=inner))
            result = result or await self._cap(await self._call(inner, context))
            self.emit(ToolFinished(call=inner, result=result, seconds=time.monotonic() - began))
            results.append(result)
            return result.text, result.is_error

        return call

    def _shared_slot(self, call: ToolCall) -> AbstractAsyncContextManager[object]:
        if self.slots is None or self.tools[call.name].only_waits(call.arguments):
            return nullcontext()
        return self.slots

    async def _admit(self, call: ToolCall, context: ToolContext) -> Message | None:
        """Wait until the call may begin, for a human perhaps; return the failure when it may not."""
        tool = self.tools.get(call.name)
        if tool is None:
            return _failure(call, f"There is no tool named {call.name!r}.", **self._suggest(call.name))

        async def admit() -> None:
            await tool.admit(call.arguments, context)

        return await self._contain(call, tool, admit)

    async def _call(self, call: ToolCall, context: ToolContext) -> Message:
        tool = self.tools[call.name]

        async def run() -> Message:
            return tool_result(call, _serialize(await tool.run(call.arguments, context)), origin=_origin(tool))

        return await self._contain(call, tool, run)

    async def _contain(self, call: ToolCall, tool: Tool, work: Callable[[], Awaitable[T]]) -> T | Message:
        """Return what the work returns, or its failure as a result for the model."""
        try:
            return await work()
        except BadArguments as error:
            names, required = tool.schema.get("properties", {}), tool.schema.get("required", [])
            return _failure(call, str(error), _origin(tool), parameters=list(names), required=list(required))
        except ToolFailed as error:
            return _failure(call, str(error), _origin(tool))
        except asyncio.CancelledError:
            # Ours passes. One that the tool raised by itself would end this task silently, without a result.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failure(
                call, f"{tool.name} was cancelled before it finished. Its effect is unknown.", _origin(tool)
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: one broken tool must end neither turn nor process
            # The frames only: the text of an exception may quote the arguments.
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("tool_broke", tool=tool.name, error=type(error).__name__, frames=frames)
            words = f"{tool.name} failed unexpectedly: {type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
            return _failure(call, words, _origin(tool))

    async def _cap(self, result: Message) -> Message:
        """Cut the middle out of a long result, which would fill the model's window."""
        texts = [part.text for part in result.parts if isinstance(part, Text)]
        total = sum(map(len, texts))
        if total <= self.max_result_chars:
            return result
        workplace = self.context.workplace
        path = await workplace.keep_text("\n".join(texts)) if workplace else ""
        note = f"; the full text is in {path}" if path else ""
        parts = (
            replace(part, text=cut_middle(part.text, self.max_result_chars * len(part.text) // total, note))
            if isinstance(part, Text)
            else part
            for part in result.parts
        )
        return replace(result, parts=tuple(parts))

    def _suggest(self, name: str) -> dict[str, Any]:
        nearest = get_close_matches(name, self.tools, n=1)
        return {"did_you_mean": nearest[0]} if nearest else {"available_tools": sorted(self.tools)}


def _serialize(output: ToolOutput) -> str | tuple[Part, ...]:
    if isinstance(output, str | tuple):
        return output
    if isinstance(output, Mapping):
        return json.dumps(dict(output), ensure_ascii=False)
    return json.dumps(output, ensure_ascii=False)


def _origin(tool: Tool) -> str:
    return f"tool:{tool.name}" if tool.brings == UNKNOWN_TOOL else tool.brings or HERMES


def _failure(call: ToolCall, error: str, origin: str = "", **hints: Any) -> Message:
    words = json.dumps({"error": error, **hints}, ensure_ascii=False)
    return tool_result(call, words, origin=origin, is_error=True)
