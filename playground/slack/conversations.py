"""What the bot asks: who it is, who and which channels there are, and what was said in them."""

import base64
from typing import TypeVar

from playground.slack.places import find_channel, read_channel
from playground.slack.request import Params
from playground.slack.rules import Refused
from playground.slack.scopes import check_kind_scope
from playground.slack.world import Channel, ChannelKind, Post, World
from playground.wire import Wire

T = TypeVar("T")

_MOST = 1000
_TYPES: dict[str, ChannelKind] = {"public_channel": "channel", "private_channel": "group", "mpim": "mpim", "im": "im"}


def auth_test(world: World, params: Params) -> Wire:
    who = {"url": f"{world.root()}/", "team": world.team_name, "user": world.bot.name, "team_id": world.team_id}
    return {**who, "user_id": world.bot.id, "bot_id": world.bot.bot_id, "is_enterprise_install": False}


def users_info(world: World, params: Params) -> Wire:
    user = world.users.get(params.text("user"))
    if user is None:
        raise Refused("user_not_found")
    return {"user": user.wire}


def bots_info(world: World, params: Params) -> Wire:
    for user in world.users.values():
        if user.is_bot and user.bot_id == params.text("bot"):
            return {"bot": user.bot_profile}
    raise Refused("bot_not_found")


def team_info(world: World, params: Params) -> Wire:
    return {"team": {"id": world.team_id, "name": world.team_name, "domain": world.team_domain, "icon": {}}}


def info(world: World, params: Params) -> Wire:
    channel = find_channel(world, params.text("channel"))
    check_kind_scope(channel.kind, "read", world.scopes)
    return {"channel": _seen(world, channel)}


def _seen(world: World, channel: Channel) -> Wire:
    return channel.wire if channel.kind == "im" else {**channel.wire, "is_member": world.hears(channel)}


def list_channels(world: World, params: Params) -> Wire:
    """The kinds asked for, public channels by default; private ones only where the bot is in."""
    return _listed(world, params, own=False)


def list_own_channels(world: World, params: Params) -> Wire:
    """Only where the bot is in."""
    return _listed(world, params, own=True)


def _listed(world: World, params: Params, *, own: bool) -> Wire:
    types = [name.strip() for name in (params.text("types") or "public_channel").split(",")]
    if any(name not in _TYPES for name in types):
        raise Refused("invalid_types")
    kinds = [_TYPES[name] for name in types]
    for kind in kinds:
        check_kind_scope(kind, "read", world.scopes)
    found = [
        channel
        for channel in world.channels.values()
        if channel.kind in kinds
        and (world.hears(channel) or (channel.kind == "channel" and not own))
        and not (params.boolean("exclude_archived") and channel.archived)
    ]
    page, cursor = _page([_seen(world, channel) for channel in found], params)
    return {"channels": page, "response_metadata": {"next_cursor": cursor}}


def open_channel(world: World, params: Params) -> Wire:
    """The direct channel with one user, or with several."""
    if params.text("channel"):
        channel = find_channel(world, params.text("channel"))
        return {"channel": {"id": channel.id}, "no_op": True, "already_open": True}
    users = [name.strip() for name in params.text("users").split(",") if name.strip()]
    if not users:
        raise Refused("users_list_not_supplied")
    if any(name not in world.users for name in users):
        raise Refused("user_not_found")
    if any(world.users[name].is_bot for name in users):
        raise Refused("cannot_dm_bot")
    channel = world.im_with(users[0]) if len(users) == 1 else mpim_with(world, users)
    return {"channel": channel.wire if params.boolean("return_im") else {"id": channel.id}}


def mpim_with(world: World, users: list[str]) -> Channel:
    members = sorted({*users, world.bot.id})
    for channel in world.channels.values():
        if channel.kind == "mpim" and sorted(channel.members) == members:
            return channel
    name = "mpdm-" + "--".join(world.users[user].name for user in members) + "-1"
    channel = Channel(id=world.new_id("G"), kind="mpim", name=name, members=members)
    world.channels[channel.id] = channel
    return channel


