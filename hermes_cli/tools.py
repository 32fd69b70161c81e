"""`hermes tools`: list the agent's tools."""

import json
from typing import Any

import click

from gateway.lock import read_state
from gateway.wiring.network_tools import build_network_tools
from hermes_cli.opening import open_home
from hermes_config.mcp import read_servers
from hermes_config.platforms import NAMES
from tools.loading import load_builtin, load_folder
from tools.mcp.hub import McpHub
from tools.toolsets import ToolChoice, ToolsetError, choose_tools


@click.group(invoke_without_command=True)
@click.pass_context
def tools(ctx: click.Context) -> None:
    """List the agent's tools and why some are off."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tools)


@tools.command("list")
@click.option(
    "--platform",
    type=click.Choice(["cli", "cron", *NAMES]),
    default="cli",
    show_default=True,
    help="Where the tools would be offered.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tools(as_json: bool = False, platform: str = "cli") -> None:
    """List every tool with its toolset, and why it is off."""
    opened = open_home(make=False)  # a question changes nothing
    registry = load_builtin()
    broken = load_folder(opened.home.root / "tools")
    try:
        network = build_network_tools(opened.settings, in_chat=platform != "cli")
        servers = McpHub(read_servers(opened.settings.mcp.servers))
        choice = choose_tools(registry, opened.settings.agent, network, servers)
        choice.check()
        reasons = choice.why_not(platform)
    except ToolsetError as error:
        raise click.ClickException(str(error)) from error
    rows = [{"name": tool.name, "toolset": tool.toolset, "off_because": reasons[tool.name]} for tool in registry]
    rows += _list_servers(choice, platform, read_state(opened.home.lock_file) or {})
    if as_json:
        click.echo(json.dumps({"tools": rows, "broken_files": broken}, ensure_ascii=False, indent=2))
        return
    for row in rows:
        off = row["off_because"]
        click.echo(f"{'off' if off else 'on '}  {row['name']:<18} {row['toolset']:<10} {off}".rstrip())
    for file, problem in broken.items():
        click.echo(f"bad  tools/{file}: {problem}")


def _list_servers(choice: ToolChoice, platform: str, running: dict[str, Any]) -> list[dict[str, str]]:
    """Return a row for all tools of each MCP server, which only the running gateway knows one by one."""
    on = choice.servers_on(platform)
    rows = []
    for name in choice.mcp.servers:
        state = running.get("mcp", {}).get(name, {"problem": "the gateway is not running"})
        off = f"toolset mcp-{name} is not enabled" if name not in on else str(state.get("problem", ""))
        rows.append({"name": f"mcp_{name}_*", "toolset": f"mcp-{name}", "off_because": off})
    return rows
