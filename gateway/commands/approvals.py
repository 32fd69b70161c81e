"""Deciding questions: by a button below them, or by a command."""

from collections.abc import Sequence

from gateway.approvals import decisions
from gateway.approvals.wording import Verdict, parse_verdict, render_outcome, summarize
from gateway.commands.registry import Answer, CommandCall, CommandReply, CommandSpec
from gateway.store import approvals
from gateway.store.approvals import Approval
from gateway.store.db.connection import Transaction

_GONE = "That approval request no longer exists."


def decide_pressed(tx: Transaction, call: CommandCall) -> Answer:
    """Pressed once more, or late, it shows what became of it."""
    approval_id, _, word = call.arguments.partition(":")
    approval, verdict = _of_this_chat(tx, call, approval_id), parse_verdict(word)
    if approval is None or verdict is None:
        return _GONE
    if not approval.is_waiting:
        return CommandReply(render_outcome(approval), in_place=True)
    said = decisions.decide(tx, approval, verdict, _person(call))
    return CommandReply(said, in_place=said != decisions.ONLY_OWNERS)


def ask_again(tx: Transaction, call: CommandCall) -> Answer:
    approval = _of_this_chat(tx, call, call.arguments)
    if approval is None:
        return _GONE
    if not decisions.may_deny(approval, _person(call)):
        return decisions.ONLY_OWNERS
    if approval.state != "expired":
        return CommandReply(render_outcome(approval), in_place=True)
    said = decisions.ask_again(tx, approval, call.role_of)
    return CommandReply(f"{render_outcome(approval)}\n{said}", in_place=True)


def approve(tx: Transaction, call: CommandCall) -> str:
    *ids, last = call.arguments.lower().split() or ["once"]
    scope = parse_verdict(last)
    if scope is None or scope == "deny":
        ids, scope = [*ids, last], "once"
    return _decide(tx, call, " ".join(ids), scope)


def deny(tx: Transaction, call: CommandCall) -> str:
    return _decide(tx, call, call.arguments.lower(), "deny")


def _decide(tx: Transaction, call: CommandCall, approval_id: str, verdict: Verdict) -> str:
    person = _person(call)
    here = [one for one in _here(tx, call) if approval_id in ("", one.id) and decisions.may_deny(one, person)]
    elsewhere = [] if here or call.role != "owner" else approvals.waiting(tx)
    asked = here or [one for one in elsewhere if one.id == approval_id]
    if not asked:
        return _not_waiting(tx, call, approval_id) if approval_id else _elsewhere(call, elsewhere)
    if len(asked) > 1:
        return decisions.ask_which(asked)
    [one] = asked
    said = decisions.decide(tx, one, verdict, person)
    if said != decisions.ONLY_OWNERS:
        decisions.update_message(tx, one)
    return said if here or call.key.is_private else f"{approval_id} has been answered."


def _here(tx: Transaction, call: CommandCall) -> list[Approval]:
    """Those that stand here or are about this conversation: without an id no other can be meant."""
    found = [*approvals.waiting_at(tx, call.key.reply_address("")), *approvals.waiting_in(tx, str(call.key))]
    return list({one.id: one for one in found}.values())


def _elsewhere(call: CommandCall, waiting: Sequence[Approval]) -> str:
    if not waiting:
        return "No approval request is waiting."
    # What others have asked for is no affair of those who read along here.
    lines = [f"/{call.name} {summarize(one) if call.key.is_private else one.id}" for one in waiting]
    return "\n".join(["No approval request is waiting here. Waiting in other chats:", *lines])


def _not_waiting(tx: Transaction, call: CommandCall, approval_id: str) -> str:
    """Say how a request ended, to those who could see it anyway."""
    known = approvals.get(tx, approval_id)
    is_theirs = _of_this_chat(tx, call, approval_id) is not None or call.is_owners_own
    if known is not None and not known.is_waiting and is_theirs:
        return render_outcome(known)
    return f"No approval request {approval_id} is waiting."


def _of_this_chat(tx: Transaction, call: CommandCall, approval_id: str) -> Approval | None:
    found = approvals.get(tx, approval_id)
    place = (call.key.account_name, call.key.chat)
    return found if found is not None and (found.asked_at.account, found.asked_at.chat) == place else None


def _person(call: CommandCall) -> decisions.DecidingPerson:
    return decisions.DecidingPerson(
        account=call.key.account_name, id=call.sender_id, name=call.sender_name, role=call.role
    )


APPROVAL_COMMANDS = (
    CommandSpec("approve", "Access", "Approve a request", approve, "[ID] [session|always]"),
    CommandSpec("deny", "Access", "Deny a request", deny, "[ID]"),
)
