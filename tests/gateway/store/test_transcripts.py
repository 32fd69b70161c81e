"""Transcripts: what went in comes out, and what comes out is a conversation a model accepts."""

import json
import sqlite3
from dataclasses import replace

import pytest

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from gateway.messages import Location, Media, Text
from gateway.store import compactions, sessions, transcripts
from gateway.store.db.connection import Transaction
from tests.gateway.store.conftest import Clock
from tests.gateway.store.rows import KEY, inbound, take

A = ToolCall(id="call_a", name="clock", arguments='{"zone": "UTC"}')
B = ToolCall(id="call_b", name="todo", arguments="{broken")


@pytest.fixture
def session(tx: Transaction) -> str:
    return sessions.open_current(tx, KEY).id


def write(tx: Transaction, session: str, *messages: Message, turn_id: str | None = None) -> None:
    for message in messages:
        transcripts.append(tx, session, message, turn_id=turn_id)


@pytest.mark.parametrize(
    "message",
    [
        user("hello"),
        user('quotes " and \\ and \n lines, 東京, 😀, \0 zero'),
        Message(role="user"),
        Message(
            role="user",
            parts=(
                Text(text="look"),
                Media(kind="image", name="a.png", mime="image/png", size_bytes=7, reference="r", sha256="ab"),
                Media(kind="file", problem="too large"),
                Location(latitude=52.5, longitude=-13.4, name="Berlin"),
                Location(latitude=0.0, longitude=0.0),
            ),
        ),
    ],
)
def test_what_people_say_comes_back(tx: Transaction, session: str, message: Message) -> None:
    write(tx, session, message)
    assert compactions.read_history(tx, session, limit=10).messages == [message]


def test_calls_results_reasoning_and_provider_data_come_back(tx: Transaction, session: str) -> None:
    conversation = [
        user("what time is it"),
        assistant("Let me look.", tool_calls=(A, B), reasoning="I should look at the clock."),
        tool_result(A, "12:00"),
        tool_result(B, "that was no JSON", is_error=True),
        replace(assistant("Noon."), provider_data='{"signature": "é"}'),
    ]
    write(tx, session, *conversation, turn_id="t1")
    assert compactions.read_history(tx, session, limit=10).messages == conversation
    assert transcripts.turn(tx, session, "t1") == conversation


def test_results_stand_behind_their_calls_in_call_order(tx: Transaction, session: str) -> None:
    write(tx, session, user("go"), assistant(tool_calls=(A, B)), tool_result(B, "b"), user("and?"), tool_result(A, "a"))
    assert compactions.read_history(tx, session, limit=10).messages == [
        user("go"),
        assistant(tool_calls=(A, B)),
        tool_result(A, "a"),
        tool_result(B, "b"),
        user("and?"),
    ]


def test_an_open_call_of_an_earlier_turn_gets_an_honest_result(tx: Transaction, session: str) -> None:
    write(tx, session, user("go"), assistant(tool_calls=(A,)), turn_id="t1")
    write(tx, session, user("again"), turn_id="t2")
    seen = compactions.read_history(tx, session, limit=10, turn_id="t2").messages
    assert [message.role for message in seen] == ["user", "assistant", "tool", "user"]
    assert seen[2].is_error
    assert json.loads(seen[2].text)["outcome"] == "unknown"


def test_open_calls_of_the_running_turn_are_left_open(tx: Transaction, session: str) -> None:
    write(tx, session, user("go"), assistant(tool_calls=(A,)), turn_id="t1")
    seen = compactions.read_history(tx, session, limit=10, turn_id="t1").messages
    assert [message.role for message in seen] == ["user", "assistant"]


@pytest.mark.parametrize("limit", range(1, 9))
def test_a_window_begins_with_a_user_message(tx: Transaction, session: str, limit: int) -> None:
    conversation = [user("1"), assistant(tool_calls=(A, B)), tool_result(A, "a"), tool_result(B, "b"), assistant("one")]
    conversation += [user("2"), assistant("two")]
    write(tx, session, *conversation)
    seen = compactions.read_history(tx, session, limit=limit).messages
    assert seen == ([] if limit == 1 else conversation if limit >= 7 else conversation[5:])


