"""A group that goes on under another id, and where an owner can be reached."""

import pytest

from gateway.messages import Address, InboundMessage, Receipt, Sender, SessionKey, Text
from gateway.store import chats, drafts, inbox, members, outbox, people, sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.inspect import read_counts
from tests.gateway.store.conftest import Clock
from tests.gateway.store.line import begin
from tests.gateway.store.rows import ANN, inbound, key_of, take

OLD = SessionKey(platform="telegram", kind="group", chat="-7")
NEW = SessionKey(platform="telegram", kind="group", chat="-1007")


def move(tx: Transaction) -> None:
    chats.move(tx, "telegram", "-7", "-1007")


def allow(tx: Transaction, chat: str, *, home_ms: int | None = None) -> None:
    tx.execute("INSERT INTO chats (account, chat, allowed_ms, home_ms) VALUES ('telegram', ?, 1, ?)", chat, home_ms)


def is_allowed(tx: Transaction, chat: str) -> bool:
    return people.read_status(tx, "telegram", "1", chat).chat_allowed


def test_the_conversation_goes_along(tx: Transaction) -> None:
    session = sessions.open_current(tx, OLD)
    move(tx)
    take(tx, inbound("hello", key=NEW))
    turn = begin(tx)
    assert turn.session_id == session.id
    assert tx.one("SELECT chat FROM sessions")["chat"] == "-1007"  # type: ignore[index]


def test_topics_and_conversations_of_ones_own_go_along(tx: Transaction) -> None:
    for part in ({"thread": "3"}, {"user": "42"}):
        sessions.open_current(tx, SessionKey(platform="telegram", kind="group", chat="-7", **part))
    move(tx)
    keys = [row["key"] for row in tx.all("SELECT key FROM sessions ORDER BY key")]
    assert keys == ["telegram:group:-1007:3", "telegram:group:-1007:u42"]


def test_the_same_number_on_another_account_stays(tx: Transaction) -> None:
    elsewhere = [
        SessionKey(platform="telegram", account="work", kind="group", chat="-7"),
        SessionKey(platform="discord", kind="group", chat="-7"),
        SessionKey(platform="telegram", kind="group", chat="-77"),
    ]
    for key in elsewhere:
        take(tx, inbound("hello", key=key))
        sessions.open_current(tx, key)
        outbox.add(tx, key.reply_address("1"), [Text(text="x")])
    move(tx)
    for table in ("sessions", "inbox", "outbox"):
        assert tx.count(f"SELECT COUNT(*) FROM {table} WHERE chat = '-1007'") == 0, table
    assert tx.count("SELECT COUNT(*) FROM sessions WHERE key LIKE '%-1007%'") == 0


def test_what_waits_goes_along_even_in_a_group_without_a_conversation_yet(tx: Transaction) -> None:
    take(tx, inbound("before", key=OLD))
    move(tx)
    take(tx, inbound("after", key=NEW))
    turn = begin(tx)
    assert [message.text for message in turn.messages] == ["before", "after"]
    assert (turn.session_key, turn.address.chat) == (str(NEW), "-1007")
    assert turns.begin(tx) is None


def test_a_running_turn_goes_on_under_the_new_id_and_is_the_only_one(tx: Transaction) -> None:
    take(tx, inbound("dig", key=OLD))
    turn = begin(tx)
    move(tx)
    take(tx, inbound("meanwhile", key=NEW))
    assert turns.begin(tx) is None
    assert turns.request_stop(tx, str(NEW))
    [resumed] = turns.resume_all(tx)
    assert (resumed.session_key, resumed.address.chat) == (str(NEW), "-1007")
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    following = begin(tx)
    assert following.session_id == turn.session_id


def test_a_turn_that_runs_under_the_new_id_already_does_no_harm(tx: Transaction) -> None:
    running = []
    for key in (OLD, NEW):
        take(tx, inbound("dig", key=key))
        running.append(turns.begin(tx))
    move(tx)
    for turn in running:
        assert turn is not None
        turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    assert read_counts(tx)["running"] == 0


