"""What becomes of a request to Telegram that fails on the way: done, not done, or nobody knows."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from telegram import Bot, Message
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, TelegramError

from gateway.platforms.telegram.transport import (
    AiohttpRequest,
    TelegramMaybeSent,
    TelegramNotFound,
    TelegramNotSent,
    TelegramTooFast,
    TelegramTooLarge,
)
from tests.gateway.scene import soon

TOKEN = "42:secret-token"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def bot_at(url: str, *, connect_seconds: float = 5.0, read_seconds: float = 5.0) -> AsyncIterator[Bot]:
    request = AiohttpRequest(connections=4, connect_seconds=connect_seconds, read_seconds=read_seconds)
    polls = AiohttpRequest(connections=1)
    async with request:
        yield Bot(TOKEN, base_url=f"{url}/bot", request=request, get_updates_request=polls)


def answering(status: int, body: object) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(status=status, text=text, content_type="application/json")

    return answer


def refusing(code: int, words: str = "no", **parameters: int) -> Answer:
    return answering(code, {"ok": False, "error_code": code, "description": words, "parameters": parameters})


async def failure_of(answer: Answer, *, read_seconds: float = 5.0) -> TelegramError:
    async with serving(answer) as url, bot_at(url, read_seconds=read_seconds) as bot:
        with pytest.raises(TelegramError) as caught:
            await soon(bot.send_message(7, "hello"))
    told = f"{caught.value!r} {caught.value.__cause__!r}"
    assert "secret" not in told
    return caught.value


async def test_an_answer_comes_back_and_parameters_go_out_as_json() -> None:
    seen: dict[str, str] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.update(await request.json(), path=request.path)
        return web.json_response(
            {"ok": True, "result": {"message_id": 3, "date": 1, "chat": {"id": 7, "type": "private"}, "text": "ü"}}
        )

    async with serving(answer) as url, bot_at(url) as bot:
        sent = await bot.send_message(7, "ü 😀 &=", disable_notification=True)
    assert isinstance(sent, Message)
    assert (sent.message_id, sent.text) == (3, "ü")
    assert seen == {
        "path": f"/bot{TOKEN}/sendMessage", "chat_id": "7", "text": "ü 😀 &=", "disable_notification": "true",
    }  # fmt: skip


async def test_a_file_goes_out_in_parts() -> None:
    seen: dict[str, object] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["document"]
        assert isinstance(file, web.FileField)
        seen.update(name=file.filename, mime=file.content_type, content=file.file.read(), chat=form["chat_id"])
        return web.json_response(
            {"ok": True, "result": {"message_id": 3, "date": 1, "chat": {"id": 7, "type": "private"}}}
        )

    async with serving(answer) as url, bot_at(url) as bot:
        await bot.send_document(7, b"# all", filename="answer.md")
    assert seen == {"name": "answer.md", "mime": "text/markdown", "content": b"# all", "chat": "7"}


async def test_a_server_that_is_not_there_was_not_sent_anything() -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        async with bot_at(f"http://127.0.0.1:{taken.getsockname()[1]}") as bot:
            with pytest.raises(TelegramNotSent, match="refused") as caught:
                await bot.send_message(7, "hello")
    assert "secret" not in repr(caught.value)


async def test_a_connection_that_is_not_made_in_time_was_not_sent_anything() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        with socket.socket() as first:  # fills the queue of those who wait to be let in
            first.connect(busy.getsockname())
            async with bot_at(f"http://127.0.0.1:{busy.getsockname()[1]}", connect_seconds=0.2) as bot:
                with pytest.raises(TelegramNotSent, match="ConnectionTimeoutError"):
                    await soon(bot.send_message(7, "hello"))


async def test_an_address_that_is_none_was_not_sent_anything() -> None:
    async with bot_at("http://[") as bot:
        with pytest.raises(TelegramNotSent):
            await bot.send_message(7, "hello")


async def test_silence_may_mean_that_it_was_done() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    assert isinstance(await failure_of(answer, read_seconds=0.1), TelegramMaybeSent)


async def test_an_answer_that_comes_byte_by_byte_has_an_end() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    async with serving(answer) as url, bot_at(url, connect_seconds=0.1, read_seconds=0.2) as bot:
        with pytest.raises(TelegramMaybeSent, match="in time"):
            await soon(bot.send_message(7, "hello"))


@pytest.mark.parametrize("begun", [False, True])
async def test_a_line_that_breaks_may_mean_that_it_was_done(begun: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        if begun:
            await response.prepare(request)
            await response.write(b'{"ok":true')
        assert request.transport is not None
        request.transport.close()
        return response

    assert isinstance(await failure_of(answer), TelegramMaybeSent)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusing(503), TelegramNotSent),  # too busy: nothing was done
        (refusing(500, "Internal Server Error: restart"), TelegramMaybeSent),  # it may have been handed on
        *((refusing(code), TelegramMaybeSent) for code in (301, 502, 504, 520)),  # a proxy may have passed it on
        (answering(200, {"ok": True}), TelegramMaybeSent),
        (answering(200, {"ok": False, "more": {"result": 1}}), TelegramMaybeSent),
        (refusing(400), BadRequest),
        (refusing(401), InvalidToken),
        (refusing(403), Forbidden),
        (refusing(404), TelegramNotFound),
        (refusing(409), Conflict),
        (refusing(413), BadRequest),
    ],
)
async def test_each_answer_tells_whether_it_was_done(answer: Answer, error: type[TelegramError]) -> None:
    assert type(await failure_of(answer)) is error


@pytest.mark.parametrize(
    ("code", "body"),
    [
        *((code, "<html>secret</html>") for code in (200, 400, 403, 500, 502, 503)),
        *((code, body) for code in (200, 400) for body in ("", "[1]", "null", "[" * 100_000)),
    ],
)
async def test_what_is_no_answer_of_telegrams_leaves_us_in_doubt(
    code: int, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert isinstance(await failure_of(answering(code, body)), TelegramMaybeSent)
    assert not caplog.records  # python-telegram-bot would have logged the text


@pytest.mark.parametrize("code", [400, 409])
@pytest.mark.parametrize(
    "fields",
    [
        {"description": 5},
        {"description": {"a": 1}},
        {"parameters": [1]},
        {"parameters": "x"},
        {"parameters": {"migrate_to_chat_id": "x"}},
    ],
)
async def test_a_refusal_of_another_shape_leaves_us_in_doubt(code: int, fields: dict[str, object]) -> None:
    assert isinstance(await failure_of(answering(code, {"ok": False, **fields})), TelegramMaybeSent)


@pytest.mark.parametrize(
    ("wished", "seconds"),
    [
        ("17", 17),
        ("null", 5),
        ("1e999", 5),
        ("-1", 5),
        ("NaN", 5),
        ('"7"', 5),
        ("1" + "0" * 400, 3600),
        ("1e9", 3600),
        ("0.5", 0.5),
    ],
)
async def test_a_wish_to_wait_is_followed_for_an_hour_at_most(wished: str, seconds: float) -> None:
    for code in (429, 400):
        error = await failure_of(answering(code, f'{{"ok": false, "parameters": {{"retry_after": {wished}}}}}'))
        assert isinstance(error, TelegramTooFast)
        assert error.seconds == seconds


async def test_a_move_comes_with_the_new_id() -> None:
    moved = await failure_of(refusing(400, migrate_to_chat_id=-200))
    assert isinstance(moved, ChatMigrated)
    assert moved.new_chat_id == -200


async def test_nothing_is_sent_before_it_is_opened_or_after_it_is_closed() -> None:
    request = AiohttpRequest(connections=1)
    for _ in range(2):
        with pytest.raises(TelegramNotSent, match="closed"):
            await request.post("http://127.0.0.1:1/x")
        await request.initialize()
        await request.shutdown()
        await request.shutdown()


async def test_closing_ends_what_is_under_way() -> None:
    arrived = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(answer) as url, bot_at(url) as bot:
        sending = asyncio.create_task(bot.send_message(7, "hello"))
        await soon(arrived.wait())
        await bot.request.shutdown()
        with pytest.raises(TelegramMaybeSent):
            await soon(sending)


async def test_a_download_stops_at_the_cap_whatever_was_declared() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/declared":
            return web.Response(body=b"x" * 101)
        if request.path == "/gone":
            return web.Response(status=404)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(11 if request.path == "/endless" else 10):
            await response.write(b"x" * 10)
        return response

    async with serving(answer) as url, AiohttpRequest(connections=1) as request:
        assert await request.download(f"{url}/fits", 100) == b"x" * 100
        for path in ("declared", "endless"):
            with pytest.raises(TelegramTooLarge):
                await request.download(f"{url}/{path}", 100)
        with pytest.raises(TelegramNotSent, match="404"):
            await request.download(f"{url}/gone", 100)
