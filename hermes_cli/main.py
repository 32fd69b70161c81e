"""The `hermes` command. Each subcommand is imported when it is used, so that help is instant."""

import importlib
import sys

import click

COMMANDS = {
    "approvals": ("hermes_cli.approvals:approvals", "List, answer and explain approval requests."),
    "chat": ("hermes_cli.chat:chat", "Talk to the agent here (the default command)."),
    "config": ("hermes_cli.config:config", "Show and change settings."),
    "doctor": ("hermes_cli.doctor:doctor", "Check each part of Hermes and say how to fix it."),
    "forget": ("hermes_cli.forget:forget", "Erase everything stored about a person."),
    "gateway": ("hermes_cli.gateway:gateway", "Run the gateway."),
    "help": ("hermes_cli.help:show_help", "Show help for a command."),
    "pairing": ("hermes_cli.pairing:pairing", "Manage who may talk to the bot."),
    "playground": ("hermes_cli.playground:playground", "Try Hermes in the browser, without any token."),
    "sessions": ("hermes_cli.sessions:sessions", "List, read and search conversations."),
    "state": ("hermes_cli.state:state", "Manage the database: backups, upgrades, restore."),
    "status": ("hermes_cli.status:status", "Show whether the gateway runs and is connected."),
    "tools": ("hermes_cli.tools:tools", "List the agent's tools and why some are off."),
    "trace": ("hermes_cli.trace:trace", "Show what happened to a message, step by step."),
    "usage": ("hermes_cli.usage:usage", "Show tokens and cost, and today's budget."),
    "web": ("hermes_cli.web:web", "Print a link that opens the chat page."),
    "version": ("hermes_cli.version:version", "Print the version."),
}


class LazyGroup(click.Group):
    """A group that lists its subcommands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean `hermes {near[0]}`?" if near else " `hermes --help` lists the commands."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(COMMANDS.items())])


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        command = hermes.get_command(ctx, "version")
        assert command is not None
        ctx.invoke(command)
        ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def hermes(ctx: click.Context) -> None:
    """Hermes: talk to a tool-using AI agent from your chat apps."""
    if ctx.invoked_subcommand is None:
        command = hermes.get_command(ctx, "chat")
        assert command is not None
        ctx.invoke(command)


def main() -> None:
    """Run the command. A known failure prints one message and exits with 1, wrong usage with 2."""
    try:
        hermes.main(standalone_mode=True)
    except Exception as error:  # a known failure is one sentence, an unknown one a traceback
        if not _is_known(error):
            raise
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)


def _is_known(error: Exception) -> bool:
    from agent_core.model import ModelError
    from gateway.errors import GatewayError
    from hermes_config.errors import ConfigError

    return isinstance(error, ConfigError | GatewayError | ModelError)
