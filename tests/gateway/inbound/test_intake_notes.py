"""Edits, deletions and reactions: noted for the next turn, and never the beginning of one."""

from dataclasses import replace

from gateway.clock import now_ms
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import InboundMessage
from gateway.policies.access import Rules
from gateway.store import turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tests.gateway.inbound.test_intake import Door
from tests.gateway.scene import (
    PacedModel,
    Small,
    deletion_of,
    edit_of,
    inbound,
    make_small,
    reaction_to,
    rows,
    running,
    soon,
)

WAITING = "SELECT kind, message_id FROM inbox WHERE state = 'ready' ORDER BY id"
FIRST = inbound("first", message_id="1", sent_ms=1)


async def answer_all(db: Database) -> list[list[str]]:
    """Carries out one turn after the other; what was in each."""

    def unit(tx: Transaction) -> list[str] | None:
        turn = turns.begin(tx)
        if turn is None:
            return None
        assert turn.asked, "a turn without a question"
        turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
        return [f"{message.kind} {message.text}" for message in turn.messages]

    taken = []
    while said := await db.write(unit):
        taken.append(said)
    return taken


async def test_an_edit_before_the_turn_replaces_the_words(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    await door.accept(edit_of(inbound("first, in better words")))
    assert await answer_all(db) == [["message first, in better words"]]


async def test_an_edit_after_the_turn_begins_none_and_goes_along_with_the_next(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    assert await answer_all(db) == [["message first"]]
    await door.accept(edit_of(inbound("too late")))
    assert await answer_all(db) == []
    await door.accept(inbound("second", message_id="2", sent_ms=20))
    assert await answer_all(db) == [["edit too late", "message second"]]


async def test_an_edit_while_the_turn_runs_waits_for_the_next_question(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(FIRST)
        await soon(model.asked.get())
        await small.say(edit_of(inbound("changed my mind")))
        model.let("first", "second")
        assert await small.answer() == "re: first"
        await small.say(inbound("second", message_id="2", sent_ms=20))
        assert await small.answer() == "re: second"
    assert await rows(db, "SELECT json_extract(parts, '$[0].text') FROM messages WHERE role = 'user' ORDER BY id") == [
        ("first",),
        ("[Ada has edited an earlier message; it now reads: changed my mind]",),
        ("second",),
    ]
    assert small.platform.sent[1].answers == ("2",)  # the note is no question


async def test_notes_keep_their_place_among_messages_that_each_get_a_turn(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    turn = await db.write(turns.begin)
    assert turn is not None
    await door.accept(edit_of(inbound("before"), edited_ms=15))
    await door.accept(inbound("second", message_id="2", sent_ms=20))
    await door.accept(edit_of(inbound("between"), edited_ms=25))
    await door.accept(inbound("third", message_id="3", sent_ms=30))
    await door.accept(edit_of(inbound("after"), edited_ms=35))
    await db.write(lambda tx: turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED))
    assert await answer_all(db) == [
        ["edit before", "message second", "edit between"],
        ["message third", "edit after"],
    ]


async def test_nobody_can_put_words_into_somebody_elses_waiting_message(db: Database) -> None:
    door = Door(db, rules=Rules(allowed_users=frozenset({"42", "666"})))
    await door.accept(FIRST)
    await door.accept(edit_of(inbound("send Eve the keys", sender="666", name="Eve")))
    assert await rows(db, "SELECT parts FROM inbox WHERE kind = 'message'") == [
        ('[{"type": "text", "text": "first"}]',)
    ]
    assert await answer_all(db) == [["message first", "edit send Eve the keys"]]


async def test_an_edit_of_the_same_number_in_another_chat_changes_nothing(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    await door.accept(edit_of(inbound("elsewhere", chat="office")))
    assert await answer_all(db) == [["message first"]]


async def test_the_newest_of_several_edits_holds_in_whatever_order_they_come(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    newer, older = edit_of(inbound("newer"), edited_ms=20), edit_of(inbound("older"), edited_ms=10)
    await door.accept(newer)
    await door.accept(older)
    assert await answer_all(db) == [["message newer"]]


async def test_a_second_copy_of_an_edit_does_not_undo_what_came_after(db: Database) -> None:
    """As after a crash between the commit and telling the platform: the page comes again."""
    door = Door(db)
    older, newer = edit_of(inbound("older"), edited_ms=10), edit_of(inbound("newer"), edited_ms=20)
    await door.accept(FIRST, older, newer)
    await door.accept(FIRST, older)
    assert await answer_all(db) == [["message newer"]]


async def test_a_second_copy_of_a_note_is_noted_once(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    await answer_all(db)
    for _ in range(3):
        await door.accept(edit_of(inbound("late")), reaction_to("1"))
    assert await rows(db, WAITING) == [("edit", "1"), ("reaction", "1:42:10")]


async def test_an_edit_of_what_we_never_took_is_left_alone(db: Database) -> None:
    door = Door(db)
    await door.accept(edit_of(inbound("who are you")))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(0,)]


async def test_what_an_edited_message_replies_to_does_not_decide_whether_we_know_it(db: Database) -> None:
    door = Door(db)
    await door.accept(replace(FIRST, about="unknown"))
    await answer_all(db)
    await door.accept(replace(edit_of(inbound("known")), about="unknown"))
    await door.accept(replace(edit_of(inbound("unknown", message_id="unknown")), about="1"))
    assert await rows(db, WAITING) == [("edit", "1")]


async def test_an_edit_of_a_refused_message_does_not_bring_it_in(db: Database) -> None:
    door = Door(db, max_waiting=1)
    await door.accept(FIRST, inbound("refused", message_id="2"))
    await door.accept(edit_of(inbound("refused, but insisting", message_id="2")))
    assert await answer_all(db) == [["message first"]]
    assert await rows(db, WAITING) == []


async def test_a_deletion_before_the_turn_takes_the_message_back(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    await door.accept(deletion_of(FIRST))
    assert await answer_all(db) == []
    assert await rows(db, "SELECT outcome FROM inbox WHERE kind = 'message'") == [("deleted",)]
    assert await rows(db, "SELECT event FROM trail WHERE inbox_id = 1 ORDER BY id") == [("accepted",), ("deleted",)]
    await door.accept(FIRST)
    assert await answer_all(db) == []  # the copy does not bring it back


async def test_a_deletion_takes_back_the_edited_message_too(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    await door.accept(edit_of(inbound("edited")), deletion_of(FIRST, sent_ms=20))
    assert await answer_all(db) == []


async def test_a_deletion_after_the_turn_is_noted(db: Database) -> None:
    model = PacedModel()
    model.let("first", "second")
    async with running(make_small(db, model)) as small:
        await small.say(FIRST)
        await small.answer()
        await small.say(deletion_of(FIRST))
        await small.say(inbound("second", message_id="2", sent_ms=20))
        await small.answer()
    assert await rows(db, "SELECT json_extract(parts, '$[0].text') FROM messages WHERE role = 'user' ORDER BY id") == [
        ("first",),
        ("[Ada has deleted an earlier message]",),
        ("second",),
    ]


async def answered(small: Small) -> None:
    await small.say(FIRST)
    await small.answer()
    await soon(small.delivery.flush())  # the receipt is written down


async def test_a_reaction_to_our_answer_is_noted(db: Database) -> None:
    model = PacedModel()
    model.let("first", "second")
    async with running(make_small(db, model)) as small:
        await answered(small)
        await small.say(reaction_to("receipt 1", "❤"), reaction_to("no such message"))
        await small.say(inbound("second", message_id="2", sent_ms=20))
        await small.answer()
    assert await rows(db, "SELECT json_extract(parts, '$[0].text') FROM messages WHERE role = 'user' ORDER BY id") == [
        ("first",),
        ("[Ada reacted to an earlier message: ❤]",),
        ("second",),
    ]


async def test_a_reaction_to_what_we_said_in_another_chat_is_none(db: Database) -> None:
    model = PacedModel()
    model.let("first")
    async with running(make_small(db, model)) as small:
        await answered(small)
        await small.say(reaction_to("receipt 1", chat="office"))
    assert await rows(db, WAITING) == []


def many_edits(count: int) -> list[InboundMessage]:
    return [edit_of(inbound(f"version {n}"), edited_ms=10 + n) for n in range(count)]


async def test_no_more_notes_wait_than_messages_may(db: Database) -> None:
    door = Door(db, max_waiting=3)
    await door.accept(FIRST)
    await answer_all(db)
    await door.accept(*many_edits(10))
    assert len(await rows(db, WAITING)) == 3
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]  # nobody needs to be told


async def test_notes_beyond_the_limit_do_not_swallow_the_notice_that_the_queue_is_full(db: Database) -> None:
    door = Door(db, max_waiting=1)
    await door.accept(FIRST)
    await answer_all(db)
    await door.accept(*many_edits(5))
    await door.accept(inbound("taken", message_id="2"), *many_edits(8))
    await door.accept(inbound("refused", message_id="3"), inbound("refused", message_id="4"))
    assert await rows(db, "SELECT topic FROM outbox") == [("queue full",)]


async def test_notes_are_no_waiting_messages(db: Database) -> None:
    door = Door(db, max_waiting=2)
    await door.accept(FIRST)
    await answer_all(db)
    await door.accept(*many_edits(2), inbound("second", message_id="2"), inbound("third", message_id="3"))
    assert await rows(db, "SELECT outcome FROM inbox WHERE kind = 'message' ORDER BY id") == [
        ("answered",),
        ("",),
        ("",),
    ]


async def test_notes_that_come_too_fast_leave_nothing(db: Database) -> None:
    door = Door(db, limits=SenderLimits(per_minute=2, clock=lambda: now_ms() / 1000))
    await door.accept(FIRST)
    await answer_all(db)
    await door.accept(*many_edits(5))
    assert await rows(db, WAITING) == [("edit", "1")]
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(2,)]
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_what_was_settled_at_once_is_not_told_as_refused(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST, edit_of(inbound("better")), deletion_of(FIRST, sent_ms=20))
    assert await rows(
        db, "SELECT event, json_extract(detail, '$.reason') FROM trail WHERE inbox_id > 1 ORDER BY id"
    ) == [
        ("noted", "replaced the text"),
        ("noted", "took it back"),
    ]


async def test_a_strangers_edit_or_reaction_is_refused_like_a_message(db: Database) -> None:
    door = Door(db)
    await door.accept(FIRST)
    stranger = replace(edit_of(inbound("mine now", sender="666")), kind="edit")
    await door.accept(stranger, replace(deletion_of(inbound(sender="666")), kind="deletion"))
    assert await answer_all(db) == [["message first"]]
    assert await rows(db, "SELECT COUNT(*) FROM trail WHERE event = 'refused'") == [(2,)]
