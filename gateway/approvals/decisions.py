"""Put a question to a human in a chat, let somebody decide it who may, and show the outcome in its message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from gateway.approvals.wording import (
    WROTE_INSTEAD,
    Verdict,
    list_choices,
    read_verdict,
    render_outcome,
    render_question,
    summarize,
)
from gateway.clock import now_ms
from gateway.messages import Address, Choice, InboundMessage, Sender, Text
from gateway.policies.access import Role, lesser
from gateway.store import approvals, inbox, outbox
from gateway.store.approvals import Approval, Asker
from gateway.store.db.connection import Transaction
from gateway.store.people import RoleOf
from tools.approval.gate import Question

TOPIC = "approval"
_COMMAND = "the hermes command"
ONLY_OWNERS = "Only an owner can answer this request."
_ASKED_ELSEWHERE = "This needs an owner's approval. I asked for it and will continue once they answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingPerson:
    """Whoever decides."""

    account: str
    id: str
    name: str
    role: Role

    @property
    def handle(self) -> str:
        return f"{self.account}:{self.id}" if self.id else self.account


def ask(
    tx: Transaction, asker: Asker, call_id: str, question: Question, at: Address, *, origin: Address, wait_ms: int
) -> Approval:
    """Store a question and post it, as a notice: asked twice does less harm than not at all."""
    approval = approvals.create(tx, asker, call_id, question, at, expires_ms=now_ms() + wait_ms)
    is_elsewhere = (at.account, at.chat, at.thread) != (origin.account, origin.chat, origin.thread)
    said = outbox.add(
        tx,
        at,
        [Text(text=render_question(approval, wait_ms, for_whom=asker.sender_name if is_elsewhere else ""))],
        kind="notice",
        topic=TOPIC,
        turn_id=asker.turn_id,
        choices=list_choices(approval),
        age_limit_ms=wait_ms,
    )
    approvals.set_outbox_row(tx, approval.id, said)
    if is_elsewhere:
        outbox.add_notice(tx, origin, _ASKED_ELSEWHERE, topic=TOPIC, turn_id=asker.turn_id)
    return approval


def decide(tx: Transaction, approval: Approval, verdict: Verdict, person: DecidingPerson) -> str:
    """Decide a request and return what to tell the decider. The caller updates its message: see `show`."""
    may = may_deny(approval, person) if verdict == "deny" else may_decide(approval, person)
    if not may:
        return ONLY_OWNERS
    if verdict == "deny":
        is_new = approvals.deny(tx, approval, by=person.handle)
    else:
        scope = verdict if approval.question.rules else "once"
        is_new = approvals.approve(tx, approval, scope, by=person.handle)
    return render_outcome(approvals.get(tx, approval.id) or approval, by=person.name if is_new else "")


def decide_for_owner(tx: Transaction, approval_id: str, verdict: Verdict) -> tuple[bool, str]:
    """Decide a request for whoever runs `hermes approvals`; return whether it was decided here, and what to say."""
    approval = approvals.get(tx, approval_id.lower())
    if approval is None:
        return False, _unknown(approval_id, [one.id for one in approvals.waiting(tx)])
    if approval.is_waiting and approval.expires_ms <= now_ms():  # no gateway was running to expire it
        expire(tx, approval)
        approval = approvals.get(tx, approval.id) or approval
    if not approval.is_waiting:
        return False, render_outcome(approval)
    if verdict in ("session", "always") and not approval.question.rules:
        return False, f"This can only be allowed once: hermes approvals approve {approval.id}"
    said = decide(tx, approval, verdict, DecidingPerson(account=_COMMAND, id="", name=_COMMAND, role="owner"))
    update_message(tx, approval)
    return True, said


def may_decide(approval: Approval, person: DecidingPerson) -> bool:
    return person.role == "owner" or (approval.question.decider == "asker" and _is_for(approval, person))


def may_deny(approval: Approval, person: DecidingPerson) -> bool:
    """Return whether a person may deny it: nobody needs an owner to do without something."""
    return person.role == "owner" or _is_for(approval, person)


def update_message(tx: Transaction, approval: Approval) -> None:
    """Replace the message of a question by its outcome. One that was not sent yet is not sent."""
    now = approvals.get(tx, approval.id)
    receipt = outbox.cancel(tx, now.outbox_id) if now is not None and now.outbox_id is not None else ""
    if now is None or not receipt:
        return
    again = (Choice(label="Ask again", action=f"askagain:{now.id}"),) if now.state == "expired" else ()
    words = [Text(text=render_outcome(now))]
    outbox.add(tx, now.asked_at, words, kind="notice", topic=TOPIC, notify=False, choices=again, edits=receipt)


def expire(tx: Transaction, approval: Approval) -> None:
    if approvals.expire(tx, approval):
        update_message(tx, approval)


def withdraw(tx: Transaction, turn_id: str) -> None:
    """Withdraw the questions of a turn that is over."""
    for approval in approvals.waiting_for(tx, turn_id):
        if approvals.withdraw(tx, approval):
            update_message(tx, approval)


def read_answer(tx: Transaction, message: InboundMessage, role: Role) -> Literal["", "answer", "something else"]:
    """Decide a question if the message answers one; return whether it was an answer and nothing else.

    When somebody writes something else, what waits for them here is denied: they have gone on. A yes or a no that could
    as well be about what was said since decides nothing.
    """
    person = DecidingPerson(account=message.key.account_name, id=message.sender.id, name=message.sender.name, role=role)
    own = [one for one in approvals.waiting_in(tx, str(message.key)) if _is_for(one, person)]
    here = approvals.waiting_at(tx, message.address)
    asked = list({one.id: one for one in (*own, *here)}.values())
    # Told once more by the platform, it was the answer to another question, if to any.
    if not asked or inbox.is_outdated(tx, message):
        return ""
    verdict = read_verdict(message.said_to_us)
    if verdict is not None:
        return _answer(tx, message, asked, verdict, person)
    for one in own:
        approvals.deny(tx, one, by=WROTE_INSTEAD)
        update_message(tx, one)
    return "something else" if own else ""


def ask_which(asked: Sequence[Approval]) -> str:
    """Ask somebody which question they mean: their answer could be about any of these, or about none."""
    lines = [f"/approve {summarize(one)}" for one in asked]
    if len(asked) == 1:
        return "\n".join(["This approval request is still open. Use its buttons, or send:", *lines])
    return "\n".join(["Several approval requests are open. Use their buttons, or send one of:", *lines])


def ask_again(tx: Transaction, approval: Approval, role_of: RoleOf) -> str:
    """Tell the agent to try once more, and so to ask once more; return what to tell whoever wants that."""
    asked = [one for one in inbox.read_turn(tx, approval.asker.turn_id) if one.asks]
    if not asked:
        return "That was too long ago. Please ask me again."
    last = asked[-1]
    role = role_of(tx, last.key, last.sender_id)
    if role is None:
        return "The person it was for no longer has access."
    words = (
        "[Nobody had decided in time whether you may do the following, and it was not done. You are asked to try "
        f"exactly this once more: {approval.question.action}]"
    )
    wake = InboundMessage(
        key=last.key,
        message_id=f"again-{approval.id}",
        kind="wake",
        sender=Sender(id=last.sender_id, name=last.sender_name),
        parts=(Text(text=words),),
        sent_ms=now_ms(),
        about=last.address.reply_to,
    )
    # Rights of then that were taken back are not given again, nor are those of now: it is what they asked for then.
    rights = lesser(role, cast(Role, last.role))
    is_new = inbox.insert(tx, wake, person_id=last.person_id or "", role=rights) is not None
    return "Trying again; I will ask again." if is_new else "This was already asked again."


def _answer(
    tx: Transaction, message: InboundMessage, asked: Sequence[Approval], verdict: Verdict, person: DecidingPerson
) -> Literal["", "answer", "something else"]:
    # Nobody says yes to what they cannot have seen: that was about something else.
    seen = [one for one in asked if verdict == "deny" or one.outbox_id is None or outbox.was_tried(tx, one.outbox_id)]
    replied_to = [
        one for one in seen if one.outbox_id is not None and outbox.is_receipt(tx, one.outbox_id, message.about)
    ]
    theirs = [one for one in seen if may_deny(one, person)]
    meant = replied_to or theirs or seen
    could_be_meant = bool(replied_to) or any(_is_at_hand(tx, one, message) for one in meant)
    if not meant or not (could_be_meant or theirs):
        return ""
    if not could_be_meant or (len(meant) > 1 and theirs):
        outbox.add_notice(tx, message.address, ask_which(meant), topic=TOPIC)
        return "answer" if could_be_meant else "something else"
    said = decide(tx, meant[0], verdict, person)
    if said == ONLY_OWNERS:
        outbox.add_notice(tx, message.address, said, topic=TOPIC)
    else:
        update_message(tx, meant[0])
    return "answer"


def _is_at_hand(tx: Transaction, approval: Approval, message: InboundMessage) -> bool:
    """Return whether a mere yes can be about it: this conversation waits for it, or it was the last thing said here.

    Else somebody who says "ok" to what we talk about now would allow what was asked an hour ago for another.
    """
    return approval.asker.session_key == str(message.key) or approvals.is_last_in_chat(tx, approval)


def _is_for(approval: Approval, person: DecidingPerson) -> bool:
    asker = approval.asker
    return bool(asker.sender_id) and (asker.account, asker.sender_id) == (person.account, person.id)


def _unknown(approval_id: str, waiting: "Sequence[str]") -> str:
    from difflib import get_close_matches

    if not waiting:
        return f"There is no approval request {approval_id!r}; none is waiting."
    near = get_close_matches(approval_id.lower(), waiting, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Waiting: {', '.join(waiting)}."
    return f"There is no approval request {approval_id!r}. {hint} `hermes approvals list` shows them."
