"""Tell hooks what happens. Nobody waits for them, except for an objection to a tool call.

All of them are driven by one loop in a thread of its own, which starts with the first event for a hook.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from hooks.events import TOOL_BEFORE, matches
from hooks.loader import Hook
from hooks.running import Answer, HookFailed, open_hook

MAX_FAILURES = 3  # in a row; then a hook is switched off until the next start
MAX_WAITING = 100  # events of one hook; what comes beyond is dropped

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    hook: str
    reason: str


class Hooks:
    """The hooks of a running program."""

    def __init__(self, hooks: Sequence[Hook] = (), *, clean: Callable[[Any], Any] = lambda context: context) -> None:
        """`clean` hides secrets in a context."""
        self._clean = clean
        self._running = [_Running(hook) for hook in hooks if hook.is_usable]
        self._loop: asyncio.AbstractEventLoop | None = None

    def wants(self, event: str) -> bool:
        """Return whether any hook is told of an event; for nobody, no context need be made."""
        return next(self._of(event), None) is not None

    def want_more_than(self, *events: str) -> bool:
        """Return whether any hook is told of other events than these."""
        return any(set(one.hook.events) - set(events) for one in self._running)

    def emit(self, event: str, context: Mapping[str, Any]) -> None:
        """Tell the hooks, without waiting for any. Never raises."""
        if told := list(self._of(event)):
            self._start().call_soon_threadsafe(self._enqueue, told, event, dict(context))

    async def object_to(self, context: Mapping[str, Any]) -> Objection | None:
        """Ask the hooks before a tool is called; a hook that fails or takes too long has no objection."""
        asked = list(self._of(TOOL_BEFORE))
        if not asked:
            return None
        loop = self._start()
        answers = await asyncio.gather(
            *(
                asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._ask(one, dict(context)), loop))
                for one in asked
            )
        )
        return next((answer for answer in answers if answer is not None), None)

    async def finish(self, seconds: float) -> None:
        """Let hooks finish what they were told, but wait no longer than this."""
        if self._loop is not None:

            async def wait_until_idle() -> None:
                await asyncio.gather(*(one.working for one in self._running if one.working is not None))

            busy = asyncio.run_coroutine_threadsafe(wait_until_idle(), self._loop)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(busy), seconds)

    def state(self) -> dict[str, dict[str, Any]]:
        """Return for each hook what `hermes hooks list` says about it."""
        return {
            one.hook.name: {
                "off": one.is_off,
                "failures": one.failures,
                "problem": one.problem,
                "dropped": one.dropped,
                "runs": one.runs,
            }
            for one in self._running
        }

    def _of(self, event: str) -> Iterator["_Running"]:
        return (one for one in self._running if not one.is_off and one.hears(event))

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="hooks", daemon=True).start()
        return self._loop

    def _enqueue(self, told: Sequence["_Running"], event: str, context: dict[str, Any]) -> None:
        cleaned = self._clean(context)
        for one in told:
            one.enqueue(event, cleaned)

    async def _ask(self, one: "_Running", context: dict[str, Any]) -> Objection | None:
        answer = await one.run(TOOL_BEFORE, self._clean(context))
        if not isinstance(answer, dict) or answer.get("decision") != "block":
            return None
        return Objection(hook=one.hook.name, reason=str(answer.get("reason") or "no reason was given")[:500])


class _Running:
    """A hook, its waiting events and its failures. Used in the loop of the hooks alone, but for reading."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.failures = 0  # in a row
        self.runs = 0
        self.dropped = 0
        self.problem = ""
        self.is_off = False
        self.working: asyncio.Task[None] | None = None
        self._run_once = open_hook(hook)
        self._queue: list[tuple[str, dict[str, Any]]] = []

    def hears(self, event: str) -> bool:
        return any(matches(pattern, event) for pattern in self.hook.events)

    def enqueue(self, event: str, context: dict[str, Any]) -> None:
        if len(self._queue) >= MAX_WAITING or self.is_off:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("hook is too slow, events are dropped", hook=self.hook.name)
            return
        self._queue.append((event, context))
        if self.working is None or self.working.done():
            self.working = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._queue:
            event, context = self._queue.pop(0)
            if not self.is_off:
                await self.run(event, context)

    async def run(self, event: str, context: dict[str, Any]) -> Answer:
        """Run the hook once and return its answer; None when it failed."""
        self.runs += 1
        try:
            answer = await self._run_once(event, json.loads(json.dumps(context)))
        except HookFailed as error:
            self._fail(event, str(error))
            return None
        except Exception as error:  # contained: a hook never disturbs others
            log.exception("hook broke", hook=self.hook.name)
            self._fail(event, type(error).__name__)
            return None
        self.failures = 0
        return answer

    def _fail(self, event: str, problem: str) -> None:
        if self.is_off:
            return
        self.failures += 1
        self.problem = f"{event}: {problem}"
        log.warning("hook failed", hook=self.hook.name, event_type=event, problem=problem)
        if self.failures >= MAX_FAILURES:
            self.is_off = True
            log.error("hook switched off until the next start", hook=self.hook.name, problem=problem)
