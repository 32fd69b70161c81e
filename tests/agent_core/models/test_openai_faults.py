"""Every way in which a model server fails: one clear error or one whole answer, and a history that stays valid."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import ModuleType

import pytest

from agent_core import model
from agent_core.model import ProviderError
from agent_core.models import openai, openai_stream
from agent_core.models.openai_stream import CUT_SHORT
from agent_core.models.retries import Retries, Timeouts
from playground.model_script import HangUp, ModelAnswer, ModelRefusal, ScriptedCall, Silence, Step, ask_for, say
from playground.model_server import ModelServer
from tests.agent_core.scripted import answering
from tests.agent_core.served import QUIET, SLOW, STALLING, chatting, endpoint
from tests.thorough import a_few_of

STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture
async def server() -> AsyncGenerator[ModelServer]:
    async with ModelServer() as running:
        yield running
        assert not running.refusals
        assert not running.left


def _context(message: str, **details: str) -> ModelRefusal:
    return ModelRefusal(status=400, message=message, **details)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[ModelRefusal, type[ProviderError], str]] = {
    "401": (ModelRefusal(status=401, code="invalid_api_key"), model.KeyRefused, "OPENAI_API_KEY"),
    "403 about the key": (
        ModelRefusal(status=403, message="API key expired. Please renew it."),
        model.KeyRefused,
        "OPENAI_API_KEY",
    ),
    "403 about the country": (
        ModelRefusal(status=403, message="Country, region, or territory not supported."),
        model.ModelUnknown,
        "does not let this account use playground (403): Country, region, or territory not supported. Request",
    ),
    "403 about the model": (
        ModelRefusal(status=403, message="Project p does not have access to model m.", code="model_not_found"),
        model.ModelUnknown,
        "does not let this account use playground",
    ),
    "403 without a word": (ModelRefusal(status=403, body=b""), model.ModelUnknown, "playground (403). Request"),
    "Gemini's wrong key": (
        ModelRefusal(
            status=400, body=b'[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]'
        ),
        model.KeyRefused,
        "OPENAI_API_KEY",
    ),
    "402": (ModelRefusal(status=402, message="Insufficient credits"), model.NoCredit, "no credit left"),
    "OpenAI's quota": (ModelRefusal(status=429, code="insufficient_quota"), model.NoCredit, "Top it up"),
    "Anthropic's credit": (
        ModelRefusal(status=400, message="Your credit balance is too low to access the API"),
        model.NoCredit,
        "Top it up",
    ),
    "404": (ModelRefusal(status=404, code="model_not_found"), model.ModelUnknown, "playground"),
    "404 of a web server": (
        ModelRefusal(status=404, body=b"404 page not found"),
        model.ModelUnknown,
        "correct the address",
    ),
    "OpenRouter's unknown model": (
        ModelRefusal(status=400, message="foo/bar is not a valid model ID"),
        model.ModelUnknown,
        "hermes config set model.name",
    ),
    "OpenAI's context": (
        _context("This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
        model.ContextTooLong,
        "/new",
    ),
    "Anthropic's context": (
        _context("prompt is too long: 208310 tokens > 200000 maximum"),
        model.ContextTooLong,
        "/new",
    ),
    "Gemini's context": (
        _context("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        model.ContextTooLong,
        "/new",
    ),
    "llama.cpp's context": (
        _context("the request exceeds the available context size", kind="exceed_context_size_error"),
        model.ContextTooLong,
        "/new",
    ),
    "413": (ModelRefusal(status=413, body=b"<html>"), model.ContextTooLong, "/new"),
    "moderation": (
        ModelRefusal(status=403, message="Your input was flagged by moderation"),
        model.Filtered,
        "rephrase",
    ),
    "something else": (
        ModelRefusal(status=400, message="temperature must be\n at most 2; key sk-playground"),
        model.RequestRefused,
        "temperature must be at most 2; key …",
    ),
    "no tools": (
        ModelRefusal(status=404, message="No endpoints found that support tool use."),
        model.RequestRefused,
        "tool use",
    ),
}


@STREAMED
@pytest.mark.parametrize("case", REFUSED)
async def test_a_refusal_is_told_at_once_and_the_chat_goes_on(server: ModelServer, stream: bool, case: str) -> None:
    refusal, kind, words = REFUSED[case]
    server.script(refusal, say("Hello again"))
    async with chatting(server, stream=stream) as chat:
        with pytest.raises(kind) as caught:
            await chat.say("hi")
        assert words in str(caught.value)
        assert "Playground" in str(caught.value) or "playground" in str(caught.value)
        assert len(server.requests) == 1, "asking again would not help"
        assert (await chat.say("hi?")).final.text == "Hello again"


async def test_without_a_key_the_error_says_so(server: ModelServer) -> None:
    async with ModelServer() as other, chatting(other, at=endpoint(other, key="")) as chat:
        with pytest.raises(model.KeyRefused, match=r"none is set\. Put OPENAI_API_KEY into"):
            await chat.say("hi")


BUSY: dict[str, Step] = {
    "429": ModelRefusal(status=429, message="Rate limit reached", code="rate_limit_exceeded"),
    "Gemini's 429": ModelRefusal(status=429, message="You exceeded your current quota", kind="RESOURCE_EXHAUSTED"),
    "500": ModelRefusal(status=500, body=b"<html>oops</html>"),
    "503": ModelRefusal(status=503, message="The engine is currently overloaded"),
    "529": ModelRefusal(status=529, kind="overloaded_error"),
    "hang up": HangUp(),
    "empty": say(),
    "blank": say(" \n"),
    "gave up": say("so", finish="error"),
}


@STREAMED
@pytest.mark.parametrize("case", BUSY)
async def test_a_passing_fault_is_retried_with_growing_waits(server: ModelServer, stream: bool, case: str) -> None:
    server.script(BUSY[case], BUSY[case], say("Here I am"), say("Yes"))
    async with chatting(server, stream=stream) as chat:
        outcome = await chat.say("hi")
        assert outcome.final.text == chat.shown == "Here I am"
        first, second = chat.waits
        assert 0.75 <= first <= 1.25
        assert 1.5 <= second <= 2.5
        assert (await chat.say("sure?")).final.text == "Yes"


@STREAMED
@pytest.mark.parametrize("case", BUSY)
async def test_a_lasting_fault_is_an_error_in_the_end(server: ModelServer, stream: bool, case: str) -> None:
    server.script(*[BUSY[case]] * 4, say("Back"))
    async with chatting(server, stream=stream) as chat:
        with pytest.raises(ProviderError) as caught:
            await chat.say("hi")
        assert type(caught.value) in (
            model.Overloaded,
            model.Unreachable,
            model.BrokenAnswer,
        )
        assert str(caught.value)[-1] in ".?"
        assert (await chat.say("hi?")).final.text == "Back"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({"Retry-After": "7"}, 7), ({"retry-after-ms": "2500"}, 2.5), ({"Retry-After": "0"}, 0)],
)
async def test_the_provider_says_when_to_come_back(
    server: ModelServer, headers: dict[str, str], expected: float
) -> None:
    server.script(ModelRefusal(status=429, headers=headers), say("Hello"))
    async with chatting(server) as chat:
        await chat.say("hi")
        assert expected <= chat.waits[0] <= expected + 0.1


async def test_nobody_waits_for_an_hour(server: ModelServer) -> None:
    server.script(ModelRefusal(status=429, headers={"Retry-After": "3600"}))
    async with chatting(server) as chat:
        with pytest.raises(model.Overloaded, match="in 60 minutes") as caught:
            await chat.say("hi")
        assert caught.value.retry_after_seconds == 3600
        assert not chat.waits


async def test_retries_end_when_their_time_is_up(server: ModelServer) -> None:
    server.script(ModelRefusal(status=503))
    async with chatting(server, retries=Retries(give_up_after_seconds=0.5)) as chat:
        with pytest.raises(model.Overloaded):
            await chat.say("hi")


SAYS_NOTHING: dict[str, tuple[bool, Step, Timeouts]] = {
    "streamed": (True, Silence(), QUIET),
    "streamed, after the headers": (True, say("Hello", stops_after_bytes=0, ending="hang"), QUIET),
    "streamed, in all": (True, Silence(), SLOW),
    "whole": (False, Silence(), SLOW),
}


@pytest.mark.parametrize("case", SAYS_NOTHING)
async def test_a_server_that_says_nothing_is_given_up(server: ModelServer, case: str) -> None:
    stream, silence, timeouts = SAYS_NOTHING[case]
    server.script(silence, say("Awake"), silence, silence)
    async with (
        asyncio.timeout(10),
        chatting(server, stream=stream, timeouts=timeouts, retries=Retries(attempts=2)) as chat,
    ):
        assert (await chat.say("hi")).final.text == "Awake"
        with pytest.raises(model.Unreachable, match="took too long"):
            await chat.say("hi?")


@pytest.mark.parametrize(("stream", "timeouts"), [(True, STALLING), (False, SLOW)], ids=["streamed", "whole"])
async def test_an_answer_that_stalls_is_asked_for_again_without_doubling(
    server: ModelServer, stream: bool, timeouts: Timeouts
) -> None:
    server.script(say("Hel", "lo ", "world", stops_before="world", ending="hang"), say("Hello there"))
    async with asyncio.timeout(10), chatting(server, stream=stream, timeouts=timeouts) as chat:
        outcome = await chat.say("hi")
        assert outcome.final.text == chat.shown == "Hello there"


async def test_an_answer_that_trickles_on_is_given_up(server: ModelServer) -> None:
    server.script(say(*["and so on "] * 1000, delay_seconds=0.05), say("Done"))
    async with asyncio.timeout(60), chatting(server, timeouts=SLOW) as chat:
        assert (await chat.say("hi")).final.text == chat.shown == "Done"


async def test_nobody_is_there(server: ModelServer) -> None:
    async with ModelServer() as gone:
        at = endpoint(gone)
    async with chatting(server, at=at) as chat:
        with pytest.raises(model.Unreachable, match=r"The connection to .* failed\. Is it running"):
            await chat.say("hi")
        assert len(chat.waits) == 3


LOOK = ScriptedCall(name="look", arguments='{"where": "there"}')
CUT: dict[str, ModelAnswer] = {
    "after the headers": say("Hello", stops_after_bytes=0, ending="cut"),
    "mid-token": say("Hel", "lo wörld", stops_before="ö", ending="cut"),
    "mid tool call": ask_for(LOOK, stops_before="there", ending="cut"),
    "between tool calls": ask_for(LOOK, ScriptedCall(name="hear", id="call_2"), stops_before="call_2", ending="cut"),
    "before the end": say("Hello", finish=None, usage=None, stops_before="[DONE]", ending="cut"),
    "a stream that simply ends": say("Hel", "lo", finish=None, usage=None, stops_before="data: [DONE]"),
}


@pytest.mark.parametrize("case", CUT)
async def test_a_cut_stream_is_asked_for_again_without_doubling(server: ModelServer, case: str) -> None:
    server.script(CUT[case], say("Whole ", "answer"), say("Yes"))
    async with chatting(server, tools=[answering("look"), answering("hear")]) as chat:
        outcome = await chat.say("hi")
        assert outcome.final.text == chat.shown == "Whole answer"
        assert len(outcome.messages) == 1, "nothing of the broken attempt is kept"
        assert (await chat.say("sure?")).final.text == "Yes"


@STREAMED
@pytest.mark.parametrize("step", a_few_of([41, 13], 1))
async def test_cut_at_any_byte_there_is_one_whole_answer(server: ModelServer, stream: bool, step: int) -> None:
    calls = (LOOK, ScriptedCall(name="hear", id="call_2"))
    reply = ModelAnswer(text=("Hel", "lo wörld"), calls=calls, reasoning="Hm.")
    wire = b"".join(reply.frames("playground")) if stream else reply.whole("playground")
    async with chatting(server, stream=stream, tools=[answering("look"), answering("hear")]) as chat:
        for cut in range(0, len(wire), step):
            cut_reply = ModelAnswer(text=reply.text, calls=calls, reasoning="Hm.", stops_after_bytes=cut, ending="cut")
            server.script(cut_reply)
            told_finish = stream and b'"finish_reason": "tool_calls"}]}\n\n' in wire[:cut]
            server.script(*([] if told_finish else [reply]), say("Done"))
            outcome = await chat.say("go")
            assert [message.role for message in outcome.messages] == ["assistant", "tool", "tool", "assistant"], cut
            assert outcome.messages[0].text == "Hello wörld"
            assert chat.shown.endswith("Done")
            del chat.history[1:]


async def test_what_is_complete_is_not_asked_for_again(server: ModelServer) -> None:
    server.script(say("Hello", usage=None, stops_before="[DONE]", ending="cut"), say("Yes"))
    async with chatting(server) as chat:
        assert (await chat.say("hi")).final.text == "Hello"
        assert not chat.waits
        await chat.say("sure?")


async def test_a_connection_left_open_after_the_end_holds_nobody_up(server: ModelServer) -> None:
    server.script(say("Hello", ending="hang"))
    async with chatting(server) as chat:
        assert (await chat.say("hi")).final.text == "Hello"


@STREAMED
@pytest.mark.parametrize(
    "step",
    [
        say(raw=b'data: {"choices": [{"delta": {"content": "He\n\n'),
        say(raw=b"data: [1, 2]\n\n"),
        say(raw=b"data: " + b"[" * 100_000 + b"\n\n"),
        say(raw=b"not an event\n\n"),
        say(raw=b"\xff\xfe"),
    ],
    ids=["cut JSON", "no object", "too deep", "no event", "no text"],
)
async def test_nonsense_is_asked_for_again(server: ModelServer, stream: bool, step: ModelAnswer) -> None:
    server.script(step, say("Sense"))
    async with chatting(server, stream=stream) as chat:
        assert (await chat.say("hi")).final.text == "Sense"


@pytest.mark.parametrize(
    ("module", "name"), [(openai_stream, "MAX_EVENT_BYTES"), (openai, "MAX_ANSWER_BYTES")], ids=["one event", "in all"]
)
async def test_an_answer_of_absurd_size_is_given_up(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    monkeypatch.setattr(module, name, 2_000)
    server.script(say(*["x" * 1_500] * 2) if module is openai else say("x" * 3_000), say("Short"))
    async with chatting(server) as chat:
        assert (await chat.say("hi")).final.text == chat.shown == "Short"
        server.script(*[say("x" * 3_000)] * 4)
        with pytest.raises(model.BrokenAnswer, match="too large"):
            await chat.say("hi?")


@STREAMED
async def test_a_web_page_is_recognised(server: ModelServer, stream: bool) -> None:
    page = say(raw=b"<!doctype html><p>Sign in", content_type="text/html")
    server.script(*[page] * 4)
    async with chatting(server, stream=stream) as chat:
        with pytest.raises(model.BrokenAnswer, match=r"Check `model\.base_url`"):
            await chat.say("hi")


@STREAMED
async def test_filtered_answers_are_told_as_such(server: ModelServer, stream: bool) -> None:
    server.script(say("I will", finish="content_filter"), say("Fine"))
    async with chatting(server, stream=stream) as chat:
        with pytest.raises(model.Filtered):
            await chat.say("hi")
        await chat.say("and now?")


@STREAMED
async def test_an_answer_that_ran_out_of_room_says_so(server: ModelServer, stream: bool) -> None:
    server.script(say("Once upon", finish="length"), say(reasoning="Hm", finish="length"))
    async with chatting(server, stream=stream) as chat:
        assert (await chat.say("a story")).final.text == "Once upon" + CUT_SHORT
        with pytest.raises(model.OutOfRoom, match="output limit"):
            await chat.say("another")


async def test_an_error_inside_a_stream_is_read(server: ModelServer) -> None:
    error = b'data: {"error": {"code": 429, "message": "slow down"}}\n\n'
    start = say("Hel").frames("playground")[1]
    server.script(say(raw=start + error), say("Hello"), say(raw=start + error.replace(b"429", b"402")))
    async with chatting(server) as chat:
        outcome = await chat.say("hi")
        assert outcome.final.text == chat.shown == "Hello"
        with pytest.raises(model.NoCredit):
            await chat.say("hi?")


async def test_a_server_that_cannot_count_is_asked_not_to(server: ModelServer) -> None:
    server.script(
        ModelRefusal(status=422, message="stream_options: extra inputs are not permitted"), say("Hi"), say("Ho")
    )
    async with chatting(server) as chat:
        assert (await chat.say("hi")).final.text == "Hi"
        await chat.say("ho")
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


@asynccontextmanager
async def speaking(*answers: bytes) -> AsyncGenerator[tuple[str, list[int]]]:
    """A server of bare bytes: each connection gets the next answer, the last one again and again, and stays open."""
    asked: list[int] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        asked.append(length)
        writer.write(answers[min(len(asked), len(answers)) - 1])
        await over.wait()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1", asked
    finally:
        over.set()
        listener.close()


async def test_a_refusal_whose_words_never_come_is_given_up_in_time(server: ModelServer) -> None:
    hanging = b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\n{"
    async with (
        asyncio.timeout(10),
        speaking(hanging) as (url, asked),
        chatting(server, at=endpoint(server, base_url=url), timeouts=QUIET, retries=Retries(attempts=2)) as chat,
    ):
        with pytest.raises(model.Unreachable, match="took too long"):
            await chat.say("hi")
        assert len(asked) == 2


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_HTTP: dict[str, bytes] = {
    "no status line": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "a header that is none": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "a chunk that is none": EVENTS + b"zz\r\nnonsense\r\n",
    "a refusal in a bad chunk": b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@STREAMED
@pytest.mark.parametrize("case", NO_HTTP)
async def test_what_is_not_even_http_is_tried_again_and_then_told(server: ModelServer, stream: bool, case: str) -> None:
    async with (
        asyncio.timeout(10),
        speaking(NO_HTTP[case]) as (url, asked),
        chatting(server, stream=stream, at=endpoint(server, base_url=url), retries=Retries(attempts=2)) as chat,
    ):
        with pytest.raises((model.Unreachable, model.BrokenAnswer)):
            await chat.say("hi")
        assert len(asked) == 2
