"""All commands in one table, with the one that lists them."""

from collections.abc import Sequence
from itertools import groupby

from gateway.commands.access import access_commands
from gateway.commands.agent import AGENT_COMMANDS
from gateway.commands.approvals import APPROVAL_COMMANDS
from gateway.commands.registry import CommandCall, CommandReply, Commands, CommandSpec
from gateway.commands.session import SESSION_COMMANDS
from gateway.commands.status import WHY_COMMANDS, usage_command
from gateway.policies.access import Rules
from gateway.policies.budgets import Budgets
from gateway.store.db.connection import Transaction
from gateway.store.pairing import PairingLimits


def make_commands(
    rules: Rules | None = None,
    limits: PairingLimits | None = None,
    budgets: Budgets | None = None,
    *,
    unpriced: Sequence[str] = (),
) -> Commands:
    """`rules` and `limits` say who may speak, `budgets` how much it may cost, `unpriced` which models these miss."""

    def show_help(_: Transaction, call: CommandCall) -> CommandReply:
        return CommandReply(text=_help(commands, call))

    listing = CommandSpec(name="help", category="Help", description="List the commands", run=show_help)
    # Telegram sends it for whoever opens the bot, and it is no command that anybody would look for.
    start = CommandSpec(name="start", category="Help", description="Say hello", run=_greet, listed=False)
    access = access_commands(rules or Rules(), limits or PairingLimits())
    usage = usage_command(budgets or Budgets(), unpriced)
    commands = Commands(
        (*SESSION_COMMANDS, usage, *WHY_COMMANDS, *AGENT_COMMANDS, *APPROVAL_COMMANDS, *access, listing, start)
    )
    return commands


def _greet(_: Transaction, call: CommandCall) -> CommandReply:
    return CommandReply(text="Hello! Write to me as you would to a person; /help lists what else I understand.")


def _help(commands: Commands, call: CommandCall) -> str:
    # A terminal shows text as it is; a chat renders Markdown, and would join indented lines to one paragraph.
    heading, item = ("{}", "  {}: {}") if call.place == "cli" else ("**{}**", "- {}: {}")
    groups = groupby(commands.available(call.role, call.place), key=lambda spec: spec.category)
    return "\n\n".join(
        "\n".join([heading.format(category), *(item.format(_usage(spec), spec.description) for spec in specs)])
        for category, specs in groups
    )


def _usage(spec: CommandSpec) -> str:
    names = ", ".join(f"/{name}" for name in (spec.name, *spec.aliases))
    return f"{names} {spec.argument_hint}".strip()
