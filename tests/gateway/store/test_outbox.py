"""The outbox: in order within a chat, one in flight, and honest about what it does not know."""

import pytest

from gateway.messages import Address, Choice, Receipt, Text
from gateway.store import outbox
from gateway.store.db.connection import Row, Transaction
from gateway.store.inspect import read_counts
from gateway.store.outbox import Outgoing
from tests.gateway.store.conftest import Clock
from tests.gateway.store.rows import ADDRESS, find_plans

OTHER = Address(account="telegram", chat="43")
THREAD = Address(account="telegram", chat="42", thread="7")
DISCORD = Address(account="discord", chat="42")


def say(tx: Transaction, text: str, address: Address = ADDRESS) -> int:
    return outbox.add(tx, address, [Text(text=text)], answers=["1"])


def claim(tx: Transaction, account: str = "telegram", limit: int = 100) -> list[Outgoing]:
    return sorted(outbox.claim(tx, account, limit), key=lambda row: row.id)


def texts(rows: list[Outgoing]) -> list[str]:
    return [row.message.text for row in rows]


def row_of(tx: Transaction, row_id: int) -> Row:
    [row] = tx.all("SELECT * FROM outbox WHERE id = ?", row_id)
    return row


def deliver(tx: Transaction, row: Outgoing) -> None:
    outbox.mark_sent(tx, row, Receipt(message_id=f"r{row.id}"))


def test_a_chat_gets_its_messages_in_order_one_at_a_time(tx: Transaction) -> None:
    for text in ("a", "b", "c"):
        say(tx, text)
    for text in ("a", "b", "c"):
        [row] = claim(tx)
        assert row.message.text == text
        assert claim(tx) == []  # one in flight
        deliver(tx, row)
    assert claim(tx) == []
    assert read_counts(tx)["undelivered"] == 0


def test_chats_threads_and_accounts_do_not_wait_for_each_other(tx: Transaction) -> None:
    for address in (ADDRESS, OTHER, THREAD, DISCORD):
        say(tx, f"to {address.account} {address.chat} {address.thread}", address)
    assert len(claim(tx)) == 3
    assert texts(claim(tx, "discord")) == ["to discord 42 "]


def test_no_more_than_asked_for_the_oldest_first(tx: Transaction) -> None:
    for chat in range(5):
        say(tx, str(chat), Address(account="telegram", chat=str(chat)))
    assert texts(claim(tx, limit=2)) == ["0", "1"]
    assert texts(claim(tx, limit=2)) == ["2", "3"]


def test_a_row_comes_back_as_it_went_in(tx: Transaction) -> None:
    address = Address(account="telegram", chat="42", thread="7", reply_to="55")
    outbox.add(tx, address, [Text(text="hi"), Text(text="there")], answers=["54", "55"], turn_id="t1", notify=False)
    [row] = claim(tx)
    assert row.message.address == address
    assert row.message.parts == (Text(text="hi"), Text(text="there"))
    assert row.message.answers == ("54", "55")
    assert (row.kind, row.attempts, row.unsure, row.turn_id, row.message.notify) == ("answer", 1, False, "t1", False)
    assert 0 < len(row.message.key) <= 25


def test_keys_differ(tx: Transaction) -> None:
    for chat in range(50):
        say(tx, "x", Address(account="telegram", chat=str(chat)))
    assert len({row.message.key for row in claim(tx)}) == 50


def test_what_waits_for_its_time_holds_up_its_chat_and_no_other(tx: Transaction, clock: Clock) -> None:
    say(tx, "first")
    say(tx, "behind it")
    [row] = claim(tx)
    outbox.retry_at(tx, row, clock.ms + 10_000, "rate limit", unsure=False)
    say(tx, "elsewhere", OTHER)
    assert texts(claim(tx)) == ["elsewhere"]
    assert outbox.next_due_ms(tx, "telegram") == clock.ms + 10_000
    clock.forward(seconds=10)
    [row] = claim(tx)
    assert (row.message.text, row.attempts, row.unsure) == ("first", 2, False)


def test_the_same_key_is_used_for_every_try(tx: Transaction, clock: Clock) -> None:
    say(tx, "x")
    [first] = claim(tx)
    outbox.retry_at(tx, first, 0, "broken pipe", unsure=True)
    [second] = claim(tx)
    assert first.message.key == second.message.key


