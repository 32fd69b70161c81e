"""What became of a message, read back from its rows, by whatever name somebody knows it."""

from dataclasses import replace

import pytest

from gateway.messages import Address, Receipt, SessionKey, Text
from gateway.store import approvals, chats, inbox, outbox, people, trace, trail, turns
from gateway.store.db.connection import Transaction
from gateway.store.trail import TrailEvent
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import exchange
from tests.gateway.store.line import begin
from tests.gateway.store.rows import ADDRESS, ANN, KEY, a_question, an_asker, find_plans, inbound, key_of, take


def events(found: trace.Trace) -> list[str]:
    return [step.event for step in found.steps]


def names(tx: Transaction, inbox_id: int) -> dict[str, str]:
    """Every name that a message has."""
    message = tx.one("SELECT * FROM inbox WHERE id = ?", inbox_id)
    assert message is not None
    reply = tx.one("SELECT * FROM outbox WHERE turn_id = ?", message["turn_id"])
    assert reply is not None
    return {
        "number": f"inbox:{inbox_id}",
        "reply's number": f"outbox:{reply['id']}",
        "turn": message["turn_id"],
        "session": message["session_key"],
        "message": message["message_id"],
        "message in its place": f"{message['account']}:{message['chat']}:{message['message_id']}",
        "reply": reply["receipt"],
        "reply in its place": f"{reply['account']}:{reply['chat']}:{reply['receipt']}",
    }


def test_a_message_is_found_by_each_of_its_names(tx: Transaction) -> None:
    exchange(tx, key=key_of("telegram", chat="1"))
    turn = exchange(tx)
    wanted = turn.messages[0].id
    for what, name in names(tx, wanted).items():
        assert trace.find(tx, name) == [wanted], what
    assert trace.newest(tx) == wanted


@pytest.mark.parametrize("name", ["", "0", "-1", "99", "inbox:99", "outbox:99", "9" * 30, "nobody", "a:b:c", "²", "%"])
def test_a_name_of_nothing(tx: Transaction, name: str) -> None:
    exchange(tx)
    assert trace.find(tx, name) == []


def test_a_number_may_mean_several(tx: Transaction) -> None:
    first = take(tx, inbound("a", message_id="x"))
    second = take(tx, inbound("b", message_id=str(first)))
    third = take(tx, inbound("c", message_id=str(first), key=key_of("discord", chat="9")))
    assert trace.find(tx, str(first)) == [third, second, first]
    assert trace.find(tx, f"inbox:{first}") == [first]
    assert trace.find(tx, f"discord:9:{first}") == [third]


def test_the_trail_of_one_that_was_answered_with_a_tool(tx: Transaction, clock: Clock) -> None:
    turn = exchange(tx)
    found = trace.read(tx, turn.messages[0].id)
    assert events(found) == ["accepted", "claimed", "answered", "sending", "sent"]
    assert (found.state, found.outcome, found.session_key) == ("done", "answered", str(KEY))
    assert found.turn is not None
    assert (found.turn.id, found.turn.outcome, found.turn.others) == (turn.id, "answered", 0)
    [reply] = found.replies
    assert (reply.state, reply.receipt, reply.sent_ms) == ("sent", f"receipt {reply.id}", clock.ms)
    assert not found.session_busy


def test_messages_of_one_turn_share_it_and_keep_their_own_steps(tx: Transaction) -> None:
    first, second = take(tx, inbound("a")), take(tx, inbound("b"))
    turn = begin(tx)
    found = trace.read(tx, first)
    assert events(found) == ["accepted", "claimed"]
    assert found.turn is not None
    assert found.turn.others == 1
    assert found.session_busy
    assert trace.find(tx, turn.id) == [second]  # which is replied to


def test_the_tools_that_run_now(tx: Transaction) -> None:
    def at_work() -> tuple[str, ...]:
        turn = trace.read(tx, wanted).turn
        assert turn is not None
        return turn.tools

    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    for tool in ("look", "dig", "dig"):
        trail.record(tx, TrailEvent.TOOL_STARTED, turn_id=turn.id, tool=tool)
    trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id=turn.id, tool="dig")
    assert at_work() == ("dig", "look")
    turns.resume_all(tx)
    assert at_work() == ()


def test_a_call_that_was_not_let_begin_hides_none_that_runs(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id=turn.id, tool="dig", call="refused", error=True)
    trail.record(tx, TrailEvent.TOOL_STARTED, turn_id=turn.id, tool="dig", call="allowed")
    trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id=turn.id, tool="dig", call="denied", error=True)
    found = trace.read(tx, wanted)
    assert found.turn is not None
    assert found.turn.tools == ("dig",)
    assert [step.detail["call"] for step in found.steps if not step.was_run] == ["refused", "denied"]


