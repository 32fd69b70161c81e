"""Tokens, scopes, limits, and what the bot can ask."""

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from tests.playground.slack.test_chat import refusal


async def test_the_bot_learns_who_it_is(server: SlackServer, client: AsyncWebClient) -> None:
    me = await client.auth_test()
    assert (me["user_id"], me["bot_id"], me["team_id"]) == (
        server.world.bot.id, server.world.bot.bot_id, server.world.team_id,
    )  # fmt: skip
    assert "chat:write" in me.headers["x-oauth-scopes"]


@pytest.mark.parametrize(("token", "error"), [("", "not_authed"), ("xoxb-other", "invalid_auth")])
async def test_wrong_tokens_are_refused(server: SlackServer, token: str, error: str) -> None:
    assert await refusal(AsyncWebClient(token=token, base_url=server.api_url).auth_test()) == error


async def test_each_token_has_its_methods(server: SlackServer, client: AsyncWebClient) -> None:
    assert await refusal(client.apps_connections_open(app_token=server.bot_token)) == "not_allowed_token_type"
    assert await refusal(client.apps_connections_open(app_token="xapp-other")) == "invalid_auth"
    assert await refusal(client.auth_test(token=server.app_token)) == "not_allowed_token_type"
    url = (await client.apps_connections_open(app_token=server.app_token))["url"]
    assert url.startswith(f"ws://127.0.0.1:{server.port}/link?ticket=")


@pytest.mark.parametrize("state", ["account_inactive", "token_revoked", "token_expired"])
async def test_a_token_can_go_bad(server: SlackServer, client: AsyncWebClient, state: str) -> None:
    server.token_state = state
    assert await refusal(client.auth_test()) == state


async def test_a_missing_scope_is_named(server: SlackServer, client: AsyncWebClient, general: str) -> None:
    server.world.scopes = frozenset({"users:read"})
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=general, text="x")
    answer = caught.value.response
    assert (answer["error"], answer["needed"], answer["provided"]) == (
        "missing_scope", "chat:write", "users:read",
    )  # fmt: skip
    assert answer.headers["x-oauth-scopes"] == "users:read"
    assert answer.headers["x-accepted-oauth-scopes"] == "chat:write"


async def test_scopes_are_of_a_kind_of_channel(
    server: SlackServer, client: AsyncWebClient, dm: str, general: str
) -> None:
    server.world.scopes -= {"channels:history", "im:read"}
    assert await refusal(client.conversations_history(channel=general)) == "missing_scope"
    assert await refusal(client.conversations_info(channel=dm)) == "missing_scope"
    await client.conversations_history(channel=dm)


async def test_unknown_methods(client: AsyncWebClient) -> None:
    assert await refusal(client.api_call("chat.shout")) == "unknown_method"


async def test_users(server: SlackServer, client: AsyncWebClient, ada: str) -> None:
    user = (await client.users_info(user=ada))["user"]
    assert (user["name"], user["is_bot"], user["tz"]) == ("ada", False, "Europe/Amsterdam")
    assert await refusal(client.users_info(user="U0")) == "user_not_found"


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


async def test_history_comes_in_pages(server: SlackServer, client: AsyncWebClient, ada: str, general: str) -> None:
    for number in range(5):
        server.people.send_text(general, ada, str(number))
    pages = []
    async for page in await client.conversations_history(channel=general, limit=2):
        pages.append(([message["text"] for message in page["messages"]], page["has_more"]))
        server.people.send_text(general, ada, "meanwhile")
    assert pages == [(["4", "3"], True), (["2", "1"], True), (["0"], False)]
    assert await refusal(client.conversations_history(channel=general, cursor="xx")) == "invalid_cursor"


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


async def test_reading_needs_membership(server: SlackServer, client: AsyncWebClient) -> None:
    outside = server.people.make_channel("outside", with_bot=False)["id"]
    assert await refusal(client.conversations_history(channel=outside)) == "not_in_channel"
    assert (await client.conversations_info(channel=outside))["channel"]["is_member"] is False


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
