"""Messages that whoever runs `hermes send` has for a chat: find the chat, queue the row, tell what became of it.

The running gateway delivers the row like any other; these units only write and read it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from gateway.messages import Part
from gateway.outbound.send_message import MAX_LISTED, TOPIC, in_words, list_known
from gateway.store import chats, media, outbox, trail
from gateway.store.chats import ChatPlace
from gateway.store.db.connection import Transaction, build
from gateway.store.members import Problem
from gateway.store.trail import TrailEvent

_CLOSE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SendState:
    """The outbox row of a message at one moment."""

    state: str
    receipt: str  # the platform's message id
    problem: str
    piece: int  # pieces of a long message that have arrived

    @property
    def is_over(self) -> bool:
        return self.state in ("sent", "failed", "in_doubt", "expired")


def find_target(
    tx: Transaction, to: str, accounts: Collection[str], allowed_chats: Collection[str] = ()
) -> ChatPlace | Problem:
    """Return the chat that is named: `telegram`, `telegram:CHAT` or `telegram:CHAT:THREAD`.

    A platform alone means its home, else the private chat in which an owner last wrote there.
    """
    name, _, rest = to.strip().partition(":")
    name = name.strip().lower()
    named = [one for one in accounts if one == name] or [one for one in accounts if one.partition("@")[0] == name]
    if not named:
        return Problem(text=_explain_platform(name, accounts))
    chat, _, thread = (part.strip() for part in rest.partition(":"))
    if not chat:
        return _find_home(tx, name, named)
    for account in named:
        place = chats.find(tx, account, chat)
        if place is None and f"{account}:{chat}" in allowed_chats:
            place = ChatPlace(account=account, chat=chat)
        if place is not None:
            return replace(place, thread=thread, is_home=place.is_home and not thread)
    return Problem(text=_explain_chat(tx, name, chat, named))


def queue(tx: Transaction, place: ChatPlace, parts: Sequence[Part], *, age_limit_ms: int) -> int:
    """Add the row that the gateway delivers, and return its id."""
    media.record_parts(tx, parts)
    return outbox.add(tx, place.address, parts, topic=TOPIC, age_limit_ms=age_limit_ms)


def read_state(tx: Transaction, row_id: int) -> SendState | None:
    """Return the state of the row; None when it was erased meanwhile."""
    row = tx.one("SELECT state, receipt, problem, piece FROM outbox WHERE id = ?", row_id)
    return build(SendState, row) if row is not None else None


def withdraw(tx: Transaction, row_id: int) -> SendState | None:
    """Take back what was not sent yet, because nobody waits for it any more; return the state of the row."""
    before = read_state(tx, row_id)
    outbox.cancel(tx, row_id)
    after = read_state(tx, row_id)
    if before is not None and after is not None and before.state != after.state:
        trail.record(tx, TrailEvent.EXPIRED, outbox_id=row_id)
    return after


def _find_home(tx: Transaction, name: str, accounts: Collection[str]) -> ChatPlace | Problem:
    address = chats.find_notice_address(tx, accounts)
    if address is None:
        known = list(list_known(tx, accounts).values())
        hint = f" Or name a chat: {known[0].id}." if known else ""
        return Problem(text=f"{name} has no home chat yet. Send /sethome in the chat that should be it.{hint}")
    found = chats.find(tx, address.account, address.chat, address.thread)
    return found or ChatPlace(account=address.account, chat=address.chat, thread=address.thread)


def _explain_platform(name: str, accounts: Collection[str]) -> str:
    near = get_close_matches(name, sorted(accounts), n=1, cutoff=_CLOSE)
    hint = f"Did you mean {near[0]}?" if near else f"Switched on: {', '.join(sorted(accounts)) or 'nothing'}."
    return f"There is no platform {name!r} on this gateway. {hint} Write it as telegram, or telegram:CHAT."


def _explain_chat(tx: Transaction, name: str, chat: str, accounts: Collection[str]) -> str:
    """Say that the chat is unknown, and name the one that is probably meant, or those that are known."""
    known = list(list_known(tx, accounts).values())
    names = {spelling.lower(): place for place in reversed(known) for spelling in (place.chat, place.name) if spelling}
    near = get_close_matches(chat.lower(), list(names), n=1, cutoff=_CLOSE)
    if near:
        place = names[near[0]]
        hint = f"Did you mean {place.id}, {in_words(replace(place, is_home=False)).rpartition(' (')[0]}?"
    elif known:
        hint = f"Known there: {'; '.join(map(in_words, known[:MAX_LISTED]))}."
    else:
        hint = "Nobody has written to the bot there yet; a chat is known once somebody has."
    return f"There is no known chat {chat!r} on {name}. {hint}"
