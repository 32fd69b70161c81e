"""The inbox: who is next, what is answered together, what was seen before."""

import pytest

from gateway.inbound.intake import Intake, IntakePolicy
from gateway.messages import Media, Sender, SessionKey, Text
from gateway.policies.access import Rules
from gateway.store import inbox, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inspect import read_counts
from gateway.store.turns import Turn
from tests.gateway.store.conftest import Clock
from tests.gateway.store.line import answer_all, begin, end
from tests.gateway.store.rows import ANN, KEY, accept, find_plans, inbound, key_of, take

OTHER_KEY = SessionKey(platform="telegram", kind="group", chat="-7", thread="3")


def texts(turn: Turn) -> list[str]:
    return [message.text for message in turn.messages]


def test_messages_that_waited_together_are_answered_together_in_the_platforms_order(tx: Transaction) -> None:
    take(tx, inbound("second", sent_ms=200))
    take(tx, inbound("third", sent_ms=300))
    take(tx, inbound("first", sent_ms=100))
    assert texts(begin(tx)) == ["first", "second", "third"]


def test_at_the_same_moment_the_order_of_arrival_counts(tx: Transaction) -> None:
    for text in ("a", "b", "c"):
        take(tx, inbound(text, sent_ms=100))
    assert texts(begin(tx)) == ["a", "b", "c"]


def test_a_session_has_one_turn_at_a_time(tx: Transaction) -> None:
    take(tx, inbound("first"))
    turn = begin(tx)
    take(tx, inbound("second"))
    assert turns.begin(tx) is None
    end(tx, turn)
    assert texts(begin(tx)) == ["second"]


def test_what_arrives_during_a_turn_gets_a_turn_of_its_own(tx: Transaction) -> None:
    take(tx, inbound("first"))
    turn = begin(tx)
    for text in ("second", "third"):
        take(tx, inbound(text))
    end(tx, turn)
    turn = begin(tx)
    assert texts(turn) == ["second"]
    take(tx, inbound("fourth"))
    end(tx, turn)
    turn = begin(tx)
    assert texts(turn) == ["third"]
    end(tx, turn)
    assert texts(begin(tx)) == ["fourth"]


def test_those_for_one_turn_do_not_overtake_one_with_a_turn_of_its_own(tx: Transaction) -> None:
    take(tx, inbound("first", sent_ms=100))
    turn = begin(tx)
    take(tx, inbound("own turn", sent_ms=200))
    end(tx, turn)
    take(tx, inbound("after", sent_ms=300))
    take(tx, inbound("late, but sent before", sent_ms=150))
    assert answer_all(tx) == [["late, but sent before"], ["own turn"], ["after"]]


def test_sessions_do_not_wait_for_each_other(tx: Transaction) -> None:
    take(tx, inbound("a"))
    take(tx, inbound("b", key=OTHER_KEY))
    assert [begin(tx).session_key, begin(tx).session_key] == [str(KEY), str(OTHER_KEY)]
    assert turns.begin(tx) is None


def test_whoever_waits_longest_is_next(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("b", key=OTHER_KEY, sent_ms=900))
    clock.forward(seconds=1)
    take(tx, inbound("a", sent_ms=100))
    assert begin(tx).session_key == str(OTHER_KEY)


@pytest.mark.parametrize(
    ("again", "is_new"),
    [
        ({}, False),
        ({"sent_ms": 999}, False),
        ({"text": "another text"}, False),
        ({"edited_ms": 5}, True),
        ({"message_id": "2"}, True),
        ({"kind": "command"}, True),
        ({"key": SessionKey(platform="telegram", kind="dm", chat="43")}, True),
        ({"key": SessionKey(platform="telegram", account="work", kind="dm", chat="42")}, True),
        ({"key": SessionKey(platform="telegram", kind="dm", chat="42", thread="9")}, False),
    ],
)
def test_what_was_seen_before(tx: Transaction, again: dict[str, object], is_new: bool) -> None:
    first = {"text": "hello", "message_id": "1", "sent_ms": 100}
    assert accept(tx, inbound(**first)) is not None  # type: ignore[arg-type]
    assert (accept(tx, inbound(**{**first, **again})) is not None) is is_new  # type: ignore[arg-type]


def test_a_second_copy_is_known_long_after_it_was_answered(tx: Transaction, clock: Clock) -> None:
    take(tx, inbound("hello", message_id="1"))
    turn = begin(tx)
    end(tx, turn)
    clock.forward(hours=1000)
    assert accept(tx, inbound("hello", message_id="1")) is None
    assert turns.begin(tx) is None


def test_a_row_comes_back_as_it_went_in(tx: Transaction) -> None:
    key = SessionKey(platform="slack", account="work", kind="channel", chat="C1", thread="1.2", user="U3")
    message = inbound("look", key=key, message_id="77", sender=Sender(id="U3", name="Bo"))
    take(tx, message)
    [accepted] = begin(tx).messages
    assert accepted.key == key
    assert accepted.kind == "message"
    assert (accepted.sender_id, accepted.sender_name, accepted.message_id) == ("U3", "Bo", "77")
    assert accepted.parts == (Text(text="look"),)
    assert accepted.address == message.address
    assert inbox.read_turn(tx, str(tx.value("SELECT id FROM turns"))) == [accepted]


