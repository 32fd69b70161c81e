"""The words the gateway and its platforms share: keys, messages in and out, addresses, receipts."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from tools.content import Location, Media, MediaKind, Part, Quote, Text, text_of, words_of

__all__ = [
    "TOOL_PROGRESS_MODES",
    "Address",
    "Choice",
    "Cursor",
    "InboundMessage",
    "Kind",
    "Location",
    "Media",
    "MediaKind",
    "OutboundMessage",
    "Part",
    "Progress",
    "Quote",
    "Receipt",
    "Sender",
    "SessionKey",
    "Text",
    "ToolProgress",
    "ToolProgressMode",
    "parse_tool_progress_mode",
    "text_of",
    "words_of",
]

Kind = Literal["message", "edit", "deletion", "reaction", "button", "command", "process", "wake"]
"""What happened. Only a message begins a turn, and the end of a process that shall wake the agent; an edit, a
deletion, a reaction and the end of any other process are noted for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """Which conversation. The parts are what the store keeps; the string is for people."""

    platform: str
    account: str = ""  # a second bot on the same platform
    kind: str = ""  # dm, group, channel, thread; empty where a platform has only one kind
    chat: str
    thread: str = ""
    user: str = ""  # set where each member of a group has a conversation of their own
    # The channel that a thread hangs in, where threads have ids of their own: what is allowed there is allowed here.
    within: str = field(default="", compare=False)

    @property
    def place_names(self) -> frozenset[str]:
        """How this chat, or the one around it, may be called in a list of chats: on its platform, or for one bot."""
        chats = filter(None, (self.chat, self.within))
        return frozenset(f"{name}:{chat}" for chat in chats for name in (self.platform, self.account_name))

    @property
    def is_private(self) -> bool:
        """Return whether nobody else speaks or reads here; a platform with only one kind of chat has private ones."""
        return self.kind in ("dm", "")

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
    is_bot: bool = False


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
    about: str = ""  # the message it replies to, reacts to, or whose button it presses
    addressed: bool = True  # False: said in a group, but not to us
    more_follows: bool = False  # one of an album, or of a text that was cut in two: the rest comes within a moment
    place_name: str = ""  # what people call the group
    called: str = ""  # our name as its words begin with it, where they do

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def said(self) -> str:
        return words_of(self.parts)

    @property
    def said_to_us(self) -> str:
        """Without our name before it."""
        return self.said.lstrip().removeprefix(self.called).lstrip(" ,:") if self.called else self.said

    @property
    def address(self) -> Address:
        return self.key.reply_address(self.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a platform's stream has been taken, kept in the same commit as what was taken."""

    channel: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A button below a message."""

    label: str
    action: str  # 64 bytes at most: `name:argument`, looked up in the table of buttons


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    key: str  # ours, unique, 25 characters at most: a platform that can refuse a second copy is given it
    address: Address
    parts: tuple[Part, ...]
    answers: tuple[str, ...] = ()  # ids of the messages this replies to
    notify: bool = True
    choices: tuple[Choice, ...] = ()
    edits: str = ""  # the platform's id of an earlier message that this one takes the place of
    replaces: str = ""  # the platform's id of a draft that is taken away before this one is sent
    piece: int = 0  # which piece of a long one to send; how many there are only the platform knows
    failed: bool = False  # says that a turn has failed
    after: str = ""  # of one that may have arrived: the platform's id of our last message there that did

    @property
    def text(self) -> str:
        return text_of(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    message_id: str  # the platform's: "delivered" always means one of these
    more: bool = False  # further pieces follow


ToolProgressMode = Literal["off", "new", "all", "verbose"]
"""How much a chat sees of tools: nothing; a tool when it changes; every call; every call with its result."""

TOOL_PROGRESS_MODES: tuple[ToolProgressMode, ...] = get_args(ToolProgressMode)


def parse_tool_progress_mode(word: str) -> ToolProgressMode | None:
    return next((mode for mode in TOOL_PROGRESS_MODES if mode == word), None)


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
