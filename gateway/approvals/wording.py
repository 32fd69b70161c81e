"""Word approval requests and their outcomes, and read what people answer. Pure."""

import re
import unicodedata
from typing import Literal, get_args

from gateway.clock import how_long
from gateway.messages import Choice
from gateway.store.approvals import Approval
from gateway.wording import fence, shorten

Verdict = Literal["once", "session", "always", "deny"]

WROTE_INSTEAD = "wrote instead"  # in `decided_by`: nobody has decided, but what they say next is something else
_LABELS: dict[Verdict, str] = {"once": "Once", "session": "Session", "always": "Always", "deny": "Deny"}
_YES = {
    *("yes", "y", "yep", "yeah", "yes please", "ok", "okay", "sure", "approve", "allow", "go ahead", "do it"),
    *("👍", "✅"),
}
_NO = {"no", "n", "nope", "no thanks", "deny", "never", "not now", "don't", "do not", "👎", "⛔"}
MAX_SHOWN_CHARS = 300


def render_question(approval: Approval, wait_ms: int, *, for_whom: str = "") -> str:
    """Render all that would be done, and where: whoever decides sees nothing else."""
    question = approval.question
    whom = f" for {escape_invisible(for_whom)}" if for_whom else ""
    lines = [f"⚠️ May I do this{whom}?", fence(escape_invisible(question.action))]
    if question.where:
        lines.append(f"Where: {escape_invisible(question.where)}")
    lines += [f"Reason: {escape_invisible(reason)}." for reason in question.reasons]
    if question.rules:
        lines.append(f"Session and Always also allow: {_rules(approval)}")
    commands = f"/approve {approval.id} or /deny {approval.id}"
    return "\n".join([*lines, f"No answer within {how_long(wait_ms)} means no. You can also send {commands}."])


def list_choices(approval: Approval) -> tuple[Choice, ...]:
    offered: tuple[Verdict, ...] = ("once", "deny")
    if approval.question.rules:
        offered = ("once", "session", "always", "deny")
    return tuple(Choice(label=_LABELS[one], action=f"approval:{approval.id}:{one}") for one in offered)


def render_outcome(approval: Approval, *, by: str = "") -> str:
    """Render the outcome in one line."""
    action = f"`{_code(shorten(approval.question.action, MAX_SHOWN_CHARS))}`"
    who = f" by {escape_invisible(by)}" if by else ""
    match approval.state:
        case "approved" | "used":
            allowed = {"session": "Allowed for this conversation", "always": "Always allowed"}.get(approval.scope)
            return (
                f"✅ {allowed}{who}: {action} (also allows {_rules(approval)})"
                if allowed
                else f"✅ Allowed once{who}: {action}"
            )
        case "denied" if approval.decided_by == WROTE_INSTEAD:
            return f"↩️ Not done, because you wrote something else: {action}"
        case "denied":
            return f"⛔ Denied{who}: {action}"
        case "expired":
            return f"⌛ No answer in time, so it was not done: {action}"
        case "withdrawn":
            return f"↩️ No longer needed: {action}"
        case "waiting":
            return f"Waiting for an answer: {action}"


def parse_verdict(word: object) -> Verdict | None:
    """Return the verdict that a button carries; None for any other word."""
    return next((verdict for verdict in get_args(Verdict) if verdict == word), None)


def read_verdict(said: str) -> Verdict | None:
    """Read a text that is only a yes or a no, perhaps with its duration; None for any other."""
    words = re.sub(r"[\s.,!]+", " ", said.lower().replace("’", "'")).strip()
    if words in _NO:
        return "deny"
    scopes: tuple[Verdict, ...] = ("once", "session", "always")
    for scope in scopes:
        if words == scope or (words.endswith(f" {scope}") and words.removesuffix(f" {scope}") in _YES):
            return scope
    return "once" if words in _YES else None


def summarize(approval: Approval) -> str:
    """Render a question for a list."""
    return f"{approval.id}: {escape_invisible(shorten(approval.question.action, MAX_SHOWN_CHARS))}"


def escape_invisible(text: str) -> str:
    """Escape what makes a text look like another: control characters, changes of direction, invisible characters."""
    return "".join(mark if mark in "\n\t" or not _is_hidden(mark) else f"\\u{ord(mark):04x}" for mark in text)


def _is_hidden(mark: str) -> bool:
    return unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _rules(approval: Approval) -> str:
    return ", ".join(f"`{_code(rule)}`" for rule in approval.question.rules)


def _code(text: str) -> str:
    return escape_invisible(text).replace("`", "'")
