"""Keep one MCP server connected: start it again when it fails, and after a longer pause when it keeps failing."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import structlog

from hermes_config.mcp import McpServer
from tools.content import Part, Text
from tools.errors import ToolFailed
from tools.mcp.base import (
    CallUnanswered,
    McpProblem,
    NeedsLogin,
    ServerGone,
    ServerRefused,
    ServerTool,
    Unauthorized,
    prepare,
)
from tools.mcp.logins import Logins
from tools.pictures import PictureStore

if TYPE_CHECKING:
    from tools.mcp.sdk import McpSession

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
_FAILURES_IN_A_ROW = 5  # after which the pause is longer
_BREAK_SECONDS = 600.0
_STABLE_SECONDS = 60.0
_SILENT_CALLS = 3  # without an answer in a row, after which the server counts as hanging
_WAIT_SECONDS = 10.0  # of a call, for a server that is being started
_POLL_SECONDS = 2.0  # between two checks for a new login
_RELIST_SECONDS = 0.5  # between two listings of the tools of a server that changes them all the time

State = Literal["starting", "ready", "failed", "needs login"]


class ServerLink:
    """One server. `run` owns its connection; `ask` may be used by anybody."""

    def __init__(
        self, server: McpServer, pictures: PictureStore, on_change: Callable[[], None], logins: Logins | None = None
    ) -> None:
        self.server = server
        self._logins = logins or Logins()
        self.state: State = "starting"
        self.problem = ""
        self.tools: Sequence[ServerTool] = ()
        self.settled = asyncio.Event()  # set while it is connected, or could not be
        self.was_settled = False
        self._pictures = pictures
        self._on_change = on_change
        self._session: McpSession | None = None
        self._woken = asyncio.Event()
        self._ready_since = math.inf
        self._restart = ""  # why it must be started again
        self._silent_calls = 0

    async def run(self) -> None:
        """Keep it connected until cancelled."""
        failures = 0
        while True:
            login, self._ready_since = self._logins.stamp(self.server.name), math.inf
            try:
                await self._serve()
            except McpProblem as error:
                self._fail(str(error), "needs login" if isinstance(error, NeedsLogin) else "failed")
            except ServerRefused as error:
                self._fail(f"it refused to connect: {error}")
            except Exception as error:  # contained: one server must not stop the others
                log.exception("mcp server broke", server=self.server.name)
                self._fail(f"{type(error).__name__} inside Hermes; the log has more")
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError  # the SDK's task groups lose one that comes while they fail
            failures = 1 if time.monotonic() - self._ready_since > _STABLE_SECONDS else failures + 1
            pause = min(_FIRST_PAUSE_SECONDS * 2 ** (failures - 1), _LONGEST_PAUSE_SECONDS)
            if failures >= _FAILURES_IN_A_ROW or self.state == "needs login":
                pause = _BREAK_SECONDS
            log.warning("mcp server failed", server=self.server.name, problem=self.problem, again_in_seconds=pause)
            if pause <= _WAIT_SECONDS:
                self.settled.clear()  # a call may wait for that
            await self._pause(pause, login)
            if self.state == "failed":
                self.state = "starting"
            self.settled.clear()

    async def _pause(self, seconds: float, login: int) -> None:
        """Wait this long, or until the login has changed."""
        for _ in range(math.ceil(seconds / _POLL_SECONDS)):
            await asyncio.sleep(min(seconds, _POLL_SECONDS))
            if self._logins.stamp(self.server.name) != login:
                return

    async def _serve(self) -> None:
        """Connect, and serve until the connection ends; always raises."""
        ready = prepare(self.server)
        from tools.mcp.oauth import TokenAuth  # costs 30 MB, so only where a server is configured
        from tools.mcp.sdk import connect

        self._restart, self._silent_calls = "", 0
        auth = TokenAuth(ready, self._logins) if ready.url and self._logins.load(ready) else None
        async with connect(ready, self._woken.set, self._pictures, auth) as session:
            try:
                self.tools = await session.list_tools()
                self._session, self.state, self.problem = session, "ready", ""
                self._ready_since = time.monotonic()
                log.info("mcp server ready", server=self.server.name, tools=len(self.tools))
                self._settle()
                await self._follow(session)
            finally:
                self._session = None

    async def _follow(self, session: "McpSession") -> None:
        while not session.state.has_ended and not self._restart:
            await self._woken.wait()
            self._woken.clear()
            if session.state.changed and not session.state.has_ended:
                session.state.changed = False
                self.tools = await session.list_tools()
                self._on_change()
                await asyncio.sleep(_RELIST_SECONDS)
        raise ServerGone(self._restart or session.state.explain_end())

    def _fail(self, problem: str, state: State = "failed") -> None:
        self.state, self.problem = state, problem
        self._settle()

    def _settle(self) -> None:
        self.was_settled = True
        self.settled.set()
        self._on_change()

    async def ask(self, what: str, ask: "Callable[[McpSession], Awaitable[Sequence[Part]]]") -> tuple[Part, ...]:
        """Return the answer to a call of `what`, as the model sees it; raises ToolFailed."""
        session = await self._wait_until_ready()
        name = self.server.name
        try:
            answer = await ask(session)
        except CallUnanswered as error:
            self._silent_calls += 1
            if self._silent_calls >= _SILENT_CALLS:
                self._end(f"it did not answer {_SILENT_CALLS} calls in a row")
            raise ToolFailed(
                f"The MCP server {name} did not answer within {self.server.timeout:g} s. The effect of {what} is "
                "unknown: check before you repeat it."
            ) from error
        except Unauthorized as error:
            self._end(str(error))
            raise ToolFailed(
                f"{what} was not done: the MCP server {name} refused it, {error}. Tell the user."
            ) from error
        except ServerGone as error:
            self._end(str(error))
            raise ToolFailed(
                f"The MCP server {name} was lost during the call: {error}. The effect of {what} is unknown: check "
                "before you repeat it. It is being started again."
            ) from error
        except McpProblem as error:
            raise ToolFailed(f"The answer of the MCP server {name} cannot be used: {error}.") from error
        except ServerRefused:
            self._silent_calls = 0
            raise
        self._silent_calls = 0
        return tuple(answer) or (Text(text="(no output)", origin=f"mcp:{name}"),)

    async def _wait_until_ready(self) -> "McpSession":
        if self._session is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self.settled.wait()
        if self._session is None:
            why = f": {self.problem}" if self.problem else ", it is still being started"
            raise ToolFailed(
                f"The MCP server {self.server.name} is not available{why}. Go on without it, or tell the user."
            )
        return self._session

    def _end(self, why: str) -> None:
        self._restart = self._restart or why
        self._woken.set()
