"""`hermes gateway install|uninstall|start|stop|restart|status|logs`: the gateway as a systemd service."""

import os
import pwd
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from gateway.lock import read_state
from hermes_cli.service import (
    SYSTEM_HOME,
    SYSTEM_USER,
    UNIT_NAME,
    ServiceUnit,
    find_installed,
    find_obstacle,
    find_program,
    find_unit,
    has_subgroups,
    render_unit,
    run_program,
)
from hermes_cli.status import status as show_status
from hermes_config.edit import replace_file
from hermes_config.load import load
from hermes_config.places import Home

_SYSTEM = click.option("--system", "is_system", is_flag=True, help="The service of the machine, not of your user.")
_STOP_GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.1


@click.command()
@_SYSTEM
@click.option("--dry-run", is_flag=True, help="Print the unit and the commands; change nothing.")
def install(is_system: bool, dry_run: bool) -> None:
    """Install the gateway as a service and start it.

    It is a service of your own user, which keeps running after you log out. With --system, as root, it is one of the
    machine, with a user of its own.
    """
    install_service(is_system=is_system, dry_run=dry_run)


def install_service(*, is_system: bool = False, dry_run: bool = False) -> None:
    home = Home.locate()
    home.check_ours()
    unit, program = find_unit(is_system=is_system), find_program()
    if obstacle := find_obstacle(program, is_system=is_system):
        raise click.ClickException(obstacle)
    # A service does not inherit HERMES_HOME.
    usual = Path("~/.hermes").expanduser()
    named = SYSTEM_HOME if is_system else None if home.root == usual else home.root
    text = render_unit(program, named, is_system=is_system, has_subgroups=has_subgroups())
    first, last = _commands_around(unit)
    if dry_run:
        click.echo(f"# {unit.file}\n{text}")
        click.echo("".join(f"# {' '.join(command)}\n" for command in (*first, *last)), nl=False)
        return
    _require_root(is_system)
    if unit.ask("is-active") != "active" and (running := read_state(home.lock_file)) and not is_system:
        pid = running.get("pid", "unknown")
        raise click.ClickException(f"A gateway (pid {pid}) already runs in {home.root}. Stop it: hermes gateway stop")
    for command in first:
        run_program(*command)
    unit.file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(unit.file, text, mode=0o644)
    for command in last:
        run_program(*command)
    if not is_system:
        _keep_after_logout()
    click.echo(f"{unit.file} is installed, and the gateway runs. Its log: hermes gateway logs -f")
    if is_system:
        click.echo(f"Its home is {SYSTEM_HOME}. To set it up: sudo -u {SYSTEM_USER} HERMES_HOME={SYSTEM_HOME} …")
        click.echo(f"  {' '.join(program)} setup; then: systemctl restart {UNIT_NAME}")


@click.command()
@_SYSTEM
@click.option("--dry-run", is_flag=True, help="Print the commands; change nothing.")
def uninstall(is_system: bool, dry_run: bool) -> None:
    """Stop the service and remove its unit. Settings and conversations stay."""
    unit = _require_installed(is_system)
    if dry_run:
        prefix = " ".join(["systemctl", *unit.manager])
        click.echo(f"{prefix} disable --now {UNIT_NAME}\nrm {unit.file}\n{prefix} daemon-reload")
        return
    _require_root(unit.is_system)
    unit.remove()
    click.echo(f"The service is stopped and {unit.file} is deleted. Settings and conversations are still there.")


@click.command()
@_SYSTEM
def start(is_system: bool) -> None:
    """Start the service."""
    _require_installed(is_system).call("start", UNIT_NAME)
    click.echo("The gateway runs.")


@click.command()
@_SYSTEM
def stop(is_system: bool) -> None:
    """Stop the service, or a gateway that was started by hand. Running turns may finish."""
    unit = find_installed(is_system=is_system)
    if unit is not None and unit.ask("is-active") in ("active", "activating", "reloading"):
        unit.call("stop", UNIT_NAME)
    elif read_state(Home.locate().lock_file) is None:
        click.echo("The gateway is not running.")
        return
    else:
        _stop_by_hand(Home.locate())
    click.echo("The gateway is stopped.")


@click.command()
@_SYSTEM
def restart(is_system: bool) -> None:
    """Restart the service. Running turns may finish first."""
    _require_installed(is_system).call("restart", UNIT_NAME)
    click.echo("The gateway runs.")


