"""Describe what happened to a message: one sentence, then the steps. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby

from gateway.approvals.wording import WROTE_INSTEAD
from gateway.clock import for_people, how_long
from gateway.store.inbox import Outcome
from gateway.store.trace import RefusedMessage, Reply, Step, Trace
from gateway.store.trail import TrailEvent
from gateway.wording import count

MAX_CHAT_LINES = 15
UNADDRESSED = (
    "Not answered because it was not addressed to me. In a group, mention me or reply to one of my messages. I "
    "did read it, and will remember it when I am asked next."
)
UNKNOWN = "I have no record of that message."
NOT_LET_IN = "Not answered because its sender may not talk to me here."

_NOTED = {"edit": "An edit", "deletion": "A deletion", "reaction": "A reaction"}
_NOTED_AS: dict[str, str] = {
    Outcome.REPLACED_TEXT: ": it came before the turn, so the new text is answered.",
    Outcome.TOOK_BACK: ": it came before the turn, so nothing is answered.",
    Outcome.FULL: ", dropped: too many notes were waiting for the next message.",
}
_NOT_TAKEN: dict[str, str] = {
    Outcome.FULL: "too many messages were waiting. Send it again later",
    Outcome.TOO_FAST: "the sender sent too many messages within a minute. Send it again later",
    Outcome.STOPPING: "another /stop was already waiting and did the work",
    Outcome.INVITE: "it was an invite code, which is not stored",
    Outcome.DELETED: "it was deleted before its turn began",
    Outcome.REVOKED: "the sender's access was revoked while it waited",
    Outcome.CHAT_CLOSED: "the chat was closed to guests while it waited",
    Outcome.SUPERSEDED: "a newer message took its place; what was asked here is answered there",
    Outcome.RESTORED: "the database was restored from a backup; it may have been answered before. Ask again if not",
}
_MODEL_PROBLEMS = {
    "NoEndpoint": "no usable model is configured",
    "KeyRefused": "the model provider rejected the key",
    "NoCredit": "the account at the model provider has no credit",
    "ModelUnknown": "the provider does not know the model",
    "Overloaded": "the model was overloaded",
    "Unreachable": "the model could not be reached",
    "BrokenAnswer": "the model sent an invalid response",
    "OutOfRoom": "the answer exceeded the token limit",
    "ContextTooLong": "the conversation was too long for the model",
    "Filtered": "the model provider filtered it",
    "RequestRefused": "the model provider rejected the request",
    "BudgetSpent": "the budget is used up, or too little is left. /usage shows it",
}
_DESCRIPTIONS: dict[str, str] = {
    TrailEvent.ACCEPTED: "accepted",
    TrailEvent.REFUSED: "refused: {reason}",
    TrailEvent.NOTED: "noted: {reason}",
    TrailEvent.RESUMED: "resumed after a {after}",
    TrailEvent.TOOL_STARTED: "{tool} started",
    TrailEvent.JOINED: "joined the running turn",
    TrailEvent.OPENED: "added to the conversation",
    TrailEvent.DRAFT_SHOWN: "draft shown",
    TrailEvent.DELEGATED: "task {task} was delegated (hermes trace {child})",
    TrailEvent.DELEGATION_ENDED: "task {task} ended: {outcome}{used}",
    TrailEvent.PAUSED: "paused, because the gateway was stopped",
    TrailEvent.ANSWERED: "answer saved",
    TrailEvent.STOPPED: "stopped",
    TrailEvent.GIVEN_UP: "given up",
    TrailEvent.SUPERSEDED: "left to a newer message",
    TrailEvent.RESTORED: "closed, because the database was restored from a backup",
    TrailEvent.DELETED: "deleted by its sender",
    TrailEvent.REVOKED: "the sender's access was revoked",
    TrailEvent.CHAT_CLOSED: "the chat was closed for guests",
    TrailEvent.APPROVAL_ASKED: "{tool} waits for approval since {at} UTC (request {approval})",
    TrailEvent.APPROVAL_APPROVED: "allowed {scope}{by}",
    TrailEvent.APPROVAL_DENIED: "denied{by}",
    TrailEvent.APPROVAL_EXPIRED: "no answer in time, so it was not done",
    TrailEvent.APPROVAL_FORGED: "marked as approved by somebody who may not; it waits again",
    TrailEvent.APPROVAL_WITHDRAWN: "the request is no longer needed",
    TrailEvent.RULE_GRANTED: "rule granted {lasting}{by}: {rule}",
    TrailEvent.RULE_REVOKED: "rule revoked{by}: {rule}",
}
_DELIVERED: dict[str, str] = {
    TrailEvent.SENDING: "sending {what}{again}",
    TrailEvent.PIECE_SENT: "a part of {what} was delivered as message {receipt}",
    TrailEvent.SENT: "{what} was delivered as message {receipt}",
    TrailEvent.POSTPONED: "{what} could not be sent yet: {problem}",
    TrailEvent.FAILED: "{what} could not be delivered: {problem}",
    TrailEvent.IN_DOUBT: "it is unknown whether {what} arrived: {problem}",
    TrailEvent.EXPIRED: "{what} was too old to send and was dropped",
    TrailEvent.ASKED_AGAIN: "{what} is sent again on request",
}
_SCOPES = {"once": "once", "session": "for this conversation", "always": "permanently"}
_WORK = (TrailEvent.MODEL_REPLIED, TrailEvent.TOOL_STARTED, TrailEvent.TOOL_FINISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """The state of the gateway, as far as it explains why a message waits."""

    is_running: bool = True
    is_stopping: bool = False
    unconnected: Mapping[str, str] = field(default_factory=dict)  # accounts, and what is wrong


def verdict(trace: Trace, now: int, gateway: GatewayState) -> str:
    """Say in one sentence whether the message was answered, and if not why."""
    if trace.kind in _NOTED:
        read_in = (
            f"the agent saw it in turn {trace.turn.id}." if trace.turn else "the agent sees it with the next message."
        )
        return _NOTED[trace.kind] + _NOTED_AS.get(trace.outcome, f", only noted: {read_in}")
    if trace.state == "ready":
        return f"Not answered yet because {_why_waiting(trace, now, gateway)}."
    if trace.state == "running":
        return _at_work(trace, now, gateway)
    if trace.at_terminal and not trace.outcome:
        return "Not answered yet: it is still running at the terminal, or was interrupted there."
    if trace.outcome == Outcome.ANSWERED:
        return _answered(trace, now, gateway)
    said = _last_said(trace)
    if said is None:
        told = ""
    elif said.state == "sent":
        told = f" The chat was told so: {_delivered(said)}."
    else:
        told = f" A notice was written, but {_not_delivered(said, now, gateway)}"
    return f"Not answered because {_why_not(trace)}.{told}"


def lines(trace: Trace, now: int, gateway: GatewayState) -> list[str]:
    """Return the verdict and every step, for a terminal."""
    what = f"{trace.kind} {trace.message_id} in {trace.account}:{trace.chat}"
    place = f"inbox:{trace.id}, {what}, session {trace.session_key}, {for_people(trace.accepted_ms)}"
    steps = [f"{_clock(step.at_ms)}  {_after(trace, step):>11}  {_describe(trace, step)}" for step in trace.steps]
    job = [f"run of the job {trace.run.job_name!r}, due {for_people(trace.run.due_ms)}"] if trace.run else []
    task = [f"task {trace.task} that the turn of inbox:{trace.given_by} has delegated"] if trace.task else []
    return [verdict(trace, now, gateway), place, *job, *task, *steps]


def chat_lines(trace: Trace, now: int, gateway: GatewayState) -> list[str]:
    """Return the same for a chat: model and tool steps are summed up, and other chats are not named."""
    hidden = (replace(reply, elsewhere="another chat") if reply.elsewhere else reply for reply in trace.replies)
    trace = replace(trace, replies=tuple(hidden))
    steps = [f"{_after(trace, last)}  {words}" for last, words in _fold(trace)]
    room = MAX_CHAT_LINES - 1
    if len(steps) > room:  # how it began and how it ended
        left_out = len(steps) - room + 1
        steps = [*steps[: room // 2], f"({left_out} more steps)", *steps[left_out + room // 2 :]]
    return [verdict(trace, now, gateway), *steps]


def candidate(trace: Trace) -> str:
    """Return one line that tells the message from others that match a name."""
    place = f"{trace.account}:{trace.chat}:{trace.message_id}"
    return f"inbox:{trace.id}  {for_people(trace.accepted_ms)}  {trace.kind} {place}"


def refusal_line(refusal: RefusedMessage) -> str:
    message = f" (message {refusal.message_id})" if refusal.message_id else ""
    place = f"{refusal.account}:{refusal.chat}{message}"
    return f"{for_people(refusal.at_ms)}  {place}  from {refusal.sender_id}: {refusal.reason}"


def refused(refusal: RefusedMessage) -> str:
    """Return the verdict on a message of which only the refusal is stored."""
    return f"Not answered because it was refused: {refusal.reason}."


def _why_waiting(trace: Trace, now: int, gateway: GatewayState) -> str:
    if not gateway.is_running:
        return "the gateway is not running. Start it: hermes gateway run"
    if gateway.is_stopping:
        return "the gateway is stopping; it will be answered after the next start"
    if trace.session_busy:
        return "another turn is running in this conversation; this one is next. /stop ends the running one"
    if trace.not_before_ms > now:
        return "more parts of it may still arrive"
    return "it is queued; it starts when a slot for a turn is free"


def _at_work(trace: Trace, now: int, gateway: GatewayState) -> str:
    turn = trace.turn
    if turn is None or turn.state == "paused":
        return "Not answered yet because the gateway was stopped; the next start continues it."
    if not gateway.is_running:
        return "Not answered yet because the gateway is not running; the next start continues it."
    if turn.stop_requested:
        return "Not answered because it is being stopped."
    if turn.waits_since_ms is not None:
        return "Not answered yet: it waits for approval (hermes approvals list)."
    doing = f"{', '.join(turn.tools)} {'is' if len(turn.tools) == 1 else 'are'} running"
    again = f" Resumed {_times(turn.resumes)}." if turn.resumes else ""
    since = _long(now - turn.started_ms)
    return f"Being answered for {since}: {doing if turn.tools else 'waiting for the model'}.{again}"


def _answered(trace: Trace, now: int, gateway: GatewayState) -> str:
    if trace.at_terminal:
        ended_ms = max((step.at_ms for step in trace.steps), default=trace.accepted_ms)
        return f"Answered in {_long(ended_ms - trace.accepted_ms)} at the terminal."
    answer = _last_said(trace)
    if trace.task:
        return f"Done: the summary went to the turn of inbox:{trace.given_by}."
    if answer is None and trace.run is not None:
        return f"Done. The answer is in {trace.run.file}." if trace.run.file else "Done. There was nothing to tell."
    if answer is None:
        return "Done. The reply, if any, is no longer stored."
    if answer.state != "sent":
        return f"Answered, but {_not_delivered(answer, now, gateway)}"
    took = _long((answer.sent_ms or trace.accepted_ms) - trace.accepted_ms)
    return f"Answered in {took}; {_delivered(answer)}."


def _why_not(trace: Trace) -> str:
    if trace.outcome in _NOT_TAKEN:
        return _NOT_TAKEN[trace.outcome]
    match trace.outcome:
        case Outcome.STOPPED if any(step.event == TrailEvent.REVOKED for step in trace.steps):
            return "the sender's access was revoked during the turn"
        case Outcome.STOPPED:
            return f"it was stopped {'at the terminal' if trace.at_terminal else 'from the chat'}"
        case Outcome.GIVEN_UP:
            times = _times(trace.turn.resumes) if trace.turn else "several times"
            return f"the gateway was restarted {times} while working on it, and gave up"
        case Outcome.FAILED:
            return _what_failed(trace)
    return f"it ended as “{trace.outcome}”"


def _what_failed(trace: Trace) -> str:
    ends = [step for step in trace.steps if step.event == TrailEvent.FAILED and step.reply is None]
    problem = ends[-1].detail.get("problem", "") if ends else ""
    if problem:
        return _MODEL_PROBLEMS.get(problem, "the model could not answer")
    if trace.at_terminal:
        return "of an internal error, which the terminal showed"
    turn = f", turn {trace.turn.id}" if trace.turn else ""
    return f"of an internal error; see the gateway's log{turn}"


def _last_said(trace: Trace) -> Reply | None:
    """Return the answer; for a button, the line that replaced the message with the button."""
    kinds = ("answer", "notice") if trace.kind == "button" else ("answer",)
    said = [reply for reply in trace.replies if reply.kind in kinds and not reply.elsewhere]
    return said[-1] if said else None


def _delivered(reply: Reply) -> str:
    pieces = f"in {reply.pieces + 1} parts, the last " if reply.pieces else ""
    platform, _, name = reply.account.partition("@")
    bot = f" ({name})" if name else ""
    return f"delivered {pieces}as {platform.capitalize()}{bot} message {reply.receipt}"


def _not_delivered(reply: Reply, now: int, gateway: GatewayState) -> str:
    match reply.state:
        case "failed":
            return f"not delivered: {reply.problem}."
        case "in_doubt":
            return f"it is unknown whether it arrived: {reply.problem}. A button in the chat sends it again."
        case "expired":
            return "not delivered in time, so it was dropped. Ask again if you still need it."
    arrived = f" ({reply.pieces} parts arrived)" if reply.pieces else ""
    return f"not delivered yet{arrived}: {_why_unsent(reply, now, gateway)}."


def _why_unsent(reply: Reply, now: int, gateway: GatewayState) -> str:
    if not gateway.is_running:
        return "the gateway is not running. Start it: hermes gateway run"
    if (problem := gateway.unconnected.get(reply.account)) is not None:
        return f"{reply.account} is not connected" + (f": {problem}" if problem else "")
    if reply.state == "sending":
        return "it is being sent now"
    if reply.not_before_ms > now:
        why = f", because {reply.problem}" if reply.problem else ""
        return f"the next try is at {_clock(reply.not_before_ms)} UTC{why}"
    return "it waits for earlier messages or for the chat's rate limit"


def _describe(trace: Trace, step: Step) -> str:
    detail, others = step.detail, trace.turn.others if trace.turn else 0
    if step.reply is not None and step.event in _DELIVERED:
        return _describe_delivery(trace, step)
    match step.event:
        case TrailEvent.CLAIMED:
            along = f", with {count(others, 'other message')}" if others > 0 else ""
            return f"started in turn {trace.turn.id if trace.turn else '?'}{along}"
        case TrailEvent.MODEL_REPLIED:
            wanted = f", asked for {detail['tools']}" if detail.get("tools") else ""
            return f"the model replied{_took(detail)}{_tokens(detail)}{wanted}"
        case TrailEvent.COMPACTED:
            return _describe_compaction(step)
        case TrailEvent.MEMORY_CHANGED:
            return f"the memory {detail.get('key')} was {detail.get('action')}"
        case TrailEvent.TOOL_FINISHED:
            ended = f"{'failed' if detail.get('error') else 'finished'}{_took(detail)}"
            return f"{detail.get('tool')} {ended if step.was_run else 'was not run'}"
        case TrailEvent.MESSAGE_QUEUED:
            return _describe_queued(trace, step)
        case TrailEvent.FAILED:
            return f"failed: {_what_failed(trace)}"
        case TrailEvent.APPROVAL_DENIED if detail.get("by") == WROTE_INSTEAD:
            return "not approved: a different message came instead"
    # The trail stores names only; the action is in `hermes approvals list` while it waits.
    known = {
        "tool": "a call",
        "approval": "",
        "rule": "",
        "reason": "",
        "after": "",
        **detail,
        "at": _clock(step.at_ms),
    }
    known["used"] = _tokens(detail)
    known["by"] = f" by {detail['by']}" if detail.get("by") else ""
    known["scope"] = _SCOPES.get(detail.get("scope", ""), "once")
    known["lasting"] = "permanently" if detail.get("lasting") else "for this conversation"
    return _DESCRIPTIONS.get(step.event, step.event.replace("_", " ")).format(**known)


def _describe_compaction(step: Step) -> str:
    before, after = step.detail.get("tokens_before", 0), step.detail.get("tokens_after", 0)
    if after >= before:
        return f"older messages could not be made shorter ({before:,} tokens)"
    by = "" if step.detail.get("by_model", True) else ", by an extract, because the model wrote no summary"
    return f"older messages were summarised ({before:,} → {after:,} tokens{by})"


def _describe_queued(trace: Trace, step: Step) -> str:
    """Describe a message to another chat. Only its row names that chat, and is erased with the person."""
    reply = next((one for one in trace.replies if one.id == step.detail.get("row")), None)
    if reply is None:
        return "a message to another chat was queued; its details are no longer stored"
    unsent = f", not delivered{f': {reply.problem}' if reply.problem else ' yet'}"
    return f"a message to {reply.elsewhere} was queued (outbox:{reply.id}){'' if reply.state == 'sent' else unsent}"


def _describe_delivery(trace: Trace, step: Step) -> str:
    said = {reply.id: reply for reply in trace.replies}.get(step.reply or 0)
    what = "a notice" if said and said.kind == "notice" else "the answer"
    what = f"the message to {said.elsewhere}" if said and said.elsewhere else what
    attempt = step.detail.get("attempt", 1)
    again = f", try {attempt}" if attempt > 1 else ""
    known = {"receipt": "", "problem": "", **step.detail}
    return _DELIVERED[step.event].format(what=what, again=again, receipt=known["receipt"], problem=known["problem"])


def _fold(trace: Trace) -> Iterator[tuple[Step, str]]:
    """Yield each step with its text; of steps that are summed up, the last."""
    for is_work, group in groupby(trace.steps, key=lambda step: step.event in _WORK):
        steps = list(group)
        if is_work:
            yield steps[-1], _sum_up(steps)
        else:
            yield from ((step, _describe(trace, step)) for step in steps)


def _sum_up(steps: Sequence[Step]) -> str:
    calls = [step.detail for step in steps if step.event == TrailEvent.MODEL_REPLIED]
    words = []
    if calls:
        total = {name: sum(call.get(name, 0) for call in calls) for name in ("ms", "input_tokens", "output_tokens")}
        often = f" {_times(len(calls))}" if len(calls) > 1 else ""
        words.append(f"the model replied{often}{_took(total)}{_tokens(total)}")
    tools = Counter(step.detail.get("tool", "") for step in steps if step.event == TrailEvent.TOOL_STARTED)
    if tools:
        failed = sum(bool(step.detail.get("error")) and step.was_run for step in steps)
        words.append(f"used {_counted(tools)}" + (f" ({failed} failed)" if failed else ""))
    not_run = Counter(step.detail.get("tool", "") for step in steps if not step.was_run)
    if not_run:
        words.append(f"not run: {_counted(not_run)}")
    return "; ".join(words)


def _counted(tools: Mapping[str, int]) -> str:
    return ", ".join(f"{tool} ×{count}" if count > 1 else tool for tool, count in tools.items())


def _took(detail: Mapping[str, int]) -> str:
    return f" in {_long(detail['ms'])}" if "ms" in detail else ""


def _tokens(detail: Mapping[str, int]) -> str:
    used, made = detail.get("input_tokens", 0), detail.get("output_tokens", 0)
    return f" ({used:,} tokens in, {made:,} out)" if used or made else ""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _after(trace: Trace, step: Step) -> str:
    return f"+{_long(step.at_ms - trace.steps[0].at_ms)}"


def _long(ms: int) -> str:
    """Return a duration, to the millisecond where it is short."""
    if ms < 1_000:
        return f"{max(ms, 0)} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return how_long(ms)


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}.{at_ms % 1000:03}"
