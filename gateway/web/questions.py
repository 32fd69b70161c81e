"""The page's list of what waits for a decision, wherever it was asked, and the decision itself.

Whoever is on the page is the owner: the door has seen to that.
"""

from collections.abc import Callable
from typing import Any

from gateway.approvals import decisions
from gateway.approvals.wording import as_verdict, choices, plainly
from gateway.platforms.web import key_of
from gateway.store import approvals, web_chats
from gateway.store.approvals import Approval
from gateway.store.db.connection import Transaction

_OWNER = decisions.DecidingPerson(account="web", id="owner", name="", role="owner")


def waiting(tx: Transaction, clean: Callable[[str], str]) -> list[dict[str, Any]]:
    """The oldest first. `clean` hides secrets, as in the chats where they were asked."""
    return [_shown(one, _title(tx, one), lambda text: clean(plainly(text))) for one in approvals.waiting(tx)]


def decide(tx: Transaction, approval_id: str, verdict: object) -> str | None:
    """What became of it, in words; None when there is no such question or no such answer to it."""
    approval, known = approvals.get(tx, approval_id), as_verdict(verdict)
    if approval is None or known is None:
        return None
    said = decisions.decide(tx, approval, known, _OWNER)
    decisions.show(tx, approval)
    return said


def _title(tx: Transaction, approval: Approval) -> str:
    """Return the title of the chat on the page in which it was asked; empty when it was asked elsewhere."""
    asked_at = approval.asked_at
    return web_chats.title(tx, str(key_of(asked_at.chat))) if asked_at.account == "web" else ""


def _shown(approval: Approval, title: str, worded: Callable[[str], str]) -> dict[str, Any]:
    question = approval.question
    return {
        "id": approval.id,
        "account": approval.asked_at.account,
        "chat": approval.asked_at.chat,
        "for": worded(approval.asker.sender_name),
        "title": worded(title),
        "session": worded(approval.asker.session_key),
        "action": worded(question.action),
        "where": worded(question.where),
        "reasons": [worded(reason) for reason in question.reasons],
        "rules": [worded(rule) for rule in question.rules],
        "choices": [
            {"label": choice.label, "verdict": choice.action.rpartition(":")[2]} for choice in choices(approval)
        ],
        "expires_ms": approval.expires_ms,
    }
