"""/approve and /deny: what they reach without an id, and with one."""

from typing import Any

import pytest

from gateway.approvals import decisions
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply
from gateway.messages import Address, Sender, SessionKey
from gateway.policies.access import Role
from gateway.store import approvals
from gateway.store.approvals import Approval
from gateway.store.db.connection import Transaction
from tests.gateway.store.rows import KEY, a_question, an_asker, inbound, take

OWNERS = SessionKey(platform="telegram", kind="dm", chat="1")
GROUP = SessionKey(platform="telegram", kind="group", chat="-7")
THERE = Address(account="telegram", chat="1")  # where the owner is asked


RULE = "git-discard"
GONE = CommandReply("That approval request no longer exists.")


def put(
    tx: Transaction, action: str = "rm -r build", *, at: Address = THERE, call: str = "c1", **asker: Any
) -> Approval:
    """A question of Ann's."""
    question = a_question(action, rules=(RULE,))
    return decisions.ask(
        tx, an_asker(**asker), call, question, at, origin=Address(account="telegram", chat="42"), wait_ms=60_000
    )


def state(tx: Transaction, approval: Approval) -> str:
    found = approvals.get(tx, approval.id)
    assert found is not None
    return found.state


def say(tx: Transaction, words: str, key: SessionKey = OWNERS, role: Role = "owner", sender: str = "1") -> str:
    name, _, arguments = words.removeprefix("/").partition(" ")
    call = CommandCall(key=key, name=name, arguments=arguments, role=role, sender_id=sender, sender_name="Olga")
    return make_commands().run(tx, call).text


@pytest.mark.parametrize(("words", "become"), [("/approve", "approved"), ("/deny", "denied")])
def test_without_an_id_the_one_that_stands_here_is_meant(tx: Transaction, words: str, become: str) -> None:
    here, elsewhere = put(tx), put(tx, call="c2", at=Address(account="discord", chat="9"))
    assert "rm -r build" in say(tx, words)
    assert (state(tx, here), state(tx, elsewhere)) == (become, "waiting")


def test_without_an_id_the_one_about_this_conversation_is_meant(tx: Transaction) -> None:
    question = put(tx, key=GROUP)
    say(tx, "/approve", GROUP)
    assert state(tx, question) == "approved"


@pytest.mark.parametrize("words", ["/approve", "/approve always", "/deny"])
def test_without_an_id_nothing_elsewhere_is_decided_but_named(tx: Transaction, words: str) -> None:
    one = put(tx, at=Address(account="discord", chat="9"))
    name = words.split()[0]
    assert (
        say(tx, words) == f"No approval request is waiting here. Waiting in other chats:\n{name} {one.id}: rm -r build"
    )
    assert state(tx, one) == "waiting"


def test_in_a_group_what_others_asked_for_is_not_told(tx: Transaction) -> None:
    first = put(tx, "rm -r secret")
    assert (
        say(tx, "/approve", GROUP)
        == f"No approval request is waiting here. Waiting in other chats:\n/approve {first.id}"
    )
    assert say(tx, f"/approve {first.id}", GROUP) == f"{first.id} has been answered."
    assert state(tx, first) == "approved"
    assert say(tx, f"/approve {first.id}", GROUP) == f"No approval request {first.id} is waiting."
    assert "rm -r secret" in say(tx, f"/approve {first.id}")


@pytest.mark.parametrize(("words", "become"), [("/approve {id}", "approved"), ("/deny {id}", "denied")])
def test_with_an_id_an_owner_decides_any(tx: Transaction, words: str, become: str) -> None:
    one = put(tx, at=Address(account="discord", chat="9"))
    put(tx, call="c2")
    assert "rm -r build" in say(tx, words.format(id=one.id))
    assert state(tx, one) == become


@pytest.mark.parametrize("words", ["/approve", "/approve {id}", "/deny", "/deny {id}"])
def test_a_member_reaches_nothing_of_others(tx: Transaction, words: str) -> None:
    one = put(tx, "rm -r secret")
    bob = SessionKey(platform="telegram", kind="dm", chat="43")
    told = say(tx, words.format(id=one.id), bob, "member", "43")
    assert told.startswith("No approval request")
    assert "secret" not in told
    approvals.deny(tx, one, by="x")
    assert "secret" not in say(tx, f"/approve {one.id}", bob, "member", "43")


def test_whoever_it_is_for_may_do_without(tx: Transaction) -> None:
    one = put(tx)
    assert say(tx, "/approve", KEY, "member", "42") == decisions.ONLY_OWNERS
    assert state(tx, one) == "waiting"
    say(tx, "/deny", KEY, "member", "42")
    assert state(tx, one) == "denied"


