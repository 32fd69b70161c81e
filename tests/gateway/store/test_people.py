"""People, and who they are on which platform."""

from gateway.messages import Sender
from gateway.store import people
from gateway.store.connection import Transaction
from gateway.store.people import OWNER


def test_a_sender_is_made_a_person_once(tx: Transaction) -> None:
    ann = Sender(id="42", name="Ann")
    first = people.recognise(tx, "telegram", ann, role="member")
    assert people.recognise(tx, "telegram", Sender(id="42", name="Ann B."), role="member") == first
    [row] = tx.all("SELECT name, role FROM people")
    assert (row["name"], row["role"]) == ("Ann", "member")


def test_the_same_number_elsewhere_is_somebody_else(tx: Transaction) -> None:
    found = {
        people.recognise(tx, account, Sender(id=user), role="member")
        for account in ("telegram", "telegram@work", "discord")
        for user in ("1", "2")
    }
    assert len(found) == 6


def test_all_identities_of_the_owner_are_one_person(tx: Transaction) -> None:
    for account in ("cli", "socket", "telegram"):
        assert people.recognise(tx, account, Sender(id="1", name=account), role="owner") == OWNER
    [row] = tx.all("SELECT id, role FROM people")
    assert (row["id"], row["role"]) == (OWNER, "owner")
    assert tx.count("SELECT COUNT(*) FROM identities") == 3


def test_a_sender_without_a_name_is_called_by_id(tx: Transaction) -> None:
    people.recognise(tx, "telegram", Sender(id="42"), role="member")
    [row] = tx.all("SELECT name FROM people")
    assert row["name"] == "42"
