"""What became of a message, in words: every way there is to be answered, and not to be."""

from dataclasses import replace
from typing import Any

import pytest

from agent_core.model import ProviderError
from gateway import trace
from gateway.approvals.wording import WROTE_INSTEAD
from gateway.store import inbox
from gateway.store.trace import RefusedMessage, Reply, Step, Trace, Work
from gateway.trace import GatewayState, chat_lines, lines, verdict
from gateway.turns.metering import BudgetSpent

ACCEPTED = 1_790_000_000_000
NOW = ACCEPTED + 60_000
OFF = GatewayState(is_running=False)

TURN = Work(id="t1", state="done", outcome="answered", resumes=0, stop_requested=False, started_ms=ACCEPTED + 20_000)
ANSWER = Reply(
    id=1,
    kind="answer",
    account="telegram",
    state="sent",
    attempts=1,
    pieces=0,
    not_before_ms=0,
    sent_ms=ACCEPTED + 1_234,
    receipt="4711",
    problem="",
)
TRACE = Trace(
    id=17,
    account="telegram",
    chat="42",
    message_id="7",
    kind="message",
    session_key="telegram:dm:42",
    user="",
    state="done",
    outcome="answered",
    sent_ms=ACCEPTED,
    accepted_ms=ACCEPTED,
    not_before_ms=0,
    at_terminal=False,
    session_busy=False,
    turn=TURN,
    replies=(ANSWER,),
    steps=(),
)


def step(event: str, after_ms: int = 0, reply: int | None = None, **detail: Any) -> Step:
    return Step(at_ms=ACCEPTED + after_ms, event=event, reply=reply, detail=detail)


def reply(**changes: Any) -> Trace:
    """Answered, and this is what became of the answer."""
    return replace(TRACE, replies=(replace(ANSWER, **changes),))


def ended(outcome: str, *steps: Step, said: Reply | None = None, **turn: Any) -> Trace:
    work = replace(TURN, outcome=outcome, **turn)
    return replace(TRACE, outcome=outcome, turn=work, steps=steps, replies=(said,) if said else ())


def refused(outcome: str) -> Trace:
    return replace(TRACE, outcome=outcome, turn=None, replies=())


def waiting(**changes: Any) -> Trace:
    return replace(TRACE, state="ready", outcome="", turn=None, replies=(), **changes)


def running(**turn: Any) -> Trace:
    work = replace(TURN, **{"state": "running", **turn})
    return replace(TRACE, state="running", outcome="", turn=work, replies=())


def noted(kind: str, outcome: str = "", turn: Work | None = None) -> Trace:
    return replace(TRACE, kind=kind, outcome=outcome, turn=turn, replies=(), state="done" if outcome else "ready")


