"""What the bot says is kept as Slack keeps it, and refused as Slack refuses it."""

import json
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer

_TS = "1600000000.000100"


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def buttons(*names: str) -> dict[str, Any]:
    texts = [{"type": "plain_text", "text": name} for name in names]
    elements = [{"type": "button", "text": text, "action_id": text["text"].lower()} for text in texts]
    return {"type": "actions", "elements": elements}


async def refusal(call: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    error: str = caught.value.response["error"]
    return error


@pytest.mark.parametrize("how", ["json", "data", "params"])
async def test_arguments_come_as_json_form_or_query(client: AsyncWebClient, general: str, how: str) -> None:
    blocks: Any = [section("hi")]
    given = {"channel": general, "text": "hi", "blocks": blocks if how == "json" else json.dumps(blocks)}
    wrapped: dict[str, Any] = {how: given}
    answer = await client.api_call("chat.postMessage", **wrapped)
    assert answer["message"]["blocks"][0]["text"]["text"] == "hi"


async def test_text_is_escaped_and_linked_as_people_read_it(
    server: SlackServer, client: AsyncWebClient, general: str
) -> None:
    answer = await client.chat_postMessage(channel=general, text="1 < 2 & <@U1>, see https://a.example/x.")
    assert answer["message"]["text"] == "1 &lt; 2 &amp; <@U1>, see <https://a.example/x>."
    assert server.texts(general) == ["1 < 2 & <@U1>, see https://a.example/x."]


async def test_long_texts_are_refused(client: AsyncWebClient, general: str) -> None:
    await client.chat_postMessage(channel=general, text="x" * 40_000)
    assert await refusal(client.chat_postMessage(channel=general, text="x" * 40_001)) == "msg_too_long"
    empty = client.api_call("chat.postMessage", json={"channel": general, "text": " "})  # the SDK warns of it
    assert await refusal(empty) == "no_text"


async def test_an_update_takes_only_4000_bytes(client: AsyncWebClient, general: str) -> None:
    where: dict[str, Any] = {"channel": general, "ts": (await client.chat_postMessage(channel=general, text="x"))["ts"]}
    await client.chat_update(**where, text="é" * 2000)
    assert await refusal(client.chat_update(**where, text="é" * 2001)) == "msg_too_long"


async def test_markdown_blocks_take_12000_characters_together(client: AsyncWebClient, general: str) -> None:
    block = {"type": "markdown", "text": "x" * 6000}
    await client.chat_postMessage(channel=general, text="x", blocks=[block, block])
    more = {"type": "markdown", "text": "x" * 6001}
    assert (
        await refusal(client.chat_postMessage(channel=general, text="x", blocks=[block, more])) == "msg_blocks_too_long"
    )


async def test_bad_blocks_are_refused_with_the_place(client: AsyncWebClient, general: str) -> None:
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=general, text="x", blocks=[section("x" * 3001)])
    answer = caught.value.response
    assert answer["error"] == "invalid_blocks"
    words = "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
    assert answer["errors"] == [words]
    assert answer["response_metadata"]["messages"] == [f"[ERROR] {words}"]


async def test_what_is_no_block_is_refused(client: AsyncWebClient, general: str) -> None:
    refused: tuple[Any, ...] = (
        [{"type": "sektion"}],
        [{"type": "section"}],
        [section("")],
        [{"type": "markdown"}],
        [buttons(*"abcdefghijklmnopqrstuvwxyz")],
        [buttons("a", "a")],
        [buttons("x" * 76)],
        [{**section("x"), "block_id": "1"}, {**section("x"), "block_id": "1"}],
        [section("x")] * 51,
    )
    for blocks in refused:
        assert await refusal(client.chat_postMessage(channel=general, text="x", blocks=blocks)) == "invalid_blocks"


async def test_an_update_without_blocks_leaves_what_people_read(
    server: SlackServer, client: AsyncWebClient, general: str
) -> None:
    where: dict[str, Any] = {"channel": general}
    where["ts"] = (await client.chat_postMessage(channel=general, text="x", blocks=[section("old"), buttons("Yes")]))[
        "ts"
    ]
    await client.chat_update(**where, text="new")
    assert server.texts(general) == ["old"]
    await client.chat_update(**where, text="new", blocks=[])
    (shown,) = server.show(general)
    assert (shown["text"], shown["earlier"], "buttons" in shown) == ("new", ["old"], False)


async def test_only_own_messages_are_changed_and_deleted(
    server: SlackServer, client: AsyncWebClient, ada: str, general: str
) -> None:
    theirs: dict[str, Any] = {"channel": general, "ts": server.people.send_text(general, ada, "mine")["ts"]}
    assert await refusal(client.chat_update(**theirs, text="x")) == "cant_update_message"
    assert await refusal(client.chat_delete(**theirs)) == "cant_delete_message"
    assert await refusal(client.chat_update(channel=general, ts=_TS, text="x")) == "message_not_found"
    own: dict[str, Any] = {"channel": general, "ts": (await client.chat_postMessage(channel=general, text="x"))["ts"]}
    server.world.edit_window_seconds = 0.0
    assert await refusal(client.chat_update(**own, text="x")) == "edit_window_closed"
    await client.chat_delete(**own)
    assert await refusal(client.chat_delete(**own)) == "message_not_found"
    assert server.texts(general) == []


async def test_an_answer_to_nothing_is_taken_and_seen_by_nobody(client: AsyncWebClient, general: str) -> None:
    await client.chat_postMessage(channel=general, text="x", thread_ts=_TS)
    assert (await client.conversations_history(channel=general))["messages"] == []
    assert await refusal(client.chat_postMessage(channel=general, text="x", thread_ts="0")) == "invalid_thread_ts"


async def test_bad_metadata_is_refused(client: AsyncWebClient, general: str) -> None:
    refused: tuple[tuple[Any, str], ...] = (
        ({"event_type": "x"}, "invalid_metadata_schema"),
        ({"event_payload": {}}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": {"a": "x" * 20_000}}, "metadata_too_large"),
    )
    for metadata, error in refused:
        assert await refusal(client.chat_postMessage(channel=general, text="x", metadata=metadata)) == error


async def test_where_the_bot_may_not_write(server: SlackServer, client: AsyncWebClient, ada: str, general: str) -> None:
    outside = server.people.make_channel("outside", with_bot=False)["id"]
    secret = server.people.make_channel("secret", private=True, with_bot=False)["id"]
    for channel, error in ((outside, "not_in_channel"), (secret, "channel_not_found"), ("C0", "channel_not_found")):
        assert await refusal(client.chat_postMessage(channel=channel, text="x")) == error
    server.people.restrict(general)
    assert await refusal(client.chat_postMessage(channel=general, text="x")) == "restricted_action"
    server.people.archive(general, ada)
    assert await refusal(client.chat_postMessage(channel=general, text="x")) == "is_archived"


async def test_refusals_come_with_http_200(server: SlackServer) -> None:
    headers = {"Authorization": f"Bearer {server.bot_token}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.post(f"{server.api_url}chat.postMessage", json={"channel": "C0", "text": "x"}) as answer:
            assert (answer.status, await answer.json()) == (200, {"ok": False, "error": "channel_not_found"})
        async with http.post(
            f"{server.api_url}chat.postMessage", data=b"{", headers={"Content-Type": "application/json"}
        ) as bad:
            assert (await bad.json())["error"] == "invalid_json"
