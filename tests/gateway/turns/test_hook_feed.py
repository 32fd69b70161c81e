"""What hooks are told of the store: each thing once, with its context, from whichever process."""

import json
from typing import Any

import pytest

from agent_core.conversation import ToolCall, assistant, tool_result
from gateway.messages import SessionKey
from gateway.store import inbox, processes, sessions, trail, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.trail import TrailEvent
from gateway.turns.hook_feed import find_end, read_events
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import begin, exchange
from tests.gateway.store.rows import ANN, KEY, a_process, inbound, take


class Feed:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._position = find_end(tx)

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        self._position, events = read_events(self._tx, self._position)
        json.dumps(events)  # plain data
        return events


def names(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in events]


def test_a_turn_is_told_once_from_its_start_to_its_end(tx: Transaction) -> None:
    feed = Feed(tx)
    exchange(tx, "hello " * 200, "hi")
    events = feed.read()
    assert names(events) == ["session:start", "agent:start", "agent:end"]
    start, end = events[1][1], events[2][1]
    session = sessions.find_current(tx, str(KEY))
    assert session is not None
    assert start | {"message": ""} == {
        "platform": "telegram",
        "session_key": str(KEY),
        "session_id": session.id,
        "user_id": ANN.id,
        "message": "",
    }
    assert len(start["message"]) == 500
    assert (end["response"], end["outcome"]) == ("hi", "answered")
    assert feed.read() == []


def test_a_compaction_is_told_with_its_tokens(tx: Transaction) -> None:
    feed = Feed(tx)
    turn = begin(tx)
    trail.record(tx, TrailEvent.COMPACTED, turn_id=turn.id, tokens_before=900, tokens_after=100, by_model=True)
    events = dict(feed.read())
    assert events["session:compress"] == {
        "platform": "telegram",
        "session_key": str(KEY),
        "session_id": turn.session_id,
        "user_id": ANN.id,
        "tokens_before": 900,
        "tokens_after": 100,
    }


def test_nothing_from_before_the_start_is_told(tx: Transaction) -> None:
    exchange(tx)
    assert Feed(tx).read() == []


def test_a_turn_of_several_messages_begins_and_ends_once(tx: Transaction) -> None:
    feed = Feed(tx)
    for text in ("one", "two", "three"):
        take(tx, inbound(text))
    turn = turns.begin(tx)
    assert turn is not None
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.STOPPED)
    events = feed.read()
    assert names(events) == ["session:start", "agent:start", "agent:end"]
    assert events[2][1]["outcome"] == "stopped"


def test_a_step_is_told_when_all_its_tools_have_ended(tx: Transaction) -> None:
    feed = Feed(tx)
    turn = begin(tx, "go")
    calls = tuple(ToolCall(id=name, name=name, arguments="{}") for name in ("a", "b"))
    transcripts.append(tx, turn.session_id, assistant(tool_calls=calls), turn_id=turn.id)
    assert "agent:step" not in names(feed.read())
    for call in reversed(calls):
        transcripts.append(tx, turn.session_id, tool_result(call, f"result {call.id}"), turn_id=turn.id)
        trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id=turn.id, tool=call.name, call=call.id)
    [(name, step)] = feed.read()
    assert (name, step["iteration"], step["tool_names"], step["results"]) == (
        "agent:step",
        1,
        ["a", "b"],
        ["result a", "result b"],
    )


def test_the_end_of_a_conversation_is_told_once_with_its_reason(tx: Transaction) -> None:
    exchange(tx)
    feed = Feed(tx)
    sessions.end_current(tx, str(KEY), reason="idle")
    events = feed.read()
    assert names(events) == ["session:end", "session:reset"]
    assert events[0][1]["reason"] == "idle"
    assert feed.read() == []


@pytest.mark.parametrize(
    ("reason", "is_reset"), [("new", True), ("daily", True), ("resumed other", False), ("branched", False)]
)
def test_a_reset_is_told_only_where_the_next_message_begins_another(
    tx: Transaction, reason: str, is_reset: bool
) -> None:
    exchange(tx)
    feed = Feed(tx)
    sessions.end_current(tx, str(KEY), reason=reason)
    assert names(feed.read()) == ["session:end", *["session:reset"] * is_reset]


def test_each_conversation_is_told(tx: Transaction) -> None:
    feed = Feed(tx)
    for chat in "123":
        sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat=chat))
        assert names(feed.read()) == ["session:start"]
    assert feed.read() == []


def test_a_command_is_told_with_its_arguments(tx: Transaction) -> None:
    feed = Feed(tx)
    row = take(tx, inbound("/title  my  trip", kind="command"))
    inbox.claim_command(tx)
    inbox.finish(tx, row, inbox.Outcome.ANSWERED)
    trail.record(tx, TrailEvent.ANSWERED, inbox_id=row)
    [(name, context)] = feed.read()
    assert (name, context["command"], context["args"], context["user_id"]) == (
        "command:title",
        "title",
        "my  trip",
        "42",
    )


def test_the_end_of_a_process_is_told(tx: Transaction, clock: Clock) -> None:
    turn = begin(tx)
    process = a_process(task_id=turn.session_id)
    processes.add(tx, process)
    feed = Feed(tx)
    feed.read()
    clock.ms += 5
    processes.end(tx, process.id, exit_code=3, ended_ms=clock.ms)
    [(name, context)] = feed.read()
    assert (name, context["process_id"], context["exit_code"]) == ("process:exit", process.id, 3)
    assert feed.read() == []


def test_pairing_is_told(tx: Transaction) -> None:
    feed = Feed(tx)
    trail.record(tx, TrailEvent.PAIRING_ASKED, account="telegram@work", chat="9", sender="9")
    trail.record(tx, TrailEvent.PAIRING_APPROVED, account="telegram", sender="9", role="member", by="owner")
    assert feed.read() == [
        ("pairing:request", {"platform": "telegram", "user_id": "9", "chat": "9", "role": ""}),
        ("pairing:approved", {"platform": "telegram", "user_id": "9", "chat": "", "role": "member"}),
    ]
