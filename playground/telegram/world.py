"""Who and what there is: users, chats, messages, files, and what a chat shows. It decides nothing."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from playground.events import EventLog
from playground.telegram.rules import Wire, bad_request, forbidden
from playground.telegram.updates import UpdateQueue

ChatKind = Literal["private", "group", "supergroup", "channel"]
MemberStatus = Literal["creator", "administrator", "member", "left", "kicked"]

ANONYMOUS_ADMIN = 1087968824
CHANNEL_BOT = 136817688
DRAFT_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class User:
    id: int
    first_name: str
    last_name: str = ""
    username: str = ""
    language_code: str = ""
    is_bot: bool = False
    started: bool = True  # has talked to the bot, so the bot may talk first
    blocked: bool = False
    deactivated: bool = False

    @property
    def wire(self) -> Wire:
        wire: Wire = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        for name in ("last_name", "username", "language_code"):
            if value := getattr(self, name):
                wire[name] = value
        return wire


@dataclass(slots=True, kw_only=True)
class Post:
    """A message and what became of it. `body` is the Message as the bot would get it now."""

    body: Wire
    by_bot: bool = False
    heard: bool = False  # the bot was told of it
    deleted: bool = False
    earlier: list[str] = field(default_factory=list)  # texts before edits
    reactions: dict[int, list[Wire]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Its text or caption."""
        words: str = self.body.get("text") or self.body.get("caption", "")
        return words


@dataclass(slots=True, kw_only=True)
class Chat:
    id: int
    kind: ChatKind
    title: str = ""
    username: str = ""
    is_forum: bool = False
    bot_status: MemberStatus = "member"
    members: dict[int, MemberStatus] = field(default_factory=dict)
    posts: dict[int, Post] = field(default_factory=dict)
    topics: dict[int, Wire] = field(default_factory=dict)  # by thread id
    drafts: dict[int, Wire] = field(default_factory=dict)
    migrated_to: int = 0
    last_bot: int = 0  # the bot that spoke last, for privacy mode
    last_action: str = ""
    last_id: int = 1  # 1 is the creation of the chat
    wire: Wire = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind != "private":
            self.wire = {"id": self.id, "type": self.kind, "title": self.title}
            if self.username:
                self.wire["username"] = self.username
            if self.is_forum:
                self.wire["is_forum"] = True

    @property
    def is_group(self) -> bool:
        return self.kind in ("group", "supergroup")

    @property
    def bot_is_admin(self) -> bool:
        return self.bot_status in ("administrator", "creator")

    def post(self, message_id: int) -> Post | None:
        """A message that is still there."""
        post = self.posts.get(message_id)
        return None if post is None or post.deleted else post


@dataclass(slots=True, kw_only=True)
class StoredFile:
    id: str
    unique_id: str
    path: str
    size: int
    name: str = ""
    mime_type: str = ""
    content: bytes | None = None  # None: only its size is known
    kind: str = "document"


@dataclass(slots=True, kw_only=True)
class Query:
    """A pressed button that waits for its answer."""

    id: str
    user_id: int
    data: str
    answer: Wire | None = None
    expired: bool = False