def test_of_two_conversations_the_one_under_the_new_id_is_current(tx: Transaction) -> None:
    old, new = sessions.open_current(tx, OLD), sessions.open_current(tx, NEW)
    move(tx)
    current = sessions.find_current(tx, str(NEW))
    assert current is not None
    assert current.id == new.id
    assert tx.one("SELECT key, end_reason FROM sessions WHERE id = ?", old.id)["end_reason"] == "moved"  # type: ignore[index]
    assert sessions.find_current(tx, str(OLD)) is None


def test_old_conversations_stay_in_the_chats_own_history(tx: Transaction) -> None:
    for _ in range(3):
        sessions.open_current(tx, OLD)
        sessions.end_current(tx, str(OLD), reason="new")
    sessions.open_current(tx, OLD)
    move(tx)
    assert tx.count("SELECT COUNT(*) FROM sessions WHERE key = ?", str(NEW)) == 4
    assert sessions.find_current(tx, str(NEW)) is not None


def test_what_is_to_be_said_goes_along(tx: Transaction) -> None:
    address = OLD.reply_address("1")
    for text in ("sent", "in flight", "waiting"):
        outbox.add(tx, address, [Text(text=text)])
    [row] = outbox.claim(tx, "telegram", 1)
    outbox.mark_sent(tx, row, Receipt(message_id="r"))
    [row] = outbox.claim(tx, "telegram", 1)
    move(tx)
    outbox.retry_at(tx, row, 0, "it has moved", unsure=False)
    [row] = outbox.claim(tx, "telegram", 5)
    assert (row.message.text, row.message.address.chat) == ("in flight", "-1007")
    assert [row["chat"] for row in tx.all("SELECT chat FROM outbox ORDER BY id")] == ["-7", "-1007", "-1007"]


def test_an_answer_in_doubt_can_be_asked_for_in_the_new_place(tx: Transaction) -> None:
    outbox.add(tx, OLD.reply_address("1"), [Text(text="x")])
    [row] = outbox.claim(tx, "telegram", 1)
    outbox.give_up(tx, row, "in_doubt", "no answer")
    move(tx)
    assert outbox.send_again(tx, row.message.key, account="telegram", chat="-1007")


def test_a_message_with_a_number_that_is_taken_there_is_not_lost(tx: Transaction) -> None:
    """Numbers begin anew under the new id."""
    take(tx, inbound("old 5", key=OLD, message_id="5"))
    take(tx, inbound("new 5", key=NEW, message_id="5"))
    move(tx)
    turn = begin(tx)
    assert [message.text for message in turn.messages] == ["old 5", "new 5"]
    assert (turn.session_key, turns.begin(tx)) == (str(NEW), None)


def test_a_new_message_is_not_taken_for_a_copy_of_an_old_one_of_that_number(tx: Transaction) -> None:
    take(tx, inbound("old 5", key=OLD, message_id="5"))
    move(tx)
    take(tx, inbound("new 5", key=NEW, message_id="5"))
    assert inbox.count_waiting(tx, str(NEW)) == 2


def test_what_was_overheard_goes_along(tx: Transaction) -> None:
    for text in ("lunch?", "pizza"):
        chats.add_overheard(tx, inbound(text, key=OLD), keep=20)
    move(tx)
    assert chats.take_overheard(tx, str(NEW)) == "Ann: lunch?\nAnn: pizza"
    assert chats.take_overheard(tx, str(OLD)) == ""


def test_a_group_that_was_allowed_stays_so(tx: Transaction) -> None:
    allow(tx, "-7")
    move(tx)
    assert is_allowed(tx, "-1007")
    assert not is_allowed(tx, "-7")


@pytest.mark.parametrize("old_allowed", [True, False])
def test_what_is_known_of_both_is_joined(tx: Transaction, old_allowed: bool) -> None:
    tx.execute(
        "INSERT INTO chats (account, chat, allowed_ms, home_ms) VALUES ('telegram', '-7', ?, 9)", old_allowed or None
    )
    if old_allowed:
        tx.execute("INSERT INTO chats (account, chat, title) VALUES ('telegram', '-1007', 'Cooks')")
    else:
        allow(tx, "-1007")
    move(tx)
    [row] = tx.all("SELECT * FROM chats")
    assert (row["chat"], row["home_ms"]) == ("-1007", 9)
    assert is_allowed(tx, "-1007")


