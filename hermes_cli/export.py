"""`hermes export`: conversations and memories as files that people and programs can read."""

import json
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click

from gateway.clock import for_people
from gateway.commands.transcript_files import FORMATS, TranscriptFormat
from gateway.store import memories
from gateway.store import sessions as store
from gateway.store.db.connection import Transaction
from gateway.store.search import EVERYTHING, OWNER_READS, list_readable
from hermes_cli.opening import create_file, open_home, read_store
from hermes_cli.sessions import render_session
from hermes_config.redaction import Redactor

_TITLE_CHARS = 40


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="md", show_default=True)
@click.option("--person", default="", help="Only conversations in which this person took part (name or id).")
@click.option("--everyone", is_flag=True, help="Also private conversations of other people.")
def export(file: Path | None, form: TranscriptFormat, person: str, everyone: bool) -> None:
    """Write your conversations and memories into a ZIP file, without secrets.

    One conversation alone: hermes sessions export. To move Hermes to another machine: hermes backup
    """
    opened = open_home(make=False)
    target = file or Path(f"hermes-export-{time.strftime('%Y%m%d-%H%M%S')}.zip")
    reader = EVERYTHING if everyone or person else OWNER_READS
    found = read_store(opened, lambda tx: list_readable(tx, reader, person=person)) or []
    if not found:
        of_whom = f" with {person}" if person else ""
        raise click.ClickException(f"There are no conversations{of_whom} to export. `hermes sessions list` shows all.")

    def write(tx: Transaction) -> None:
        for name, text in _files(tx, found, form, opened.redactor, with_memories=not person):
            archive.writestr(name, text)

    raw = create_file(target)
    try:
        with raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            read_store(opened, write)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise click.ClickException(f"{target} could not be written: {error.strerror}.") from error
    click.echo(f"{target.absolute()} holds {len(archive.namelist()):,} files.")


def _files(
    tx: Transaction, found: list[str], form: TranscriptFormat, redactor: Redactor, *, with_memories: bool
) -> Iterator[tuple[str, str]]:
    for session_id in found:
        session = store.find(tx, session_id)
        if session is not None:
            title = re.sub(r"[^\w.-]+", "-", redactor.clean(session.title))[:_TITLE_CHARS].strip("-.")
            name = "-".join(filter(None, (for_people(session.created_ms)[:10], title, session.id)))
            yield f"conversations/{session.platform}/{name}.{form}", render_session(tx, session, form, redactor)
    if with_memories:
        remembered = memories.list_all(tx, memories.OWNERS)
        if remembered:
            told = [{"key": one.key, "value": one.value, "created_ms": one.created_ms} for one in remembered]
            yield "memories.json", redactor.clean(json.dumps(told, ensure_ascii=False, indent=2)) + "\n"