def test_a_damaged_character_costs_itself_and_no_more(tx: Transaction) -> None:
    row = take(tx, inbound("hello"))
    tx.execute("UPDATE inbox SET parts = CAST(replace(CAST(parts AS BLOB), 'll', x'f0ff') AS TEXT) WHERE id = ?", row)
    assert texts(begin(tx)) == ["he\ufffd\ufffdo"]


def test_commands_wait_for_nothing_but_earlier_commands(tx: Transaction) -> None:
    take(tx, inbound("a question"))
    turn = begin(tx)
    first = take(tx, inbound("/stop", kind="command", sent_ms=900))
    second = take(tx, inbound("/new", kind="command", sent_ms=100))
    for expected in (first, second):
        claimed = inbox.claim_command(tx)
        assert claimed is not None
        assert claimed.id == expected
        inbox.finish(tx, expected, turns.Outcome.ANSWERED)
    assert inbox.claim_command(tx) is None
    end(tx, turn)
    assert turns.begin(tx) is None  # no command was taken for a message


def test_a_session_waits_for_its_own_commands_and_no_other_does(tx: Transaction) -> None:
    take(tx, inbound("first"))
    take(tx, inbound("elsewhere", key=key_of("telegram", chat="43")))
    command = take(tx, inbound("/new", kind="command"))
    assert texts(begin(tx)) == ["elsewhere"]
    assert turns.begin(tx) is None
    inbox.finish(tx, command, turns.Outcome.ANSWERED)
    assert texts(begin(tx)) == ["first"]


def test_waiting_commands_are_known_by_their_words(tx: Transaction) -> None:
    take(tx, inbound("a question"))
    done = take(tx, inbound("/help", kind="command"))
    inbox.finish(tx, done, turns.Outcome.ANSWERED)
    take(tx, inbound("/new", kind="command"))
    take(tx, inbound("stop", kind="command"))
    take(tx, inbound("resend:x", kind="button"))
    take(tx, inbound("/stop", kind="command", key=key_of("telegram", chat="43")))
    assert inbox.read_waiting_commands(tx, str(KEY)) == ["/new", "stop", "resend:x"]


def test_counts(tx: Transaction) -> None:
    take(tx, inbound("a"))
    take(tx, inbound("b"))
    take(tx, inbound("/help", kind="command", key=OTHER_KEY))
    take(tx, inbound("c", key=OTHER_KEY))
    assert inbox.count_waiting(tx, str(KEY)) == 2
    assert read_counts(tx)["waiting"] == 4
    begin(tx)
    assert inbox.count_waiting(tx, str(KEY)) == 0
    assert read_counts(tx)["waiting"] == 2


def test_parts_can_be_replaced_once_files_are_ours(tx: Transaction) -> None:
    row = take(tx, inbound("see this"))
    turn = begin(tx)
    parts = (Text(text="see this"), Media(kind="image", sha256="ab" * 32, mime="image/png"))
    inbox.set_parts(tx, row, parts)
    [message] = inbox.read_turn(tx, turn.id)
    assert message.parts == parts


async def test_a_full_queue_refuses_with_one_notice_and_remembers_the_refused(db: Database) -> None:
    intake = Intake(
        db=db,
        rules=Rules(allowed_users=frozenset({ANN.id})),
        policy=IntakePolicy(max_waiting_per_session=3),
    )

    async def send(*messages: str) -> None:
        offered = [inbound(text, message_id=text) for text in messages]
        await intake.accept(offered, None, account="telegram", local=False)

    def look(tx: Transaction) -> tuple[int, int, int]:
        refused = tx.count("SELECT COUNT(*) FROM inbox WHERE outcome = 'queue full'")
        return inbox.count_waiting(tx, str(KEY)), refused, tx.count("SELECT COUNT(*) FROM outbox")

    await send("1", "2", "3")
    assert await db.read(look) == (3, 0, 0)
    await send("4", "5")
    await send("6", "4")  # one of them for the second time
    await send("/help")  # commands pass
    assert await db.read(look) == (3, 3, 1)

    def answer(tx: Transaction) -> None:
        command = inbox.claim_command(tx)
        assert command is not None
        inbox.finish(tx, command.id, turns.Outcome.ANSWERED)
        turn = begin(tx)
        end(tx, turn)

    await db.write(answer)
    await send("4")  # refused once, and so known: the sender was told to send it anew
    assert await db.read(look) == (0, 3, 1)
    await send("7", "8", "9", "10")
    assert await db.read(look) == (3, 4, 2)  # full again, told again


def test_hot_queries_read_open_rows_alone(tx: Transaction) -> None:
    """Without an index over the open ones each message would cost a walk over all messages ever accepted."""
    take(tx, inbound("a"))
    take(tx, inbound("/help", kind="command", key=key_of("telegram", chat="43")))

    def work() -> None:
        inbox.count_waiting(tx, str(KEY))
        inbox.read_waiting_commands(tx, str(KEY))
        inbox.claim_command(tx)
        inbox.drop_waiting_in(tx, "telegram", "-100", "guest", turns.Outcome.CHAT_CLOSED)
        begin(tx)
        turns.list_stopping(tx)
        turns.resume_all(tx)
        read_counts(tx)

    assert not find_plans(tx, work) & {"SCAN inbox", "SCAN i", "SCAN turns"}
