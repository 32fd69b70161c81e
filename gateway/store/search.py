"""Full-text search over all messages. Only this file uses SQLite's FTS5."""

import re
import sqlite3
from dataclasses import dataclass

from gateway.store.db.connection import Row, Transaction

# Scripts without spaces between words: each character is indexed by itself, and a word in a query
# becomes a phrase of its characters, so that words of two characters are found (trigrams would miss them).
# The separator is invisible and is removed from excerpts.
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
    """Return the form in which a text is indexed."""
    return _CJK_RUN.sub(lambda run: f"{_GAP}{_GAP.join(run.group())}{_GAP}", text) if _CJK_RUN.search(text) else text


def search(tx: Transaction, query: str, *, where: Filter | None = None, limit: int = 10) -> list[Hit]:
    """Return the best hits first. A query that is not FTS5 syntax is searched as plain words; it never fails."""
    where = where or Filter()
    # A broken byte on a command line is half a character; and FTS5's cost grows with the square of the words.
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
    """Rebuild the index; return False when the damage goes deeper."""
    return _succeeds(connection, "INSERT INTO messages_search (messages_search) VALUES ('rebuild')")


def drop_deleted(tx: Transaction, *, begin: bool) -> bool:
    """Remove some words of deleted messages from the index; return False when nothing is left to do.

    Until then FTS5 keeps the words and only remembers that they are deleted.
    """
    before = tx.count("SELECT total_changes()")
    pages = -_MERGED_PAGES if begin else _MERGED_PAGES  # a negative number starts a merge of everything into one
    tx.execute("INSERT INTO messages_search (messages_search, rank) VALUES ('merge', ?)", pages)
    return tx.count("SELECT total_changes()") - before >= 2  # the command itself counts as one change


def _succeeds(connection: sqlite3.Connection, order: str) -> bool:
    try:
        connection.execute(order)
    except sqlite3.DatabaseError as error:
        # FTS5 reports some damage, such as an unknown version in its settings, as a plain error.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return False
        raise
    return True


def _matching(tx: Transaction, expression: str, where: Filter, limit: int) -> list[Row]:
    if not expression.strip():
        return []
    # Ranking reads every hit, and a common word has very many: only the newest are ranked.
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
