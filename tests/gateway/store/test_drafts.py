"""Drafts in the store: known before they are sent, and told apart from everything else that we say."""

import pytest

from gateway.clock import now_ms
from gateway.messages import Address, Receipt, Text
from gateway.store import drafts, inbox, outbox, people, turns
from gateway.store.db.connection import Transaction
from gateway.store.drafts import Draft
from tests.gateway.scene import ACCOUNT, inbound
from tests.gateway.store.line import begin

DAY_MS = 86_400_000


def place(chat: str = "home") -> Address:
    return Address(account=ACCOUNT, chat=chat, reply_to="100")


def begun_turn(tx: Transaction, chat: str = "home", *, message_id: str = "100", sent_ms: int = 0) -> str:
    message = inbound(chat=chat, message_id=message_id, sent_ms=sent_ms or now_ms())
    inbox.insert(tx, message, person_id=people.recognise(tx, ACCOUNT, message.sender, role="member"))
    return begin(tx).id


def begun(tx: Transaction, turn_id: str, chat: str = "home") -> Draft:
    draft = drafts.new(turn_id, place(chat))
    drafts.begin(tx, draft)
    return draft


def find(tx: Transaction, turn_id: str) -> Draft:
    draft = drafts.find(tx, turn_id)
    assert draft is not None
    return draft


def say(tx: Transaction, receipt: str, *, chat: str = "home", more: str = "") -> int:
    """Something else that arrived, in one message or in two."""
    row_id = outbox.add(tx, place(chat), [Text(text="hello")])
    [row] = outbox.claim(tx, ACCOUNT, 1)
    if more:
        outbox.mark_piece_sent(tx, row, Receipt(message_id=more, more=True))
        [row] = outbox.claim(tx, ACCOUNT, 1)
    outbox.mark_sent(tx, row, Receipt(message_id=receipt))
    return row_id


def test_a_draft_is_known_from_before_it_is_sent(tx: Transaction) -> None:
    draft = begun(tx, "t")
    assert drafts.find(tx, "t") == Draft(
        turn_id="t", key=draft.key, address=place(), begun_ms=tx.count("SELECT begun_ms FROM drafts")
    )
    assert drafts.mark_shown(tx, "t", "7")
    assert find(tx, "t").message_id == "7"
    assert tx.count("SELECT COUNT(*) FROM trail WHERE event = 'draft_shown' AND turn_id = 't'") == 1


def test_begun_once_more_it_keeps_its_key(tx: Transaction) -> None:
    draft = begun(tx, "t")
    drafts.begin(tx, draft)
    assert find(tx, "t").key == draft.key


def test_an_answer_takes_over_what_is_known_and_leaves_what_is_not(tx: Transaction) -> None:
    begun(tx, "known")
    drafts.mark_shown(tx, "known", "7")
    begun(tx, "unknown")
    assert [drafts.take_over(tx, turn) for turn in ("known", "unknown", "other")] == ["7", "", ""]
    assert drafts.find(tx, "known") is None
    assert drafts.find(tx, "unknown") is not None


def test_one_that_was_forgotten_meanwhile_is_told_as_such(tx: Transaction) -> None:
    begun(tx, "t")
    drafts.forget(tx, "t")
    assert not drafts.mark_shown(tx, "t", "7")


def test_only_drafts_of_turns_that_are_over_are_left_behind(tx: Transaction) -> None:
    running, paused, over = (begun_turn(tx, chat, message_id=chat) for chat in ("1", "2", "3"))
    turns.pause(tx, paused)
    turns.finish(tx, over, (), turns.Outcome.STOPPED)
    for turn in (running, paused, over, "of which nothing is known"):
        begun(tx, turn)
    left = {draft.turn_id for draft in drafts.list_orphans(tx, [ACCOUNT])}
    assert left == {over, "of which nothing is known"}
    assert drafts.list_orphans(tx, ["another account"]) == []


def test_whether_there_are_any_leaves_out_those_that_are_named_and_other_accounts(tx: Transaction) -> None:
    begun(tx, "a")
    assert drafts.has_others(tx, [ACCOUNT], except_for=())
    assert not drafts.has_others(tx, [ACCOUNT], except_for=("a",))
    assert not drafts.has_others(tx, ["another"], except_for=())


