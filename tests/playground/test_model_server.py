"""The model server is as strict as it says: each rule refuses what it names, and nothing else."""

from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import pytest

from playground.model_rules import find_problem
from playground.model_script import HangUp, ModelRefusal, ScriptedCall, ask_for, say
from playground.model_server import ModelServer

USER = {"role": "user", "content": "hi"}
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "seen"}
TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def _call(**function: str) -> dict[str, Any]:
    return ASKED | {"tool_calls": [CALL | {"function": {"name": "look", "arguments": "{}"} | function}]}


def _body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "playground", "messages": list(messages), **more}


@pytest.mark.parametrize(
    "body",
    [
        _body(USER),
        _body({"role": "system", "content": "be good"}, USER, tools=[TOOL], stream=True),
        _body(USER, ASKED, RESULT, {"role": "assistant", "content": "done"}, USER, tools=[TOOL]),
        _body(USER, ASKED, RESULT, tools=[TOOL], tool_choice="none"),
        _body({"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]}),
    ],
)
def test_good_requests_pass(body: Any) -> None:
    assert find_problem(body) == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "JSON object"),
        (_body(), "at least one message"),
        (_body(USER, best_of=3), "best_of"),
        (_body(USER, stream_options={}), "stream_options"),
        (_body(USER, tools=[]), "'tools'"),
        (_body(USER, ASKED, RESULT), "'tools' must be given"),
        (_body(USER, tool_choice="none"), "tool_choice"),
        (_body(USER, tools=[{"type": "function"}]), "A tool needs"),
        (_body(USER, tools=[TOOL, TOOL]), "unique"),
        (_body(USER, tools=[TOOL | {"function": TOOL["function"] | {"name": "a b"}}]), "tool name"),  # type: ignore[operator]
        (_body({"role": "robot", "content": "hi"}), "role"),
        (_body(USER | {"name": "Felix"}), "unknown field 'name'"),
        (_body(USER | {"content": " "}), "empty"),
        (_body(USER | {"content": None}), "text or a list"),
        (_body(USER | {"content": [{"type": "text", "text": ""}]}), "non-whitespace"),
        (_body(USER | {"content": [IMAGE | {"image_url": {"url": "http://x/cat.png"}}]}), "data URL"),
        (_body({"role": "system", "content": [IMAGE]}, USER), "not allowed"),
        (_body(USER, {"role": "system", "content": "late"}), "beginning"),
        (_body({"role": "assistant", "content": "hi"}, USER), "from the user"),
        (_body(USER, {"role": "assistant", "content": "hi"}), "The last message"),
        (_body(USER, USER), "alternate"),
        (_body(USER, RESULT), "answers no open call"),
        (_body(USER, ASKED, RESULT, RESULT), "answers no open call"),
        (_body(USER, ASKED, USER), "must be followed by results"),
        (_body(USER, ASKED | {"tool_calls": [CALL, CALL]}, RESULT), "id of its own"),
        (_body(USER, ASKED, RESULT, ASKED, RESULT), "id of its own"),
        (_body(USER, ASKED | {"tool_calls": []}), "not empty"),
        (_body(USER, ASKED | {"content": ""}, RESULT), "null or hold text"),
        (_body(USER, ASKED | {"tool_calls": [{}]}), "needs id"),
        (_body(USER, ASKED | {"tool_calls": [CALL | {"id": "a.b"}]}), "1 to 40"),
        (_body(USER, ASKED | {"tool_calls": [CALL | {"extra": 1}]}), "unknown field"),
        (_body(USER, _call(name="a.b"), RESULT), "1 to 64"),
        (_body(USER, _call(arguments="{"), RESULT), "JSON object"),
        (_body(USER, _call(arguments="[]"), RESULT), "JSON object"),
        (_body(USER, _call(arguments='{"a": NaN}'), RESULT), "JSON object"),
    ],
)
def test_bad_requests_are_refused_by_name(body: Any, words: str) -> None:
    assert words in find_problem(body)


def test_fields_of_other_dialects_can_be_allowed() -> None:
    thinking = _body(USER, ASKED | {"reasoning": "hm"}, RESULT, tools=[TOOL])
    assert find_problem(thinking, extra_fields=["reasoning"]) == ""


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def http(server: ModelServer) -> AsyncGenerator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {server.api_key}"}) as session:
        yield session


async def test_the_script_is_played_in_order_and_requests_are_remembered(
    server: ModelServer, http: aiohttp.ClientSession
) -> None:
    server.script(
        say("Hello"), ModelRefusal(status=429, headers={"Retry-After": "3"}), ask_for(ScriptedCall(name="look"))
    )
    url = f"{server.url}/chat/completions"
    async with http.post(url, json=_body(USER)) as answer:
        assert (await answer.json())["choices"][0]["message"]["content"] == "Hello"
    async with http.post(url, json=_body(USER)) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    async with http.post(url, json=_body(USER, stream=True)) as answer:
        assert answer.content_type == "text/event-stream"
        assert (await answer.read()).endswith(b"data: [DONE]\n\n")
    async with http.post(url, json=_body(USER)) as answer:
        assert (await answer.json())["error"]["code"] == "script_ended"
    assert [body["messages"] for body in server.bodies] == [[USER]] * 4


async def test_wrong_keys_models_and_requests_are_refused_in_openais_words(
    server: ModelServer, http: aiohttp.ClientSession
) -> None:
    url = f"{server.url}/chat/completions"
    async with http.post(url, json=_body(USER), headers={"Authorization": "Bearer nope"}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (401, "invalid_api_key")
    async with http.post(url, json=_body(USER) | {"model": "other"}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "model_not_found")
    async with http.post(url, data=b"{") as answer:
        assert answer.status == 400
    assert server.refusals == ["wrong key", "The body must be a JSON object."]


async def test_models_are_listed(server: ModelServer, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{server.url}/models") as answer:
        assert [model["id"] for model in (await answer.json())["data"]] == ["playground"]


async def test_a_connection_can_be_cut_at_any_byte(server: ModelServer, http: aiohttp.ClientSession) -> None:
    url = f"{server.url}/chat/completions"
    server.script(say("Hello", stops_after_bytes=10, ending="cut"), HangUp())
    with pytest.raises(aiohttp.ClientPayloadError):
        async with http.post(url, json=_body(USER, stream=True)) as answer:
            await answer.read()
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await http.post(url, json=_body(USER))
