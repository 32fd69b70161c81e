"""`hermes gateway`: run the service."""

import asyncio
import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gateway.wiring.app import Gateway


def _own_name() -> str:
    """Return the command to show in hints: `make run` does not put `hermes` on the path."""
    return "hermes" if shutil.which("hermes") else os.path.relpath(sys.argv[0])


async def suggest_local_models() -> None:
    from agent_core.models.local_servers import find_local_servers

    for server in await find_local_servers():
        for name in server.models[:3]:
            click.echo(f"{server.title} runs on this machine. To talk to it: hermes config set model.name {name}")


@click.group(invoke_without_command=True)
@click.pass_context
def gateway(ctx: click.Context) -> None:
    """Run the gateway. Without a subcommand: `hermes gateway run`."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(run)


@gateway.command()
@click.option("-m", "--model", help="Use this model instead of the configured one.")
@click.option("--log-level", help="debug, info, warning or error.")
def run(model: str | None = None, log_level: str | None = None) -> None:
    """Run until stopped.

    Ctrl-C or SIGTERM lets running turns finish; a second one stops at once.
    """
    from gateway.output import unblocked_output

    with unblocked_output():
        _run(model, log_level)


def _run(model: str | None, log_level: str | None) -> None:
    from gateway import logs
    from gateway.daemon import run_gateway
    from gateway.wiring.basics import secret_values
    from hermes_cli.opening import open_home
    from hermes_config.overview import parts

    opened = open_home({"model.name": model, "logs.level": log_level})
    settings = opened.settings
    logs.configure(level=settings.logs.level, style=settings.logs.format, secrets=secret_values(settings))

    async def announce(ready: "Gateway") -> None:
        # Only once it is ready: a gateway that cannot start prints only the reason.
        click.echo(f"Hermes, home {opened.home.root}")
        for part in parts(settings, command=_own_name()):
            click.echo(f"  {'on ' if part.on else 'off'}  {part.name:<8} {part.text}")
            click.echo(f"                {'change' if part.on else 'turn on'}: {part.switch}")
        await _tell_about_page(ready)
        if settings.model.name == "demo":
            await suggest_local_models()

    asyncio.run(run_gateway(settings, opened.home, on_ready=announce))


async def _tell_about_page(ready: "Gateway") -> None:
    from hermes_config import environment

    if ready.web is not None:
        await ready.web.attempted.wait()
        if ready.web.problem:
            click.echo(f"Ready, but without the chat page. Ctrl-C stops it.\n{ready.web.problem}")
            return
    click.echo("Ready. Ctrl-C stops it.")
    if ready.web is not None and environment.notify_socket():
        click.echo("The chat page is on; `hermes web` prints a link to it.")  # no token in the journal
    elif ready.web is not None:
        click.echo("Chat here (this link works once; `hermes web` prints another):")
        click.echo(await ready.web.link())  # on a line of its own, easy to copy
