"""Commands about the program itself: `/restart` and `/reload-mcp`; `/config`, `/clear` and `/quit` at the terminal."""

from collections.abc import Callable

from gateway.commands.registry import CHAT_ONLY, CLI_ONLY, CommandCall, CommandReply, CommandSpec
from gateway.store import turns
from gateway.store.db.connection import Transaction
from gateway.wording import count
from tools.mcp.hub import McpHub


def restart(tx: Transaction, call: CommandCall) -> CommandReply:
    running = turns.count_running(tx)
    when = f"once {count(running, 'running turn')} ended, within a minute or so" if running else "now"
    return CommandReply(f"Restarting {when}. I will write here once I run again.", restarts=True)


def service_commands(hub: McpHub) -> tuple[CommandSpec, ...]:
    def reload(_: Transaction, call: CommandCall) -> str:
        return hub.take_report() or "MCP servers run in the gateway only. Start it: hermes gateway run"

    about = "Restart the gateway; running turns may finish first"
    again = "Read the settings of MCP servers again and restart them"
    menu_names = ("reload_mcp",)  # as menus that know no hyphen call it
    return (
        CommandSpec("restart", "Access", about, restart, places=CHAT_ONLY, owners_only=True),
        CommandSpec("reload-mcp", "Access", again, reload, aliases=menu_names, owners_only=True, needs=hub),
    )


def terminal_commands(describe_config: Callable[[], str]) -> tuple[CommandSpec, ...]:
    """`describe_config` returns the settings in a few lines. The terminal itself clears its screen and leaves."""
    return (
        CommandSpec("config", "Help", "Show the settings in use", lambda *_: describe_config(), places=CLI_ONLY),
        CommandSpec("clear", "Help", "Clear the screen", lambda *_: "", places=CLI_ONLY),
        CommandSpec("quit", "Help", "End the chat", lambda *_: "", aliases=("exit",), places=CLI_ONLY),
    )
