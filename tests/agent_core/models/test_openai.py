"""Answers: text, tools, thoughts, images, usage; each through a turn, and a second turn on the same history."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from agent_core.conversation import Message, ToolCall, assistant, user
from agent_core.events import Usage
from agent_core.model import ModelError
from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from playground.model_server import ModelServer
from tests.agent_core.scripted import answering, raising
from tests.agent_core.served import Chat, chatting, endpoint
from tools.base import ToolFailed
from tools.content import Media, Text

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer]:
    async with ModelServer() as running:
        yield running
        assert not running.refusals
        assert not running.left


@STREAMED
async def test_text_is_told_as_it_comes_and_usage_at_the_end(server: ModelServer, stream: bool) -> None:
    server.script(say("Hel", "lo ", "wörld"), say("Again"))
    async with chatting(server, stream=stream) as chat:
        outcome = await chat.say("hi")
        assert outcome.final.text == chat.shown == "Hello wörld"
        assert chat.usages == [Usage(input_tokens=12, output_tokens=3, cached_tokens=4, model=server.models[0])]
        await chat.say("and?")
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert len({asked.connection for asked in server.requests}) == 1, "the connection is used again"


@STREAMED
async def test_missing_usage_is_no_usage(server: ModelServer, stream: bool) -> None:
    server.script(say("Hello", usage=None))
    async with chatting(server, stream=stream) as chat:
        assert (await chat.say("hi")).final.text == "Hello"
        assert not chat.usages


@STREAMED
async def test_parallel_tool_calls_in_split_pieces(server: ModelServer, stream: bool) -> None:
    server.script(
        ask_for(
            ScriptedCall(name="look", arguments='{"where": "hére"}', id="call_a", pieces=5),
            ScriptedCall(name="hear", arguments='{"what": 1}', id="call_b"),
            text=("Let me see.",),
        ),
        say("Both done"),
        say("Sure"),
    )
    async with chatting(server, stream=stream, tools=[answering("look"), answering("hear", "heard")]) as chat:
        outcome = await chat.say("go")
        assert outcome.final.text == "Both done"
        first = outcome.messages[0]
        assert [(call.name, json.loads(call.arguments)) for call in first.tool_calls] == [
            ("look", {"where": "hére"}),
            ("hear", {"what": 1}),
        ]
        await chat.say("thanks")
    assert [message.get("tool_call_id") for message in server.bodies[1]["messages"][3:]] == ["call_a", "call_b"]


@STREAMED
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ScriptedCall(name="look", arguments='{"where": '), "failed unexpectedly"),
        (ScriptedCall(name="look", arguments='["no object"]'), "failed unexpectedly"),
        (ScriptedCall(name="look", arguments=""), "failed unexpectedly"),
        (ScriptedCall(name="functions.look at/that!", id="functions.look:0"), "There is no tool named"),
        (ScriptedCall(name="", id=""), "There is no tool named"),
        (ScriptedCall(name="fail", id="x" * 100), "not today"),
    ],
    ids=["cut JSON", "no object", "empty", "unknown tool", "no name", "failing"],
)
async def test_a_bad_call_becomes_an_error_that_the_model_reads(
    server: ModelServer, stream: bool, call: ScriptedCall, told: str
) -> None:
    server.script(ask_for(call), say("I see"), say("Fine"))
    tools = [raising("look", ValueError("bad")), raising("fail", ToolFailed("not today"))]
    async with chatting(server, stream=stream, tools=tools) as chat:
        outcome = await chat.say("go")
        assert outcome.final.text == "I see"
        assert told in outcome.messages[1].text
        assert outcome.messages[1].is_error
        assert (await chat.say("ok")).final.text == "Fine"


async def test_calls_that_share_one_index_stay_apart(server: ModelServer) -> None:
    calls = [
        {"index": 0, "id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in "ab"
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    raw = b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)
    server.script(say(raw=b": keep-alive\r\n\r\n" + raw + b"data: [DONE]"), say("Done"))
    async with chatting(server, tools=[answering("a"), answering("b")]) as chat:
        outcome = await chat.say("go")
        assert [call.name for call in outcome.messages[0].tool_calls] == ["a", "b"]


@STREAMED
@pytest.mark.parametrize("spelling", ["reasoning_content", "reasoning", "reasoning_details"])
async def test_thoughts_are_kept_and_passed_back_in_the_providers_spelling(stream: bool, spelling: Any) -> None:
    async with ModelServer(extra_fields=[spelling]) as server:
        server.script(
            ask_for(ScriptedCall(name="look"), reasoning="I must look.", reasoning_field=spelling),
            say("Done"),
            say("Yes"),
        )
        at = endpoint(server, reasoning=spelling)
        async with chatting(server, stream=stream, tools=[answering("look")], at=at) as chat:
            outcome = await chat.say("go")
            assert outcome.messages[0].reasoning == chat.thoughts == "I must look."
            await chat.say("sure?")
        assert not server.refusals
        back = server.bodies[2]["messages"][2][spelling]
        if spelling != "reasoning_details":
            assert back == "I must look."
            return
        assert [block["text"] for block in back] == ["I must look."], "pieces of one block are joined"
        assert back[0]["signature"] == ("sig1" if stream else "sig0")


async def test_thoughts_are_not_passed_to_a_provider_that_refuses_them(server: ModelServer) -> None:
    server.script(say("Done", reasoning="Hm."), say("Yes"))
    async with chatting(server) as chat:
        await chat.say("go")
        await chat.say("sure?")
    assert not any("reasoning" in field for message in server.bodies[1]["messages"] for field in message)


@STREAMED
async def test_signed_calls_come_back_with_their_signature(stream: bool) -> None:
    signed = {"extra_content": {"google": {"thought_signature": "abc"}}}
    async with ModelServer(extra_fields=["extra_content"]) as server:
        server.script(ask_for(ScriptedCall(name="look", extra=signed)), say("Done"), say("Again"), say("Again"))
        at = endpoint(server, signs_calls=True)
        async with chatting(server, stream=stream, tools=[answering("look")], at=at) as chat:
            await chat.say("go")
            assert server.bodies[1]["messages"][2]["tool_calls"][0]["extra_content"] == signed["extra_content"]
            history = chat.history
        async with chatting(server, stream=stream, tools=[answering("look")], at=at) as restarted:
            restarted.history = list(history)
            await restarted.say("still there?")
        assert server.bodies[2]["messages"][2]["tool_calls"][0]["extra_content"] == signed["extra_content"]
        other = endpoint(server, signs_calls=True, provider="Another")
        async with chatting(server, stream=stream, tools=[answering("look")], at=other) as elsewhere:
            elsewhere.history = list(history)
            await elsewhere.say("still there?")
        stand_in = server.bodies[3]["messages"][2]["tool_calls"][0]["extra_content"]
        assert stand_in["google"]["thought_signature"] == "skip_thought_signature_validator"
        assert not server.refusals


@STREAMED
async def test_one_persons_thoughts_never_reach_anothers_request(stream: bool) -> None:
    async with ModelServer(extra_fields=["reasoning_details"]) as server:
        thoughts = {"reasoning_field": "reasoning_details", "usage": None}
        server.script(say("Yes", reasoning="Ann's secret is 42.", **thoughts), say("Yes"), say("Good"), say("Good"))
        at = endpoint(server, reasoning="reasoning_details")
        async with chatting(server, stream=stream, at=at) as ann:
            bob = Chat(model=ann.model)
            await ann.say("may I?")
            await bob.say("may I?")
            await bob.say("thanks")
            await ann.say("thanks")
        assert "secret" not in json.dumps(server.bodies[2])
        assert "secret" in json.dumps(server.bodies[3])


async def test_damaged_provider_data_does_no_harm(server: ModelServer) -> None:
    server.script(say("Fine"), say("Fine"), say("Fine"))
    for damaged in ("{", "[]", '{"of": "Playground/playground"}'):
        async with chatting(server, at=endpoint(server, reasoning="reasoning_details")) as chat:
            chat.history += [user("hi"), replace(assistant("hello"), provider_data=damaged)]
            assert (await chat.say("go on")).final.text == "Fine"


IMAGE = Media(kind="image", name="cat.png", mime="image/png", size_bytes=3, sha256="ab" * 32)


def _with_image(role: Any = "user") -> Message:
    return Message(role=role, parts=(Text(text="What is this?"), IMAGE))


async def test_a_model_that_sees_is_shown_the_image(server: ModelServer) -> None:
    server.script(say("A cat"))
    at = endpoint(server, sees_images=True)
    async with chatting(server, at=at, load_media=lambda part: b"png") as chat:
        chat.history.append(_with_image())
        await chat.say("Well?")
    content = server.bodies[0]["messages"][1]["content"]
    assert content == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "text", "text": "Well?"},
    ]


async def test_an_image_from_a_tool_is_shown_behind_its_result(server: ModelServer) -> None:
    server.script(ask_for(ScriptedCall(name="draw")), say("Nice"))
    tools = [answering("draw", (Text(text="drawn"), IMAGE))]
    at = endpoint(server, sees_images=True)
    async with chatting(server, at=at, tools=tools, load_media=lambda part: b"png") as chat:
        await chat.say("draw a cat")
    result, shown = server.bodies[1]["messages"][-2:]
    assert result["content"] == "drawn\n[image cat.png]"
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]


@pytest.mark.parametrize(
    ("sees", "content", "limit"),
    [(False, b"png", 100), (True, None, 100), (True, b"a png of great size", 4)],
    ids=["blind", "lost", "too large"],
)
async def test_an_image_that_cannot_be_shown_is_described(
    server: ModelServer, sees: bool, content: bytes | None, limit: int
) -> None:
    server.script(say("I see"))
    at = endpoint(server, sees_images=sees)
    async with chatting(server, at=at, load_media=lambda part: content, max_image_bytes=limit) as chat:
        chat.history.append(_with_image())
        await chat.say("Well?")
    assert server.bodies[0]["messages"][1]["content"] == "What is this?\n[image cat.png]\nWell?"


async def test_only_the_latest_images_are_shown(server: ModelServer) -> None:
    server.script(say("Many"))
    at = endpoint(server, sees_images=True)
    async with chatting(server, at=at, load_media=lambda part: b"png", max_images=1) as chat:
        other = Media(kind="image", name="old.png", mime="image/png", sha256="cd" * 32)
        chat.history += [Message(role="user", parts=(other,)), _with_image()]
        await chat.say("Well?")
    content = server.bodies[0]["messages"][1]["content"]
    assert content[0]["text"].startswith("[image old.png]")
    assert sum(part["type"] == "image_url" for part in content) == 1


async def test_cache_breakpoints_are_set_where_they_are_wanted(server: ModelServer) -> None:
    server.script(say("Hello"))
    async with chatting(server, at=endpoint(server, cache_breakpoints=True)) as chat:
        await chat.say("hi")
    marked = [message["content"][-1].get("cache_control") for message in server.bodies[0]["messages"]]
    assert marked == [{"type": "ephemeral"}] * 2


async def test_half_a_surrogate_pair_does_not_break_the_request(server: ModelServer) -> None:
    server.script(say("Odd"), say("Fine"))
    async with chatting(server) as chat:
        await chat.say("bad \ud83d emoji")
        await chat.say("ok")
    assert server.bodies[0]["messages"][1]["content"] == "bad ? emoji"


@STREAMED
async def test_a_refusal_is_an_answer(server: ModelServer, stream: bool) -> None:
    server.script(say(refusal="I would rather not."), say("Fine"))
    async with chatting(server, stream=stream) as chat:
        assert (await chat.say("hi")).final.text == "I would rather not."
        await chat.say("ok")


async def test_at_the_end_of_the_budget_the_tools_are_shown_and_may_not_be_called(server: ModelServer) -> None:
    server.script(ask_for(ScriptedCall(name="look")), say("So far so good"))
    async with chatting(server, tools=[answering("look")]) as chat:
        chat.max_iterations = 1
        assert (await chat.say("go")).final.text == "So far so good"
    assert [body.get("tool_choice") for body in server.bodies] == [None, "none"]
    assert server.bodies[0]["tools"] == server.bodies[1]["tools"]


async def test_calls_of_tools_that_are_switched_off_by_now_are_still_taken(server: ModelServer) -> None:
    server.script(ask_for(ScriptedCall(name="look")), say("Seen"), say("Fine"))
    async with chatting(server, tools=[answering("look")]) as chat:
        await chat.say("go")
        chat.tools = ()
        await chat.say("and now?")
    assert server.bodies[2]["tool_choice"] == "none"


async def test_a_whole_answer_to_a_wish_for_a_stream_is_taken(server: ModelServer) -> None:
    whole = say("All at once").whole("playground")
    server.script(say(raw=whole, content_type="application/json"))
    async with chatting(server) as chat:
        assert (await chat.say("hi")).final.text == "All at once"


@STREAMED
async def test_a_character_cut_in_two_by_the_stream_is_put_together(server: ModelServer, stream: bool) -> None:
    arguments = '{"text": "\ud83c\udf89"}'
    halves = replace(say("Done \ud83c", "\udf89 and \ud83d", "", "\ude00!"), reasoning="\ud83c\udf89")
    server.script(
        in_escapes(ask_for(ScriptedCall(name="look", arguments=arguments, pieces=len(arguments))), stream=stream),
        in_escapes(halves, stream=stream),
    )
    async with chatting(server, stream=stream, tools=[answering("look")]) as chat:
        outcome = await chat.say("hi")
        assert (chat.shown, chat.thoughts) == ("Done 🎉 and 😀!", "🎉")
    asked, _, final = outcome.messages
    assert asked.tool_calls[0].arguments == '{"text": "🎉"}'
    assert (final.text, final.reasoning) == ("Done 🎉 and 😀!", "🎉")


@STREAMED
async def test_half_a_character_in_an_answer_is_replaced(server: ModelServer, stream: bool) -> None:
    call = ScriptedCall(name="look\ud83c", id="\udf89", arguments='{"text": "\udf89"}')
    lone = replace(say("a\udf89", "\ud83c", "b\ud83c"), reasoning="\udf89x\ud83c")
    server.script(in_escapes(ask_for(call), stream=stream), in_escapes(lone, stream=stream))
    async with chatting(server, stream=stream, tools=[answering("look")]) as chat:
        outcome = await chat.say("hi")
    asked, refused, final = outcome.messages
    assert asked.tool_calls == (ToolCall(id="\ufffd", name="look\ufffd", arguments='{"text": "\ufffd"}'),)
    assert refused.tool_call_id == "\ufffd"
    assert (final.text, final.reasoning) == ("a\ufffd\ufffdb\ufffd", "\ufffdx\ufffd")


async def test_half_a_character_in_an_error_or_a_result_is_replaced(server: ModelServer) -> None:
    refusal = json.dumps({"error": {"message": "no \ud83c", "code": 400}}).encode()
    server.script(ask_for(ScriptedCall(name="look")), say(raw=refusal, content_type="application/json"))
    async with chatting(server, tools=[answering("look", "seen \udf89")]) as chat:
        with pytest.raises(ModelError) as failure:
            await chat.say("hi")
    str(failure.value).encode()
    assert chat.history[-1].text == "seen \ufffd"


def in_escapes(reply: ModelAnswer, *, stream: bool) -> ModelAnswer:
    """As a server writes it that escapes all but ASCII."""
    chunks = [json.loads(frame[6:]) for frame in reply.frames("playground")[:-1]] if stream else []
    frames = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    whole = json.dumps(json.loads(reply.whole("playground"))).encode()
    kind = "text/event-stream" if stream else "application/json"
    return replace(reply, raw=b"".join([*frames, b"data: [DONE]\n\n"]) if stream else whole, content_type=kind)
