"""`hermes acp` driven by the official TypeScript SDK."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from playground.model_script import say
from playground.model_server import ModelServer
from tests import mcp_servers
from tests.hermes_cli.editor.desk import PATIENCE_SECONDS, ROOT, call, write_config
from tests.journeys.test_mcp import ROUGH
from tests.programs import needs

# Starts three processes, one after the other.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

HOOK = ".git/hooks/pre-commit"


@needs("nodejs")
@needs(mcp_servers.NAME)
async def test_an_editor_of_the_typescript_sdk(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "proj"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / "notes.txt").write_text("milk\n")
    async with ModelServer() as model:
        monkeypatch.setenv("OPENAI_API_KEY", model.api_key)
        write_config(model, home)
        model.script(
            call("file_patch", "c0", path="notes.txt", old_string="milk", new_string="bread"),
            say("Bread ", "it is.", reasoning="They want bread."),
            call("file_write", "c1", path=HOOK, content="echo 1\n"),
            say("Not written."),
            call("file_write", "c2", path=HOOK, content="echo 2\n"),
            say("Written."),
            call("terminal", "c3", command="sleep 600"),
            say("Here."),
            call("mcp_rough_echo", "c4", text="from TypeScript"),
            say("Used."),
        )
        server = {"name": "rough", "command": sys.executable, "args": [str(ROUGH), "works"], "env": []}
        process = await asyncio.create_subprocess_exec(
            "node",
            str(Path(__file__).with_name("editor.mjs")),
            str(mcp_servers.ACP_SDK),
            str(folder),
            json.dumps(server),
            *(sys.executable, "-m", "hermes_cli", "acp"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env=os.environ,
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            output, problems = await process.communicate()
    assert (process.returncode, problems.decode()) == (0, "")
    report = json.loads(output)
    assert report["stops"] == ["end_turn", "end_turn", "end_turn", "cancelled", "end_turn", "end_turn"]
    first, second = report["first"], report["second"]
    edit = next(one for one in first if one.get("toolCallId") == "c0")
    assert (edit["kind"], edit["content"]) == (
        "edit",
        [{"type": "diff", "path": f"{folder}/notes.txt", "oldText": "milk\n", "newText": "bread\n"}],
    )
    assert "agent_thought_chunk" in [one["sessionUpdate"] for one in first]
    assert "Bread it is." in "".join(
        one["content"]["text"] for one in first if one["sessionUpdate"] == "agent_message_chunk"
    )
    assert [one["toolCallId"] for one in report["asked"]] == ["c1", "c2"]
    assert (folder / HOOK).read_text() == "echo 2\n"
    replayed = [one["content"]["text"] for one in second if one["sessionUpdate"] == "user_message_chunk"]
    assert replayed == ["more bread", "write the hook", "do write it", "wait"]
    said = [one["content"]["text"] for one in second if one["sessionUpdate"] == "agent_message_chunk"]
    assert said[-2:] == ["Here.", "Used."]
    used = [one for one in second if one.get("toolCallId") == "c4"]
    assert "echo: from TypeScript" in str(used[-1]["content"])
    can = report["can"]
    assert can["mcpCapabilities"] == {"http": True}
    assert sorted(can["sessionCapabilities"]) == ["close", "list", "resume"]
    assert [(one["cwd"], one["title"]) for one in report["listed"]] == [(str(folder), "more bread")]