def test_one_that_a_crash_left_behind_was_run(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    trail.record(tx, TrailEvent.TOOL_STARTED, turn_id=turn.id, tool="dig", call="c1")
    turns.resume_all(tx)
    trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id=turn.id, tool="dig", call="c1", error=True)
    assert all(step.was_run for step in trace.read(tx, wanted).steps)


def send_elsewhere(tx: Transaction, turn: turns.Turn) -> int:
    """As `gateway.outbound.send_message` does it."""
    row = outbox.add(tx, Address(account="telegram", chat="77"), [Text(text="psst")], topic="message")
    trail.record(tx, TrailEvent.MESSAGE_QUEUED, turn_id=turn.id, row=row, key="k1")
    return row


def test_what_was_sent_to_another_chat_is_told_with_its_receipt(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    row = send_elsewhere(tx, turn)
    [waiting] = trace.read(tx, wanted).replies
    assert (waiting.id, waiting.elsewhere, waiting.state) == (row, "telegram:77", "ready")
    [claimed] = outbox.claim(tx, "telegram", 10)
    outbox.mark_sent(tx, claimed, Receipt(message_id="4711"))
    outbox.add(tx, turn.address, [Text(text="done")], turn_id=turn.id)
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    found = trace.read(tx, wanted)
    assert [(reply.elsewhere, reply.receipt) for reply in found.replies] == [("telegram:77", "4711"), ("", "")]
    assert [step.reply for step in found.steps if step.event == "sent"] == [row]
    for name in (f"outbox:{row}", "telegram:77:4711", "4711"):
        assert trace.find(tx, name) == [wanted], name
    tx.execute("DELETE FROM outbox WHERE id = ?", row)  # whoever got it was forgotten
    assert "message_queued" in events(trace.read(tx, wanted))


def test_a_piece_of_what_was_sent_to_another_chat_finds_it_too(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    send_elsewhere(tx, turn)
    [claimed] = outbox.claim(tx, "telegram", 10)
    outbox.mark_piece_sent(tx, claimed, Receipt(message_id="4710"))
    [claimed] = outbox.claim(tx, "telegram", 10)
    outbox.mark_sent(tx, claimed, Receipt(message_id="4711"))
    assert trace.find(tx, "telegram:77:4710") == [wanted]


def test_those_who_read_it_there_are_not_told_who_sent_it(tx: Transaction) -> None:
    take(tx, inbound("a"))
    turn = begin(tx)
    send_elsewhere(tx, turn)
    [claimed] = outbox.claim(tx, "telegram", 10)
    outbox.mark_sent(tx, claimed, Receipt(message_id="4711"))
    assert trace.find_message(tx, "telegram", "77", "4711") is None


def test_one_that_joins_a_running_turn_has_only_the_steps_since(tx: Transaction) -> None:
    take(tx, inbound("a"))
    turn = begin(tx)
    trail.record(tx, TrailEvent.TOOL_STARTED, turn_id=turn.id, tool="dig")
    late = take(tx, inbound("b"))
    tx.execute("UPDATE inbox SET state = 'running', turn_id = ? WHERE id = ?", turn.id, late)
    trail.record(tx, TrailEvent.TOOL_FINISHED, turn_id=turn.id, tool="dig")
    assert events(trace.read(tx, late)) == ["accepted", "tool_finished"]


def test_a_reply_that_was_not_tried_yet_is_known(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    outbox.add(tx, turn.address, [Text(text="b")], turn_id=turn.id)
    [reply] = trace.read(tx, wanted).replies
    assert (reply.state, reply.attempts, reply.receipt) == ("ready", 0, "")


def test_every_piece_of_a_long_answer_leads_to_its_question(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    turn = begin(tx)
    outbox.add(tx, turn.address, [Text(text="b")], turn_id=turn.id)
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)
    [row] = outbox.claim(tx, "telegram", 1)
    outbox.mark_piece_sent(tx, row, Receipt(message_id="one", more=True))
    [row] = outbox.claim(tx, "telegram", 1)
    outbox.mark_sent(tx, row, Receipt(message_id="two"))
    assert trace.find(tx, "one") == trace.find(tx, "telegram:42:two") == [wanted]
    assert trace.read(tx, wanted).replies[0].pieces == 1


def test_a_command_is_traced_to_its_answer_and_back(tx: Transaction, clock: Clock) -> None:
    wanted = take(tx, inbound("/help", kind="command"))
    command = inbox.get(tx, wanted)
    said = outbox.add(tx, command.address, [Text(text="b")])
    inbox.finish(tx, wanted, turns.Outcome.ANSWERED)
    trail.record(tx, TrailEvent.ANSWERED, inbox_id=wanted, outbox_id=said)
    clock.forward(seconds=1)
    [row] = outbox.claim(tx, "telegram", 1)
    outbox.mark_sent(tx, row, Receipt(message_id="77"))
    found = trace.read(tx, wanted)
    assert events(found) == ["accepted", "answered", "sent"]
    assert found.steps[-1].at_ms == clock.ms
    assert trace.find_message(tx, "telegram", "42", "77") == wanted


def test_an_edit_does_not_hide_what_it_edits(tx: Transaction) -> None:
    said = inbound("a", message_id="5")
    wanted = take(tx, said)
    edit = take(tx, replace(said, kind="edit", edited_ms=9))
    assert trace.find_message(tx, "telegram", "42", "5") == wanted
    assert trace.newest(tx) == wanted
    assert trace.read(tx, edit).kind == "edit"


def test_the_newest_of_a_conversation_is_no_command(tx: Transaction) -> None:
    assert trace.newest(tx) is None
    wanted = take(tx, inbound("a"))
    take(tx, inbound("/why", kind="command"))
    take(tx, inbound("b", key=key_of("telegram", chat="1")))
    assert trace.newest_message(tx, str(KEY)) == wanted


def test_a_turn_that_a_revoked_person_loses_says_so(tx: Transaction) -> None:
    wanted = take(tx, inbound("a"))
    assert turns.begin(tx) is not None
    turns.stop_turns_of(tx, "telegram", ANN.id)
    assert events(trace.read(tx, wanted))[-1] == "revoked"


def test_refusals_of_strangers_and_of_people_we_know(tx: Transaction, clock: Clock) -> None:
    place = {"account": "telegram", "chat": "9"}
    trail.record_refusal(tx, **place, message_id="7", sender_id="666", reason="revoked")
    person_id = people.recognise(tx, "telegram", ANN, role="member")
    inbox.insert(tx, inbound("a", message_id="8"), person_id=person_id, refused=inbox.Outcome.TOO_FAST)
    fast, stranger = trace.refusals(tx, limit=10)
    assert stranger == trace.RefusedMessage(at_ms=clock.ms, **place, message_id="7", sender_id="666", reason="revoked")
    assert (fast.chat, fast.message_id, fast.sender_id, fast.reason) == ("42", "8", ANN.id, inbox.Outcome.TOO_FAST)
    assert len(trace.refusals(tx, limit=1)) == 1
    assert trace.refusal_of(tx, "telegram", "9", "7") == stranger
    assert trace.refusal_of(tx, "telegram", "42", "7") is None
    assert trace.refusal_of(tx, "telegram", "42", "8") is None  # has a trail of its own


def test_what_was_said_to_others_is_known_as_that(tx: Transaction) -> None:
    group = SessionKey(platform="telegram", kind="group", chat="-100")
    chats.add_overheard(tx, inbound("a", message_id="7", key=group), keep=5)
    assert trace.was_overheard(tx, "telegram", "-100", "7")
    assert not trace.was_overheard(tx, "telegram", "42", "7")


def test_reading_one_does_not_go_through_all_that_was_ever_said(tx: Transaction) -> None:
    """/why is asked while everybody else waits to write."""
    turn = exchange(tx)
    plans = find_plans(tx, lambda: trace.read(tx, turn.messages[0].id))
    ways = {plan for plan in plans if "outbox" in plan}
    assert ways == {"SCAN outbox USING INDEX outbox_open", "SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"}


def test_a_turn_that_waits_for_a_human_says_since_when(tx: Transaction) -> None:
    taken = take(tx, inbound("delete it"))
    turn = begin(tx)
    assert (work := trace.read(tx, taken).turn) is not None
    assert work.waits_since_ms is None
    asked = approvals.create(tx, an_asker(turn_id=turn.id), "c1", a_question(), ADDRESS, expires_ms=10**15)
    assert (work := trace.read(tx, taken).turn) is not None
    assert work.waits_since_ms is not None
    approvals.approve(tx, asked, "once", by="telegram:1")
    found = trace.read(tx, taken)
    assert found.turn is not None
    assert found.turn.waits_since_ms is None
    assert events(found)[-2:] == ["approval_asked", "approval_approved"]
    assert found.steps[-1].detail == {"approval": asked.id, "by": "telegram:1", "scope": "once"}
