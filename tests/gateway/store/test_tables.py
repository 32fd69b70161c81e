"""Every table is declared, and no column that names somebody is forgotten by erase or by a chat's move."""

import re

import pytest

from gateway.store.db.connection import Transaction
from gateway.store.tables import TABLES, Table
from hermes_config.settings import RetentionSettings

ABOUT_SOMEBODY = re.compile(r"person_id|holder|\w+_by|sender_id|user_id|session_key|(\w+_)?chat|who|session_id|task_id")
MOVES = re.compile(r"session_key|(\w+_)?chat")


def columns(tx: Transaction, table: str) -> list[str]:
    return [row["name"] for row in tx.all(f"PRAGMA table_info({table})")]


def test_every_table_of_the_schema_is_declared(tx: Transaction) -> None:
    rows = tx.all(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%_search%'"
    )
    assert sorted(table.name for table in TABLES) == sorted(row["name"] for row in rows)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_that_names_somebody_is_erased(tx: Transaction, table: Table) -> None:
    covered = {column for ref in (*table.personal_by, *table.blank_by) for column in ref.columns}
    covered |= {*table.exempt, table.blanks}
    named = {name for name in columns(tx, table.name) if ABOUT_SOMEBODY.fullmatch(name)}
    assert named <= covered


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_that_names_a_chat_follows_it(tx: Transaction, table: Table) -> None:
    covered = set(table.exempt)
    if (move := table.moves_with) is not None:
        covered |= {*move.chat, *(["session_key"] if move.session_key else [])}
    assert {name for name in columns(tx, table.name) if MOVES.fullmatch(name)} <= covered


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_declaration_fits_the_schema(tx: Transaction, table: Table) -> None:
    """SQLite looks at every name while it prepares a statement."""
    conditions = [table.deletable]
    refs = (*table.personal_by, *table.blank_by)
    conditions += [f"{ref.when} AND {ref.condition}".replace("?", "'[]'") for ref in refs]
    if table.keep_days is not None:
        assert isinstance(getattr(RetentionSettings(), table.keep_days.days), int)
        conditions.append(f"{table.keep_days.time} < 0 AND {table.keep_days.when}")
    for condition in conditions:
        tx.all(f"SELECT {table.key or 1} FROM {table.name} WHERE {condition}")
    assert set(table.exempt) <= set(columns(tx, table.name))