ON = GatewayState()
DUE = NOW + 5_000
VERDICTS: list[tuple[Trace, GatewayState, str]] = [
    # answered
    (TRACE, ON, "Answered in 1.2 s; delivered as Telegram message 4711."),
    (TRACE, OFF, "Answered in 1.2 s; delivered as Telegram message 4711."),
    (reply(account="telegram@work"), ON, "Answered in 1.2 s; delivered as Telegram (work) message 4711."),
    (reply(pieces=2), ON, "Answered in 1.2 s; delivered in 3 parts, the last as Telegram message 4711."),
    (replace(TRACE, replies=()), ON, "Done. The reply, if any, is no longer stored."),
    (
        replace(TRACE, kind="button", replies=(replace(ANSWER, kind="notice"),)),
        ON,
        "Answered in 1.2 s; delivered as Telegram message 4711.",
    ),
    # answered, and not delivered
    (reply(state="failed", problem="blocked"), ON, "Answered, but not delivered: blocked."),
    (
        reply(state="expired"),
        ON,
        "Answered, but not delivered in time, so it was dropped. Ask again if you still need it.",
    ),
    (
        reply(state="in_doubt", problem="cut off"),
        ON,
        "Answered, but it is unknown whether it arrived: cut off. A button in the chat sends it again.",
    ),
    (reply(state="sending"), ON, "Answered, but not delivered yet: it is being sent now."),
    (
        reply(state="ready", pieces=2),
        ON,
        "Answered, but not delivered yet (2 parts arrived): it waits for earlier messages or for the chat's "
        "rate limit.",
    ),
    (
        reply(state="ready", not_before_ms=DUE, problem="no network"),
        ON,
        "Answered, but not delivered yet: the next try is at 14:14:25.000 UTC, because no network.",
    ),
    (
        reply(state="unsure"),
        GatewayState(unconnected={"telegram": "no network"}),
        "Answered, but not delivered yet: telegram is not connected: no network.",
    ),
    (
        reply(state="ready"),
        OFF,
        "Answered, but not delivered yet: the gateway is not running. Start it: hermes gateway run.",
    ),
    # waiting
    (waiting(), OFF, "Not answered yet because the gateway is not running. Start it: hermes gateway run."),
    (
        waiting(),
        GatewayState(is_stopping=True),
        "Not answered yet because the gateway is stopping; it will be answered after the next start.",
    ),
    (
        waiting(session_busy=True),
        ON,
        "Not answered yet because another turn is running in this conversation; this one is next. /stop ends the "
        "running one.",
    ),
    (waiting(not_before_ms=DUE), ON, "Not answered yet because more parts of it may still arrive."),
    (waiting(), ON, "Not answered yet because it is queued; it starts when a slot for a turn is free."),
    # being answered
    (running(), ON, "Being answered for 40.0 s: waiting for the model."),
    (running(tools=("dig",)), ON, "Being answered for 40.0 s: dig is running."),
    (running(tools=("dig", "look")), ON, "Being answered for 40.0 s: dig, look are running."),
    (running(resumes=1), ON, "Being answered for 40.0 s: waiting for the model. Resumed once."),
    (running(state="paused"), ON, "Not answered yet because the gateway was stopped; the next start continues it."),
    (running(), OFF, "Not answered yet because the gateway is not running; the next start continues it."),
    (running(stop_requested=True), ON, "Not answered because it is being stopped."),
    (
        running(waits_since_ms=ACCEPTED, tools=("clock",)),
        ON,
        "Not answered yet: it waits for approval (hermes approvals list).",
    ),
    (
        running(waits_since_ms=ACCEPTED),
        OFF,
        "Not answered yet because the gateway is not running; the next start continues it.",
    ),
    # not taken
    (refused(inbox.Outcome.FULL), ON, "Not answered because too many messages were waiting. Send it again later."),
    (
        refused(inbox.Outcome.TOO_FAST),
        ON,
        "Not answered because the sender sent too many messages within a minute. Send it again later.",
    ),
    (refused(inbox.Outcome.STOPPING), ON, "Not answered because another /stop was already waiting and did the work."),
    (refused("an invite"), ON, "Not answered because it was an invite code, which is not stored."),
    (refused("deleted"), ON, "Not answered because it was deleted before its turn began."),
    (refused("revoked"), ON, "Not answered because the sender's access was revoked while it waited."),
    (refused("chat closed"), ON, "Not answered because the chat was closed to guests while it waited."),
    (refused("something new"), ON, "Not answered because it ended as “something new”."),
    # not finished
    (ended("stopped"), ON, "Not answered because it was stopped from the chat."),
    (ended("stopped", step("revoked")), ON, "Not answered because the sender's access was revoked during the turn."),
    (
        ended("superseded"),
        ON,
        "Not answered because a newer message took its place; what was asked here is answered there.",
    ),
    (
        ended("failed", step("failed", problem="Overloaded"), said=ANSWER),
        ON,
        "Not answered because the model was overloaded. The chat was told so: delivered as Telegram message 4711.",
    ),
    (
        ended("failed", step("failed", problem="BudgetSpent")),
        ON,
        "Not answered because the budget is used up, or too little is left. /usage shows it.",
    ),
    (ended("failed", step("failed", problem="Odd")), ON, "Not answered because the model could not answer."),
    (ended("failed", step("failed")), ON, "Not answered because of an internal error; see the gateway's log, turn t1."),
    (
        ended("given_up", resumes=4, said=replace(ANSWER, state="failed", problem="blocked")),
        ON,
        "Not answered because the gateway was restarted 4 times while working on it, and gave up. A notice was "
        "written, but not delivered: blocked.",
    ),
    # only noted
    (noted("edit", "replaced the text"), ON, "An edit: it came before the turn, so the new text is answered."),
    (noted("deletion", "took it back"), ON, "A deletion: it came before the turn, so nothing is answered."),
    (
        noted("reaction", inbox.Outcome.FULL),
        ON,
        "A reaction, dropped: too many notes were waiting for the next message.",
    ),
    (noted("edit"), ON, "An edit, only noted: the agent sees it with the next message."),
    (noted("reaction", "answered", TURN), ON, "A reaction, only noted: the agent saw it in turn t1."),
]


@pytest.mark.parametrize(("found", "gateway", "words"), VERDICTS)
def test_the_verdict(found: Trace, gateway: GatewayState, words: str) -> None:
    assert verdict(found, NOW, gateway) == words


