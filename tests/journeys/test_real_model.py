"""A whole gateway in front of a strict model server: whatever the server does, the chat stays sane.

Each story is told twice over, streamed and not, in one gateway: after every fault the next question must be
answered, which a strict server only does when the history is valid.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from playground.model_script import HangUp, ModelAnswer, ModelRefusal, ScriptedCall, Silence, Step, ask_for, say
from playground.model_server import ModelServer
from tests.gateway.platforms.client import Client, connect
from tests.journeys.gateway_process import gateway, make_home

CLOCK = ScriptedCall(name="clock", arguments='{"timezone": "UTC"}')
TODO = ScriptedCall(name="todo", arguments='{"action": "list"}', id="call_2")

TOO_LONG = ModelRefusal(status=400, message="maximum context length is 8192 tokens", code="context_length_exceeded")

# What the server does, and what the chat says in the end.
STORIES: dict[str, tuple[list[Step], str]] = {
    "a tool call": ([ask_for(CLOCK), say("It is", " late.")], "It is late."),
    "parallel tool calls": ([ask_for(CLOCK, TODO), say("Both done.")], "Both done."),
    "broken arguments": ([ask_for(ScriptedCall(name="clock", arguments='{"timezone": ')), say("Sorry.")], "Sorry."),
    "an unknown tool": ([ask_for(ScriptedCall(name="warp_drive")), say("No warp.")], "No warp."),
    "a wrong key": ([ModelRefusal(status=401, message="Incorrect API key")], "OPENAI_API_KEY"),
    "no credit": ([ModelRefusal(status=402, message="Insufficient credits")], "credit"),
    "an unknown model": ([ModelRefusal(status=404, message="no such model", code="model_not_found")], "model.name"),
    "a rate limit": (
        [ModelRefusal(status=429, message="slow down", headers={"Retry-After": "0"}), say("There.")],
        "There.",
    ),
    "a broken server": ([ModelRefusal(status=500), ModelRefusal(status=503), say("Back.")], "Back."),
    "silence before the answer": ([Silence(), say("Here now.")], "Here now."),
    "silence in the answer": (
        [say("Half ", "an answer", stops_before="an answer", ending="hang"), say("Whole.")],
        "Whole.",
    ),
    "a cut in a word": ([say("Half ", "an answer", stops_before="an answer", ending="cut"), say("Whole.")], "Whole."),
    "a cut in a tool call": ([ask_for(CLOCK, stops_before="timezone", ending="cut"), say("Whole.")], "Whole."),
    "a cut before anything": ([HangUp(), say("Whole.")], "Whole."),
    "an empty answer": ([ModelAnswer(), say("Something.")], "Something."),
    "a conversation that is too long, and still is when it was summarised": (
        [TOO_LONG, ModelRefusal(status=400, message="no summaries here"), TOO_LONG],
        "too long",
    ),
    "a conversation that is too long until it was summarised": (
        [TOO_LONG, ModelRefusal(status=400, message="no summaries here"), say("Short enough.")],
        "Short enough.",
    ),
    "no usage": ([say("Fine.", usage=None)], "Fine."),
}


@asynccontextmanager
async def talking(home: Path, server: ModelServer, *, stream: bool) -> AsyncIterator[Client]:
    environment = {
        "HERMES_MODEL": "playground",
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": server.api_key,
        "HERMES_MODEL__STREAM": str(stream).lower(),
        # Waited for in two stories; in all others, a busy machine must answer within this time.
        "HERMES_MODEL__FIRST_BYTE_TIMEOUT_SECONDS": "5",
        "HERMES_MODEL__IDLE_TIMEOUT_SECONDS": "5",
        "HERMES_MODEL__TOTAL_TIMEOUT_SECONDS": "5",
    }
    async with gateway(make_home(home), environment=environment) as running, connect(running.socket) as client:
        yield client


@pytest.mark.slow  # waits for the server's silences, and for the first retries
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_whatever_the_model_server_does_the_chat_stays_sane(tmp_path: Path, stream: bool) -> None:
    async with ModelServer() as server, talking(tmp_path / "home", server, stream=stream) as client:
        for number, (story, (steps, words)) in enumerate(STORIES.items()):
            if not stream and "stops_before" in str(steps):
                steps = steps[-1:]  # an answer in one piece has no middle
            server.script(*steps)
            await client.say(story, message_id=f"{number}", chat="main")
            answer = await client.hear()
            if not answer["answers"]:  # that older messages were summarised
                answer = await client.hear()
            assert words in answer["text"], story
            assert answer["answers"] == [f"{number}"], story
            server.script(say("And on we go."))
            await client.say("and now?", message_id=f"{number} again", chat="main")
            assert (await client.hear())["text"] == "And on we go.", story
            assert server.left == 0, story
        assert server.refusals == []
