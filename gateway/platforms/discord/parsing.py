"""Turn what happens on Discord into our messages. Pure: no network, no storage."""

import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import discord

from gateway.messages import InboundMessage, Media, Part, Quote, Sender, SessionKey, Text, text_of
from gateway.platforms.text import media_kind, one_line
from tools.content import encodable

_MAX_QUOTE_CHARS = 1_000
_MARK = re.compile(
    r"<(?:@!?(?P<user>\d+)|@&(?P<role>\d+)|#(?P<channel>\d+)|/(?P<command>[^:<>\n]+):\d+|a?:(?P<emoji>\w+):\d+)>"
)
_CALLED = re.compile(r"\s*(?P<name><@!?(?P<id>\d+)>)")
# Discord sends text with a leading slash unchanged if no slash command has that name.
_COMMAND = re.compile(r"\s*(?:<@!?(?P<called>\d+)>\s*)?(?P<command>/[a-z].*)", re.IGNORECASE | re.DOTALL)

OPTION = "text"
"""The only argument of our slash commands."""

_EPOCH_MS = 1_420_070_400_000
_CUT_BY_HAND = 1_950  # a text this long is the first piece of a longer one
_MAX_THREAD_NAME_CHARS = 80
_WRITTEN_BY_SOMEBODY = (
    discord.MessageType.default,
    discord.MessageType.reply,
    discord.MessageType.chat_input_command,
    discord.MessageType.context_menu_command,
)
_MENTION = re.compile(r"<@[!&]?\d+>")
Interaction = discord.Interaction[Any]
Place = discord.abc.GuildChannel | discord.Thread | discord.abc.PrivateChannel | discord.PartialMessageable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscordIdentity:
    """The bot of an account."""

    account: str
    id: int
    name: str
    commands: frozenset[str] = frozenset()  # by which we recognise commands for us


def parse_message(message: discord.Message, me: DiscordIdentity) -> InboundMessage | None:
    """Return None for our own messages, Discord's system messages, and messages without readable content."""
    if message.author.id == me.id or message.type not in _WRITTEN_BY_SOMEBODY:
        return None
    parts = parse_parts(message, me.id)
    if not parts:
        return None
    reference = find_reply(message)
    return InboundMessage(
        key=build_key(me, message.channel.id, message.channel, in_guild=_in_guild(message)),
        message_id=str(message.id),
        sender=_build_sender(message.author, is_bot=message.author.bot or message.webhook_id is not None),
        parts=parts,
        sent_ms=snowflake_to_ms(message.id),
        about=str(reference.message_id or "") if reference is not None else "",
        addressed=_is_addressed(message, me),
        more_follows=len(message.content) >= _CUT_BY_HAND,
        place_name=name_place(message.channel),
        called=find_own_name(message, me.id),
    )


def parse_edit(message: discord.Message, me: DiscordIdentity) -> InboundMessage | None:
    """Return None for a change that is no edit, such as a link preview."""
    said_now = parse_message(message, me)
    if message.edited_at is None or said_now is None:
        return None
    at_ms = int(message.edited_at.timestamp() * 1000)
    return replace(said_now, kind="edit", sent_ms=at_ms, edited_ms=at_ms, more_follows=False)


def build_deletion(message_id: int, key: SessionKey, sender: Sender, *, at_ms: int) -> InboundMessage:
    """Build a deletion by the author: Discord does not say who deleted it."""
    return InboundMessage(
        key=key,
        message_id=str(message_id),
        kind="deletion",
        sender=sender,
        parts=(Text(text="deleted"),),
        sent_ms=at_ms,
        about=str(message_id),
        addressed=key.kind == "dm",
    )


def parse_reaction(
    event: discord.RawReactionActionEvent, me: DiscordIdentity, channel: Place, *, key: SessionKey | None, at_ms: int
) -> InboundMessage | None:
    """`key` is that of the message, if it is known."""
    if event.user_id == me.id:
        return None
    emoji = f":{event.emoji.name}:" if event.emoji.id is not None else str(event.emoji.name)
    removed = event.event_type == "REACTION_REMOVE"
    is_dm = event.guild_id is None
    member = event.member
    return InboundMessage(
        key=key or build_key(me, event.channel_id, channel, in_guild=not is_dm),
        message_id=f"{event.message_id}:{event.user_id}:{at_ms}",
        kind="reaction",
        sender=_build_sender(member, is_bot=member.bot) if member is not None else Sender(id=str(event.user_id)),
        parts=(Text(text=encodable(f"removed {emoji}" if removed else emoji)),),
        sent_ms=at_ms,
        about=str(event.message_id),
        addressed=is_dm or event.message_author_id == me.id,
        place_name=name_place(channel),
    )


