"""Long conversations with a strict model of a small window, through the real store and the real client."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_core.compactor import CompactionRules
from gateway.store import compactions
from gateway.store.db.database import Database
from playground.model_script import HangUp, ModelAnswer, ModelRefusal, ScriptedCall, Silence, Step, ask_for, say
from playground.model_server import ModelServer, count_tokens
from tests.gateway.scene import rows
from tests.gateway.store.rows import find_hits
from tests.gateway.turns.long_chat import answer, is_summary_request, open_chat, plant, summarise
from tests.thorough import a_few_of

SMALL = 8_000


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(otherwise=answer, window_tokens=SMALL) as running:
        yield running


@pytest.mark.slow  # many turns over HTTP
@pytest.mark.timeout(900)
@pytest.mark.parametrize("messages", a_few_of((960, 3_000), 1))
async def test_a_long_chat_never_overflows_and_loses_no_fact(db: Database, messages: int) -> None:
    async with ModelServer(otherwise=answer, window_tokens=32_000) as server, open_chat(db, server) as long:
        await long.talk(messages // 2, plant(40))
        assert (server.overflows, server.refusals) == (0, [])
        assert long.compactions >= 3
        assert max(map(len, long.misses)) <= 2
        assert sorted(long.released) == sorted(set(long.released)), "finished work was done again"
        assert await rows(db, f"SELECT COUNT(*) >= {messages} FROM messages") == [(1,)]


def _cut(asked: str) -> Step:
    whole = summarise(asked)
    return say(whole[: len(whole) * 2 // 3], finish="length")


FAILURES: dict[str, Callable[[str], Step]] = {
    "500": lambda asked: ModelRefusal(status=500),
    "timeout": lambda asked: Silence(),
    "empty": lambda asked: say(" "),
    "cut by the length": _cut,
    "cut connection": lambda asked: ModelAnswer(text=(summarise(asked),), stops_after_bytes=300, ending="cut"),
    "hangs up": lambda asked: HangUp(),
    "no form": lambda asked: say("They talked about servers."),
    "window too small": lambda asked: ModelRefusal(
        status=400, message="maximum context length is 2000 tokens", code="context_length_exceeded"
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failing_auxiliary_model_loses_no_instruction(db: Database, server: ModelServer, failure: str) -> None:
    def fail(body: Mapping[str, Any]) -> Step:
        return FAILURES[failure](body["messages"][-1]["content"])

    async with (
        ModelServer(otherwise=fail, models=("small",)) as auxiliary,
        open_chat(
            db,
            server,
            window=SMALL,
            auxiliary_server=auxiliary,
            rules=CompactionRules(timeout_seconds=1.5 if failure == "timeout" else 30),
        ) as long,
    ):
        facts = plant(14)
        await long.talk(90, facts)
        assert auxiliary.requests, "it was never asked"
        assert auxiliary.refusals == []
    assert long.compactions >= 1
    lost = [one.said for missing in long.misses for one in missing]
    assert [said for said in lost if "never" in said or "Always" in said] == []
    assert (server.overflows, server.refusals) == (0, [])
    assert len(long.released) == len(set(long.released))


async def test_a_context_error_of_the_provider_compresses_and_asks_once_more(db: Database, server: ModelServer) -> None:
    async with open_chat(db, server, window=1_000_000) as long:
        await long.talk(120, plant(6))
        assert 1 <= server.overflows <= 4
        assert await rows(db, "SELECT COUNT(*) FROM turns WHERE outcome <> 'answered'") == [(0,)]
        assert [len(missing) for missing in long.misses] == [0] * len(long.misses)


async def test_old_results_become_stubs_that_name_a_file_with_the_whole_text(db: Database) -> None:
    async with ModelServer(otherwise=answer, window_tokens=32_000) as server, open_chat(db, server) as long:
        for number in range(20):
            await long.chat.say(f"release r{number} now")
        shown = [message["content"] for message in server.bodies[-1]["messages"] if message["role"] == "tool"]
        assert server.overflows == 0
    stubs = [json.loads(text) for text in shown if "shortened" in text]
    assert len(stubs) > 5
    for number, stub in enumerate(stubs):
        lines = Path(stub["file"]).read_text().splitlines()
        assert lines[stub["line"] - 1] == f"released r{number}"
    # The store has all of it, for search and export.
    assert await rows(db, "SELECT COUNT(*) FROM messages WHERE role = 'tool' AND length(parts) < 1000") == [(0,)]


async def test_one_long_turn_fits_and_keeps_the_request_word_for_word(db: Database) -> None:
    steps = 40

    def work(body: Mapping[str, Any]) -> Step:
        if is_summary_request(body):
            return say(summarise(body["messages"][-1]["content"]))
        seen.append(body)
        if len(seen) > steps:
            return say("All is done.")
        arguments = json.dumps({"what": f"r{len(seen)}", "notes": "x" * 2_000})
        return ask_for(ScriptedCall(name="release", arguments=arguments, id=f"call_{len(seen)}"))

    seen: list[Mapping[str, Any]] = []
    async with (
        ModelServer(otherwise=work, window_tokens=SMALL) as server,
        open_chat(db, server, window=SMALL, max_iterations=steps + 1) as long,
    ):
        request = "Please release everything from r1 to r40, and mind the order 66-A."
        assert (await long.chat.say(request)).startswith("All is done.")
        assert (server.overflows, server.refusals) == (0, [])
        assert all(any(request in str(m["content"]) for m in body["messages"]) for body in seen)
        assert long.released == [f"r{n}" for n in range(1, steps + 1)]


async def test_when_little_is_saved_the_chat_is_told_once(db: Database, server: ModelServer) -> None:
    async with open_chat(db, server, window=SMALL) as long:
        said = [await long.chat.say("word " * 5_700), await long.chat.say("and now?"), await long.chat.say("and?")]
        assert sum("has saved little" in one for one in said) == 1


async def test_summaries_are_paid_for_like_other_calls(db: Database, server: ModelServer) -> None:
    async with (
        ModelServer(otherwise=answer, models=("small",), window_tokens=SMALL) as auxiliary,
        open_chat(db, server, window=SMALL, auxiliary_server=auxiliary) as long,
    ):
        await long.talk(60, [])
        asked = len(auxiliary.requests)
    assert asked
    assert await rows(db, "SELECT COUNT(*) FROM spending WHERE model = 'small' AND input_tokens > 0") == [(asked,)]


async def test_what_was_summarised_is_still_found(db: Database, server: ModelServer) -> None:
    async with open_chat(db, server, window=SMALL) as long:
        await long.chat.say("the zebra password is on the fridge")
        await long.talk(60, [])
        assert long.compactions
        found = await db.read(lambda tx: find_hits(tx, "zebra"))
        assert len(found) == 1


async def test_consecutive_requests_share_their_beginning_except_at_a_compaction(
    db: Database, server: ModelServer
) -> None:
    async with open_chat(db, server, window=SMALL) as long:
        before, shared, compacted = b"", [], 0
        for number in range(200):
            await long.chat.say(f"release r{number} now" if number % 10 == 3 else f"message {number} about the weather")
            history = await db.read(lambda tx: compactions.count(tx, _session(tx)))
            body = json.dumps(server.bodies[-1]["messages"], ensure_ascii=False).encode()[:-1]  # without its end
            if before and history == compacted:
                common = next((n for n, (a, b) in enumerate(zip(before, body, strict=False)) if a != b), len(before))
                shared.append(common / len(before))
            before, compacted = body, history
            del server.requests[:-1]
        assert compacted >= 1
        assert len(shared) > 180
        assert min(shared) >= 0.95
        assert count_tokens(server.bodies[-1]) < SMALL


def _session(tx: Any) -> str:
    return str(tx.one("SELECT id FROM sessions")["id"])
