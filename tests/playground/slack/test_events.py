"""What people do reaches the bot as the Events API tells it."""

from collections.abc import Callable
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from tests.playground.slack.conftest import Listener


@pytest.fixture
def mention(server: SlackServer) -> str:
    return f"<@{server.world.bot.id}>"


async def test_a_direct_message(server: SlackServer, bot: Listener, ada: str, dm: str) -> None:
    sent = server.people.send_text(dm, ada, "1 < 2")
    (event,) = await bot.wait()
    assert (event["type"], event["channel"], event["channel_type"]) == ("message", dm, "im")
    assert (event["user"], event["text"], event["ts"]) == (ada, "1 &lt; 2", sent["ts"])
    assert event["client_msg_id"]
    assert event["blocks"][0]["elements"][0]["elements"] == [{"type": "text", "text": "1 < 2"}]
    body = bot.bodies[0]
    assert (body["type"], body["team_id"], body["api_app_id"]) == (
        "event_callback", server.world.team_id, server.world.app_id,
    )  # fmt: skip
    assert body["authorizations"][0]["user_id"] == server.world.bot.id
    assert body["event_id"].startswith("Ev")
    assert isinstance(body["event_time"], int)


async def test_every_kind_of_channel_has_its_type(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    bob = server.people.make_user("bob")["id"]
    secret = server.people.make_channel("secret", members=[ada], private=True)["id"]
    several = server.people.make_group_dm([ada, bob])["id"]
    for channel in (general, secret, several):
        server.people.send_text(channel, ada, "hi")
    await bot.wait(3)
    assert {event["channel"]: event["channel_type"] for event in bot.events} == {
        general: "channel", secret: "group", several: "mpim",
    }  # fmt: skip


async def test_a_mention_comes_twice(server: SlackServer, bot: Listener, ada: str, general: str, mention: str) -> None:
    sent = server.people.send_text(general, ada, f"{mention} hi")
    await bot.wait(2)
    (plain,), (mentioned,) = bot.heard("message"), bot.heard("app_mention")
    assert plain["ts"] == mentioned["ts"] == sent["ts"]
    assert "channel_type" not in mentioned
    assert len({body["event_id"] for body in bot.bodies}) == 2
    assert mentioned["blocks"][0]["elements"][0]["elements"][0] == {"type": "user", "user_id": server.world.bot.id}


async def test_only_what_is_subscribed_to_comes(
    server: SlackServer, bot: Listener, ada: str, general: str, dm: str, mention: str
) -> None:
    server.subscriptions.choose(["app_mention", "message.im"])
    server.people.send_text(general, ada, "unheard")
    server.people.send_text(general, ada, f"{mention} hi")
    server.people.send_text(dm, ada, f"{mention} hi")
    await bot.wait(2)
    assert sorted((event["type"], event["channel"]) for event in bot.events) == [
        ("app_mention", general),
        ("message", dm),
    ]
    with pytest.raises(ValueError, match="unknown subscriptions: messages"):
        server.subscriptions.choose(["messages"])


async def test_the_bot_hears_nothing_where_it_is_not(server: SlackServer, bot: Listener, ada: str, dm: str) -> None:
    outside = server.people.make_channel("outside", members=[ada], with_bot=False)["id"]
    server.people.send_text(outside, ada, f"<@{server.world.bot.id}> hi")
    server.people.send_text(dm, ada, "here")
    await bot.wait()
    assert [event["channel"] for event in bot.events] == [dm]


async def test_threads(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    parent = server.people.send_text(general, ada, "parent")["ts"]
    server.people.send_text(general, ada, "reply", thread=parent)
    await bot.wait(2)
    (reply,) = [event for event in bot.events if event["text"] == "reply"]
    assert (reply["thread_ts"], reply["parent_user_id"]) == (parent, ada)


async def test_edits_and_deletions(server: SlackServer, bot: Listener, ada: str, general: str, mention: str) -> None:
    ts = server.people.send_text(general, ada, "hi")["ts"]
    server.people.edit_text(general, ts, f"{mention} hi")
    server.people.delete(general, ts)
    await bot.wait(3)
    by_kind = {event.get("subtype", event["type"]): event for event in bot.events}
    changed, deleted = by_kind["message_changed"], by_kind["message_deleted"]
    assert (changed["message"]["text"], changed["previous_message"]["text"]) == (f"{mention} hi", "hi")
    assert changed["message"]["edited"]["user"] == ada
    assert changed["hidden"]
    assert (deleted["deleted_ts"], deleted["previous_message"]["user"]) == (ts, ada)
    assert server.show(general) == []
    (gone,) = server.show(general, deleted=True)
    assert gone["earlier"] == ["hi"]


async def test_reactions(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    ts = server.people.send_text(general, ada, "hi")["ts"]
    server.people.react(general, ada, ts, "eyes")
    server.people.unreact(general, ada, ts, "eyes")
    await bot.wait(3)
    (added,), (removed,) = bot.heard("reaction_added"), bot.heard("reaction_removed")
    assert added["item"] == removed["item"] == {"type": "message", "channel": general, "ts": ts}
    assert (added["user"], added["reaction"], added["item_user"]) == (ada, "eyes", ada)


async def test_other_bots(server: SlackServer, bot: Listener, general: str) -> None:
    helper = server.people.make_bot("helper")
    server.people.join(general, helper["id"])
    server.people.send_as_bot(general, helper["id"], "beep")
    server.people.send_as_bot(general, helper["id"], "boop", legacy=True)
    await bot.wait(4)
    beep, boop = (next(e for e in bot.events if e.get("text") == text) for text in ("beep", "boop"))
    assert (beep["user"], beep["bot_id"]) == (helper["id"], helper["profile"]["bot_id"])
    assert (boop["subtype"], "user" in boop) == ("bot_message", False)


async def test_what_became_of_its_own_messages_is_sent_and_kept_from_the_listeners_by_bolt(
    server: SlackServer, bot: Listener, client: AsyncWebClient, ada: str, general: str
) -> None:
    sent = await client.chat_postMessage(channel=general, text="one")
    await client.chat_update(channel=general, ts=sent["ts"], text="two")
    server.people.delete(general, sent["ts"])  # by an admin; the author is who Bolt looks at
    await server.wait_for(lambda: [e["kind"] for e in server.events.after(0)].count("ack") == 3)
    assert bot.bodies == []


async def test_joining_leaving_archiving(server: SlackServer, bot: Listener, ada: str) -> None:
    place = server.people.make_channel("place", members=[ada], with_bot=False)["id"]
    server.people.invite_bot(place, ada)
    bob = server.people.make_user("bob")["id"]
    server.people.join(place, bob)
    server.people.archive(place, ada)
    await bot.wait(4)
    joined = {event["user"]: event for event in bot.heard("member_joined_channel")}
    assert joined[server.world.bot.id]["inviter"] == ada
    assert joined[bob]["channel_type"] == "C"
    assert [event.get("subtype") for event in bot.heard("message")] == ["channel_join"]
    assert bot.heard("channel_archive")
    with pytest.raises(ValueError, match="archived"):
        server.people.send_text(place, ada, "hi")


async def test_the_home_of_the_app(server: SlackServer, bot: Listener, ada: str, dm: str) -> None:
    server.people.open_home(ada)
    (event,) = await bot.wait()
    assert (event["type"], event["channel"], event["tab"]) == ("app_home_opened", dm, "messages")


async def test_a_command_is_answered_by_its_ack(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    heard: list[dict[str, Any]] = []

    @bot.app.command("/hermes")
    async def answer(ack: Any, command: dict[str, Any]) -> None:
        heard.append(command)
        await ack("taken")

    assert await server.people.command_and_wait(general, ada, "/hermes", "status now") == {"text": "taken"}
    await server.wait_for_text(general, "taken")
    assert {shown["text"]: shown.get("for_user") for shown in server.show(general)} == {"taken": ada}
    assert (heard[0]["command"], heard[0]["text"], heard[0]["user_id"]) == ("/hermes", "status now", ada)
    assert heard[0]["trigger_id"]


@pytest.mark.usefixtures("hurried")
async def test_a_command_nobody_answers_times_out(server: SlackServer, ada: str, general: str) -> None:
    with pytest.raises(TimeoutError):
        await server.people.command_and_wait(general, ada, "/hermes")


async def test_a_button_is_pressed(
    server: SlackServer, bot: Listener, client: AsyncWebClient, ada: str, general: str
) -> None:
    bodies: list[dict[str, Any]] = []

    @bot.app.action("yes")
    async def pressed(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        bodies.append(body)

    element = {"type": "button", "text": {"type": "plain_text", "text": "Yes"}, "action_id": "yes", "value": "42"}
    blocks = [{"type": "actions", "block_id": "choice", "elements": [element]}]
    ts = (await client.chat_postMessage(channel=general, text="Sure?", blocks=blocks))["ts"]
    assert server.show(general)[0]["buttons"] == ["Yes"]
    await server.people.press_and_wait(general, ada, ts, text="Yes")
    (body,) = bodies
    (action,) = body["actions"]
    assert (action["action_id"], action["value"], action["block_id"]) == ("yes", "42", "choice")
    assert body["container"] == {"type": "message", "message_ts": ts, "channel_id": general, "is_ephemeral": False}
    assert (body["user"]["id"], body["message"]["text"]) == (ada, "Sure?")
    with pytest.raises(ValueError, match="no button"):
        server.people.press(general, ada, ts, text="No")


def test_people_cannot_do_what_no_client_would(server: SlackServer, ada: str, general: str) -> None:
    bob = server.people.make_user("bob")["id"]
    attempts: list[Callable[[], object]] = [
        lambda: server.people.send_text(general, bob, "no member"),
        lambda: server.people.send_text(general, ada, " "),
        lambda: server.people.send_text("C0", ada, "nowhere"),
        lambda: server.people.edit_text(general, "1.0", "nothing"),
        lambda: server.people.command(general, ada, "hermes"),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError):
            attempt()
