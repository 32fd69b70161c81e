"""`hermes import`: take over settings and people from another program."""

from importlib import import_module
from pathlib import Path

import click

PEERS = {"hermes-agent": "~/.hermes", "openclaw": "~/.openclaw", "nanobot": "~/.nanobot"}


@click.command("import")
@click.argument("peer", type=click.Choice(list(PEERS)), metavar="hermes-agent|openclaw|nanobot")
@click.option("--from", "folder", metavar="FOLDER", help="Its home, if it is not in the usual place.")
@click.option("--dry-run", is_flag=True, help="Say what would be taken; change nothing.")
@click.option("--overwrite", is_flag=True, help="Replace values that are set here already.")
@click.option("--no-check", is_flag=True, help="Do not ask the servers whether tokens and model work.")
def import_(peer: str, folder: str | None, dry_run: bool, overwrite: bool, no_check: bool) -> None:
    """Take over tokens, allowlists, paired people, model, personality, memories, skills and cron jobs.

    Its files are only read. Values that are set here stay, unless you say --overwrite.
    """
    from hermes_cli.imports.plan import ImportPlan, fill_plan
    from hermes_cli.imports.writing import write_plan
    from hermes_cli.setup_sections import SetupState

    root = Path(folder or PEERS[peer]).expanduser().absolute()
    if not root.is_dir():
        raise click.ClickException(f"There is no folder {root}. Nothing was changed. Name the right one: --from FOLDER")
    state = SetupState.open()
    if root.resolve() == state.home.root.resolve():
        raise click.UsageError(f"{root} is the home of Hermes itself; name the one of {peer}: --from FOLDER")
    reader = import_module(f"hermes_cli.imports.{peer.replace('-', '_')}")
    plan = ImportPlan(state=state, overwrite=overwrite, check=not no_check)
    fill_plan(plan, reader.read_home(root))
    redactor = state.opened.redactor
    if not plan.lines:
        raise click.ClickException(f"Nothing of {peer} was found in {root}. Name its home: --from FOLDER")
    click.echo(f"From {root} to {state.home.root}:")
    for is_taken, what, why in plan.lines:
        sign = click.style("+", fg="green") if is_taken else click.style("-", fg="yellow")
        click.echo(f"  {sign} {redactor.clean(what)}{': ' if why else ''}{redactor.clean(why)}")
    if not any(is_taken for is_taken, _, _ in plan.lines):
        click.echo("There is nothing to take. Nothing was changed.")
    elif dry_run:
        click.echo("Nothing was changed. To take what has a +, give the same command without --dry-run.")
    else:
        write_plan(plan, peer)
