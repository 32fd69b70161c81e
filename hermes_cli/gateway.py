"""`hermes gateway`: run the gateway, here or as a service."""

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING

import click

from hermes_cli.gateway_service import COMMANDS

if TYPE_CHECKING:
    from gateway.wiring.app import Gateway
    from hermes_config.settings import Settings

_RESTART_STATUS = 75  # "try again", of sysexits.h; `Restart=on-failure` starts it again


def _own_name() -> str:
    """Return the command to show in hints: `make run` does not put `hermes` on the path."""
    if shutil.which("hermes"):
        return "hermes"
    below = os.path.relpath(sys.argv[0])
    return sys.argv[0] if below.startswith("..") else below


async def suggest_local_models() -> None:
    from agent_core.models.local_servers import find_local_servers

    for server in await find_local_servers():
        for name in server.models[:3]:
            click.echo(f"{server.title} runs on this machine. To talk to it: hermes config set model.name {name}")


@click.group(invoke_without_command=True)
@click.pass_context
def gateway(ctx: click.Context) -> None:
    """Run the gateway, which connects to the chat apps, here or as a service.

    Without a subcommand: `hermes gateway run`."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(run)


for _command in COMMANDS:
    gateway.add_command(_command)


@gateway.command()
@click.option("-m", "--model", help="Use this model instead of the configured one.")
@click.option("--log-level", help="debug, info, warning or error.")
def run(model: str | None = None, log_level: str | None = None) -> None:
    """Run until stopped.

    Ctrl-C or SIGTERM lets running turns finish; a second one stops at once.
    """
    from gateway.output import unblocked_output

    with unblocked_output():
        is_restart = _run(model, log_level)
    if is_restart:
        _restart()


def _run(model: str | None, log_level: str | None) -> bool:
    """Return whether an owner has asked for a restart."""
    from gateway import logs
    from gateway.daemon import run_gateway
    from gateway.wiring.basics import secret_values
    from hermes_cli.opening import open_home
    from hermes_config.load import load
    from hermes_config.overview import parts

    flags = {"model.name": model, "logs.level": log_level}
    opened = open_home(flags)
    settings = opened.settings
    logs.configure(level=settings.logs.level, style=settings.logs.format, secrets=secret_values(settings))

    async def diagnose() -> list[dict[str, object]]:
        # A process of its own: closing a file drops every lock that this process has on it, and the doctor reads the
        # database's. The next command to leave the database would then delete the log that we write to.
        command = (sys.executable, "-P", "-m", "hermes_cli", "doctor", "--json")
        doctor = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
        printed, _ = await doctor.communicate()
        return list(json.loads(printed)["findings"])

    async def announce(ready: "Gateway") -> None:
        if ready.web is not None:
            ready.web.overview.diagnose = diagnose
        # Only once it is ready: a gateway that cannot start prints only the reason.
        click.echo(f"Hermes, home {opened.home.root}")
        for part in parts(settings, command=_own_name()):
            click.echo(f"  {'on ' if part.on else 'off'}  {part.name:<8} {part.text}")
            click.echo(f"                {'change' if part.on else 'turn on'}: {part.switch}")
        await _tell_about_page(ready)
        if settings.model.name == "demo":
            await suggest_local_models()

    def read_again() -> "Settings":
        return load(opened.home, flags).settings

    # At a terminal SIGHUP means that it was closed.
    again = None if sys.stdin.isatty() else read_again
    return asyncio.run(run_gateway(settings, opened.home, on_ready=announce, read_again=again))


def _restart() -> None:
    """Begin again: under systemd by an exit that its unit answers with a start, else in place of this process."""
    from hermes_config import environment

    if environment.notify_socket():
        raise SystemExit(_RESTART_STATUS)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 our own command line


async def _tell_about_page(ready: "Gateway") -> None:
    if ready.web is not None:
        await ready.web.attempted.wait()
        if ready.web.problem:
            click.echo(f"Ready, but without the chat page. Ctrl-C stops it.\n{ready.web.problem}")
            return
    click.echo("Ready. Ctrl-C stops it.")
    if ready.web is not None and not sys.stdout.isatty():
        click.echo("The chat page is on; `hermes web` prints a link to it.")  # no token in a journal or log file
    elif ready.web is not None:
        click.echo("Chat here (this link works once; `hermes web` prints another):")
        click.echo(await ready.web.link())  # on a line of its own, easy to copy