def parse_interaction(interaction: Interaction, me: DiscordIdentity) -> InboundMessage | None:
    """Parse a button press, or a slash command as if it were typed; None for anything else."""
    if interaction.channel_id is None or interaction.data is None:
        return None
    data: Mapping[str, Any] = dict(interaction.data)
    message = InboundMessage(
        key=build_key(me, interaction.channel_id, interaction.channel, in_guild=interaction.guild_id is not None),
        message_id=str(interaction.id),
        sender=_build_sender(interaction.user, is_bot=interaction.user.bot),
        parts=(),
        sent_ms=snowflake_to_ms(interaction.id),
        place_name=name_place(interaction.channel),
    )
    if interaction.type is discord.InteractionType.component and interaction.message is not None:
        action = Text(text=encodable(str(data["custom_id"])))
        return replace(message, kind="button", parts=(action,), about=str(interaction.message.id))
    if interaction.type is discord.InteractionType.application_command:
        words = " ".join(str(option.get("value", "")) for option in data.get("options", ()))
        return replace(message, parts=(Text(text=encodable(f"/{data['name']} {words}").strip()),))
    return None


def choose_thread_name(message: discord.Message, me: DiscordIdentity) -> str:
    """Return the name of the thread to open for this message; empty if it opens none."""
    if not isinstance(message.channel, discord.TextChannel) or message.author.bot or not _mentions(message, me):
        return ""
    if find_command(message.content, me.id):
        return ""  # commands are about the channel
    return one_line(_MENTION.sub("", message.content))[:_MAX_THREAD_NAME_CHARS].strip() or "Conversation"


def move_to_thread(message: InboundMessage, name: str) -> InboundMessage:
    """Move a message to the thread it opened, which has the message's id."""
    key = replace(message.key, kind="thread", chat=message.message_id, within=message.key.chat)
    return replace(message, key=key, place_name=name)


def build_key(me: DiscordIdentity, channel_id: int, channel: Place, *, in_guild: bool) -> SessionKey:
    platform, _, account = me.account.partition("@")
    kind = "channel"
    if not in_guild:
        kind = "dm"
    elif not isinstance(channel, discord.abc.GuildChannel):
        kind = "thread"  # all other channels of a guild are known
    within = str(channel.parent_id) if isinstance(channel, discord.Thread) else ""
    return SessionKey(platform=platform, account=account, kind=kind, chat=str(channel_id), within=within)


def name_place(channel: Place) -> str:
    if not isinstance(channel, discord.abc.GuildChannel | discord.Thread):
        return ""
    mark = "" if isinstance(channel, discord.Thread) else "#"
    return one_line(f"{channel.guild.name} {mark}{channel.name}")


def snowflake_to_ms(snowflake: int) -> int:
    """Return the time of creation, which is part of every id."""
    return (snowflake >> 22) + _EPOCH_MS


def ms_to_snowflake(at_ms: int) -> int:
    return max(0, at_ms - _EPOCH_MS) << 22


def _build_sender(user: discord.abc.User, *, is_bot: bool) -> Sender:
    return Sender(id=str(user.id), name=one_line(user.display_name), is_bot=is_bot)


def _in_guild(message: discord.Message) -> bool:
    return message.guild is not None or not isinstance(message.channel, discord.DMChannel)


def _is_addressed(message: discord.Message, me: DiscordIdentity) -> bool:
    if not _in_guild(message):
        return True
    if message.message_snapshots:
        return False  # it was written elsewhere
    reference = find_reply(message)
    quoted = reference.resolved if reference is not None else None
    if isinstance(quoted, discord.Message) and quoted.author.id == me.id:
        return True
    if isinstance(message.channel, discord.Thread) and message.channel.owner_id == me.id:
        return True
    name, *_ = find_command(message.content, me.id).split(maxsplit=1) or [""]
    return _mentions(message, me) or name.removeprefix("/").lower() in me.commands


