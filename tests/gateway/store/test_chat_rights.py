"""What owners decided about a chat."""

from gateway.store import chats, people
from gateway.store.connection import Transaction


def test_a_chat_is_opened_and_closed(tx: Transaction) -> None:
    assert not people.standing(tx, "telegram", "1", "-100").chat_allowed
    chats.allow(tx, "telegram", "-100", by="telegram:42")
    assert people.standing(tx, "telegram", "1", "-100").chat_allowed
    assert not people.standing(tx, "telegram", "1", "-101").chat_allowed
    assert not people.standing(tx, "telegram@work", "1", "-100").chat_allowed
    assert chats.disallow(tx, "telegram", "-100")
    assert not people.standing(tx, "telegram", "1", "-100").chat_allowed
    assert not chats.disallow(tx, "telegram", "-100")


def test_each_account_has_one_home_and_a_home_is_not_open(tx: Transaction) -> None:
    assert chats.home(tx, "telegram") is None
    chats.set_home(tx, "telegram", "1")
    chats.set_home(tx, "discord", "9")
    chats.allow(tx, "telegram", "2", by="")
    chats.set_home(tx, "telegram", "2")
    assert (chats.home(tx, "telegram"), chats.home(tx, "discord")) == ("2", "9")
    assert people.standing(tx, "telegram", "1", "2").chat_allowed
    assert not people.standing(tx, "telegram", "1", "1").chat_allowed
