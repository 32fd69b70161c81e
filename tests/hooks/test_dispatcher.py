"""Hooks that block, raise, exit and flood: nobody waits for them, and three failures in a row switch one off."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hooks.dispatcher import MAX_FAILURES, MAX_WAITING, Hooks, Objection
from hooks.loader import Hook
from tests.hooks.making import write_hook

CONTEXT = {"session_key": "telegram:dm:1", "message": "hello"}
APPEND = """
    from pathlib import Path
    def handle(event_type, context):
        with (Path(__file__).parent / "told").open("a") as file:
            file.write(event_type + " " + context.get("message", "") + "\\n")
"""
BAD = {
    "blocks for ever": "import threading\ndef handle(event_type, context): threading.Event().wait()",
    "spins": "import asyncio\nasync def handle(event_type, context):\n    while True: await asyncio.sleep(0)",
    "raises": "def handle(event_type, context): raise ValueError('no')",
    "raises later": "async def handle(event_type, context): raise ValueError('no')",
    "exits": "import sys\ndef handle(event_type, context): sys.exit(3)",
    "exits later": "import sys\nasync def handle(event_type, context): sys.exit(3)",
    "exits at import": "import sys\nsys.exit(3)\ndef handle(event_type, context): ...",
    "is cancelled": "import asyncio\nasync def handle(event_type, context): raise asyncio.CancelledError",
    "wrong signature": "def handle(): ...",
}


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def told(hook: Hook) -> list[str]:
    file = hook.folder / "told"
    return file.read_text().splitlines() if file.exists() else []


async def test_a_hook_is_told_in_order_what_it_asked_for(tmp_path: Path) -> None:
    hook = write_hook(tmp_path / "tell", APPEND, events="agent:*")
    hooks = Hooks([hook])
    for event in ("agent:start", "command:new", "agent:end"):
        hooks.emit(event, CONTEXT)
    await hooks.finish(20)
    assert told(hook) == ["agent:start hello", "agent:end hello"]
    assert hooks.wants("agent:step")
    assert not hooks.wants("tool:before")
    assert hooks.want_more_than("tool:before")


async def test_each_hook_has_a_copy_of_the_context(tmp_path: Path) -> None:
    first = write_hook(tmp_path / "first", "def handle(event_type, context): context.clear()")
    second = write_hook(tmp_path / "second", APPEND)
    hooks = Hooks([first, second])
    hooks.emit("agent:end", CONTEXT)
    await hooks.finish(20)
    assert told(second) == ["agent:end hello"]
    assert CONTEXT["message"] == "hello"


async def test_secrets_are_hidden_from_hooks(tmp_path: Path) -> None:
    hook = write_hook(tmp_path / "tell", APPEND)
    hooks = Hooks([hook], clean=lambda context: context | {"message": "***"})
    hooks.emit("agent:end", CONTEXT)
    await hooks.finish(20)
    assert told(hook) == ["agent:end ***"]


@pytest.mark.parametrize("handler", BAD.values(), ids=BAD.keys())
async def test_a_bad_hook_disturbs_nobody_and_is_switched_off(tmp_path: Path, handler: str) -> None:
    bad = write_hook(tmp_path / "bad", handler, timeout=0.1, events="*")
    good = write_hook(tmp_path / "good", APPEND)
    hooks = Hooks([bad, good])
    for number in range(MAX_FAILURES + 2):
        began = time.thread_time()
        hooks.emit("agent:end", CONTEXT | {"message": str(number)})
        assert time.thread_time() - began < 0.05
    await until(lambda: hooks.state()["bad"]["off"])
    await until(lambda: len(told(good)) == MAX_FAILURES + 2)
    state = hooks.state()["bad"]
    assert (state["failures"], state["runs"]) == (MAX_FAILURES, MAX_FAILURES)
    assert state["problem"].startswith("agent:end: ")
    assert not hooks.state()["good"]["problem"]
    assert not hooks.wants("tool:before")  # it is not asked any more, either


async def test_a_loop_without_end_is_broken_off(tmp_path: Path) -> None:
    """Left behind it would take its share of the interpreter from every chat, until the next start."""
    loop = "def handle(event_type, context):\n    while True: pass"
    hooks = Hooks([write_hook(tmp_path / "loop", loop, timeout=0.1, events="*")])
    assert await asyncio.gather(*(hooks.object_to(CONTEXT) for _ in range(MAX_FAILURES))) == [None] * 3
    await until(lambda: hooks.state()["loop"]["off"])
    assert hooks.state()["loop"]["problem"] == "tool:before: took longer than 0.1 s"
    await until(lambda: all(thread.name != "hook loop" for thread in threading.enumerate()))


async def test_a_handler_that_computes_lets_others_in_often(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)  # as Python begins
    hooks = Hooks([write_hook(tmp_path / "good", APPEND, events="*")])
    try:
        await hooks.object_to(CONTEXT)
        assert sys.getswitchinterval() < 0.001
    finally:
        sys.setswitchinterval(before)


async def test_one_that_waits_for_ever_is_left_alone(tmp_path: Path) -> None:
    """An exception that it never takes would have every thread look for it: one that is profiled never begins."""
    waits = "import threading\ndef handle(event_type, context): threading.Event().wait()"
    hooks = Hooks([write_hook(tmp_path / "waits", waits, timeout=0.1, events="*")])
    assert await hooks.object_to(CONTEXT) is None
    threading.setprofile(lambda frame, event, argument: None)
    try:
        other = threading.Thread(target=lambda: None, daemon=True)
        other.start()
    finally:
        threading.setprofile(None)
    await asyncio.to_thread(other.join, 20)
    assert not other.is_alive()


async def test_failures_that_are_not_in_a_row_do_not_count(tmp_path: Path) -> None:
    hook = write_hook(
        tmp_path / "moody", "def handle(event_type, context):\n    assert int(context['message']) % 3, 'every third'"
    )
    hooks = Hooks([hook])
    for number in range(10):
        hooks.emit("agent:end", CONTEXT | {"message": str(number)})
    await hooks.finish(20)
    state = hooks.state()["moody"]
    assert (state["off"], state["runs"]) == (False, 10)
    assert "every third" in state["problem"]
    assert "handler.py line 2" in state["problem"]


async def test_a_slow_hook_loses_events_and_the_list_counts_them(tmp_path: Path) -> None:
    hook = write_hook(tmp_path / "slow", command="sleep 0.5")
    hooks = Hooks([hook])
    for _ in range(MAX_WAITING + 50):
        hooks.emit("agent:end", CONTEXT)
    await until(lambda: hooks.state()["slow"]["dropped"] >= 49)


async def test_a_command_gets_the_event_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    hook = write_hook(tmp_path / "tell", command="sh -c 'cat > told; env > environment'")
    hooks = Hooks([hook])
    hooks.emit("agent:end", CONTEXT)
    await hooks.finish(20)
    assert json.loads((hook.folder / "told").read_text()) == {"event": "agent:end", "context": CONTEXT}
    environment = (hook.folder / "environment").read_text()
    assert "HERMES_EVENT=agent:end" in environment
    assert "sk-secret" not in environment


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("sh -c 'echo oops >&2; exit 3'", "ended with exit code 3: oops"),
        ("sh -c 'sleep 100 & wait'", "took longer than 0.3 s"),
        ("sh -c 'yes & yes >&2'", "printed more than 64,000 bytes"),
        ("no-such-program", "no-such-program: no such file or directory"),
    ],
    ids=["fails", "hangs", "floods", "is not there"],
)
async def test_a_bad_command_is_killed_with_its_children(tmp_path: Path, command: str, problem: str) -> None:
    hook = write_hook(tmp_path / "bad", command=command, timeout=0.3)
    hooks = Hooks([hook])
    hooks.emit("agent:end", CONTEXT)
    await hooks.finish(20)
    assert hooks.state()["bad"]["problem"] == f"agent:end: {problem}"
    assert not [line for line in Path("/proc").glob("[0-9]*/cwd") if _links_to(line, hook.folder)], (
        "a process of the hook is left"
    )


def _links_to(link: Path, folder: Path) -> bool:
    try:
        return link.resolve() == folder
    except OSError:
        return False


async def test_a_command_may_leave_a_child_that_does_not_share_its_output(tmp_path: Path) -> None:
    hook = write_hook(tmp_path / "tell", command="sh -c 'sleep 1 >/dev/null 2>&1 & true'", timeout=30)
    hooks = Hooks([hook])
    hooks.emit("agent:end", CONTEXT)
    await hooks.finish(20)
    assert not hooks.state()["tell"]["problem"]


VETO = """
    def handle(event_type, context):
        if 'rm' in context['arguments']:
            return {'decision': 'block', 'reason': 'no'}
