"""Files: the upload in three steps, what is known of them, and who shared them where."""

import mimetypes
from collections.abc import Sequence

from playground.slack.messages import add, bot_fields
from playground.slack.places import writable_channel
from playground.slack.request import Params
from playground.slack.rules import Refused, check_thread
from playground.slack.world import Channel, StoredFile, World
from playground.wire import Wire

STUB: Wire = {"mode": "file_access", "file_access": "check_file_info"}


def store(
    world: World, user_id: str, name: str, *, size: int, content: bytes | None = None, mime_type: str = ""
) -> StoredFile:
    mime_type = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
    stored = StoredFile(
        id=world.new_id("F"),
        name=name,
        title=name,
        user_id=user_id,
        size=size,
        mime_type=mime_type,
        created=int(world.now()),
        content=content,
    )
    world.files[stored.id] = stored
    return stored


def file_wire(world: World, stored: StoredFile) -> Wire:
    address = f"{world.root()}/files-pri/{world.team_id}-{stored.id}"
    kind = stored.name.rpartition(".")[2].lower() or "binary"
    wire: Wire = {"id": stored.id, "created": stored.created, "timestamp": stored.created, "name": stored.name}
    wire |= {"title": stored.title, "mimetype": stored.mime_type, "filetype": kind, "pretty_type": kind.upper()}
    wire |= {"user": stored.user_id, "user_team": world.team_id, "editable": False, "size": stored.size}
    wire |= {"mode": "hosted", "is_external": False, "external_type": "", "is_public": stored.shared}
    wire |= {"public_url_shared": False, "display_as_bot": False, "username": "", "file_access": "visible"}
    wire |= {"url_private": f"{address}/{stored.name}", "url_private_download": f"{address}/download/{stored.name}"}
    return {**wire, "permalink": f"{world.root()}/files/{stored.user_id}/{stored.id}/{stored.name}"}


def get_upload_url(world: World, params: Params) -> Wire:
    name, length = params.text("filename"), params.integer("length", -1)
    if not name or length <= 0:
        raise Refused("invalid_arguments")
    stored = store(world, world.bot.id, name, size=length)
    return {"upload_url": f"{world.root()}/upload/v1/{stored.id}", "file_id": stored.id}


def complete_upload(world: World, params: Params) -> Wire:
    """The files stand in the channel; the answer does not say under which ts, `files.info` does."""
    items = params.data("files")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise Refused("invalid_arguments")
    uploaded = [_uploaded(world, item) for item in items]
    where = params.text("channel_id") or params.text("channels").split(",")[0]
    if where:
        channel = writable_channel(world, where)
        thread = check_thread(params.text("thread_ts")) if params.text("thread_ts") else ""
        fields = bot_fields(world, world.bot, params.text("initial_comment"))
        share(world, channel, uploaded, fields, thread=thread, by_bot=True)
    return {"files": [file_wire(world, stored) for stored in uploaded]}


def _uploaded(world: World, item: Wire) -> StoredFile:
    stored = world.files.get(str(item.get("id")))
    if stored is None or stored.content is None or stored.shared:
        raise Refused("file_not_found")
    stored.title = str(item.get("title") or stored.name)
    return stored


def share(
    world: World,
    channel: Channel,
    shared: Sequence[StoredFile],
    fields: Wire,
    *,
    thread: str = "",
    by_bot: bool = False,
    stub: bool = False,
) -> Wire:
    """A message with files. As a `stub` the event says only that there is one, as in channels shared by two teams."""
    for stored in shared:
        stored.shared = True
        stored.channels.append(channel.id)
    wires = [{"id": stored.id, **STUB} if stub else file_wire(world, stored) for stored in shared]
    content = {**fields, "subtype": "file_share", "upload": False, "display_as_bot": False, "files": wires}
    return add(world, channel, content, thread=thread, by_bot=by_bot).body


def files_info(world: World, params: Params) -> Wire:
    stored = world.files.get(params.text("file"))
    if stored is None or stored.content is None:
        raise Refused("file_not_found")
    shares: Wire = {}
    for channel in (world.channels[channel_id] for channel_id in stored.channels):
        kind = "public" if channel.kind == "channel" else "private"
        for post in channel.posts.values():
            if not post.deleted and any(one["id"] == stored.id for one in post.body.get("files", ())):
                entry = {"ts": post.ts, "thread_ts": post.thread_ts} if post.thread_ts else {"ts": post.ts}
                shares.setdefault(kind, {}).setdefault(channel.id, []).append(entry)
    return {"file": {**file_wire(world, stored), "shares": shares}, "comments": []}


FILES = {
    "files.getUploadURLExternal": get_upload_url,
    "files.completeUploadExternal": complete_upload,
    "files.info": files_info,
}
