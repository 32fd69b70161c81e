"""An MCP server that asks for a login, and the authorization server that it names, made of the SDK's own parts.

They have an address each, as in real life, and listen on loopback.
"""

import asyncio
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp import MCPError
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    TokenVerifier,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette


@dataclass
class Desk(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken], TokenVerifier):
    """Says yes to everybody, and remembers what it was asked."""

    lasts_seconds: int = 3600
    is_told: bool = True  # how long a token lasts
    says_no: bool = False
    quotes: bool = False  # the secret of whoever wants tokens, instead of giving any
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    url: str = ""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.asked["register"] += 1
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.says_no:
            raise AuthorizeError(error="access_denied", error_description="Ann said no")
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self.quotes:
            raise TokenError("invalid_client", f"{client.client_secret} is wrong")
        self.asked["code"] += 1
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        self.asked["refresh"] += 1
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.asked["refreshed"] += 1
        del self.refresh[refresh_token.token]  # each is good for one use
        return self._issue(client.client_id, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    verify_token = load_access_token

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def revoke_all(self) -> None:
        self.access.clear()
        self.refresh.clear()

    def _issue(self, client_id: str, resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        expires_at = int(time.time()) + self.lasts_seconds
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=[], resource=resource, expires_at=expires_at
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=[], resource=resource)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.lasts_seconds if self.is_told else None
        )


@asynccontextmanager
async def locked(*, registers: bool = True, **more: Any) -> AsyncIterator[Desk]:
    """Start both; `url` is the address of the MCP server. `registers`: whether programs may register themselves."""
    desk = Desk(**more)
    sockets = [_listen(), _listen()]
    issuer, resource = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    desk.url = f"{resource}/mcp"
    server = MCPServer(
        "locked",
        token_verifier=desk,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(issuer), resource_server_url=AnyHttpUrl(desk.url), validate_token_resource=True
        ),
        log_level="CRITICAL",
    )

    together = asyncio.Barrier(2)

    @server.tool()
    async def meet() -> str:
        """Wait for another call."""
        await together.wait()
        return "met"

    @server.tool()
    async def whisper(text: str) -> str:
        """Say it back, together with all that is secret."""
        said = f"{text}: {[*desk.access, *desk.refresh]}"
        if text == "fail":
            raise MCPError(code=-32_602, message=said)
        return said

    options = ClientRegistrationOptions(enabled=registers)
    routes = create_auth_routes(desk, AnyHttpUrl(issuer), client_registration_options=options)
    async with AsyncExitStack() as stack:
        for app, one in zip(
            (Starlette(routes=routes), server.streamable_http_app(json_response=True)), sockets, strict=True
        ):
            await stack.enter_async_context(_serve(app, one))
        yield desk


def _listen() -> socket.socket:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    return one


@asynccontextmanager
async def _serve(app: Starlette, one: socket.socket) -> AsyncIterator[None]:
    config = uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(server._serve(sockets=[one]))
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await serving
        one.close()
