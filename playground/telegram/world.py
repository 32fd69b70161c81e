"""Users, chats, messages and files of Telegram."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from playground.telegram.rules import bad_request, forbidden
from playground.telegram.updates import UpdateQueue
from playground.wire import Wire
from playground.world import ChatRoom, Post, StoredFile, World

ChatKind = Literal["private", "group", "supergroup", "channel"]
MemberStatus = Literal["creator", "administrator", "member", "left", "kicked"]

ANONYMOUS_ADMIN = 1087968824
CHANNEL_BOT = 136817688
DRAFT_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class TelegramUser:
    id: int
    first_name: str
    username: str = ""
    is_bot: bool = False
    blocked: bool = False

    @property
    def wire(self) -> Wire:
        wire: Wire = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        return {**wire, "username": self.username} if self.username else wire


@dataclass(slots=True, kw_only=True)
class TelegramMessage(Post):
    heard: bool = False  # the bot was told of it
    reactions: dict[int, list[Wire]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return str(self.body.get("text") or self.body.get("caption", ""))


@dataclass(slots=True, kw_only=True)
class TelegramChat(ChatRoom[int, TelegramMessage]):
    id: int
    kind: ChatKind
    title: str = ""
    is_forum: bool = False
    bot_status: MemberStatus = "member"
    members: dict[int, MemberStatus] = field(default_factory=dict)
    topics: dict[int, Wire] = field(default_factory=dict)  # by thread id
    drafts: dict[int, Wire] = field(default_factory=dict)
    migrated_to: int = 0
    last_action: str = ""
    last_id: int = 1  # 1 is the creation of the chat
    wire: Wire = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind != "private":
            self.wire = {"id": self.id, "type": self.kind, "title": self.title}
            if self.is_forum:
                self.wire["is_forum"] = True

    @property
    def is_group(self) -> bool:
        return self.kind in ("group", "supergroup")

    @property
    def bot_is_admin(self) -> bool:
        return self.bot_status in ("administrator", "creator")


@dataclass(slots=True, kw_only=True)
class TelegramFile(StoredFile):
    path: str
    kind: str

    @property
    def wire(self) -> Wire:
        return {"file_id": self.id, "file_unique_id": f"AQAD{self.id[-16:]}", "file_size": self.size}


@dataclass(slots=True, kw_only=True)
class ButtonQuery:
    """A pressed button that waits for its answer."""

    id: str
    user_id: int
    data: str
    answer: Wire | None = None


class TelegramWorld(World):
    def __init__(self, *, bot: TelegramUser, reads_all: bool = False) -> None:
        super().__init__()
        self.bot = bot
        self.reads_all = reads_all  # privacy mode is off
        self.updates = UpdateQueue()
        self.updates.on_wait = lambda: self.events.note("poll")
        self.users: dict[int, TelegramUser] = {bot.id: bot}
        self.chats: dict[int, TelegramChat] = {}
        self.files: dict[str, TelegramFile] = {}
        self.queries: dict[str, ButtonQuery] = {}
        self.commands: list[Wire] = []
        self._ids = itertools.count(1)
        self._last_private_id = 0
        self.add_user(TelegramUser(id=ANONYMOUS_ADMIN, first_name="Group", username="GroupAnonymousBot", is_bot=True))
        self.add_user(TelegramUser(id=CHANNEL_BOT, first_name="Channel", username="Channel_Bot", is_bot=True))

    def number(self) -> int:
        """Return a number not given before: for ids of users, chats, files."""
        return next(self._ids)

    def add_user(self, user: TelegramUser) -> TelegramUser:
        self.users[user.id] = user
        if not user.is_bot:
            chat = TelegramChat(id=user.id, kind="private", members={user.id: "member"})
            chat.wire = {"id": user.id, "first_name": user.first_name, "type": "private"}
            chat.wire |= {"username": user.username} if user.username else {}
            self.chats[chat.id] = chat
        return user

    def next_message_id(self, chat: TelegramChat) -> int:
        """Private chats and basic groups share one count, the bot's mailbox; others have their own."""
        if chat.kind in ("private", "group"):
            self._last_private_id += 1
            return self._last_private_id
        chat.last_id += 1
        return chat.last_id

    def writable_chat(self, chat_id: str) -> TelegramChat:
        """Return a chat the bot may write to now. Raises the server's refusal otherwise."""
        if not chat_id:
            raise bad_request("chat_id is empty")
        number = int(chat_id) if chat_id.lstrip("-").isdigit() else 0
        chat = self.chats.get(number)
        if chat is None:
            is_bot = number in self.users
            raise forbidden("bot can't send messages to bots") if is_bot else bad_request("chat not found")
        if chat.migrated_to:
            refusal = bad_request("group chat was upgraded to a supergroup chat")
            refusal.parameters = {"migrate_to_chat_id": chat.migrated_to}
            raise refusal
        if chat.kind == "private" and self.users[chat.id].blocked:
            raise forbidden("bot was blocked by the user")
        if chat.kind != "private" and chat.bot_status == "kicked":
            raise forbidden(f"bot was kicked from the {chat.kind} chat")
        if chat.kind == "channel" and not chat.bot_is_admin:
            raise bad_request("need administrator rights in the channel chat")
        return chat

    def posts_in(self, place: int) -> Iterable[TelegramMessage]:
        return self.chats[place].posts.values()

    def describe(self, post: TelegramMessage) -> Wire:
        shown: Wire = {}
        if rows := post.body.get("reply_markup", {}).get("inline_keyboard"):
            shown["buttons"] = [[button["text"] for button in row] for row in rows]
        if post.reactions:
            shown["reactions"] = {str(user): marks for user, marks in post.reactions.items()}
        return shown

    def drafts(self, chat_id: int) -> list[Wire]:
        """Return the drafts that the bot is writing, as far as they are not older than half a minute."""
        horizon = self.now() - DRAFT_SECONDS
        return [draft for draft in self.chats[chat_id].drafts.values() if draft["at"] > horizon]
