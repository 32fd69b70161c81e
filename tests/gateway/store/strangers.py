"""People who want to be let in, and what they are told."""

import re
from dataclasses import replace

from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.policies.pairing import PairingLimits
from gateway.store import pairing
from gateway.store.db.connection import Transaction

LIMITS = PairingLimits()


def stranger(
    user: str = "42", text: str = "hello", *, account: str = "telegram", name: str = "Ada", kind: str = "dm"
) -> InboundMessage:
    platform, _, bot = account.partition("@")
    return InboundMessage(
        key=SessionKey(platform=platform, account=bot, kind=kind, chat=f"chat {user}"),
        message_id="1",
        sender=Sender(id=user, name=name),
        parts=(Text(text=text),),
        sent_ms=1,
    )


def saying(message: InboundMessage, text: str) -> InboundMessage:
    return replace(message, parts=(Text(text=text),))


def asks(tx: Transaction, user: str = "42", *, account: str = "telegram", limits: PairingLimits = LIMITS) -> str:
    """A stranger asks and is told a code, as delivery would do it."""
    assert pairing.ask(tx, stranger(user, account=account), limits)
    return told(tx, user, account=account, limits=limits)


def told(tx: Transaction, user: str = "42", *, account: str = "telegram", limits: PairingLimits = LIMITS) -> str:
    text = pairing.compose_code(tx, account, f"chat {user}", limits)
    assert text is not None
    found = re.search(r"`([A-Z2-9]{8})`", text)
    assert found is not None
    return found[1]
