"""`hermes send`: send a message to a chat through the running gateway, and wait until it has arrived."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.lock import read_state
from gateway.messages import PROGRAMS, Media, Part, Text
from gateway.outbound import owner_message
from gateway.outbound.owner_message import SendState
from gateway.outbound.send_message import in_words
from gateway.store.chats import ChatPlace
from gateway.store.db.connection import Transaction
from gateway.store.members import Problem
from hermes_cli.opening import OpenedStore, open_home, with_store

if TYPE_CHECKING:
    from gateway.store.db.database import Database

_LOOK_SECONDS = 0.1
_MAX_TEXT_CHARS = 1_000_000
_MAX_FILES = 10
_TEXT_ONLY = ("socket",)  # platforms that cannot carry files


@click.command(short_help="Send a message to a chat and wait until it has arrived.")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@click.option("--to", required=True, metavar="PLATFORM[:CHAT[:THREAD]]", help="The chat; a platform alone: its home.")
@click.option("--file", "files", multiple=True, type=click.Path(), help="A file to send along; may be repeated.")
@click.option(
    "--timeout", default=60.0, show_default=True, type=click.FloatRange(0.1, 86_400), help="Seconds to wait for it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def send(words: tuple[str, ...], to: str, files: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """Send a message to a chat: hermes send --to telegram "The backup is done."

    Text can also come from a pipe: make 2>&1 | hermes send --to slack:C012 --file build.log -

    Exits with 0 only when the platform has given the message an id, which is printed.
    """
    text = _read_text(words, with_files=bool(files))
    opened = open_home()
    require_gateway(opened)
    parts: list[Part] = [*([Text(text=text)] if text else []), *(_store_file(opened, path) for path in files)]
    place, row_id, receipt = with_store(opened, lambda db: deliver(db, opened, to, parts, timeout=timeout))
    if as_json:
        opened.print_json({"to": place.id, "message_id": receipt, "outbox": row_id})
    else:
        click.echo(f"Sent to {in_words(place)}: message {receipt}")


def require_gateway(opened: OpenedStore) -> Mapping[str, Any]:
    """Return the state of the running gateway's platforms; raises ClickException when it does not run."""
    running = read_state(opened.home.lock_file)
    if running is None:
        raise click.ClickException("Nothing was sent: the gateway is not running. Start it: hermes gateway run")
    return dict(running.get("platforms", {}))


def _read_text(words: Sequence[str], *, with_files: bool) -> str:
    """Return the text from the arguments or, for `-` or without any, from a pipe."""
    from_pipe = tuple(words) == ("-",) or (not words and not with_files and not sys.stdin.isatty())
    text = sys.stdin.buffer.read(4 * _MAX_TEXT_CHARS).decode("utf-8", "replace") if from_pipe else " ".join(words)
    text = text.strip("\n")
    if not text.strip() and not with_files:
        raise click.UsageError('There is nothing to send. Give a text: hermes send --to telegram "…", or a --file.')
    if len(text) > _MAX_TEXT_CHARS:
        raise click.UsageError(f"The text is longer than {_MAX_TEXT_CHARS:,} characters. Send it with --file instead.")
    return text


def _store_file(opened: OpenedStore, path: str) -> Media:
    """Copy a file into the home, from where the gateway sends it."""
    from gateway.media.outgoing import detect_type
    from gateway.wiring.tools import build_media_files

    max_bytes = opened.settings.media.max_outgoing_bytes
    file = Path(path).expanduser()
    try:
        if not file.is_file():
            problem = "it is not a regular file" if file.exists() else "there is no such file"
            raise click.UsageError(f"{path} was not sent: {problem}.")
        with file.open("rb") as reader:
            content = reader.read(max_bytes + 1)
        if not content or len(content) > max_bytes:
            problem = f"it is larger than {max_bytes:,} bytes (media.max_outgoing_bytes)" if content else "it is empty"
            raise click.UsageError(f"{path} was not sent: {problem}.")
        kind, mime = detect_type(content, file.name)
        sha256 = build_media_files(opened.home).save(kind, content)
    except OSError as error:
        raise click.ClickException(f"{path} was not sent: {(error.strerror or str(error)).lower()}.") from error
    name = "".join(character for character in file.name if character.isprintable())[:100]
    return Media(kind=kind, name=name or "file", mime=mime, size_bytes=len(content), sha256=sha256)


async def deliver(
    db: "Database", opened: OpenedStore, to: str, parts: Sequence[Part], *, timeout: float
) -> tuple[ChatPlace, int, str]:
    """Queue the message, and return where it went, its row and the platform's id of it; raises ClickException."""
    platforms = require_gateway(opened)
    accounts = [account for account in platforms if account != PROGRAMS]  # nobody reads there
    age_limit_ms = int(opened.settings.gateway.outbox_age_limit_hours * 3_600_000)
    files = [part for part in parts if isinstance(part, Media)]
    if len(files) > _MAX_FILES:
        raise click.UsageError(f"A message may have {_MAX_FILES} files at most.")

    def unit(tx: Transaction) -> tuple[ChatPlace, int]:
        place = owner_message.find_target(tx, to, accounts, opened.settings.access.allowed_chats)
        if isinstance(place, Problem):
            raise click.UsageError(place.text)
        if files and place.account.partition("@")[0] in _TEXT_ONLY:
            raise click.UsageError(f"{place.account} carries text only: send the message without --file.")
        return place, owner_message.queue(tx, place, parts, age_limit_ms=age_limit_ms)

    # Apart, and shielded: Ctrl-C during the commit must not leave a row behind that nobody takes back.
    queued = asyncio.ensure_future(db.write(unit))
    try:
        async with asyncio.timeout(timeout):
            place, row_id = await asyncio.shield(queued)
            while True:
                state = await db.read(lambda tx: owner_message.read_state(tx, row_id))
                if state is None or state.is_over:
                    break
                await asyncio.sleep(_LOOK_SECONDS)
    except (TimeoutError, asyncio.CancelledError) as error:
        place, row_id = await queued
        state = await db.write(lambda tx: owner_message.withdraw(tx, row_id))
        if isinstance(error, asyncio.CancelledError):  # Ctrl-C: nothing may arrive after the command has ended
            raise
    if state is None or state.state != "sent" or not state.receipt:
        raise click.ClickException(_explain(place, state, platforms.get(place.account, {}), timeout))
    return place, row_id, state.receipt


def _explain(place: ChatPlace, state: SendState | None, platform: dict[str, Any], timeout: float) -> str:
    """Say why there is no message id, and whether something may have arrived."""
    if state is None:
        return "It is unknown whether it arrived: its record was erased meanwhile."
    problem = f": {state.problem}" if state.problem else ""
    if state.state == "failed":
        return f"Not sent: {place.account} rejected it{problem}."
    if state.state in ("in_doubt", "sending", "unsure"):
        return f"It is unknown whether it arrived at {place.id}{problem}."
    if state.piece:
        return f"Only the first {state.piece} parts arrived at {place.id} within {timeout:g} s{problem}."
    if platform.get("state") != "connected":
        problem = f": {platform['problem']}" if platform.get("problem") else ""
        return f"Not sent: {place.account} is not connected{problem}. See: hermes status"
    return f"Not sent within {timeout:g} s, and taken back{problem}."
