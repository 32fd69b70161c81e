"""What the page can make people do, on each platform the same."""

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

from tests.playground.page.scene import Scene

PLATFORMS = ("telegram", "discord", "slack")
PICTURE = b"\x89PNG\r\n\x1a\n and so on"
SOUND = b"OggS and so on"


def said(on: Scene, platform: str, person: str = "", place: str = "dm") -> list[str]:
    phone = on.on.phones[platform]
    messages = phone.messages(person or phone.owner, place)
    return ["".join(words["text"] for words in message.words) for message in messages if not message.service]


async def say(on: Scene, platform: str, text: str, **more: str) -> Any:
    phone = on.on.phones[platform]
    body = {"person": phone.owner, "place": "dm", "text": text, **more}
    return await on.post(f"api/phones/{platform}/say", body)


async def test_somebody_speaks_edits_and_deletes(on: Scene) -> None:
    for platform in PLATFORMS:
        phone = on.on.phones[platform]
        await say(on, platform, "hello")
        await say(on, platform, "again")
        first, second = (message.id for message in phone.messages(phone.owner, "dm"))
        who = {"person": phone.owner, "place": "dm"}
        await on.post(f"api/phones/{platform}/edit", {**who, "message": first, "text": "good morning"})
        await on.post(f"api/phones/{platform}/delete", {**who, "message": second})
        assert said(on, platform) == ["good morning"]
        assert [message.edited for message in phone.messages(phone.owner, "dm")] == [True]


async def test_a_reaction_is_put_and_taken_away_again(on: Scene) -> None:
    for platform in PLATFORMS:
        phone = on.on.phones[platform]
        await say(on, platform, "hello")
        mark = {"person": phone.owner, "place": "dm", "message": phone.messages(phone.owner, "dm")[0].id, "text": "👍"}
        await on.post(f"api/phones/{platform}/react", mark)
        shown = phone.messages(phone.owner, "dm")[0].reactions
        assert [dict(one) for one in shown] == [{"emoji": "👍", "count": 1, "mine": True}]
        await on.post(f"api/phones/{platform}/react", mark)
        assert phone.messages(phone.owner, "dm")[0].reactions == []


async def test_a_new_person_is_a_stranger_who_can_join_a_group(on: Scene) -> None:
    for platform in PLATFORMS:
        phone = on.on.phones[platform]
        person = (await on.post(f"api/phones/{platform}/person", {"text": " Cleo  Miller "}))["person"]
        assert phone.people()[person] == "Cleo Miller" != phone.people()[phone.owner]
        group = next(place for place in phone.places(person) if place.kind in ("group", "channel"))
        assert not group.joined
        refused = {"person": person, "place": group.id, "text": "let me in"}
        assert "not in this" in (await on.post(f"api/phones/{platform}/say", refused, status=400))["problem"]
        await on.post(f"api/phones/{platform}/join", {"person": person, "place": group.id})
        await on.post(f"api/phones/{platform}/say", {**refused, "text": "here I am"})
        assert said(on, platform, person, group.id)[-1:] == ["here I am"]


@pytest.mark.parametrize("name", ["", "   ", "\u0000\n", "x" * 41])
async def test_a_person_needs_a_name(on: Scene, name: str) -> None:
    told = await on.post("api/phones/telegram/person", {"text": name}, status=400)
    assert "A name has 1 to 40 characters" in told["problem"]


async def test_a_thread_is_a_place_of_its_own(on: Scene) -> None:
    for platform in PLATFORMS:
        phone = on.on.phones[platform]
        group = next(place for place in phone.places(phone.owner) if place.kind in ("group", "channel")).id
        await say(on, platform, "about tulips", place=group)
        about = {"person": phone.owner, "place": group, "text": "Tulips"}
        about["message"] = phone.messages(phone.owner, group)[-1].id
        thread = (await on.post(f"api/phones/{platform}/thread", about))["place"]
        await say(on, platform, "in the thread", place=thread)
        assert said(on, platform, place=thread)[-1] == "in the thread"
        assert "in the thread" not in said(on, platform, place=group)
        assert thread in [place.id for place in phone.places(phone.owner)]


async def test_a_mention_is_the_platforms_own(on: Scene) -> None:
    general = next(place.id for place in on.discord.places(on.discord.owner) if place.title == "general")
    await say(on, "discord", "@Hermes hello", place=general)
    assert said(on, "discord", place=general) == [f"<@{on.discord.stage.world.bot.id}> hello"]  # type: ignore[attr-defined]
    await say(on, "slack", "@hermes hello", place="C0GENERAL1")
    assert said(on, "slack", place="C0GENERAL1") == ["<@U0PLAYBOT01> hello"]
    await say(on, "telegram", "@hermes hello")
    assert said(on, "telegram") == ["@hermes_bot hello"]


async def test_nobody_edits_or_deletes_what_others_wrote(on: Scene) -> None:
    for platform, ada in (("telegram", "1002"), ("slack", "U0ADA00001")):
        phone = on.on.phones[platform]
        group = next(place.id for place in phone.places(ada) if place.kind in ("group", "channel"))
        await say(on, platform, "mine", place=group)
        about = {"person": ada, "place": group, "message": phone.messages(ada, group)[-1].id, "text": "yours"}
        for action in ("edit", "delete"):
            told = await on.post(f"api/phones/{platform}/{action}", about, status=400)
            assert told["problem"] == "Somebody else wrote this message."
        assert said(on, platform, place=group)[-1] == "mine"


