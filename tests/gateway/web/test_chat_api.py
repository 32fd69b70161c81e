"""/v1 with the official client and with bare requests: answers, streams, keys, conversations, budgets, approvals."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest

from gateway.approvals import decisions
from gateway.policies.pairing import platform_of
from gateway.store import api_keys, members
from tests.gateway.media.samples import png
from tests.gateway.web.api_site import ApiSite, serve_api

SUM = "what is 6 * 7?"


def ask(text: str = SUM, **more: Any) -> dict[str, Any]:
    return {"model": "hermes", "messages": [{"role": "user", "content": text}], **more}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[ApiSite]:
    async with serve_api(tmp_path) as serving:
        yield serving


async def post(site: ApiSite, key: str, body: Any, **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
    async with site.client.post(f"{site.url}/v1/chat/completions", data=data, headers=sent) as response:
        return response.status, await response.json(content_type=None)


async def test_the_official_client_gets_answers_streams_and_models(site: ApiSite) -> None:
    client = site.openai(await site.make_key())
    assert [model.id for model in (await client.models.list()).data] == ["hermes"]
    assert (await client.models.retrieve("hermes")).id == "hermes"
    plain = await client.chat.completions.create(**ask())
    assert plain.choices[0].message.content is not None
    assert "6 * 7 = 42" in plain.choices[0].message.content
    assert plain.choices[0].finish_reason == "stop"
    assert plain.usage is not None
    assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens
    stream = await client.chat.completions.create(
        **ask("what time is it in Asia/Tokyo?"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Asia/Tokyo" in text
    assert len(chunks) > 4  # word by word, and nothing of the tool
    assert "clock" not in text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    [(receipt,)] = await site.rows("SELECT receipt FROM outbox WHERE account = 'api' ORDER BY id LIMIT 1")
    assert receipt
    assert plain.model_extra is not None
    trace = plain.model_extra["hermes"]["trace"]
    events = await site.rows("SELECT event FROM trail WHERE inbox_id = ?", int(trace.removeprefix("inbox:")))
    assert [event for (event,) in events] == ["accepted", "claimed", "answered"]
    await client.close()


async def test_fifty_at_once_each_get_their_own_answer(site: ApiSite) -> None:
    client = site.openai(await site.make_key())

    async def one(number: int) -> None:
        named = {"user": "several"} if number % 5 == 0 else {}
        text = f"what is {number} * 3?"
        if number % 2:
            stream = await client.chat.completions.create(**ask(text, **named), stream=True)
            said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        else:
            said = (await client.chat.completions.create(**ask(text, **named))).choices[0].message.content or ""
        assert f"{number} * 3 = {number * 3}" in said

    await asyncio.gather(*map(one, range(1, 51)))
    # In the shared conversation one after the other, in the order of acceptance.
    rows = await site.rows(
        """SELECT t.started_ms, t.ended_ms FROM turns t JOIN inbox i ON i.turn_id = t.id
            WHERE i.thread = 'several' ORDER BY i.id"""
    )
    assert len(rows) == 10
    assert all(before[1] <= after[0] for before, after in pairwise(rows))
    await client.close()


async def test_a_named_conversation_remembers_and_a_single_request_does_not(site: ApiSite) -> None:
    key, other = await site.make_key(), await site.make_key("Bea", role="member")
    for name in (
        {"user": "notes"},
        {"metadata": {"session": "notes"}},
        {"metadata": {"session": "notes"}, "user": "x"},
    ):
        status, _ = await post(site, key, ask("hello", **name))
        assert status == 200
    assert await site.rows("SELECT COUNT(*) FROM sessions WHERE platform = 'api'") == [(1,)]
    # The same name with another person's key is another conversation.
    assert (await post(site, other, ask("hello", user="notes")))[0] == 200
    bea = await site.rows("SELECT key FROM sessions WHERE platform = 'api' ORDER BY created_ms, id")
    assert len({row[0] for row in bea}) == 2
    said = await site.rows(
        "SELECT COUNT(*) FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.key = ?", bea[-1][0]
    )
    assert said == [(2,)]
    assert (await post(site, key, ask("hello")))[0] == 200
    ended = await site.rows("SELECT end_reason FROM sessions WHERE thread LIKE '~%'")
    assert ended == [("answered",)]
    assert await site.rows("SELECT COUNT(*) FROM sessions WHERE thread = 'notes'") == [(2,)]


async def test_a_request_brings_its_history_along(site: ApiSite) -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My dog is called Rex."},
        {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
    ]
    key = await site.make_key()
    for _ in range(2):  # the second time the conversation is known, and only the question is new
        body = {"model": "hermes", "user": "dogs", "messages": [*history, {"role": "user", "content": SUM}]}
        status, answer = await post(site, key, body)
        assert status == 200
        assert "42" in answer["choices"][0]["message"]["content"]
    rows = await site.rows("SELECT role, parts FROM messages ORDER BY id")
    assert [role for role, _ in rows] == ["user", "user", "assistant", "user", "assistant", "user", "assistant"]
    assert "Be brief." in rows[0][1]
    assert "Rex" in rows[1][1]
    # What was said elsewhere is not for the memory.
    assert await site.rows("SELECT message_id FROM memory_looks") == [(2,)]


async def test_an_image_goes_along_and_addresses_are_not_fetched(site: ApiSite) -> None:
    key = await site.make_key()
    data = base64.b64encode(png(4, 4)).decode()

    def with_image(url: str) -> dict[str, Any]:
        image = {"type": "image_url", "image_url": {"url": url}}
        return {"model": "hermes", "messages": [{"role": "user", "content": [{"type": "text", "text": SUM}, image]}]}

    status, _ = await post(site, key, with_image(f"data:image/png;base64,{data}"))
    assert status == 200
    assert await site.rows("SELECT mime FROM media") == [("image/png",)]
    for url in ("http://127.0.0.1/secret.png", "file:///etc/passwd", "data:image/png;base64,%%%"):
        assert (await post(site, key, with_image(url)))[0] == 400


async def test_keys_that_are_wrong_revoked_or_of_somebody_who_was_put_out_are_refused(site: ApiSite) -> None:
    key, second = await site.make_key(), await site.make_key()
    for wrong in ("", "sk-hermes-" + "0" * 48, key[:-1], key + "x", "\u00fc\u00e9"):
        async with site.client.get(f"{site.url}/v1/models", headers={"Authorization": f"Bearer {wrong}"}) as response:
            assert response.status == 401
            assert "error" in await response.json()
    for headers in ({}, {"Authorization": f"Basic {key}"}, {"Cookie": f"hermes={key}"}):
        async with site.client.post(f"{site.url}/v1/chat/completions", headers=headers, data=b"{") as response:
            assert response.status == 401
    await site.gateway.db.write(lambda tx: api_keys.revoke(tx, 1, by="a test"))
    async with site.openai(key) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
    assert (await post(site, second, ask()))[0] == 200
    # A key ends with the access of its person.
    await site.gateway.db.write(lambda tx: members.admit(tx, "telegram", "77", "Ada", "member"))
    ada = await site.make_key("Ada")
    assert (await post(site, ada, ask()))[0] == 200
    revoke = {"owner_users": (), "allowed_users": (), "by": "a test"}
    await site.gateway.db.write(lambda tx: members.revoke(tx, platform_of("telegram"), "77", **revoke))  # type: ignore[arg-type]
    assert (await post(site, ada, ask()))[0] == 401
    stored = await site.rows("SELECT hash || label || ending FROM api_keys")
    assert not any(key in row[0] or ada in row[0] for row in stored)


async def test_texts_of_programs_are_neither_commands_nor_decisions(site: ApiSite) -> None:
    key = await site.make_key()
    for text in ("/stop all", "/pairing list", "yes", "stop"):
        status, answer = await post(site, key, ask(text, user="x"))
        assert status == 200
        assert answer["choices"][0]["message"]["content"]
    assert await site.rows("SELECT DISTINCT kind, outcome FROM inbox") == [("message", "answered")]


async def test_an_idempotency_key_gets_the_same_answer_again(site: ApiSite) -> None:
    key = await site.make_key()
    first = await post(site, key, ask(), **{"Idempotency-Key": "a:1"})
    again = await asyncio.gather(*(post(site, key, ask(), **{"Idempotency-Key": "a:1"}) for _ in range(3)))
    assert first[0] == 200
    assert all(one[1]["choices"] == first[1]["choices"] for one in again)
    assert await site.rows("SELECT COUNT(*) FROM turns") == [(1,)]
    assert (await post(site, key, ask("something else"), **{"Idempotency-Key": "a:1"}))[0] == 422
    assert (await post(site, key, ask(user="other"), **{"Idempotency-Key": "a:1"}))[0] == 422


async def test_a_budget_that_is_used_up_refuses_with_the_reason(tmp_path: Path) -> None:
    async with serve_api(tmp_path, budgets__user_tokens=10) as site:
        client = site.openai(await site.make_key("Bea", role="member"))
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(**ask())
        assert refused.value.code == "insufficient_quota"
        assert "budget" in str(refused.value).lower()
        with pytest.raises(openai.APIError, match="budget"):
            async for _ in await client.chat.completions.create(**ask(), stream=True):
                pass
        await client.close()


async def test_requests_per_minute_and_in_a_conversation_are_limited(tmp_path: Path) -> None:
    async with serve_api(tmp_path, http__requests_per_minute=3) as site:
        key, other = await site.make_key(), await site.make_key("Bea", role="member")
        told = await asyncio.gather(*(post(site, key, ask()) for _ in range(5)))
        assert sorted(status for status, _ in told) == [200, 200, 200, 429, 429]
        assert (await post(site, other, ask()))[0] == 200


async def test_an_approval_is_asked_in_the_owners_chat_and_the_request_waits(tmp_path: Path) -> None:
    flags = {"terminal__backend": "local", "http__wait_seconds": 60}
    async with serve_api(tmp_path, **flags) as site:
        await site.write_as_owner()
        key = await site.make_key()
        folder = tmp_path / "old"
        folder.mkdir()
        running = asyncio.ensure_future(post(site, key, ask(f"run rm -rf {folder}")))
        [(approval, account)] = await site.until("SELECT id, asked_account FROM approvals WHERE state = 'waiting'")
        assert account == "web"
        assert not running.done()
        await site.gateway.db.write(lambda tx: decisions.decide_for_owner(tx, approval, "once"))
        site.gateway.changes.notify("decisions")
        status, answer = await asyncio.wait_for(running, 60)
        assert status == 200
        assert not folder.exists()
        assert any("owner's approval" in notice for notice in answer["hermes"]["notices"])


async def test_a_request_that_waited_long_enough_says_so_and_its_answer_can_be_fetched(tmp_path: Path) -> None:
    flags = {"terminal__backend": "local", "http__wait_seconds": 1}
    async with serve_api(tmp_path, **flags) as site:
        await site.write_as_owner()
        key, folder = await site.make_key(), tmp_path / "old"
        folder.mkdir()
        body, headers = ask(f"run rm -rf {folder}"), {"Idempotency-Key": "clean up"}
        status, told = await post(site, key, body, **headers)
        assert status == 504
        assert told["error"]["code"] == "still_working"
        assert "same Idempotency-Key" in told["error"]["message"]
        [(approval,)] = await site.until("SELECT id FROM approvals")
        await site.gateway.db.write(lambda tx: decisions.decide_for_owner(tx, approval, "deny"))
        site.gateway.changes.notify("decisions")
        await site.until("SELECT 1 FROM turns WHERE state = 'done' AND session_key LIKE 'api:%'")
        status, answer = await post(site, key, body, **headers)
        assert status == 200
        assert folder.exists()
        assert answer["choices"][0]["message"]["content"]


async def test_a_program_that_hangs_up_stops_its_turn(tmp_path: Path) -> None:
    async with serve_api(tmp_path, terminal__backend="local") as site:
        await site.write_as_owner()
        key, folder = await site.make_key(), tmp_path / "old"
        folder.mkdir()
        running = asyncio.ensure_future(post(site, key, ask(f"run rm -rf {folder}")))
        await site.until("SELECT 1 FROM approvals WHERE state = 'waiting'")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await site.until("SELECT 1 FROM turns WHERE session_key LIKE 'api:%' AND outcome = 'stopped'")
        assert await site.rows("SELECT state FROM approvals") == [("withdrawn",)]


async def test_titles_and_tags_for_a_front_end_leave_nothing_behind(site: ApiSite) -> None:
    history = "<chat_history>\nUSER: How do I prune roses?\nASSISTANT: In spring.\n</chat_history>"
    key = await site.make_key()
    for wanted, expected in (
        ('JSON format: { "title": "..." }', {"title": "How do I prune roses?"}),
        ('JSON format: { "tags": ["tag1"] }', {"tags": []}),
    ):
        status, answer = await post(site, key, ask(f"### Task:\nGenerate something.\n{wanted}\n{history}"))
        assert status == 200
        assert json.loads(answer["choices"][0]["message"]["content"]) == expected
    assert await site.rows("SELECT COUNT(*) FROM inbox") == [(0,)]
    assert await site.rows("SELECT COUNT(*) FROM sessions") == [(0,)]


DEEP = b"[" * 20_000 + b"]" * 20_000
USER = {"role": "user", "content": "hi"}
HOSTILE: dict[str, tuple[Any, int]] = {
    "nothing": (b"", 400),
    "no JSON": (b"{", 400),
    "a list": (b"[]", 400),
    "deep": (DEEP, 400),
    "deep inside": (b'{"model": "hermes", "messages": %b}' % DEEP, 400),
    "a huge number": (b'{"model": "hermes", "messages": 1%b}' % (b"0" * 10_000), 400),
    "not UTF-8": (b'{"model": "\xff"}', 400),
    "another model": (ask() | {"model": "gpt-5"}, 404),
    "no model": ({"messages": [USER]}, 404),
    "no messages": ({"model": "hermes"}, 400),
    "empty messages": (ask() | {"messages": []}, 400),
    "messages of numbers": (ask() | {"messages": [1, 2]}, 400),
    "unknown role": (ask() | {"messages": [{"role": "root", "content": "hi"}]}, 400),
    "a tool's result": (ask() | {"messages": [{"role": "tool", "content": "hi", "tool_call_id": "1"}]}, 400),
    "the assistant last": (ask() | {"messages": [USER, {"role": "assistant", "content": "hi"}]}, 400),
    "blank": (ask("   \n"), 400),
    "content of a wrong type": (ask() | {"messages": [{"role": "user", "content": {"a": 1}}]}, 400),
    "half a character": (b'{"model": "hermes", "messages": [{"role": "user", "content": "\\ud800"}]}', 400),
    "tools": (ask(tools=[{"type": "function"}]), 400),
    "several answers": (ask(n=2), 400),
    "JSON wanted": (ask(response_format={"type": "json_object"}), 400),
    "a session of a wrong type": (ask(metadata={"session": 1}), 400),
    "a user of a wrong type": (ask(user=["x"]), 400),
    "a long user": (ask(user="x" * 1_000), 400),
    "too large": (b" " * 200_000, 413),
}


async def test_no_hostile_body_is_answered_accepted_or_a_server_error(tmp_path: Path) -> None:
    async with serve_api(tmp_path, http__max_body_bytes=100_000) as site:
        key = await site.make_key()
        for name, (body, expected) in HOSTILE.items():
            status, told = await post(site, key, body)
            assert status == expected, (name, told)
            assert told["error"]["message"], name
        for name in ("x" * 300, "a\tb"):
            assert (await post(site, key, ask(), **{"Idempotency-Key": name}))[0] == 400
        for path in ("/v1/", "/v1/embeddings", "/v1/models/other", "/v1/../api/chats"):
            async with site.client.get(f"{site.url}{path}", headers={"Authorization": f"Bearer {key}"}) as response:
                assert response.status in (401, 404), path
        # A page of another site gets nowhere, with or without a key; nor does another name of this machine.
        for headers, status in (({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
            async with site.client.get(
                f"{site.url}/v1/models", headers={"Authorization": f"Bearer {key}", **headers}
            ) as response:
                assert response.status == status
        assert await site.rows("SELECT COUNT(*) FROM inbox") == [(0,)]
        assert (await post(site, key, ask(user="any name: with / odd \u00e9 signs")))[0] == 200


async def test_a_key_opens_nothing_but_v1_and_without_the_setting_not_even_that(tmp_path: Path) -> None:
    async with serve_api(tmp_path / "on") as site:
        key = await site.make_key()
        for path in ("/api/chats", "/health", "/ws"):
            async with site.client.get(f"{site.url}{path}", headers={"Authorization": f"Bearer {key}"}) as response:
                assert response.status in (200, 401)
                assert "platforms" not in await response.text()
    async with serve_api(tmp_path / "off", http__enabled=False) as site:
        key = await site.make_key()
        async with site.client.get(f"{site.url}/v1/models", headers={"Authorization": f"Bearer {key}"}) as response:
            assert response.status == 404
