"""Whatever stands in examples/ works as it is."""

import asyncio
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import ANY

import pytest

from gateway.messages import Address, InboundMessage, OutboundMessage, Text
from gateway.platforms.base import Inlet, Platform
from hooks.events import make_example
from hooks.loader import load_hook
from hooks.running import open_hook
from tools.base import ToolContext
from tools.registry import Registry, registry

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_tool_rolls_a_die() -> None:
    before = registry.snapshot()
    try:
        load("dice")
        tool = next(tool for tool in registry if tool.name == "roll")
        assert await tool.run('{"sides": 2}', ToolContext(task_id="t")) in ({"rolled": 1}, {"rolled": 2})
    finally:
        registry.restore(before)
    assert isinstance(registry, Registry)


def test_the_script_answers() -> None:
    script = [sys.executable, str(EXAMPLES / "script.py"), "what is 6 * 7?"]
    run = subprocess.run(script, capture_output=True, text=True, check=True, cwd=EXAMPLES.parent)
    assert run.stdout == "6 * 7 = 42\n"


async def test_the_platform_takes_lines_and_sends_replies() -> None:
    lines, written, taken = asyncio.StreamReader(), list[str](), list[InboundMessage]()
    platform: Platform = load("echo_platform").EchoPlatform(lines, written.append)

    async def accept(messages: list[InboundMessage], cursor: object) -> None:
        taken.extend(messages)

    async def nothing(*_: object) -> None: ...

    inlet = Inlet(
        accept=accept,  # type: ignore[arg-type]
        cursor=nothing,  # type: ignore[arg-type]
        cursors=nothing,  # type: ignore[arg-type]
        alive=lambda: None,
        chat_reachable=nothing,
        chat_moved=nothing,
    )
    lines.feed_data(b"hello\nworld\n")
    lines.feed_eof()
    await platform.run(inlet)
    assert [message.text for message in taken] == ["hello", "world"]
    assert len({message.message_id for message in taken}) == 2
    reply = OutboundMessage(key="k", address=Address(account="echo", chat="main"), parts=(Text(text="hi"),))
    assert (await platform.send(reply)).message_id == "1"
    assert written == ["hi"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("tell_me", None),
        ("count_commands", None),
        ("to_file", None),
        ("no_deleting", {"decision": "block", "reason": ANY}),
    ],
)
async def test_each_hook_handles_its_events(tmp_path: Path, name: str, answer: object) -> None:
    shutil.copytree(EXAMPLES / "hooks" / name, tmp_path / name)
    hook = load_hook(tmp_path / name)
    assert hook.problem == ""
    run = open_hook(hook)
    for pattern in hook.events:
        event, context = make_example(pattern)
        context |= {"arguments": '{"command": "rm -r x"}'} if "arguments" in context else {}
        assert await run(event, context) == answer
    written = {path.name for path in (tmp_path / name).iterdir()} - {"HOOK.yaml", "handler.py", "__pycache__"}
    assert bool(written) is (answer is None)
