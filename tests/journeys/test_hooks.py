"""A gateway with hooks that record, block for ever, raise, exit, flood and veto: the chat goes on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gateway.platforms.client import Client
from tests.hooks.making import write_hook
from tests.journeys.gateway_process import ROOT, make_home
from tests.journeys.test_output import connect_when_ready, gateway, stop

RECORD = """
    import json
    from pathlib import Path

    async def handle(event_type, context):
        with (Path(__file__).parent / "told.jsonl").open("a") as file:
            file.write(json.dumps([event_type, context]) + "\\n")
"""
VETO = """
    def handle(event_type, context):
        if "forbidden" in context["arguments"]:
            return {"decision": "block", "reason": "forbidden things are not written down"}
"""


def write_hooks(folder: Path) -> None:
    write_hook(folder / "record", RECORD, events="*")
    write_hook(folder / "veto", VETO, events="tool:before")
    write_hook(
        folder / "blocks",
        "import threading\ndef handle(event_type, context): threading.Event().wait()",
        events="*",
        timeout=0.2,
    )
    write_hook(folder / "raises", "def handle(event_type, context): 1 / 0", events="*")
    write_hook(folder / "exits", "import sys\ndef handle(event_type, context): sys.exit(1)", events="*")
    write_hook(folder / "floods", events="*", timeout=0.5, command="sh -c 'yes & yes >&2'")
    (folder / "no_handler").mkdir()
    (folder / "no_handler" / "HOOK.yaml").write_text("events: [agent:end]")
    (folder / "broken").mkdir()
    (folder / "broken" / "HOOK.yaml").write_text("name: broken\nevents: [agent:end\n")


def read_told(home: Path) -> list[tuple[str, dict[str, Any]]]:
    file = home / "hooks" / "record" / "told.jsonl"
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.05)


async def ask(client: Client, number: int, text: str) -> str:
    await client.say(text, message_id=str(number))
    return str((await client.hear())["text"])


def list_hooks(home: Path) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "hermes_cli", "hooks", "list", "--json"]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "HERMES_HOME": str(home)}
    )
    return {row["name"]: row for row in json.loads(run.stdout)}


async def test_the_chat_goes_on_whatever_hooks_do(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    write_hooks(home / "hooks")
    async with gateway(home, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL) as process:
        async with connect_when_ready(home, process) as client:
            assert "42" in await ask(client, 1, "what is 6 * 7?")
            assert "forbidden things are not written down" in await ask(client, 2, "todo: a forbidden thing")
            assert "plants" in await ask(client, 3, "todo: water the plants")
            assert "Model:" in await ask(client, 4, "/status")
            await ask(client, 5, "/new")
            assert "42" in await ask(client, 6, "what is 6 * 7?")
            bad = ("blocks", "raises", "exits", "floods")
            await until(lambda: all(list_hooks(home)[name]["state"] == "failed" for name in bad))
            await until(lambda: [event for event, _ in read_told(home)].count("agent:end") == 4)
            listed = list_hooks(home)
            assert "took longer than 0.2 s" in listed["blocks"]["problem"]
            assert "ZeroDivisionError: division by zero (handler.py line 1)" in listed["raises"]["problem"]
            assert "SystemExit" in listed["exits"]["problem"]
            assert "printed more than 64,000 bytes" in listed["floods"]["problem"]
            assert listed["broken"]["problem"].startswith(f"{home}/hooks/broken/HOOK.yaml line ")
            assert "there is neither handler.py nor a `command:`" in listed["no_handler"]["problem"]
            assert {listed[name]["state"] for name in ("record", "veto")} == {"on"}
        assert await stop(process) == 0
    events = [event for event, _ in read_told(home)]
    assert events[0] == "gateway:startup"
    assert events[-1] == "gateway:shutdown"
    by_name = dict(read_told(home))
    for name in ("session:start", "session:end", "session:reset", "agent:start", "command:status", "command:new"):
        assert name in by_name, name
    assert by_name["session:reset"]["reason"] == "new"
    assert events.count("session:start") == 2
    steps = [context for event, context in read_told(home) if event == "agent:step"]
    assert [step["tool_names"] for step in steps] == [["todo"], ["todo"]]
    assert "plants" in steps[1]["results"][0]
    ends = [context for event, context in read_told(home) if event == "agent:end"]
    assert [(end["message"], end["outcome"]) for end in ends][:1] == [("what is 6 * 7?", "answered")]
    assert "42" in ends[0]["response"]
    before = [context for event, context in read_told(home) if event == "tool:before"]
    assert [(one["tool"], one["platform"]) for one in before] == [("todo", "socket")] * 2
