"""What a run has left on the disk, looked at from outside."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# An edit that came too late, and the end of a process, wait for the next message, for as long as it takes.
_OPEN_WORK = """SELECT (SELECT COUNT(*) FROM inbox WHERE state <> 'done' AND kind NOT IN ('edit', 'process'))
                     + (SELECT COUNT(*) FROM turns WHERE state <> 'done')
                     + (SELECT COUNT(*) FROM outbox WHERE state IN ('ready', 'sending', 'unsure'))"""


def is_at_rest(database: Path) -> bool:
    """Whether nothing is waiting, running or still to be sent."""
    return bool(_query(database, _OPEN_WORK)[0][0] == 0)


def outcomes(database: Path) -> dict[tuple[str, str], str]:
    """What became of each message, by chat and the platform's id."""
    sql = "SELECT chat, message_id, outcome FROM inbox WHERE kind IN ('message', 'command')"
    return {(chat, id_): outcome for chat, id_, outcome in _query(database, sql)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer as the outbox knows it."""

    key: str
    chat: str
    state: str
    receipt: str
    answers: tuple[str, ...]


def replies(database: Path) -> list[Reply]:
    sql = "SELECT key, chat, state, COALESCE(receipt, ''), answers FROM outbox WHERE kind = 'answer' ORDER BY id"
    return [
        Reply(key=key, chat=chat, state=state, receipt=receipt, answers=tuple(json.loads(answers)))
        for key, chat, state, receipt, answers in _query(database, sql)
    ]


def seen_channels(database: Path, account: str) -> set[str]:
    """Those of which it is known how far they were taken."""
    sql = "SELECT channel FROM cursors WHERE account = ? AND channel LIKE 'seen:%'"
    return {channel.removeprefix("seen:") for (channel,) in _query(database, sql, account)}


def doubts(database: Path) -> int:
    """How often it was unknown whether an answer had arrived."""
    sql = """SELECT COUNT(*) FROM trail JOIN outbox ON outbox.id = trail.outbox_id
              WHERE event = 'in_doubt' AND kind = 'answer'"""
    return int(_query(database, sql)[0][0])


def unsure_sends(database: Path) -> int:
    """How often an answer, or a piece of one, was sent while it was unknown whether it had arrived before."""
    sql = """SELECT COUNT(*) FROM trail JOIN outbox ON outbox.id = trail.outbox_id
              WHERE event = 'sending' AND json_extract(detail, '$.attempt') > 1 AND kind = 'answer'"""
    return int(_query(database, sql)[0][0])


def resumes(database: Path) -> list[int]:
    """How often each turn was resumed after a crash, the oldest turn first."""
    return [row[0] for row in _query(database, "SELECT resumes FROM turns ORDER BY started_ms, id")]


def effects(file: Path) -> Counter[str]:
    return Counter(file.read_text().splitlines() if file.exists() else [])


def damage(database: Path) -> list[str]:
    """What is wrong with a database that nobody uses any more, its search index included."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        found += [f"foreign key of {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
        try:
            connection.execute("INSERT INTO messages_search (messages_search, rank) VALUES ('integrity-check', 1)")
        except sqlite3.DatabaseError as error:
            found.append(f"search index: {error}")
    return [f"{database.name}: {problem}" for problem in found if problem != "ok"]


def leaks(secret: str, places: Iterable[Path], *, allowed: Path) -> list[str]:
    """Files that hold the secret, of those given and those in the folders given."""
    files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
    return [file.name for file in files if file.is_file() and file != allowed and secret.encode() in file.read_bytes()]


def _query(database: Path, sql: str, *values: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(sql, values).fetchall()
