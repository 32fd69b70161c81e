"""`hermes acp`: talk to a code editor."""

import asyncio
import os
import stat
from importlib.util import find_spec

import click

from hermes_config.extras import install_line


@click.command()
def acp() -> None:
    """Serve a code editor over standard input and output (Agent Client Protocol).

    The editor starts it: name `hermes acp` as an agent in its settings (docs/acp.md).
    """
    from hermes_cli.opening import open_home

    if find_spec("acp") is None:
        raise click.ClickException(
            f"`hermes acp` needs a package that is missing. To install it: {install_line('acp')}"
        )
    if not (_is_pipe(0) and _is_pipe(1)):
        raise click.UsageError("An editor starts `hermes acp` and talks to it through pipes. To talk here: hermes chat")
    opened = open_home()
    from hermes_cli.editor.agent import serve

    try:
        asyncio.run(serve(opened))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _is_pipe(descriptor: int) -> bool:
    try:
        kind = os.fstat(descriptor).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
