"""`hermes approvals`."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.approvals import decisions
from gateway.approvals.control import ApprovalControl
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.lock import hold_home
from gateway.messages import Receipt
from gateway.store import approvals as store
from gateway.store import outbox
from gateway.store.approvals import Approval
from gateway.store.db.connection import connect
from gateway.store.db.database import open_database
from gateway.store.db.schema import schema_version
from hermes_cli.main import hermes as command
from tests.gateway.store.rows import ADDRESS, a_question, an_asker
from tests.hermes_cli.running import hermes, written

RULE = "recursive-delete /home/ann/proj/build"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["approvals", *arguments])


def ask(home: Path, action: str = "rm -r build", *, wait_ms: int = 3_600_000, rules: tuple[str, ...] = ()) -> Approval:
    """As the gateway does; its message has arrived in the chat."""
    with written(home) as tx:
        question = a_question(action, rules=rules, where="on this machine, in ~/proj")
        asked = decisions.ask(tx, an_asker(), action, question, ADDRESS, origin=ADDRESS, wait_ms=wait_ms)
        [said] = outbox.claim(tx, "telegram", 1)
        outbox.mark_sent(tx, said, Receipt(message_id="4711"))
    return asked


def state(home: Path, approval: Approval) -> Approval:
    with written(home) as tx:
        found = store.get(tx, approval.id)
    assert found is not None
    return found


# explain


def test_a_command_is_explained_and_not_run() -> None:
    shown = run("explain", "x=rm; sudo $x -rf /srv/app/data")
    assert shown.stdout.splitlines() == [
        "ask: It would need approval.",
        "  reason: it deletes /srv/app/data and everything in it",
        "  runs: sudo rm -rf /srv/app/data",
        "  runs: rm -rf /srv/app/data",
        "  can be allowed permanently as: recursive-delete /srv/app/data",
    ]


def test_what_cannot_be_granted_is_not_offered() -> None:
    lines = run("explain", "rm -rf /srv/data").stdout.splitlines()
    assert lines[-1] == "  needs approval each time: recursive-delete /srv/data cannot become a rule"


def test_scripts_get_json(home: Path) -> None:
    shown = hermes("approvals", "explain", "--json", "sh -c 'rm -rf /'")
    assert (shown.returncode, shown.stderr) == (0, "")
    told = json.loads(shown.stdout)
    assert told["verdict"] == "block"
    assert told["reasons"] == ["it deletes /, which the system or a home consists of"]
    assert told["argv"] == [["sh", "-c", "rm -rf /"], ["rm", "-rf", "/"]]
    assert (told["allowlist"], told["granted"]) == ([], [])
    assert not home.exists()


def test_the_policy_can_be_tried_and_is_that_of_the_home(made: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = "reason: make is not known to be harmless"
    assert asks in run("explain", "--policy", "unknown", "make").stdout
    assert asks not in run("explain", "make").stdout
    monkeypatch.setenv("HERMES_APPROVALS__POLICY", "unknown")
    assert asks in run("explain", "make").stdout
    assert asks not in run("explain", "--policy", "risky", "make").stdout


def test_what_was_allowed_before_is_named(home: Path, made: None) -> None:
    (home / "config.yaml").write_text("command_allowlist: ['git push *', 'git push --force', 'rm -rf /']\n")
    shown = run("explain", "git push --force").stdout
    assert shown.startswith("ask: It needs approval, which was given before.\n")
    assert "  allowed by command_allowlist: git push *\n  allowed by command_allowlist: git push --force\n" in shown
    assert "covered" not in run("explain", "rm -rf /").stdout  # nothing overrides a block
    assert json.loads(run("explain", "--json", "git push --force").stdout)["allowlist"] == [
        "git push *",
        "git push --force",
    ]


def test_rules_that_were_granted_for_good_are_named(home: Path, made: None) -> None:
    with written(home) as tx:
        store.grant(tx, "owner", "recursive-delete /home/ann/proj", session_id="", by="telegram:1")
        store.grant(tx, "owner", "git-discard", session_id="a conversation", by="telegram:1")
    assert (
        "allowed by a permanent rule: recursive-delete /home/ann/proj, for the owner"
        in run("explain", f"rm -r {RULE[17:]}").stdout
    )
    assert "permanent rule" not in run("explain", "git reset --hard").stdout
    assert "permanent rule" not in run("explain", f"rm -r {RULE[17:]} && git reset --hard").stdout


# list


@pytest.mark.usefixtures("made")
def test_what_waits_and_what_is_granted(home: Path) -> None:
    asked = ask(home, "rm -r build\nls\x1b[2K")
    with written(home) as tx:
        store.grant(tx, "owner", "force-push", session_id="", by="telegram:1")
        store.grant(tx, "person 7", RULE, session_id="20260322_124359_6b542f4e", by="hermes chat")
    lines = run("list").stdout.splitlines()
    assert lines[:4] == [
        "Waiting for an answer:",
        lines[1],
        "      terminal, on this machine, in ~/proj: rm -r build",
        "      | ls\\u001b[2K",
    ]
    assert lines[1].startswith(f"  {asked.id}  since ")
    assert lines[1].endswith(" ago, for Ann (telegram:42), asked in telegram:42")
    assert "  1  force-push" in lines
    assert any(line.startswith("      for the owner, permanently; granted by telegram:1, 2") for line in lines)
    assert any("for person person 7, in conversation 20260322_124359_6b542f4e; granted by" in line for line in lines)


@pytest.mark.usefixtures("made")
def test_for_scripts(home: Path) -> None:
    asked = ask(home)
    with written(home) as tx:
        store.grant(tx, "owner", RULE, session_id="", by="telegram:1")
    told = json.loads(run("list", "--json").stdout)
    [waiting], [granted] = told["waiting"], told["granted"]
    assert (waiting["id"], waiting["action"], waiting["asked_in"]) == (asked.id, "rm -r build", "telegram:42")
    assert waiting["asked_ms"] < waiting["expires_ms"]
    assert (granted["id"], granted["rule"], granted["scope"], granted["by"]) == (1, RULE, "always", "telegram:1")


@pytest.mark.usefixtures("made")
def test_questions_do_not_upgrade_a_database(home: Path) -> None:
    with closing(connect(home / "state.db", busy_timeout_seconds=1)) as connection:
        connection.execute("DROP TABLE approval_rules")
        connection.execute("DROP TABLE approvals")
        connection.execute("PRAGMA user_version = 7")
        for arguments in (("list",), ("explain", "git push --force")):
            assert run(*arguments).exit_code == 0
        assert schema_version(connection) == 7


# approve and deny


@contextmanager
def deciding(home: Path) -> Iterator[None]:
    """The part of a running gateway that decides for the command."""
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        db = await open_database(home / "state.db")
        control = ApprovalControl(db=db, path=home / "control.sock", changes=Changes())
        task = asyncio.create_task(control.run())
        while not (home / "control.sock").exists():
            await asyncio.sleep(0)
        ready.set()
        await asyncio.to_thread(stop.wait)
        task.cancel()
        await db.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.usefixtures("made")
def test_a_command_of_the_agent_cannot_decide_through_the_command_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(home, rules=(RULE,))
    monkeypatch.setattr("tools.backends.ancestry.is_our_command", lambda pid, gateway_pid=0: True)
    shown = run("approve", "--always", asked.id)
    assert (shown.exit_code, state(home, asked).state) == (1, "waiting")
    assert "nothing may approve itself" in shown.stderr


@pytest.mark.usefixtures("made")
def test_a_gateway_that_does_not_answer_is_said(home: Path) -> None:
    asked = ask(home)
    with hold_home(home / "gateway.lock"):
        shown = run("approve", asked.id)
    assert (shown.exit_code, state(home, asked).state) == (1, "waiting")
    assert "The running gateway does not answer" in shown.stderr


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("arguments", "now", "scope", "rules"),
    [
        (("approve",), "approved", "once", 0),
        (("approve", "--session"), "approved", "session", 1),
        (("approve", "--always"), "approved", "always", 1),
        (("deny",), "denied", "", 0),
    ],
)
def test_deciding_here_shows_there(home: Path, arguments: tuple[str, ...], now: str, scope: str, rules: int) -> None:
    asked = ask(home, rules=(RULE,))
    with hold_home(home / "gateway.lock"), deciding(home):
        shown = run(*arguments, asked.id.upper())
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("⛔ Denied" if now == "denied" else "✅ ")
    assert "not running" not in shown.stdout
    decided = state(home, asked)
    assert (decided.state, decided.scope, decided.decided_by) == (now, scope, "the hermes command")
    with written(home) as tx:
        assert len(store.rules(tx)) == rules
        [edit] = outbox.claim(tx, "telegram", 5)
    assert edit.message.edits == "4711"


@pytest.mark.usefixtures("made")
def test_without_a_gateway_it_says_when_it_counts(home: Path) -> None:
    assert "The answer takes effect when it starts" in run("deny", ask(home).id).stdout


@pytest.mark.usefixtures("made")
def test_what_cannot_be_decided_fails_with_a_sentence(home: Path) -> None:
    assert "There is no approval request 'abc'; none is waiting." in run("approve", "abc").stderr
    asked = ask(home)
    near = asked.id[:-1] + ("a" if asked.id[-1] != "a" else "b")
    shown = run("approve", near)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert f"There is no approval request '{near}'. Did you mean {asked.id}?" in shown.stderr
    assert f"Waiting: {asked.id}." in run("deny", "0000000").stderr
    assert "can only be allowed once" in run("approve", asked.id, "--always").stderr
    assert state(home, asked).is_waiting
    run("deny", asked.id)
    again = run("approve", asked.id)
    assert (again.exit_code, "⛔ Denied" in again.stderr) == (1, True)
    assert run("approve", asked.id, "--session", "--always").exit_code == run("approve").exit_code == 2


@pytest.mark.usefixtures("made")
def test_a_yes_that_comes_too_late_is_none(home: Path) -> None:
    asked = ask(home, wait_ms=-1)
    shown = run("approve", asked.id)
    assert (shown.exit_code, "No answer in time" in shown.stderr) == (1, True)
    assert state(home, asked).state == "expired"
    assert asked.expires_ms < now_ms()


# revoke


@pytest.mark.usefixtures("made")
def test_rules_are_taken_back(home: Path) -> None:
    with written(home) as tx:
        for number in range(4):
            store.grant(tx, "owner", f"{RULE}/{number}", session_id="", by="telegram:1")
    assert run("revoke", "1", "3").stdout == f"Revoked: {RULE}/0\nRevoked: {RULE}/2\n"
    wrong = run("revoke", "2", "3")
    assert wrong.exit_code == 1
    assert "There is no rule '3'; nothing was revoked. Rules: 2, 4." in wrong.stderr
    assert run("revoke", "--all").stdout.count("Revoked") == 2
    assert "no rules to revoke" in run("revoke", "--all").stdout
    assert "There are no rules." in run("revoke", "x").stderr
    assert run("revoke").exit_code == run("revoke", "--all", "1").exit_code == 2