def test_old_ones_are_dropped(tx: Transaction) -> None:
    begun(tx, "t")
    assert drafts.drop_old(tx, now_ms() - 1000) == 0
    assert drafts.drop_old(tx, now_ms() + 1) == 1


def test_all_that_was_said_since_is_known_piece_by_piece(tx: Transaction) -> None:
    draft = begun(tx, begun_turn(tx))
    say(tx, "103", more="102")
    say(tx, "5", chat="elsewhere")
    assert drafts.read_sent_ids(tx, draft, draft.begun_ms) == {"102", "103"}


def test_what_was_said_before_the_draft_was_begun_is_known_too(tx: Transaction) -> None:
    say(tx, "101")  # behind the message, and before we have heard of it
    turn = begun_turn(tx)
    say(tx, "102")  # while it waited
    draft = begun(tx, turn)
    say(tx, "104")
    assert drafts.read_sent_ids(tx, draft, draft.begun_ms) == {"101", "102", "104"}


def test_nothing_is_known_before_something_was_said_after_the_draft(tx: Transaction) -> None:
    turn = begun_turn(tx)
    say(tx, "101")
    draft = begun(tx, turn)
    assert drafts.read_sent_ids(tx, draft, now_ms() + 1000) is None


def test_the_first_process_after_the_one_that_sent_it_settles_a_draft(tx: Transaction) -> None:
    begun(tx, "t")
    before = tx.count("SELECT begun_ms FROM drafts")
    for at_ms in (before, before + 1, before + 2):
        drafts.settle(tx, at_ms)
    settled = find(tx, "t")
    assert settled.settled_ms == before + 1
    drafts.begin(tx, settled)
    assert find(tx, "t").settled_ms == 0


@pytest.mark.parametrize("state", ["sending", "unsure", "in_doubt"])
def test_nothing_is_known_while_something_may_have_been_sent_under_an_unknown_id(state: str, tx: Transaction) -> None:
    draft = begun(tx, begun_turn(tx))
    say(tx, "102")
    outbox.add(tx, place(), [Text(text="hello")])
    [row] = outbox.claim(tx, ACCOUNT, 1)
    if state == "unsure":
        outbox.after_crash(tx)
    elif state == "in_doubt":
        outbox.give_up(tx, row, "in_doubt", "cut")
    assert drafts.read_sent_ids(tx, draft, draft.begun_ms) is None


def test_what_was_asked_for_again_may_stand_there_twice_and_only_once_be_known(tx: Transaction) -> None:
    draft = begun(tx, begun_turn(tx))
    outbox.add(tx, place(), [Text(text="hello")])
    [row] = outbox.claim(tx, ACCOUNT, 1)
    outbox.give_up(tx, row, "in_doubt", "cut")
    assert outbox.send_again(tx, row.message.key, account=ACCOUNT, chat="home")
    [row] = outbox.claim(tx, ACCOUNT, 1)
    outbox.mark_sent(tx, row, Receipt(message_id="103"))
    assert drafts.read_sent_ids(tx, draft, draft.begun_ms) is None


def test_nothing_is_known_when_the_question_is_gone_or_older_than_a_day(tx: Transaction) -> None:
    for turn_id in ("a turn without messages", begun_turn(tx, sent_ms=now_ms() - DAY_MS)):
        draft = begun(tx, turn_id)
        say(tx, "102")
        assert drafts.read_sent_ids(tx, draft, draft.begun_ms) is None


def test_other_drafts_and_what_answers_have_taken_over_are_not_taken_for_it(tx: Transaction) -> None:
    mine = begun(tx, "mine")
    begun(tx, "other")
    drafts.mark_shown(tx, "other", "105")
    begun(tx, "unknown")
    outbox.add(tx, place(), [Text(text="in its place")], edits="106")
    begun(tx, "elsewhere", "elsewhere")
    drafts.mark_shown(tx, "elsewhere", "107")
    assert drafts.read_other_ids(tx, mine) == {"105", "106"}
