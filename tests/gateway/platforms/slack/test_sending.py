"""Speaking on Slack: in pieces, with buttons, each failure for what it is, and nothing twice."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, PlatformUnavailable
from gateway.messages import Address, Receipt
from gateway.platforms.slack import web_api as slack_api
from gateway.platforms.slack.platform import SlackPlatform
from playground.slack.server import SlackServer
from tests.gateway.platforms.slack.scene import Gate, bot_of, listening, outbound
from tests.gateway.scene import soon


class Scene:
    def __init__(self, server: SlackServer, platform: SlackPlatform, gate: Gate, channel: str) -> None:
        self.server = server
        self.platform = platform
        self.gate = gate
        self.channel = channel

    async def send(self, text: str = "hello", **fields: Any) -> Receipt:
        return await soon(self.platform.send(outbound(text, **{"chat": self.channel, **fields})))

    async def find(self, text: str = "hello", **fields: Any) -> Receipt | None:
        return await soon(self.platform.find_sent(outbound(text, **{"chat": self.channel, **fields})))

    async def failure(self, text: str = "hello", **fields: Any) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.send(text, **fields)
        return caught.value

    def last(self) -> dict[str, Any]:
        message: dict[str, Any] = self.server.show(self.channel)[-1]["message"]
        return message

    def texts(self) -> list[str]:
        return self.server.texts(self.channel)


@pytest.fixture
async def scene(server: SlackServer, gate: Gate, general: str) -> AsyncIterator[Scene]:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        yield Scene(server, platform, gate, general)


# What is sent.


async def test_markdown_is_slacks_to_show_and_the_receipt_is_its_ts(scene: Scene) -> None:
    receipt = await scene.send("a **bold** & <b>")
    message = scene.last()
    assert receipt == Receipt(message_id=message["ts"])
    assert message["blocks"][0] | {"block_id": ""} == {"type": "markdown", "text": "a **bold** & <b>", "block_id": ""}
    assert message["text"] == "a bold &amp; &lt;b&gt;"
    assert message["metadata"]["event_payload"] == {"key": "k1", "piece": 0}
    call = scene.server.called("chat.postMessage")[-1].params
    assert (call["unfurl_links"], call["unfurl_media"]) == ("false", "false")


async def test_a_thread_is_answered_in(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "why?")["ts"]
    await scene.send("because", thread=asked)
    assert scene.last()["thread_ts"] == asked


async def test_a_very_long_text_is_a_beginning_with_buttons_and_a_file(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "all of it")["ts"]
    text = "It begins **here**.\n\n" + "\n\n".join("x" * 1000 for _ in range(100))
    head = await scene.send(text, thread=asked, choices=["Thanks"])
    pause = await scene.send(text, thread=asked, piece=1, choices=["Thanks"])
    assert (head.more, pause.more) == (True, False)
    first, second = scene.server.show(scene.channel, thread=asked)[1:]
    assert first["text"].endswith("The whole text is attached as answer.md.")
    assert first["buttons"] == ["Thanks"]
    [file] = second["message"]["files"]
    assert file["name"] == "answer.md"
    assert scene.server.world.files[file["id"]].content == text.encode()
    assert pause.message_id == second["ts"]


async def test_a_press_can_be_made_of_many_choices(scene: Scene) -> None:
    labels = [f"choice {number} " + "x" * 100 for number in range(30)]
    await scene.send(choices=[*labels, labels[0]])
    assert [len(label) for label in scene.server.show(scene.channel)[-1]["buttons"]] == [75] * 30


async def test_an_edit_takes_the_place_of_a_message_and_its_buttons(scene: Scene) -> None:
    before = await scene.send("sure?", choices=["Yes"])
    after = await scene.send("done", edits=before.message_id)
    assert after.message_id == before.message_id
    [shown] = scene.server.show(scene.channel)
    assert (shown["text"], shown.get("buttons")) == ("done", None)


@pytest.mark.parametrize("gone", ["deleted", "window", "nonsense"])
async def test_what_can_no_longer_be_edited_is_said_anew(scene: Scene, gone: str) -> None:
    before = (await scene.send("draft")).message_id
    if gone == "deleted":
        scene.server.people.delete(scene.channel, before)
    elif gone == "window":
        scene.server.world.edit_window_seconds = -1
    after = await scene.send("done", edits=before if gone != "nonsense" else "F123")
    assert after.message_id != before
    assert scene.texts()[-1] == "done"


async def test_blocks_that_are_refused_become_plain_text_with_and_then_without_buttons(scene: Scene) -> None:
    text = "**a** & [b](https://x.example)"
    scene.server.faults.add("fail", "chat.postMessage", description="invalid_blocks")
    await scene.send(text, choices=["Yes"])
    message = scene.last()
    assert [block["type"] for block in message["blocks"]] == ["section", "actions"]
    assert message["blocks"][0]["text"] == {"type": "plain_text", "text": "a & b (https://x.example)"}
    scene.server.faults.add("fail", "chat.postMessage", description="invalid_blocks", count=2)
    await scene.send(text, choices=["Yes"])
    message = scene.last()
    assert "blocks" not in message
    assert message["text"] == "a &amp; b (<https://x.example>)"  # Slack links the address


async def test_a_thread_that_slack_does_not_know_is_left(scene: Scene) -> None:
    await scene.send("hello", thread="nonsense")
    assert "thread_ts" not in scene.last()


# What goes wrong.


@pytest.mark.parametrize(
    ("error", "extra", "words"),
    [
        ("channel_not_found", {}, "does not know the channel"),
        ("not_in_channel", {}, "/invite it"),
        ("is_archived", {}, "archived"),
        ("restricted_action", {}, "may not write"),
        ("user_is_bot", {}, "bots cannot write to bots"),
        ("missing_scope", {"needed": "chat:write,chat:write.public"}, "scope chat:write or chat:write.public"),
        ("something_new", {}, "something_new"),
    ],
)
async def test_what_slack_refuses_is_told_in_plain_words(
    scene: Scene, error: str, extra: dict[str, Any], words: str
) -> None:
    scene.server.faults.add("fail", "chat.postMessage", description=error, extra=extra)
    problem = await scene.failure()
    assert isinstance(problem, DeliveryRejected)
    assert words in str(problem)


async def test_nothing_is_said_of_nothing(scene: Scene) -> None:
    assert isinstance(await scene.failure("  "), DeliveryRejected)


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("fail", {"description": "fatal_error"}),
        ("fail", {"description": "internal_error"}),
        ("fail", {"status": 500}),
        ("fail", {"status": 503}),
        ("cut", {}),
        ("cut_after", {}),
        ("garbage", {"status": 502}),
        ("garbage", {"status": 200}),
        ("garbage", {"status": 200, "body": '{"ok": true}'}),
        ("garbage", {"status": 200, "body": "[1]"}),
    ],
)
async def test_what_may_have_arrived_is_in_doubt(scene: Scene, kind: Any, details: dict[str, Any]) -> None:
    scene.server.faults.add(kind, "chat.postMessage", **details)
    assert isinstance(await scene.failure(), DeliveryInDoubt)
    assert len(scene.server.called("chat.postMessage")) == 1  # and nobody has tried again by themselves


async def test_no_answer_is_in_doubt(
    server: SlackServer, gate: Gate, general: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_api, "_READ_SECONDS", 0.3)
    platform = bot_of(server)
    server.faults.add("hang_after", "chat.postMessage")
    async with listening(platform, gate, server):
        with pytest.raises(DeliveryInDoubt):
            await soon(platform.send(outbound(chat=general)))
    assert server.texts(general) == ["hello"]


async def test_an_edit_in_doubt_is_simply_repeated(scene: Scene) -> None:
    before = (await scene.send("draft")).message_id
    scene.server.faults.add("cut_after", "chat.update")
    assert isinstance(await scene.failure("done", edits=before), PlatformUnavailable)
    assert await scene.find("done", edits=before) is None


async def test_too_fast_lets_the_channel_rest(scene: Scene) -> None:
    scene.server.faults.add("fail", "chat.postMessage", retry_after=13)
    problem = await scene.failure()
    assert isinstance(problem, PlatformUnavailable)
    assert problem.retry_after == 13
    assert 12 < scene.platform.rate_limits.wait_seconds(scene.channel) <= 13


async def test_a_token_that_goes_bad_meanwhile_is_no_reason_to_give_up(scene: Scene) -> None:
    scene.server.token_state = "token_revoked"
    assert isinstance(await scene.failure(), PlatformUnavailable)


async def test_without_a_connection_nothing_is_sent(scene: Scene) -> None:
    await scene.server.pause()
    problem = await scene.failure()
    assert isinstance(problem, PlatformUnavailable)
    with pytest.raises(PlatformUnavailable, match="not connected"):
        await bot_of(scene.server).send(outbound(chat=scene.channel))


async def test_a_file_whose_message_is_not_told_is_its_own_receipt(scene: Scene) -> None:
    scene.server.faults.add("fail", "files.info")
    receipt = await scene.send("x" * 100_000, piece=1)
    assert receipt.message_id in scene.server.world.files


async def test_no_token_is_told(scene: Scene) -> None:
    kinds: list[Any] = ["cut", "fail", "garbage"]
    for kind in kinds:
        scene.server.faults.add(kind, "chat.postMessage")
        problem: BaseException | None = await scene.failure()
        while problem is not None:
            assert scene.server.bot_token not in f"{problem!r} {problem.args!r}"
            problem = problem.__cause__


# Whether it arrived.


async def test_what_arrived_is_found_and_what_did_not_is_not(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "why?")["ts"]
    text = "\n\n".join("x" * 9_000 for _ in range(3))
    where = {"thread": asked, "reply_to": asked, "answers": (asked,)}
    for piece in (0, 1):
        scene.server.faults.add("cut_after", "chat.postMessage")
        await scene.failure(text, piece=piece, **where)
    found = [await scene.find(text, piece=piece, **where) for piece in (0, 1, 2)]
    shown = scene.server.show(scene.channel, thread=asked)
    assert found == [Receipt(message_id=one["ts"], more=True) for one in shown[1:]] + [None]
    assert await scene.find(text, key="another", **where) is None
    assert await scene.find(text, thread="", reply_to=asked) is None


async def test_a_file_that_arrived_is_found(scene: Scene) -> None:
    scene.server.faults.add("cut_after", "files.completeUploadExternal")
    await scene.failure("x" * 100_000, piece=1)
    assert await scene.find("x" * 100_000, piece=1) == Receipt(message_id=scene.last()["ts"])
    assert await scene.find("x" * 100_001, piece=1) is None


async def test_a_file_of_the_same_size_that_is_known_to_have_arrived_is_another(scene: Scene) -> None:
    earlier = await scene.send("x" * 100_000, piece=1, key="earlier")
    assert await scene.find("x" * 100_000, piece=1, after=earlier.message_id) is None
    later = await scene.send("x" * 100_000, piece=1)
    assert await scene.find("x" * 100_000, piece=1, after=earlier.message_id) == later


async def test_words_of_others_are_not_taken_for_ours(scene: Scene) -> None:
    helper = scene.server.people.make_bot("helper")["id"]
    scene.server.people.join(scene.channel, helper)
    scene.server.people.send_as_bot(scene.channel, helper, "hello")
    metadata = {"event_type": "hermes_reply", "event_payload": {"key": "k1", "piece": 0}}
    list(scene.server.world.channels[scene.channel].posts.values())[-1].body["metadata"] = metadata
    assert await scene.find() is None


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ({"retry_after": 3}, PlatformUnavailable),
        ({"status": 500}, PlatformUnavailable),
        ({"description": "invalid_auth"}, PlatformUnavailable),
        ({"description": "missing_scope", "extra": {"needed": "channels:history"}}, DeliveryRejected),
    ],
)
async def test_when_it_cannot_be_found_out(scene: Scene, error: dict[str, Any], problem: type[Exception]) -> None:
    scene.server.faults.add("fail", "conversations.history", **error)
    with pytest.raises(problem):
        await scene.find()


async def test_a_thread_that_is_gone_holds_nothing(scene: Scene) -> None:
    assert await scene.find(thread="1700000000.000001") is None


# Typing, and what we are.


async def test_typing_is_the_status_of_a_thread(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "why?")["ts"]
    address = Address(account="slack", chat=scene.channel, thread=asked)
    for _ in range(3):
        await scene.platform.show_typing(address)
    assert scene.server.world.channels[scene.channel].statuses == {asked: "is thinking…"}
    assert len(scene.server.called("assistant.threads.setStatus")) == 1
    await scene.send("because", thread=asked)
    await scene.platform.show_typing(address)
    assert len(scene.server.called("assistant.threads.setStatus")) == 2


async def test_where_typing_cannot_be_shown_nothing_is_asked_for_long(scene: Scene, ada: str) -> None:
    asked = scene.server.people.send_text(scene.channel, ada, "why?")["ts"]
    scene.server.world.scopes -= {"assistant:write", "chat:write"}
    for thread in ("", asked, asked):
        await scene.platform.show_typing(Address(account="slack", chat=scene.channel, thread=thread))
    assert len(scene.server.called("assistant.threads.setStatus")) == 1