def _mentions(message: discord.Message, me: DiscordIdentity) -> bool:
    if me.id in message.raw_mentions:
        return True
    return any(role.tags is not None and role.tags.bot_id == me.id for role in message.role_mentions)


def parse_parts(message: discord.Message, me: int) -> tuple[Part, ...]:
    """Return quotes, then text, then attachments. Empty if nothing is readable."""
    content = parse_content(message, me)
    reference = find_reply(message)
    if not content or reference is None or not isinstance(quoted := reference.resolved, discord.Message):
        return content
    text = text_of(parse_content(quoted))[:_MAX_QUOTE_CHARS]
    return (Quote(author=one_line(quoted.author.display_name), text=text), *content)


def parse_content(message: discord.Message, me: int = 0) -> tuple[Part, ...]:
    text = _resolve_names(find_command(message.content, me) or message.content, message)
    return (
        *_parse_forwards(message),
        *((Text(text=text),) if text.strip() else ()),
        *(replace(_parse_attachment(one), is_voice=message.flags.voice) for one in message.attachments),
        *_describe_other(message.stickers, message.embeds, message.poll),
    )


def find_command(content: str, me: int) -> str:
    """Return the command in a text, without a leading mention of us; empty if there is none."""
    found = _COMMAND.match(content)
    return found["command"] if found and found["called"] in (None, str(me)) else ""


def find_own_name(message: discord.Message, me: int) -> str:
    """Return our name if the text begins with it; else empty."""
    found = _CALLED.match(message.content)
    return _resolve_names(found["name"], message) if found and int(found["id"]) == me else ""


def find_reply(message: discord.Message) -> discord.MessageReference | None:
    reference = message.reference
    return reference if reference is not None and message.type is discord.MessageType.reply else None


def _parse_forwards(message: discord.Message) -> tuple[Part, ...]:
    """Parse forwarded messages; Discord does not name their author."""
    parts: list[Part] = []
    for snapshot in message.message_snapshots:
        words = _resolve_names(snapshot.content, message)
        described = _describe_other(snapshot.stickers, snapshot.embeds, None)
        text = text_of((Text(text=words), *described))
        parts += [Quote(how="forwarded from", text=text), *map(_parse_attachment, snapshot.attachments)]
    return tuple(parts)


def _resolve_names(content: str, message: discord.Message) -> str:
    """Replace Discord's ids with names."""
    names = {user.id: user.display_name for user in message.mentions}
    guild = message.guild

    def name(found: re.Match[str]) -> str:
        shown = ""
        if user := found["user"]:
            known = names.get(int(user)) or getattr(guild and guild.get_member(int(user)), "display_name", "")
            shown = f"@{known}" if known else ""
        elif (role_id := found["role"]) and guild and (role := guild.get_role(int(role_id))):
            shown = f"@{role.name.removeprefix('@')}"
        elif (channel_id := found["channel"]) and guild and (place := guild.get_channel_or_thread(int(channel_id))):
            shown = f"#{place.name}"
        elif command := found["command"]:
            shown = f"/{command}"
        elif emoji := found["emoji"]:
            shown = f":{emoji}:"
        return one_line(shown) or found[0]

    return encodable(_MARK.sub(name, content) if "<" in content else content)


def _parse_attachment(attachment: discord.Attachment) -> Media:
    name = one_line(attachment.filename)
    mime = (attachment.content_type or "").partition(";")[0].strip() or mimetypes.guess_type(name)[0] or ""
    return Media(
        kind=media_kind(mime),
        name=name,
        mime=one_line(mime) or "application/octet-stream",
        size_bytes=attachment.size,
        reference=attachment.url,
    )


def _describe_other(
    stickers: Sequence[discord.StickerItem], embeds: Sequence[discord.Embed], poll: discord.Poll | None
) -> list[Text]:
    """Describe content that is neither text nor a file, except link previews."""
    found = [f"sticker {sticker.name}" for sticker in stickers]
    for embed in embeds:
        if embed.type == "rich":
            fields = [f"{field.name}: {field.value}" for field in embed.fields]
            told = filter(None, (embed.title, embed.description, *fields, embed.footer.text, embed.url))
            found.append(f"embed {' / '.join(told)}")
    if poll is not None:
        found.append(f"poll: {poll.question} {' / '.join(answer.text for answer in poll.answers)}")
    return [Text(text=f"[{' '.join(encodable(each).split())[:_MAX_QUOTE_CHARS]}]") for each in found]