def test_moving_twice_or_a_group_we_never_heard_of_changes_nothing(tx: Transaction) -> None:
    sessions.open_current(tx, OLD)
    move(tx)
    move(tx)
    chats.move(tx, "telegram", "-8", "-1008")
    assert tx.count("SELECT COUNT(*) FROM sessions WHERE key = ?", str(NEW)) == 1


def heard(tx: Transaction, message: InboundMessage, role: str = "owner") -> None:
    person_id = people.recognise(tx, message.key.account_name, message.sender, role=role)
    inbox.insert(tx, message, person_id=person_id, role=role)


def test_an_owner_is_found_where_they_spoke_last_among_the_accounts_given(tx: Transaction) -> None:
    assert chats.find_owner_chat(tx, {"telegram"}) is None
    for account in ("telegram", "telegram@work", "discord"):
        heard(tx, inbound("hello", key=key_of(account)))
    assert chats.find_owner_chat(tx, {"telegram", "telegram@work"}) == Address(account="telegram@work", chat="42")
    assert chats.find_owner_chat(tx, {"telegram"}) == Address(account="telegram", chat="42")
    assert chats.find_owner_chat(tx, set()) is None


@pytest.mark.parametrize("was", ["listed", "paired"])
def test_who_is_an_owner_no_longer_is_not_told(tx: Transaction, clock: Clock, was: str) -> None:
    if was == "paired":
        members.admit(tx, "telegram", ANN.id, ANN.name, "owner")
    heard(tx, inbound("hello"))
    assert chats.find_owner_chat(tx, {"telegram"}) is not None
    clock.forward(hours=1)
    members.admit(tx, "telegram", ANN.id, ANN.name, "guest")
    assert chats.find_owner_chat(tx, {"telegram"}) is None
    clock.forward(hours=1)
    heard(tx, inbound("hello"), "guest")
    assert chats.find_owner_chat(tx, {"telegram"}) is None


def test_a_guest_who_is_an_owner_by_the_config_since_is_told(tx: Transaction, clock: Clock) -> None:
    members.admit(tx, "telegram", ANN.id, ANN.name, "guest")
    clock.forward(hours=1)
    heard(tx, inbound("hello"), "owner")
    assert chats.find_owner_chat(tx, {"telegram"}) == Address(account="telegram", chat="42")


def test_an_owner_who_spoke_a_thousand_times_elsewhere_is_still_found(tx: Transaction) -> None:
    heard(tx, inbound("hello", key=key_of("discord")))
    for _ in range(1_100):
        heard(tx, inbound("hello", key=key_of("telegram")))
    assert chats.find_owner_chat(tx, {"discord"}) == Address(account="discord", chat="42")


def test_groups_members_and_owners_of_old_are_not_told(tx: Transaction) -> None:
    heard(tx, inbound("hello", key=key_of("telegram", kind="group")))
    heard(tx, inbound("hello", key=key_of("telegram", chat="43"), sender=Sender(id="43")), "member")
    members.admit(tx, "telegram", "44", "Eve", "owner")
    heard(tx, inbound("hello", key=key_of("telegram", chat="44"), sender=Sender(id="44")))
    tx.execute("UPDATE identities SET revoked_ms = 1 WHERE user_id = '44'")
    assert chats.find_owner_chat(tx, {"telegram"}) is None
    heard(tx, inbound("hello", key=key_of("telegram", chat="42"), sender=ANN))
    assert chats.find_owner_chat(tx, {"telegram"}) == Address(account="telegram", chat="42")


def test_drafts_of_the_old_group_are_out_of_reach_and_no_number_of_theirs_is_used_in_the_new_one(
    tx: Transaction,
) -> None:
    old, elsewhere = (Address(account="telegram", chat=chat) for chat in ("-7", "-8"))
    for turn, place in (("moved", old), ("stays", elsewhere)):
        drafts.begin(tx, drafts.new(turn, place))
    outbox.add(tx, old, [Text(text="in place")], edits="5")
    outbox.add(tx, old, [Text(text="instead")], replaces="6")
    move(tx)
    assert [row["turn_id"] for row in tx.all("SELECT turn_id FROM drafts")] == ["stays"]
    moved = tx.all("SELECT chat, edits, replaces FROM outbox")
    assert [tuple(row) for row in moved] == [("-1007", "", "")] * 2
