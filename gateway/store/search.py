"""Full-text search over all that was said. The one file that knows SQLite's FTS5."""

import re
import sqlite3
from dataclasses import dataclass

from gateway.store.db.connection import Row, Transaction

# Written without spaces between words: each character is indexed by itself, and a word in a query
# becomes a phrase of its characters, so that words of two characters are found (trigrams would miss them).
# What parts them is invisible and is taken out of an excerpt again.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_RANKED = 1_000
_MERGED_PAGES = 500

_CJK_RUN = re.compile(f"[{_CJK}]+")
_GAP = "\u200b"
_MAX_QUERY_CHARS = 1_000
_QUOTED_OR_CJK = re.compile(f'"[^"]*"|[{_CJK}]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    platform: str = ""
    role: str = ""
    since_ms: int = 0
    until_ms: int = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    session_id: str
    session_key: str
    platform: str
    display_name: str
    role: str
    excerpt: str
    created_ms: int


def searchable(text: str) -> str:
    """The form in which a text is indexed."""
    return _CJK_RUN.sub(lambda run: f"{_GAP}{_GAP.join(run.group())}{_GAP}", text) if _CJK_RUN.search(text) else text


def search(tx: Transaction, query: str, *, where: Filter | None = None, limit: int = 10) -> list[Hit]:
    """The best hits first. What is not FTS5 syntax is searched as plain words, never an error."""
    where = where or Filter()
    # A broken byte on a command line is half a character; and what FTS5 does with words grows with their square.
    query = query[:_MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    try:
        rows = _matching(tx, _QUOTED_OR_CJK.sub(_as_phrase, query), where, limit)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
            raise
        rows = _matching(tx, _plain_words(query), where, limit)
    return [_hit(row) for row in rows]


def index_is_damaged(connection: sqlite3.Connection) -> bool:
    return not _succeeds(
        connection, "INSERT INTO messages_search (messages_search, rank) VALUES ('integrity-check', 0)"
    )


def rebuild_index(connection: sqlite3.Connection) -> bool:
    """False when the damage goes deeper than the index."""
    return _succeeds(connection, "INSERT INTO messages_search (messages_search) VALUES ('rebuild')")


def drop_deleted(tx: Transaction, *, begin: bool) -> bool:
    """One short step of taking the words of deleted messages out of the index; False when there is no more to do.

    Until then FTS5 keeps them and only remembers that they are deleted.
    """
    before = tx.count("SELECT total_changes()")
    pages = -_MERGED_PAGES if begin else _MERGED_PAGES  # a negative number makes it merge all there is into one
    tx.execute("INSERT INTO messages_search (messages_search, rank) VALUES ('merge', ?)", pages)
    return tx.count("SELECT total_changes()") - before >= 2  # one is counted for the order itself


def _succeeds(connection: sqlite3.Connection, order: str) -> bool:
    try:
        connection.execute(order)
    except sqlite3.DatabaseError as error:
        # FTS5 calls some damage a plain error, such as an unknown version in its own settings.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return False
        raise
    return True


def _matching(tx: Transaction, expression: str, where: Filter, limit: int) -> list[Row]:
    if not expression.strip():
        return []
    # Ranking reads every hit, and a common word has very many: the newest are ranked, the others left out.
    return tx.all(
        """SELECT * FROM (
               SELECT s.id, s.key, s.platform, s.display_name, m.role, m.created_ms,
                      snippet(messages_search, 0, '', '', '…', 24) AS excerpt, bm25(messages_search) AS score
                 FROM messages_search
                 JOIN messages m ON m.id = messages_search.rowid
                 JOIN sessions s ON s.id = m.session_id
                WHERE messages_search MATCH ? AND (? = '' OR s.platform = ?) AND (? = '' OR m.role = ?)
                  AND m.created_ms BETWEEN ? AND ?
                ORDER BY messages_search.rowid DESC LIMIT ?)
            ORDER BY score LIMIT ?""",
        expression,
        where.platform,
        where.platform,
        where.role,
        where.role,
        where.since_ms,
        where.until_ms,
        max(_RANKED, limit),
        limit,
    )


def _as_phrase(found: re.Match[str]) -> str:
    return f'"{searchable(found.group().strip(chr(34)))}"'


def _plain_words(query: str) -> str:
    words = re.findall(r"\w+", query)
    return " ".join(f'"{searchable(word)}"' for word in words)


def _hit(row: Row) -> Hit:
    return Hit(
        session_id=row["id"],
        session_key=row["key"],
        platform=row["platform"],
        display_name=row["display_name"],
        role=row["role"],
        excerpt=row["excerpt"].replace(_GAP, "").strip(),
        created_ms=row["created_ms"],
    )
