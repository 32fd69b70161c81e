"""What the bot writes: messages, edits and answers to interactions share these rules."""

import mimetypes
import re
from collections.abc import Mapping

from playground.discord.messages import SUPPRESS_EMBEDS, SUPPRESS_NOTIFICATIONS, add, compose, edit, mentions_of
from playground.discord.request import Ask, Upload
from playground.discord.rules import (
    Refused,
    check_allowed_mentions,
    check_components,
    check_content,
    check_embeds,
    check_list,
    check_nonce,
    invalid,
    refused,
)
from playground.discord.world import DM, NONCE_SECONDS, Channel, Post, User, World, as_id
from playground.wire import Wire

_KEPT_NONCES = 10_000
_KEPT_FLAGS = SUPPRESS_EMBEDS | SUPPRESS_NOTIFICATIONS


def send(world: World, channel: Channel, ask: Ask) -> Post:
    """A message of the bot's. The same enforced nonce within some minutes gives the earlier message again."""
    fields = ask.fields
    check_may_write(world, channel)
    nonce = check_nonce(fields.get("nonce"))
    content = written(world, channel, fields, ask.files)
    allowed = check_allowed_mentions(fields.get("allowed_mentions"))
    reference, replied = _reference(world, channel, fields.get("message_reference"))
    if fields.get("enforce_nonce") and (earlier := _earlier(world, nonce)):
        return earlier
    content["attachments"] = store(world, channel, fields, ask.files)
    flags = int(fields.get("flags") or 0) & _KEPT_FLAGS
    post = compose(world, channel, world.bot, **content, **reference, flags=flags, tts=bool(fields.get("tts")))
    if nonce is not None:
        post.body["nonce"] = nonce
        _remember(world, str(nonce), post)
    post.body |= mentions_of(world, post.words, allowed, replied)
    return add(world, channel, post)


def check_may_write(world: World, channel: Channel) -> None:
    """Raises what stands between the bot and this channel."""
    if channel.kind == DM:
        if not world.users[channel.recipient].dms_open or world.users[channel.recipient].bot:
            raise refused(50007)
        return
    if ("send_in_threads" if channel.is_thread else "send") in world.denied(channel):
        raise refused(50013)
    if channel.is_thread and channel.locked:
        raise refused(160005)


def written(world: World, channel: Channel, fields: Wire, files: Mapping[int, Upload]) -> Wire:
    """The checked text, embeds and components. Raises for nothing at all."""
    content = {
        "content": check_content(fields.get("content")),
        "embeds": check_embeds(fields.get("embeds")),
        "components": check_components(fields.get("components")),
    }
    if not any(content.values()) and not files and not fields.get("sticker_ids") and not fields.get("poll"):
        raise refused(50006)
    if files and "attach_files" in world.denied(channel):
        raise refused(50013)
    return content


def store(world: World, channel: Channel, fields: Wire, files: Mapping[int, Upload]) -> list[Wire]:
    """The uploaded files as attachments, with the names and descriptions the body gives them."""
    described = {str(one.get("id")): one for one in check_list("attachments", fields.get("attachments"), 10)}
    attachments = []
    for number, upload in files.items():
        given = described.get(str(number), {})
        name = _kept_name(given.get("filename") or upload.name)
        kind = mimetypes.guess_type(name)[0] or ""
        wire = world.store_file(channel.id, name, upload.content, kind)
        attachments.append({**wire, **({"description": given["description"]} if given.get("description") else {})})
    return attachments


def _kept_name(name: str) -> str:
    """Spaces become underscores, and what is neither letter nor digit goes."""
    return re.sub(r"[^A-Za-z0-9._-]", "", name.replace(" ", "_")) or "unknown"


def _earlier(world: World, nonce: str | int | None) -> Post | None:
    if nonce is None:
        raise invalid("nonce", "BASE_TYPE_REQUIRED", "This field is required")
    at, post = world.nonces.get(str(nonce), (0.0, None))
    fresh = post is not None and not post.deleted and world.now() - at < NONCE_SECONDS
    return post if fresh else None


def _remember(world: World, nonce: str, post: Post) -> None:
    world.nonces[nonce] = (world.now(), post)
    while len(world.nonces) > _KEPT_NONCES:
        world.nonces.pop(next(iter(world.nonces)))


def _reference(world: World, channel: Channel, given: object) -> tuple[Wire, User | None]:
    """The fields of a reply and who is replied to."""
    if given is None:
        return {}, None
    if not isinstance(given, dict) or "message_id" not in given:
        raise invalid("message_reference.message_id", "BASE_TYPE_REQUIRED", "This field is required")
    post = channel.post(as_id(given["message_id"]))
    if post is None or as_id(given.get("channel_id") or channel.id) != channel.id:
        if given.get("fail_if_not_exists", True):
            raise _reply_error("REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return {}, None
    if post.body["type"] not in (0, 19, 20, 23):
        raise _reply_error("REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", "Cannot reply to a system message")
    if "read_history" in world.denied(channel):
        raise Refused(400, 160002, "Cannot reply without permission to read message history")
    return {"type": 19, "message_reference": reference_wire(channel, post)}, post.author


def _reply_error(code: str, message: str) -> Refused:
    return invalid("message_reference", code, message)


def reference_wire(channel: Channel, post: Post) -> Wire:
    wire = {"type": 0, "channel_id": str(channel.id), "message_id": str(post.id)}
    return {**wire, "guild_id": str(channel.guild_id)} if channel.guild_id else wire


def change(world: World, post: Post, ask: Ask) -> Post:
    """An edit of the bot's: what is not given stays, and the same again is no mistake."""
    channel, fields = world.channels[post.channel_id], ask.fields
    changes: Wire = {}
    if "content" in fields:
        changes["content"] = check_content(fields["content"])
    if "embeds" in fields:
        changes["embeds"] = check_embeds(fields["embeds"])
    if "components" in fields:
        changes["components"] = check_components(fields["components"])
    if "flags" in fields:
        changes["flags"] = post.body["flags"] & ~SUPPRESS_EMBEDS | int(fields["flags"] or 0) & SUPPRESS_EMBEDS
    if "attachments" in fields or ask.files:
        kept = {str(one.get("id")) for one in fields.get("attachments") or []}
        old = [one for one in post.body["attachments"] if "attachments" not in fields or one["id"] in kept]
        changes["attachments"] = old + store(world, channel, fields, ask.files)
    after = post.body | changes
    if not any(after[name] for name in ("content", "embeds", "attachments", "components")):
        raise refused(50006)
    if channel.is_thread and channel.archived:
        raise refused(50083)
    if "content" in changes:
        changes |= mentions_of(world, changes["content"], check_allowed_mentions(fields.get("allowed_mentions")))
    edit(world, post, changes)
    return post
