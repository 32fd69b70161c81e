"""Telegram's updates as our messages. Pure: asks nobody, writes nothing."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from telegram import (
    CallbackQuery,
    Chat,
    ChatMember,
    ChatMemberUpdated,
    Message,
    MessageEntity,
    MessageReactionUpdated,
    ReactionType,
    ReactionTypeCustomEmoji,
    ReactionTypeEmoji,
    Update,
    User,
)

from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.platforms.telegram.content import (
    parts_of,
    replied_to,
    words_at,
    words_of,
)
from gateway.platforms.text import one_line, utf16_len
from tools.content import encodable

# No deletions: Telegram tells of those in business chats alone, whose messages are numbered apart from ours.
KINDS_WE_READ = (
    Update.MESSAGE,
    Update.EDITED_MESSAGE,
    Update.CHANNEL_POST,
    Update.EDITED_CHANNEL_POST,
    Update.CALLBACK_QUERY,
    Update.MESSAGE_REACTION,
    Update.MY_CHAT_MEMBER,
)
_CUT_BY_THE_CLIENT = 4_000  # a text so long is the first piece of one that did not fit
_UPDATE_IDS = 1_000_000_000  # so many behind each second still fit 64 bits
_NUMBERED_FOR_ALL = (Chat.SUPERGROUP, Chat.CHANNEL)
_GONE = (ChatMember.LEFT, ChatMember.BANNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramIdentity:
    """The bot that hears."""

    account: str
    id: int
    username: str
    mark: int = 0  # of a bot that has taken another's place: see `_mark`


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedUpdate:
    """What one update means to us."""

    messages: tuple[InboundMessage, ...] = ()
    moved: tuple[str, str] | None = None  # a group goes on under another id: from, to
    pressed: str = ""  # the press of a button that Telegram wants answered
    chat: str = ""  # what the next two are about
    reachable: bool = False  # we may speak there, perhaps again
    note: str = ""  # for the log


def read(update: Update, me: TelegramIdentity, commands: Collection[str], *, at_ms: int) -> ParsedUpdate:
    """`at_ms` stands in where Telegram gives no time."""
    if update.callback_query is not None:
        return _press(update.callback_query, me, at_ms)
    if update.message_reaction is not None:
        return _reaction(update.message_reaction, me, update.update_id)
    if update.my_chat_member is not None:
        return _membership(update.my_chat_member)
    if (said := update.message or update.channel_post) is not None:
        return _said(said, me, commands)
    if (edited := update.edited_message or update.edited_channel_post) is not None:
        return _edited(edited, me, commands, update.update_id)
    return ParsedUpdate()


def _said(message: Message, me: TelegramIdentity, commands: Collection[str]) -> ParsedUpdate:
    if message.migrate_to_chat_id is not None:
        return ParsedUpdate(moved=(str(message.chat.id), str(message.migrate_to_chat_id)))
    said = _inbound(message, me, commands)
    return ParsedUpdate(messages=(said,)) if said is not None else ParsedUpdate()


def _edited(message: Message, me: TelegramIdentity, commands: Collection[str], update_id: int) -> ParsedUpdate:
    said = _inbound(message, me, commands)
    if said is None or message.location is not None:  # a live location: nobody says anything at each step
        return ParsedUpdate()
    at_ms = _ms(message.edit_date or message.date)
    # Telegram counts seconds: two edits within one are still two, and the later has the higher number.
    order = at_ms // 1000 * _UPDATE_IDS + update_id % _UPDATE_IDS
    edit = replace(said, kind="edit", sent_ms=at_ms, edited_ms=order, more_follows=False)
    return ParsedUpdate(messages=(edit,))


def _inbound(message: Message, me: TelegramIdentity, commands: Collection[str]) -> InboundMessage | None:
    parts = parts_of(message)
    if not parts or _is_our_own(message, me):
        return None
    reply = replied_to(message)
    return InboundMessage(
        key=_key(message.chat, me, _thread(message)),
        message_id=str(message.message_id),
        sender=_author(message),
        parts=parts,
        sent_ms=_ms(message.date),
        edited_ms=_mark(message.chat, me),
        about=str(reply.message_id) if reply is not None else "",
        addressed=_is_addressed(message, me, commands),
        more_follows=message.media_group_id is not None or utf16_len(words_of(message)[0]) >= _CUT_BY_THE_CLIENT,
        place_name=one_line(message.chat.title),
        called=_called(message, me),
    )


def _press(query: CallbackQuery, me: TelegramIdentity, at_ms: int) -> ParsedUpdate:
    below = query.message
    if below is None or query.data is None:  # a game, or below a message that was not sent by us
        return ParsedUpdate(pressed=query.id)
    message = InboundMessage(
        key=_key(below.chat, me, _thread(below) if isinstance(below, Message) else ""),
        message_id=query.id,
        kind="button",
        sender=_user(query.from_user),
        parts=(Text(text=encodable(query.data)),),
        sent_ms=at_ms,
        about=str(below.message_id),
        place_name=one_line(below.chat.title),
    )
    return ParsedUpdate(messages=(message,), pressed=query.id)


def _reaction(reaction: MessageReactionUpdated, me: TelegramIdentity, update_id: int) -> ParsedUpdate:
    if reaction.user is not None:
        sender = _user(reaction.user)
    elif reaction.actor_chat is not None:  # a channel, or an administrator without a name
        sender = _chat_as_sender(reaction.actor_chat)
    else:
        return ParsedUpdate()
    message = InboundMessage(
        key=_key(reaction.chat, me),  # Telegram does not say in which topic
        message_id=f"{reaction.message_id}:{sender.id}:{update_id}",
        kind="reaction",
        sender=sender,
        parts=(Text(text=" ".join(map(_emoji, reaction.new_reaction)) or "removed"),),
        sent_ms=_ms(reaction.date),
        about=str(reaction.message_id),
        addressed=reaction.chat.type == Chat.PRIVATE,
        place_name=one_line(reaction.chat.title),
    )
    return ParsedUpdate(messages=(message,))


def _membership(change: ChatMemberUpdated) -> ParsedUpdate:
    chat = str(change.chat.id)
    private = change.chat.type == Chat.PRIVATE
    was_gone, is_gone = change.old_chat_member.status in _GONE, change.new_chat_member.status in _GONE
    if is_gone:
        return ParsedUpdate(chat=chat, note="a user blocked the bot" if private else "the bot was removed from a chat")
    note = ("a user started the bot" if private else "the bot was added to a chat") if was_gone else ""
    return ParsedUpdate(
        chat=chat, reachable=True, note=note
    )  # where it was before, it may have been given the right to write


def _key(chat: Chat, me: TelegramIdentity, thread: str = "") -> SessionKey:
    platform, _, account = me.account.partition("@")
    kind = {Chat.PRIVATE: "dm", Chat.CHANNEL: "channel"}.get(chat.type, "group")
    return SessionKey(platform=platform, account=account, kind=kind, chat=str(chat.id), thread=thread)


def _mark(chat: Chat, me: TelegramIdentity) -> int:
    """In private chats and small groups each bot has numbers of its own: what is said to a later bot of the account
    would be taken for second copies of what was said to the first."""
    return 0 if chat.type in _NUMBERED_FOR_ALL else me.mark


def _thread(message: Message) -> str:
    """The forum topic. A chain of replies in a group without topics has a thread id too, and is none."""
    return str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else ""


def _author(message: Message) -> Sender:
    # First: for an administrator without a name, and for whoever speaks as a channel, Telegram names a bot of its own.
    if message.sender_chat is not None:
        return _chat_as_sender(message.sender_chat)
    return _user(message.from_user) if message.from_user is not None else _chat_as_sender(message.chat)


def _user(user: User) -> Sender:
    return Sender(id=str(user.id), name=one_line(user.full_name), is_bot=user.is_bot)


def _chat_as_sender(chat: Chat) -> Sender:
    return Sender(id=str(chat.id), name=one_line(chat.effective_name))


def _is_our_own(message: Message, me: TelegramIdentity) -> bool:
    return message.sender_chat is None and message.from_user is not None and message.from_user.id == me.id


def _is_addressed(message: Message, me: TelegramIdentity, commands: Collection[str]) -> bool:
    if message.chat.type == Chat.PRIVATE:
        return True
    if message.forward_origin is not None:
        return False  # whoever wrote it spoke elsewhere
    text, entities = words_of(message)
    for entity in entities:
        if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0:
            name, _, bot = words_at(text, entity).removeprefix("/").partition("@")
            if bot:
                return bot.casefold() == me.username.casefold()
            if name.casefold() in commands:
                return True
    reply = replied_to(message)
    if reply is not None and _is_our_own(reply, me):
        return True
    return any(_names_us(text, entity, me) for entity in entities)


def _names_us(text: str, entity: MessageEntity, me: TelegramIdentity) -> bool:
    if entity.type == MessageEntity.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    return entity.type == MessageEntity.MENTION and words_at(text, entity).casefold() == f"@{me.username}".casefold()


def _called(message: Message, me: TelegramIdentity) -> str:
    text, entities = words_of(message)
    ours = (entity for entity in entities if entity.offset == 0 and _names_us(text, entity, me))
    return next((words_at(text, entity) for entity in ours), "")


def _emoji(reaction: ReactionType) -> str:
    match reaction:
        case ReactionTypeEmoji():
            return encodable(reaction.emoji)
        case ReactionTypeCustomEmoji():
            return "[custom emoji]"
        case _:
            return "⭐"


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000