async def test_files_are_sent_as_what_they_are(on: Scene) -> None:
    for platform, (content, kind) in itertools.product(
        PLATFORMS, [(PICTURE, "image"), (SOUND, "voice"), (b"plain", "file")]
    ):
        phone = on.on.phones[platform]
        about = {"person": phone.owner, "place": "dm", "name": "a.bin", "caption": "look"}
        await on.upload(platform, content, **about, voice="1" if kind == "voice" else "")  # type: ignore[arg-type]
        message = phone.messages(phone.owner, "dm")[-1]
        assert [file["kind"] for file in message.files] == [kind]
        async with on.session.get(on.origin + message.files[0]["url"]) as answer:
            assert await answer.read() == content


async def test_a_file_that_claims_to_be_a_page_can_only_be_saved(on: Scene) -> None:
    for content, mime_type in (
        (b"<script>alert(1)</script>", "text/html"),
        (b"<svg onload=alert(1)>", "image/svg+xml"),
    ):
        await on.upload("slack", content, mime_type=mime_type, person=on.slack.owner, name="x.html")
        url = on.slack.messages(on.slack.owner, "dm")[-1].files[0]["url"]
        async with on.session.get(on.origin + url) as answer:
            assert answer.content_type == "application/octet-stream"
            assert answer.headers["Content-Disposition"] == "attachment"
            assert "sandbox" in answer.headers["Content-Security-Policy"]


async def test_an_empty_file_is_refused_with_a_sentence(on: Scene) -> None:
    told = await on.upload("discord", b"", person=on.discord.owner, status=400)
    assert told["problem"] == "The file is empty."


async def test_what_cannot_be_done_is_a_sentence(on: Scene) -> None:
    somebody = {"person": "1001", "place": "dm", "text": "x"}
    for path, body, status in (
        ("api/phones/telegram/rename", somebody, 404),
        ("api/phones/telegram/say", {**somebody, "person": "77"}, 400),
        ("api/phones/telegram/say", {**somebody, "text": 5}, 400),
        ("api/phones/telegram/say", {**somebody, "place": "nowhere"}, 400),
        ("api/phones/telegram/say", {**somebody, "text": "x" * 20_001}, 400),
        ("api/phones/icq/say", somebody, 400),
        ("api/phones/telegram/line/sideways", {}, 400),
        ("api/gateway/explode", {}, 400),
    ):
        assert (await on.post(path, body, status=status))["problem"], path
    assert said(on, "telegram") == []


async def test_a_place_and_a_message_that_are_not_there_are_told(on: Scene) -> None:
    for platform in PLATFORMS:
        somebody = {"person": on.on.phones[platform].owner, "text": "x"}
        for action in ("say", "edit", "press", "join", "thread"):
            told = await on.post(f"api/phones/{platform}/{action}", {**somebody, "place": "nowhere"}, status=400)
            assert told["problem"] == "There is no such chat on this phone.", action
        for action in ("edit", "delete", "react", "press", "thread"):
            about = {**somebody, "place": "dm", "message": "none"}
            told = await on.post(f"api/phones/{platform}/{action}", about, status=400)
            assert told["problem"] == "There is no such message in this chat.", action
        reply = {**somebody, "place": "dm", "reply_to": "none"}
        assert "no such message" in (await on.post(f"api/phones/{platform}/say", reply, status=400))["problem"]
        told = await on.upload(platform, b"x", person=somebody["person"], place="nowhere", status=400)
        assert told["problem"] == "There is no such chat on this phone."


async def test_people_have_the_same_names_on_each_phone(on: Scene) -> None:
    for phone in on.on.phones.values():
        assert list(phone.people().values()) == ["You (owner)", "Ada", "Ben"]
    profile = on.slack.stage.world.users[on.slack.owner].wire["profile"]  # type: ignore[attr-defined]
    assert profile["display_name"] == "You (owner)"


async def test_a_line_is_cut_frozen_and_mended(on: Scene) -> None:
    await on.post("api/phones/telegram/line/down")
    assert on.telegram.view("", "dm")["line"] == "down"
    server = on.telegram.stage
    with pytest.raises(OSError, match="Cannot connect"):
        await on.session.get(server.url)
    await on.post("api/phones/telegram/line/half_open")
    assert server.link_dead
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /bot42:playground-token/getMe HTTP/1.1\r\nHost: x\r\n\r\n")
    await server.events.wait_for(lambda: any(one["kind"] == "silence" for one in server.events.after(0)))
    await on.post("api/phones/telegram/line/up")
    with contextlib.suppress(ConnectionResetError):  # either way it is over
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    async with on.session.get(f"{server.url}/bot{on.telegram.stage.token}/getMe") as answer:  # type: ignore[attr-defined]
        assert (await answer.json())["result"]["username"] == "hermes_bot"
