"""Tokens, scopes, limits, and what the bot can ask."""

from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from tests.playground.slack.test_chat import refusal


async def test_each_token_has_its_methods(server: SlackServer, client: AsyncWebClient) -> None:
    assert await refusal(client.apps_connections_open(app_token=server.bot_token)) == "not_allowed_token_type"
    assert await refusal(client.apps_connections_open(app_token="xapp-other")) == "invalid_auth"
    assert await refusal(client.auth_test(token=server.app_token)) == "not_allowed_token_type"
    url = (await client.apps_connections_open(app_token=server.app_token))["url"]
    assert url.startswith(f"ws://127.0.0.1:{server.port}/link?ticket=")


async def test_scopes_are_of_a_kind_of_channel(
    server: SlackServer, client: AsyncWebClient, dm: str, general: str
) -> None:
    server.world.scopes -= {"channels:history", "im:read"}
    assert await refusal(client.conversations_history(channel=general)) == "missing_scope"
    assert await refusal(client.conversations_info(channel=dm)) == "missing_scope"
    await client.conversations_history(channel=dm)


async def test_channels_are_listed_by_kind(server: SlackServer, client: AsyncWebClient, general: str, dm: str) -> None:
    secret = server.people.make_channel("secret", private=True)["id"]
    server.people.make_channel("hidden", private=True, with_bot=False)

    async def ids(types: str) -> list[str]:
        return [channel["id"] for channel in (await client.users_conversations(types=types))["channels"]]

    assert await ids("public_channel") == [general]
    assert await ids("im,private_channel") == [dm, secret]
    server.people.make_channel("outside", with_bot=False)
    assert await ids("public_channel") == [general]
    server.world.scopes -= {"im:read"}
    assert await refusal(client.users_conversations(types="im,mpim")) == "missing_scope"
    server.world.scopes |= {"im:read"}
    info = (await client.conversations_info(channel=secret))["channel"]
    assert (info["is_private"], info["is_member"]) == (True, True)
    assert (await client.conversations_info(channel=dm))["channel"]["is_im"]


async def test_history_is_newest_first_between_bounds(
    server: SlackServer, client: AsyncWebClient, ada: str, general: str
) -> None:
    ts = [server.people.send_text(general, ada, str(number))["ts"] for number in range(5)]

    async def texts(**bounds: Any) -> list[str]:
        answer = await client.conversations_history(channel=general, **bounds)
        return [message["text"] for message in answer["messages"]]

    assert await texts() == ["4", "3", "2", "1", "0"]
    assert await texts(oldest=ts[1], latest=ts[3]) == ["2"]
    assert await texts(oldest=ts[1], latest=ts[3], inclusive=True) == ["3", "2", "1"]
    assert await texts(oldest=ts[3]) == ["4"]
    assert await texts(latest=ts[2], limit=1, inclusive=True) == ["2"]


async def test_replies_are_oldest_first_with_the_parent(
    server: SlackServer, client: AsyncWebClient, ada: str, general: str
) -> None:
    parent = server.people.send_text(general, ada, "parent")["ts"]
    ts = [server.people.send_text(general, ada, str(number), thread=parent)["ts"] for number in range(3)]
    answer = await client.conversations_replies(channel=general, ts=parent, oldest=ts[0])
    assert [message["text"] for message in answer["messages"]] == ["parent", "1", "2"]
    first = await client.conversations_replies(channel=general, ts=parent, limit=3)
    rest = await client.conversations_replies(
        channel=general, ts=parent, limit=3, cursor=first["response_metadata"]["next_cursor"]
    )
    assert [message["text"] for message in (*first["messages"], *rest["messages"])] == ["parent", "0", "1", "2"]
    assert await refusal(client.conversations_replies(channel=general, ts="1.000000")) == "thread_not_found"


async def test_a_deleted_parent_leaves_a_tombstone(
    server: SlackServer, client: AsyncWebClient, ada: str, general: str
) -> None:
    parent = server.people.send_text(general, ada, "parent")["ts"]
    server.people.send_text(general, ada, "reply", thread=parent)
    server.people.delete(general, parent)
    (message,) = (await client.conversations_history(channel=general))["messages"]
    assert (message["subtype"], message["reply_count"]) == ("tombstone", 1)


async def test_limits_are_off_until_switched_on(server: SlackServer, client: AsyncWebClient, general: str) -> None:
    for _ in range(5):
        await client.chat_postMessage(channel=general, text="x")
    server.limits.on = True
    for _ in range(3):
        await client.chat_postMessage(channel=general, text="x")
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=general, text="x")
    answer = caught.value.response
    assert (answer.status_code, answer["error"]) == (429, "ratelimited")
    assert 1 <= int(answer.headers["Retry-After"]) <= 3


async def test_uploads_that_do_not_fit_are_refused(server: SlackServer, client: AsyncWebClient, general: str) -> None:
    assert await refusal(client.files_getUploadURLExternal(filename="x", length=0)) == "invalid_arguments"
    given = await client.files_getUploadURLExternal(filename="x", length=3)
    unfinished: Any = [{"id": given["file_id"]}]
    assert await refusal(client.files_completeUploadExternal(files=unfinished)) == "file_not_found"
    async with aiohttp.ClientSession() as http:
        async with http.put(given["upload_url"], data=b"toolong") as answer:
            assert answer.status == 400
        async with http.post(given["upload_url"], data=b"abc") as answer:
            assert (answer.status, await answer.text()) == (200, "OK - 3")
    assert await refusal(client.files_completeUploadExternal(files=unfinished, channel_id="C0")) == "channel_not_found"
    await client.files_completeUploadExternal(files=unfinished, channel_id=general)
    assert await refusal(client.files_completeUploadExternal(files=unfinished)) == "file_not_found"
