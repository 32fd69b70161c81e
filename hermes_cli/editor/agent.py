"""The agent that an editor talks to over the Agent Client Protocol. Standard output carries nothing else."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from acp import PROTOCOL_VERSION, Agent, Client, RequestError, run_agent, schema

from gateway.approvals.terminal import Prompt
from gateway.errors import GatewayError
from gateway.messages import SessionKey
from gateway.store.db.database import Database
from gateway.store.sessions import list_terminal_chats
from gateway.terminal_chat import LocalChat, find_key, new_key
from gateway.wiring.basics import secret_values
from hermes_cli.conversation import build_chat, open_parts
from hermes_cli.editor import rendering
from hermes_cli.editor.servers import Given, read_servers
from hermes_cli.editor.session import Busy, EditorSession
from hermes_cli.opening import OpenedStore
from hermes_config.errors import ConfigError
from hermes_config.redaction import Redactor
from tools.backends.base import BackendFailed
from tools.mcp.hub import McpHub

MakeChat = Callable[[Prompt, SessionKey, Path, McpHub], LocalChat]

_HINT = "Your answers are shown in a code editor, as Markdown."
_MAX_MESSAGE_BYTES = 50_000_000
_PAGE = 50  # conversations in one answer


async def serve(opened: OpenedStore) -> None:
    """Serve the editor at the other end of the standard streams until it closes them."""
    async with open_parts(opened) as parts, _take_streams() as (reader, writer):

        def make_chat(prompt: Prompt, key: SessionKey, folder: Path, mcp: McpHub) -> LocalChat:
            return build_chat(opened, replace(parts, mcp=mcp), prompt, key, folder=folder, hint=_HINT)

        agent = EditorAgent(opened=opened, db=parts.db, mcp=parts.mcp, make_chat=make_chat)
        try:
            # Resuming without a replay, and closing, are still "unstable" in the SDK.
            await run_agent(cast(Agent, agent), writer, reader, use_unstable_protocol=True)
        finally:
            await agent.close()


@dataclass(slots=True, kw_only=True)
class EditorAgent:
    """Implements the methods of `acp.Agent` that it announces; others are answered with "method not found"."""

    opened: OpenedStore
    db: Database
    mcp: McpHub
    make_chat: MakeChat
    _client: Client | None = None
    _sessions: dict[str, EditorSession] = field(default_factory=dict)
    _secrets: list[str] = field(default_factory=list)  # of the editor's MCP servers
    _reopening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _announcing: set[asyncio.Task[None]] = field(default_factory=set)

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **unused: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                mcp_capabilities=schema.McpCapabilities(http=find_spec("mcp") is not None),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[],
            agent_info=schema.Implementation(name="hermes", title="Hermes", version=version("hermes-gateway")),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Given] | None = None, **unused: Any
    ) -> schema.NewSessionResponse:
        session = await self._open(new_key(), cwd, mcp_servers or ())
        return schema.NewSessionResponse(session_id=session.id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Given] | None = None, **unused: Any
    ) -> schema.LoadSessionResponse:
        session = await self._reopen(session_id, cwd, mcp_servers or ())
        await session.replay()
        return schema.LoadSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Given] | None = None, **unused: Any
    ) -> schema.ResumeSessionResponse:
        await self._reopen(session_id, cwd, mcp_servers or ())
        return schema.ResumeSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **unused: Any
    ) -> schema.ListSessionsResponse:
        if not (cursor or "0").isdecimal():
            raise RequestError(-32602, "There is no such page. Ask for the first one.")
        first, folder = int(cursor or 0), str(Path(cwd)) if cwd else ""
        found = await self.db.read(partial(list_terminal_chats, folder=folder, first=first, limit=_PAGE + 1))
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=one.chat,
                    cwd=one.folder,
                    title=self.opened.redactor.clean(one.title),
                    updated_at=datetime.fromtimestamp(one.updated_ms / 1000, UTC).isoformat(timespec="seconds"),
                )
                for one in found[:_PAGE]
            ],
            next_cursor=str(first + _PAGE) if len(found) > _PAGE else None,
        )

    async def close_session(self, session_id: str, **unused: Any) -> schema.CloseSessionResponse:
        await self._find(session_id).close()
        self._sessions.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def close(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions.values()):
            await session.close()

    async def prompt(self, session_id: str, prompt: Sequence[rendering.Block], **unused: Any) -> schema.PromptResponse:
        text = rendering.read_prompt(prompt)
        if not text:
            raise RequestError(-32602, "The prompt is empty.")
        try:
            stopped = await self._find(session_id).answer(text)
        except Busy:
            raise RequestError(-32600, "An answer is still being written. Wait for it, or cancel it.") from None
        return schema.PromptResponse(stop_reason=stopped)

    async def cancel(self, session_id: str, **unused: Any) -> None:
        if session_id in self._sessions:
            self._sessions[session_id].cancel()

    def _find(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise _unknown(session_id)
        return self._sessions[session_id]

    async def _reopen(self, session_id: str, cwd: str, given: Sequence[Given]) -> EditorSession:
        key = await self.db.read(partial(find_key, chat=session_id))
        if key is None:
            raise _unknown(session_id)
        async with self._reopening:  # or the MCP servers of the first of two would belong to nobody
            if session_id in self._sessions:
                await self.close_session(session_id)
            return await self._open(key, cwd, given)

    async def _open(self, key: SessionKey, cwd: str, given: Sequence[Given]) -> EditorSession:
        assert self._client is not None
        folder = Path(cwd)
        if not (folder.is_absolute() and await asyncio.to_thread(folder.is_dir)):
            raise RequestError(-32602, f"There is no folder {cwd}. Open one that exists.")
        servers = read_servers(given, self.mcp.servers)
        mcp = self.mcp.make_beside(servers) if servers else self.mcp
        self._secrets += [secret for one in servers.values() for secret in one.secrets()]
        self.opened.configure_logs(self._secrets)
        try:
            session = EditorSession(
                id=key.chat,
                client=self._client,
                redactor=Redactor([*secret_values(self.opened.settings), *self._secrets]),
                wait_seconds=self.opened.settings.approvals.terminal_wait_seconds,
                make_chat=lambda prompt: self.make_chat(prompt, key, folder, mcp),
            )
        except (BackendFailed, ConfigError, GatewayError) as error:
            raise RequestError(-32603, str(error)) from error
        if servers:
            await session.resources.enter_async_context(mcp.running())
        self._sessions[session.id] = session
        # In a task: the editor must learn of the session before it is told what can be said there.
        task = asyncio.create_task(session.list_commands())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
        return session


def _unknown(session_id: str) -> RequestError:
    return RequestError(-32002, f"There is no conversation {session_id}. Begin a new one.")


@asynccontextmanager
async def _take_streams() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield the streams to the editor. Other output goes to stderr, and no child can read from the editor."""
    loop = asyncio.get_running_loop()
    theirs_in, theirs_out = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    reader = asyncio.StreamReader(limit=_MAX_MESSAGE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(theirs_in, "rb", buffering=0))
    # Not the SDK's own writer, which waits for ever when the editor goes away without reading.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(theirs_out, "wb", buffering=0)
    )
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        if not transport.is_closing():
            transport.abort()  # what the editor has not read by now it does not want
