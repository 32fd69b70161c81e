"""`hermes setup`: ask for what Hermes needs, check it, and write each answered section at once."""

import sys
from typing import Any

import click

SECTIONS = ("model", "platforms", "owner", "terminal", "service")


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice(SECTIONS), metavar="[SECTION]...")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; tokens and keys come from the environment.")
@click.option("--model", help="The model's name.")
@click.option("--base-url", help="Address of an OpenAI-compatible server.")
@click.option("--owner", "owners", multiple=True, help="Id of an owner, such as telegram:123456789; repeatable.")
@click.option("--allow", "allowed", multiple=True, help="Id of a person who may talk to the bot; repeatable.")
@click.option("--backend", help="Where the owner's commands run: auto, sandbox, local, docker, ssh, …")
@click.option("--folder", help="The folder in which the agent works.")
@click.option("--invite", metavar="PLATFORM", help="Print an invite that makes one person the owner.")
@click.option("--service", is_flag=True, help="Install and start the service.")
@click.option("--no-check", is_flag=True, help="Do not ask the servers whether tokens and model work.")
def setup(sections: tuple[str, ...], non_interactive: bool, **flags: Any) -> None:
    """Set Hermes up: model, platforms, owner, terminal, service.

    Can be run again: Enter keeps what is set. Name sections to be asked about those alone. Each section is written
    once it is answered; Ctrl-C leaves the rest as it was.

    \b
    With --non-interactive, the keys and tokens in the environment are checked and written to .env:
      OPENROUTER_API_KEY=… TELEGRAM_BOT_TOKEN=… hermes setup --non-interactive \\
        --model anthropic/claude-sonnet-4.5 --invite telegram --service
    """
    from hermes_cli.setup_script import apply_flags
    from hermes_cli.setup_sections import SetupState

    if non_interactive:
        if sections:
            raise click.UsageError("Sections are for questions; leave them out with --non-interactive.")
        apply_flags(SetupState.open(), **flags)
        return
    if any(flags.values()):
        raise click.UsageError(
            "These options are for scripts: add --non-interactive, or answer the questions without them."
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("`hermes setup` asks questions and needs a terminal; in scripts use --non-interactive.")
    _ask_all(sections or SECTIONS)


def _ask_all(sections: tuple[str, ...]) -> None:
    from hermes_cli import setup_sections as ask

    steps = {
        "model": ask.ask_model,
        "platforms": ask.ask_platforms,
        "owner": ask.ask_owner,
        "terminal": ask.ask_terminal,
        "service": ask.ask_service,
    }
    state = ask.SetupState.open()
    click.echo(f"Setting up Hermes in {state.home.root}. Enter takes the answer in brackets; Ctrl-C stops.\n")
    try:
        for number, name in enumerate((name for name in SECTIONS if name in sections), start=1):
            click.secho(f"{number}. {name.capitalize()}", bold=True)
            steps[name](state)
            click.echo()
    except (click.Abort, KeyboardInterrupt):
        saved = f"Saved before: {', '.join(state.saved)}." if state.saved else "Nothing was changed."
        click.echo(f"\nStopped. {saved} To go on: hermes setup")
        raise SystemExit(1) from None
    click.echo(f"{'Done' if state.saved else 'Nothing was changed'}. To check everything: hermes doctor --live")
