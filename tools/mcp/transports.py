"""Carry messages to an MCP server and back, over its own pipes or HTTP.

A server is not trusted: the length of its messages is limited, it is read at a limited pace, and all of its processes
end with it (`server_child.py`).
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from hermes_config.mcp import McpServer
from tools.backends.environment import child_environment, hide_our_memory
from tools.content import one_line
from tools.mcp.base import McpProblem, is_local

CONNECT_SECONDS = 30.0
MAX_MESSAGE_BYTES = 8_000_000
_MAX_JUNK_BYTES = 1_000_000  # of lines on stdout that are no messages, such as a banner
_MAX_UNASKED_BYTES = 20_000_000
_MAX_OPEN_REQUESTS = 100  # that a server may have waiting for our answer
_PACE_BYTES, _PACE_SECONDS = 1_000_000, 0.05
_STDERR_CHARS = 2_000
_STOP_SECONDS = 1.0
_KILL_SECONDS = 20.0
_START_CHILD = (
    f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); from tools.mcp.server_child import main; main()"
)


@dataclass(slots=True)
class ConnectionState:
    """The state of a connection to a server."""

    on_change: Callable[[], None]  # called when the tools have changed, or the connection has ended
    problem: str = ""  # why we gave up on the server
    stderr: str = ""
    has_ended: bool = False
    open_requests: int = 0
    changed: bool = False
    is_unauthorized: bool = False  # it does not accept our credentials
    status: int = 0  # of the last answer over HTTP
    junk_bytes: int = 0  # since it last wrote a message
    unasked_bytes: int = 0  # since it last answered

    def end(self, problem: str = "") -> None:
        self.problem = self.problem or problem
        self.has_ended = True
        self.on_change()

    def change(self) -> None:
        self.changed = True
        self.on_change()

    def deny(self) -> None:
        self.is_unauthorized = True

    def explain_end(self) -> str:
        last = next((line for line in reversed(self.stderr.splitlines()) if line.strip()), "")
        return self.problem or f"it ended{f' and said: {one_line(last, 300)}' if last else ' without a word'}"


# HTTP.


async def _limit_size(response: httpx2.Response) -> None:
    # The SDK bounds each event of those that it asked for. All of any other answer is kept, whatever it claims to be.
    heads = (response.headers.get("content-type", ""), response.request.headers.get("accept", ""))
    if response.status_code == 200 and all("text/event-stream" in one for one in heads):
        return
    read_all = response.aiter_bytes

    async def read(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        left = MAX_MESSAGE_BYTES
        async for chunk in read_all(chunk_size):  # unpacked: a thousandth of it may have come over the network
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"its answer is larger than {MAX_MESSAGE_BYTES:,} bytes")
            yield chunk

    response.aiter_bytes = read  # type: ignore[method-assign]


@contextlib.asynccontextmanager
async def over_http(server: McpServer, state: ConnectionState, auth: httpx2.Auth | None = None) -> AsyncIterator[Any]:
    async def note_status(response: httpx2.Response) -> None:
        if response.request.method == "POST":  # servers may refuse the others: streams, and the end of a session
            state.status = response.status_code
        if auth is None and response.status_code == 401:
            state.deny()

    parts = urlsplit(server.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise McpProblem("its url must begin with http:// or https://")
    async with (
        httpx2.AsyncClient(
            headers=server.headers,
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=server.timeout + CONNECT_SECONDS),
            event_hooks={"response": [_limit_size, note_status]},
            auth=auth,
            trust_env=not is_local(parts.hostname),
        ) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


# Pipes.


@contextlib.asynccontextmanager
async def over_pipes(server: McpServer, state: ConnectionState) -> AsyncIterator[Any]:
    order = {
        "argv": [server.command, *server.args],
        "workdir": str(Path.home()),
        "environment": child_environment() | server.env,
        "niceness": 0,
        "pty": False,
        "rlimits": {},
        "secret": "",
    }
    hide_our_memory()
    lifeline, hold = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _START_CHILD, str(lifeline)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_MESSAGE_BYTES,
            env={"PATH": os.defpath},
            cwd="/",
            pass_fds=(lifeline,),
            start_new_session=True,
        )
    except BaseException:
        os.close(hold)
        raise
    finally:
        os.close(lifeline)
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        # Over a pipe, since everybody on the machine can read arguments and environments of this user.
        await asyncio.to_thread(os.write, hold, json.dumps(order).encode() + b"\n")
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_stderr, process, state)
            group.start_soon(_read, process, to_session, state)
            group.start_soon(_write, process, from_session, state)
            try:
                yield from_server, to_server
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process, hold)


async def _stop(process: asyncio.subprocess.Process, hold: int) -> None:
    """Close the server's input, give it a moment, then have all its processes ended, and wait for that."""
    assert process.stdin is not None
    process.stdin.close()
    # While something is in a pipe, asyncio does not report the end of a process.
    draining = [asyncio.ensure_future(_drain(pipe)) for pipe in (process.stdout, process.stderr)]
    try:
        with anyio.move_on_after(_STOP_SECONDS):
            await process.wait()
    finally:
        os.close(hold)  # the child ends them now, even if nobody here waits for it
    with anyio.move_on_after(_KILL_SECONDS):
        await process.wait()
    for one in draining:
        one.cancel()
    process._transport.close()  # type: ignore[attr-defined]  # its pipes would stay open until they are collected


