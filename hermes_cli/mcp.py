"""`hermes mcp`: list, add, test and remove MCP servers, log in to them, and serve Hermes itself to MCP clients."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

import click

from gateway.lock import read_state
from hermes_cli.opening import OpenedStore, open_home
from hermes_config.config_file import remove_from_text, set_in_text
from hermes_config.edit import replace_config
from hermes_config.extras import install_line
from hermes_config.mcp import McpServer, check_entry, write_entry
from hermes_config.sources import read_text
from tools.mcp.base import CallUnanswered, McpProblem, prepare
from tools.mcp.logins import Logins

_RELOAD = "If the gateway is running, send /reload-mcp in a chat, or: hermes gateway reload"


@click.group()
def mcp() -> None:
    """Add tools of MCP servers, or offer Hermes as one."""


@mcp.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_servers(as_json: bool) -> None:
    """List the servers, and their state in the running gateway."""
    opened = open_home(make=False)
    running = (read_state(opened.home.lock_file) or {}).get("mcp", {})
    unknown = {"state": "not running", "tools": 0, "problem": ""}
    rows = [
        {"name": name, "transport": "http" if server.url else "stdio"}
        | {key: running.get(name, unknown)[key] for key in unknown}
        for name, server in _all_servers(opened).items()
    ]
    if as_json:
        opened.print_json(rows)
        return
    for row in rows:
        text = f"{row['name']:<16} {row['transport']:<6} {row['state']:<12} {row['tools']:>4} tools  {row['problem']}"
        opened.print_text(text.rstrip())
    if not rows:
        click.echo("There is no MCP server. Add one: hermes mcp add time uvx mcp-server-time")


@mcp.command(context_settings={"ignore_unknown_options": True}, short_help="Add a server.")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", default="", help="The address of a server that is reached over HTTP, instead of a command.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the command; may be repeated.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="A header for the url; may be repeated.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds that a call may take.")
def add(
    name: str, command: tuple[str, ...], url: str, env: tuple[str, ...], header: tuple[str, ...], timeout: float
) -> None:
    """Add a server: hermes mcp add files npx -y @modelcontextprotocol/server-filesystem ~/notes

    Put secrets into .env, and name them here: --env 'GITHUB_TOKEN=${GITHUB_TOKEN}'. Write -- before a command
    that has options of the same names.
    """
    opened = open_home()
    if name in _all_servers(opened):
        raise click.UsageError(f"There is a server {name} already. Remove it first: hermes mcp remove {name}")
    entry = {
        "name": name,
        **({"command": command[0], "args": command[1:]} if command else {}),
        **({"url": url} if url else {}),
        "env": _read_pairs(env, "--env"),
        "headers": _read_pairs(header, "--header"),
        "timeout": timeout,
    }
    try:
        check_entry(json.dumps(entry))
    except ValueError as error:
        raise click.UsageError(f"Nothing was added: {error}.") from error
    file = opened.home.config_file
    old = read_text(file) or ""
    new = set_in_text(old, file, f"mcp.servers.{name}", write_entry(McpServer.model_validate(entry)))
    replace_config(opened.home, old, new)
    click.echo(f"Added {name}. Try it: hermes mcp test {name}\n{_RELOAD}")


@mcp.command(short_help="Remove a server.")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a server from config.yaml, and its login."""
    opened = open_home()
    _find(opened, name)
    file = opened.home.config_file
    old = read_text(file) or ""
    new = remove_from_text(old, file, f"mcp.servers.{name}")
    if new == old:
        raise click.ClickException(f"{name} is not written in {file}. Remove it where it is set.")
    replace_config(opened.home, old, new)
    Logins(opened.home.mcp_logins).delete(name)
    click.echo(f"Removed {name}. {_RELOAD}")