def members(world: World, params: Params) -> Wire:
    channel = find_channel(world, params.text("channel"))
    page, cursor = _page(list(channel.members), params)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def history(world: World, params: Params) -> Wire:
    """Newest first; replies in threads are left out unless they were broadcast."""
    channel = read_channel(world, params.text("channel"))
    check_kind_scope(channel.kind, "history", world.scopes)
    inside = _Between(params)
    posts = []
    for post in reversed(channel.posts.values()):
        if post.ts < inside.oldest:
            break
        seen = not post.is_reply or post.body.get("subtype") == "thread_broadcast"
        if seen and not post.deleted and inside.holds(post.ts):
            posts.append(_told(post, params))
    return _paged(posts, params, newest_first=True)


def replies(world: World, params: Params) -> Wire:
    """The parent and its replies, oldest first; the parent is always there."""
    channel = read_channel(world, params.text("channel"))
    check_kind_scope(channel.kind, "history", world.scopes)
    post = channel.posts.get(params.text("ts"))
    parent = channel.post(post.thread_ts or post.ts) if post else None
    if parent is None:
        raise Refused("thread_not_found")
    inside = _Between(params)
    found = [one for one in channel.threads.get(parent.ts, ()) if not one.deleted and inside.holds(one.ts)]
    return _paged([_told(one, params) for one in (parent, *found)], params, newest_first=False)


class _Between:
    """The bounds that a call asks for; they are outside unless `inclusive`."""

    def __init__(self, params: Params) -> None:
        self.oldest = _as_ts(params.text("oldest"), "invalid_ts_oldest") or "0"
        self.latest = _as_ts(params.text("latest"), "invalid_ts_latest") or "99999999999.000000"
        self._inclusive = params.boolean("inclusive")

    def holds(self, ts: str) -> bool:
        if self._inclusive and ts in (self.oldest, self.latest):
            return True
        return self.oldest < ts < self.latest


def _as_ts(given: str, error: str) -> str:
    """`1700000000` and `1700000000.5` are moments too."""
    if given in ("", "0"):
        return ""
    seconds, _, rest = given.partition(".")
    if not seconds.isdigit() or (rest and not rest.isdigit()):
        raise Refused(error)
    return f"{seconds.rjust(10, '0')}.{rest.ljust(6, '0')}"


def _told(post: Post, params: Params) -> Wire:
    if params.boolean("include_all_metadata"):
        return post.body
    return {key: value for key, value in post.body.items() if key != "metadata"}


def _paged(messages: list[Wire], params: Params, *, newest_first: bool) -> Wire:
    """The cursor names the next message, so that what comes or goes meanwhile shifts nothing."""
    limit, start, cursor = _limit(params), 0, _decoded(params, "next_ts:")
    if cursor:
        beyond = [m["ts"] <= cursor if newest_first else m["ts"] >= cursor for m in messages]
        start = beyond.index(True) if True in beyond else len(messages)
    rest = messages[start + limit : start + limit + 1]
    answer: Wire = {"messages": messages[start : start + limit], "has_more": bool(rest), "pin_count": 0}
    return answer | ({"response_metadata": {"next_cursor": _encoded("next_ts:", rest[0]["ts"])}} if rest else {})


def _page(found: list[T], params: Params) -> tuple[list[T], str]:
    limit, cursor = _limit(params), _decoded(params, "next:") or "0"
    if not cursor.isdigit():
        raise Refused("invalid_cursor")
    end = int(cursor) + limit
    return found[int(cursor) : end], _encoded("next:", str(end)) if end < len(found) else ""


def _limit(params: Params) -> int:
    limit = params.integer("limit", 100) or 100
    if not 0 < limit <= _MOST:
        raise Refused("invalid_limit")
    return limit


def _encoded(kind: str, place: str) -> str:
    return base64.b64encode(f"{kind}{place}".encode()).decode()


def _decoded(params: Params, kind: str) -> str:
    if not params.text("cursor"):
        return ""
    try:
        words = base64.b64decode(params.text("cursor")).decode()
    except ValueError:
        words = ""
    if not words.startswith(kind):
        raise Refused("invalid_cursor")
    return words.removeprefix(kind)


CONVERSATIONS = {
    "auth.test": auth_test,
    "users.info": users_info,
    "users.conversations": list_own_channels,
    "bots.info": bots_info,
    "team.info": team_info,
    "conversations.info": info,
    "conversations.list": list_channels,
    "conversations.open": open_channel,
    "conversations.members": members,
    "conversations.history": history,
    "conversations.replies": replies,
}
