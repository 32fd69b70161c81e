"""What owners decided about a chat."""

import pytest

from gateway.messages import Sender, SessionKey
from gateway.store import chats, inbox, people
from gateway.store.db.connection import Transaction
from tests.gateway.store.line import begin
from tests.gateway.store.rows import inbound, key_of


def test_a_chat_is_opened_and_closed(tx: Transaction) -> None:
    assert not people.read_status(tx, "telegram", "1", "-100").chat_allowed
    chats.allow(tx, "telegram", "-100", by="telegram:42")
    assert people.read_status(tx, "telegram", "1", "-100").chat_allowed
    assert not people.read_status(tx, "telegram", "1", "-101").chat_allowed
    assert not people.read_status(tx, "telegram@work", "1", "-100").chat_allowed
    assert chats.disallow(tx, "telegram", "-100")
    assert not people.read_status(tx, "telegram", "1", "-100").chat_allowed
    assert not chats.disallow(tx, "telegram", "-100")


def test_what_is_allowed_in_a_channel_is_allowed_in_its_threads(tx: Transaction) -> None:
    chats.allow(tx, "discord", "100", by="")
    assert people.read_status(tx, "discord", "1", "200", "100").chat_allowed
    assert not people.read_status(tx, "discord", "1", "200", "101").chat_allowed
    chats.allow(tx, "discord", "201", by="")
    assert people.read_status(tx, "discord", "1", "201", "101").chat_allowed
    assert not people.read_status(tx, "discord", "1", "101").chat_allowed


def test_closing_a_channel_ends_what_guests_have_waiting_in_its_threads(tx: Transaction) -> None:
    chats.allow(tx, "discord", "100", by="")
    thread = SessionKey(platform="discord", kind="thread", chat="200", within="100")
    guest = Sender(id="5")
    person_id = people.recognise(tx, "discord", guest, role="guest")
    row = inbox.insert(tx, inbound("hello", key=thread, sender=guest), person_id=person_id, role="guest")
    assert row is not None
    assert inbox.get(tx, row).key.within == "100"
    chats.disallow(tx, "discord", "100")
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE outcome = 'chat closed'") == 1


@pytest.mark.parametrize(("closed", "stays_open"), [("100", "200"), ("200", "100")])
def test_what_guests_have_waiting_stays_where_either_the_thread_or_its_channel_is_still_open(
    tx: Transaction, closed: str, stays_open: str
) -> None:
    for chat in (closed, stays_open):
        chats.allow(tx, "discord", chat, by="")
    thread = SessionKey(platform="discord", kind="thread", chat="200", within="100")
    guest = Sender(id="5")
    person_id = people.recognise(tx, "discord", guest, role="guest")
    inbox.insert(tx, inbound("hello", key=thread, sender=guest), person_id=person_id, role="guest")
    chats.disallow(tx, "discord", closed)
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == 1
    chats.disallow(tx, "discord", stays_open)
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE outcome = 'chat closed'") == 1


def test_each_account_has_one_home_and_a_home_is_not_open(tx: Transaction) -> None:
    assert chats.find_home(tx, "telegram") is None
    chats.set_home(tx, "telegram", "1")
    chats.set_home(tx, "discord", "9")
    chats.allow(tx, "telegram", "2", by="")
    chats.set_home(tx, "telegram", "2")
    assert (chats.find_home(tx, "telegram"), chats.find_home(tx, "discord")) == ("2", "9")
    assert people.read_status(tx, "telegram", "1", "2").chat_allowed
    assert not people.read_status(tx, "telegram", "1", "1").chat_allowed


def heard(tx: Transaction, role: str, *, account: str = "telegram", chat: str = "-100") -> int:
    message = inbound("hello", key=key_of(account, "group", chat), sender=Sender(id=role))
    person_id = people.recognise(tx, account, message.sender, role=role)
    row = inbox.insert(tx, message, person_id=person_id, role=role)
    assert row is not None
    return row


def test_what_guests_have_waiting_in_a_chat_ends_when_it_is_closed(tx: Transaction) -> None:
    chats.allow(tx, "telegram", "-100", by="")
    heard(tx, "guest")
    running = begin(tx)
    guests = heard(tx, "guest")
    stay = [
        running.messages[0].id,
        heard(tx, "member"),
        heard(tx, "owner"),
        heard(tx, "guest", chat="-101"),
        heard(tx, "guest", account="telegram@work"),
    ]
    assert chats.disallow(tx, "telegram", "-100")
    ended = tx.all("SELECT id, outcome FROM inbox WHERE state = 'done'")
    assert [(row["id"], row["outcome"]) for row in ended] == [(guests, "chat closed")]
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE state <> 'done'") == len(stay)
    assert tx.count("SELECT COUNT(*) FROM trail WHERE event = 'chat closed' AND inbox_id = ?", guests) == 1


def test_what_the_config_lets_in_goes_on_when_a_chat_is_closed(tx: Transaction) -> None:
    chats.allow(tx, "telegram", "-100", by="")
    heard(tx, "guest")
    assert chats.disallow(tx, "telegram", "-100", stays_open=True)
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == 1


def test_closing_a_chat_that_was_not_open_ends_nothing(tx: Transaction) -> None:
    """The config may have opened it."""
    heard(tx, "guest")
    assert not chats.disallow(tx, "telegram", "-100")
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == 1
