"""Types that the gateway and its platforms share: keys, messages in and out, addresses, receipts."""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from tools.content import Location as Location
from tools.content import Media as Media
from tools.content import MediaKind as MediaKind
from tools.content import Part as Part
from tools.content import Quote as Quote
from tools.content import Text as Text
from tools.content import text_of as text_of
from tools.content import words_of as words_of

Kind = Literal["message", "edit", "deletion", "reaction", "button", "command", "process", "wake"]
"""The kind of event. Only a message, or the end of a process that is to wake the agent, begins a turn; an edit, a
deletion, a reaction and the end of any other process are noted for the next turn."""


PROGRAMS = "api"  # the platform of programs that use the HTTP API
WEBHOOK = "hook-"  # how the tasks of webhooks begin, before the name of the route


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """The identity of a conversation. The store keeps its fields; the string form is for people."""

    platform: str
    account: str = ""  # a second bot on the same platform
    kind: str = ""  # dm, group, channel, thread; empty where a platform has only one kind
    chat: str
    thread: str = ""
    user: str = ""  # set where each member of a group has their own conversation
    task: str = ""  # set for a prompt in the background, whose answer goes to the chat all the same
    # The channel of a thread, where threads have their own ids: what is allowed there is allowed here.
    within: str = field(default="", compare=False)

    @property
    def place_names(self) -> frozenset[str]:
        """Return the names of this chat and its parent in a list of chats, for the platform and for one bot."""
        chats = filter(None, (self.chat, self.within))
        return frozenset(f"{name}:{chat}" for chat in chats for name in (self.platform, self.account_name))

    @property
    def is_private(self) -> bool:
        """Return whether nobody else reads or writes here; a platform with only one kind of chat has private ones."""
        return self.kind in ("dm", "")

    @property
    def is_of_program(self) -> bool:
        """Return whether a program asks here: each request is answered by itself, and no text of it is a command."""
        return self.platform == PROGRAMS

    @property
    def webhook(self) -> str:
        """Return the route of the webhook that asks here; empty when none does."""
        return self.task.removeprefix(WEBHOOK).rpartition("-")[0] if self.task.startswith(WEBHOOK) else ""

    @property
    def account_name(self) -> str:
        return f"{self.platform}@{self.account}" if self.account else self.platform

    @property
    def of_chat(self) -> "SessionKey":
        """Return the conversation of the chat itself, for one that runs in the background."""
        return replace(self, task="") if self.task else self

    def reply_address(self, message_id: str) -> "Address":
        return Address(account=self.account_name, chat=self.chat, thread=self.thread, reply_to=message_id)

    def __str__(self) -> str:
        user = f"u{self.user}" if self.user else ""
        task = f"b{self.task}" if self.task else ""
        return ":".join(filter(None, (self.account_name, self.kind, self.chat, self.thread, user, task)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    id: str  # the platform's immutable id, never a user name
    name: str = ""
    is_bot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The destination of a reply, fixed when the message is accepted."""

    account: str
    chat: str
    thread: str = ""
    reply_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    key: SessionKey
    message_id: str
    kind: Kind = "message"
    edited_ms: int = 0  # with the ids above, detects duplicates
    sender: Sender
    parts: tuple[Part, ...]
    sent_ms: int  # the platform's time; orders messages within a session
    about: str = ""  # the message it replies to, reacts to, or whose button it presses
    addressed: bool = True  # False: in a group, but not to us
    more_follows: bool = False  # part of an album or of a split text: the rest follows within a moment
    place_name: str = ""  # the title of the group
    called: str = ""  # our name, if the text begins with it

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def said(self) -> str:
        return words_of(self.parts)

    @property
    def said_to_us(self) -> str:
        """Return the text without our name at its start."""
        return self.said.lstrip().removeprefix(self.called).lstrip(" ,:") if self.called else self.said

    @property
    def address(self) -> Address:
        return self.key.reply_address(self.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position in a platform's stream, stored in the same commit as the messages up to it."""

    channel: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A button below a message."""

    label: str
    action: str  # 64 bytes at most: `name:argument`, looked up in the table of buttons


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    key: str  # our own idempotency key, unique, 25 characters at most
    address: Address
    parts: tuple[Part, ...]
    answers: tuple[str, ...] = ()  # ids of the messages this replies to
    notify: bool = True
    choices: tuple[Choice, ...] = ()
    edits: str = ""  # the platform's id of the earlier message to change into this one
    replaces: str = ""  # the platform's id of the draft to delete before this one is sent
    piece: int = 0  # the piece of a long message to send; only the platform knows how many there are
    failed: bool = False  # says that a turn has failed
    after: str = ""  # when this may have arrived: the platform's id of our last delivered message there

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
    """The progress of a turn, for platforms that can show it. May be lost without harm."""

    turn: str
    what: Literal["started", "text", "reasoning", "restart", "tool", "ended"]
    text: str = ""
    tool: ToolProgress | None = None