def test_every_way_a_model_can_fail_has_words() -> None:
    def below(kind: type[ProviderError]) -> set[str]:
        return {kind.__name__}.union(*(below(one) for one in kind.__subclasses__()))

    assert set(trace._MODEL_PROBLEMS) == below(ProviderError) - {"ProviderError"} | {BudgetSpent.__name__}


STEPS = (
    step("accepted"),
    step("claimed", 7),
    step("opened", 7),
    step("model_replied", 800, tools="todo, dig", ms=790, input_tokens=1_200, output_tokens=31),
    step("tool_started", 801, tool="todo"),
    step("tool_started", 802, tool="dig"),
    step("tool_finished", 813, tool="todo", error=False, ms=12),
    step("tool_finished", 830, tool="dig", error=True, ms=28),
    step("draft_shown", 900, receipt="4710"),
    step("paused", 1_000),
    step("sent", 1_010, 2, receipt="4709"),
    step("resumed", 70_000, after="stop"),
    step("model_replied", 71_000, ms=900, input_tokens=1_300, output_tokens=40),
    step("answered", 71_001),
    step("sending", 71_002, 1, attempt=1),
    step("postponed", 71_010, 1, problem="no network"),
    step("sending", 72_000, 1, attempt=2),
    step("piece_sent", 72_100, 1, receipt="4711"),
    step("sent", 3_700_000, 1, receipt="4712"),
)
NOTICE = replace(ANSWER, id=2, kind="notice")


def test_every_step_with_its_time_for_a_terminal() -> None:
    found = replace(TRACE, steps=STEPS, turn=replace(TURN, others=1), replies=(ANSWER, NOTICE))
    _, place, *told = lines(found, NOW, ON)
    assert place == "inbox:17, message 7 in telegram:42, session telegram:dm:42, 2026-09-21 14:13 UTC"
    assert told == [
        "14:13:20.000        +0 ms  accepted",
        "14:13:20.007        +7 ms  started in turn t1, with 1 other message",
        "14:13:20.007        +7 ms  added to the conversation",
        "14:13:20.800      +800 ms  the model replied in 790 ms (1,200 tokens in, 31 out), asked for todo, dig",
        "14:13:20.801      +801 ms  todo started",
        "14:13:20.802      +802 ms  dig started",
        "14:13:20.813      +813 ms  todo finished in 12 ms",
        "14:13:20.830      +830 ms  dig failed in 28 ms",
        "14:13:20.900      +900 ms  draft shown",
        "14:13:21.000       +1.0 s  paused, because the gateway was stopped",
        "14:13:21.010       +1.0 s  a notice was delivered as message 4709",
        "14:14:30.000  +1 min 10 s  resumed after a stop",
        "14:14:31.000  +1 min 11 s  the model replied in 900 ms (1,300 tokens in, 40 out)",
        "14:14:31.001  +1 min 11 s  answer saved",
        "14:14:31.002  +1 min 11 s  sending the answer",
        "14:14:31.010  +1 min 11 s  the answer could not be sent yet: no network",
        "14:14:32.000  +1 min 12 s  sending the answer, try 2",
        "14:14:32.100  +1 min 12 s  a part of the answer was delivered as message 4711",
        "15:15:00.000   +1 h 1 min  the answer was delivered as message 4712",
    ]


def test_a_chat_is_told_in_few_lines() -> None:
    shown = chat_lines(replace(TRACE, steps=STEPS, replies=(ANSWER, NOTICE)), NOW, ON)
    assert len(shown) == trace.MAX_CHAT_LINES
    assert shown[0] == "Answered in 1.2 s; delivered as Telegram message 4711."
    assert shown[4] == "+830 ms  the model replied in 790 ms (1,200 tokens in, 31 out); used todo, dig (1 failed)"
    assert "(2 more steps)" in shown
    assert shown[-1] == "+1 h 1 min  the answer was delivered as message 4712"


def test_tools_that_were_used_often_are_counted() -> None:
    used = [step("model_replied", ms=1), *[step("tool_started", tool="dig")] * 3, step("model_replied", ms=2)]
    shown = chat_lines(replace(TRACE, steps=tuple(used)), NOW, ON)
    assert shown[1:] == ["+0 ms  the model replied twice in 3 ms; used dig ×3"]


def test_a_call_that_was_not_let_begin_did_not_fail() -> None:
    refusal = replace(step("tool_finished", tool="terminal", error=True), was_run=False)
    found = replace(TRACE, steps=(step("model_replied", ms=1), refusal, step("tool_started", tool="todo")))
    assert lines(found, NOW, ON)[3].endswith("  terminal was not run")
    assert chat_lines(found, NOW, ON)[1:] == ["+0 ms  the model replied in 1 ms; used todo; not run: terminal"]


