"""Making users and chats, and moving people and the bot in and out of them."""

from collections.abc import Sequence

from playground.telegram.messages import add, compose, member_wire, service, tell_bot
from playground.telegram.rules import Wire
from playground.telegram.world import Chat, ChatKind, MemberStatus, User, World


class Places:
    """Every method takes and gives plain ids and JSON values, so the same calls work over HTTP."""

    def __init__(self, world: World) -> None:
        self.world = world

    def make_user(
        self,
        first_name: str = "Ada",
        *,
        id: int = 0,  # noqa: A002 - Telegram's word for it
        last_name: str = "",
        username: str = "",
        language_code: str = "",
        is_bot: bool = False,
        started: bool = True,
    ) -> Wire:
        """A user; with `started` the bot may write first. The private chat has the same id."""
        user = User(
            id=id or 500_000_000 + self.world.number(),
            first_name=first_name,
            last_name=last_name,
            username=username,
            language_code=language_code,
            is_bot=is_bot,
            started=started,
        )
        return self.world.add_user(user).wire

    def make_group(
        self,
        title: str = "Group",
        *,
        members: Sequence[int] = (),
        id: int = 0,  # noqa: A002
        bot: MemberStatus = "member",
    ) -> Wire:
        return self._make("group", title, id or -(4_000_000 + self.world.number()), members, bot)

    def make_supergroup(
        self,
        title: str = "Supergroup",
        *,
        members: Sequence[int] = (),
        id: int = 0,  # noqa: A002
        bot: MemberStatus = "member",
        forum: bool = False,
        username: str = "",
    ) -> Wire:
        chat_id = id or -(1_001_000_000_000 + self.world.number())
        return self._make("supergroup", title, chat_id, members, bot, username=username, is_forum=forum)

    def make_channel(
        self,
        title: str = "Channel",
        *,
        id: int = 0,  # noqa: A002
        bot: MemberStatus = "administrator",
        username: str = "",
    ) -> Wire:
        chat_id = id or -(1_002_000_000_000 + self.world.number())
        return self._make("channel", title, chat_id, (), bot, username=username)

    def _make(
        self,
        kind: ChatKind,
        title: str,
        chat_id: int,
        members: Sequence[int],
        bot: MemberStatus,
        *,
        username: str = "",
        is_forum: bool = False,
    ) -> Wire:
        chat = Chat(id=chat_id, kind=kind, title=title, username=username, is_forum=is_forum, bot_status=bot)
        chat.members = dict.fromkeys(members, "member")
        self.world.add_chat(chat)
        self.world.events.note("chat", chat_id=chat_id)
        return chat.wire

    def make_topic(self, chat_id: int, user_id: int, name: str) -> int:
        """Open a topic in a forum; gives its thread id."""
        chat, user = self._chat(chat_id), self._user(user_id)
        if not chat.is_forum:
            raise ValueError(f"chat {chat_id} is no forum")
        return open_topic(self.world, chat, user, name)["message_thread_id"]  # type: ignore[no-any-return]

    def close_topic(self, chat_id: int, user_id: int, thread: int) -> None:
        chat = self._chat(chat_id)
        chat.topics[thread]["closed"] = True
        service(self.world, chat, self._user(user_id), thread=thread, forum_topic_closed={})

    def join(self, chat_id: int, user_id: int) -> None:
        chat, user = self._chat(chat_id), self._user(user_id)
        chat.members[user_id] = "member"
        self._member_update(chat, user, user, "left", "member")
        service(self.world, chat, user, new_chat_members=[user.wire])

    def leave(self, chat_id: int, user_id: int) -> None:
        chat, user = self._chat(chat_id), self._user(user_id)
        chat.members[user_id] = "left"
        self._member_update(chat, user, user, "member", "left")
        service(self.world, chat, user, left_chat_member=user.wire)

    def _member_update(self, chat: Chat, by: User, who: User, old: str, new: str) -> None:
        if chat.bot_is_admin:
            self.world.updates.push("chat_member", self._member_change(chat, by, who, old, new))

    def _member_change(self, chat: Chat, by: User, who: User, old: str, new: str) -> Wire:
        return {
            "chat": chat.wire,
            "from": by.wire,
            "date": int(self.world.now()),
            "old_chat_member": member_wire(who, old),
            "new_chat_member": member_wire(who, new),
        }

    def add_bot(self, chat_id: int, user_id: int, *, admin: bool = False) -> None:
        """The user brings the bot in; the bot hears of it twice, as in reality."""
        chat, user = self._chat(chat_id), self._user(user_id)
        self.set_bot(chat_id, user_id, "administrator" if admin else "member")
        if chat.kind != "channel":
            service(self.world, chat, user, new_chat_members=[self.world.bot.wire])

    def kick_bot(self, chat_id: int, user_id: int) -> None:
        """Thrown out: it hears that alone, and nothing after it."""
        self.set_bot(chat_id, user_id, "kicked")

    def set_bot(self, chat_id: int, user_id: int, status: MemberStatus) -> None:
        """Change what the bot is in a chat: promoted, demoted, removed (`my_chat_member`)."""
        chat = self._chat(chat_id)
        old, chat.bot_status = chat.bot_status, status
        change = self._member_change(chat, self._user(user_id), self.world.bot, old, status)
        self.world.updates.push("my_chat_member", change)
        self.world.events.note("member", chat_id=chat_id, status=status)

    def block(self, user_id: int) -> None:
        """The user blocks the bot in their private chat."""
        self._set_blocked(user_id, True)

    def unblock(self, user_id: int) -> None:
        self._set_blocked(user_id, False)

    def _set_blocked(self, user_id: int, blocked: bool) -> None:
        self._user(user_id).blocked = blocked
        self._chat(user_id).bot_status = "member" if blocked else "kicked"
        self.set_bot(user_id, user_id, "kicked" if blocked else "member")

    def deactivate(self, user_id: int) -> None:
        """The user deletes their account."""
        self._user(user_id).deactivated = True

    def upgrade(self, chat_id: int) -> int:
        """A group becomes a supergroup with another id; the old one only points there. Gives the new id."""
        old = self._chat(chat_id)
        if old.kind != "group" or old.migrated_to:
            raise ValueError(f"chat {chat_id} is no group that could be upgraded")
        new_id: int = self.make_supergroup(old.title, members=list(old.members), bot=old.bot_status)["id"]
        new = self._chat(new_id)
        by = self._user(next(iter(old.members))) if old.members else self.world.bot
        service(self.world, old, by, migrate_to_chat_id=new_id)
        old.migrated_to = new_id
        service(self.world, new, by, migrate_from_chat_id=chat_id)
        return new_id

    def _chat(self, chat_id: int) -> Chat:
        if chat_id not in self.world.chats:
            raise ValueError(f"there is no chat {chat_id}")
        return self.world.chats[chat_id]

    def _user(self, user_id: int) -> User:
        if user_id not in self.world.users:
            raise ValueError(f"there is no user {user_id}")
        return self.world.users[user_id]


def open_topic(world: World, chat: Chat, by: User, name: str) -> Wire:
    """The id of a topic is the id of the message that opened it."""
    created = {"name": name, "icon_color": 7322096}
    body = compose(world, chat, {"forum_topic_created": created, "is_topic_message": True}, sender=by)
    thread: int = body["message_id"]
    body["message_thread_id"] = thread
    post = add(world, chat, body, by_bot=by is world.bot)
    chat.topics[thread] = {"name": name, "closed": False}
    if by is not world.bot:
        tell_bot(world, chat, post)
    return {"message_thread_id": thread, **created}
