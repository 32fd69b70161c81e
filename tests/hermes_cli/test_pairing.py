"""`hermes pairing` as a person runs it, beside the same database as the gateway."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from gateway.store import members, pairing, people
from gateway.store.db.connection import Transaction, connect
from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_config.places import Home
from tests.gateway.store.strangers import LIMITS, asks, stranger
from tests.hermes_cli.at_a_terminal import AtATerminal
from tests.hermes_cli.running import hermes

T = TypeVar("T")


@pytest.fixture(autouse=True)
def path(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    Home(home).prepare()
    prepare(home / "state.db", BackupPolicy(backups=home / "backups"), repair=False)
    return home / "state.db"


def within(path: Path, unit: Callable[[Transaction], T]) -> T:
    """What the gateway does meanwhile."""
    with closing(connect(path, busy_timeout_seconds=5)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = unit(Transaction(connection))
        connection.execute("COMMIT")
        return done


def role_of(path: Path, user: str = "42") -> str | None:
    return within(path, lambda tx: people.read_status(tx, "telegram", user, "")).paired_as


def test_approving_lets_in_and_leaves_the_notice_for_the_gateway(path: Path) -> None:
    code = within(path, asks)
    done = hermes("pairing", "approve", "Telegram", f"{code[:4].lower()}-{code[4:]}")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith("Ada (telegram:42) is in as member and has been told.")
    assert "hermes gateway run" in second
    assert role_of(path) == "member"
    assert within(path, lambda tx: tx.count("SELECT COUNT(*) FROM outbox WHERE topic = 'paired'")) == 1


@pytest.mark.parametrize("role", ["owner", "guest"])
def test_approving_with_a_role(path: Path, role: str) -> None:
    code = within(path, asks)
    assert hermes("pairing", "approve", "telegram", code, "--role", role).returncode == 0
    assert role_of(path) == role


def test_wrong_codes_fail_then_lock_and_unlock_opens(path: Path) -> None:
    code = within(path, asks)
    for _ in range(5):
        done = hermes("pairing", "approve", "telegram", "22222222")
        assert (done.returncode, done.stdout) == (1, "")
    assert "hermes pairing unlock telegram" in done.stderr
    assert hermes("pairing", "approve", "telegram", code).returncode == 1
    assert hermes("pairing", "unlock", "telegram").stdout.startswith("Pairing on telegram is unlocked")
    assert hermes("pairing", "approve", "telegram", code).returncode == 0
    assert "was not locked" in hermes("pairing", "unlock", "telegram").stdout


@pytest.mark.parametrize("command", ["approve", "revoke", "invite", "unlock", "clear-pending"])
def test_a_mistyped_platform_is_wrong_usage_and_the_nearest_is_named(command: str) -> None:
    more = ["ABCD2345"] if command in ("approve", "revoke") else []
    done = hermes("pairing", command, "telegramm", *more)
    assert done.returncode == 2
    assert "Did you mean telegram?" in done.stderr


def test_a_mistyped_role_is_wrong_usage() -> None:
    assert hermes("pairing", "approve", "telegram", "ABCD2345", "--role", "king").returncode == 2


def test_the_list(path: Path) -> None:
    assert hermes("pairing", "list").stdout.startswith("Nobody is waiting for approval.\nWhoever writes")
    code = within(path, asks)
    shown = hermes("pairing", "list")
    assert shown.stdout.startswith("Ada (telegram:42) asked ")
    assert code not in shown.stdout
    listed = json.loads(hermes("pairing", "list", "--json").stdout)
    assert set(listed) == {"pending", "people", "revoked", "locks", "invites"}
    [waiting] = listed["pending"]
    assert (waiting["account"], waiting["user_id"], waiting["name"]) == ("telegram", "42", "Ada")
    assert waiting["expires_ms"] == waiting["requested_ms"] + 3_600_000


def test_a_name_cannot_play_with_the_terminal(path: Path) -> None:
    within(
        path, lambda tx: pairing.ask(tx, stranger(name="\x1b[2Jroot\nAda (telegram:1) has access as owner."), LIMITS)
    )
    [line] = hermes("pairing", "list").stdout.splitlines()
    assert line.isprintable()


def test_revoking_by_id_and_by_name(path: Path) -> None:
    within(path, lambda tx: pairing.approve(tx, "telegram", asks(tx), "member", LIMITS, by="test"))
    assert hermes("pairing", "revoke", "telegram", "Ada").stdout == (
        "Ada (42) may no longer talk to me. `hermes pairing invite telegram` lets them in again.\n"
    )
    assert role_of(path) is None
    assert hermes("pairing", "revoke", "telegram", "4711").returncode == 0
    assert within(path, lambda tx: people.read_status(tx, "telegram", "4711", "")).revoked
    assert hermes("pairing", "revoke", "telegram", "Nobody", "Known").returncode == 1


def test_a_configured_owner_cannot_be_revoked(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    (path.parent / "config.yaml").write_text("_config_version: 1\naccess:\n  owner_users: [telegram:42]\n")
    done = hermes("pairing", "revoke", "telegram", "42")
    assert done.returncode == 1
    assert "access.owner_users" in done.stderr
    monkeypatch.setenv("TELEGRAM_ALLOWED_USERS", "43")
    assert "allowlist" in hermes("pairing", "revoke", "telegram", "43").stdout


def test_clearing(path: Path) -> None:
    within(path, asks)
    within(path, lambda tx: asks(tx, "43"))
    code = within(path, lambda tx: pairing.invite(tx, "telegram", "member", LIMITS, by="test"))
    assert hermes("pairing", "clear-pending", "telegram").stdout.startswith(
        "2 requests and 1 invite are forgotten and their codes are void."
    )
    assert within(path, lambda tx: pairing.redeem(tx, stranger(text=code), LIMITS)) is None
    nothing = "Nobody was waiting to be let in, and no invite was open.\n"
    assert hermes("pairing", "clear-pending").stdout == nothing


def test_no_line_of_the_help_is_cut() -> None:
    assert "..." not in hermes("pairing", "--help").stdout.partition("Commands:")[2]


def test_an_invite_is_printed_and_stands_nowhere_else(path: Path) -> None:
    done = hermes("pairing", "invite", "telegram", "--role", "guest")
    assert done.returncode == 0
    found = re.match(r"([A-Z2-9]{8})  gives one person the role guest. It works once, within 1 hour\.\n", done.stdout)
    assert found is not None
    assert "direct message" in done.stdout
    for file in path.parent.rglob("*"):
        assert file.is_dir() or found[1].encode() not in file.read_bytes()
    assert within(path, lambda tx: pairing.redeem(tx, stranger(text=found[1]), LIMITS)) == "guest"


def test_an_invite_is_a_link_where_the_bots_name_is_known(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO cursors VALUES ('telegram', 'username', 'hermes_bot')")
    invited = json.loads(hermes("pairing", "invite", "telegram", "--json").stdout)
    assert invited["link"] == f"https://t.me/hermes_bot?start={invited['code']}"
    assert (invited["platform"], invited["role"], invited["good_ms"]) == ("telegram", "member", 3_600_000)
    assert "Send this link to them: https://t.me/hermes_bot?start=" in hermes("pairing", "invite", "telegram").stdout


# At a terminal


def approve_at_a_terminal(folder: Path, *arguments: str, answer: str = "") -> str:
    """Approve, and answer the question when one is expected; return all that was shown on one line."""
    with AtATerminal("pairing", "approve", "telegram", *arguments, cwd=folder, columns=300) as terminal:
        if answer:
            terminal.until("Is that you?")
            terminal.press(answer)
        code = terminal.leave()
        return f"{code}: {terminal.shown}"


@pytest.mark.parametrize(("answer", "role"), [("y\n", "owner"), ("\n", "member")])
def test_the_first_one_is_asked_for(path: Path, answer: str, role: str) -> None:
    said = approve_at_a_terminal(path.parent, within(path, asks), answer=answer)
    assert said.startswith("0: There is no owner yet. This code is for Ada (telegram:42). Is that you? An owner may")
    assert role_of(path) == role


def test_a_wrong_code_is_told_before_anything_is_asked_and_counts_once(path: Path) -> None:
    within(path, asks)
    said = approve_at_a_terminal(path.parent, "22222222")
    assert said.startswith("1: ")
    assert "Is that you?" not in said
    assert within(path, lambda tx: tx.count("SELECT COUNT(*) FROM pairing_failures")) == 1


def test_nothing_is_asked_when_there_is_an_owner_or_the_role_is_given(path: Path) -> None:
    first, second = within(path, asks), within(path, lambda tx: asks(tx, "43"))
    for code, more in ((first, ["--role", "owner"]), (second, [])):
        said = approve_at_a_terminal(path.parent, code, *more)
        assert said.startswith("0: ")
        assert "Is that you?" not in said
    assert (role_of(path), role_of(path, "43")) == ("owner", "member")
    assert within(path, members.has_owner)
