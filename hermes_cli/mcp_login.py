"""The user's part of a login to an MCP server: show an address, and receive the one to which their browser returns."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import click

from hermes_cli.prompting import wait_for_line
from hermes_config.mcp import McpServer
from tools.mcp.base import McpProblem
from tools.mcp.logins import Logins
from tools.mcp.oauth import Fits, TokenAuth, make_client
from tools.mcp.sdk import connect

LOGIN_SECONDS = 600.0
_MAX_REQUEST_LINE_BYTES = 16_000
_READ_SECONDS = 10.0


async def log_in(server: McpServer, logins: Logins, *, port: int, client_id: str, secret: str) -> int:
    """Log in, and return the number of tools that the server offers; raises McpProblem."""
    patient = server.model_copy(update={"timeout": LOGIN_SECONDS})
    async with _receive_redirect(port) as redirect:
        client = make_client(client_id, secret, redirect.uri) if client_id else None
        auth = TokenAuth(patient, logins, ask=redirect.ask, redirect_uri=redirect.uri, client=client)
        async with connect(patient, lambda: None, auth=auth) as session:
            return len(await session.list_tools())


@asynccontextmanager
async def _receive_redirect(port: int) -> "AsyncIterator[_Redirect]":
    redirect = _Redirect()
    try:
        server = await asyncio.start_server(redirect.answer, "127.0.0.1", port, limit=_MAX_REQUEST_LINE_BYTES)
    except OSError as error:
        raise McpProblem(f"the port {port} of this machine cannot be used: {error.strerror}") from error
    redirect.uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
    try:
        yield redirect
    finally:
        server.close()
        for writer in redirect.open:  # browsers connect more often than they ask
            writer.close()
        await server.wait_closed()


class _Redirect:
    """The end of a login: the browser is sent to a port of this machine, or somebody pastes where it was sent."""

    def __init__(self) -> None:
        self.uri = ""
        self.open: set[asyncio.StreamWriter] = set()
        self._fits: Fits = lambda address: False
        self._found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ask(self, url: str, fits: Fits) -> str:
        self._fits = fits
        click.echo(f"Open this address in a browser and log in:\n\n{url}\n")
        click.echo("If the browser is on another machine, its last page cannot be shown. Paste its address here:")
        pasting = asyncio.create_task(self._read_pasted())
        try:
            return await self._found
        finally:
            pasting.cancel()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the browser. A request without the secret of this login is refused."""
        self.open.add(writer)
        with suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(_READ_SECONDS):
                target = (await reader.readline()).decode().split()[1:2]
                fits = self._take(self.uri.removesuffix("/callback") + "".join(target))
                text = "Done. You can close this page." if fits else "This is not the login that waits."
                writer.write(
                    f"HTTP/1.1 {'200 OK' if fits else '404 Not Found'}\r\nContent-Type: text/plain\r\n"
                    f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode()
                )
                await writer.drain()
        self.open.discard(writer)
        writer.close()

    async def _read_pasted(self) -> None:
        with suppress(OSError, ValueError):  # there is no input to wait for
            while not self._found.done():
                await wait_for_line(sys.stdin)
                line = sys.stdin.readline()
                if not line:
                    return
                if line.strip() and not self._take(line.strip()):
                    click.echo("That is not the address at which this login ended. Paste all of it:")

    def _take(self, address: str) -> bool:
        if not address.startswith(self.uri) or not self._fits(address):
            return False
        if not self._found.done():
            self._found.set_result(address)
        return True