@click.command()
def reload() -> None:
    """Apply changed settings to the running gateway, as far as that works without a restart."""
    lock_file = Home.locate().lock_file
    before = read_state(lock_file)
    if before is None:
        raise click.ClickException("The gateway is not running. Start it: hermes gateway run")
    if "reloaded" not in before:
        raise click.ClickException("This gateway was started at a terminal and cannot reload. Stop it and start it.")
    os.kill(int(before["pid"]), signal.SIGHUP)
    outcome = _wait_for_reload(lock_file, int(before["reloaded"]["at_ms"]))
    if problem := outcome.get("problem"):
        raise click.ClickException(f"{problem}\nThe gateway goes on with the settings that it has.")
    click.echo(f"Applied: {', '.join(outcome['applied']) or 'nothing has changed'}.")
    if outcome["restart"]:
        click.echo(f"After a restart (hermes gateway restart): {', '.join(outcome['restart'])}.")


@click.command()
@_SYSTEM
@click.pass_context
def status(ctx: click.Context, is_system: bool) -> None:
    """Show the state of the service, then what `hermes status` shows."""
    unit = find_installed(is_system=is_system)
    if unit is None:
        click.echo("Service: not installed (hermes gateway install)")
    else:
        click.echo(f"Service: {unit.ask('is-active')}, {unit.ask('is-enabled')} ({unit.file})")
    ctx.invoke(show_status, as_json=False)


@click.command()
@_SYSTEM
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until Ctrl-C.")
@click.option("-n", "--lines", default=100, type=click.IntRange(0), show_default=True, help="How many lines to show.")
def logs(is_system: bool, follow: bool, lines: int) -> None:
    """Show the log of the service."""
    unit = _require_installed(is_system)
    program = shutil.which("journalctl")
    if program is None:
        raise click.ClickException("There is no journalctl here, so the log of the service cannot be read.")
    command = [program, *unit.manager, "--unit", UNIT_NAME, "--lines", str(lines), "--output", "cat"]
    sys.stdout.flush()
    os.execv(program, [*command, "--follow"] if follow else [*command, "--no-pager"])  # noqa: S606 - no shell wanted


COMMANDS = (install, uninstall, start, stop, restart, reload, status, logs)


def _wait_for_reload(lock_file: Path, before_ms: int) -> dict[str, Any]:
    """Return the outcome of the reload that follows the one at that time."""
    deadline = time.monotonic() + _STOP_GRACE_SECONDS
    while time.monotonic() < deadline:
        state = read_state(lock_file) or {}
        outcome = dict(state.get("reloaded", {}))
        if outcome.get("at_ms", before_ms) != before_ms:
            return outcome
        time.sleep(_POLL_SECONDS)
    raise click.ClickException("The gateway has not answered. See its log: hermes gateway logs")


def _require_installed(is_system: bool) -> ServiceUnit:
    unit = find_installed(is_system=is_system)
    if unit is None:
        raise click.ClickException(
            "The service is not installed: hermes gateway install. To run the gateway here: hermes gateway run"
        )
    return unit


def _require_root(is_system: bool) -> None:
    if is_system and os.geteuid() != 0:
        raise click.ClickException("A service of the machine needs root: run the same command with sudo.")


def _commands_around(unit: ServiceUnit) -> tuple[list[list[str]], list[list[str]]]:
    """Return the commands to run before and after the unit is written."""
    systemctl = ["systemctl", *unit.manager]
    last = [[*systemctl, "daemon-reload"], [*systemctl, "enable", UNIT_NAME], [*systemctl, "restart", UNIT_NAME]]
    if not unit.is_system:
        return [], last
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        folder = str(SYSTEM_HOME.parent)
        return [["useradd", "--system", "--create-home", "--home-dir", folder, SYSTEM_USER]], last
    return [], last


def _keep_after_logout() -> None:
    try:
        run_program("loginctl", "enable-linger")
    except click.ClickException as error:
        click.echo(f"The service stops when you log out: {error.message}. To change that: sudo loginctl enable-linger")


def _stop_by_hand(home: Home) -> None:
    """Ask a gateway without a service to stop, and wait until it has."""
    state = read_state(home.lock_file) or {}
    os.kill(int(state["pid"]), signal.SIGTERM)
    deadline = time.monotonic() + load(home).settings.gateway.drain_timeout_seconds + _STOP_GRACE_SECONDS
    while read_state(home.lock_file) is not None:
        if time.monotonic() > deadline:
            raise click.ClickException(f"The gateway (pid {state['pid']}) was asked to stop, but still runs.")
        time.sleep(_POLL_SECONDS)
