"""`hermes chat`, and plain `hermes`: a conversation at the terminal, line by line, or one answer for a pipe."""

import asyncio
import sys

import click


@click.command()
@click.option("-q", "--query", help="Ask one question, print the answer, leave.")
@click.option("-m", "--model", help="Use another model this time.")
def chat(query: str | None = None, model: str | None = None) -> None:
    """Talk to the agent here."""
    from hermes_cli.opening import open_home

    opened = open_home({"model.name": model})
    if query is not None and not query.strip():
        raise click.UsageError('Ask something: hermes chat -q "what is 17 * 23?"')
    from hermes_cli.conversation import ask_once, converse

    try:
        asyncio.run(ask_once(opened, query) if query is not None else converse(opened, sys.stdin))
    except KeyboardInterrupt:
        raise SystemExit(130 if query is not None else 0) from None  # leaving a conversation is no failure
