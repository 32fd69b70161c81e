"""`hermes sessions`: list, read, search, export and delete conversations."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent
from typing import Any, Literal

import click

from agent_core.conversation import Message
from gateway.clock import for_people
from gateway.commands.transcript_files import FORMATS, TranscriptFormat, render_transcript
from gateway.store import sessions as store
from gateway.store import transcripts
from gateway.store.db.connection import Transaction
from gateway.store.search import EVERYTHING, OWNER_READS, Filter, Window
from gateway.store.search import search as find
from hermes_cli.opening import OpenedStore, confirm, create_file, open_home, read_store, with_store
from hermes_config.redaction import Redactor
from tools.ansi import plain

_ALL = 10_000_000  # messages
_SEARCHED = 1_000  # sessions, for one with a similar name
_NONE_YET = 'No conversations yet. Begin one: hermes chat -q "hello"'


@click.group()
def sessions() -> None:
    """List, read, search, export and delete conversations."""


@sessions.command("list")
@click.option("--platform", default="", help="Only conversations of one platform.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def list_sessions(platform: str, limit: int, as_json: bool) -> None:
    """List conversations, most recently used first."""
    opened = open_home(make=False)  # a query creates no home
    found = read_store(opened, lambda tx: store.recent(tx, platform=platform, limit=limit)) or []
    opened.print_list(found, as_json=as_json, data=asdict, line=_describe_session, nothing=_NONE_YET)


@sessions.command()
@click.argument("session")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1, 100_000), help="Newest to show.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def show(session: str, limit: int, as_json: bool) -> None:
    """Read a conversation. SESSION is an id, the beginning of one, or a key such as cli:1a2b3c4d."""

    def query(tx: Transaction) -> list[transcripts.TranscriptEntry] | None:
        found = store.find(tx, session)
        return transcripts.entries(tx, found.id, limit=limit) if found is not None else None

    opened = open_home(make=False)
    entries = read_store(opened, query)
    if entries is None:
        raise _no_session(opened, session)
    if as_json:
        from agent_core.openai_format import message_to_openai

        opened.print_json([{"created_ms": one.created_ms} | message_to_openai(one.message) for one in entries])
        return
    redactor = opened.redactor
    for entry in entries:
        said = redactor.clean(plain(_render(entry.message)))
        click.echo(f"[{for_people(entry.created_ms)}] {entry.message.role}: {said}")


@sessions.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--platform", default="", help="Only in conversations of one platform.")
@click.option("--role", default="", type=click.Choice(["", "user", "assistant", "tool"]), help="Only this speaker.")
@click.option("--person", default="", help="Only conversations in which this person took part (name or id).")
@click.option("--everyone", is_flag=True, help="Also in private conversations of other people.")
@click.option("--since", type=click.DateTime(), help="Not before this time (UTC).")
@click.option("--until", type=click.DateTime(), help="Not after this time (UTC).")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def search(
    query: tuple[str, ...],
    platform: str,
    role: str,
    person: str,
    everyone: bool,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """Search the owner's conversations, best hits first. Use plain words, "a phrase", begin*, AND, OR, NOT."""
    given = [int(at.replace(tzinfo=UTC).timestamp() * 1000) if at is not None else None for at in (since, until)]
    where = Filter(platform=platform, role=role, person=person)
    where = replace(where, since_ms=given[0] or where.since_ms, until_ms=given[1] or where.until_ms)
    reader = EVERYTHING if everyone else OWNER_READS
    opened = open_home(make=False)
    found = read_store(opened, lambda tx: find(tx, " ".join(query), reader=reader, where=where, limit=limit)) or []
    windows, redactor = found[:limit], opened.redactor
    if as_json:
        opened.print_json([_describe(window, redactor) for window in windows])
        return
    if not windows:
        click.echo("Nothing found.")
        if not everyone:
            click.echo("Private conversations of other people were left out; --everyone includes them.", err=True)
    for window in windows:
        _print_window(window, redactor)


@sessions.command()
@click.argument("session")
@click.option("--format", "form", type=click.Choice((*FORMATS, "sharegpt")), default="md", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="A file to write; without it, the text is printed.")
def export(session: str, form: TranscriptFormat | Literal["sharegpt"], output: Path | None) -> None:
    """Write a whole conversation as Markdown, as JSON, or as a trajectory in ShareGPT form, without secrets.

    All of them at once: hermes export
    """
    opened = open_home(make=False)

    def query(tx: Transaction) -> str:
        found = store.find(tx, session)
        if found is None:
            return ""
        if form != "sharegpt":
            return render_session(tx, found, form, opened.redactor)
        from agent_core.trajectory import dump
        from hermes_cli.trajectories import session_row

        return dump(session_row(tx, found, opened)).decode()

    text = read_store(opened, query)
    if not text:
        raise _no_session(opened, session)
    if output is None:
        click.echo(plain(text) if sys.stdout.isatty() else text, nl=False)
        return
    with create_file(output) as file:
        file.write(text.encode())
    click.echo(f"Written to {output}.")


