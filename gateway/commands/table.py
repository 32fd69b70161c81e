"""All commands in one table, with the one that lists them."""

from itertools import groupby

from gateway.commands.registry import CommandCall, CommandReply, Commands, CommandSpec
from gateway.commands.session import SESSION_COMMANDS
from gateway.store.connection import Transaction


def all_commands() -> Commands:
    def show_help(_: Transaction, call: CommandCall) -> CommandReply:
        return CommandReply(text=_help(commands, call))

    listing = CommandSpec(name="help", category="Help", description="List the commands", run=show_help)
    commands = Commands((*SESSION_COMMANDS, listing))
    return commands


def _help(commands: Commands, call: CommandCall) -> str:
    lines: list[str] = []
    for category, specs in groupby(commands.available(call.role, call.place), key=lambda spec: spec.category):
        lines.append(category)
        lines += [f"  {_usage(spec)}: {spec.description}" for spec in specs]
    return "\n".join(lines)


def _usage(spec: CommandSpec) -> str:
    names = ", ".join(f"/{name}" for name in (spec.name, *spec.aliases))
    return f"{names} {spec.argument_hint}".strip()
