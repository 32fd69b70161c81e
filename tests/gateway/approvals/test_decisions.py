"""Who decides a question, by what, and what its message says in the end."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals import decisions
from gateway.approvals.decisions import ONLY_OWNERS, DecidingPerson
from gateway.approvals.wording import WROTE_INSTEAD, Verdict
from gateway.messages import Address, InboundMessage, Sender, SessionKey, Text
from gateway.policies.access import Role
from gateway.store import approvals, chats, drafts, inbox, outbox, people
from gateway.store.approvals import Approval, Asker
from gateway.store.db.connection import Transaction
from gateway.store.people import RoleOf
from tests.gateway.store.conftest import Clock, clock, path, tx
from tools.approval.gate import Decider, Question

__all__ = ["clock", "path", "tx"]

KEY = SessionKey(platform="telegram", kind="group", chat="-1")
HERE = Address(account="telegram", chat="-1")
ASKER = Asker(
    turn_id="t1",
    session_id="s1",
    session_key=str(KEY),
    holder="ann",
    person_id="ann",
    account="telegram",
    sender_id="42",
    sender_name="Ann",
)
QUESTION = Question(tool="terminal", action="rm -r x", reasons=("it deletes x",), rules=("git-discard",), binding="b")
OWNER = DecidingPerson(account="telegram", id="1", name="Olga", role="owner")
ANN = DecidingPerson(account="telegram", id="42", name="Ann", role="member")
BOB = DecidingPerson(account="telegram", id="43", name="Bob", role="member")
WAIT_MS = 60_000


def put(
    tx: Transaction,
    *,
    call: str = "c1",
    asker: Asker = ASKER,
    at: Address = HERE,
    origin: Address = HERE,
    seen: bool = True,
    **about: Any,
) -> Approval:
    """A question whose message has been sent, unless it is not to be `seen`."""
    question = replace(QUESTION, **about)
    approval = decisions.ask(tx, asker, call, question, at, origin=origin, wait_ms=WAIT_MS)
    if seen:
        tx.execute("UPDATE outbox SET state = 'sent', attempts = 1, receipt = 'q' || id WHERE state = 'ready'")
    return now(tx, approval)


def now(tx: Transaction, approval: Approval) -> Approval:
    found = approvals.get(tx, approval.id)
    assert found is not None
    return found


def said(text: str, person: DecidingPerson = OWNER, *, key: SessionKey = KEY, message_id: str = "m1") -> InboundMessage:
    sender = Sender(id=person.id, name=person.name)
    return InboundMessage(key=key, message_id=message_id, sender=sender, parts=(Text(text=text),), sent_ms=1)


def hear(tx: Transaction, text: str, person: DecidingPerson = OWNER, **more: Any) -> str:
    return decisions.read_answer(tx, said(text, person, **more), person.role)


def ready(tx: Transaction) -> list[dict[str, Any]]:
    return [dict(row) for row in tx.all("SELECT * FROM outbox WHERE state = 'ready' ORDER BY id")]


# Putting it


def test_a_question_rings_where_it_is_put_and_has_its_buttons(tx: Transaction) -> None:
    question = put(tx, seen=False)
    [row] = ready(tx)
    assert question.outbox_id == row["id"]
    assert (row["account"], row["chat"], row["kind"], row["topic"]) == ("telegram", "-1", "notice", "approval")
    assert (row["notify"], row["turn_id"], row["edits"]) == (1, "t1", "")
    assert row["expires_ms"] - row["created_ms"] == WAIT_MS  # nobody is asked what is over
    assert abs(question.expires_ms - row["expires_ms"]) < 5_000
    assert f"approval:{question.id}:once" in row["choices"]
    assert "May I do this?" in row["parts"]


@pytest.mark.parametrize(
    "origin",
    [replace(HERE, account="discord"), replace(HERE, chat="-2"), replace(HERE, thread="7")],
    ids=["account", "chat", "thread"],
)
def test_put_elsewhere_it_says_for_whom_and_the_chat_is_told_in_silence(tx: Transaction, origin: Address) -> None:
    question = put(tx, origin=origin, seen=False)
    asked, told = ready(tx)
    assert "May I do this for Ann?" in asked["parts"]
    assert question.outbox_id == asked["id"]
    assert (told["account"], told["chat"], told["thread"]) == (origin.account, origin.chat, origin.thread)
    assert "owner's approval" in told["parts"]
    assert (told["notify"], told["choices"], told["turn_id"]) == (0, "[]", "t1")


# Who may


@pytest.mark.parametrize(
    ("person", "decider", "may_decide", "may_deny"),
    [
        (OWNER, "owner", True, True),
        (OWNER, "asker", True, True),
        (ANN, "owner", False, True),
        (ANN, "asker", True, True),
        (BOB, "owner", False, False),
        (BOB, "asker", False, False),
        (replace(ANN, role="guest"), "asker", True, True),
        (replace(ANN, role="guest"), "owner", False, True),
        (replace(ANN, account="discord"), "asker", False, False),  # the same number elsewhere is somebody else
        (replace(ANN, account="telegram@work"), "asker", False, False),
    ],
)
def test_who_may_decide_and_who_may_deny(
    tx: Transaction, person: DecidingPerson, decider: Decider, may_decide: bool, may_deny: bool
) -> None:
    question = put(tx, decider=decider)
    assert decisions.may_decide(question, person) == may_decide
    assert decisions.may_deny(question, person) == may_deny
    for verdict in ("once", "session", "always"):
        if not may_decide:
            assert decisions.decide(tx, question, verdict, person) == ONLY_OWNERS
    if not may_deny:
        assert decisions.decide(tx, question, "deny", person) == ONLY_OWNERS
    assert now(tx, question).is_waiting
    assert approvals.rules(tx) == []


@pytest.mark.parametrize("decider", ["owner", "asker"])
def test_what_several_asked_together_is_nobodys_own(tx: Transaction, decider: Decider) -> None:
    question = put(tx, asker=replace(ASKER, sender_id="", sender_name=""), decider=decider)
    nobody = DecidingPerson(account="telegram", id="", name="", role="member")
    assert not decisions.may_decide(question, nobody)
    assert not decisions.may_deny(question, nobody)
    assert not decisions.may_deny(question, ANN)


@pytest.mark.parametrize(
    ("verdict", "state", "scope", "said_of_it"),
    [
        ("once", "approved", "once", "Allowed once by Olga"),
        ("session", "approved", "session", "Allowed for this conversation"),
        ("always", "approved", "always", "Always allowed"),
        ("deny", "denied", "", "Denied by Olga"),
    ],
)
def test_what_is_decided_is_written_down_and_told(
    tx: Transaction, verdict: Verdict, state: str, scope: str, said_of_it: str
) -> None:
    question = put(tx)
    assert said_of_it in decisions.decide(tx, question, verdict, OWNER)
    decided = now(tx, question)
    assert (decided.state, decided.scope, decided.decided_by) == (state, scope, "telegram:1")
    assert len(approvals.rules(tx)) == (scope in ("session", "always"))


@pytest.mark.parametrize("verdict", ["session", "always"])
def test_what_offers_no_rule_is_allowed_once_whatever_was_pressed(tx: Transaction, verdict: Verdict) -> None:
    question = put(tx, rules=())
    decisions.decide(tx, question, verdict, OWNER)
    assert now(tx, question).scope == "once"


def test_whoever_comes_later_is_told_what_was_decided_and_not_named(tx: Transaction) -> None:
    question = put(tx)
    decisions.decide(tx, question, "deny", OWNER)
    late = decisions.decide(tx, question, "always", replace(OWNER, id="2", name="Late"))
    assert late == "⛔ Denied: `rm -r x`"
    assert now(tx, question).decided_by == "telegram:1"
    assert approvals.rules(tx) == []


def test_a_place_without_people_is_named_by_itself() -> None:
    assert DecidingPerson(account="cli", id="", name="", role="owner").handle == "cli"
    assert OWNER.handle == "telegram:1"


# Its last words


def test_the_message_is_changed_in_silence_and_has_no_buttons(tx: Transaction) -> None:
    question = put(tx)
    approvals.deny(tx, question, by="x")
    decisions.update_message(tx, question)
    [row] = ready(tx)
    assert row["edits"] == f"q{question.outbox_id}"
    assert (row["notify"], row["choices"], row["kind"], row["topic"]) == (0, "[]", "notice", "approval")
    assert (row["account"], row["chat"]) == ("telegram", "-1")
    assert "Denied" in row["parts"]


def test_what_nobody_decided_can_be_asked_again(tx: Transaction) -> None:
    question = put(tx)
    decisions.expire(tx, question)
    [row] = ready(tx)
    assert f'[["Ask again", "askagain:{question.id}"]]' == row["choices"]
    assert now(tx, question).state == "expired"


def test_what_was_decided_meanwhile_does_not_expire(tx: Transaction) -> None:
    question = put(tx)
    approvals.deny(tx, question, by="x")
    decisions.expire(tx, question)
    assert now(tx, question).state == "denied"
    assert ready(tx) == []


def test_a_message_that_was_not_sent_yet_is_not_sent(tx: Transaction) -> None:
    question = put(tx, seen=False)
    decisions.withdraw(tx, "t1")
    assert ready(tx) == []
    assert tx.count("SELECT COUNT(*) FROM outbox WHERE state = 'expired'") == 1
    assert now(tx, question).state == "withdrawn"


def test_a_question_without_a_message_has_nothing_to_change(tx: Transaction) -> None:
    question = put(tx)
    chats.move(tx, "telegram", "-1", "-2")
    decisions.update_message(tx, question)
    decisions.update_message(tx, replace(question, id="gone"))
    assert ready(tx) == []


def test_with_its_turn_all_that_wait_are_withdrawn_and_no_other(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2")
    other = put(tx, call="c3", asker=replace(ASKER, turn_id="t2"))
    decisions.withdraw(tx, "t1")
    assert [now(tx, one).state for one in (first, second, other)] == ["withdrawn", "withdrawn", "waiting"]
    assert len(ready(tx)) == 2
    decisions.withdraw(tx, "t1")
    assert len(ready(tx)) == 2


# Words in the chat


@pytest.mark.parametrize(
    ("text", "state", "scope"),
    [("yes", "approved", "once"), ("Yes, always!", "approved", "always"), ("no", "denied", "")],
)
def test_an_owners_words_decide_what_stands_in_the_chat(tx: Transaction, text: str, state: str, scope: str) -> None:
    question = put(tx)
    assert hear(tx, text) == "answer"
    decided = now(tx, question)
    assert (decided.state, decided.scope, decided.decided_by) == (state, scope, "telegram:1")
    [row] = ready(tx)
    assert row["edits"]


def test_without_a_question_words_are_just_words(tx: Transaction) -> None:
    assert hear(tx, "yes") == ""
    done = put(tx)
    approvals.deny(tx, done, by="x")
    assert hear(tx, "yes") == ""
    assert hear(tx, "go on") == ""
    assert ready(tx) == []


def test_our_name_before_the_answer_is_not_part_of_it(tx: Transaction) -> None:
    question = put(tx)
    called = replace(said("@hermes, yes"), called="@hermes")
    assert decisions.read_answer(tx, replace(called, called=""), "owner") == ""
    assert now(tx, question).is_waiting
    assert decisions.read_answer(tx, called, "owner") == "answer"
    assert now(tx, question).state == "approved"


@pytest.mark.parametrize("text", ["yes", "always", "no"])
@pytest.mark.parametrize("role", ["member", "guest"])
def test_somebody_elses_answer_does_nothing_and_is_told_so(tx: Transaction, text: str, role: Role) -> None:
    question = put(tx)
    assert hear(tx, text, replace(BOB, role=role)) == "answer"
    assert now(tx, question).is_waiting
    [row] = ready(tx)
    assert ONLY_OWNERS in row["parts"]
    assert (row["notify"], row["reply_to"], row["edits"]) == (0, "m1", "")


def test_somebody_elses_other_words_leave_it_alone(tx: Transaction) -> None:
    question = put(tx)
    assert hear(tx, "what is this?", BOB) == ""
    assert hear(tx, "what is this?", OWNER) == ""  # an owner, too, who did not ask for it
    assert now(tx, question).is_waiting
    assert ready(tx) == []


def test_the_asker_may_say_no_and_not_yes_to_what_is_an_owners(tx: Transaction) -> None:
    elsewhere = Address(account="discord", chat="9")
    question = put(tx, at=elsewhere)
    assert hear(tx, "yes", ANN) == "answer"
    assert now(tx, question).is_waiting
    [row] = ready(tx)
    assert ONLY_OWNERS in row["parts"]
    assert hear(tx, "no", ANN, message_id="m2") == "answer"
    assert (now(tx, question).state, now(tx, question).decided_by) == ("denied", "telegram:42")
    change = ready(tx)[-1]
    assert (change["account"], change["chat"]) == ("discord", "9")


def test_what_stands_in_another_chat_is_not_decided_by_words_here(tx: Transaction) -> None:
    elsewhere = put(tx, at=replace(HERE, chat="-2"), asker=replace(ASKER, session_key="telegram:group:-2"))
    topic = put(tx, at=replace(HERE, thread="7"), call="c2", asker=replace(ASKER, session_key="telegram:group:-1:7"))
    assert hear(tx, "yes") == ""
    assert hear(tx, "yes", ANN) == ""
    assert [now(tx, one).is_waiting for one in (elsewhere, topic)] == [True, True]


def test_other_words_of_the_asker_deny_all_of_theirs(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2")
    others = put(tx, call="c3", asker=replace(ASKER, turn_id="t2", sender_id="43"))
    assert hear(tx, "make a copy first", ANN) == "something else"
    assert [now(tx, one).state for one in (first, second, others)] == ["denied", "denied", "waiting"]
    assert now(tx, first).decided_by == WROTE_INSTEAD
    assert [bool(row["edits"]) for row in ready(tx)] == [True, True]


def test_one_answer_to_several_questions_is_asked_back(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2", action="rm -r\ny")
    assert hear(tx, "yes") == "answer"
    [row] = ready(tx)
    assert f"/approve {first.id}: rm -r x" in row["parts"]
    assert f"/approve {second.id}: rm -r y" in row["parts"]
    assert (row["notify"], row["reply_to"]) == (0, "m1")
    assert [now(tx, one).is_waiting for one in (first, second)] == [True, True]
    approvals.deny(tx, first, by="x")
    hear(tx, "yes", message_id="m2")
    assert now(tx, second).state == "approved"


def test_whoever_is_asked_back_is_told_whether_there_is_one_or_more(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2", action="rm -r y")
    assert decisions.ask_which([first]).splitlines() == [
        "This approval request is still open. Use its buttons, or send:",
        f"/approve {first.id}: rm -r x",
    ]
    assert decisions.ask_which([first, second]).splitlines() == [
        "Several approval requests are open. Use their buttons, or send one of:",
        f"/approve {first.id}: rm -r x",
        f"/approve {second.id}: rm -r y",
    ]


def test_of_several_the_one_that_is_theirs_is_meant(tx: Transaction) -> None:
    others = put(tx, asker=replace(ASKER, sender_id="43"), decider="asker")
    own = put(tx, call="c2", decider="asker")
    assert hear(tx, "yes", ANN) == "answer"
    assert (now(tx, own).state, now(tx, others).state) == ("approved", "waiting")


def test_somebody_is_not_told_what_waits_for_others(tx: Transaction) -> None:
    put(tx)
    put(tx, call="c2", action="secret")
    assert hear(tx, "yes", BOB) == "answer"
    [row] = ready(tx)
    assert ONLY_OWNERS in row["parts"]
    assert "secret" not in row["parts"]


def test_a_message_told_once_more_answers_no_other_question(tx: Transaction) -> None:
    """A platform brings again what it got no receipt for: an old yes must not meet a new question."""
    put(tx)
    message = said("yes")
    assert decisions.read_answer(tx, message, "owner") == "answer"
    person = people.recognise(tx, "telegram", message.sender, role="owner")
    inbox.insert(tx, message, person_id=person, role="owner", refused=inbox.Outcome.DECISION)
    second = put(tx, call="c2")
    assert decisions.read_answer(tx, message, "owner") == ""
    assert now(tx, second).is_waiting
    assert decisions.read_answer(tx, replace(message, message_id="m2"), "owner") == "answer"
    assert now(tx, second).state == "approved"


def test_nobody_says_yes_to_what_they_cannot_have_seen(tx: Transaction) -> None:
    question = put(tx, seen=False)
    assert hear(tx, "ok") == ""
    assert now(tx, question).is_waiting
    assert hear(tx, "no", message_id="m2") == "answer"
    assert now(tx, question).state == "denied"


def test_of_several_only_those_are_meant_that_were_seen(tx: Transaction) -> None:
    seen = put(tx)
    unseen = put(tx, call="c2", seen=False)
    assert hear(tx, "yes") == "answer"
    assert (now(tx, seen).state, now(tx, unseen).state) == ("approved", "waiting")


def test_a_question_whose_chat_has_moved_can_still_be_answered(tx: Transaction) -> None:
    question = put(tx)
    chats.move(tx, "telegram", "-1", "-2")
    assert hear(tx, "yes", key=replace(KEY, chat="-2")) == "answer"
    assert now(tx, question).state == "approved"


# A yes that could be about something else


OWNERS_KEY = SessionKey(platform="telegram", kind="dm", chat="1")
OWNERS_CHAT = Address(account="telegram", chat="1")


def put_for_ann(tx: Transaction, **more: Any) -> Approval:
    """A member's question, which stands in the owner's own chat."""
    return put(tx, at=OWNERS_CHAT, **more)


def owner_says(tx: Transaction, text: str, *, about: str = "", message_id: str = "m9") -> str:
    message = replace(said(text, key=OWNERS_KEY, message_id=message_id), about=about)
    return decisions.read_answer(tx, message, "owner")


def bot_says(tx: Transaction, **more: Any) -> None:
    outbox.add(tx, OWNERS_CHAT, [Text(text="Shall I go on?")], **more)


def owner_has_said(tx: Transaction, **more: Any) -> None:
    message = replace(said("what is the weather?", key=OWNERS_KEY, message_id="m8"), **more)
    person = people.recognise(tx, "telegram", message.sender, role="owner")
    inbox.insert(tx, message, person_id=person, role="owner")


def draft_grows(tx: Transaction) -> None:
    drafts.begin(tx, drafts.new("t9", OWNERS_CHAT))


SINCE = {"the bot": bot_says, "people": owner_has_said, "a draft": draft_grows}


@pytest.mark.parametrize("speak", SINCE.values(), ids=SINCE)
@pytest.mark.parametrize("text", ["ok", "sure", "👍", "yes always", "no"])
def test_a_word_in_passing_decides_nothing_for_somebody_else(
    tx: Transaction, speak: Callable[[Transaction], None], text: str
) -> None:
    question = put_for_ann(tx)
    speak(tx)
    tx.execute("UPDATE outbox SET state = 'sent' WHERE state = 'ready'")
    assert owner_says(tx, text) == "something else"  # it goes on to the agent: it may be about what was said since
    assert now(tx, question).is_waiting
    [row] = ready(tx)
    assert f"/approve {question.id}: rm -r x" in row["parts"]
    assert (row["chat"], row["reply_to"], row["notify"]) == ("1", "m9", 0)


def test_right_below_the_question_a_word_is_enough(tx: Transaction) -> None:
    question = put_for_ann(tx)
    assert owner_says(tx, "ok") == "answer"
    assert now(tx, question).state == "approved"


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda tx: outbox.add(tx, replace(OWNERS_CHAT, chat="2"), [Text(text="x")]),
        lambda tx: outbox.add(tx, replace(OWNERS_CHAT, thread="7"), [Text(text="x")]),
        lambda tx: outbox.add(tx, OWNERS_CHAT, [Text(text="x")], topic="approval", edits="q1"),
        lambda tx: owner_has_said(tx, key=replace(OWNERS_KEY, chat="2")),
        lambda tx: owner_has_said(tx, kind="wake"),
    ],
    ids=["another chat", "another thread", "last words of a question", "said elsewhere", "said by nobody"],
)
def test_what_nobody_reads_there_comes_not_between(tx: Transaction, elsewhere: Callable[[Transaction], None]) -> None:
    question = put_for_ann(tx)
    elsewhere(tx)
    assert owner_says(tx, "ok") == "answer"
    assert now(tx, question).state == "approved"


def test_what_was_said_before_the_question_comes_not_between(tx: Transaction, clock: Clock) -> None:
    owner_has_said(tx)
    bot_says(tx)
    clock.forward(seconds=1)
    question = put_for_ann(tx)
    assert owner_says(tx, "ok") == "answer"
    assert now(tx, question).state == "approved"


@pytest.mark.parametrize(("text", "state"), [("ok", "approved"), ("no", "denied")])
def test_a_reply_to_the_question_is_about_it_whatever_was_said_since(tx: Transaction, text: str, state: str) -> None:
    question, other = put_for_ann(tx), put_for_ann(tx, call="c2")
    bot_says(tx)
    assert owner_says(tx, text, about=f"q{question.outbox_id}") == "answer"
    assert (now(tx, question).state, now(tx, other).state) == (state, "waiting")


def test_a_reply_to_another_message_is_no_reply_to_the_question(tx: Transaction) -> None:
    question = put_for_ann(tx)
    bot_says(tx)
    assert owner_says(tx, "ok", about="something") == "something else"
    assert now(tx, question).is_waiting


def test_two_questions_for_others_right_above_are_asked_back_and_go_no_further(tx: Transaction) -> None:
    first, second = put_for_ann(tx), put_for_ann(tx, call="c2")
    assert owner_says(tx, "yes") == "answer"
    assert [now(tx, one).is_waiting for one in (first, second)] == [True, True]


def test_somebody_who_may_not_decide_is_left_alone_when_they_talk_of_something_else(tx: Transaction) -> None:
    put(tx, asker=replace(ASKER, session_key="telegram:dm:42"))
    outbox.add(tx, HERE, [Text(text="Shall I go on?")])
    tx.execute("UPDATE outbox SET state = 'sent'")
    assert hear(tx, "ok", BOB) == ""
    assert ready(tx) == []


# Asking again


def expired(tx: Transaction, *, asked_by: str = "42") -> Approval:
    message = replace(said("tidy up", ANN, message_id="m0"), sender=Sender(id=asked_by, name="Ann"))
    person = people.recognise(tx, "telegram", message.sender, role="member")
    taken = inbox.insert(tx, message, person_id=person, role="member")
    tx.execute("UPDATE inbox SET turn_id = 't1', state = 'done' WHERE id = ?", taken)
    question = put(tx)
    approvals.expire(tx, question)
    return now(tx, question)


def as_a(role: Role | None) -> RoleOf:
    """What Ann is now, in that group."""

    def role_of(tx: Transaction, key: SessionKey, user_id: str) -> Role | None:
        assert (key, user_id) == (KEY, "42")
        return role

    return role_of


def test_asked_again_the_agent_is_woken_for_the_same_person(tx: Transaction) -> None:
    question = expired(tx)
    assert decisions.ask_again(tx, question, as_a("member")) == "Trying again; I will ask again."
    [woken] = tx.all("SELECT * FROM inbox WHERE kind = 'wake'")
    assert (woken["session_key"], woken["state"]) == (str(KEY), "ready")
    assert (woken["sender_id"], woken["role"]) == ("42", "member")
    assert woken["person_id"] == tx.all("SELECT person_id FROM inbox WHERE message_id = 'm0'")[0]["person_id"]
    assert (woken["message_id"], woken["about"]) == (f"again-{question.id}", "m0")
    assert "try exactly this once more: rm -r x" in woken["parts"]
    assert decisions.ask_again(tx, question, as_a("member")) == "This was already asked again."
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE kind = 'wake'") == 1


def test_of_several_who_asked_in_its_turn_the_last_is_woken_for(tx: Transaction) -> None:
    earlier = replace(said("look around", BOB, message_id="m00"), sender=Sender(id="43", name="Bob"))
    taken = inbox.insert(tx, earlier, person_id=people.recognise(tx, "telegram", earlier.sender, role="member"))
    tx.execute("UPDATE inbox SET turn_id = 't1', state = 'done' WHERE id = ?", taken)
    question = expired(tx)
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE turn_id = 't1'") == 2
    decisions.ask_again(tx, question, as_a("member"))
    [woken] = tx.all("SELECT sender_id, about FROM inbox WHERE kind = 'wake'")
    assert (woken["sender_id"], woken["about"]) == ("42", "m0")


def test_what_was_said_too_long_ago_cannot_be_asked_again(tx: Transaction) -> None:
    question = expired(tx)
    tx.execute("DELETE FROM inbox")
    assert decisions.ask_again(tx, question, as_a("member")) == "That was too long ago. Please ask me again."


def test_what_was_only_noted_in_its_turn_is_no_request(tx: Transaction) -> None:
    question = expired(tx)
    tx.execute("UPDATE inbox SET kind = 'edit'")
    assert decisions.ask_again(tx, question, as_a("member")) == "That was too long ago. Please ask me again."


def test_for_somebody_who_is_not_let_in_any_more_nothing_is_asked_again(tx: Transaction) -> None:
    question = expired(tx)
    assert decisions.ask_again(tx, question, as_a(None)) == "The person it was for no longer has access."
    assert tx.count("SELECT COUNT(*) FROM inbox WHERE kind = 'wake'") == 0


@pytest.mark.parametrize(
    ("then", "since", "woken_as"),
    [
        ("owner", "member", "member"),
        ("owner", "guest", "guest"),
        ("member", "owner", "member"),
        ("owner", "owner", "owner"),
    ],
)
def test_asked_again_nobody_has_more_rights_than_then_or_than_now(
    tx: Transaction, then: Role, since: Role, woken_as: str
) -> None:
    question = expired(tx)
    tx.execute("UPDATE inbox SET role = ?", then)
    decisions.ask_again(tx, question, as_a(since))
    [woken] = tx.all("SELECT role FROM inbox WHERE kind = 'wake'")
    assert woken["role"] == woken_as


@pytest.mark.parametrize(
    ("state", "attempts", "piece", "was_tried"),
    [("ready", 0, 0, False), ("ready", 1, 0, True), ("ready", 0, 1, True), ("sent", 1, 0, True)],
)
def test_what_was_tried_may_have_been_seen(
    tx: Transaction, state: str, attempts: int, piece: int, was_tried: bool
) -> None:
    row = outbox.add(tx, HERE, [Text(text="x")])
    tx.execute("UPDATE outbox SET state = ?, attempts = ?, piece = ? WHERE id = ?", state, attempts, piece, row)
    assert outbox.was_tried(tx, row) == was_tried
