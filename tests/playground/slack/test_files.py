"""Files go up in three steps and come down with the bot's token."""

from typing import Any

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from tests.playground.slack.conftest import Listener
from tests.playground.slack.test_chat import refusal


async def test_the_sdk_uploads_a_file(server: SlackServer, client: AsyncWebClient, ada: str, general: str) -> None:
    parent = server.people.send_text(general, ada, "please")["ts"]
    answer = await client.files_upload_v2(
        channel=general, thread_ts=parent, content=b"a,b", filename="t.csv", initial_comment="here"
    )
    assert "shares" not in answer["file"]
    message = server.show(general)[-1]["message"]
    assert (message["text"], message["thread_ts"], message["files"][0]["name"]) == ("here", parent, "t.csv")
    shares = (await client.files_info(file=answer["file"]["id"]))["file"]["shares"]
    assert shares == {"public": {general: [{"ts": message["ts"], "thread_ts": parent}]}}


async def test_uploads_that_do_not_fit_are_refused(server: SlackServer, client: AsyncWebClient, general: str) -> None:
    assert await refusal(client.files_getUploadURLExternal(filename="x", length=0)) == "invalid_arguments"
    given = await client.files_getUploadURLExternal(filename="x", length=3)
    unfinished: Any = [{"id": given["file_id"]}]
    assert await refusal(client.files_completeUploadExternal(files=unfinished)) == "file_not_found"
    async with aiohttp.ClientSession() as http:
        async with http.put(given["upload_url"], data=b"toolong") as answer:
            assert answer.status == 400
        form = aiohttp.FormData()
        form.add_field("file", b"abc", filename="x")
        async with http.post(given["upload_url"], data=form) as answer:
            assert (answer.status, await answer.text()) == (200, "OK - 3")
    assert await refusal(client.files_completeUploadExternal(files=unfinished, channel_id="C0")) == "channel_not_found"
    await client.files_completeUploadExternal(files=unfinished, channel_id=general)
    assert await refusal(client.files_completeUploadExternal(files=unfinished)) == "file_not_found"


async def test_a_persons_file_is_an_event_and_a_download(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.people.send_file(general, ada, b"hello", name="a.txt", text=f"<@{server.world.bot.id}> read this")
    await bot.wait(2)
    (event,), (mention,) = bot.heard("message"), bot.heard("app_mention")
    assert event["subtype"] == "file_share"
    assert mention["files"] == event["files"]
    (file,) = event["files"]
    assert (file["name"], file["mimetype"], file["size"], file["filetype"]) == ("a.txt", "text/plain", 5, "txt")
    async with aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {server.bot_token}"}
        async with http.get(file["url_private_download"], headers=headers) as answer:
            assert await answer.read() == b"hello"
        async with http.get(file["url_private"]) as page:
            assert (page.status, page.content_type) == (200, "text/html")
            assert "Sign in" in await page.text()


async def test_a_missing_scope_gives_the_page_to_sign_in(server: SlackServer, ada: str, general: str) -> None:
    (file,) = server.people.send_file(general, ada)["files"]
    server.world.scopes -= {"files:read"}
    headers = {"Authorization": f"Bearer {server.bot_token}"}
    async with aiohttp.ClientSession() as http, http.get(file["url_private"], headers=headers) as answer:
        assert answer.content_type == "text/html"


async def test_a_stub_must_be_asked_for(
    server: SlackServer, client: AsyncWebClient, bot: Listener, ada: str, dm: str
) -> None:
    server.people.send_file(dm, ada, name="b.pdf", size=10**9, stub=True)
    (event,) = await bot.wait()
    (stub,) = event["files"]
    assert stub["file_access"] == "check_file_info"
    file = (await client.files_info(file=stub["id"]))["file"]
    assert (file["mimetype"], file["size"]) == ("application/pdf", 10**9)
    assert await refusal(client.files_info(file="F0")) == "file_not_found"
