"""What a Discord message holds, as our parts: words, files by reference, and what it quotes. Pure."""

import mimetypes
import re
from collections.abc import Sequence

import discord

from gateway.messages import Media, MediaKind, Part, Quote, Text, text_of
from gateway.platforms.text import one_line
from tools.parts import encodable

_MAX_QUOTE_CHARS = 1_000
_FAMILIES: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
_MARK = re.compile(
    r"<(?:@!?(?P<user>\d+)|@&(?P<role>\d+)|#(?P<channel>\d+)|/(?P<command>[^:<>\n]+):\d+|a?:(?P<emoji>\w+):\d+)>"
)
_CALLED = re.compile(r"\s*(?P<name><@!?(?P<id>\d+)>)")
# Discord sends what begins with a slash as it is where no slash command has that name.
_COMMAND = re.compile(r"\s*(?:<@!?(?P<called>\d+)>\s*)?(?P<command>/[a-z].*)", re.IGNORECASE | re.DOTALL)


def parts_of(message: discord.Message, me: int) -> tuple[Part, ...]:
    """What it quotes, then what it says, then what is attached. Empty where there is nothing that we could read."""
    content = content_of(message, me)
    return (*_reply(message), *content) if content else ()


def content_of(message: discord.Message, me: int = 0) -> tuple[Part, ...]:
    return (
        *_forwarded(message),
        *_words(_readable(command_in(message.content, me) or message.content, message)),
        *_attached(message.attachments),
        *_described(message.stickers, message.embeds, message.poll),
    )


def command_in(content: str, me: int) -> str:
    """What is said as a command, without our name if it stands before; empty where nothing is."""
    found = _COMMAND.match(content)
    return found["command"] if found and found["called"] in (None, str(me)) else ""


def called(message: discord.Message, me: int) -> str:
    """Our name as its words begin with it; empty where they do not."""
    found = _CALLED.match(message.content)
    return _readable(found["name"], message) if found and int(found["id"]) == me else ""


def replied_to(message: discord.Message) -> discord.MessageReference | None:
    reference = message.reference
    return reference if reference is not None and message.type is discord.MessageType.reply else None


def _reply(message: discord.Message) -> tuple[Quote, ...]:
    reference = replied_to(message)
    if reference is None or not isinstance(reference.resolved, discord.Message):
        return ()
    quoted = reference.resolved
    return (Quote(author=one_line(quoted.author.display_name), text=text_of(content_of(quoted))[:_MAX_QUOTE_CHARS]),)


def _forwarded(message: discord.Message) -> tuple[Part, ...]:
    """Discord does not tell whose words they were."""
    parts: list[Part] = []
    for snapshot in message.message_snapshots:
        words = _readable(snapshot.content, message)
        described = _described(snapshot.stickers, snapshot.embeds, None)
        text = text_of((Text(text=words), *described))
        parts += [Quote(how="forwarded from", text=text), *_attached(snapshot.attachments)]
    return tuple(parts)


def _words(text: str) -> tuple[Text, ...]:
    return (Text(text=text),) if text.strip() else ()


def _readable(content: str, message: discord.Message) -> str:
    """Names where Discord writes ids."""
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


def _attached(attachments: Sequence[discord.Attachment]) -> list[Media]:
    return [_media(attachment) for attachment in attachments]


def _media(attachment: discord.Attachment) -> Media:
    name = one_line(attachment.filename)
    mime = (attachment.content_type or "").partition(";")[0].strip() or mimetypes.guess_type(name)[0] or ""
    return Media(
        kind=_FAMILIES.get(mime.partition("/")[0], "file"),
        name=name,
        mime=one_line(mime) or "application/octet-stream",
        size_bytes=attachment.size,
        reference=attachment.url,
    )


def _described(
    stickers: Sequence[discord.StickerItem], embeds: Sequence[discord.Embed], poll: discord.Poll | None
) -> list[Text]:
    """What is neither words nor a file, for a reader who cannot see it. A preview of a link is left out."""
    found = [f"sticker {sticker.name}" for sticker in stickers]
    found += [f"embed {_embed_words(embed)}" for embed in embeds if embed.type == "rich"]
    if poll is not None:
        found.append(f"poll: {poll.question} {' / '.join(answer.text for answer in poll.answers)}")
    return [Text(text=f"[{' '.join(encodable(each).split())[:_MAX_QUOTE_CHARS]}]") for each in found]


def _embed_words(embed: discord.Embed) -> str:
    fields = [f"{field.name}: {field.value}" for field in embed.fields]
    return " / ".join(filter(None, (embed.title, embed.description, *fields, embed.footer.text, embed.url)))