def test_the_running_turn_is_whole_however_long_it_is(tx: Transaction, session: str) -> None:
    write(tx, session, user("old"), assistant("old"), turn_id="t1")
    calls = [ToolCall(id=f"call_{number}", name="clock", arguments="{}") for number in range(30)]
    steps = [step for call in calls for step in (assistant(tool_calls=(call,)), tool_result(call, "x"))]
    write(tx, session, user("long"), *steps, turn_id="t2")
    seen = compactions.read_history(tx, session, limit=10, turn_id="t2").messages
    assert seen == [user("long"), *steps]
    seen = compactions.read_history(tx, session, limit=1000, turn_id="t2").messages
    assert seen == [user("old"), assistant("old"), user("long"), *steps]


def test_a_second_copy_of_the_same_message_is_left_out(tx: Transaction, session: str) -> None:
    inbox_id = take(tx, inbound("hello"))
    for _ in range(2):
        transcripts.append(tx, session, user("hello"), turn_id="t1", inbox_id=inbox_id)
    assert compactions.read_history(tx, session, limit=10).messages == [user("hello")]


def test_a_call_has_one_result_in_a_turn(tx: Transaction, session: str) -> None:
    write(tx, session, user("go"), assistant(tool_calls=(A,)), tool_result(A, "first"), turn_id="t1")
    write(tx, session, tool_result(A, "second"), turn_id="t1")
    write(tx, session, user("go on"), assistant(tool_calls=(A,)), tool_result(A, "third"), turn_id="t2")
    texts = [
        message.text for message in compactions.read_history(tx, session, limit=10).messages if message.role == "tool"
    ]
    assert texts == ["first", "third"]


def test_sessions_are_apart(tx: Transaction, session: str) -> None:
    other = sessions.open_current(tx, KEY.__class__(platform="telegram", kind="dm", chat="43")).id
    write(tx, session, user("mine"), turn_id="t")
    write(tx, other, user("yours"), turn_id="t")
    assert compactions.read_history(tx, session, limit=10).messages == [user("mine")]
    assert transcripts.turn(tx, other, "t") == [user("yours")]


def test_a_call_that_was_begun_is_known(tx: Transaction) -> None:
    transcripts.mark_tool_started(tx, "t1", "call_a")
    assert transcripts.started_calls(tx, "t1") == {"call_a"}
    assert transcripts.started_calls(tx, "t2") == frozenset()


def test_a_call_cannot_be_begun_twice(tx: Transaction) -> None:
    transcripts.mark_tool_started(tx, "t1", "call_a")
    with pytest.raises(sqlite3.IntegrityError):
        transcripts.mark_tool_started(tx, "t1", "call_a")


def test_looking_back_shows_the_end_with_its_times(tx: Transaction, session: str, clock: Clock) -> None:
    for number in range(5):
        clock.forward(seconds=1)
        write(tx, session, user(str(number)))
    entries = transcripts.entries(tx, session, limit=2)
    assert [(entry.message.text, entry.created_ms) for entry in entries] == [("3", clock.ms - 1000), ("4", clock.ms)]


@pytest.mark.parametrize(
    ("stored", "calls"),
    [
        (
            '[{"id": "1", "name": "todo", "arguments": "{}", "seconds": 3}]',
            (ToolCall(id="1", name="todo", arguments="{}"),),
        ),
        ('[{"id": "1", "name": "todo"}]', ()),
        ("[1]", ()),
        ('[{"new": 1}]', ()),
    ],
)
def test_of_a_stored_call_what_a_newer_version_added_is_left_out(
    tx: Transaction, session: str, stored: str, calls: tuple[ToolCall, ...]
) -> None:
    transcripts.append(tx, session, user("hello"))
    transcripts.append(tx, session, assistant("hi"))
    tx.execute("UPDATE messages SET tool_calls = ? WHERE role = 'assistant'", stored)
    assert transcripts.entries(tx, session)[-1].message.tool_calls == calls
