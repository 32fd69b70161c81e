"""`hermes web`: print a new link to the chat page."""

import click

from gateway.lock import read_state
from gateway.store import web_chats
from gateway.web.address import login_address
from hermes_cli.opening import open_home, write_store


@click.command()
def web() -> None:
    """Print a link that opens the chat page. It works once, for one hour."""
    opened = open_home()
    running = read_state(opened.home.lock_file)
    if running is None:
        raise click.ClickException("The gateway is not running. Start it: hermes gateway run")
    if not running.get("web_port"):
        raise click.ClickException("The chat page is off, or its port is in use. See: hermes status")
    token = write_store(opened, web_chats.new_link)
    click.echo(login_address(opened.settings.platforms.web.host, running["web_port"], token))
