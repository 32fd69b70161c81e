"""The full-text index of all messages (SQLite's FTS5): the text that is indexed, checks and upkeep."""

import re
import sqlite3

from gateway.store.db.connection import Transaction

# Scripts without spaces between words: each character is indexed by itself, and a word in a query
# becomes a phrase of its characters, so that words of two characters are found (trigrams would miss them).
# The separator is invisible and is removed from excerpts.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
GAP = "\u200b"
_CJK_RUN = re.compile(f"[{CJK}]+")
_MERGED_PAGES = 500
_INDEXES = ("messages_search", "memories_search")


def searchable(text: str) -> str:
    """Return the form in which a text is indexed."""
    return _CJK_RUN.sub(lambda run: f"{GAP}{GAP.join(run.group())}{GAP}", text) if _CJK_RUN.search(text) else text


def index_is_damaged(connection: sqlite3.Connection) -> bool:
    check = "INSERT INTO {0} ({0}, rank) VALUES ('integrity-check', 0)"
    return not all(_succeeds(connection, check.format(index)) for index in _find_indexes(connection))


def rebuild_index(connection: sqlite3.Connection) -> bool:
    """Rebuild the index; return False when the damage goes deeper."""
    rebuild = "INSERT INTO {0} ({0}) VALUES ('rebuild')"
    return all(_succeeds(connection, rebuild.format(index)) for index in _find_indexes(connection))


def _find_indexes(connection: sqlite3.Connection) -> list[str]:
    """Return the indexes that there are: an older schema has fewer."""
    known = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in _INDEXES if name in known]


def drop_deleted(tx: Transaction, *, begin: bool) -> bool:
    """Remove some words of deleted messages and memories from their index; return False when nothing is left to do.

    Until then FTS5 keeps the words and only remembers that they are deleted.
    """
    before = tx.count("SELECT total_changes()")
    pages = -_MERGED_PAGES if begin else _MERGED_PAGES  # a negative number starts a merge of everything into one
    for index in _INDEXES:
        tx.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", pages)  # noqa: S608
    # Each command itself counts as one change.
    return tx.count("SELECT total_changes()") - before > len(_INDEXES)


def _succeeds(connection: sqlite3.Connection, order: str) -> bool:
    try:
        connection.execute(order)
    except sqlite3.DatabaseError as error:
        # FTS5 reports some damage, such as an unknown version in its settings, as a plain error.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return False
        raise
    return True