@pytest.mark.parametrize("unsure", [True, False])
def test_whether_a_try_may_have_arrived_is_kept(tx: Transaction, unsure: bool) -> None:
    say(tx, "x")
    [row] = claim(tx)
    outbox.retry_at(tx, row, 0, "timeout", unsure=unsure)
    [row] = claim(tx)
    assert row.unsure is unsure


def test_after_a_crash_what_was_in_flight_is_unsure_and_still_first(tx: Transaction) -> None:
    say(tx, "in flight")
    say(tx, "waiting")
    say(tx, "elsewhere", OTHER)
    claim(tx, limit=1)
    outbox.after_crash(tx)
    found = {row.message.text: row.unsure for row in claim(tx)}
    assert found == {"in flight": True, "elsewhere": False}


def test_what_was_sent_stays_sent_through_a_crash(tx: Transaction) -> None:
    row_id = say(tx, "x")
    [row] = claim(tx)
    deliver(tx, row)
    outbox.after_crash(tx)
    assert claim(tx) == []
    assert (row_of(tx, row_id)["state"], row_of(tx, row_id)["receipt"]) == ("sent", f"r{row_id}")


def test_a_chat_that_is_back_need_not_wait(tx: Transaction, clock: Clock) -> None:
    say(tx, "x")
    say(tx, "y", OTHER)
    for row in claim(tx):
        outbox.retry_at(tx, row, clock.ms + 60_000, "nobody listens", unsure=False)
    assert outbox.make_due(tx, "telegram", "42") == 1
    assert outbox.make_due(tx, "telegram", "42") == 0
    assert texts(claim(tx)) == ["x"]
    assert outbox.next_due_ms(tx, "telegram") == clock.ms + 60_000


def test_what_is_in_flight_is_not_made_due(tx: Transaction) -> None:
    say(tx, "x")
    claim(tx)
    tx.execute("UPDATE outbox SET not_before_ms = 5")
    assert outbox.make_due(tx, "telegram", "42") == 0


def test_nothing_is_due_later_when_nothing_waits(tx: Transaction) -> None:
    assert outbox.next_due_ms(tx, "telegram") is None
    say(tx, "x")
    assert outbox.next_due_ms(tx, "telegram") is None  # due now


def test_yesterdays_backlog_expires_with_one_notice_per_chat(tx: Transaction, clock: Clock) -> None:
    old = [say(tx, "a"), say(tx, "b"), say(tx, "c", OTHER)]
    clock.forward(hours=23.9)
    assert outbox.expire(tx, "telegram") == 0
    young = say(tx, "young")
    clock.forward(hours=0.2)
    assert outbox.expire(tx, "discord") == 0
    assert outbox.expire(tx, "telegram") == 3
    assert [row_of(tx, row_id)["state"] for row_id in [*old, young]] == ["expired"] * 3 + ["ready"]
    notices = tx.all("SELECT * FROM outbox WHERE kind = 'notice' ORDER BY id")
    assert [notice["chat"] for notice in notices] == ["42", "43"]
    assert all("Ask again" in notice["parts"] and not notice["notify"] for notice in notices)
    assert outbox.expire(tx, "telegram") == 0
    trail = tx.all("SELECT outbox_id FROM trail WHERE event = 'expired' ORDER BY id")
    assert sorted(row["outbox_id"] for row in trail) == old


def test_a_notice_that_expires_makes_no_further_notice(tx: Transaction, clock: Clock) -> None:
    outbox.add_notice(tx, ADDRESS, "by the way", topic="x")
    clock.forward(hours=25)
    assert outbox.expire(tx, "telegram") == 1
    assert read_counts(tx)["undelivered"] == 0


def test_what_is_in_flight_does_not_expire(tx: Transaction, clock: Clock) -> None:
    say(tx, "x")
    [row] = claim(tx)
    clock.forward(hours=48)
    assert outbox.expire(tx, "telegram") == 0
    outbox.retry_at(tx, row, 0, "later", unsure=True)
    assert outbox.expire(tx, "telegram") == 1


def test_an_age_limit_of_its_own(tx: Transaction, clock: Clock) -> None:
    outbox.add(tx, ADDRESS, [Text(text="x")], age_limit_ms=1000)
    clock.forward(seconds=1)
    assert outbox.expire(tx, "telegram") == 1


def test_giving_up_lets_the_next_pass(tx: Transaction) -> None:
    first = say(tx, "rejected")
    say(tx, "next")
    [row] = claim(tx)
    outbox.give_up(tx, row, "failed", "chat not found")
    assert (row_of(tx, first)["state"], row_of(tx, first)["problem"]) == ("failed", "chat not found")
    assert texts(claim(tx)) == ["next"]