def test_several_here_are_asked_back(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2", sender=Sender(id="43", name="Bob"))
    told = say(tx, "/approve session")
    assert first.id in told
    assert second.id in told
    assert [state(tx, one) for one in (first, second)] == ["waiting", "waiting"]


def test_where_none_waits_that_is_said(tx: Transaction) -> None:
    assert say(tx, "/approve") == "No approval request is waiting."
    assert say(tx, "/deny nosuch") == "No approval request nosuch is waiting."


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        ("/approve", "once"),
        ("/approve once", "once"),
        ("/approve session", "session"),
        ("/approve {id}", "once"),
        ("/approve {id} always", "always"),
        ("/approve {ID} SESSION", "session"),
    ],
)
def test_how_long_it_is_allowed_for_stands_last(tx: Transaction, words: str, scope: str) -> None:
    one = put(tx)
    say(tx, words.format(id=one.id, ID=one.id.upper()))
    found = approvals.get(tx, one.id)
    assert found is not None
    assert (found.state, found.scope) == ("approved", scope)


@pytest.mark.parametrize("words", ["/approve deny", "/approve {id} deny", "/approve {id} or not", "/deny {id} always"])
def test_words_that_are_no_id_decide_nothing(tx: Transaction, words: str) -> None:
    one = put(tx)
    words = words.format(id=one.id)
    assert say(tx, words) == f"No approval request {words.partition(' ')[2]} is waiting."
    assert state(tx, one) == "waiting"


def test_an_id_chooses_one_of_several_here(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2")
    assert "Denied" in say(tx, f"/deny {second.id.upper()}")
    assert (state(tx, first), state(tx, second)) == ("waiting", "denied")


def test_a_question_that_stands_here_and_is_about_here_is_one(tx: Transaction) -> None:
    one = put(tx, key=OWNERS)
    assert "Allowed once" in say(tx, "/approve")
    assert state(tx, one) == "approved"


def messages(tx: Transaction) -> list[tuple[str, bool]]:
    """What is to be sent in the chat where the question stands: its state, and whether it changes a message."""
    rows = tx.all("SELECT state, edits FROM outbox WHERE chat = '1' ORDER BY id")
    return [(row["state"], bool(row["edits"])) for row in rows]


def test_the_message_of_a_question_says_what_a_command_decided(tx: Transaction) -> None:
    put(tx)
    tx.execute("UPDATE outbox SET state = 'sent', receipt = 'q' || id")
    assert say(tx, "/approve", KEY, "member", "42") == decisions.ONLY_OWNERS
    assert messages(tx) == [("sent", False)]
    say(tx, "/deny")
    assert messages(tx) == [("sent", False), ("ready", True)]


def test_a_question_that_nobody_may_decide_here_is_still_to_be_sent(tx: Transaction) -> None:
    put(tx)
    say(tx, "/approve", KEY, "member", "42")
    assert messages(tx) == [("ready", False)]


@pytest.mark.parametrize("kind", ["group", "channel", "thread"])
def test_where_others_read_along_a_decision_elsewhere_is_told_without_its_words(tx: Transaction, kind: str) -> None:
    one = put(tx)
    key = SessionKey(platform="telegram", kind=kind, chat="-8")
    assert say(tx, f"/deny {one.id}", key) == f"{one.id} has been answered."


def test_a_terminal_is_read_by_its_owner_alone(tx: Transaction) -> None:
    one = put(tx, "rm -r secret")
    assert "secret" in say(tx, f"/deny {one.id}", SessionKey(platform="cli", chat="1a"))


def test_in_a_group_the_question_that_stands_there_is_told(tx: Transaction) -> None:
    one = put(tx, at=Address(account="telegram", chat="-7"))
    assert "rm -r build" in say(tx, "/deny", GROUP)
    assert "rm -r build" in say(tx, f"/approve {one.id}", GROUP)  # what became of it, which all there have seen
    assert "rm -r build" in say(tx, f"/approve {one.id}", GROUP, "member", "43")


@pytest.mark.parametrize("place", [Address(account="discord", chat="-7"), Address(account="telegram", chat="-9")])
def test_a_chat_of_the_same_name_elsewhere_is_another(tx: Transaction, place: Address) -> None:
    one = put(tx, at=place)
    approvals.deny(tx, one, by="x")
    assert say(tx, f"/approve {one.id}", GROUP) == f"No approval request {one.id} is waiting."


def test_an_owner_alone_with_us_is_told_what_became_of_any(tx: Transaction) -> None:
    one = put(tx, at=Address(account="discord", chat="9"))
    approvals.deny(tx, one, by="x")
    assert say(tx, f"/approve {one.id}") == "⛔ Denied: `rm -r build`"
    assert say(tx, f"/approve {one.id}", KEY, "member", "42") == f"No approval request {one.id} is waiting."


def test_a_member_is_not_told_that_anothers_question_still_waits(tx: Transaction) -> None:
    one = put(tx, at=Address(account="telegram", chat="-7"))
    assert say(tx, f"/deny {one.id}", GROUP, "member", "43") == f"No approval request {one.id} is waiting."
    assert state(tx, one) == "waiting"


# Buttons


def press(
    tx: Transaction, arguments: str, key: SessionKey = OWNERS, role: Role = "owner", sender: str = "1"
) -> CommandReply:
    call = CommandCall(key=key, name="approval", arguments=arguments, role=role, sender_id=sender, sender_name="Olga")
    return make_commands().press(tx, call)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("once", "✅ Allowed once by Olga: `rm -r build`"),
        ("session", f"✅ Allowed for this conversation by Olga: `rm -r build` (also allows `{RULE}`)"),
        ("always", f"✅ Always allowed by Olga: `rm -r build` (also allows `{RULE}`)"),
        ("deny", "⛔ Denied by Olga: `rm -r build`"),
    ],
)
def test_a_button_decides_and_its_message_says_so(tx: Transaction, word: str, told: str) -> None:
    one = put(tx)
    assert press(tx, f"{one.id}:{word}") == CommandReply(told, in_place=True)
    assert state(tx, one) == ("denied" if word == "deny" else "approved")
    found = approvals.get(tx, one.id)
    assert found is not None
    assert found.decided_by == "telegram:1"
    late = press(tx, f"{one.id}:deny", sender="2")
    assert late == CommandReply(told.replace(" by Olga", ""), in_place=True)
    assert approvals.get(tx, one.id) == found