class World:
    """Everything the server remembers. Survives the bot, not the server."""

    def __init__(self, *, bot: User, reads_all: bool = False) -> None:
        self.bot = bot
        self.reads_all = reads_all  # privacy mode off
        self.hears_mentions = False  # the documentation of privacy mode does not list mentions
        self.updates = UpdateQueue()
        self.events = EventLog()
        self.updates.on_wait = lambda: self.events.note("poll")
        self.users: dict[int, User] = {bot.id: bot}
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, StoredFile] = {}
        self.paths: dict[str, StoredFile] = {}
        self.queries: dict[str, Query] = {}
        self.commands: dict[tuple[str, str], list[Wire]] = {}
        self.names: dict[str, int] = {}  # public chats by user name
        self.now: Callable[[], float] = time.time
        self._ids = itertools.count(1)
        self._last_private_id = 0
        self.add_user(User(id=ANONYMOUS_ADMIN, first_name="Group", username="GroupAnonymousBot", is_bot=True))
        self.add_user(User(id=CHANNEL_BOT, first_name="Channel", username="Channel_Bot", is_bot=True))

    def number(self) -> int:
        """A number not given before: for ids of users, chats, files."""
        return next(self._ids)

    def add_user(self, user: User) -> User:
        self.users[user.id] = user
        if not user.is_bot:
            wire = {key: value for key, value in user.wire.items() if key not in ("is_bot", "language_code")}
            chat = Chat(id=user.id, kind="private", username=user.username)
            chat.wire = {**wire, "type": "private"}
            chat.members[user.id] = "member"
            self.add_chat(chat)
        return user

    def add_chat(self, chat: Chat) -> Chat:
        self.chats[chat.id] = chat
        if chat.username and chat.kind != "private":
            self.names[chat.username.lower()] = chat.id
        return chat

    def next_message_id(self, chat: Chat) -> int:
        """Private chats and basic groups share one count, the bot's mailbox; others count for themselves."""
        if chat.kind in ("private", "group"):
            self._last_private_id += 1
            return self._last_private_id
        chat.last_id += 1
        return chat.last_id

    def count_messages_from(self, number: int) -> None:
        """Private chats and basic groups go on from there: a bot with a past does not begin at 1."""
        self._last_private_id = max(self._last_private_id, number)

    def find_chat(self, chat_id: object) -> Chat:
        """By id or @name, as bots name chats."""
        words = str(chat_id).strip()
        if not words:
            raise bad_request("chat_id is empty")
        if words.startswith("@"):
            words = str(self.names.get(words[1:].lower(), ""))
        number = int(words) if words.lstrip("-").isdigit() else 0
        if number in self.chats:
            return self.chats[number]
        if number in self.users:
            raise forbidden("bot can't send messages to bots")
        raise bad_request("chat not found")

    def writable_chat(self, chat_id: object) -> Chat:
        """A chat the bot may write to at this moment. Raises what the server would say otherwise."""
        chat = self.find_chat(chat_id)
        if chat.migrated_to:
            refusal = bad_request("group chat was upgraded to a supergroup chat")
            refusal.parameters = {"migrate_to_chat_id": chat.migrated_to}
            raise refusal
        if chat.kind == "private":
            self._check_user(self.users[chat.id])
        elif chat.bot_status == "kicked":
            raise forbidden(f"bot was kicked from the {chat.kind} chat")
        elif chat.bot_status == "left":
            raise forbidden(f"bot is not a member of the {chat.kind} chat")
        elif chat.kind == "channel" and not chat.bot_is_admin:
            raise bad_request("need administrator rights in the channel chat")
        return chat

    def _check_user(self, user: User) -> None:
        if user.deactivated:
            raise forbidden("user is deactivated")
        if user.blocked:
            raise forbidden("bot was blocked by the user")
        if not user.started:
            raise forbidden("bot can't initiate conversation with a user")

    def show(self, chat_id: int, *, deleted: bool = False) -> list[Wire]:
        """The chat as its people see it: messages in order, with what changed them."""
        posts = self.chats[chat_id].posts.values()
        return [_shown(post) for post in posts if deleted or not post.deleted]

    def drafts(self, chat_id: int) -> list[Wire]:
        """What the bot is just writing, as far as it is not older than half a minute."""
        horizon = self.now() - DRAFT_SECONDS
        return [draft for draft in self.chats[chat_id].drafts.values() if draft["at"] > horizon]


def without_reply(body: Wire) -> Wire:
    return {key: value for key, value in body.items() if key != "reply_to_message"}


def _shown(post: Post) -> Wire:
    shown: Wire = {"by_bot": post.by_bot, "message": dict(post.body)}
    shown["text"] = post.words
    for name in ("deleted", "earlier"):
        if value := getattr(post, name):
            shown[name] = value
    if rows := post.body.get("reply_markup", {}).get("inline_keyboard"):
        shown["buttons"] = [[button["text"] for button in row] for row in rows]
    if post.reactions:
        shown["reactions"] = {str(user): marks for user, marks in post.reactions.items()}
    return shown
