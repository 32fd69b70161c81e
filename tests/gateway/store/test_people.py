"""People, and who they are on which platform."""

from gateway.messages import Sender, SessionKey
from gateway.policies.access import Rules, SenderStatus
from gateway.store import members, people
from gateway.store.db.connection import Transaction
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


def test_of_a_stranger_nothing_is_known(tx: Transaction) -> None:
    assert people.read_status(tx, "telegram", "42", "42") == SenderStatus()


def test_somebody_who_was_only_seen_is_not_paired(tx: Transaction) -> None:
    people.recognise(tx, "telegram", Sender(id="42"), role="guest")
    assert people.read_status(tx, "telegram", "42", "42") == SenderStatus()


def test_who_was_let_in_has_their_role_on_that_account_alone(tx: Transaction) -> None:
    members.admit(tx, "telegram", "42", "Ann", "member")
    assert people.read_status(tx, "telegram", "42", "-7") == SenderStatus(paired_as="member")
    assert people.read_status(tx, "telegram@work", "42", "-7") == SenderStatus()
    assert people.read_status(tx, "telegram", "43", "-7") == SenderStatus()


def test_who_was_shown_the_door_is_known_for_it(tx: Transaction) -> None:
    members.admit(tx, "telegram", "42", "Ann", "member")
    tx.execute("UPDATE identities SET paired_ms = NULL, revoked_ms = 1")
    assert people.read_status(tx, "telegram", "42", "42") == SenderStatus(revoked=True)


def test_an_allowed_chat_is_so_for_everybody_on_that_account_alone(tx: Transaction) -> None:
    tx.execute("INSERT INTO chats (account, chat, allowed_ms) VALUES ('telegram', '-7', 1), ('telegram', '-8', NULL)")
    assert people.read_status(tx, "telegram", "42", "-7") == SenderStatus(chat_allowed=True)
    assert people.read_status(tx, "telegram", "42", "-8") == SenderStatus()
    assert people.read_status(tx, "telegram@work", "42", "-7") == SenderStatus()


def test_what_lies_within_an_allowed_chat_is_allowed(tx: Transaction) -> None:
    tx.execute("INSERT INTO chats (account, chat, allowed_ms) VALUES ('telegram', '-7', 1)")
    assert people.read_status(tx, "telegram", "42", "topic", within="-7") == SenderStatus(chat_allowed=True)
    assert people.read_status(tx, "telegram", "42", "topic", within="-8") == SenderStatus()


def test_what_somebody_may_now_is_decided_as_for_a_message_of_theirs(tx: Transaction) -> None:
    key = SessionKey(platform="telegram", kind="dm", chat="42")
    assert people.find_role(tx, key, "42", Rules(), local=False) is None
    members.admit(tx, "telegram", "42", "Ann", "member")
    assert people.find_role(tx, key, "42", Rules(), local=False) == "member"
    assert people.find_role(tx, key, "42", Rules(), local=True) == "owner"
    assert people.find_role(tx, key, "42", Rules(owner_users=frozenset({"42"})), local=False) == "owner"
