"""What people do reaches the bot as the Events API tells it."""

from collections.abc import Callable

import aiohttp
import pytest

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


async def test_the_bot_hears_nothing_where_it_is_not(server: SlackServer, bot: Listener, ada: str, dm: str) -> None:
    outside = server.people.make_channel("outside", members=[ada], with_bot=False)["id"]
    server.people.send_text(outside, ada, f"<@{server.world.bot.id}> hi")
    server.people.send_text(dm, ada, "here")
    await bot.wait()
    assert [event["channel"] for event in bot.events] == [dm]


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


async def test_other_bots(server: SlackServer, bot: Listener, general: str) -> None:
    helper = server.people.make_bot("helper")
    server.people.join(general, helper["id"])
    server.people.send_as_bot(general, helper["id"], "beep")
    server.people.send_as_bot(general, helper["id"], "boop", legacy=True)
    await bot.wait(4)
    beep, boop = (next(e for e in bot.events if e.get("text") == text) for text in ("beep", "boop"))
    assert (beep["user"], beep["bot_id"]) == (helper["id"], helper["profile"]["bot_id"])
    assert (boop["subtype"], "user" in boop) == ("bot_message", False)


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


async def test_a_persons_file_is_an_event_and_a_download(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.people.send_file(general, ada, b"hello", name="a.txt", text=f"<@{server.world.bot.id}> read this")
    await bot.wait(2)
    (event,), (mention,) = bot.heard("message"), bot.heard("app_mention")
    assert event["subtype"] == "file_share"
    assert mention["files"] == event["files"]
    (file,) = event["files"]
    assert (file["name"], file["mimetype"], file["size"]) == ("a.txt", "text/plain", 5)
    async with aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {server.bot_token}"}
        async with http.get(file["url_private"], headers=headers) as answer:
            assert await answer.read() == b"hello"
        async with http.get(file["url_private"]) as page:
            assert (page.status, page.content_type) == (200, "text/html")
            assert "Sign in" in await page.text()
