"""Slash commands and buttons: an answer within 3 seconds, once; follow-ups for 15 minutes."""

import secrets

from playground.discord.messages import EPHEMERAL, LOADING, add, compose, delete, mentions_of, render
from playground.discord.request import Ask
from playground.discord.rules import check_allowed_mentions, invalid, refused
from playground.discord.sending import change, reference_wire, store, written
from playground.discord.wires import channel_wire, member_wire
from playground.discord.world import ALL_PERMISSIONS, DM, Channel, Interaction, Post, User, World, as_id
from playground.wire import Wire

ANSWER_SECONDS = 3.0
TOKEN_SECONDS = 15 * 60.0
MAX_INTERACTIONS = 5000


def begin(world: World, channel: Channel, user: User, kind: int, data: Wire, source: Post | None) -> Interaction:
    """Tell the bot; interactions need no intent."""
    number, token = world.snowflake(), secrets.token_urlsafe(48)
    body: Wire = {"id": str(number), "application_id": str(world.bot.id), "type": kind, "token": token, "data": data}
    body |= {"version": 1, "channel_id": str(channel.id), "attachment_size_limit": 10 * 1024 * 1024}
    body |= {"locale": "en-US", "entitlements": [], "authorizing_integration_owners": {}}
    body["channel"] = channel_wire(world, channel) | {"permissions": str(ALL_PERMISSIONS)}
    body["app_permissions"] = str(ALL_PERMISSIONS)
    if channel.kind == DM:
        body |= {"user": user.wire, "context": 1}
    else:
        guild = world.guilds[channel.guild_id]
        member = member_wire(guild, user) | {"permissions": str(ALL_PERMISSIONS)}
        partial = {"id": str(guild.id), "locale": "en-US", "features": []}
        body |= {"member": member, "guild_id": str(guild.id), "guild": partial, "guild_locale": "en-US", "context": 0}
    if source:
        body["message"] = render(world, source)
    made = Interaction(
        id=number, token=token, body=body, user_id=user.id, channel_id=channel.id, born=world.now(), source=source
    )
    world.interactions[number] = world.tokens[token] = made
    while len(world.interactions) > MAX_INTERACTIONS:
        old = world.interactions.pop(next(iter(world.interactions)))
        world.tokens.pop(old.token)
    world.events.note("interaction", interaction_id=str(number), channel_id=str(channel.id), user_id=str(user.id))
    world.dispatch("INTERACTION_CREATE", body)
    return made


def callback(world: World, ask: Ask) -> Wire | None:
    """The first answer. Raises 10062 when it is too late and 40060 for a second one."""
    interaction = world.interactions.get(as_id(ask.path["interaction_id"]))
    if interaction is None or interaction.token != ask.path["token"]:
        raise refused(10062)
    if interaction.answer is not None:
        raise refused(40060)
    if world.now() - interaction.born > ANSWER_SECONDS:
        raise refused(10062)
    kind, data = ask.fields.get("type"), ask.fields.get("data") or {}
    post = _answer(world, interaction, kind, data, ask)
    interaction.answer = {"type": kind, "data": data}
    world.events.note("answer", interaction_id=str(interaction.id), answer=interaction.answer)
    if ask.query.get("with_response") not in ("1", "true"):
        return None
    wire = {"id": str(interaction.id), "type": interaction.body["type"]}
    if post:
        flags = {"response_message_id": str(post.id), "response_message_ephemeral": post.ephemeral}
        wire |= flags | {"response_message_loading": bool(post.body["flags"] & LOADING)}
        return {"interaction": wire, "resource": {"type": kind, "message": render(world, post)}}
    return {"interaction": wire}


def _answer(world: World, interaction: Interaction, kind: object, data: Wire, ask: Ask) -> Post | None:
    match kind:
        case 4:  # a message
            interaction.original = _say(world, interaction, data, ask, kind=20)
            return interaction.original
        case 5:  # a message later
            interaction.original = _wait(world, interaction, int(data.get("flags") or 0))
            return interaction.original
        case 6 if interaction.source:  # an edit later, or none
            interaction.original = interaction.source
            return None
        case 7 if interaction.source:  # an edit
            interaction.original = change(world, interaction.source, _with_body(ask, data))
            return interaction.original
        case 8 | 9:  # choices, a form
            return None
    raise invalid("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7, 8, 9, 10, 12}.")


def _with_body(ask: Ask, data: Wire) -> Ask:
    return Ask(path=ask.path, query=ask.query, body=data, files=ask.files)


def _compose(world: World, interaction: Interaction, content: Wire, flags: int, kind: int) -> Post:
    channel, user = world.channels[interaction.channel_id], world.users[interaction.user_id]
    about: Wire = {"id": str(interaction.id), "type": interaction.body["type"], "user": user.wire}
    about["authorizing_integration_owners"] = {}
    fields: Wire = {"application_id": str(world.bot.id), "webhook_id": str(world.bot.id), "type": kind}
    if kind == 19 and interaction.original:
        fields["message_reference"] = reference_wire(channel, interaction.original)
    post = compose(world, channel, world.bot, **content, **fields, flags=flags, interaction_metadata=about)
    post.ephemeral = bool(flags & EPHEMERAL)
    return post


def _say(world: World, interaction: Interaction, data: Wire, ask: Ask, *, kind: int) -> Post:
    channel = world.channels[interaction.channel_id]
    content = written(world, channel, data, ask.files)
    content["attachments"] = store(world, channel, data, ask.files)
    post = _compose(world, interaction, content, int(data.get("flags") or 0) & (EPHEMERAL | 1 << 12), kind)
    post.body |= mentions_of(world, post.words, check_allowed_mentions(data.get("allowed_mentions")))
    return add(world, channel, post)


def _wait(world: World, interaction: Interaction, flags: int) -> Post:
    """The bot is thinking: a message without content."""
    post = _compose(world, interaction, {}, (flags & EPHEMERAL) | LOADING, 20)
    return add(world, world.channels[interaction.channel_id], post)


def _followed(world: World, ask: Ask) -> Interaction:
    interaction = world.tokens.get(ask.path["token"])
    if interaction is None or as_id(ask.path["application_id"]) != world.bot.id:
        raise refused(10015)
    if world.now() - interaction.born > TOKEN_SECONDS:
        raise refused(50027)
    if interaction.answer is None:
        raise refused(10015)
    return interaction


def follow_up(world: World, ask: Ask) -> Wire:
    """After a deferred answer the first follow-up takes its place."""
    interaction = _followed(world, ask)
    original = interaction.original
    if original and original.body["flags"] & LOADING:
        return _fill(world, original, ask)
    post = _say(world, interaction, ask.fields, ask, kind=19 if original else 0)
    interaction.followups.append(post)
    return render(world, post)


def _fill(world: World, post: Post, ask: Ask) -> Wire:
    post.body = {**post.body, "flags": post.body["flags"] & ~LOADING}
    fields = {name: value for name, value in ask.fields.items() if name != "flags"}
    return render(world, change(world, post, _with_body(ask, fields)))


def _answered(world: World, ask: Ask) -> Post:
    interaction, which = _followed(world, ask), ask.path["which"]
    posts = [interaction.original] if which == "@original" else interaction.followups
    for post in posts:
        if post and not post.deleted and which in ("@original", str(post.id)):
            return post
    raise refused(10008)


def get_answer(world: World, ask: Ask) -> Wire:
    return render(world, _answered(world, ask))


def edit_answer(world: World, ask: Ask) -> Wire:
    return _fill(world, _answered(world, ask), ask)


def delete_answer(world: World, ask: Ask) -> None:
    delete(world, [_answered(world, ask)])
