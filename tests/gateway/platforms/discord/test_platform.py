"""Hearing Discord: nothing is passed over that was not taken, and silence, wrong tokens and cut lines are noticed."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from gateway import clock
from gateway.errors import GatewayStopping, PlatformAuthFailed, PlatformUnavailable, StoreUnavailable
from gateway.platforms.discord import channels, transport
from playground.discord import intents
from playground.discord.gateway import GatewayConnection
from tests.gateway.platforms.discord.scene import Scene, a_scene, ending_of, listening
from tests.gateway.scene import soon


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(transport, "_GUILDS_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(transport, "_NEW_SESSION_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(channels, "backoff_seconds", lambda failures: 0.01)
    async with a_scene() as made:
        yield made


# Taking what comes.


async def test_a_message_is_taken_with_its_cursor(scene: Scene) -> None:
    async with listening(scene):
        said = scene.says("hello")
        [message] = await scene.heard(1)
    assert message.text == "hello"
    assert scene.seen() == said


async def test_every_kind_of_event_is_taken_in_order(scene: Scene) -> None:
    async with listening(scene):
        said = scene.says("one", where=scene.channel)
        scene.people.edit_text(scene.channel, said, "two")
        scene.people.react(scene.channel, scene.ada, said, "👍")
        scene.people.react(scene.channel, scene.ada, said, "👍", remove=True)
        scene.people.delete(scene.channel, [said])
        taken = await scene.heard(5)
    assert [(one.kind, one.text, one.about) for one in taken] == [
        ("message", "one", ""),
        ("edit", "two", ""),
        ("reaction", "👍", said),
        ("reaction", "removed 👍", said),
        ("deletion", "deleted", said),
    ]
    assert {one.sender.id for one in taken} == {scene.ada}
    assert taken[4].message_id == said


async def test_several_deletions_at_once_are_each_told(scene: Scene) -> None:
    async with listening(scene):
        both = [scene.says("one"), scene.says("two")]
        scene.people.delete(scene.dm, both)
        taken = await scene.heard(4)
    assert [one.message_id for one in taken if one.kind == "deletion"] == both


async def test_what_we_say_and_do_ourselves_is_not_heard(scene: Scene) -> None:
    async with listening(scene):
        receipt = await scene.send("hello")
        scene.people.react(scene.dm, scene.server.world.bot.id, receipt.message_id)
        scene.people.react(scene.dm, scene.ada, receipt.message_id, "❤️")
        [reaction] = await scene.heard(1)
    assert (reaction.kind, reaction.about, reaction.addressed) == ("reaction", receipt.message_id, True)


async def test_a_pressed_button_is_answered_once_it_is_taken(scene: Scene) -> None:
    answered: list[int] = []

    async def look() -> None:
        answered.append(len(scene.calls("interactionCallback")))

    async with listening(scene):
        receipt = await scene.send("sure?", choices=["Yes", "No"])
        scene.gate.before_accept = look
        answer = await scene.people.press_and_wait(scene.dm, scene.ada, receipt.message_id, label="Yes")
        [press] = await scene.heard(1)
    assert answered == [0]
    assert answer["type"] == 6
    assert (press.kind, press.text, press.about) == ("button", "do:Yes", receipt.message_id)


async def test_a_slash_command_is_heard_as_if_it_were_typed(scene: Scene) -> None:
    async with listening(scene):
        await scene.server.wait_for(lambda: scene.server.world.commands)
        await scene.people.use_command_and_wait(scene.channel, scene.ada, "stop", {"text": "all of it"})
        [message] = await scene.heard(1)
        await scene.server.wait_for(lambda: scene.calls("deleteFollowup"))
    assert (message.kind, message.text, message.addressed) == ("message", "/stop all of it", True)
    assert scene.server.texts(scene.channel) == []  # what it was answered with is gone


async def test_slash_commands_are_set_once(scene: Scene) -> None:
    for text in ("one", "two"):
        async with listening(scene):
            await scene.server.wait_for(lambda: scene.server.world.commands)
            scene.says(text)
            await scene.heard(1 if text == "one" else 2)
    assert [command["name"] for command in scene.server.world.commands] == ["help", "stop"]
    assert len(scene.calls("putCommands")) == 1


async def test_slash_commands_that_cannot_be_set_are_only_logged(scene: Scene) -> None:
    scene.server.faults.add("fail", "putCommands", status=403)
    with capture_logs() as logs:
        async with listening(scene):
            await scene.server.wait_for(lambda: scene.calls("putCommands"))
            scene.says("hello")
            await scene.heard(1)
    assert "slash commands not set" in [entry["event"] for entry in logs]


async def test_an_event_that_cannot_be_read_is_skipped_and_its_words_are_not_logged(scene: Scene) -> None:
    with capture_logs() as logs:
        async with listening(scene):
            scene.server.world.dispatch("MESSAGE_CREATE", {"id": "secret words", "channel_id": scene.dm})
            scene.says("hello")
            await scene.heard(1)
    [skipped] = [entry for entry in logs if entry["event"] == "event skipped"]
    assert skipped["kind"] == "MESSAGE_CREATE"
    assert "secret" not in repr(logs)


# A store that is not there.


async def test_what_cannot_be_stored_is_tried_again_in_order(scene: Scene) -> None:
    async with listening(scene) as task:
        scene.gate.refuse_with += [StoreUnavailable("the disk is full")] * 3
        for text in ("one", "two", "three"):
            last = scene.says(text)
        assert [one.text for one in await scene.heard(3)] == ["one", "two", "three"]
        assert scene.seen() == last
        assert not task.done()


async def test_what_comes_while_we_stop_is_read_after_the_restart(scene: Scene) -> None:
    async with listening(scene) as task:
        scene.says("one")
        await scene.heard(1)
        scene.gate.refuse_with.append(GatewayStopping("stopping"))
        scene.says("two")
        await scene.gate.until(lambda: scene.gate.refused)
        assert not task.done()
        await scene.send("what is due is still said")
    async with listening(scene):
        assert [one.text for one in await scene.heard(2)] == ["one", "two"]


async def test_a_store_that_cannot_be_read_at_the_start_is_tried_again(scene: Scene) -> None:
    async def unavailable(*_: object) -> dict[str, str]:
        raise StoreUnavailable("the disk is full")

    scene.gate._cursors = unavailable  # type: ignore[method-assign]
    async with listening(scene) as task:
        assert isinstance(await ending_of(task), PlatformUnavailable)


@pytest.mark.parametrize("known_before", [True, False])
async def test_a_flood_beyond_the_queue_is_read_from_the_history(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, known_before: bool
) -> None:
    monkeypatch.setattr(channels, "_MAX_WAITING", 3)
    hold = asyncio.Event()
    async with listening(scene):
        if known_before:
            scene.says("first")
            await scene.heard(1)

        async def wait() -> None:
            await hold.wait()

        scene.gate.before_accept = wait
        for number in range(10):
            scene.says(str(number))
        last = scene.says("last")
        await scene.server.wait_for(lambda: scene.server.gateway.connected)
        scene.server.gateway.beat()
        beats = scene.server.gateway.heartbeats
        await scene.server.wait_for(lambda: scene.server.gateway.heartbeats > beats)  # all that was sent before is in
        hold.set()
        await scene.gate.until(lambda: scene.seen() == last)
    texts = list(dict.fromkeys(one.text for one in scene.gate.taken))
    assert texts == [*(["first"] if known_before else []), *map(str, range(10)), "last"]


# What was said while we were away.


async def test_what_was_said_meanwhile_is_read_in_order(scene: Scene) -> None:
    thread = scene.people.make_thread(scene.channel, scene.ada, "Leaks")["id"]
    places = (scene.dm, scene.channel, thread)
    async with listening(scene):
        for place in places:
            scene.says("before", where=place)
        await scene.heard(3)
    for place in places:
        for text in ("one", "two"):
            last = scene.says(text, where=place)
    async with listening(scene):
        taken = await scene.heard(9)
        await scene.gate.until(lambda: scene.seen(thread) == last)
    for place in places:
        assert [one.text for one in taken if one.key.chat == place] == ["before", "one", "two"]
    assert {one.key.kind for one in taken[3:]} == {"dm", "channel", "thread"}


async def test_several_pages_are_read(scene: Scene) -> None:
    async with listening(scene):
        scene.says("before")
        await scene.heard(1)
    for number in range(230):
        last = scene.says(str(number))
    async with listening(scene):
        await scene.gate.until(lambda: scene.seen() == last)
    assert [one.text for one in scene.gate.taken] == ["before", *map(str, range(230))]


async def test_a_channel_seen_for_the_first_time_is_not_read(scene: Scene) -> None:
    old = scene.says("long ago", where=scene.channel)
    async with listening(scene):
        await scene.gate.until(lambda: scene.seen(scene.channel) == old)
        scene.says("now", where=scene.channel)
        await scene.heard(1)
    assert [one.text for one in scene.gate.taken] == ["now"]
    assert scene.calls("getMessages") == []


async def test_a_first_direct_message_sent_while_we_were_away_is_read_with_the_next_one(scene: Scene) -> None:
    scene.says("missed")
    scene.says("missed too")
    async with listening(scene):
        live = scene.says("live")
        await scene.gate.until(lambda: scene.seen() == live)
        last = scene.says("and on")
        await scene.gate.until(lambda: scene.seen() == last)
    assert [one.text for one in scene.gate.taken] == ["missed", "missed too", "live", "and on"]
    assert len(scene.calls("getMessages")) == 1  # what comes live is not read once more, perhaps edited


async def test_of_a_new_direct_channel_only_what_we_have_not_answered_is_read(scene: Scene) -> None:
    async with listening(scene):
        scene.says("answered")
        await scene.heard(1)
        await scene.send("hello")
    scene.gate.cursors.clear()  # as in a new home
    scene.says("missed")
    async with listening(scene):
        scene.says("live")
        await scene.heard(3)
    assert [one.text for one in scene.gate.taken] == ["answered", "missed", "live"]


async def test_of_a_new_direct_channel_no_more_than_fifty_messages_are_read(scene: Scene) -> None:
    for number in range(60):
        scene.says(str(number))
    async with listening(scene):
        live = scene.says("live")
        await scene.gate.until(lambda: scene.seen() == live)
    assert [one.text for one in scene.gate.taken] == [*map(str, range(10, 60)), "live"]


async def test_of_a_new_direct_channel_what_is_older_than_a_day_is_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.says("yesterday")
    later = clock.now_ms() + 25 * 3600 * 1000
    monkeypatch.setattr(channels, "now_ms", lambda: later)
    async with listening(scene):
        live = scene.says("live")
        await scene.gate.until(lambda: scene.seen() == live)
    assert scene.calls("getMessages")
    assert [one.text for one in scene.gate.taken] == ["live"]


async def test_an_answer_given_before_a_new_direct_channel_could_be_read_hides_nothing(scene: Scene) -> None:
    scene.says("missed")
    scene.server.faults.add("fail", "getMessages", status=503, count=4)
    async with listening(scene):
        answered = False

        async def answer() -> None:
            nonlocal answered
            if not answered:
                answered = True
                await scene.send("here I am")

        scene.gate.before_accept = answer
        scene.says("live")
        await scene.heard(2)
    assert {one.text for one in scene.gate.taken} == {"missed", "live"}


async def test_a_channel_made_while_we_were_away_is_read_from_its_beginning(scene: Scene) -> None:
    async with listening(scene):
        scene.says("before")
        await scene.heard(1)
    fresh = scene.people.make_channel(scene.guild, "fresh")["id"]
    scene.says(f"{scene.mention} hello", where=fresh)
    async with listening(scene):
        taken = await scene.heard(2)
    assert (taken[1].key.chat, taken[1].addressed) == (fresh, True)


async def test_where_nothing_is_new_nothing_is_read(scene: Scene) -> None:
    async with listening(scene):
        scene.says("before", where=scene.channel)
        await scene.heard(1)
    async with listening(scene):
        scene.says("after", where=scene.channel)
        await scene.heard(2)
        await scene.gate.until(lambda: scene.seen(scene.channel) == scene.gate.taken[-1].message_id)
    assert [one.text for one in scene.gate.taken] == ["before", "after"]


async def test_until_the_history_is_read_what_comes_moves_no_cursor(scene: Scene) -> None:
    async with listening(scene):
        first = scene.says("first")
        await scene.heard(1)
    scene.says("missed")
    scene.server.faults.add("fail", "getMessages", status=503, count=3)
    async with listening(scene):
        seen: list[str] = []

        async def look() -> None:
            seen.append(scene.seen())

        scene.gate.before_accept = look
        live = scene.says("live")
        await scene.gate.until(lambda: scene.seen() == live)
    assert {one.text for one in scene.gate.taken} == {"first", "missed", "live"}
    assert set(seen) == {first}


async def test_a_history_that_fails_for_a_moment_is_not_overtaken(scene: Scene) -> None:
    async with listening(scene):
        scene.says("first")
        await scene.heard(1)
    scene.says("missed")
    scene.server.faults.add("fail", "getMessages", status=503, count=2)
    async with listening(scene):
        scene.says("live")
        await scene.heard(3)
    assert [one.text for one in scene.gate.taken] == ["first", "missed", "live"]


async def test_who_speaks_now_does_not_wait_until_all_channels_are_read(scene: Scene) -> None:
    users = [scene.people.make_user(f"user{number}")["id"] for number in range(8)]
    places = [scene.people.open_dm(user)["id"] for user in users]
    async with listening(scene):
        for user, place in zip(users, places, strict=True):
            scene.people.send_text(place, user, "before")
        await scene.heard(8)
    for place in places[:7]:
        scene.server.faults.add("hang", "getMessages", chat_id=place)
    read_before = len(scene.calls("getMessages"))
    async with listening(scene):
        await scene.server.wait_for(lambda: len(scene.calls("getMessages")) == read_before + 4)
        scene.people.send_text(places[-1], users[-1], "now")
        assert [one.text for one in await scene.heard(9)][-1] == "now"


async def test_what_is_older_than_a_day_is_left(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(scene):
        scene.says("before")
        await scene.heard(1)
    scene.says("yesterday")
    later = clock.now_ms() + 25 * 3600 * 1000
    monkeypatch.setattr(channels, "now_ms", lambda: later)
    async with listening(scene):
        await scene.server.wait_for(lambda: scene.calls("getMessages"))
    assert [one.text for one in scene.gate.taken] == ["before"]


async def test_a_channel_that_is_gone_is_not_asked_for_again(scene: Scene) -> None:
    async with listening(scene):
        scene.says("before", where=scene.channel)
        await scene.heard(1)
    scene.people.delete_channel(scene.channel)
    async with listening(scene):
        await scene.gate.until(lambda: scene.seen(scene.channel) == "gone")
    async with listening(scene):
        scene.says("hello")
        await scene.heard(2)
    assert [call["channel_id"] for call in scene.calls("getMessages")].count(scene.channel) == 1


async def test_a_channel_we_may_not_see_any_more_holds_up_nothing(scene: Scene) -> None:
    async with listening(scene):
        scene.says("before", where=scene.channel)
        await scene.heard(1)
    scene.people.deny(scene.channel, ["view"])
    scene.says("hidden", where=scene.channel)
    async with listening(scene) as task:
        scene.says("hello")
        await scene.heard(2)
        assert not task.done()
    assert [one.text for one in scene.gate.taken] == ["before", "hello"]


# Threads of their own.


@pytest.fixture
async def threaded(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(transport, "_GUILDS_QUIET_SECONDS", 0.05)
    async with a_scene(thread_per_conversation=True) as made:
        yield made


async def test_a_mention_opens_a_thread_that_the_conversation_goes_on_in(threaded: Scene) -> None:
    async with listening(threaded):
        start = threaded.says(f"{threaded.mention} fix it", where=threaded.channel)
        await threaded.heard(1)
        threaded.says("and quickly", where=start)
        threaded.people.edit_text(threaded.channel, start, f"{threaded.mention} fix them")
        taken = await threaded.heard(3)
        await threaded.gate.until(lambda: threaded.seen(threaded.channel) == start)
        await threaded.send("done", chat=start, reply_to=start)
    assert {str(one.key) for one in taken} == {f"discord:thread:{start}"}
    assert all(one.addressed for one in taken)
    assert threaded.server.world.channels[int(start)].name == "fix it"
    assert threaded.server.texts(start)[-1] == "done"
    assert threaded.seen(start)


@pytest.mark.parametrize("hindrance", ["exists", "cut after", "denied", "not mentioned", "a stranger"])
async def test_what_keeps_a_thread_from_being_opened(threaded: Scene, hindrance: str) -> None:
    text = "hello" if hindrance == "not mentioned" else f"{threaded.mention} hello"
    if hindrance == "denied":
        threaded.people.deny(threaded.channel, ["create_threads"])
    if hindrance == "a stranger":
        threaded.gate.strangers = {threaded.ada}
    if hindrance == "cut after":
        threaded.server.faults.add("cut_after", "startThreadFromMessage")
    if hindrance == "exists":
        async with listening(threaded):
            threaded.says("before", where=threaded.channel)
            await threaded.heard(1)
        start = threaded.says(text, where=threaded.channel)
        threaded.people.make_thread(threaded.channel, threaded.ada, "mine", message_id=start)
    async with listening(threaded):
        start = start if hindrance == "exists" else threaded.says(text, where=threaded.channel)
        await threaded.gate.until(lambda: start in [one.message_id for one in threaded.gate.taken])
    taken = next(one for one in threaded.gate.taken if one.message_id == start)
    opened = hindrance in ("exists", "cut after")
    assert str(taken.key) == (f"discord:thread:{start}" if opened else f"discord:channel:{threaded.channel}")


# Getting in, and staying.


@pytest.mark.parametrize(
    ("account", "variable"), [("discord", "DISCORD_BOT_TOKEN"), ("discord@work", "DISCORD_BOT_TOKEN_WORK")]
)
async def test_a_wrong_token_names_the_variable(scene: Scene, account: str, variable: str) -> None:
    async with listening(scene, account=account, token="wrong.token") as task:
        error = await ending_of(task)
    assert isinstance(error, PlatformAuthFailed)
    assert variable in str(error).replace(";", " ").split()


async def test_a_token_that_is_reset_meanwhile_is_noticed(scene: Scene) -> None:
    async with listening(scene) as task:
        scene.server.gateway.token_reset = True
        scene.server.gateway.close(4004)
        assert isinstance(await ending_of(task), PlatformAuthFailed)


async def test_a_missing_intent_says_where_to_switch_it_on(scene: Scene) -> None:
    scene.server.world.privileged &= ~intents.CONTENT
    async with listening(scene) as task:
        error = await ending_of(task)
    assert isinstance(error, PlatformAuthFailed)
    assert "Message Content Intent" in str(error)
    assert "https://discord.com/developers/applications" in str(error)


async def test_only_what_is_needed_is_asked_for(scene: Scene) -> None:
    async with listening(scene):
        [session] = scene.server.gateway.sessions.values()
    wanted = intents.GUILDS | intents.GUILD_MESSAGES | intents.DMS | intents.CONTENT
    assert session.intents == wanted | intents.GUILD_REACTIONS | intents.DM_REACTIONS


async def test_a_cut_line_is_resumed_and_nothing_is_lost(scene: Scene) -> None:
    async with listening(scene) as task:
        scene.says("one")
        await scene.heard(1)
        scene.server.gateway.cut()
        scene.says("two")
        assert [one.text for one in await scene.heard(2)] == ["one", "two"]
        assert not task.done()
    assert (scene.server.gateway.resumes, scene.server.gateway.identifies) == (1, 1)


async def test_a_session_that_could_not_be_resumed_at_once_is_resumed_by_the_next_run(scene: Scene) -> None:
    async with listening(scene) as task:
        first = scene.says("one")
        await scene.heard(1)
        await scene.server.pause()
        assert isinstance(await ending_of(task), PlatformUnavailable)
    async with listening(scene) as task:
        assert isinstance(await ending_of(task), PlatformUnavailable)
    scene.people.edit_text(scene.dm, first, "two")
    stranger = scene.people.make_user("bob")["id"]
    scene.people.send_text(scene.people.open_dm(stranger)["id"], stranger, "my first words")
    scene.says("in a channel", where=scene.channel)
    await scene.server.resume()
    async with listening(scene):
        taken = await scene.heard(4)
        await scene.send("still there")
    assert {one.text for one in taken} == {"one", "two", "my first words", "in a channel"}
    assert (scene.server.gateway.resumes, scene.server.gateway.identifies) == (1, 1)


async def test_a_session_that_was_kept_for_too_long_is_begun_anew(scene: Scene) -> None:
    async with listening(scene) as task:
        scene.says("one")
        await scene.heard(1)
        await scene.server.pause()
        await ending_of(task)
    scene.server.gateway.forget_sessions()
    scene.says("two")
    await scene.server.resume()
    async with listening(scene):
        assert [one.text for one in await scene.heard(2)] == ["one", "two"]
    assert scene.server.gateway.identifies == 2


async def test_a_wish_to_connect_again_is_followed(scene: Scene) -> None:
    async with listening(scene):
        scene.server.gateway.ask_reconnect()
        await scene.server.wait_for(lambda: scene.server.gateway.resumes == 1)
        scene.says("hello")
        await scene.heard(1)


async def test_a_session_that_is_no_more_is_begun_anew_and_the_gap_is_read(scene: Scene) -> None:
    async with listening(scene):
        scene.says("one")
        await scene.heard(1)
        scene.server.faults.add("drop", "message_create")
        scene.says("lost on the way")
        scene.server.gateway.invalidate()
        assert [one.text for one in await scene.heard(2)] == ["one", "lost on the way"]
    assert scene.server.gateway.identifies == 2


async def test_a_line_that_breaks_again_and_again_is_left_to_the_supervisor(scene: Scene) -> None:
    async with listening(scene) as task:
        for count in range(1, 5):
            scene.server.gateway.ask_reconnect()
            await scene.server.wait_for(lambda count=count: scene.server.gateway.resumes == count)  # type: ignore[misc]
        scene.server.gateway.ask_reconnect()
        assert isinstance(await ending_of(task), PlatformUnavailable)


async def test_heartbeats_are_heard(scene: Scene) -> None:
    scene.server.gateway.heartbeat_seconds = 0.05
    async with listening(scene):
        heard = scene.gate.heard
        await scene.gate.until(lambda: scene.gate.heard > heard + 3)


async def test_nobody_is_heard_who_does_not_know_us(scene: Scene) -> None:
    scene.server.world.privileged = 0  # greets us, and closes
    async with listening(scene) as task:
        await ending_of(task)
    assert scene.gate.heard == 0


async def test_a_silent_line_is_noticed_and_left(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_SILENT_SECONDS", 0.2)
    monkeypatch.setattr(transport, "_RESUME_SECONDS", 0.2)
    monkeypatch.setattr(transport, "_CLOSE_SECONDS", 0.1)
    async with listening(scene) as task:
        scene.server.half_open()
        assert isinstance(await ending_of(task), PlatformUnavailable)


async def test_a_server_that_is_down_is_tried_again(scene: Scene) -> None:
    async with listening(scene) as task:
        await scene.server.pause()
        assert isinstance(await ending_of(task), PlatformUnavailable)
    async with listening(scene) as task:
        assert isinstance(await ending_of(task), PlatformUnavailable)
    await scene.server.resume()
    async with listening(scene):
        scene.says("hello")
        await scene.heard(1)


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("getCurrentUser", "cut"),
        ("getApplication", "nonsense"),
        ("getGatewayBot", "nonsense"),
        ("getGatewayBot", "busy"),
        ("gateway", "cut"),
        ("gateway", "busy"),
    ],
)
async def test_whatever_else_fails_is_tried_again(scene: Scene, method: str, fault: str) -> None:
    match fault:
        case "cut":
            scene.server.faults.add("cut", method, count=2)  # aiohttp asks once more by itself
        case "nonsense":
            scene.server.faults.add("garbage", method, status=200, body="{}")
        case "busy":
            scene.server.faults.add("fail", method, status=503)
    async with listening(scene) as task:
        assert isinstance(await ending_of(task), PlatformUnavailable)


async def test_a_gateway_that_hangs_up_without_a_greeting_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang_up(connection: GatewayConnection) -> None:
        await connection._socket.close(code=1011)

    with monkeypatch.context() as patched:
        patched.setattr(GatewayConnection, "run", hang_up)
        async with listening(scene) as task:
            assert isinstance(await ending_of(task), PlatformUnavailable)
    async with listening(scene) as task:
        with monkeypatch.context() as patched:
            patched.setattr(GatewayConnection, "run", hang_up)
            scene.server.gateway.cut()
            assert isinstance(await ending_of(task), PlatformUnavailable)
    async with listening(scene):
        scene.says("hello")
        await scene.heard(1)
    assert scene.server.gateway.resumes == 1


async def test_a_guild_that_comes_later_is_looked_at(scene: Scene) -> None:
    async with listening(scene):
        await scene.gate.until(lambda: scene.seen(scene.channel))
        other = scene.people.make_guild("Other", members=[scene.ada], bot=False)["id"]
        place = scene.people.make_channel(other, "there")["id"]
        scene.server.world.channels[int(place)].last_message_id = 5
        scene.people.add_bot(other)
        await scene.gate.until(lambda: scene.seen(place))
        scene.says("hi", where=place)
        await scene.heard(1)


async def test_a_wish_to_wait_is_handed_on(scene: Scene) -> None:
    scene.server.faults.add("fail", "getCurrentUser", retry_after=77)
    async with listening(scene) as task:
        error = await ending_of(task)
    assert isinstance(error, PlatformUnavailable)
    assert error.retry_after == 77


async def test_too_many_sessions_in_a_day_are_not_begun(scene: Scene) -> None:
    scene.server.gateway.identifies = 960
    async with listening(scene) as task:
        error = await ending_of(task)
    assert isinstance(error, PlatformUnavailable)
    assert error.retry_after == 3600
    assert scene.server.gateway.identifies == 960


async def test_the_last_sessions_of_a_day_are_not_used_up_on_one_connection(scene: Scene) -> None:
    async with listening(scene) as task:
        scene.server.gateway.identifies = 960
        scene.server.gateway.invalidate()
        error = await ending_of(task)
    assert isinstance(error, PlatformUnavailable)
    assert scene.server.gateway.identifies == 960


async def test_a_run_that_ends_leaves_no_connection(scene: Scene) -> None:
    async with listening(scene):
        assert scene.server.gateway.lines
    await soon(scene.server.wait_for(lambda: not scene.server.gateway.lines))
    assert scene.server.gateway.sessions == {}
