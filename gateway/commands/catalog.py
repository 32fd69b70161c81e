"""All commands and buttons in one table, with `/help`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from gateway.commands.access import access_commands
from gateway.commands.agent import AgentOptions, agent_commands, demo_options
from gateway.commands.approvals import APPROVAL_COMMANDS, ask_again, decide_pressed
from gateway.commands.cron import cron_commands
from gateway.commands.history import TranscriptFiles, history_commands, send_again, undo_pressed
from gateway.commands.memory import MEMORY_COMMANDS
from gateway.commands.registry import CommandCall, Commands, CommandSpec
from gateway.commands.service import service_commands, terminal_commands
from gateway.commands.session import SESSION_COMMANDS, continue_old
from gateway.commands.skills import SkillCommands
from gateway.commands.status import trace_commands
from gateway.policies.access import Rules
from gateway.policies.budgets import Budgets
from gateway.policies.pairing import PairingLimits
from gateway.schedule.book import JobOptions
from gateway.store.db.connection import Transaction
from tools.mcp.hub import McpHub

_HELLO = "Hello! Write to me as you would to a person; /help lists what else I understand."


def make_commands(
    rules: Rules | None = None,
    limits: PairingLimits | None = None,
    budgets: Budgets | None = None,
    *,
    unpriced: Sequence[str] = (),
    agent: AgentOptions | None = None,
    files: TranscriptFiles | None = None,
    jobs: JobOptions | None = None,
    skills: SkillCommands | None = None,
    describe_config: Callable[[], str] = lambda: "",
    mcp: McpHub | None = None,
) -> Commands:
    """`rules` and `limits` say who may speak, `budgets` how much it may cost, `unpriced` which models these miss,
    `agent` what conversations can choose from, `files` where saved ones go, `jobs` what can be scheduled, `skills`
    which of those there are, `mcp` the servers of tools."""

    skills = skills or SkillCommands()

    def show_help(_: Transaction, call: CommandCall) -> str:
        return _help(commands, call)

    commands = Commands(
        (
            *SESSION_COMMANDS,
            *history_commands(files),
            *trace_commands(budgets or Budgets(), unpriced),
            *agent_commands(agent or demo_options()),
            *MEMORY_COMMANDS,
            *cron_commands(jobs or JobOptions()),
            skills.spec,
            *APPROVAL_COMMANDS,
            *access_commands(rules or Rules(), limits or PairingLimits()),
            *service_commands(mcp or McpHub({})),
            CommandSpec("help", "Help", "List the commands, or explain one", show_help, "[COMMAND]"),
            *terminal_commands(describe_config),
            # Telegram sends it for whoever opens the bot, and it is no command that anybody would look for.
            CommandSpec("start", "Help", "Say hello", lambda *_: _HELLO, listed=False),
        ),
        find_more=skills.find,
        buttons={
            "resend": send_again,
            "continue": continue_old,
            "approval": decide_pressed,
            "askagain": ask_again,
            "undo": undo_pressed,
            "skill": skills.press,
        },
    )
    return commands


def _help(commands: Commands, call: CommandCall) -> str:
    if name := call.arguments.lower().lstrip("/"):
        spec = commands.find(name)
        if spec is None or not spec.may_be_used(call.role, call.place):
            return commands.describe_unknown(replace(call, name=name))
        return f"{_usage(spec)}: {spec.description}"
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
