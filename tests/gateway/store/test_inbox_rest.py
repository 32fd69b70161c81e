"""Albums and cut texts: a session waits a moment for the rest, and all of it is one turn."""

from gateway.messages import Sender, SessionKey
from gateway.store import inbox, people, turns
from gateway.store.db.connection import Transaction
from tests.gateway.store.conftest import Clock
from tests.gateway.store.line import answer_all, begin, end
from tests.gateway.store.rows import ANN, KEY, find_plans, inbound, take

BO = Sender(id="7", name="Bo")
GROUP = SessionKey(platform="telegram", kind="group", chat="-7")
WAIT_MS = 800


def take_part(
    tx: Transaction, text: str, *, sender: Sender = ANN, key: SessionKey = KEY, wait_ms: int = WAIT_MS
) -> int:
    """One picture of an album."""
    person_id = people.recognise(tx, key.account_name, sender, role="member")
    taken = inbox.insert(tx, inbound(text, key=key, sender=sender), person_id=person_id, wait_ms=wait_ms)
    assert taken is not None
    return taken


def test_a_session_waits_for_the_rest_and_then_takes_all_of_it(tx: Transaction, clock: Clock) -> None:
    take_part(tx, "one")
    assert turns.begin(tx) is None
    clock.forward(seconds=0.5)
    take_part(tx, "two")
    assert inbox.next_due_ms(tx) == clock.ms + 300  # of the first; the second makes it wait longer
    clock.forward(seconds=0.5)
    assert turns.begin(tx) is None
    take(tx, inbound("a caption"))
    clock.forward(seconds=0.3)
    assert answer_all(tx) == [["one", "two", "a caption"]]
    assert inbox.next_due_ms(tx) is None


def test_other_sessions_do_not_wait(tx: Transaction, clock: Clock) -> None:
    take_part(tx, "one")
    take(tx, inbound("elsewhere", key=GROUP))
    assert answer_all(tx) == [["elsewhere"]]


def test_nothing_else_waits_for_its_time(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("hello"))
    assert inbox.next_due_ms(tx) is None


def test_after_the_window_what_has_come_goes(tx: Transaction, clock: Clock) -> None:
    take_part(tx, "one")
    clock.forward(seconds=0.8)
    assert answer_all(tx) == [["one"]]
    take_part(tx, "far too late")
    clock.forward(seconds=0.8)
    assert answer_all(tx) == [["far too late"]]


def test_an_album_that_finds_a_turn_running_is_one_turn_too(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("question"))
    turn = begin(tx)
    for text in ("one", "two", "three"):
        take_part(tx, text)
        clock.forward(seconds=0.1)
    clock.forward(seconds=2)
    end(tx, turn)
    assert answer_all(tx) == [["one", "two", "three"]]


def test_what_comes_before_and_after_such_an_album_stays_apart(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("question"))
    turn = begin(tx)
    take(tx, inbound("before"))
    take_part(tx, "one")
    take_part(tx, "two")
    clock.forward(seconds=2)
    take(tx, inbound("after"))
    end(tx, turn)
    take(tx, inbound("when nothing ran"))
    assert answer_all(tx) == [["before"], ["one", "two"], ["after"], ["when nothing ran"]]


def test_an_album_that_goes_on_when_the_turn_has_ended_is_still_one(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("question"))
    turn = begin(tx)
    take_part(tx, "one")
    end(tx, turn)
    assert turns.begin(tx) is None
    take_part(tx, "two")
    clock.forward(seconds=1)
    assert answer_all(tx) == [["one", "two"]]


def test_two_albums_of_two_people_at_once_are_two_turns(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("question", key=GROUP))
    turn = begin(tx)
    for number in ("one", "two"):
        take_part(tx, f"Ann's {number}", key=GROUP)
        take_part(tx, f"Bo's {number}", sender=BO, key=GROUP)
    clock.forward(seconds=1)
    end(tx, turn)
    assert answer_all(tx) == [["Ann's one", "Ann's two"], ["Bo's one", "Bo's two"]]


def test_somebody_elses_message_is_no_part_of_an_album(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("question", key=GROUP))
    turn = begin(tx)
    take_part(tx, "one", key=GROUP)
    take(tx, inbound("me too", key=GROUP, sender=BO))
    take_part(tx, "two", key=GROUP)
    clock.forward(seconds=1)
    end(tx, turn)
    assert answer_all(tx) == [["one", "two"], ["me too"]]


def test_a_note_goes_along_with_an_album_that_found_a_turn_running(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("question"))
    turn = begin(tx)
    take(tx, inbound("noted", kind="edit"))
    take_part(tx, "one")
    take_part(tx, "two")
    clock.forward(seconds=1)
    end(tx, turn)
    assert answer_all(tx) == [["noted", "one", "two"]]


def test_a_message_taken_back_is_no_longer_waited_for(tx: Transaction, clock: Clock) -> None:
    first = take_part(tx, "one")
    take(tx, inbound("hello"))
    assert turns.begin(tx) is None
    inbox.finish(tx, first, turns.Outcome.DELETED)
    assert answer_all(tx) == [["hello"]]


def test_the_hot_queries_of_notes_and_albums_read_open_rows_alone(tx: Transaction) -> None:
    take_part(tx, "one")
    edit = inbound("x", kind="edit", message_id="m1")

    def work() -> None:
        inbox.count_noted(tx, str(KEY))
        inbox.next_due_ms(tx)
        take_part(tx, "two")
        inbox.rewrite_waiting(tx, edit)
        inbox.is_outdated(tx, edit)
        inbox.knows_subject(tx, edit)

    assert not find_plans(tx, work) & {"SCAN inbox", "SCAN outbox", "SCAN turns"}
