"""A real gateway with a model of a small window, killed while it summarises."""

import json
import os
import signal
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from playground.model_script import Silence, Step, say
from playground.model_server import ModelServer
from tests.gateway.platforms.client import connect
from tests.gateway.turns.long_chat import is_summary_request, summarise
from tests.journeys.gateway_process import gateway, make_home

WINDOW = 8_000
RULES = [f"Never touch server-{number} on Sundays." for number in range(12)]


@pytest.mark.slow  # two starts of a gateway
@pytest.mark.parametrize("dies_at", [1, 2])
async def test_killed_while_it_summarises_the_turn_goes_on_and_no_instruction_is_lost(
    tmp_path: Path, dies_at: int
) -> None:
    asked: list[Mapping[str, Any]] = []
    victim: list[int] = []

    def answer(body: Mapping[str, Any]) -> Step:
        if not is_summary_request(body):
            return say("Noted.")
        asked.append(body)
        if victim and len(asked) == dies_at:
            os.kill(victim.pop(), signal.SIGKILL)
            return Silence()
        return say(summarise(body["messages"][-1]["content"]))

    home = make_home(tmp_path / "home")
    async with ModelServer(otherwise=answer, window_tokens=WINDOW) as server:
        environment = {
            "HERMES_MODEL": "playground",
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": server.api_key,
            "HERMES_MODEL__CONTEXT_TOKENS": str(WINDOW),
        }
        async with gateway(home, environment=environment, ready=True) as first, connect(first.socket) as client:
            victim.append(first.pid)
            sent = await _talk(client, asked)
            await first.end()
        chunks = _count(home)
        async with gateway(home, environment=environment) as second, connect(second.socket) as client:
            await client.say("and now?", message_id="last", chat="main")
            heard = [await _hear_answer(client)]
            while "last" not in heard[-1]["answers"]:
                heard.append(await _hear_answer(client))
        assert (server.overflows, server.refusals) == (0, [])
    assert {one["text"] for one in heard} == {"Noted."}
    assert [given for one in heard for given in one["answers"]] == [str(sent - 1), "last"]
    assert chunks == dies_at - 1
    assert _count(home) >= max(chunks, 1)
    given = json.dumps(server.bodies[-1], ensure_ascii=False)
    assert [rule for rule in RULES[:sent] if rule.rstrip(".") not in given] == []
    with closing(sqlite3.connect(home / "state.db")) as db:
        questions = db.execute("SELECT COUNT(*), COUNT(DISTINCT inbox_id) FROM messages WHERE role = 'user'").fetchone()
        answers = db.execute("SELECT COUNT(*) FROM messages WHERE role = 'assistant'").fetchone()
    assert questions == (sent + 1, sent + 1)
    assert answers == (sent + 1,)


async def _talk(client: Any, asked: list[Mapping[str, Any]]) -> int:
    """Talk until a summary is asked for; return how many messages were sent."""
    for number in range(40):
        rule = RULES[number] if number < len(RULES) else "Go on."
        await client.say(f"{rule} {'blah ' * 500}", message_id=str(number), chat="main")
        try:
            await _hear_answer(client)
        except (ConnectionError, EOFError, AssertionError, ValueError):
            return number + 1
    raise AssertionError("nothing was ever summarised")


async def _hear_answer(client: Any) -> Any:
    while True:
        heard = await client.hear()
        if heard.get("answers"):
            return heard


def _count(home: Path) -> int:
    with closing(sqlite3.connect(home / "state.db")) as db:
        return int(db.execute("SELECT COUNT(*) FROM compactions").fetchone()[0])
