"""Approval requests on the page: list those that wait, wherever they were asked, and answer them.

Every visitor of the page is the owner; `gateway/web/access.py` lets in nobody else.
"""

from collections.abc import Callable
from typing import Any

from gateway.approvals import decisions
from gateway.approvals.wording import escape_invisible, list_choices, parse_verdict
from gateway.messages import Address
from gateway.platforms.web import key_of
from gateway.store import approvals, chats, web_chats
from gateway.store.approvals import Approval
from gateway.store.db.connection import Transaction

_OWNER = decisions.DecidingPerson(account="web", id="owner", name="", role="owner")
_KINDS = {"group": "group", "channel": "channel", "thread": "thread in"}


def list_waiting(tx: Transaction, clean: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the waiting requests, oldest first. `clean` hides secrets, as in the chats where they were asked."""
    return [_render(tx, approval, lambda text: clean(escape_invisible(text))) for approval in approvals.waiting(tx)]


def decide(tx: Transaction, approval_id: str, verdict: object) -> str | None:
    """Return the outcome in words; None if there is no such request or no such answer to it."""
    approval, known = approvals.get(tx, approval_id), parse_verdict(verdict)
    if approval is None or known is None:
        return None
    outcome = decisions.decide(tx, approval, known, _OWNER)
    decisions.update_message(tx, approval)
    return outcome


def _render(tx: Transaction, approval: Approval, clean: Callable[[str], str]) -> dict[str, Any]:
    question, asked_at = approval.question, approval.asked_at
    return {
        "id": approval.id,
        "account": asked_at.account,
        "chat": asked_at.chat,
        "place": clean(_name_place(tx, asked_at)),
        "for": clean(approval.asker.sender_name),
        "action": clean(question.action),
        "where": clean(question.where),
        "reasons": [clean(reason) for reason in question.reasons],
        "rules": [clean(rule) for rule in question.rules],
        "choices": [
            {"label": choice.label, "verdict": choice.action.rpartition(":")[2]} for choice in list_choices(approval)
        ],
        "expires_ms": approval.expires_ms,
    }


def _name_place(tx: Transaction, asked_at: Address) -> str:
    """Return the title of a chat of the page, or the platform and what is known of the chat there."""
    if asked_at.account == "web":
        return web_chats.title(tx, str(key_of(asked_at.chat)))
    platform, _, account = asked_at.account.partition("@")
    place = chats.find(tx, asked_at.account, asked_at.chat, asked_at.thread)
    kind, name = (place.kind, place.name) if place else ("", "")
    if kind == "dm":
        chat = f"direct message with {name}" if name else "direct message"
    else:
        chat = f"{_KINDS.get(kind, 'chat')} {name or asked_at.chat}"
    return f"{platform.capitalize()}{f' ({account})' if account else ''}, {chat}"
