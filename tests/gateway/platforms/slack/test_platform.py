"""Hearing Slack: nothing is acknowledged that was not taken, and silence, refusals and wrong tokens are noticed."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.errors import GatewayStopping, PlatformAuthFailed, PlatformUnavailable, StoreCorrupt, StoreUnavailable
from gateway.messages import Quote, Text
from gateway.platforms.slack import socket
from playground.slack.server import SlackServer
from playground.slack.sockets import Envelope
from tests.gateway.platforms.slack.scene import Gate, bot_of, listening, outbound
from tests.gateway.scene import soon


def acked(server: SlackServer) -> bool:
    return server.sockets.unacked == 0


async def ending_of(task: asyncio.Task[None]) -> BaseException:
    await soon(asyncio.wait([task]))
    error = task.exception()
    assert error is not None
    return error


# Taking what comes.


async def test_a_message_is_taken_before_it_is_acknowledged(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    pending: list[int] = []

    async def look() -> None:
        pending.append(server.sockets.unacked)

    async with listening(bot_of(server), gate, server):
        gate.before_accept = look
        said = server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
        await server.wait_for(lambda: acked(server))
    assert pending == [1]
    assert gate.seen(dm) == said["ts"]
    assert gate.taken[0].sender.name == "ada"


@pytest.mark.parametrize("refusal", [StoreUnavailable("the disk is full"), GatewayStopping("stopping")])
async def test_what_could_not_be_taken_is_not_acknowledged_and_comes_again(
    server: SlackServer, gate: Gate, ada: str, dm: str, refusal: Exception
) -> None:
    server.sockets.retry_seconds = (30.0,)
    gate.refuse_with.append(refusal)
    async with listening(bot_of(server), gate, server) as task:
        server.people.send_text(dm, ada, "hello")
        await gate.until(lambda: gate.refused)
        assert not acked(server)
        assert not task.done()
        if isinstance(refusal, StoreUnavailable):  # and is read again without waiting for Slack
            assert await gate.next_texts(1) == ["hello"]


async def test_slack_brings_again_what_was_not_acknowledged(
    server: SlackServer, gate: Gate, ada: str, general: str
) -> None:
    gate.refuse_with += [StoreUnavailable("the disk is full")] * 2
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(general, ada, "hello")
        await gate.next_texts(1)
        server.people.react(general, ada, said["ts"])  # only messages can be read again
        gate.refuse_with.append(StoreUnavailable("the disk is full"))
        await gate.until(lambda: "reaction" in [message.kind for message in gate.taken])
        await server.wait_for(lambda: acked(server))


async def test_a_mention_is_told_twice_and_taken_once(
    server: SlackServer, gate: Gate, ada: str, general: str, me: str
) -> None:
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(general, ada, f"{me} hello")
        await server.wait_for(lambda: acked(server))
    [message] = gate.taken
    assert (message.text, message.addressed, message.place_name) == ("hello", True, "general")
    assert str(message.key) == f"slack:channel:{general}:{said['ts']}"


@pytest.mark.parametrize("fault", ["duplicate", "duplicate_new_id"])
async def test_an_envelope_that_comes_twice_is_taken_once(
    server: SlackServer, gate: Gate, ada: str, dm: str, fault: Any
) -> None:
    server.faults.add(fault, "message")
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "hello")
        server.people.send_text(dm, ada, "next")
        assert await gate.next_texts(2) == ["hello", "next"]
        await server.wait_for(lambda: acked(server))
    assert len(gate.taken) == 2


async def test_what_comes_in_a_muddle_while_something_is_taken_is_put_in_order(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    go_on = asyncio.Event()

    async def hold() -> None:
        await go_on.wait()

    server.sockets.retry_seconds = (30.0,)
    platform = bot_of(server)
    async with listening(platform, gate, server):
        arrivals = platform._channels.get(dm).arrivals
        gate.before_accept = hold
        server.people.send_text(dm, ada, "0")
        await gate.until(lambda: arrivals)
        server.faults.add("late", "message")
        for number in (1, 2, 3):
            server.people.send_text(dm, ada, f"{number}")
        await gate.until(lambda: len(arrivals) == 4)
        go_on.set()
        assert await gate.next_texts(4) == ["0", "1", "2", "3"]
    assert [len(page) for page in gate.pages if page] == [1, 3]


async def test_everything_we_read(server: SlackServer, gate: Gate, ada: str, general: str) -> None:
    async with listening(bot_of(server), gate, server):
        said = server.people.send_text(general, ada, "one")
        await gate.next_texts(1)
        server.people.edit_text(general, said["ts"], "two")
        await gate.next_texts(2)
        server.people.react(general, ada, said["ts"], "eyes")
        await gate.next_texts(3)
        server.people.react(general, ada, said["ts"], "eyes", remove=True)
        await gate.next_texts(4)
        server.people.delete(general, said["ts"])
        await gate.next_texts(5)
        server.people.open_home(ada)  # nobody wants to hear that, and it is acknowledged
        await server.wait_for(lambda: acked(server))
    assert [(message.kind, message.text) for message in gate.taken] == [
        ("message", "one"), ("edit", "two"), ("reaction", ":eyes:"), ("reaction", "removed :eyes:"), ("deletion", ""),
    ]  # fmt: skip
    assert len({str(message.key) for message in gate.taken}) == 1


async def test_our_own_words_are_not_heard(server: SlackServer, gate: Gate, general: str) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        receipt = await platform.send(outbound("hello", chat=general))
        await platform.send(outbound("changed", chat=general, edits=receipt.message_id))
        await server.wait_for(lambda: acked(server))
    assert gate.taken == []
    assert server.called("users.info") == []


async def test_an_answer_below_what_we_said_to_a_channel_is_told_what_that_was(
    server: SlackServer, gate: Gate, ada: str, general: str
) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        ours = (await platform.send(outbound("The pump is **loud**.", chat=general))).message_id
        server.people.send_text(general, ada, "why?", thread=ours)
        await gate.next_texts(1)
        server.people.send_text(general, ada, "and now?", thread=ours)
        await gate.next_texts(2)
    quote, why = gate.taken[0].parts
    assert isinstance(quote, Quote)
    assert (quote.text, why) == ("The pump is loud.", Text(text="why?"))
    assert gate.taken[1].parts == (Text(text="and now?"),)
    assert {str(message.key) for message in gate.taken} == {f"slack:channel:{general}:{ours}"}


async def test_a_thread_we_were_called_into_is_ours_even_after_a_restart(
    server: SlackServer, gate: Gate, ada: str, general: str, me: str
) -> None:
    server.sockets.subscribed = frozenset()
    opening = server.people.send_text(general, ada, "the pump is loud")["ts"]
    server.sockets.subscribed = frozenset(["message.channels", "app_mention"])
    async with listening(bot_of(server), gate, server):
        server.people.send_text(general, ada, "not to us", thread=opening)
        await gate.next_texts(1)
        server.people.send_text(general, ada, f"{me} why?", thread=opening)
        await gate.next_texts(2)
        server.people.send_text(general, ada, "and now?", thread=opening)
        await gate.next_texts(3)
    assert [message.addressed for message in gate.taken] == [False, True, True]
    assert gate.taken[1].parts == (Quote(author="ada", text="the pump is loud"), Text(text="why?"))
    async with listening(bot_of(server), gate, server):
        count = len(gate.taken)
        server.people.send_text(general, ada, "still?", thread=opening)
        await gate.until(lambda: "still?" in gate.distinct)
    assert all(message.addressed for message in gate.taken[count:] if message.text == "still?")


async def test_who_answers_what_we_wrote_speaks_to_us_and_reactions_find_their_thread(
    server: SlackServer, gate: Gate, ada: str, general: str
) -> None:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        posted = (await platform.send(outbound("news", chat=general))).message_id
        reply = server.people.send_text(general, ada, "thanks", thread=posted)
        await gate.next_texts(1)
        server.people.react(general, ada, reply["ts"])
        await gate.next_texts(2)
    assert gate.taken[0].addressed
    assert {str(message.key) for message in gate.taken} == {f"slack:channel:{general}:{posted}"}


async def test_a_pressed_button_is_acknowledged_once_it_is_taken(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    platform = bot_of(server)
    pending: list[int] = []

    async def look() -> None:
        pending.append(server.sockets.unacked)

    async with listening(platform, gate, server):
        receipt = await platform.send(outbound("sure?", chat=dm, choices=["Yes", "No"]))
        await server.wait_for(lambda: acked(server))
        gate.before_accept = look
        assert await server.people.press_and_wait(dm, ada, receipt.message_id, text="Yes") == {}
    [press] = gate.taken
    assert (press.kind, press.text, press.about) == ("button", "do:Yes", receipt.message_id)
    assert pending == [1]


@pytest.mark.parametrize(("typed", "text"), [("help", "/help"), ("how are you?", "how are you?")])
async def test_a_slash_command_is_acknowledged_once_it_is_taken(
    server: SlackServer, gate: Gate, ada: str, dm: str, typed: str, text: str
) -> None:
    server.sockets.retry_seconds = (5.0,)
    async with listening(bot_of(server), gate, server):
        assert await server.people.command_and_wait(dm, ada, "/hermes", typed) == {}
        server.sockets.retry_seconds = (0.05,)
        gate.refuse_with.append(StoreUnavailable("the disk is full"))
        with pytest.raises(TimeoutError):  # its user is told so by Slack
            await server.people.command_and_wait(dm, ada, "/hermes", typed)
    assert [message.text for message in gate.taken] == [text]


@pytest.mark.parametrize("private", [False, True])
async def test_a_slash_command_where_we_are_not_is_answered_to_its_user_alone_and_not_taken(
    server: SlackServer, gate: Gate, ada: str, private: bool
) -> None:
    elsewhere = server.people.make_channel("elsewhere", members=[ada], private=private, with_bot=False)["id"]
    server.sockets.retry_seconds = (5.0,)
    async with listening(bot_of(server), gate, server):
        assert "/invite me" in (await server.people.command_and_wait(elsewhere, ada, "/hermes", "help"))["text"]
        assert [shown["for_user"] for shown in server.show(elsewhere)] == [ada]
        assert gate.taken == []
        server.people.invite_bot(elsewhere, ada)
        assert await server.people.command_and_wait(elsewhere, ada, "/hermes", "help") == {}
    assert [message.text for message in gate.taken] == ["/help"]


async def test_an_event_that_cannot_be_read_is_skipped_and_its_words_are_not_logged(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    with capture_logs() as logs:
        async with listening(bot_of(server), gate, server):
            broken = {"type": "message", "channel": dm, "channel_type": "im", "text": "secret words", "user": ada}
            server.world.emit("message.im", {**broken, "ts": "nonsense"})
            server.people.send_text(dm, ada, "hello")
            assert await gate.next_texts(1) == ["hello"]
            await server.wait_for(lambda: acked(server))
    [skipped] = [line for line in logs if line["event"] == "event skipped"]
    assert skipped["log_level"] == "error"
    assert "secret" not in repr(logs)


async def test_a_message_from_the_far_future_does_not_hide_those_that_follow(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    async with listening(bot_of(server), gate, server):
        event = {"type": "message", "channel": dm, "channel_type": "im", "text": "far", "user": ada}
        server.world.emit("message.im", {**event, "ts": f"{9 * 10**20}.000100"})
        server.people.send_text(dm, ada, "hello")
        assert sorted(await gate.next_texts(2)) == ["far", "hello"]
        await server.wait_for(lambda: acked(server))
    assert not any(value.startswith("9") for value in gate.cursors.values())


@pytest.mark.parametrize("body", [{}, {"event": 1}, {"event": {"type": "message", "channel": [], "message": 3}}])
async def test_an_envelope_without_sense_is_acknowledged(
    server: SlackServer, gate: Gate, ada: str, dm: str, body: dict[str, Any]
) -> None:
    async with listening(bot_of(server), gate, server) as task:
        kinds: list[Any] = ["events_api", "interactive", "slash_commands"]
        for kind in kinds:
            server.sockets.push(Envelope(type=kind, payload={"type": "event_callback", **body}, name="x"))
        await server.wait_for(lambda: acked(server))
        assert not task.done()
    assert gate.taken == []


@pytest.mark.parametrize("bug", [StoreCorrupt("damaged"), RuntimeError("a bug")])
async def test_what_is_neither_outage_nor_refusal_ends_the_run(
    server: SlackServer, gate: Gate, ada: str, dm: str, bug: Exception
) -> None:
    gate.refuse_with.append(bug)
    async with listening(bot_of(server), gate, server) as task:
        server.people.send_text(dm, ada, "hello")
        assert await ending_of(task) is bug
        assert not acked(server)


async def test_a_name_that_slack_does_not_tell_holds_up_nothing(
    server: SlackServer, gate: Gate, ada: str, general: str
) -> None:
    server.world.scopes -= {"users:read", "channels:read", "groups:read", "im:read", "mpim:read"}
    with capture_logs() as logs:
        async with listening(bot_of(server), gate, server):
            server.people.send_text(general, ada, "hello")
            await gate.next_texts(1)
            server.people.send_text(general, ada, "again")
            await gate.next_texts(2)
    assert [(message.sender.name, message.place_name) for message in gate.taken] == [("", "")] * 2
    assert len(server.called("users.info")) == 1
    [missing] = [line for line in logs if line["event"] == "scopes are missing"]
    assert "users:read" in missing["scopes"]


async def test_a_channel_that_we_are_invited_to_can_be_reached(server: SlackServer, gate: Gate, ada: str) -> None:
    channel = server.people.make_channel("late", members=[ada], with_bot=False)["id"]
    async with listening(bot_of(server), gate, server):
        server.people.invite_bot(channel, ada)
        await gate.until(lambda: gate.reached)
        server.people.remove_bot(channel)
        await server.wait_for(lambda: acked(server))
    assert gate.reached == [channel]
    assert gate.taken == []


# Getting in.


async def test_it_says_who_it_is_once(server: SlackServer, gate: Gate) -> None:
    platform = bot_of(server)
    with capture_logs() as logs:
        for _ in range(2):
            async with listening(platform, gate, server):
                pass
    assert [line["event"] for line in logs if line["event"] == "signed in"] == ["signed in"]


@pytest.mark.parametrize(
    ("tokens", "variable"),
    [
        ({"bot_token": ""}, "SLACK_BOT_TOKEN"),
        ({"bot_token": "xapp-swapped"}, "SLACK_BOT_TOKEN"),
        ({"bot_token": "xoxb-other"}, "SLACK_BOT_TOKEN"),
        ({"bot_token": "xoxb-other", "account": "slack@work"}, "SLACK_BOT_TOKEN_WORK"),
        ({"app_token": "xoxb-swapped"}, "SLACK_APP_TOKEN"),
        ({"app_token": "xapp-other"}, "SLACK_APP_TOKEN"),
        ({"app_token": "xapp-other", "account": "slack@work"}, "SLACK_APP_TOKEN_WORK"),
    ],
)
async def test_a_wrong_token_names_the_variable(
    server: SlackServer, gate: Gate, tokens: dict[str, Any], variable: str
) -> None:
    with capture_logs() as logs, pytest.raises(PlatformAuthFailed, match=rf"{variable}\b") as caught:
        await soon(bot_of(server, **tokens).run(gate.inlet()))
    for token in filter(None, (tokens.get("bot_token"), tokens.get("app_token"))):
        assert token not in f"{caught.value!r} {logs!r}"
    assert gate.heard == 0


@pytest.mark.parametrize("state", ["account_inactive", "token_revoked", "token_expired"])
async def test_a_token_that_went_bad_needs_the_operator(server: SlackServer, gate: Gate, state: str) -> None:
    server.token_state = state
    with pytest.raises(PlatformAuthFailed, match=state):
        await soon(bot_of(server).run(gate.inlet()))


async def test_scopes_without_which_nothing_works_are_named(server: SlackServer, gate: Gate) -> None:
    server.faults.add(
        "fail", "apps.connections.open", description="missing_scope", extra={"needed": "connections:write"}
    )
    with pytest.raises(PlatformAuthFailed, match=r"SLACK_APP_TOKEN lacks the scope connections:write"):
        await soon(bot_of(server).run(gate.inlet()))
    server.world.scopes -= {"chat:write"}
    with pytest.raises(PlatformAuthFailed, match=r"SLACK_BOT_TOKEN lacks the scope chat:write"):
        await soon(bot_of(server).run(gate.inlet()))


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
@pytest.mark.parametrize("kind", ["fail", "cut", "garbage"])
async def test_whatever_else_fails_is_tried_again(server: SlackServer, gate: Gate, method: str, kind: Any) -> None:
    server.faults.add(kind, method, count=None)
    with pytest.raises(PlatformUnavailable) as caught:
        await soon(bot_of(server).run(gate.inlet()))
    assert caught.value.retry_after is None
    assert gate.heard == 0


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
async def test_a_wish_to_wait_is_handed_on(server: SlackServer, gate: Gate, method: str) -> None:
    server.faults.add("fail", method, retry_after=13, count=None)
    with pytest.raises(PlatformUnavailable) as caught:
        await soon(bot_of(server).run(gate.inlet()))
    assert caught.value.retry_after == 13


async def test_a_server_that_is_down_is_tried_again(server: SlackServer, gate: Gate) -> None:
    async with listening(bot_of(server), gate, server) as task:
        await server.pause()
        assert isinstance(await ending_of(task), PlatformUnavailable)
    with pytest.raises(PlatformUnavailable, match="refused"):
        await soon(bot_of(server).run(gate.inlet()))


async def test_a_store_that_cannot_be_read_at_the_start_is_tried_again(server: SlackServer, gate: Gate) -> None:
    async def cursors() -> dict[str, str]:
        raise StoreUnavailable("the disk is full")

    gate._cursors = cursors  # type: ignore[method-assign]
    with pytest.raises(PlatformUnavailable, match="the disk is full"):
        await soon(bot_of(server).run(gate.inlet()))


async def test_no_proxy_is_taken_from_the_environment(
    server: SlackServer, gate: Gate, ada: str, dm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SLACK_CLIENT_ID", "1")
    monkeypatch.setenv("SLACK_CLIENT_SECRET", "2")
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]


# Losing touch.


async def test_one_socket_may_break_while_the_other_listens(server: SlackServer, gate: Gate, ada: str, dm: str) -> None:
    async with listening(bot_of(server), gate, server) as task:
        server.sockets.cut(number=1)
        server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
        await server.wait_for(lambda: len(server.sockets.open) == 2 and server.sockets.open[-1].number == 3)
        assert not task.done()


async def test_an_envelope_on_a_socket_that_breaks_comes_on_the_other(
    server: SlackServer, gate: Gate, ada: str, dm: str
) -> None:
    server.faults.add("cut_socket_after", "message")
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
        await server.wait_for(lambda: acked(server))
    assert gate.distinct == ["hello"]


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_when_slack_asks_to_refresh_others_are_opened_before_the_old_end(
    server: SlackServer, gate: Gate, ada: str, dm: str, reason: str
) -> None:
    async with listening(bot_of(server), gate, server) as task:
        server.sockets.disconnect(reason)
        await server.wait_for(lambda: {3, 4} <= {connection.number for connection in server.sockets.open})
        assert {1, 2} <= {connection.number for connection in server.sockets.open}
        server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
        await server.wait_for(lambda: acked(server))
        assert not task.done()


async def test_socket_mode_that_is_switched_off_needs_the_operator(server: SlackServer, gate: Gate) -> None:
    async with listening(bot_of(server), gate, server) as task:
        server.sockets.disconnect("link_disabled")
        assert isinstance(await ending_of(task), PlatformAuthFailed)


async def test_too_many_connections_are_explained(server: SlackServer, gate: Gate) -> None:
    server.sockets.most_open = 0
    with pytest.raises(PlatformUnavailable, match="another program uses it") as caught:
        await soon(bot_of(server).run(gate.inlet()))
    assert caught.value.retry_after == 30


async def test_a_line_that_is_dead_is_noticed(
    server: SlackServer, gate: Gate, ada: str, dm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "_DEAD_SECONDS", 0.5)
    async with listening(bot_of(server), gate, server) as task:
        heard = gate.heard
        await gate.until(lambda: gate.heard > heard + 4)  # by pongs alone
        server.half_open()
        error = await ending_of(task)
        assert isinstance(error, PlatformUnavailable)
        await server.resume()
    async with listening(bot_of(server), gate, server):
        server.people.send_text(dm, ada, "hello")
        assert await gate.next_texts(1) == ["hello"]
