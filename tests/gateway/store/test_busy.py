"""What is written down about messages that find a turn running: whose turn they join, end, or wait for."""

import pytest

from agent_core.conversation import user
from gateway.messages import Kind, Sender, SessionKey
from gateway.store import chats, inbox, people, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.inbox import Accepted, BusyMode
from gateway.store.turns import Outcome, Turn
from tests.gateway.store.conftest import Clock
from tests.gateway.store.line import answer_all, begin, end
from tests.gateway.store.rows import ANN, find_plans, inbound

BO = Sender(id="7", name="Bo")
GROUP = SessionKey(platform="telegram", kind="group", chat="-7")


def say(
    tx: Transaction,
    text: str,
    *,
    sender: Sender = ANN,
    role: str = "member",
    mode: BusyMode = "steer",
    wait_ms: int = 0,
    kind: Kind = "message",
) -> int:
    message = inbound(text, key=GROUP, sender=sender, kind=kind)
    person_id = people.recognise(tx, GROUP.account_name, sender, role="member")
    taken = inbox.insert(tx, message, person_id=person_id, role=role, busy=mode, wait_ms=wait_ms)
    assert taken is not None
    return taken


@pytest.fixture
def turn(tx: Transaction) -> Turn:
    say(tx, "first")
    return begin(tx)


def anybody(message: Accepted) -> bool:
    return True


def join(tx: Transaction, turn: Turn) -> list[str]:
    return [message.text for message in turns.join(tx, turn.id, anybody)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("steer", [["a"], ["b"], ["Bo's"], ["c"]]),
        ("queue", [["a"], ["b"], ["Bo's"], ["c"]]),
        ("interrupt", [["a", "b"], ["Bo's"], ["c"]]),
        ("collect", [["a", "b", "Bo's", "c"]]),
    ],
)
def test_which_turns_are_to_come(tx: Transaction, turn: Turn, mode: BusyMode, expected: list[list[str]]) -> None:
    for text in ("a", "b", "Bo's", "c"):
        say(tx, text, mode=mode, sender=BO if text == "Bo's" else ANN)
    end(tx, turn)
    assert answer_all(tx) == expected


def test_what_comes_during_the_next_turn_is_collected_for_the_one_after(tx: Transaction, turn: Turn) -> None:
    say(tx, "a", mode="collect")
    end(tx, turn)
    following = begin(tx)
    for text in ("b", "c"):
        say(tx, text, mode="collect")
    end(tx, following)
    assert answer_all(tx) == [["b", "c"]]


def test_those_that_join_are_the_turns_own_from_then_on(tx: Transaction, turn: Turn) -> None:
    for text in ("a", "b"):
        say(tx, text)
    assert join(tx, turn) == ["a", "b"]
    assert join(tx, turn) == []
    [resumed] = turns.resume_all(tx)
    assert [message.text for message in resumed.asked] == ["first", "a", "b"]
    end(tx, turn)
    assert answer_all(tx) == []


@pytest.mark.parametrize(("sender", "role"), [(BO, "member"), (ANN, "owner"), (ANN, "guest")])
def test_only_the_same_person_in_the_same_role_joins(tx: Transaction, turn: Turn, sender: Sender, role: str) -> None:
    say(tx, "a")
    say(tx, "other", sender=sender, role=role)
    say(tx, "b")
    assert join(tx, turn) == ["a"]
    end(tx, turn)
    assert answer_all(tx) == [["other"], ["b"]]


def test_nobody_joins_a_turn_of_several_people(tx: Transaction) -> None:
    say(tx, "first")
    say(tx, "first too", sender=BO)
    turn = begin(tx)
    say(tx, "a")
    assert join(tx, turn) == []


def test_what_may_not_join_holds_back_what_comes_after_it(tx: Transaction, turn: Turn) -> None:
    for text in ("a", "heavy", "b"):
        say(tx, text)
    joined = turns.join(tx, turn.id, lambda message: message.text != "heavy")
    assert [message.text for message in joined] == ["a"]


def test_what_its_senders_client_has_cut_stays_together(tx: Transaction, turn: Turn, clock: Clock) -> None:
    say(tx, "a")
    for text in ("cut", "heavy"):
        say(tx, text, wait_ms=800)
    assert join(tx, turn) == [], "the rest may still come"
    clock.forward(seconds=1)
    joined = turns.join(tx, turn.id, lambda message: message.text != "heavy")
    assert [message.text for message in joined] == ["a"]
    end(tx, turn)
    assert answer_all(tx) == [["cut", "heavy"]]