@mcp.command(short_help="Connect to a server and list its tools.")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(name: str, as_json: bool) -> None:
    """Start a server, or connect to it, and list the tools that it offers. Exits with 1 when it does not work."""
    from tools.mcp.hub import McpHub

    opened = open_home(make=False)
    opened.configure_logs()
    server = _find(opened, name).model_copy(update={"enabled": True})
    hub = McpHub({name: server}, logins=Logins(opened.home.mcp_logins))

    async def look() -> dict[str, object]:
        async with hub.running():
            await hub.settle()
            tools = [{"name": one.name, "description": one.description} for one in hub.tools()]
            return {"name": name, **hub.state()[name], "tools": tools}

    found = opened.redactor.clean_all(asyncio.run(look()))
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
    elif found["state"] == "ready":
        for tool in found["tools"]:
            opened.print_text(f"{tool['name']}: {tool['description'].partition(chr(10))[0][:100]}".rstrip(": "))
        for note in found["renamed"]:
            opened.print_text(f"Note: {note}.")
        click.echo(f"{name} works and offers {len(found['tools'])} tools.")
    if found["state"] != "ready":
        raise click.ClickException(f"{name} does not work: {found['problem'] or 'it did not answer in time'}.")


@mcp.command(short_help="Log in to a server that asks for it.")
@click.argument("name")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Have the browser come back to this port.")
@click.option(
    "--client-id", default="", help="Where programs cannot register themselves: the id that Hermes has there."
)
def login(name: str, port: int, client_id: str) -> None:
    """Log in to a server that is reached over HTTP (OAuth): open the address that is shown in a browser.

    The tokens are kept in the home and renewed when they expire. With --client-id, name the redirect address
    http://127.0.0.1:PORT/callback where you register Hermes, and give the same --port.
    """
    opened = open_home()
    opened.configure_logs()
    server = _find(opened, name)
    if not server.url:
        raise click.UsageError(f"{name} is started by a command, and such servers have no login. Use --env for tokens.")
    if server.has_own_login:
        raise click.UsageError(f"{name} has an Authorization header in the settings, which is used. Remove it first.")
    secret = ""
    if client_id:
        secret = click.prompt("Client secret (empty if there is none)", hide_input=True, default="", show_default=False)
    logins = Logins(opened.home.mcp_logins)
    before = logins.stamp(name)
    try:
        ready = prepare(server)
        from hermes_cli.mcp_login import log_in

        tools = asyncio.run(log_in(ready, logins, port=port, client_id=client_id, secret=secret))
    except CallUnanswered as error:
        raise click.ClickException("Nobody has logged in within ten minutes. Nothing was changed.") from error
    except McpProblem as error:
        raise click.ClickException(f"{name} cannot be used: {opened.redactor.clean(str(error))}.") from error
    is_new = logins.stamp(name) != before
    done = "You are logged in. A running gateway notices it soon" if is_new else "The server needs no login"
    click.echo(f"{done}. {name} offers {tools} tools.")


@mcp.command(short_help="Forget the login to a server.")
@click.argument("name")
def logout(name: str) -> None:
    """Delete the tokens of a server. The running gateway stops using them at once."""
    if not Logins(open_home(make=False).home.mcp_logins).delete(name):
        raise click.ClickException(f"There is no login to {name}.")
    click.echo(f"The tokens of {name} are deleted. To log in again: hermes mcp login {name}")


@mcp.command(short_help="Serve Hermes to an MCP client, over stdin and stdout.")
def serve() -> None:
    """Let an MCP client list, read and search your conversations and send messages, with your rights.

    Give the client this command: hermes mcp serve
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise click.ClickException(f"The package mcp is not installed: {install_line('mcp')}")
    from hermes_cli.mcp_functions import serve_conversations

    with suppress(KeyboardInterrupt):
        asyncio.run(serve_conversations(open_home()))


def _all_servers(opened: OpenedStore) -> dict[str, McpServer]:
    """Return the servers in the settings, those that are switched off, too."""
    entries = [McpServer.model_validate_json(entry) for entry in opened.settings.mcp.servers]
    return {server.name: server for server in entries}


def _find(opened: OpenedStore, name: str) -> McpServer:
    servers = _all_servers(opened)
    if name not in servers:
        there = f"There are: {', '.join(servers)}." if servers else "There is none yet: hermes mcp add"
        raise click.UsageError(f"There is no MCP server {name}. {there}")
    return servers[name]


def _read_pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    if wrong := [name for name, sign, _ in pairs if not (sign and name)]:
        raise click.UsageError(f"{option} {wrong[0]} must be written as NAME=VALUE.")
    return {name: value for name, _, value in pairs}
