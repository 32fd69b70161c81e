"""`hermes trace` beside a gateway, and without one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.lock import hold_home
from gateway.messages import SessionKey
from gateway.store import chats, outbox, trail
from hermes_cli.main import hermes as command
from tests.gateway.store.exchange import exchange
from tests.gateway.store.rows import ADDRESS, inbound, key_of, take
from tests.hermes_cli.running import hermes, written


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["trace", *arguments])


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("name", ["last", "17", "telegram:42:17"])
def test_a_name_of_nothing_fails_with_a_sentence(name: str) -> None:
    shown = run(name)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert (
        "No message has reached" if name == "last" else "`hermes trace refused` for messages that were not"
    ) in shown.stderr


@pytest.mark.usefixtures("made")
def test_the_last_message_step_by_step(home: Path) -> None:
    with written(home) as tx:
        turn = exchange(tx)
    shown = hermes("trace")
    assert shown.returncode == 0, shown.stderr
    verdict, place, *steps = shown.stdout.splitlines()
    assert verdict.startswith("Answered in ")
    assert verdict.endswith("; delivered as Telegram message receipt 1.")
    assert place.startswith(f"inbox:1, message {turn.messages[0].message_id} in telegram:42, session telegram:dm:42, ")
    assert [step.rpartition("  ")[2] for step in steps] == [
        "accepted",
        f"started in turn {turn.id}",
        "answer saved",
        "sending the answer",
        "the answer was delivered as message receipt 1",
    ]
    assert run(turn.id).stdout == run("telegram:42:receipt 1").stdout == run("last").stdout == shown.stdout


def test_a_question_at_the_terminal_leaves_a_trail(home: Path) -> None:
    assert hermes("chat", "-q", "add milk to my todo list").returncode == 0
    shown = hermes("trace", "last")
    assert shown.returncode == 0, shown.stderr
    verdict, place, *steps = shown.stdout.splitlines()
    assert verdict.startswith("Answered in ")
    assert verdict.endswith(" at the terminal.")
    assert " in cli:" in place
    told = [step.rpartition("  ")[2] for step in steps]
    assert told[0] == "accepted"
    assert told[1].startswith("started in turn ")
    assert told[2].startswith("the model replied in ")
    assert told[2].endswith("asked for todo")
    assert told[3] == "todo started"
    assert told[4].startswith("todo finished in ")
    assert told[5].startswith("the model replied in ")
    assert told[6:] == ["answer saved"]
    turn = told[1].rpartition(" ")[2]
    assert run(turn).stdout == shown.stdout
    with written(home) as tx:
        assert tx.count("SELECT COUNT(*) FROM inbox WHERE state <> 'done'") == 0
        assert tx.count("SELECT COUNT(*) FROM tool_starts") == 0
        assert "milk" not in str([dict(row) for row in tx.all("SELECT * FROM inbox")])


def test_a_question_at_the_terminal_that_no_model_answers(home: Path) -> None:
    refused = hermes("chat", "-m", "gpt-none", "-q", "hello")
    assert refused.returncode != 0
    shown = hermes("trace", "last")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("Not answered because no usable model is configured."), shown.stdout


@pytest.mark.usefixtures("made")
def test_for_scripts_without_any_text(home: Path) -> None:
    with written(home) as tx:
        exchange(tx, "a secret", "another")
    shown = run("last", "--json")
    facts = json.loads(shown.stdout)
    assert facts["verdict"].startswith("Answered in ")
    assert (facts["id"], facts["account"], facts["state"]) == (1, "telegram", "done")
    assert facts["replies"][0]["receipt"] == "receipt 1"
    assert facts["steps"][0]["event"] == "accepted"
    assert "secret" not in shown.stdout
    assert "another" not in shown.stdout


@pytest.mark.usefixtures("made")
def test_what_fits_several_messages_names_them(home: Path) -> None:
    with written(home) as tx:
        take(tx, inbound("a", message_id="2"))
        take(tx, inbound("b", message_id="1", key=key_of("discord", chat="9")))
    shown = run("1")
    assert (shown.exit_code, shown.stdout) == (1, "")
    first, *fitting = shown.stderr.splitlines()
    assert first == "Error: '1' matches several messages. Choose one:"
    assert [line.split()[0] for line in fitting] == ["inbox:2", "inbox:1"]
    assert fitting[0].endswith("message discord:9:1")
    assert run("inbox:1").exit_code == 0


@pytest.mark.usefixtures("made")
def test_a_gateway_that_is_off_or_stopping_explains_what_waits(home: Path) -> None:
    with written(home) as tx:
        take(tx, inbound("a"))
    assert run().stdout.startswith("Not answered yet because the gateway is not running.")
    with hold_home(home / "gateway.lock") as lock:
        assert run().stdout.startswith("Not answered yet because it is queued")
        lock.tell({"state": "stopping"})
        assert run().stdout.startswith("Not answered yet because the gateway is stopping")


@pytest.mark.usefixtures("made")
def test_a_platform_that_is_away_explains_what_is_not_delivered(home: Path) -> None:
    with written(home) as tx:
        turn = exchange(tx)
        outbox.add(tx, ADDRESS, [], turn_id=turn.id)
    with hold_home(home / "gateway.lock") as lock:
        lock.tell({"state": "serving", "platforms": {"telegram": {"state": "waiting", "problem": "no network"}}})
        shown = run()
    assert shown.stdout.startswith("Answered, but not delivered yet: telegram is not connected: no network.\n")


@pytest.mark.usefixtures("made")
def test_what_was_refused(home: Path) -> None:
    assert run("refused").stdout == "No message was refused.\n"
    with written(home) as tx:
        place = {"account": "telegram", "chat": "9"}
        trail.record_refusal(tx, **place, message_id="7", sender_id="666", reason="not paired yet")
    shown = run("refused")
    assert shown.exit_code == 0
    assert shown.stdout.endswith(" UTC  telegram:9 (message 7)  from 666: not paired yet\n")
    [refusal] = json.loads(run("refused", "--json").stdout)
    assert (refusal["sender_id"], refusal["reason"]) == ("666", "not paired yet")
    asked = run("telegram:9:7")
    assert (asked.exit_code, asked.stderr) == (1, "Error: Not answered because it was refused: not paired yet.\n")


@pytest.mark.usefixtures("made")
def test_what_was_said_to_others(home: Path) -> None:
    with written(home) as tx:
        group = SessionKey(platform="telegram", kind="group", chat="-100")
        chats.add_overheard(tx, inbound("a", key=group, message_id="7"), keep=5)
    assert "was not addressed to me" in run("telegram:-100:7").stderr