SENT = replace(ANSWER, id=9, receipt="88", elsewhere="discord:77")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "a message to {} was queued (outbox:9)"),
        ({"state": "ready"}, "a message to {} was queued (outbox:9), not delivered yet"),
        ({"state": "failed", "problem": "blocked"}, "a message to {} was queued (outbox:9), not delivered: blocked"),
    ],
)
def test_what_was_sent_to_another_chat_is_no_answer(changes: dict[str, Any], words: str) -> None:
    sent = replace(SENT, **changes)
    found = replace(
        TRACE, replies=(ANSWER, sent), steps=(step("message_queued", row=9), step("sent", 0, 9, receipt="88"))
    )
    shown, told = lines(found, NOW, ON), chat_lines(found, NOW, ON)
    assert shown[0] == told[0] == "Answered in 1.2 s; delivered as Telegram message 4711."
    assert shown[2].endswith(words.format("discord:77"))
    assert shown[3].endswith("the message to discord:77 was delivered as message 88")
    # In a chat others read along, and where else somebody sends something is not theirs to know.
    assert told[1:] == [
        f"+0 ms  {words.format('another chat')}",
        "+0 ms  the message to another chat was delivered as message 88",
    ]


def test_what_was_sent_and_is_not_kept_any_more() -> None:
    found = replace(TRACE, steps=(step("message_queued", row=9),))
    assert lines(found, NOW, ON)[2].endswith("a message to another chat was queued; its details are no longer stored")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (step("refused", reason=inbox.Outcome.FULL), "refused: queue full"),
        (step("noted", reason="took it back"), "noted: took it back"),
        (step("failed", problem="Filtered"), "failed: the model provider filtered it"),
        (step("failed", reply=1, problem="blocked"), "the answer could not be delivered: blocked"),
        (step("in_doubt", reply=1, problem="cut"), "it is unknown whether the answer arrived: cut"),
        (step("expired", reply=1), "the answer was too old to send and was dropped"),
        (step("asked_again", reply=1), "the answer is sent again on request"),
        (
            step("approval_asked", approval="k7m2qx", tool="terminal"),
            "terminal waits for approval since 14:13:20.000 UTC (request k7m2qx)",
        ),
        (step("approval_approved", by="telegram:1", scope="once"), "allowed once by telegram:1"),
        (step("approval_approved", by="telegram:1", scope="session"), "allowed for this conversation by telegram:1"),
        (step("approval_approved", by="telegram:1", scope="always"), "allowed permanently by telegram:1"),
        (step("approval_denied", by="telegram:1", scope=""), "denied by telegram:1"),
        (step("approval_denied", by=WROTE_INSTEAD), "not approved: a different message came instead"),
        (step("approval_expired", by=""), "no answer in time, so it was not done"),
        (step("approval_withdrawn", by=""), "the request is no longer needed"),
        (step("approval_moved"), "approval moved"),
        (
            step("rule_granted", rule="force-push", by="cli", lasting=True),
            "rule granted permanently by cli: force-push",
        ),
        (step("rule_granted", rule="force-push", lasting=False), "rule granted for this conversation: force-push"),
        (step("rule_revoked", rule="force-push", by="cli"), "rule revoked by cli: force-push"),
        (step("something_new"), "something new"),
        (
            step("compacted", tokens_before=27_216, tokens_after=4_085, by_model=True),
            "older messages were summarised (27,216 → 4,085 tokens)",
        ),
        (
            step("compacted", tokens_before=900, tokens_after=100, by_model=False),
            "older messages were summarised (900 → 100 tokens, by an extract, because the model wrote no summary)",
        ),
        (
            step("compacted", tokens_before=900, tokens_after=900, by_model=True),
            "older messages could not be made shorter (900 tokens)",
        ),
    ],
)
def test_the_rarer_steps(event: Step, words: str) -> None:
    assert lines(replace(TRACE, steps=(event,)), NOW, ON)[-1].endswith(f"  {words}")


def test_a_refusal_in_one_line() -> None:
    known = RefusedMessage(
        at_ms=ACCEPTED, account="telegram", chat="42", message_id="7", sender_id="42", reason="not paired yet"
    )
    line = "2026-09-21 14:13 UTC  telegram:42 (message 7)  from 42: not paired yet"
    assert trace.refusal_line(known) == line
    assert trace.refusal_line(replace(known, message_id="")) == line.replace(" (message 7)", "")
    assert trace.refused(known) == "Not answered because it was refused: not paired yet."