"""


async def test_a_veto_names_the_hook_and_the_reason(tmp_path: Path) -> None:
    hooks = Hooks(
        [
            write_hook(tmp_path / "watch", APPEND, events="tool:before"),
            write_hook(tmp_path / "veto", VETO, events="tool:before"),
            write_hook(
                tmp_path / "script",
                events="tool:before",
                command="""sh -c 'grep -q shred && echo {\\"decision\\":\\"block\\"}; true'""",
            ),
        ]
    )
    assert await hooks.object_to({"tool": "terminal", "arguments": "ls"}) is None
    assert await hooks.object_to({"tool": "terminal", "arguments": "rm x"}) == Objection(hook="veto", reason="no")
    assert await hooks.object_to({"tool": "terminal", "arguments": "shred"}) == Objection(
        hook="script", reason="no reason was given"
    )


@pytest.mark.parametrize("answer", ["None", "'block'", "{'decision': 'allow'}", "{'reason': 'x'}", "['block']", "1"])
async def test_any_other_answer_is_no_objection(tmp_path: Path, answer: str) -> None:
    handler = f"def handle(event_type, context): return {answer}"
    hooks = Hooks([write_hook(tmp_path / "veto", handler, events="tool:before")])
    assert await hooks.object_to({"tool": "terminal", "arguments": "rm"}) is None


async def test_a_veto_that_hangs_is_waited_for_three_times_at_most(tmp_path: Path) -> None:
    hooks = Hooks([write_hook(tmp_path / "veto", BAD["blocks for ever"], events="tool:before", timeout=0.1)])
    for _ in range(MAX_FAILURES):
        assert await hooks.object_to({"tool": "terminal", "arguments": "rm"}) is None
    assert hooks.state()["veto"]["off"]
    assert not hooks.wants("tool:before")


async def test_without_hooks_there_is_no_thread() -> None:
    before = threading.active_count()
    hooks = Hooks()
    hooks.emit("agent:end", CONTEXT)
    assert await hooks.object_to({}) is None
    await hooks.finish(1)
    assert threading.active_count() == before
