"""The REST calls of a bot, as functions of the world, and the table of all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from playground.discord import interactions
from playground.discord.intents import application_flags
from playground.discord.messages import delete, react, render_seen
from playground.discord.request import Ask
from playground.discord.rules import check_commands, check_text, invalid, refused
from playground.discord.sending import change, check_may_write, send
from playground.discord.threads import enter_thread, set_archived, start_thread
from playground.discord.wires import channel_wire, guild_wire, member_wire
from playground.discord.world import PRIVATE_THREAD, Channel, Post, World, as_id
from playground.wire import Wire

Method = Callable[[World, Ask], Any]


@dataclass(frozen=True, slots=True)
class Route:
    """`bucket` is what shares a rate limit; a call without a result is answered with 204."""

    verb: str
    path: str
    name: str
    function: Method
    bucket: str = ""
    public: bool = False  # needs no token: the address holds one


def get_current_user(world: World, ask: Ask) -> Wire:
    return world.bot.wire | {"verified": True, "mfa_enabled": False, "email": None, "flags": 0, "locale": "en-US"}


def get_application(world: World, ask: Ask) -> Wire:
    wire: Wire = {"id": str(world.bot.id), "name": world.bot.username, "description": "", "icon": None}
    wire |= {"bot_public": True, "bot_require_code_grant": False, "verify_key": "0" * 64, "team": None}
    owner = {"id": "1", "username": "owner", "discriminator": "0", "avatar": None, "global_name": None}
    return wire | {"owner": owner, "flags": application_flags(world.privileged), "summary": ""}


def get_user(world: World, ask: Ask) -> Wire:
    user = world.users.get(as_id(ask.path["user_id"]))
    if user is None:
        raise refused(10013)
    return user.wire


def get_my_guilds(world: World, ask: Ask) -> list[Wire]:
    return [guild_wire(world, guild) for guild in world.guilds.values() if guild.bot_in]


def get_guild(world: World, ask: Ask) -> Wire:
    guild = world.find_guild(ask.path["guild_id"])
    counts = {"approximate_member_count": len(guild.members), "approximate_presence_count": 1}
    return guild_wire(world, guild) | (counts if ask.query.get("with_counts") in ("1", "true") else {})


def get_guild_channels(world: World, ask: Ask) -> list[Wire]:
    guild = world.find_guild(ask.path["guild_id"])
    channels = [one for one in world.channels.values() if one.guild_id == guild.id and not one.is_thread]
    return [channel_wire(world, channel) for channel in channels]


def get_active_threads(world: World, ask: Ask) -> Wire:
    guild = world.find_guild(ask.path["guild_id"])
    channels = [one for one in world.channels.values() if one.guild_id == guild.id]
    threads = [channel_wire(world, one) for one in channels if one.is_thread and not one.archived]
    return {"threads": threads, "members": [thread["member"] for thread in threads if "member" in thread]}


def get_member(world: World, ask: Ask) -> Wire:
    guild, number = world.find_guild(ask.path["guild_id"]), as_id(ask.path["user_id"])
    if number not in world.users:
        raise refused(10013)
    if number not in guild.members:
        raise refused(10007)
    return member_wire(guild, world.users[number])


def get_channel(world: World, ask: Ask) -> Wire:
    return channel_wire(world, world.find_channel(ask.path["channel_id"]))


def edit_channel(world: World, ask: Ask) -> Wire:
    """Of a thread: its name, and whether it is archived or locked."""
    channel = world.find_channel(ask.path["channel_id"])
    channel.name = check_text("name", ask.fields.get("name"), 100) or channel.name
    if channel.is_thread:
        archived, locked = ask.fields.get("archived", channel.archived), ask.fields.get("locked", channel.locked)
        set_archived(world, channel, archived=archived, locked=locked)
    return channel_wire(world, channel)


def create_dm(world: World, ask: Ask) -> Wire:
    user = world.users.get(as_id(ask.fields.get("recipient_id")))
    if user is None:
        raise refused(10013)
    if user is world.bot:
        raise refused(50007)
    return channel_wire(world, world.dm(user))


def get_messages(world: World, ask: Ask) -> list[Wire]:
    """Newest first, whichever part of the history was asked for."""
    channel, query = world.find_channel(ask.path["channel_id"]), ask.query
    limit = _limit(query.get("limit", "50"))
    if "read_history" in world.denied(channel):
        return []
    posts = [post for post in channel.posts.values() if not post.deleted and not post.ephemeral]
    if "after" in query:
        bound = as_id(query["after"])
        chosen = [post for post in posts if post.id > bound][:limit]
    elif "around" in query:
        bound = as_id(query["around"])
        older = [post for post in posts if post.id < bound][-(limit // 2) :]
        chosen = (older + [post for post in posts if post.id >= bound])[:limit]
    else:
        bound = as_id(query["before"]) if "before" in query else 1 << 63
        chosen = [post for post in posts if post.id < bound][-limit:]
    return [_fetched(world, post) for post in reversed(chosen)]


def _limit(given: str) -> int:
    if not given.isdigit():
        raise invalid("limit", "NUMBER_TYPE_COERCE", f'Value "{given}" is not int.')
    if int(given) > 100:
        raise invalid("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
    if int(given) < 1:
        raise invalid("limit", "NUMBER_TYPE_MIN", "int value should be greater than or equal to 1.")
    return int(given)


def _post(world: World, ask: Ask) -> Post:
    return world.find_post(ask.path["channel_id"], ask.path["message_id"])


def get_message(world: World, ask: Ask) -> Wire:
    return _fetched(world, _post(world, ask))


def _fetched(world: World, post: Post) -> Wire:
    """Without its nonce, which Discord tells when a message is sent and never again."""
    return {name: value for name, value in render_seen(world, post).items() if name != "nonce"}


def create_message(world: World, ask: Ask) -> Wire:
    return render_seen(world, send(world, world.find_channel(ask.path["channel_id"]), ask))


def edit_message(world: World, ask: Ask) -> Wire:
    post = _post(world, ask)
    if post.author is not world.bot:
        raise refused(50005)
    return render_seen(world, change(world, post, ask))


def delete_message(world: World, ask: Ask) -> None:
    post = _post(world, ask)
    channel = world.channels[post.channel_id]
    if post.author is not world.bot and (not channel.guild_id or "manage_messages" in world.denied(channel)):
        raise refused(50013 if channel.guild_id else 50021)
    delete(world, [post])


def bulk_delete(world: World, ask: Ask) -> None:
    channel, ids = world.find_channel(ask.path["channel_id"]), ask.fields.get("messages") or []
    if not 2 <= len(ids) <= 100:
        raise invalid("messages", "BASE_TYPE_BAD_LENGTH", "Must be between 2 and 100 in length.")
    if posts := [post for number in ids if (post := channel.post(as_id(number)))]:
        delete(world, posts)


def typing(world: World, ask: Ask) -> None:
    channel = world.find_channel(ask.path["channel_id"])
    check_may_write(world, channel)
    channel.typing += 1
    world.events.note("typing", channel_id=str(channel.id), by_bot=True)


def create_reaction(world: World, ask: Ask) -> None:
    post, emoji = _post(world, ask), unquote(ask.path["emoji"])
    channel = world.channels[post.channel_id]
    if emoji.isascii() and ":" not in emoji:
        raise refused(10014)
    if "add_reactions" in world.denied(channel):
        raise refused(50013)
    react(world, post, world.bot, emoji)


def delete_reaction(world: World, ask: Ask) -> None:
    react(world, _post(world, ask), world.bot, unquote(ask.path["emoji"]), remove=True)


def thread_from_message(world: World, ask: Ask) -> Wire:
    parent, post = _thread_parent(world, ask), _post(world, ask)
    name = check_text("name", ask.fields.get("name"), 100, required=True)
    return channel_wire(world, start_thread(world, parent, world.bot, name, source=post, kind=0))


def thread_without_message(world: World, ask: Ask) -> Wire:
    parent = _thread_parent(world, ask)
    name = check_text("name", ask.fields.get("name"), 100, required=True)
    kind = int(ask.fields.get("type") or PRIVATE_THREAD)
    return channel_wire(world, start_thread(world, parent, world.bot, name, source=None, kind=kind))


def _thread_parent(world: World, ask: Ask) -> Channel:
    parent = world.find_channel(ask.path["channel_id"])
    if "create_threads" in world.denied(parent):
        raise refused(50013)
    return parent


def join_thread(world: World, ask: Ask) -> None:
    enter_thread(world, world.find_channel(ask.path["channel_id"]), world.bot)


def get_commands(world: World, ask: Ask) -> list[Wire]:
    return world.commands.get(as_id(ask.path.get("guild_id", 0)), [])


def put_commands(world: World, ask: Ask) -> list[Wire]:
    """The whole list is replaced; a command that was there by name keeps its id."""
    guild = as_id(ask.path.get("guild_id", 0))
    old = {(one["type"], one["name"]): one["id"] for one in world.commands.get(guild, [])}
    fresh = []
    for given in check_commands(ask.body):
        kind = given.get("type", 1)
        number = old.get((kind, given["name"])) or str(world.snowflake())
        wire = {"options": [], "description": "", "dm_permission": True, **given, "type": kind, "id": number}
        wire |= {"application_id": str(world.bot.id), "version": str(world.snowflake())}
        fresh.append(wire | {"guild_id": str(guild)} if guild else wire)
    world.commands[guild] = fresh
    world.events.note("commands", names=[command["name"] for command in fresh])
    return fresh


_CHANNEL = "/channels/{channel_id}"
_MESSAGE = _CHANNEL + "/messages/{message_id}"
_APP = "/applications/{application_id}"

ROUTES = (
    Route("GET", "/users/@me", "getCurrentUser", get_current_user),
    Route("GET", "/oauth2/applications/@me", "getApplication", get_application),
    Route("GET", "/applications/@me", "getApplication", get_application),
    Route("GET", "/users/@me/guilds", "getMyGuilds", get_my_guilds),
    Route("POST", "/users/@me/channels", "createDM", create_dm),
    Route("GET", "/users/{user_id}", "getUser", get_user),
    Route("GET", "/guilds/{guild_id}", "getGuild", get_guild),
    Route("GET", "/guilds/{guild_id}/channels", "getGuildChannels", get_guild_channels),
    Route("GET", "/guilds/{guild_id}/threads/active", "getActiveThreads", get_active_threads),
    Route("GET", "/guilds/{guild_id}/members/{user_id}", "getMember", get_member),
    Route("GET", _CHANNEL, "getChannel", get_channel),
    Route("PATCH", _CHANNEL, "editChannel", edit_channel),
    Route("GET", _CHANNEL + "/messages", "getMessages", get_messages),
    Route("POST", _CHANNEL + "/messages", "createMessage", create_message, "messages"),
    Route("POST", _CHANNEL + "/messages/bulk-delete", "bulkDelete", bulk_delete),
    Route("GET", _MESSAGE, "getMessage", get_message),
    Route("PATCH", _MESSAGE, "editMessage", edit_message, "edits"),
    Route("DELETE", _MESSAGE, "deleteMessage", delete_message, "deletes"),
    Route("POST", _CHANNEL + "/typing", "triggerTyping", typing),
    Route("PUT", _MESSAGE + "/reactions/{emoji}/@me", "createReaction", create_reaction, "reactions"),
    Route("DELETE", _MESSAGE + "/reactions/{emoji}/@me", "deleteReaction", delete_reaction, "reactions"),
    Route("POST", _MESSAGE + "/threads", "startThreadFromMessage", thread_from_message),
    Route("POST", _CHANNEL + "/threads", "startThread", thread_without_message),
    Route("PUT", _CHANNEL + "/thread-members/@me", "joinThread", join_thread),
    Route("GET", _APP + "/commands", "getCommands", get_commands),
    Route("PUT", _APP + "/commands", "putCommands", put_commands),
    Route("GET", _APP + "/guilds/{guild_id}/commands", "getGuildCommands", get_commands),
    Route("PUT", _APP + "/guilds/{guild_id}/commands", "putGuildCommands", put_commands),
    *(
        Route(verb, path, name, function, public=True)
        for verb, path, name, function in (
            ("POST", "/interactions/{interaction_id}/{token}/callback", "interactionCallback", interactions.callback),
            ("POST", "/webhooks/{application_id}/{token}", "createFollowup", interactions.follow_up),
            ("GET", "/webhooks/{application_id}/{token}/messages/{which}", "getFollowup", interactions.get_answer),
            ("PATCH", "/webhooks/{application_id}/{token}/messages/{which}", "editFollowup", interactions.edit_answer),
            (
                "DELETE",
                "/webhooks/{application_id}/{token}/messages/{which}",
                "deleteFollowup",
                interactions.delete_answer,
            ),
        )
    ),
)