def test_a_notice_is_known_to_wait_until_it_is_sent(tx: Transaction) -> None:
    assert not outbox.notice_waits(tx, ADDRESS, "full")
    outbox.add_notice(tx, ADDRESS, "full", topic="full")
    assert outbox.notice_waits(tx, ADDRESS, "full")
    assert not outbox.notice_waits(tx, ADDRESS, "other")
    assert not outbox.notice_waits(tx, OTHER, "full")
    [row] = claim(tx)
    assert outbox.notice_waits(tx, ADDRESS, "full")
    deliver(tx, row)
    assert not outbox.notice_waits(tx, ADDRESS, "full")


def test_the_trail_tells_what_changes_and_not_every_try(tx: Transaction) -> None:
    row_id = say(tx, "x")
    for _ in range(3):
        [row] = claim(tx)
        outbox.retry_at(tx, row, 0, "rate limit", unsure=False)
    [row] = claim(tx)
    deliver(tx, row)
    trail = [row["event"] for row in tx.all("SELECT event FROM trail WHERE outbox_id = ? ORDER BY id", row_id)]
    assert trail == ["sending", "postponed", "sent"]


def test_hot_queries_read_open_rows_alone(tx: Transaction) -> None:
    """Without an index over the open ones each reply would cost a walk over everything ever said."""

    def work() -> None:
        outbox.expire(tx, "telegram")
        outbox.claim(tx, "telegram", 5)
        outbox.next_due_ms(tx, "telegram")
        outbox.make_due(tx, "telegram", "42")
        outbox.notice_waits(tx, ADDRESS, "x")
        outbox.after_crash(tx)

    assert "SCAN outbox" not in find_plans(tx, work)


def test_chats_that_cannot_be_reached_do_not_keep_fresh_ones_waiting(tx: Transaction) -> None:
    for number in range(5):
        say(tx, f"to nobody {number}", Address(account="telegram", chat=f"silent {number}"))
    for _ in range(3):
        for row in claim(tx, limit=5):
            outbox.retry_at(tx, row, 0, "nobody listens", unsure=False)
    say(tx, "to somebody", Address(account="telegram", chat="awake"))
    [first] = claim(tx, limit=1)
    assert first.message.text == "to somebody"


def test_a_damaged_list_of_answers_does_not_stop_delivery(tx: Transaction) -> None:
    row_id = say(tx, "x")
    tx.execute("UPDATE outbox SET answers = '[\"1' WHERE id = ?", row_id)
    [row] = claim(tx)
    assert row.message.answers == ()


def test_a_resting_chat_is_passed_over_and_nothing_in_it_is_counted_as_a_try(tx: Transaction) -> None:
    first = say(tx, "resting")
    say(tx, "in a thread of it", THREAD)
    say(tx, "elsewhere", OTHER)
    assert texts(sorted(outbox.claim(tx, "telegram", 1, ["42"]), key=lambda row: row.id)) == ["elsewhere"]
    assert row_of(tx, first)["attempts"] == 0
    assert texts(claim(tx)) == ["resting", "in a thread of it"]


def test_a_choice_and_what_it_changes_come_back_as_they_went_in(tx: Transaction) -> None:
    choices = (Choice(label="Ja, bitte “ß”", action="resend:abc"), Choice(label="No", action="x"))
    outbox.add(tx, ADDRESS, [Text(text="?")], choices=choices, edits="77")
    [row] = claim(tx)
    assert (row.message.choices, row.message.edits, row.message.piece) == (choices, "77", 0)


@pytest.mark.parametrize("damage", ['[["Yes', "null", "{}", "[1]", '[["Yes"]]'])
def test_damaged_choices_do_not_stop_delivery(tx: Transaction, damage: str) -> None:
    row_id = say(tx, "x")
    tx.execute("UPDATE outbox SET choices = ? WHERE id = ?", damage, row_id)
    [row] = claim(tx)
    assert row.message.choices == ()


def test_a_piece_that_arrived_makes_place_for_the_next_of_the_same_message(tx: Transaction) -> None:
    row_id = say(tx, "long")
    say(tx, "behind it")
    [row] = claim(tx)
    outbox.retry_at(tx, row, 0, "rate limit", unsure=True)
    [row] = claim(tx)
    outbox.mark_piece_sent(tx, row, Receipt(message_id="r1", more=True))
    assert (row_of(tx, row_id)["state"], row_of(tx, row_id)["receipt"]) == ("ready", "r1")
    [row] = claim(tx)
    assert (row.message.text, row.message.piece, row.attempts, row.unsure) == ("long", 1, 1, False)


