"""`hermes playground`: try Hermes in the browser, without a token."""

from pathlib import Path

import click


@click.command()
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the page.  [default: any free]")
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
def playground(port: int, no_open: bool) -> None:
    """Open a page with three simulated chat apps, a real gateway and a demo model.

    Everything runs on this machine. Ctrl-C stops it.
    """
    import asyncio

    from playground.page.server import PortTaken

    try:
        asyncio.run(_serve(port=port, open_page=not no_open))
    except PortTaken as error:
        raise click.ClickException(str(error)) from error


async def _serve(*, port: int, open_page: bool) -> None:
    import asyncio
    import signal
    import sys

    import hermes_cli
    from hermes_config import environment
    from playground.page.server import playground as open_playground

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with open_playground(
        command=(sys.executable, "-m", "hermes_cli"),
        environment=environment.everything(),
        cwd=Path(hermes_cli.__file__).parents[1],
        port=port,
    ) as running:
        click.echo(f"Playground: {running.link}")
        click.echo(f"Home of its gateway: {running.home.root} (deleted at the end). Ctrl-C stops everything.")
        # Only where there is a display: a text-mode browser would take over the terminal.
        has_display = sys.platform == "darwin" or environment.has("DISPLAY") or environment.has("WAYLAND_DISPLAY")
        if open_page and has_display:
            await asyncio.to_thread(click.launch, running.link)
        await ended.wait()
        click.echo("Stopping the gateway and the three platforms.")