async def _drain(pipe: asyncio.StreamReader | None) -> None:
    while pipe is not None and await pipe.read(65_536):
        pass


async def _keep_stderr(process: asyncio.subprocess.Process, state: ConnectionState) -> None:
    assert process.stderr is not None
    while chunk := await process.stderr.read(65_536):
        state.stderr = (state.stderr + chunk.decode(errors="replace"))[-_STDERR_CHARS:]


async def _read(process: asyncio.subprocess.Process, to_session: Any, state: ConnectionState) -> None:
    assert process.stdout is not None
    since_pause = 0
    async with to_session:
        try:
            while not state.problem:
                raw = await process.stdout.readuntil(b"\n")
                since_pause += len(raw)
                if since_pause > _PACE_BYTES:  # others need the processor as well
                    since_pause = 0
                    await asyncio.sleep(_PACE_SECONDS)
                if (message := _parse(raw, state)) is not None:
                    await to_session.send(SessionMessage(message))
        except asyncio.IncompleteReadError:
            with anyio.move_on_after(_STOP_SECONDS):
                await process.wait()  # all of it is gone, and all that it wrote to stderr is here
        except asyncio.LimitOverrunError:
            state.problem = f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        state.end()


def _parse(raw: bytes, state: ConnectionState) -> Any:
    """Return the message in a line; None when it is not one. Sets the problem of a server that floods us."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(raw, by_name=False)
    except ValueError:
        state.junk_bytes += len(raw)
        if state.junk_bytes > _MAX_JUNK_BYTES:
            state.problem = "it writes something other than MCP messages to its standard output"
        return None
    is_answer = isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
    state.unasked_bytes = 0 if is_answer else state.unasked_bytes + len(raw)
    if state.unasked_bytes > _MAX_UNASKED_BYTES:
        state.problem = "it floods us with messages that nobody has asked for"
        return None
    if isinstance(message, types.JSONRPCRequest):
        state.open_requests += 1
        if state.open_requests > _MAX_OPEN_REQUESTS:
            state.problem = "it sends requests faster than it takes the answers"
            return None
    return message


async def _write(process: asyncio.subprocess.Process, from_session: Any, state: ConnectionState) -> None:
    assert process.stdin is not None
    async with from_session:
        async for one in from_session:
            if isinstance(one.message, types.JSONRPCResponse | types.JSONRPCError):
                state.open_requests -= 1
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()
            except ConnectionError:
                return  # `_read` says how it ended
