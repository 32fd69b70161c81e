"""`hermes update` and `hermes uninstall`: the installed program itself."""

import asyncio
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from gateway.lock import hold_home
from gateway.store.db.backup import make_backup
from gateway.wiring.basics import build_backup_policy
from hermes_cli.opening import confirm, open_home
from hermes_cli.service import UNIT_NAME, find_installed, find_program
from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import BackendFailed
from tools.backends.remote.places import kinds_in_use, remove_places

_PACKAGE = "hermes-gateway"


@dataclass(frozen=True, slots=True)
class Installation:
    """How this program was installed, and the commands that update and remove it."""

    kind: str
    update: tuple[tuple[str, ...], ...]
    remove: str


def find_installation(prefix: Path = Path(sys.prefix)) -> Installation:
    checkout = _find_checkout()
    if checkout is not None:
        return Installation(
            f"a checkout in {checkout}",
            (("git", "-C", str(checkout), "pull", "--ff-only"), ("make", "-C", str(checkout), ".venv/core.stamp")),
            f"rm -r {checkout}",
        )
    if (prefix / "pipx_metadata.json").exists():
        return Installation("pipx", (("pipx", "upgrade", _PACKAGE),), f"pipx uninstall {_PACKAGE}")
    if (prefix / "uv-receipt.toml").exists():
        return Installation("uv", (("uv", "tool", "upgrade", _PACKAGE),), f"uv tool uninstall {_PACKAGE}")
    pip = (str(prefix / "bin" / "python"), "-m", "pip")
    return Installation("pip", ((*pip, "install", "--upgrade", _PACKAGE),), f"{' '.join(pip)} uninstall {_PACKAGE}")


def _find_checkout() -> Path | None:
    """Return the folder of an editable installation."""
    about = json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    if not about.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(about["url"]).path))


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Print the commands; change nothing.")
def update(yes: bool, dry_run: bool) -> None:
    """Install the newest version, migrate the settings and restart the service.

    The database is copied first; `hermes state undo` goes back to the version before.
    """
    found, unit, hermes = find_installation(), find_installed(), find_program()
    commands = [*found.update, (*hermes, "config", "migrate"), (*hermes, "state", "check")]
    if unit is not None:
        commands.append(("systemctl", *unit.manager, "restart", UNIT_NAME))
    click.echo(f"Hermes {version(_PACKAGE)}, installed as {found.kind}.")
    if dry_run:
        click.echo("\n".join(" ".join(command) for command in commands))
        return
    if (program := shutil.which(found.update[0][0])) is None:
        raise click.ClickException(
            f"Hermes was installed with {found.update[0][0]}, which is not on the path. Nothing was changed."
        )
    confirm(f"Update it with {Path(program).name}?", yes=yes, command="hermes update --yes")
    opened = open_home(make=False)
    if opened.home.database.exists():
        policy = build_backup_policy(opened.settings, opened.home.backups)
        kept = make_backup(opened.home.database, opened.home.backups, keep=policy.backups_kept)
        click.echo(f"The database is copied to {kept}.")
    for command in commands:
        if command[-2:] == ("state", "check") and not opened.home.database.exists():
            continue
        click.echo(f"$ {' '.join(command)}")
        if subprocess.run(command, check=False).returncode:
            raise click.ClickException(f"This failed: {' '.join(command)}\nFix that, then: hermes update")
    click.echo("Done." if unit is not None else "Done. Restart the gateway, if one runs.")


@click.command()
@click.option("--data", is_flag=True, help="Delete settings, conversations, workspaces and backups, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
def uninstall(data: bool, yes: bool, dry_run: bool) -> None:
    """Stop and remove the service, and with --data everything that is stored. Says how to remove the program."""
    home, unit = open_home(make=False).home, find_installed()
    steps = [f"remove the service ({unit.file})"] if unit is not None else []
    remote = _find_remote(home)
    steps += [f"remove the containers and sandboxes of {', '.join(kinds_in_use(remote))}"] if remote else []
    steps += [f"delete {home.root} with everything in it"] if data and home.root.exists() else []
    if steps:
        click.echo("\n".join(f"- {step}" for step in steps))
    if dry_run:
        click.echo(f"To remove the program: {find_installation().remove}")
        return
    if steps:
        command = "hermes uninstall --yes" + (" --data" if data else "")
        confirm("Do this? What is deleted cannot be brought back." if data else "Do this?", yes=yes, command=command)
    if unit is not None:
        unit.remove()
    if remote is not None:
        _remove_places(remote, home, with_files=data)
    if data and home.root.exists():
        home.check_ours()
        with hold_home(home.lock_file):
            shutil.rmtree(home.root)
    elif home.root.exists():
        click.echo(f"Settings and conversations stay in {home.root}. To delete them, too: hermes uninstall --data")
    click.echo(f"To remove the program: {find_installation().remove}")


def _find_remote(home: Home) -> TerminalSettings | None:
    """Return the settings if they name places outside of this process that would be left over."""
    try:
        terminal = load(home).settings.terminal
    except ConfigError:  # nobody knows where to look
        return None
    return terminal if kinds_in_use(terminal) else None


def _remove_places(terminal: TerminalSettings, home: Home, *, with_files: bool) -> None:
    try:
        removed = asyncio.run(remove_places(terminal, home, with_files=with_files))
    except BackendFailed as error:
        click.echo(f"Containers and sandboxes may be left over: {error}")
    else:
        click.echo(f"Containers and sandboxes removed: {removed}.")
