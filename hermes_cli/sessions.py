"""`hermes sessions`: list, read and search conversations."""

import json
from collections.abc import Callable
from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from agent_core.conversation import Message
    from gateway.store.db.connection import Transaction
    from hermes_config.redaction import Redactor

T = TypeVar("T")


@click.group()
def sessions() -> None:
    """List, read and search conversations."""


@sessions.command("list")
@click.option("--platform", default="", help="Only conversations of one platform.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def list_sessions(platform: str, limit: int, as_json: bool) -> None:
    """List conversations, most recently used first."""
    from gateway.clock import for_people
    from gateway.store import sessions as store

    found, redactor = _read(lambda tx: store.recent(tx, platform=platform, limit=limit))
    if as_json:
        _print_json([asdict(session) for session in found or ()], redactor)
        return
    if not found:
        click.echo('No conversations yet. Begin one: hermes chat -q "hello"')
    for session in found or ():
        state = "" if session.ended_ms is None else f" (ended: {session.end_reason})"
        click.echo(f"{session.id}  {for_people(session.updated_ms)}  {session.key}{state}")
        click.echo(f"    {session.messages} messages  {redactor.clean(session.title)}")


@sessions.command()
@click.argument("session")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1, 100_000), help="Newest to show.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def show(session: str, limit: int, as_json: bool) -> None:
    """Read a conversation. SESSION is an id, the beginning of one, or a key such as cli:1a2b3c4d."""
    from agent_core.openai_format import message_to_openai
    from gateway.clock import for_people
    from gateway.store import sessions as store
    from gateway.store import transcripts

    def query(tx: "Transaction") -> list[transcripts.TranscriptEntry] | None:
        found = store.find(tx, session)
        return transcripts.entries(tx, found.id, limit=limit) if found is not None else None

    entries, redactor = _read(query)
    if entries is None:
        raise click.ClickException(
            f"No session is called {session!r}, or several begin like that. `hermes sessions list` shows them."
        )
    if as_json:
        _print_json([{"created_ms": one.created_ms} | message_to_openai(one.message) for one in entries], redactor)
        return
    for entry in entries:
        said = redactor.clean(_render(entry.message))
        click.echo(f"[{for_people(entry.created_ms)}] {entry.message.role}: {said}")


@sessions.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--platform", default="", help="Only in conversations of one platform.")
@click.option("--role", default="", type=click.Choice(["", "user", "assistant", "tool"]), help="Only this speaker.")
@click.option("--since", type=click.DateTime(), help="Not before this time (UTC).")
@click.option("--until", type=click.DateTime(), help="Not after this time (UTC).")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def search(
    query: tuple[str, ...], platform: str, role: str, since: object, until: object, limit: int, as_json: bool
) -> None:
    """Search all messages, best hits first. Use words, "a phrase", begin*, AND, OR, NOT."""
    from gateway.clock import for_people
    from gateway.store.search import Filter
    from gateway.store.search import search as find

    where = Filter(
        platform=platform, role=role, since_ms=_milliseconds(since, 0), until_ms=_milliseconds(until, Filter().until_ms)
    )
    hits, redactor = _read(lambda tx: find(tx, " ".join(query), where=where, limit=limit))
    if as_json:
        _print_json([asdict(hit) | {"excerpt": redactor.clean_excerpt(hit.excerpt)} for hit in hits or ()], redactor)
        return
    if not hits:
        click.echo("Nothing found.")
    for hit in hits or ():
        click.echo(f"{hit.session_id}  {for_people(hit.created_ms)}  {hit.session_key}  {hit.role}")
        click.echo(indent(redactor.clean_excerpt(hit.excerpt), "    "))


def _read(query: "Callable[[Transaction], T]") -> "tuple[T | None, Redactor]":
    """Return what the store says, if there is one, and a redactor, since the output may be kept or passed on."""
    from gateway.wiring.basics import build_redactor
    from hermes_cli.opening import open_home, read_store

    opened = open_home(make=False)  # a query creates no home
    return read_store(opened, query), build_redactor(opened.settings)


def _print_json(found: object, redactor: "Redactor") -> None:
    click.echo(json.dumps(redactor.clean_all(found), ensure_ascii=False, indent=2))


def _milliseconds(moment: object, default: int) -> int:
    from datetime import UTC, datetime

    return int(moment.replace(tzinfo=UTC).timestamp() * 1000) if isinstance(moment, datetime) else default


def _render(message: "Message") -> str:
    calls = [f"→ {call.name} {call.arguments}" for call in message.tool_calls]
    name = [f"({message.tool_name})"] if message.tool_name else []
    return " ".join(filter(None, [*name, message.text, *calls]))