@pytest.mark.parametrize("arguments", ["{id}", "{id}:", "{id}:yes", "nosuch:once", ":once", "", "{id}:once:deny"])
def test_a_button_that_nobody_was_shown_does_nothing(tx: Transaction, arguments: str) -> None:
    one = put(tx)
    assert press(tx, arguments.format(id=one.id)) == GONE
    assert state(tx, one) == "waiting"


@pytest.mark.parametrize(
    "key",
    [
        GROUP,
        SessionKey(platform="telegram", account="work", kind="dm", chat="1"),
        SessionKey(platform="discord", chat="1"),
    ],
)
def test_a_button_of_another_chat_does_nothing(tx: Transaction, key: SessionKey) -> None:
    one = put(tx)
    assert press(tx, f"{one.id}:once", key) == GONE
    assert again(tx, one, key) == GONE
    assert state(tx, one) == "waiting"


def test_a_button_pressed_by_somebody_who_may_not_leaves_the_question_there(tx: Transaction) -> None:
    one = put(tx, at=Address(account="telegram", chat="-7"))
    told = press(tx, f"{one.id}:once", GROUP, "member", "43")
    assert told == CommandReply(decisions.ONLY_OWNERS)
    assert state(tx, one) == "waiting"
    approvals.deny(tx, one, by="x")  # what became of it all may see who see its message
    over = CommandReply("⛔ Denied: `rm -r build`", in_place=True)
    assert press(tx, f"{one.id}:once", GROUP, "member", "43") == over


# Asking again


def again(
    tx: Transaction, one: Approval, key: SessionKey = OWNERS, role: Role = "owner", sender: str = "1"
) -> CommandReply:
    call = CommandCall(
        key=key, name="askagain", arguments=one.id, role=role, sender_id=sender, role_of=lambda tx, key, id_: "member"
    )
    return make_commands().press(tx, call)


def test_what_nobody_decided_is_asked_again_below_what_became_of_it(tx: Transaction) -> None:
    one = put(tx, turn_id="t1")
    take(tx, inbound("tidy up"))
    tx.execute("UPDATE inbox SET turn_id = 't1', state = 'done', role = 'member'")
    approvals.expire(tx, one)
    over = "⌛ No answer in time, so it was not done: `rm -r build`"
    assert again(tx, one) == CommandReply(f"{over}\nTrying again; I will ask again.", in_place=True)
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE kind = 'wake'") == 1


def test_what_is_not_there_or_was_decided_is_not_asked_again(tx: Transaction) -> None:
    one = put(tx)
    waiting = CommandReply("Waiting for an answer: `rm -r build`", in_place=True)
    assert again(tx, one) == waiting
    approvals.deny(tx, one, by="x")
    assert again(tx, one) == CommandReply("⛔ Denied: `rm -r build`", in_place=True)
    tx.execute("DELETE FROM approvals")
    assert again(tx, one) == GONE
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE kind = 'wake'") == 0


@pytest.mark.parametrize(("sender", "may"), [("42", True), ("43", False)])
def test_whoever_it_is_for_may_have_it_asked_again_and_nobody_else(tx: Transaction, sender: str, may: bool) -> None:
    one = put(tx, at=Address(account="telegram", chat="-7"))
    approvals.expire(tx, one)
    told = again(tx, one, GROUP, "member", sender)
    assert (told.text == decisions.ONLY_OWNERS) != may
    assert told.in_place == may
