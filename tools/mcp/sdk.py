"""Talk to an MCP server: connect, list its tools, call one, and translate what the SDK raises."""

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hermes_config.mcp import McpServer
from tools.content import Part, Text, in_bytes, one_line
from tools.errors import ToolFailed
from tools.mcp.base import (
    CallUnanswered,
    McpProblem,
    NeedsLogin,
    ServerGone,
    ServerRefused,
    ServerTool,
    Unauthorized,
)
from tools.mcp.oauth import TokenAuth
from tools.mcp.transports import CONNECT_SECONDS, ConnectionState, over_http, over_pipes
from tools.pictures import NoPictures, PictureStore

_MAX_PAGES, _MAX_TOOLS = 50, 2_000
_FIRST_BAD_STATUS = 400
_MAX_DESCRIPTION_CHARS, _MAX_SCHEMA_CHARS = 4_000, 20_000

# The SDK logs whatever a server says, and with it what users wrote.
for _name in ("mcp", "client", "httpx2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


@dataclass(slots=True, kw_only=True)
class McpSession:
    """A live connection."""

    server: McpServer
    client: Client
    state: ConnectionState
    pictures: PictureStore
    auth: TokenAuth | None = None

    async def list_tools(self) -> list[ServerTool]:
        """Return all tools; raises McpProblem."""
        found: list[ServerTool] = []
        cursor: str | None = None
        with self._within(max(CONNECT_SECONDS, self.server.timeout)):
            for _ in range(_MAX_PAGES):
                page = await self.client.list_tools(cursor=cursor)
                found += [_read_tool(self.server.name, tool) for tool in page.tools]
                cursor = page.next_cursor
                if cursor is None or len(found) > _MAX_TOOLS:
                    break
        return found[:_MAX_TOOLS]

    async def call(self, tool: str, arguments: dict[str, Any]) -> list[Part]:
        """Call a tool; raises ServerRefused, CallUnanswered and ServerGone."""
        with self._within(self.server.timeout):
            result = await self.client.call_tool(tool, arguments)
        parts = [await self._show(one) for one in result.content]
        if not parts and result.structured_content is not None:
            parts = [self._text(json.dumps(result.structured_content, ensure_ascii=False))]
        if result.is_error:
            said = [one.text for one in parts if isinstance(one, Text)]
            raise ServerRefused("\n".join(filter(None, said)) or f"{tool} failed without a reason.")
        return parts

    async def read_resource(self, uri: str) -> list[Part]:
        """Read a resource; raises ServerRefused, CallUnanswered and ServerGone."""
        with self._within(self.server.timeout):
            result = await self.client.read_resource(uri)
        return [await self._show(one) for one in result.contents]

    @contextlib.contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        with _explained(self.state, self.server, self.auth), anyio.fail_after(seconds):
            yield

    async def _show(self, content: Any) -> Part:
        """Return a part of a result as the model sees it: pictures are stored, other files are named."""
        match content:
            case types.EmbeddedResource(resource=resource):
                return await self._show(resource)
            case types.TextContent(text=text):
                return self._text(text)
            case types.TextResourceContents(uri=uri, text=text):
                return self._text(f"[resource {uri}]\n{text}")
            case types.ResourceLink(uri=uri, name=name, description=described):
                words = one_line(": ".join(filter(None, (name, described))), 500)
                return self._text(f"[resource {uri}: {words}]")
            case types.ImageContent(data=data, mime_type=mime) | types.AudioContent(data=data, mime_type=mime):
                return await self._show_bytes(content.type, data, mime)
            case types.BlobResourceContents(uri=uri, blob=data, mime_type=mime):
                return await self._show_bytes(one_line(str(uri)), data, mime or "application/octet-stream")
        return self._text(f"[a part of the kind {type(content).__name__}, which cannot be shown]")

    async def _show_bytes(self, name: str, data: str, mime: str) -> Part:
        try:
            content = base64.b64decode(data, validate=True)
            if mime.startswith("image/"):
                return await self.pictures.save(content, name)
        except (ValueError, ToolFailed) as error:
            return self._text(f"[{name}, which cannot be shown: {error}]")
        return self._text(f"[{name}, {one_line(mime)}, {in_bytes(len(content))}: only text and pictures can be shown]")

    def _text(self, text: str) -> Text:
        return Text(text=self.auth.hide(text) if self.auth else text, origin=f"mcp:{self.server.name}")

    async def listen(self) -> None:
        """Subscribe to changes of the tools: newer servers tell only subscribers."""
        with contextlib.suppress(MCPError, RuntimeError, TimeoutError):
            async with self.client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self.state.change()


@contextlib.asynccontextmanager
async def connect(
    server: McpServer,
    on_change: Callable[[], None],
    pictures: PictureStore | None = None,
    auth: TokenAuth | None = None,
) -> AsyncIterator[McpSession]:
    """Connect and initialize; raises McpProblem. Enter and leave in the same task."""
    state = ConnectionState(on_change)

    async def take(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            state.change()

    with _explained(state, server, auth):
        client = Client(
            over_http(server, state, auth) if server.url else over_pipes(server, state),
            client_info=types.Implementation(name="hermes", version="1"),
            message_handler=take,
            cache=None,
        )
        if auth is not None:
            auth.deny = state.deny
        async with contextlib.AsyncExitStack() as stack:
            # A scope of anyio could not be left in here.
            async with asyncio.timeout(max(CONNECT_SECONDS, server.timeout)):
                await stack.enter_async_context(client)
            session = McpSession(
                server=server, client=client, state=state, pictures=pictures or NoPictures(), auth=auth
            )
            async with asyncio.TaskGroup() as group:
                is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
                listening = group.create_task(session.listen() if is_modern else asyncio.sleep(0))
                try:
                    yield session
                finally:
                    listening.cancel()


@contextlib.contextmanager
def _explained(state: ConnectionState, server: McpServer, auth: TokenAuth | None) -> Iterator[None]:
    """Translate what the SDK raises."""
    try:
        yield
    except Exception as raised:  # noqa: BLE001  # whatever it is comes from the server or its library
        error: BaseException = raised
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        words = one_line(auth.hide(str(error)) if auth else str(error), 300)
        raise _explain_login(error, words, state, server) or _translate(error, words, state) from error


def _explain_login(error: BaseException, words: str, state: ConnectionState, server: McpServer) -> McpProblem | None:
    """Return what is wrong with the login, if it is that."""
    if isinstance(error, OAuthRegistrationError):
        return McpProblem(
            "it offers no login for programs that register themselves. Put a token into its `headers`, or register "
            f"Hermes there by hand and use: hermes mcp login {server.name} --client-id ID --port PORT"
        )
    if isinstance(error, OAuthFlowError):
        return McpProblem(f"the login did not work: {words}")
    if not state.is_unauthorized:
        return None
    if server.has_own_login:
        return Unauthorized("it answers with status 401: it wants another Authorization in its headers")
    return NeedsLogin(server.name)


def _translate(error: BaseException, words: str, state: ConnectionState) -> Exception:
    match error:
        case McpProblem() | ServerRefused():
            return error
        case TimeoutError() | MCPError(code=types.REQUEST_TIMEOUT):
            return CallUnanswered("it did not answer in time")
        case MCPError():
            return _translate_answer(error, words, state)
        case httpx2.HTTPStatusError(response=response):
            return ServerGone(f"the address answers with status {response.status_code}")
        case httpx2.HTTPError() | OSError():
            return ServerGone(f"it cannot be reached: {words or type(error).__name__}")
        case ValidationError():
            first = error.errors(include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            return McpProblem(f"it does not keep to the protocol: {where}: {first['msg']}")
        case RuntimeError():  # of a result that does not fit the tool's own schema
            return ServerRefused(words)
    return McpProblem(f"{type(error).__name__}: {words}")


def _translate_answer(error: MCPError, words: str, state: ConnectionState) -> Exception:
    if error.code == types.CONNECTION_CLOSED or state.has_ended:
        return ServerGone(state.explain_end())
    if error.message.startswith("Unexpected content type"):
        return McpProblem(f"the address does not speak MCP: it answers with {words.partition(': ')[2] or 'nothing'}")
    if error.message.startswith("Failed to parse JSON response"):
        return McpProblem("the address does not speak MCP: it answers with something else")
    if state.status >= _FIRST_BAD_STATUS:
        return ServerRefused(f"the address answers with status {state.status} ({words})")
    return ServerRefused(words)


def _read_tool(server: str, tool: types.Tool) -> ServerTool:
    schema: dict[str, Any] = dict(tool.input_schema)
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        schema = {"type": "object"}
    if len(json.dumps(schema)) > _MAX_SCHEMA_CHARS:
        schema = {"type": "object", "description": "The schema is too long to show."}
    claims = tool.annotations
    return ServerTool(
        server=server,
        name=tool.name,
        description=(tool.description or tool.title or "").strip()[:_MAX_DESCRIPTION_CHARS],
        schema=schema,
        reads_only=bool(claims and claims.read_only_hint),
        destroys=bool(claims and claims.destructive_hint),
    )
