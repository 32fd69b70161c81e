"""The database seen from outside."""

import os
from pathlib import Path

import pytest

from gateway.doctor.facts import inspect_store
from gateway.errors import StoreCorrupt, StoreUnavailable
from gateway.policies.pairing import PairingLimits
from gateway.store import approvals, chats, pairing
from gateway.store.db.connection import connect
from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.schema import migrate, migrations, schema_version
from gateway.store.inspect import peek
from tests.privileges import bound_by_file_modes


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a home?#%" / "state.db"  # what a URI could trip over
    path.parent.mkdir(mode=0o700)
    prepare(path, BackupPolicy(backups=tmp_path / "backups"), repair=False)
    return path


def test_without_a_file_there_is_nothing_and_none_is_made(tmp_path: Path) -> None:
    assert inspect_store(tmp_path / "state.db", PairingLimits()) is None
    assert list(tmp_path.iterdir()) == []


async def test_it_sees_what_a_running_gateway_has_just_written(database: Path) -> None:
    db = await open_database(database, busy_timeout_seconds=5)
    try:
        await db.write(lambda tx: pairing.invite(tx, "telegram", "owner", PairingLimits(), by="owner"))
        await db.write(lambda tx: chats.allow(tx, "telegram", "-100", by="owner"))
        await db.write(lambda tx: approvals.grant(tx, "owner", "force-push", session_id="", by="telegram:1"))
        seen = inspect_store(database, PairingLimits())
    finally:
        await db.close()
    assert seen is not None
    assert seen.access is not None
    assert [invite.role for invite in seen.access.invites] == ["owner"]
    assert seen.open_chats == ("telegram:-100",)
    assert [(rule.rule, rule.holder_name) for rule in seen.rules] == [("force-push", "the owner")]


def test_it_does_not_bring_an_older_file_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = connect(path, busy_timeout_seconds=5)
    migrate(connection, {1: migrations()[1]})
    connection.close()
    seen = inspect_store(path, PairingLimits())
    assert seen is not None
    assert seen.access is None
    connection = connect(path, busy_timeout_seconds=5)
    assert schema_version(connection) == 1
    connection.close()


def test_what_is_no_database_is_damage(database: Path) -> None:
    database.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    with pytest.raises(StoreCorrupt, match="restores the newest backup"):
        inspect_store(database, PairingLimits())


def test_a_file_that_may_not_be_read_is_no_damage(database: Path) -> None:
    database.chmod(0)
    with bound_by_file_modes(), pytest.raises(StoreUnavailable):
        inspect_store(database, PairingLimits())


def test_a_question_leaves_an_older_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert peek(path, lambda tx: "asked", "nothing") == "nothing"
    assert not path.exists()
    connection = connect(path, busy_timeout_seconds=5)
    migrate(connection, {1: migrations()[1]})
    assert peek(path, lambda tx: "asked", "nothing") == "nothing"
    assert schema_version(connection) == 1
    connection.close()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("before")] == []


def test_a_question_is_answered_and_can_change_nothing(database: Path) -> None:
    assert peek(database, lambda tx: tx.count("SELECT COUNT(*) FROM notices"), -1) == 0
    with pytest.raises(StoreUnavailable):
        peek(database, lambda tx: tx.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'x')"), 0)
