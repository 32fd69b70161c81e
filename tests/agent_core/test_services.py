"""Scripts and batches reach the web and other models as the gateway does."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import AIAgent
from agent_core.events import Event, Usage
from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from playground.model_server import ModelServer
from tests.agent_core.batch.running import BatchModel, BatchRun, serving
from tests.gateway.media import samples
from tests.programs import needs
from tests.tools.hostile_web import LoopbackWeb, loopback_web


def call(name: str, /, **arguments: Any) -> ModelAnswer:
    return ask_for(ScriptedCall(name=name, arguments=json.dumps(arguments)))


def reach(web: LoopbackWeb) -> dict[str, str]:
    """Have the web find its page about tea; return the settings by which it is asked."""
    web.answers = {"/search": {"results": [{"title": "Tea", "url": web.url("/tea"), "content": "About tea"}]}}
    return {"HERMES_WEB__SEARXNG_URL": web.url(""), "HERMES_NETWORK__ALLOWED_ADDRESSES": "127.0.0.1"}


async def test_a_script_searches_reads_looks_and_asks_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tower.jpg").write_bytes(samples.jpeg(64, 48))
    monkeypatch.chdir(tmp_path)
    told: list[Event] = []
    async with loopback_web() as web, ModelServer() as server:
        known = {"OPENAI_API_KEY": server.api_key, "HERMES_MODEL__VISION": "seeing", "HERMES_MOA__MODELS": "one,two"}
        for name, value in (known | reach(web)).items():
            monkeypatch.setenv(name, value)
        server.models = ("playground", "seeing", "one", "two")
        steps = [call("web_search", query="tea"), call("web_extract", urls=[web.url("/tea")])]
        steps += [call("vision_analyze", image="tower.jpg"), say("A lighthouse.")]
        steps += [call("mixture_of_agents", question="Why?"), say("So."), say("So."), say("So it is.")]
        server.script(*steps, say("Leaves."))
        toolsets = ["file", "web", "vision", "moa"]
        agent = AIAgent("playground", base_url=server.url, enabled_toolsets=toolsets, on_event=told.append)
        async with agent:
            result = await agent.run("How is tea made?")
        assert server.refusals == []
    assert result.tool_errors == []
    results = [message["content"] for message in result.messages if message["role"] == "tool"]
    words = ("About tea", "says chapter 2", "A lighthouse.", "So it is.")
    assert all(word in text for word, text in zip(words, results, strict=True))
    assert sum(isinstance(event, Usage) for event in told) == len(server.bodies) == 9
    assert "data:image/jpeg;base64" in json.dumps(server.bodies[3])


@needs("bubblewrap")
async def test_a_batch_searches_the_web_and_runs_code(tmp_path: Path) -> None:
    code = "print([web_search(query='tea')['results'][0]['title'], 6 * 7])"
    tool = ScriptedCall(name="execute_code", arguments=json.dumps({"code": code}))
    async with loopback_web() as web, serving(BatchModel(tool=tool)) as server:
        run = BatchRun(tmp_path, server, prompts=2, arguments=("--toolsets=web,code",))
        ended, told = await run.finish(await run.start(TERMINAL_ENV="sandbox", **reach(web)))
    assert ended == 0, told
    for row in run.rows():
        assert "['Tea', 42]" in row["conversations"][-2]["value"]