def test_notes_go_along_with_the_message_after_them_and_hold_nobody_back(tx: Transaction, turn: Turn) -> None:
    say(tx, "an edit", kind="edit")
    say(tx, "Bo's edit", kind="edit", sender=BO)
    say(tx, "a")
    say(tx, "a late edit", kind="edit")
    assert join(tx, turn) == ["an edit", "a"]
    end(tx, turn)
    say(tx, "b")
    assert answer_all(tx) == [["Bo's edit", "a late edit", "b"]]


@pytest.mark.parametrize("kind", ["command", "button"])
def test_nobody_joins_while_a_command_waits_which_may_be_a_stop(tx: Transaction, turn: Turn, kind: Kind) -> None:
    say(tx, "a")
    command = say(tx, "/stop", kind=kind)
    assert join(tx, turn) == []
    inbox.finish(tx, command, Outcome.ANSWERED)
    assert join(tx, turn) == ["a"]


def test_nobody_joins_a_turn_that_is_to_end_or_is_over(tx: Transaction, turn: Turn) -> None:
    newer = say(tx, "a")
    turns.request_interrupt(tx, newer)
    assert join(tx, turn) == []
    turns.request_stop(tx, str(GROUP))
    assert join(tx, turn) == []
    end(tx, turn, Outcome.STOPPED)
    assert join(tx, turn) == []


def test_those_of_a_group_that_was_given_another_id_join_its_turn(tx: Transaction, turn: Turn) -> None:
    say(tx, "a")
    chats.move(tx, "telegram", "-7", "-1007")
    assert join(tx, turn) == ["a"]


# Interrupting.


@pytest.mark.parametrize(
    ("before", "newer", "is_interrupted"),
    [
        ([], (ANN, "member"), True),
        ([(ANN, "member")], (ANN, "member"), True),
        ([], (BO, "member"), False),
        ([], (ANN, "owner"), False),
        ([(BO, "member")], (ANN, "member"), False),
    ],
)
def test_only_its_own_person_interrupts_a_turn_and_overtakes_nobody(
    tx: Transaction, turn: Turn, before: list[tuple[Sender, str]], newer: tuple[Sender, str], is_interrupted: bool
) -> None:
    for sender, role in before:
        say(tx, "before", sender=sender, role=role)
    turns.request_interrupt(tx, say(tx, "newer", sender=newer[0], role=newer[1]))
    assert turns.is_interrupted(tx, turn.id) is is_interrupted
    assert turns.list_stopping(tx) == [turn.id] * is_interrupted
    assert not turns.stop_requested(tx, turn.id)


def test_a_stop_outweighs_an_interruption_whichever_came_first(tx: Transaction, turn: Turn) -> None:
    newer = say(tx, "newer")
    turns.request_interrupt(tx, newer)
    turns.request_stop(tx, str(GROUP))
    turns.request_interrupt(tx, newer)
    assert turns.stop_requested(tx, turn.id)
    assert not turns.is_interrupted(tx, turn.id)


def speak(tx: Transaction, turn: Turn) -> None:
    for message in inbox.read_turn(tx, turn.id):
        transcripts.append(tx, turn.session_id, user(message.text), turn_id=turn.id, inbox_id=message.id)


def test_a_turn_inherits_what_was_interrupted_right_before_it_alone(tx: Transaction, clock: Clock) -> None:
    inherited = []
    outcomes: list[Outcome] = [
        Outcome.SUPERSEDED,
        Outcome.ANSWERED,
        Outcome.SUPERSEDED,
        Outcome.SUPERSEDED,
        Outcome.FAILED,
        Outcome.ANSWERED,
    ]
    for number, outcome in enumerate(outcomes):
        say(tx, f"text {number}")
        turn = begin(tx)
        speak(tx, turn)
        clock.forward(seconds=-1)  # as clocks are set
        inherited.append([message.text for message in turns.read_superseded(tx, turn)])
        end(tx, turn, outcome)
    assert inherited == [[], ["text 0"], [], ["text 2"], ["text 2", "text 3"], []]


# Who is told.


def test_a_turn_is_waited_for_while_a_message_of_its_session_waits(tx: Transaction, turn: Turn) -> None:
    say(tx, "an edit", kind="edit")
    assert turns.list_blocking(tx) == []
    say(tx, "a")
    assert turns.list_blocking(tx) == [turn.id]
    join(tx, turn)
    assert turns.list_blocking(tx) == []


def test_the_hot_queries_read_open_rows_alone(tx: Transaction, turn: Turn) -> None:
    newer = say(tx, "a", mode="interrupt")

    def work() -> None:
        say(tx, "b", mode="collect")
        turns.list_blocking(tx)
        join(tx, turn)
        turns.request_interrupt(tx, newer)
        turns.read_superseded(tx, turn)

    assert not [step for step in find_plans(tx, work) if step.startswith("SCAN") and "INDEX" not in step]
