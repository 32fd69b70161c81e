"""The `hermes` command. Each subcommand is imported when it is used, so that help is instant."""

import gc
import importlib

import click

COMMANDS = {
    "acp": ("hermes_cli.acp:acp", "Let a code editor use the agent (Agent Client Protocol)."),
    "approvals": ("hermes_cli.approvals:approvals", "List, answer and explain approval requests."),
    "backup": ("hermes_cli.archive:backup", "Save settings and data in one file."),
    "batch": ("hermes_cli.batch:batch", "Run a file of prompts at once, and collect trajectories."),
    "chat": ("hermes_cli.chat:chat", "Talk to the agent here (the default command)."),
    "completion": ("hermes_cli.main:completion", "Print completion for your shell."),
    "config": ("hermes_cli.config:config", "Show and change settings."),
    "cron": ("hermes_cli.cron:cron", "Schedule prompts, and see the result of each run."),
    "doctor": ("hermes_cli.doctor:doctor", "Check each part of Hermes and say how to fix it."),
    "export": ("hermes_cli.export:export", "Write conversations and memories as readable files."),
    "forget": ("hermes_cli.forget:forget", "Erase everything stored about a person."),
    "gateway": ("hermes_cli.gateway:gateway", "Run the gateway to the chat apps, here or as a service."),
    "help": ("hermes_cli.main:show_help", "Show help for a command."),
    "hooks": ("hermes_cli.hooks:hooks", "List, test and switch hooks (run when something happens)."),
    "import": ("hermes_cli.imports.command:import_", "Take over settings and people from another bot."),
    "keys": ("hermes_cli.keys:keys", "Manage the keys of programs that use the HTTP API."),
    "logs": ("hermes_cli.gateway_service:logs", "Show the log of the service."),
    "mcp": ("hermes_cli.mcp:mcp", "Add tools of MCP servers, or offer Hermes as one."),
    "memory": ("hermes_cli.memory:memory", "Read and change what the agent remembers about you."),
    "model": ("hermes_cli.model:model", "Show or choose the model."),
    "pairing": ("hermes_cli.pairing:pairing", "Manage who may talk to the bot."),
    "playground": ("hermes_cli.playground:playground", "Try Hermes in the browser, without any token."),
    "restore": ("hermes_cli.archive:restore", "Bring back what a backup file holds."),
    "send": ("hermes_cli.send:send", "Send a message to a chat and wait until it has arrived."),
    "sessions": ("hermes_cli.sessions:sessions", "List, read and search conversations."),
    "setup": ("hermes_cli.setup:setup", "Set up model, platforms, owner and service."),
    "skills": ("hermes_cli.skills:skills", "List, read, install and change skills."),
    "state": ("hermes_cli.state:state", "Look after the database: its own backups, upgrades, undo."),
    "status": ("hermes_cli.status:status", "Show whether the gateway runs and is connected."),
    "tools": ("hermes_cli.tools:tools", "List the agent's tools and why some are off."),
    "trace": ("hermes_cli.trace:trace", "Show what happened to a message, step by step."),
    "trajectories": ("hermes_cli.trajectories:trajectories", "Check, count and shorten recorded runs (trajectories)."),
    "uninstall": ("hermes_cli.installation:uninstall", "Remove the service and, if you want, all data."),
    "update": ("hermes_cli.installation:update", "Install the newest version."),
    "usage": ("hermes_cli.usage:usage", "Show tokens and cost, and today's budget."),
    "version": ("hermes_cli.main:version", "Print the version."),
    "web": ("hermes_cli.web:web", "Print a link that opens the chat page."),
    "webhooks": ("hermes_cli.webhooks:webhooks", "Let other services start the agent."),
}


class LazyGroup(click.Group):
    """A group that lists its subcommands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        gc.disable()  # imports leave nothing to collect, and looking for it takes a tenth of their time
        try:
            command = getattr(importlib.import_module(module), attribute)
        finally:
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help", "--version"):
            args = ["chat", *args]  # `hermes -c`, `hermes -q "…"`
        return super().parse_args(ctx, args)

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

    def invoke(self, ctx: click.Context) -> object:
        """Show a known failure as one sentence; an unknown one is a traceback."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from agent_core.model import ModelError
            from gateway.errors import GatewayError
            from hermes_config.errors import ConfigError

            if isinstance(error, ConfigError | GatewayError | ModelError):
                raise click.ClickException(str(error)) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(COMMANDS.items())])


@click.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed_version

    click.echo(f"hermes {installed_version('hermes-gateway')}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print completion for a shell.

    bash: hermes completion bash > ~/.local/share/bash-completion/completions/hermes. zsh: add
    `eval "$(hermes completion zsh)"` to ~/.zshrc. fish: hermes completion fish >
    ~/.config/fish/completions/hermes.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click knows these three
    # Not `source()`, which for bash starts a shell to learn its version.
    made = kind(hermes, {}, "hermes", "_HERMES_COMPLETE")
    click.echo(made.source_template % made.source_vars())


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def show_help(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show help for a command: hermes help pairing invite"""
    assert ctx.parent is not None
    at = ctx.parent
    for name in names:
        if not isinstance(at.command, click.Group):
            raise click.UsageError(f"`{at.command_path}` has no subcommands.", at)
        _, command, _ = at.command.resolve_command(at, [name])
        assert command is not None  # else it has raised
        at = click.Context(command, info_name=name, parent=at)
    click.echo(at.get_help())


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.invoke(version)
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
    hermes.main()
