"""`hermes state`: what it shows, what it asks, what it refuses."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.lock import hold_home
from gateway.store.db.backup import before_changes, make_backup, schema_of
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.schema import migrations
from hermes_cli.main import hermes
from tests.gateway.store.filling import make_database
from tests.gateway.store.rows import notes_in

OLD = 5
NEWEST = max(migrations())


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(hermes, ("state", *arguments), input=typed)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def old(home: Path) -> Path:
    """A database of the version before."""
    make_database(home / "state.db", OLD)
    return home / "state.db"


@pytest.fixture
def current(home: Path) -> Path:
    """One that was upgraded."""
    make_database(home / "state.db", OLD)
    prepare(home / "state.db", BackupPolicy(backups=home / "backups"), repair=True)
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO spending VALUES (1, 'k', 0, '', '', '', '', '', 0, 0, 0, 0, 0, 0)")
    return home / "state.db"


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_cli.opening.is_terminal", lambda: True)


@pytest.mark.parametrize("command", [["check"], ["undo"]])
def test_without_a_database_there_is_nothing_to_look_after(home: Path, command: list[str]) -> None:
    said = run(*command)
    assert said.exit_code == 1
    assert "There is no database" in said.stderr
    assert list(home.iterdir()) == []


def test_check_tells_what_the_next_start_would_do(old: Path) -> None:
    said = run("check")
    assert said.exit_code == 0, said.output
    assert f"is sound and has schema {OLD}. The next start brings it to {NEWEST}." in said.stdout
    assert "Nothing was changed" in said.stdout
    assert "MB of disk space" in said.stdout
    assert schema_of(old) == OLD
    told = json.loads(run("check", "--json").stdout)
    assert (told["schema"], told["newest"], told["problem"]) == (OLD, NEWEST, "")
    assert told["room"]["needed_bytes"] < told["room"]["free_bytes"]


def test_check_of_a_current_database_says_so(current: Path) -> None:
    assert run("check").stdout == f"The database is sound and up to date (schema {NEWEST}). There is nothing to do.\n"


def test_check_fails_when_it_would_not_work(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE spending (x)")
    said = run("check")
    assert said.exit_code == 1
    assert "is damaged" in said.stdout


@pytest.mark.usefixtures("at_a_terminal")
def test_undo_says_what_is_lost_and_asks(current: Path) -> None:
    asked = run("undo", typed="n\n")
    assert asked.exit_code == 1
    assert f"goes back from schema {NEWEST} to {OLD}" in asked.stdout
    assert "  rows of spending: 1\n" in asked.stdout
    assert schema_of(current) == NEWEST
    done = run("undo", typed="y\n")
    assert done.exit_code == 0, done.output
    assert f"Done: the database has schema {OLD}." in done.stdout
    assert "Install the older version now" in done.stdout
    assert schema_of(current) == OLD


def test_undo_for_scripts(current: Path) -> None:
    refused = run("undo")
    assert refused.exit_code == 2
    assert f"hermes state undo --to {OLD} --yes" in refused.stderr
    done = json.loads(run("undo", "--yes", "--json").stdout)
    assert (done["from"], done["to"]) == (NEWEST, OLD)
    assert done["lost"] == [{"table": "spending", "column": "", "count": 1}]
    assert done["kept"] == before_changes(current.parent / "backups")[0].name


def test_a_schema_that_cannot_be_reached_is_refused(current: Path) -> None:
    for to, said in (
        (NEWEST, "is not before that"),
        (OLD - 1, f"the oldest reachable one is {OLD}"),
        (-1, "There is no way"),
    ):
        refused = run("undo", "--to", str(to), "--yes")
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert schema_of(current) == NEWEST


def test_where_there_is_no_way_back_the_copies_are_named(old: Path) -> None:
    refused = run("undo", "--yes")
    assert refused.exit_code == 2
    assert "no older one is reachable" in refused.stderr
    assert "hermes state backups" in refused.stderr


@pytest.mark.parametrize("command", [["undo", "--yes"], ["restore", "state-20260101T000000_0.db", "--yes"]])
def test_beside_a_running_gateway_nothing_is_changed(current: Path, command: list[str]) -> None:
    (current.parent / "backups" / "state-20260101T000000_0.db").write_bytes(current.read_bytes())
    before = current.read_bytes()
    with hold_home(current.parent / "gateway.lock"):
        assert "Another gateway" in run(*command).stderr
    assert current.read_bytes() == before


def test_backups_are_listed_with_what_they_are_good_for(current: Path) -> None:
    folder = current.parent / "backups"
    copy = make_backup(current, folder, keep=3)
    (folder / "state-20260101T000000_000000.db").write_bytes(b"")
    lines = run("backups").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        copy.name,
        before_changes(folder)[0].name,
        "state-20260101T000000_000000.db",
    ]
    assert lines[0].endswith(f"schema {NEWEST}, sound")
    assert lines[1].endswith(f"schema {OLD}, sound")
    assert lines[2].endswith("CANNOT BE RESTORED: it is empty")
    told = json.loads(run("backups", "--json").stdout)
    assert [one["schema"] for one in told] == [NEWEST, OLD, None]


def test_without_backups_that_is_said(home: Path) -> None:
    assert "no backups yet" in run("backups").stdout
    assert json.loads(run("backups", "--json").stdout) == []


@pytest.mark.usefixtures("at_a_terminal")
def test_restore_asks_and_keeps_what_was_there(current: Path) -> None:
    folder = current.parent / "backups"
    copy = make_backup(current, folder, keep=3)
    with closing(sqlite3.connect(current)) as connection:
        connection.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'after it')")
        connection.commit()
    assert run("restore", copy.name, typed="n\n").exit_code == 1
    assert notes_in(current)[-1] == "after it"
    done = run("restore", str(copy), typed="y\n")
    assert done.exit_code == 0, done.output
    [replaced] = folder.glob("replaced-*.db")
    assert f"The replaced database is in backups/{replaced.name}" in done.stdout
    assert notes_in(current)[-1] != "after it"
    assert notes_in(replaced)[-1] == "after it"


def test_what_is_no_copy_is_not_restored(current: Path) -> None:
    for name, said in (
        ("state-1999.db", "`hermes state backups` lists"),
        (str(current), "That is the database itself"),
    ):
        refused = run("restore", name, "--yes")
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert list((current.parent / "backups").glob("replaced-*")) == []


@pytest.mark.parametrize("is_there", [True, False], ids=["emptied", "gone"])
@pytest.mark.parametrize("command", [["state", "check"], ["state", "undo", "--yes"], ["trace", "last"]])
def test_a_lost_database_is_told_and_left_for_the_gateway_to_restore(
    current: Path, command: list[str], is_there: bool
) -> None:
    with closing(CommitCounter(current)) as mark:
        mark.write(7)
    current.write_bytes(b"")
    if not is_there:
        current.unlink()
    said = CliRunner().invoke(hermes, command)
    assert said.exit_code == 1
    assert said.stderr.startswith("Error: state.db is gone. Start the gateway")
    assert current.exists() is is_there
    assert not is_there or current.read_bytes() == b""
