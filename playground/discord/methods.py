"""The REST calls of a bot, as functions of the world, and the table of all."""

import json
import mimetypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from playground.discord import messages, rules
from playground.discord.intents import application_flags
from playground.discord.world import DM, DiscordChannel, DiscordMessage, DiscordWorld, channel_wire
from playground.params import Upload, read_form
from playground.wire import Wire, without

_NONCE_SECONDS = 180.0
_ANSWER_SECONDS = 3.0
_MESSAGE_ANSWER, _NOTHING_ANSWER = 4, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCall:
    path: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    files: Mapping[str, Upload] = field(default_factory=dict)  # by the n of `files[n]`

    @property
    def fields(self) -> Wire:
        """The body where it must be an object."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def place(self) -> str:
        return self.path.get("channel_id", "")

    @property
    def log_entry(self) -> Wire:
        files = {f"files[{number}]": str(upload) for number, upload in self.files.items()}
        return {**self.fields, **files, **self.query, **self.path}


async def read_call(request: web.Request) -> RestCall:
    path, query = dict(request.match_info), dict(request.query)
    files: dict[str, Upload] = {}
    content: str | bytes = b""
    if request.content_type == "multipart/form-data":
        fields, parts = await read_form(request)
        content, files = fields.get("payload_json", "{}"), {name[6:-1]: upload for name, upload in parts.items()}
    elif request.can_read_body:
        content = await request.read()
    if len(files) > rules.MAX_FILES:
        raise rules.invalid("attachments", "BASE_TYPE_MAX_LENGTH", f"Must be {rules.MAX_FILES} or fewer in length.")
    if sum(len(upload.content) for upload in files.values()) > rules.MAX_FILE_BYTES:
        raise rules.refusal(40005)
    try:
        body = json.loads(content) if content else None
    except ValueError:
        raise rules.refusal(50109) from None
    return RestCall(path=path, query=query, body=body, files=files)


def get_current_user(world: DiscordWorld, call: RestCall) -> Wire:
    return world.bot.wire | {"verified": True, "mfa_enabled": False, "email": None, "flags": 0, "locale": "en-US"}


def get_application(world: DiscordWorld, call: RestCall) -> Wire:
    wire: Wire = {"id": str(world.bot.id), "name": world.bot.username, "description": "", "icon": None}
    wire |= {"bot_public": True, "bot_require_code_grant": False, "verify_key": "0" * 64, "team": None}
    owner = {"id": "1", "username": "owner", "discriminator": "0", "avatar": None, "global_name": None}
    return wire | {"owner": owner, "flags": application_flags(world.privileged), "summary": ""}


def get_channel(world: DiscordWorld, call: RestCall) -> Wire:
    return channel_wire(world, world.find_channel(call.place))


def get_messages(world: DiscordWorld, call: RestCall) -> list[Wire]:
    """Return a part of the history, newest first."""
    channel, query = world.find_channel(call.place), call.query
    limit = int(query.get("limit", 50))
    if not 1 <= limit <= 100:
        raise rules.invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
    if "read_history" in world.denied(channel):
        return []
    posts = [post for post in channel.posts.values() if not post.deleted and not post.ephemeral]
    if "after" in query:
        chosen = [post for post in posts if post.id > rules.read_id(query["after"])][:limit]
    else:
        bound = rules.read_id(query["before"]) if "before" in query else 1 << 63
        chosen = [post for post in posts if post.id < bound][-limit:]
    # Discord tells the nonce when a message is sent, and never again.
    return [without(messages.render(world, post), "nonce") for post in reversed(chosen)]


def _find_post(world: DiscordWorld, call: RestCall) -> tuple[DiscordChannel, DiscordMessage]:
    channel = world.find_channel(call.place)
    post = channel.post(rules.read_id(call.path["message_id"]))
    if post is None or post.ephemeral:
        raise rules.refusal(10008)
    return channel, post


def create_message(world: DiscordWorld, call: RestCall) -> Wire:
    """Send a message. The same enforced nonce within some minutes returns the earlier message again."""
    channel, fields = world.find_channel(call.place), call.fields
    _check_may_write(world, channel)
    nonce = rules.check_text("nonce", fields.get("nonce"), rules.MAX_NONCE)
    content = _check_content(world, channel, call)
    allowed = rules.check_allowed_mentions(fields.get("allowed_mentions"))
    replied = _find_replied(world, channel, fields.get("message_reference"))
    at, earlier = world.nonces.get(nonce, (0.0, None))
    if fields.get("enforce_nonce") and earlier and not earlier.deleted and world.now() - at < _NONCE_SECONDS:
        return messages.render(world, earlier)
    content["attachments"] = _store_files(world, channel, call)
    flags = int(fields.get("flags") or 0) & (messages.SUPPRESS_EMBEDS | messages.SUPPRESS_NOTIFICATIONS)
    reply = messages.reply_fields(channel, replied) if replied else {}
    post = messages.compose(world, channel, world.bot, **content, **reply, flags=flags)
    if nonce:
        post.body["nonce"] = nonce
        world.nonces[nonce] = (world.now(), post)
    post.body |= messages.find_mentions(world, post.words, allowed, replied.author if replied else None)
    return messages.render(world, messages.add(world, channel, post))


def _check_may_write(world: DiscordWorld, channel: DiscordChannel) -> None:
    if channel.kind == DM and not world.users[channel.recipient].dms_open:
        raise rules.refusal(50007)
    if ("send_in_threads" if channel.is_thread else "send") in world.denied(channel):
        raise rules.refusal(50013)


def _check_content(world: DiscordWorld, channel: DiscordChannel, call: RestCall) -> Wire:
    content = {
        "content": rules.check_text("content", call.fields.get("content"), rules.MAX_CONTENT).strip(),
        "components": rules.check_components(call.fields.get("components")),
    }
    if not any(content.values()) and not call.files:
        raise rules.refusal(50006)
    if call.files and "attach_files" in world.denied(channel):
        raise rules.refusal(50013)
    return content


def _store_files(world: DiscordWorld, channel: DiscordChannel, call: RestCall) -> list[Wire]:
    """Keep the uploads under the names the body gives them, without spaces and special characters."""
    given = {
        str(one.get("id")): one
        for one in rules.check_list("attachments", call.fields.get("attachments"), rules.MAX_FILES)
    }
    attachments = []
    for number, upload in call.files.items():
        name = given.get(number, {}).get("filename") or upload.name
        name = re.sub(r"[^A-Za-z0-9._-]", "", name.replace(" ", "_")) or "unknown"
        kind = mimetypes.guess_type(name)[0] or ""
        attachments.append(world.store_file(channel.id, name, upload.content, kind))
    return attachments


def _find_replied(world: DiscordWorld, channel: DiscordChannel, given: Wire | None) -> DiscordMessage | None:
    if given is None:
        return None
    post = channel.post(rules.read_id(given["message_id"]))
    if post is None:
        if given.get("fail_if_not_exists", True):
            raise rules.invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return None
    return post


def edit_message(world: DiscordWorld, call: RestCall) -> Wire:
    """Change the fields that are given; the same again is no error."""
    (_, post), fields = _find_post(world, call), call.fields
    if not post.by_bot:
        raise rules.refusal(50005)
    changes: Wire = {}
    if "content" in fields:
        changes["content"] = rules.check_text("content", fields["content"], rules.MAX_CONTENT).strip()
        changes |= messages.find_mentions(
            world, changes["content"], rules.check_allowed_mentions(fields.get("allowed_mentions"))
        )
    if "components" in fields:
        changes["components"] = rules.check_components(fields["components"])
    if "flags" in fields:
        hide = messages.SUPPRESS_EMBEDS
        changes["flags"] = post.body["flags"] & ~hide | int(fields["flags"] or 0) & hide
    if not any((post.body | changes)[name] for name in ("content", "attachments", "components")):
        raise rules.refusal(50006)
    messages.edit(world, post, changes)
    return messages.render(world, post)


def delete_message(world: DiscordWorld, call: RestCall) -> None:
    channel, post = _find_post(world, call)
    if not post.by_bot and (not channel.guild_id or "manage_messages" in world.denied(channel)):
        raise rules.refusal(50013 if channel.guild_id else 50021)
    messages.delete(world, [post])


def trigger_typing(world: DiscordWorld, call: RestCall) -> None:
    channel = world.find_channel(call.place)
    _check_may_write(world, channel)
    channel.typing += 1
    world.events.note("typing", channel_id=str(channel.id), by_bot=True)


def create_reaction(world: DiscordWorld, call: RestCall) -> None:
    (channel, post), emoji = _find_post(world, call), unquote(call.path["emoji"])
    if emoji.isascii():
        raise rules.refusal(10014)
    if "add_reactions" in world.denied(channel):
        raise rules.refusal(50013)
    messages.react(world, post, world.bot, emoji)


def delete_reaction(world: DiscordWorld, call: RestCall) -> None:
    messages.react(world, _find_post(world, call)[1], world.bot, unquote(call.path["emoji"]), remove=True)


def start_thread_from_message(world: DiscordWorld, call: RestCall) -> Wire:
    parent, post = _find_post(world, call)
    if "create_threads" in world.denied(parent):
        raise rules.refusal(50013)
    name = rules.check_text("name", call.fields.get("name"), 100, required=True)
    return channel_wire(world, messages.start_thread(world, parent, world.bot, name, post))


def put_commands(world: DiscordWorld, call: RestCall) -> list[Wire]:
    """Replace the whole list; a command that was there by name keeps its id."""
    old, about = {one["name"]: one["id"] for one in world.commands}, {"application_id": str(world.bot.id)}
    world.commands = [
        {"options": [], "dm_permission": True, **given, "type": 1, "version": str(world.snowflake()), **about}
        | {"id": old.get(given["name"]) or str(world.snowflake())}
        for given in rules.check_commands(call.body)
    ]
    world.events.note("commands", names=[command["name"] for command in world.commands])
    return world.commands


def answer_interaction(world: DiscordWorld, call: RestCall) -> Wire | None:
    """Take the first answer. Raises 10062 when it is too late and 40060 for a second one."""
    interaction = world.interactions.get(rules.read_id(call.path["interaction_id"]))
    if interaction is None or interaction.token != call.path["token"]:
        raise rules.refusal(10062)
    if interaction.answer is not None:
        raise rules.refusal(40060)
    if world.now() - interaction.born > _ANSWER_SECONDS:
        raise rules.refusal(10062)
    kind, data = call.fields.get("type"), call.fields.get("data") or {}
    if kind == _MESSAGE_ANSWER:
        channel, user = world.channels[interaction.channel_id], world.users[interaction.user_id]
        content = _check_content(world, channel, RestCall(path={}, body=data))
        source = {"id": str(interaction.id), "type": interaction.body["type"], "user": user.wire}
        source["authorizing_integration_owners"] = {}
        flags = int(data.get("flags") or 0) & messages.EPHEMERAL
        post = messages.compose(world, channel, world.bot, **content, type=20, flags=flags, interaction_metadata=source)
        post.ephemeral = bool(flags)
        interaction.original = messages.add(world, channel, post)
    elif kind != _NOTHING_ANSWER or not interaction.source:
        raise rules.invalid("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 6}.")
    interaction.answer = {"type": kind, "data": data}
    world.events.note("answer", interaction_id=str(interaction.id), answer=interaction.answer)
    about = {"id": str(interaction.id), "type": interaction.body["type"]}
    return {"interaction": about} if call.query.get("with_response") in ("1", "true") else None


def delete_answer(world: DiscordWorld, call: RestCall) -> None:
    interaction = next((one for one in world.interactions.values() if one.token == call.path["token"]), None)
    if interaction is None or interaction.original is None or interaction.original.deleted:
        raise rules.refusal(10008)
    messages.delete(world, [interaction.original])


@dataclass(frozen=True, slots=True)
class Route:
    """A call without a result is answered with 204."""

    verb: str
    path: str
    name: str
    function: Callable[[DiscordWorld, RestCall], Any]
    limit: tuple[int, float] = (50, 1.0)  # how many in how many seconds, for each channel
    public: bool = False  # needs no token: the address holds one


_CHANNEL = "/channels/{channel_id}"
_MESSAGE = _CHANNEL + "/messages/{message_id}"
_REACTION = _MESSAGE + "/reactions/{emoji}/@me"
_COMMANDS = "/applications/{application_id}/commands"
_CALLBACK = "/interactions/{interaction_id}/{token}/callback"
_ANSWER = "/webhooks/{application_id}/{token}/messages/@original"

ROUTES = (
    Route("GET", "/users/@me", "getCurrentUser", get_current_user),
    Route("GET", "/oauth2/applications/@me", "getApplication", get_application),
    Route("GET", _CHANNEL, "getChannel", get_channel),
    Route("GET", _CHANNEL + "/messages", "getMessages", get_messages),
    Route("POST", _CHANNEL + "/messages", "createMessage", create_message, (5, 5.0)),
    Route("PATCH", _MESSAGE, "editMessage", edit_message, (5, 5.0)),
    Route("DELETE", _MESSAGE, "deleteMessage", delete_message, (5, 1.0)),
    Route("POST", _CHANNEL + "/typing", "triggerTyping", trigger_typing),
    Route("PUT", _REACTION, "createReaction", create_reaction, (1, 0.25)),
    Route("DELETE", _REACTION, "deleteReaction", delete_reaction, (1, 0.25)),
    Route("POST", _MESSAGE + "/threads", "startThreadFromMessage", start_thread_from_message),
    Route("PUT", _COMMANDS, "putCommands", put_commands),
    Route("POST", _CALLBACK, "interactionCallback", answer_interaction, public=True),
    Route("DELETE", _ANSWER, "deleteFollowup", delete_answer, public=True),
)
