"""Questions and rules in the store: what is asked once, decided once, used once."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.messages import Address, SessionKey
from gateway.store import approvals, chats, sessions, signing
from gateway.store.approvals import Approval, Asker
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.erase import PersonToErase, erase_person
from gateway.store.media import MediaFiles
from tests.gateway.store.conftest import Clock
from tools.approval.gate import Question

ASKER = Asker(
    turn_id="t1",
    session_id="s1",
    session_key="telegram:dm:42",
    holder="ann",
    person_id="ann",
    account="telegram",
    sender_id="42",
    sender_name="Ann",
)
QUESTION = Question(
    tool="terminal",
    action="rm -r ~/proj",
    where="on this machine, in ~",
    reasons=("it deletes ~/proj", "it says “ünï”"),
    rules=("recursive-delete /home/ann/proj", "git-discard"),
    binding="b1",
    decider="asker",
)
HERE = Address(account="telegram", chat="42", thread="7")


def put(
    tx: Transaction,
    *,
    asker: Asker = ASKER,
    call: str = "c1",
    question: Question = QUESTION,
    at: Address = HERE,
    expires_ms: int = 9_000,
) -> Approval:
    return approvals.create(tx, asker, call, question, at, expires_ms=expires_ms)


def now(tx: Transaction, approval: Approval) -> Approval:
    found = approvals.get(tx, approval.id)
    assert found is not None
    return found


def events(tx: Transaction) -> list[str]:
    return [row["event"] for row in tx.all("SELECT event FROM trail ORDER BY id")]


def test_a_question_is_read_back_as_it_was_put(tx: Transaction) -> None:
    put_down = put(tx)
    assert put_down.is_waiting
    assert (put_down.call_id, put_down.asker, put_down.question, put_down.asked_at) == ("c1", ASKER, QUESTION, HERE)
    assert (put_down.outbox_id, put_down.scope, put_down.decided_by, put_down.expires_ms) == (None, "", "", 9_000)
    assert now(tx, put_down) == put_down
    assert approvals.get(tx, "nothing") is None
    assert len(put_down.id) == 6
    assert set(put_down.id) <= set("abcdefghjkmnpqrstuvwxyz23456789")  # nothing that is mistaken for another
    assert events(tx) == ["approval_asked"]


def test_a_path_that_is_no_text_is_asked_about_like_any_other(tx: Transaction) -> None:
    odd = replace(QUESTION, action="read a\udcff", where="in b\udcff", reasons=("it deletes c\udcff",))
    found = now(tx, put(tx, question=odd)).question
    assert (found.action, found.where, found.reasons) == ("read a\\udcff", "in b\\udcff", ("it deletes c\udcff",))


def test_the_id_of_another_question_is_not_taken_again(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("aaaaaa" + "aaaaaa" + "bbbbbb")
    monkeypatch.setattr("gateway.store.approvals.secrets.choice", lambda _: next(letters))
    assert [put(tx).id, put(tx, call="c2").id] == ["aaaaaa", "bbbbbb"]


def test_where_its_message_stands_is_known_from_then_on(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2")
    approvals.set_outbox_row(tx, first.id, 17)
    assert (now(tx, first).outbox_id, now(tx, second).outbox_id) == (17, None)


@pytest.mark.parametrize(("turn", "call", "binding"), [("t2", "c1", "b1"), ("t1", "c2", "b1"), ("t1", "c1", "b2")])
def test_a_question_is_about_one_call_with_one_effect(tx: Transaction, turn: str, call: str, binding: str) -> None:
    put_down = put(tx)
    assert approvals.find_for_call(tx, "t1", "c1", "b1") == put_down
    assert approvals.find_for_call(tx, turn, call, binding) is None
    approvals.approve(tx, put_down, "once", by="x")
    assert not approvals.use(tx, turn, call, binding)
    assert now(tx, put_down).state == "approved"
    assert approvals.use(tx, "t1", "c1", "b1")


def test_those_that_wait_are_found_by_turn_conversation_and_place_the_oldest_first(
    tx: Transaction, clock: Clock
) -> None:
    first = put(tx)
    clock.forward(seconds=1)
    second = put(tx, asker=replace(ASKER, turn_id="t2"), at=replace(HERE, thread=""))
    clock.forward(seconds=1)
    third = put(tx, asker=replace(ASKER, turn_id="t3", session_key="discord:dm:1"), at=replace(HERE, chat="43"))
    clock.forward(seconds=1)
    fourth = put(tx, asker=replace(ASKER, turn_id="t4"), at=replace(HERE, account="telegram@work"))
    done = put(tx, asker=replace(ASKER, turn_id="t5"))
    approvals.deny(tx, done, by="x")
    assert approvals.waiting(tx) == [first, second, third, fourth]
    assert approvals.waiting_for(tx, "t2") == [second]
    assert approvals.waiting_for(tx, "t5") == []
    assert approvals.waiting_in(tx, "telegram:dm:42") == [first, second, fourth]
    assert approvals.waiting_in(tx, "discord:dm:1") == [third]
    assert approvals.waiting_at(tx, replace(HERE, reply_to="9")) == [first]
    assert approvals.waiting_at(tx, replace(HERE, thread="")) == [second]
    assert approvals.waiting_at(tx, replace(HERE, chat="43")) == [third]
    assert approvals.waiting_at(tx, replace(HERE, account="telegram@work")) == [fourth]


ENDS = {
    "approved": lambda tx, one: approvals.approve(tx, one, "once", by="x"),
    "denied": lambda tx, one: approvals.deny(tx, one, by="x"),
    "withdrawn": approvals.withdraw,
    "expired": approvals.expire,
}


@pytest.mark.parametrize("later", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_it_is_decided_once_whatever_is_said_later(tx: Transaction, first: str, later: str) -> None:
    question, other = put(tx), put(tx, call="c2")
    assert ENDS[first](tx, question)
    decided = now(tx, question)
    assert (decided.state, decided.is_waiting) == (first, False)
    assert not ENDS[later](tx, question)
    assert now(tx, question) == decided
    assert now(tx, other).is_waiting
    assert events(tx) == ["approval_asked", "approval_asked", f"approval_{first}"]
    assert approvals.rules(tx) == []


@pytest.mark.parametrize("end", [None, *ENDS])
def test_only_a_yes_can_be_used_and_only_once(tx: Transaction, end: str | None) -> None:
    question = put(tx)
    if end is not None:
        ENDS[end](tx, question)
    assert approvals.use(tx, "t1", "c1", "b1") == (end == "approved")
    assert not approvals.use(tx, "t1", "c1", "b1")
    assert now(tx, question).state == ("used" if end == "approved" else end or "waiting")


def test_who_decided_how_and_when_is_kept(tx: Transaction, clock: Clock) -> None:
    first, second, third = put(tx), put(tx, call="c2"), put(tx, call="c3")
    clock.forward(seconds=5)
    approvals.approve(tx, first, "session", by="telegram:1")
    approvals.deny(tx, second, by="telegram:2")
    approvals.expire(tx, third)
    decided = [(one.scope, one.decided_by) for one in (now(tx, first), now(tx, second), now(tx, third))]
    assert decided == [("session", "telegram:1"), ("", "telegram:2"), ("", "")]
    assert [row["decided_ms"] for row in tx.all("SELECT decided_ms FROM approvals")] == [clock.ms] * 3


# Rules


@pytest.mark.parametrize(
    ("scope", "session_id"),
    [("once", None), ("session", "s1"), ("always", "")],
)
def test_a_lasting_yes_grants_the_rules_that_were_shown(
    tx: Transaction, clock: Clock, scope: approvals.Scope, session_id: str | None
) -> None:
    approvals.approve(tx, put(tx), scope, by="telegram:1")
    granted = [(one.holder, one.session_id, one.rule, one.granted_by, one.granted_ms) for one in approvals.rules(tx)]
    expected = [("ann", session_id, rule, "telegram:1", clock.ms) for rule in QUESTION.rules]
    assert granted == ([] if session_id is None else expected)


def test_a_yes_that_came_too_late_grants_nothing(tx: Transaction) -> None:
    question = put(tx)
    approvals.deny(tx, question, by="x")
    assert not approvals.approve(tx, question, "always", by="x")
    assert approvals.rules(tx) == []


def test_a_rule_holds_for_its_holder_in_its_conversation_or_in_all(tx: Transaction) -> None:
    approvals.grant(tx, "ann", "here", session_id="s1", by="x")
    approvals.grant(tx, "ann", "always", session_id="", by="x")
    approvals.grant(tx, "ann", "elsewhere", session_id="s2", by="x")
    approvals.grant(tx, "bob", "his", session_id="", by="x")
    assert approvals.list_rules_of(tx, "ann", "s1") == ["here", "always"]
    assert approvals.list_rules_of(tx, "ann", "s3") == ["always"]
    assert approvals.list_rules_of(tx, "bob", "s1") == ["his"]
    assert approvals.list_rules_of(tx, "eve", "s1") == []
    lasting = [row["detail"] for row in tx.all("SELECT detail FROM trail WHERE event = 'rule_granted' ORDER BY id")]
    assert ["false" in one for one in lasting] == [True, False, True, False]


def test_the_same_rule_is_granted_once(tx: Transaction) -> None:
    for by in ("first", "second"):
        approvals.grant(tx, "ann", "rule", session_id="", by=by)
    assert [one.granted_by for one in approvals.rules(tx)] == ["first"]


@pytest.mark.parametrize(
    ("granted", "wanted", "is_covered"),
    [
        ([], ["git-discard"], False),
        (["git-discard"], ["git-discard"], True),
        (["git-discard"], ["force-push"], False),
        (["git-discard", "force-push"], ["git-discard", "force-push"], True),
        (["git-discard"], ["git-discard", "force-push"], False),  # all that it needs, not some of it
        (["git-discard"], [], False),  # what needs no rule is asked about each time
        (["force-push", "git-discard"], ["git-discard"], True),
        (["recursive-delete /srv/a/b"], ["recursive-delete /srv/a/b/c"], True),
        (["recursive-delete /srv/a/b/c"], ["recursive-delete /srv/a/b"], False),
        (["NO RULE"], ["NO RULE"], False),  # written by another version
    ],
)
def test_a_call_is_covered_when_all_that_it_needs_was_granted(
    tx: Transaction, granted: list[str], wanted: list[str], is_covered: bool
) -> None:
    for rule in granted:
        approvals.grant(tx, "ann", rule, session_id="s1", by="x")
    assert approvals.is_covered(tx, ASKER, wanted) == is_covered
    assert not approvals.is_covered(tx, replace(ASKER, session_id="s2"), wanted)
    assert not approvals.is_covered(tx, replace(ASKER, holder="bob"), wanted)


def test_rules_are_taken_back_one_by_one(tx: Transaction) -> None:
    for rule in ("a", "b", "c"):
        approvals.grant(tx, "ann", rule, session_id="", by="x")
    a, b, c = approvals.rules(tx)
    assert approvals.revoke(tx, [c.id, a.id, 999], by="cli") == ["c", "a"]
    assert approvals.rules(tx) == [b]
    assert approvals.revoke(tx, [a.id], by="cli") == []
    assert events(tx) == ["rule_granted"] * 3 + ["rule_revoked"] * 2


# When people and chats change


async def erase(db: Database, tmp_path: Path, person: PersonToErase) -> None:
    files = MediaFiles({"image": tmp_path / "images"})
    await erase_person(db, files, person, backends={}, gateway_runs=lambda: False)


async def test_a_person_who_is_erased_takes_all_of_theirs_along(db: Database, tmp_path: Path) -> None:
    def unit(tx: Transaction) -> Approval:
        sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat="77"))
        put(tx)
        put(tx, call="c2", asker=replace(ASKER, person_id=None, sender_id=""))  # theirs by the holder
        put(tx, call="c3", asker=replace(ASKER, holder="chat-1", sender_id=""))  # theirs by the person
        bobs = replace(ASKER, person_id="bob", holder="bob", sender_id="43")
        put(tx, call="c4", asker=replace(bobs, session_key="telegram:dm:77"))
        approvals.grant(tx, "ann", "a", session_id="", by="x")
        approvals.grant(tx, "bob", "b", session_id="", by="x")
        return put(tx, call="c5", asker=replace(bobs, session_key="kept"))

    kept = await db.write(unit)
    await erase(db, tmp_path, PersonToErase(ids=frozenset({"ann"}), identities=frozenset({("telegram", "77")})))
    assert await db.read(approvals.waiting) == [kept]
    assert [one.holder for one in await db.read(approvals.rules)] == ["bob"]


async def test_whoever_decided_can_be_erased(db: Database, tmp_path: Path) -> None:
    def unit(tx: Transaction) -> tuple[Approval, Approval]:
        first, second = put(tx, at=replace(HERE, chat="1")), put(tx, call="c2")
        sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat="1"))
        approvals.approve(tx, first, "always", by="telegram:1")
        approvals.approve(tx, second, "once", by="telegram:2")
        approvals.grant(tx, "bob", "b", session_id="", by="telegram:2")
        return first, second

    first, second = await db.write(unit)
    await erase(db, tmp_path, PersonToErase(ids=frozenset(), identities=frozenset({("telegram", "1")})))
    decided = await db.read(lambda tx: [now(tx, one) for one in (first, second)])
    assert [(one.decided_by, one.asked_at.chat) for one in decided] == [("", ""), ("telegram:2", HERE.chat)]
    assert [one.granted_by for one in await db.read(approvals.rules)] == ["", "", "telegram:2"]


def test_what_waits_goes_along_when_its_chat_gets_another_id(tx: Transaction) -> None:
    waiting, elsewhere, others, done = (
        put(tx, call=f"c{number}", at=at)
        for number, at in enumerate([HERE, replace(HERE, chat="43"), replace(HERE, account="discord"), HERE])
    )
    for one in (waiting, elsewhere, others, done):
        approvals.set_outbox_row(tx, one.id, 5)
    approvals.deny(tx, done, by="x")
    chats.move(tx, "telegram", "42", "-100")
    places = [(now(tx, one).asked_at.chat, now(tx, one).outbox_id) for one in (waiting, elsewhere, others, done)]
    assert places == [("-100", None), ("43", 5), ("42", 5), ("42", 5)]


def test_what_waits_goes_along_when_its_conversation_gets_another_key(tx: Transaction) -> None:
    waiting, done = put(tx), put(tx, call="c2")
    other = put(tx, call="c3", asker=replace(ASKER, session_key="else"))
    approvals.deny(tx, done, by="x")
    sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat="42"))
    chats.move(tx, "telegram", "42", "-100")
    keys = [now(tx, one).asker.session_key for one in (waiting, done, other)]
    assert keys == ["telegram:dm:-100", "telegram:dm:42", "else"]


# Signatures


def test_a_yes_that_somebody_else_has_written_is_not_used_and_the_request_waits_again(tx: Transaction) -> None:
    asked = put(tx)
    tx.execute("UPDATE approvals SET state = 'approved', scope = 'once', decided_by = 'telegram:42'")
    assert not approvals.use(tx, "t1", "c1", "b1")
    assert approvals.has_forged(tx)
    assert asked.id in approvals.refuse_forged(tx)
    assert (now(tx, asked).state, now(tx, asked).decided_by) == ("waiting", "")
    assert approvals.refuse_forged(tx) == ""
    assert approvals.approve(tx, now(tx, asked), "once", by="telegram:42")
    assert not approvals.has_forged(tx)
    assert approvals.use(tx, "t1", "c1", "b1")


@pytest.mark.parametrize("column", ["turn_id", "call_id", "holder", "binding", "rules", "scope"])
def test_a_signed_yes_is_for_what_was_shown_and_for_nothing_else(tx: Transaction, column: str) -> None:
    approvals.approve(tx, put(tx), "once", by="telegram:42")
    tx.execute(f"UPDATE approvals SET {column} = 'other'")
    content = {"turn_id": "t1", "call_id": "c1", "binding": "b1", column: "other"}
    assert not approvals.use(tx, content["turn_id"], content["call_id"], content["binding"])


@pytest.mark.parametrize("column", ["holder", "session_id", "rule"])
def test_a_rule_that_somebody_else_has_written_or_changed_covers_nothing(tx: Transaction, column: str) -> None:
    wanted = ["recursive-delete /home/ann/proj/build"]
    approvals.grant(tx, "ann", "recursive-delete /home/ann/proj/build", session_id="", by="telegram:42")
    assert approvals.is_covered(tx, ASKER, wanted)
    changed = {"holder": "ann", "session_id": "", "rule": wanted[0]}
    others = {"holder": "bob", "session_id": "s1", "rule": "recursive-delete /home/ann/proj"}
    tx.execute(f"UPDATE approval_rules SET {column} = ?", others[column])
    assert not approvals.is_covered(
        tx, replace(ASKER, holder=others["holder"] if column == "holder" else "ann"), wanted
    )
    [forged] = approvals.rules(tx)
    assert not forged.is_signed
    assert (changed | {column: others[column]})["rule"] in approvals.refuse_forged(tx)
    assert approvals.refuse_forged(tx) == ""  # told once
    [notice] = [row["text"] for row in tx.all("SELECT text FROM notices")]
    assert "without your yes" in notice
    approvals.grant(tx, forged.holder, forged.rule, session_id=forged.session_id, by="telegram:42")
    assert [one.is_signed for one in approvals.rules(tx)] == [True]  # granted properly after all


def test_what_was_decided_before_there_was_a_key_is_signed_once(tx: Transaction) -> None:
    key = Path(tx.all("PRAGMA database_list")[0]["file"]).with_name("approvals.key")
    approvals.approve(tx, put(tx), "always", by="telegram:42")
    key.unlink()
    signing._read_once.cache_clear()
    tx.execute("UPDATE approvals SET signature = ''")
    tx.execute("UPDATE approval_rules SET signature = ''")
    assert not approvals.is_covered(tx, ASKER, QUESTION.rules)  # nothing counts without a key
    approvals.sign_old_rows(tx)
    assert key.stat().st_mode & 0o777 == 0o600
    assert approvals.is_covered(tx, ASKER, QUESTION.rules)
    assert approvals.use(tx, "t1", "c1", "b1")
    tx.execute("INSERT INTO approval_rules (holder, rule, granted_by, granted_ms) VALUES ('ann', 'force-push', '', 1)")
    approvals.sign_old_rows(tx)
    assert not approvals.is_covered(tx, ASKER, ["force-push"])


def test_forgetting_who_has_decided_leaves_the_yes_as_it_is(tx: Transaction) -> None:
    approvals.approve(tx, put(tx), "always", by="telegram:42")
    tx.execute("UPDATE approvals SET decided_by = ''")
    tx.execute("UPDATE approval_rules SET granted_by = ''")
    assert not approvals.has_forged(tx)
