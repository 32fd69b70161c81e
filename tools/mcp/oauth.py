"""Log in to MCP servers that ask for it (OAuth 2.1), send the tokens along, and renew them.

A server names the addresses of a login itself, so it is not trusted with them: nothing is asked or told over an
unencrypted line, except on the server's own address or on this machine.
"""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from hermes_config.mcp import McpServer
from tools.content import one_line
from tools.mcp.base import McpProblem, NeedsLogin, is_local
from tools.mcp.logins import Login, Logins, list_secrets

Fits = Callable[[str], bool]
AskPerson = Callable[[str, Fits], Awaitable[str]]
"""Shows a person an address; returns the one that their browser ended on, which must fit."""

_PAST = 1.0  # a time at which every token has expired


class TokenAuth(httpx2.Auth):
    """Sends the tokens of a server's login, as they are in its file now: another process may have renewed them.

    With `ask` it begins a new login; without, it raises NeedsLogin when the tokens are no longer accepted.
    """

    def __init__(
        self,
        server: McpServer,
        logins: Logins,
        *,
        ask: AskPerson | None = None,
        redirect_uri: str = "http://127.0.0.1/callback",
        client: OAuthClientInformationFull | None = None,
    ) -> None:
        self.deny: Callable[[], None] = lambda: None  # called when somebody must log in first
        self._server = server
        self._logins = logins
        self._ask = ask
        self._provider = OAuthClientProvider(
            server.url,
            OAuthClientMetadata(client_name="Hermes", redirect_uris=[AnyUrl(redirect_uri)]),
            self,
            self._show,
            self._receive,
        )
        self._state = self._address = ""
        self._client = client
        self._has_own = ask is not None  # tokens that count more than those in the file
        self._refused = ""  # an access token that the server refuses, whatever its time

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self._provider.context
        for tries_left in (2, 1, 0):
            sent, is_whole = self._take_stored(), not tries_left  # whether the SDK's flow sends the request itself
            if sent is not None and context.is_token_valid():
                # Not in the SDK's flow, which lets only one request at a time wait for its answer.
                token = str(sent.tokens["access_token"])
                request.headers["Authorization"] = f"Bearer {token}"
                response = yield request
                if response.status_code == 401:
                    self._refused = token
                elif not (is_whole := _wants_more(response)):
                    return
                del request.headers["Authorization"]
            async with AsyncExitStack() as stack:
                if sent is not None:
                    await stack.enter_async_context(self._logins.held(self._server.name))
                    if tries_left and self._has_changed(sent):  # by another process
                        continue
                flow = await stack.enter_async_context(aclosing(self._provider.async_auth_flow(request)))
                outgoing = await anext(flow)
                while is_whole or outgoing is not request or not context.is_token_valid():  # renewed: sent as above
                    self._check(outgoing.url)
                    response = yield outgoing
                    is_refused = outgoing is request and response.status_code == 401
                    if tries_left and is_refused and self._has_changed(sent):
                        break
                    try:
                        outgoing = await flow.asend(response)
                    except StopAsyncIteration:
                        return

    def hide(self, text: str) -> str:
        """Return text of the server without our tokens and our client secret."""
        login, client = self._logins.load(self._server), self._provider.context.client_info or self._client
        known = [*(list_secrets(login) if login is not None else ()), client.client_secret if client else ""]
        for secret in filter(None, known):
            text = text.replace(secret, "[hidden]")
        return text

    def _take_stored(self) -> Login | None:
        """Use the tokens in the file; return them."""
        if self._has_own:
            return None
        login, context = self._logins.load(self._server), self._provider.context
        if login is None:
            context.clear_tokens()
            return None
        context.current_tokens = OAuthToken.model_validate(login.tokens)
        context.client_info = OAuthClientInformationFull.model_validate(login.client)
        is_refused = context.current_tokens.access_token == self._refused
        context.token_expiry_time = _PAST if is_refused else login.expires_at
        if login.authorization_server is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(login.authorization_server)
        if login.resource is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
        return login

    def _has_changed(self, sent: Login | None) -> bool:
        login = self._logins.load(self._server)
        return sent is not None and login is not None and login.tokens != sent.tokens

    def _check(self, url: httpx2.URL) -> None:
        own = httpx2.URL(self._server.url)
        is_own = (url.scheme, url.host, url.port) == (own.scheme, own.host, own.port)
        if url.scheme != "https" and not is_own and not (is_local(url.host) and is_local(own.host)):
            raise McpProblem(f"its login leads to {one_line(str(url), 200)}, which is not encrypted")

    # What the SDK asks for.

    async def get_tokens(self) -> OAuthToken | None:
        return self._provider.context.current_tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._provider.context.client_info or self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep nothing yet: without tokens it is of no use."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self._provider.context
        assert context.client_info is not None
        server, resource = context.oauth_metadata, context.protected_resource_metadata
        login = Login(
            url=self._server.url,
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            client=context.client_info.model_dump(mode="json", exclude_none=True),
            expires_at=context.token_expiry_time,
            authorization_server=server.model_dump(mode="json", exclude_none=True) if server else None,
            resource=resource.model_dump(mode="json", exclude_none=True) if resource else None,
        )
        self._logins.save(self._server.name, login)
        self._has_own = False

    async def _show(self, url: str) -> None:
        if self._ask is None:
            self.deny()
            raise NeedsLogin(self._server.name)
        self._check(httpx2.URL(url))
        self._state = parse_qs(urlsplit(url).query)["state"][0]
        self._address = await self._ask(url, self._fits)

    def _fits(self, address: str) -> bool:
        state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        return secrets.compare_digest(state.encode(), self._state.encode())

    async def _receive(self) -> AuthorizationCodeResult:
        given = {name: values[0] for name, values in parse_qs(urlsplit(self._address).query).items()}
        if "error" in given:
            why = one_line(": ".join(filter(None, (given["error"], given.get("error_description")))), 300)
            raise McpProblem(f"the login was refused: {why}")
        return AuthorizationCodeResult(code=given.get("code", ""), state=given.get("state"), iss=given.get("iss"))


def _wants_more(response: httpx2.Response) -> bool:
    """Return whether these tokens are good, but not for this; any other refusal is an answer."""
    return response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"


def make_client(client_id: str, secret: str, redirect_uri: str) -> OAuthClientInformationFull:
    """Describe Hermes to an authorization server on which somebody has registered it by hand."""
    return OAuthClientInformationFull(
        client_id=client_id,
        client_secret=secret or None,
        redirect_uris=[AnyUrl(redirect_uri)],
        token_endpoint_auth_method="client_secret_post" if secret else "none",
    )
