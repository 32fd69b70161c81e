"""`hermes forget`: what it shows, what it asks, what it refuses, and that a gateway beside it goes on."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.errors import StoreUnavailable
from gateway.messages import Sender, SessionKey
from gateway.store import erase, members
from gateway.store.db.connection import Transaction, connect
from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_cli.main import hermes
from tests.gateway.platforms.client import connect as connect_socket
from tests.gateway.store.exchange import exchange
from tests.hermes_cli.running import hermes as hermes_process
from tests.journeys.gateway_process import gateway as gateway_process
from tests.journeys.gateway_process import make_home

CANARY = "kanarienvogel"
ANN = Sender(id="123456789", name="Ann")


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(hermes, ("forget", *arguments), input=typed)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Ann has spoken to the bot, alone and in a group."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    add_ann(home)
    return home


def add_ann(home: Path) -> None:
    prepare(home / "state.db", BackupPolicy(backups=home / "backups"), repair=False)
    connection = connect(home / "state.db", busy_timeout_seconds=5)
    connection.execute("BEGIN IMMEDIATE")
    tx = Transaction(connection)
    exchange(tx, CANARY, CANARY, key=SessionKey(platform="telegram", kind="dm", chat=ANN.id), sender=ANN)
    exchange(tx, CANARY, "hm", key=SessionKey(platform="telegram", kind="group", chat="-1"), sender=ANN)
    tx.execute("UPDATE meta SET value = value + 1 WHERE name = 'commits'")
    connection.execute("COMMIT")
    connection.close()


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_cli.opening.is_terminal", lambda: True)


def change(home: Path, unit: Callable[[Transaction], object]) -> None:
    connection = connect(home / "state.db", busy_timeout_seconds=5)
    connection.execute("BEGIN IMMEDIATE")
    unit(Transaction(connection))
    connection.execute("COMMIT")
    connection.close()


def raw(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.glob("state.db*"))


@pytest.mark.usefixtures("at_a_terminal")
def test_it_shows_what_goes_and_asks(home: Path) -> None:
    asked = run("telegram:123456789", typed="n\n")
    assert asked.exit_code == 1
    assert asked.stdout.splitlines()[:-1] == [
        "Ann (telegram:123456789)",
        "  conversations with them alone: 1",
        "  messages in these: 4",
        "  messages of theirs in groups, to be blanked: 1",
        "  messages received and sent: 3",
    ]
    assert "cannot be undone" in asked.stdout
    assert CANARY.encode() in raw(home)


@pytest.mark.usefixtures("at_a_terminal")
def test_agreed_it_is_done(home: Path) -> None:
    done = run("Telegram:123456789", typed="y\n")
    assert done.exit_code == 0, done.output
    assert "Erased: telegram:123456789 is a stranger from now on." in done.stdout
    assert CANARY.encode() not in raw(home)
    again = run("telegram:123456789")
    assert (again.exit_code, again.stdout) == (0, "Nothing is stored about telegram:123456789.\n")


def workspace_of_ann(home: Path) -> Path:
    connection = connect(home / "state.db", busy_timeout_seconds=5)
    [person] = connection.execute("SELECT person_id FROM identities WHERE user_id = ?", (ANN.id,)).fetchone()
    connection.close()
    workspace = home / "workspaces" / str(person)
    workspace.mkdir(parents=True)
    return workspace


def test_their_workspace_goes_too(home: Path) -> None:
    person = workspace_of_ann(home).name
    for folder in (home / "workspaces", home / "private"):
        (folder / person).mkdir(parents=True, exist_ok=True)
        (folder / person / "diary.txt").write_text(CANARY)
        (folder / "somebody-else").mkdir()
    assert run("telegram:123456789", "--yes").exit_code == 0
    assert [path.name for path in sorted(home.glob("*/*")) if path.parent.name in ("workspaces", "private")] == [
        "somebody-else",
        "somebody-else",
    ]


def test_folders_nested_1500_deep_are_deleted(home: Path) -> None:
    folder = os.open(workspace_of_ann(home), os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("nested", dir_fd=folder)
        inner = os.open("nested", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    erased = run("telegram:123456789", "--yes")
    assert (erased.exit_code, "could not be deleted" in erased.output) == (0, False)
    assert list((home / "workspaces").iterdir()) == []


def test_a_workspace_that_cannot_be_deleted_keeps_its_rows_so_that_a_second_run_finds_it(home: Path) -> None:
    workspace = workspace_of_ann(home)
    workspace.rmdir()
    workspace.symlink_to(home)
    refused = run("telegram:123456789", "--yes")
    assert refused.exit_code == 1
    assert str(workspace) in refused.stderr
    assert CANARY.encode() in raw(home)
    workspace.unlink()
    assert run("telegram:123456789", "--yes").exit_code == 0
    assert CANARY.encode() not in raw(home)


def test_without_a_terminal_it_must_be_told_not_to_ask(home: Path) -> None:
    refused = run("telegram:123456789", typed="y\n")
    assert refused.exit_code == 2
    assert "hermes forget telegram:123456789 --yes" in refused.stderr
    assert CANARY.encode() in raw(home)


def test_whom_nobody_can_be_is_not_looked_for(home: Path) -> None:
    for user, said in {
        "nope:123": "There is no platform 'nope'. Known here: ",
        "telegramm:123": "Did you mean telegram?",
        "telegram@nope:123": "There is no platform 'telegram@nope'.",
        "telegram:@alice": "@userinfobot",
    }.items():
        refused = run(user, "--yes")
        assert refused.exit_code == 1
        assert said in refused.stderr


def test_anybody_paired_as_an_owner_is_refused_kindly(home: Path) -> None:
    change(home, lambda tx: members.admit(tx, "telegram", ANN.id, ANN.name, "owner"))
    refused = run("telegram:123456789", "--yes")
    assert refused.exit_code == 1
    assert "is an owner" in refused.stderr
    assert "hermes forget telegram:123456789 --owner" in refused.stderr
    assert run("telegram:123456789", "--owner", "--yes").exit_code == 0
    assert CANARY.encode() not in raw(home)


def test_somebody_who_was_only_shown_the_door(home: Path) -> None:
    change(home, lambda tx: members.revoke(tx, "telegram", "77", owner_users=(), allowed_users=(), by="test"))
    done = run("telegram:77", "--yes")
    assert "their access was revoked" in done.stdout


def test_it_tells_of_backups_and_allowlists(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_ALLOWED_USERS", "123456789")
    for name in ("state-20260101T000000_0.db", "state-20260102T000000_0.db"):
        (home / "backups").mkdir(exist_ok=True)
        (home / "backups" / name).write_bytes(b"")
    (home / "backups" / "damaged-20250101").mkdir()
    (home / "backups" / "before-schema-0006-20250101.db").write_bytes(b"")
    done = run("telegram:123456789", "--yes")
    assert done.exit_code == 0, done.output
    assert "They are still listed in platforms.telegram.allowed_users" in done.stdout
    assert "2 backups in" in done.stdout
    assert "within 7 days" in done.stdout
    assert "stay until you delete them: before-schema-0006-20250101.db, damaged-20250101 in" in done.stdout


def test_a_run_that_could_not_finish_is_finished_by_the_next(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def disk_is_full(path: Path) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(erase, "_rewrite_file", disk_is_full)
        assert "the disk is full" in run("telegram:123456789", "--yes").stderr
    finished = run("telegram:123456789", "--yes")
    assert finished.stdout.splitlines()[-1] == "The rows that an earlier run erased are now overwritten on disk."
    assert CANARY.encode() not in raw(home)
    assert len(run("telegram:123456789", "--yes").stdout.splitlines()) == 1


def test_a_name_that_names_nobody_is_refused(home: Path) -> None:
    for user in ("@ann", "Ann", "123456789", "telegram:", ":5", "telegram:a b"):
        refused = run("--", user)
        assert refused.exit_code == 2
        assert "names nobody" in refused.stderr
        assert "telegram:123456789" in refused.stderr


def test_nothing_known(home: Path) -> None:
    assert run("discord:5", "--yes").stdout == "Nothing is stored about discord:5.\n"


async def test_the_owner_is_asked_to_mean_it_and_a_gateway_beside_goes_on(tmp_path: Path) -> None:
    """A real gateway: it serves before, while and after its owner and Ann are forgotten."""
    home = make_home(tmp_path / "home")
    async with gateway_process(home) as gateway:
        async with connect_socket(gateway.socket) as client:
            await client.say(f"what is 17 * 23? {CANARY}", message_id="1")
            await client.hear()
        await asyncio.to_thread(add_ann, home)
        user = "socket:local"
        refused = await asyncio.to_thread(hermes_process, "forget", user, "--yes")
        assert refused.returncode == 1
        assert f"hermes forget {user} --owner" in refused.stderr
        for arguments in (("telegram:123456789", "--yes"), (user, "--owner", "--yes")):
            done = await asyncio.to_thread(hermes_process, "forget", *arguments)
            assert done.returncode == 0, done.stderr
        assert CANARY.encode() not in raw(home)
        async with connect_socket(gateway.socket) as client:
            await client.say("what is 2 + 2?", message_id="2")
            assert "4" in (await client.hear())["text"]
