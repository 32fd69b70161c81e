"""The words the gateway and its platforms share: keys, messages in and out, addresses, receipts."""

from dataclasses import dataclass
from typing import Literal

from tools.parts import Location, Media, MediaKind, Part, Text, text_of

__all__ = [
    "Address",
    "Cursor",
    "InboundMessage",
    "Kind",
    "Location",
    "Media",
    "MediaKind",
    "OutboundMessage",
    "Part",
    "Progress",
    "Receipt",
    "Sender",
    "SessionKey",
    "Text",
    "ToolProgress",
    "text_of",
]

Kind = Literal["message", "command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """Which conversation. The parts are what the store keeps; the string is for people."""

    platform: str
    account: str = ""  # a second bot on the same platform
    kind: str = ""  # dm, group, channel, thread; empty where a platform has only one kind
    chat: str
    thread: str = ""
    user: str = ""  # set where each member of a group has a conversation of their own

    @property
    def account_name(self) -> str:
        return f"{self.platform}@{self.account}" if self.account else self.platform

    def reply_address(self, message_id: str) -> "Address":
        return Address(account=self.account_name, chat=self.chat, thread=self.thread, reply_to=message_id)

    def __str__(self) -> str:
        user = f"u{self.user}" if self.user else ""
        return ":".join(filter(None, (self.account_name, self.kind, self.chat, self.thread, user)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    id: str  # the platform's immutable id, never a user name
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a reply goes: fixed when the message is accepted."""

    account: str
    chat: str
    thread: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    key: SessionKey
    message_id: str
    kind: Kind = "message"
    edited_ms: int = 0  # together with the ids above: seen before?
    sender: Sender
    parts: tuple[Part, ...]
    sent_ms: int  # the platform's time: decides the order within a session

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def address(self) -> Address:
        return self.key.reply_address(self.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a platform's stream has been taken, kept in the same commit as what was taken."""

    channel: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    key: str  # ours, unique, 25 characters at most: a platform that can refuse a second copy is given it
    address: Address
    parts: tuple[Part, ...]
    answers: tuple[str, ...] = ()  # ids of the messages this replies to
    notify: bool = True

    @property
    def text(self) -> str:
        return text_of(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    message_id: str  # the platform's: "delivered" always means one of these


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    id: str
    name: str
    arguments: str
    result: str | None = None  # None while it runs
    error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is going on in a turn, for a platform that can show it. May be lost without harm."""

    turn: str
    what: Literal["started", "text", "reasoning", "restart", "tool", "ended"]
    text: str = ""
    tool: ToolProgress | None = None
