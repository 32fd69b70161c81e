"""What people do on Discord, as our messages."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import discord
import pytest

from gateway.messages import InboundMessage, Media, Quote, Sender, SessionKey, Text
from gateway.platforms.discord.parsing import (
    DiscordIdentity,
    choose_thread_name,
    ms_to_snowflake,
    parse_edit,
    parse_message,
    snowflake_to_ms,
)
from gateway.platforms.discord.transport import DiscordTransport
from playground.discord.people import DiscordPeople
from playground.discord.world import DiscordUser, DiscordWorld, guild_create_wire

BOT = 1_100_000_000_000_000_001
BOT_ROLE = 1_100_000_000_000_000_002
ME = DiscordIdentity(account="discord", id=BOT, name="hermes", commands=frozenset({"allow", "stop"}))

Wire = dict[str, Any]


class Desk:
    """A world without a server, read by discord.py without a connection."""

    def __init__(self, line: DiscordTransport) -> None:
        self.world = DiscordWorld(bot=DiscordUser(id=BOT, username="hermes", bot=True))
        self.people = DiscordPeople(self.world)
        self.ada = self.people.make_user("ada", global_name="Ada")["id"]
        self.bob = self.people.make_user("bob")["id"]
        self.guild = self.people.make_guild("Engines", members=[self.ada, self.bob])["id"]
        self.channel = self.people.make_channel(self.guild, "valves")["id"]
        self.dm = self.people.open_dm(self.ada)["id"]
        self._line = line

    def _place(self, channel_id: str) -> Any:
        state = self._line._connection
        wire = guild_create_wire(self.world, self.world.guilds[int(self.guild)], all_members=False)
        wire["roles"].append({**wire["roles"][0], "id": str(BOT_ROLE), "name": "Hermes", "tags": {"bot_id": str(BOT)}})
        guild = discord.Guild(data=wire, state=state)  # type: ignore[arg-type]
        found = guild.get_channel_or_thread(int(channel_id))
        if found is not None:
            return found
        data: Any = {"id": channel_id, "type": 1, "recipients": []}
        return discord.DMChannel(me=state.user, state=state, data=data)  # type: ignore[arg-type]

    def message(self, wire: Wire) -> discord.Message:
        message = self._line.build_message(self._place(wire["channel_id"]), wire)
        assert isinstance(message, discord.Message)
        return message

    def send(self, text: str = "hello", *, where: str = "", **options: Any) -> Wire:
        return self.people.send_text(where or self.dm, self.ada, text, **options)

    def said(self, text: str = "hello", *, where: str = "", **options: Any) -> InboundMessage:
        words = parse_message(self.message(self.send(text, where=where, **options)), ME)
        assert words is not None
        return words

    def ours(self, text: str = "mine", *, where: str = "") -> str:
        message = self.people.send_text(where or self.channel, BOT, text)["id"]
        return str(message)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with DiscordTransport("http://127.0.0.1:9/api/v10").hold() as line:
        yield Desk(line)


async def test_a_direct_message(desk: Desk) -> None:
    wire = desk.send("hello")
    assert parse_message(desk.message(wire), ME) == InboundMessage(
        key=SessionKey(platform="discord", kind="dm", chat=desk.dm),
        message_id=wire["id"],
        sender=Sender(id=desk.ada, name="Ada"),
        parts=(Text(text="hello"),),
        sent_ms=snowflake_to_ms(int(wire["id"])),
    )


async def test_the_session_of_a_place(desk: Desk) -> None:
    thread = desk.people.make_thread(desk.channel, desk.ada, "Leaks")["id"]
    in_channel, in_thread = desk.said(where=desk.channel), desk.said(where=thread)
    assert (str(in_channel.key), in_channel.place_name) == (f"discord:channel:{desk.channel}", "Engines #valves")
    assert (str(in_thread.key), in_thread.place_name) == (f"discord:thread:{thread}", "Engines Leaks")
    assert (in_channel.key.within, in_thread.key.within) == ("", desk.channel)
    work = parse_message(desk.message(desk.send()), replace(ME, account="discord@work"))
    assert work is not None
    assert str(work.key) == f"discord@work:dm:{desk.dm}"


@pytest.mark.parametrize(
    ("text", "addressed"),
    [
        ("hello", False),
        (f"<@{BOT}> hello", True),
        (f"<@!{BOT}> hello", True),
        (f"<@&{BOT_ROLE}> hello", True),
        ("@everyone hello", False),
        ("hermes, hello", False),
        ("/allow here", True),
        ("/Stop", True),
        ("/play a song", False),
        (f"<@{BOT}> /play a song", True),
    ],
)
async def test_who_is_spoken_to_in_a_channel(desk: Desk, text: str, addressed: bool) -> None:
    assert desk.said(text, where=desk.channel, extra={"mention_roles": []}).addressed is addressed


async def test_a_command_may_be_called_by_our_name(desk: Desk) -> None:
    for typed in ("/allow here", f"<@{BOT}> /allow here", f" <@!{BOT}>/allow here"):
        assert desk.said(typed, where=desk.channel).said == "/allow here"
    assert desk.said(f"<@{desk.bob}> /allow here", where=desk.channel).said == "@bob /allow here"
    assert desk.said(f"<@{BOT}> 1 / 2?", where=desk.channel).said == "@hermes 1 / 2?"


async def test_a_reply_to_us_is_for_us_and_quotes(desk: Desk) -> None:
    ours = desk.ours("Is it **open**?")
    reply = desk.said("yes", where=desk.channel, reply_to=ours, ping=False)
    assert (reply.addressed, reply.about) == (True, ours)
    assert reply.parts == (Quote(author="hermes", text="Is it **open**?"), Text(text="yes"))
    other = desk.send("mine", where=desk.channel)["id"]
    assert not desk.said("and?", where=desk.channel, reply_to=other).addressed


async def test_a_thread_of_ours_is_for_us(desk: Desk) -> None:
    start = desk.send(where=desk.channel)["id"]
    thread = desk.people.make_thread(desk.channel, BOT, "Leaks", message_id=start)["id"]
    assert desk.said("more", where=thread).addressed
    other = desk.people.make_thread(desk.channel, desk.bob, "Theirs")["id"]
    assert not desk.said("more", where=other).addressed


async def test_our_own_and_what_discord_itself_says_is_left_out(desk: Desk) -> None:
    ours = desk.people.send_text(desk.channel, BOT, "mine")
    joined = desk.people.send_system(desk.channel, desk.ada, 7)
    empty = desk.people.send_text(desk.channel, desk.ada, "", extra={"flags": 0})
    assert [parse_message(desk.message(wire), ME) for wire in (ours, joined, empty)] == [None, None, None]


async def test_names_take_the_place_of_ids(desk: Desk) -> None:
    text = f"<@{BOT}> ask <@{desk.bob}> or <@&{BOT_ROLE}> in <#{desk.channel}> </help:123> <:ok:456> <@1> `<b>` @here"
    words = desk.said(text, where=desk.channel).text
    assert words == "@hermes ask @bob or @Hermes in #valves /help :ok: <@1> `<b>` @here"


async def test_a_voice_message_is_what_its_sender_says(desk: Desk) -> None:
    for flags, is_voice in ((1 << 13, True), (0, False)):
        [note] = desk.said("", files=[{"name": "voice.ogg", "mime_type": "audio/ogg"}], extra={"flags": flags}).parts
        assert isinstance(note, Media)
        assert note.is_voice == is_voice


async def test_files_are_referred_to(desk: Desk) -> None:
    files = [
        {"name": "a.png", "content": b"12345"},
        {"name": "notes.txt", "mime_type": "text/plain; charset=utf-8"},
        {"name": "x.unknown"},
        {"name": "voice.ogg", "mime_type": "audio/ogg"},
    ]
    parts = desk.said("look", files=files).parts
    assert parts[0] == Text(text="look")
    media = [part for part in parts if isinstance(part, Media)]
    assert [(one.kind, one.name, one.mime) for one in media] == [
        ("image", "a.png", "image/png"),
        ("file", "notes.txt", "text/plain"),
        ("file", "x.unknown", "application/octet-stream"),
        ("audio", "voice.ogg", "audio/ogg"),
    ]
    assert media[0].size_bytes == 5
    assert "/attachments/" in media[0].reference


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"sticker_items": [{"id": "5", "name": "Wave", "format_type": 1}]}, "[sticker Wave]"),
        ({"embeds": [{"type": "rich", "title": "Build", "description": "failed"}]}, "[embed Build / failed]"),
        (
            {
                "poll": {
                    "question": {"text": "Tea?"},
                    "answers": [
                        {"answer_id": 1, "poll_media": {"text": "yes"}},
                        {"answer_id": 2, "poll_media": {"text": "no"}},
                    ],
                    "expiry": "2027-01-01T00:00:00+00:00",
                    "allow_multiselect": False,
                    "layout_type": 1,
                }
            },
            "[poll: Tea? yes / no]",
        ),
    ],
)
async def test_what_cannot_be_read_is_described(desk: Desk, fields: Wire, shown: str) -> None:
    assert desk.said("", extra=fields).parts == (Text(text=shown),)


async def test_the_preview_of_a_link_is_no_content(desk: Desk) -> None:
    preview = {"embeds": [{"type": "article", "title": "News", "url": "https://a.example"}]}
    assert desk.said("https://a.example", extra=preview).parts == (Text(text="https://a.example"),)


async def test_a_forwarded_message_is_quoted_and_not_meant_for_us(desk: Desk) -> None:
    inner = {"content": f"/stop <@{BOT}>", "type": 0, "timestamp": "2026-01-01T00:00:00+00:00"}
    inner |= {"edited_timestamp": None, "attachments": [], "embeds": []}
    fields = {"message_snapshots": [{"message": inner}], "message_reference": {"type": 1, "channel_id": "1"}}
    forwarded = desk.said("", where=desk.channel, extra=fields)
    assert forwarded.parts == (Quote(how="forwarded from", text=f"/stop <@{BOT}>"),)
    assert not forwarded.addressed
    assert forwarded.about == ""


async def test_webhooks_and_bots_are_bots(desk: Desk) -> None:
    assert desk.said("hi", where=desk.channel, extra={"webhook_id": "77"}).sender.is_bot
    robot = desk.people.make_user("robot", bot=True)["id"]
    desk.people.join(desk.guild, robot)
    words = parse_message(desk.message(desk.people.send_text(desk.channel, robot, "beep")), ME)
    assert words is not None
    assert words.sender == Sender(id=robot, name="robot", is_bot=True)


async def test_a_text_of_full_length_goes_on(desk: Desk) -> None:
    assert desk.said("x" * 2000).more_follows
    assert not desk.said("x" * 1900).more_follows


async def test_half_a_surrogate_pair_is_replaced(desk: Desk) -> None:
    words = parse_message(desk.message({**desk.send(), "content": "a\ud83d"}), ME)
    assert words is not None
    assert words.text == "a\ufffd"


async def test_an_edit_has_its_own_time(desk: Desk) -> None:
    wire = desk.send("one")
    assert parse_edit(desk.message(wire), ME) is None
    changed = parse_edit(desk.message(desk.people.edit_text(desk.dm, wire["id"], "two")), ME)
    assert changed is not None
    assert (changed.kind, changed.message_id, changed.text) == ("edit", wire["id"], "two")
    assert changed.edited_ms == changed.sent_ms >= snowflake_to_ms(int(wire["id"]))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"<@{BOT}>  fix the\nvalve", "fix the valve"),
        (f"<@{BOT}>", "Conversation"),
        (f"<@{BOT}> " + "x" * 200, "x" * 80),
        ("nobody is mentioned", ""),
    ],
)
async def test_the_name_of_a_thread(desk: Desk, text: str, name: str) -> None:
    assert choose_thread_name(desk.message(desk.send(text, where=desk.channel)), ME) == name


async def test_a_command_opens_no_thread(desk: Desk) -> None:
    assert choose_thread_name(desk.message(desk.send(f"<@{BOT}> /allow here", where=desk.channel)), ME) == ""


async def test_only_plain_channels_open_threads(desk: Desk) -> None:
    thread = desk.people.make_thread(desk.channel, desk.ada, "Leaks")["id"]
    for where in (thread, desk.dm):
        assert choose_thread_name(desk.message(desk.send(f"<@{BOT}> hi", where=where)), ME) == ""


def test_an_id_tells_its_time() -> None:
    assert snowflake_to_ms(ms_to_snowflake(1_794_807_296_286)) == 1_794_807_296_286
    assert ms_to_snowflake(0) == 0