@sessions.command()
@click.argument("session")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(session: str, yes: bool) -> None:
    """Delete a conversation with its messages, files and search entries. Backups keep it until they age out."""
    from gateway.store.erase import erase_session
    from gateway.wiring.tools import build_media_files
    from tools.workplaces import process_backends

    opened = open_home(make=False)
    found = read_store(opened, lambda tx: store.find(tx, session))
    if found is None:
        raise _no_session(opened, session)
    title = opened.redactor.clean(plain(found.title)) or "(no title)"
    confirm(f"Delete “{title}” ({found.key})?", yes=yes, command=f"hermes sessions delete {session} --yes")
    media, backends = build_media_files(opened.home), process_backends(opened.settings.terminal)
    if not with_store(opened, lambda db: erase_session(db, media, found.id, backends=backends)):
        raise click.ClickException("Something still runs in this conversation. Nothing was deleted; try again later.")
    click.echo("Deleted.")


@sessions.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def stats(as_json: bool) -> None:
    """Count conversations, messages, tokens and cost on each platform."""
    opened = open_home(make=False)
    rows = [dict(row) for row in read_store(opened, store.count_by_platform) or []]
    opened.print_list(rows, as_json=as_json, data=dict, line=_describe_platform, nothing=_NONE_YET)


def _describe_session(session: store.Session) -> str:
    state = "" if session.ended_ms is None else f" (ended: {session.end_reason})"
    first = f"{session.id}  {for_people(session.updated_ms)}  {session.key}{state}"
    return f"{first}\n    {session.messages} messages  {session.title}"


def _describe_platform(row: Mapping[str, Any]) -> str:
    cost = f", ${row['cost_micros'] / 1_000_000:.2f}" if row["cost_micros"] else ""
    return (
        f"{row['platform']}: {row['sessions']:,} conversations ({row['open']:,} open), {row['messages']:,.0f} "
        f"messages, {row['tokens']:,.0f} tokens{cost}, {for_people(row['first_ms'])} to {for_people(row['last_ms'])}"
    )


def render_session(tx: Transaction, session: store.Session, form: TranscriptFormat, redactor: Redactor) -> str:
    """Return a whole conversation as a file, without secrets."""
    entries = transcripts.entries(tx, session.id, limit=_ALL)
    return redactor.clean(render_transcript(session, entries, form))


def _no_session(opened: OpenedStore, name: str) -> click.ClickException:
    recent = read_store(opened, lambda tx: store.recent(tx, limit=_SEARCHED)) or []
    names = [known for one in recent for known in (one.id, one.key)]
    near = [known for known in names if known.startswith(name)][:3] or get_close_matches(name, names, n=3, cutoff=0.8)
    hint = f" Did you mean {' or '.join(near)}?" if near and name else ""
    return click.ClickException(
        f"No session, or more than one, matches {name!r}.{hint} `hermes sessions list` shows them."
    )


def _describe(window: Window, redactor: Redactor) -> dict[str, object]:
    """Return the hit, as scripts know it, and its neighbours."""
    messages = [
        {"role": one.role, "text": redactor.clean(one.text), "created_ms": one.created_ms, "match": one.is_hit}
        for one in window.messages
    ]
    hit = asdict(window.hit) | {"excerpt": redactor.clean_excerpt(window.hit.excerpt), "window": messages}
    return {name: value for name, value in hit.items() if name not in ("text", "is_hit")}


def _print_window(window: Window, redactor: Redactor) -> None:
    hit = window.hit
    click.echo(f"{hit.session_id}  {for_people(hit.created_ms)}  {hit.session_key}  {hit.role}")
    for message in window.messages:
        said = redactor.clean_excerpt(plain(message.excerpt))
        click.echo(indent(said, "    ") if message.is_hit else indent(f"({message.role}: {said})", "      "))


def _render(message: Message) -> str:
    calls = [f"→ {call.name} {call.arguments}" for call in message.tool_calls]
    name = [f"({message.tool_name})"] if message.tool_name else []
    return " ".join(filter(None, [*name, message.text, *calls]))