def test_a_piece_is_counted_once_though_its_end_is_written_twice(tx: Transaction) -> None:
    """As when a commit is reported as failed, and was not."""
    row_id = say(tx, "long")
    [row] = claim(tx)
    for _ in range(2):
        outbox.mark_piece_sent(tx, row, Receipt(message_id="r1", more=True))
    assert row_of(tx, row_id)["piece"] == 1


def in_doubt(tx: Transaction) -> Outgoing:
    say(tx, "x")
    [row] = claim(tx)
    outbox.give_up(tx, row, "in_doubt", "no answer")
    return row


def test_what_is_in_doubt_is_sent_again_once_and_however_old(tx: Transaction, clock: Clock) -> None:
    row = in_doubt(tx)
    clock.forward(hours=100)
    assert outbox.send_again(tx, row.message.key, account="telegram", chat="42")
    assert not outbox.send_again(tx, row.message.key, account="telegram", chat="42")
    assert outbox.expire(tx, "telegram") == 0
    [again] = claim(tx)
    assert (again.message.text, again.unsure, again.attempts) == ("x", False, 1)


def test_what_is_sent_again_has_as_long_as_it_had_at_first(tx: Transaction, clock: Clock) -> None:
    row_id = outbox.add(tx, ADDRESS, [Text(text="x")], age_limit_ms=3_600_000)
    [row] = claim(tx)
    outbox.give_up(tx, row, "in_doubt", "no answer")
    clock.forward(hours=100)
    outbox.send_again(tx, row.message.key, account="telegram", chat="42")
    assert row_of(tx, row_id)["expires_ms"] == clock.ms + 3_600_000


def test_an_answer_is_known_in_its_own_chat_alone(tx: Transaction) -> None:
    key = in_doubt(tx).message.key
    assert outbox.is_known(tx, key, account="telegram", chat="42")
    assert not outbox.is_known(tx, key, account="telegram", chat="43")
    assert not outbox.is_known(tx, key, account="discord", chat="42")
    assert not outbox.is_known(tx, "other", account="telegram", chat="42")


@pytest.mark.parametrize(
    ("key", "account", "chat"), [("other", "telegram", "42"), ("", "discord", "42"), ("", "telegram", "43")]
)
def test_what_is_in_doubt_is_sent_again_to_nobody_else(tx: Transaction, key: str, account: str, chat: str) -> None:
    row = in_doubt(tx)
    assert not outbox.send_again(tx, key or row.message.key, account=account, chat=chat)
    assert claim(tx) == []


@pytest.mark.parametrize("state", ["ready", "sending", "unsure", "sent", "failed", "expired"])
def test_only_what_is_in_doubt_is_sent_again(tx: Transaction, state: str) -> None:
    row = in_doubt(tx)
    tx.execute("UPDATE outbox SET state = ?", state)
    assert not outbox.send_again(tx, row.message.key, account="telegram", chat="42")


def test_what_may_have_arrived_stands_behind_all_that_is_known_to_have(tx: Transaction) -> None:
    for receipt in ("100", "99"):  # the second took the place of an earlier message
        say(tx, "x", DISCORD)
        [row] = claim(tx, "discord")
        assert row.message.after == ""  # there is no doubt
        outbox.mark_sent(tx, row, Receipt(message_id=receipt))
    for address in (Address(account="discord", chat="43"), Address(account="discord", chat="42", thread="7")):
        say(tx, "elsewhere", address)
        [row] = claim(tx, "discord")
        outbox.mark_sent(tx, row, Receipt(message_id="500"))
    say(tx, "x", DISCORD)
    claim(tx, "discord")
    outbox.after_crash(tx)
    [row] = claim(tx, "discord")
    assert row.message.after == "100"


def test_a_piece_that_may_have_arrived_stands_behind_the_one_before(tx: Transaction) -> None:
    say(tx, "long", DISCORD)
    [row] = claim(tx, "discord")
    outbox.mark_piece_sent(tx, row, Receipt(message_id="200", more=True))
    claim(tx, "discord")
    outbox.after_crash(tx)
    [row] = claim(tx, "discord")
    assert (row.message.piece, row.message.after) == (1, "200")
