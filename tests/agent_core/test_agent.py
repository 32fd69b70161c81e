"""The agent as a script uses it."""

import asyncio
import gc
import json
import os
import stat
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent_core.agent import AIAgent
from agent_core.compaction import SECTIONS
from agent_core.conversation import ToolCall, assistant, tool_result, user
from agent_core.events import Event, TextDelta
from agent_core.models import providers
from agent_core.result import tool_names
from agent_core.trajectory import to_sharegpt
from hermes_config import environment
from hermes_config.places import Home
from playground.model_script import say
from playground.model_server import ModelServer
from tests.agent_core.scripted import ScriptedModel
from tools.approval.gate import Question
from tools.backends.base import BackendFailed
from tools.backends.local import LocalBackend
from tools.toolsets import ToolsetError
from tools.workplaces import local_workplace


async def test_chat_is_one_line() -> None:
    assert await AIAgent(enabled_toolsets=["core"]).chat("what is 17 * 23?") == "17 * 23 = 391"


async def test_the_model_may_be_given_first() -> None:
    assert await AIAgent("demo", enabled_toolsets=[]).chat("what is 17 * 23?") == "17 * 23 = 391"


async def test_run_takes_history_system_and_task() -> None:
    model = ScriptedModel([assistant("fine")])
    agent = AIAgent(model=model, enabled_toolsets=[])
    history = [user("how are you?"), assistant("well")]
    result = await agent.run("and now?", history=history, system="Be brief.", task_id="t1")
    assert [message["role"] for message in result.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert result.messages[0]["content"] == "Be brief."
    assert result.finished_naturally


async def test_the_messages_of_a_result_are_the_next_history() -> None:
    agent = AIAgent()
    first = await agent.run("what time is it?")
    model = ScriptedModel([assistant("fine")])
    second = await AIAgent(model=model).run("and now?", history=first.messages, system="Be brief.")
    assert [message["role"] for message in second.messages] == [
        *("system", "user", "assistant", "tool", "assistant"),
        *("user", "assistant"),
    ]
    assert second.messages[0]["content"] == "Be brief."
    assert second.messages[1:5] == first.messages[1:]
    assert [message.tool_name for message in model.asked[0] if message.role == "tool"] == ["clock"]


async def test_a_system_message_among_the_new_ones_is_kept() -> None:
    model = ScriptedModel([assistant("fine")])
    await AIAgent(model=model).run([{"role": "system", "content": "Hurry."}, {"role": "user", "content": "hi"}])
    assert [message.text for message in model.asked[0][1:]] == ["Hurry.", "hi"]


@pytest.mark.parametrize("key_in", ["argument", "env file"])
async def test_a_real_model_is_asked_with_the_key_that_is_there(key_in: str) -> None:
    home = Path(os.environ["HERMES_HOME"])
    home.mkdir(mode=0o700)
    async with ModelServer() as server:
        in_file = "sk-wrong" if key_in == "argument" else server.api_key
        (home / ".env").touch(0o600)
        (home / ".env").write_text(f"OPENAI_API_KEY={in_file}\n")
        server.script(say("Hello"), say("Again"))
        api_key = server.api_key if key_in == "argument" else ""
        async with AIAgent(model="playground", base_url=server.url, api_key=api_key, enabled_toolsets=[]) as agent:
            assert await agent.chat("hi") == "Hello"
            assert await agent.chat("hi") == "Again"
            assert agent.model == "playground"
        assert not server.refusals
        assert len({asked.connection for asked in server.requests}) == 1


async def test_a_key_that_is_given_reaches_a_server_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer() as server:
        server.script(say("Hello"))
        monkeypatch.setattr(providers, "PRESETS", (replace(providers.OLLAMA, base_url=server.url),))
        async with AIAgent(model="playground", base_url=server.url, api_key=server.api_key) as agent:
            assert await agent.chat("hi") == "Hello"


async def test_a_closed_agent_opens_again() -> None:
    async with ModelServer() as server:
        server.script(say("Hello"), say("Again"))
        agent = AIAgent(model="playground", base_url=server.url, api_key=server.api_key, enabled_toolsets=[])
        assert await agent.chat("hi") == "Hello"
        await agent.aclose()
        await agent.aclose()
        assert await agent.chat("hi") == "Again"
        await agent.aclose()


@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning", "ignore:unclosed:ResourceWarning")
def test_one_agent_serves_several_loops_even_when_it_is_never_closed() -> None:
    async def ask(agent: AIAgent | None, port: int) -> AIAgent:
        async with ModelServer(port=port) as server:
            server.script(say("Hello"))
            agent = agent or AIAgent(
                model="playground", base_url=server.url, api_key=server.api_key, enabled_toolsets=[]
            )
            assert await agent.chat("hi") == "Hello"
        return agent

    agent = asyncio.run(ask(None, 0))
    asyncio.run(ask(agent, int(agent.base_url.split(":")[2].split("/")[0])))
    del agent
    gc.collect()  # here, where its warnings are expected


async def test_todos_are_kept_per_task() -> None:
    agent = AIAgent()
    await agent.run("todo: water the plants", task_id="garden")
    garden = await agent.run("what is on my todo list", task_id="garden")
    other = await agent.run("what is on my todo list", task_id="kitchen")
    assert "plants" in garden.messages[-1]["content"]
    assert "empty" in other.messages[-1]["content"]
    assert tool_names(garden.messages) == ["todo"]


async def test_events_and_tool_progress_are_told_unless_quiet() -> None:
    events: list[Event] = []
    tools: list[str] = []
    for quiet in (False, True):
        agent = AIAgent(
            on_event=events.append, tool_progress_callback=lambda name, _: tools.append(name), quiet_mode=quiet
        )
        await agent.chat("what time is it?")
    assert tools == ["clock"]
    assert any(isinstance(event, TextDelta) for event in events)


async def test_an_unknown_toolset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ToolsetError, match="core"):
        await AIAgent(enabled_toolsets=["croe"]).chat("hello")


async def test_trajectories_are_saved_as_they_were(tmp_path: Path) -> None:
    agent = AIAgent(save_trajectories=True, trajectories_dir=tmp_path)
    await agent.chat("what time is it?")
    (row,) = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert row["conversations"] == agent.trajectory()
    assert [turn["from"] for turn in row["conversations"]] == ["system", "human", "gpt", "tool", "gpt"]
    assert (row["model"], row["completed"]) == ("demo", True)


async def test_broken_settings_do_not_cost_the_result_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text("agent: [")
    agent = AIAgent(save_trajectories=True, trajectories_dir=tmp_path, api_key="canary-4711-in-the-mine")
    with capture_logs() as logged:
        result = await agent.run("say canary-4711-in-the-mine and sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")
    assert result.messages
    saved = (tmp_path / "trajectories.jsonl").read_text()
    assert "canary" not in saved  # what it was given itself it knows all the same
    assert "abcdefghijklmnopqrstuvwxyz" not in saved  # and what a secret looks like
    [told] = logged
    assert (told["log_level"], told["event"]) == ("warning", "secrets redacted by pattern only")
    assert "config.yaml" in told["problem"]


async def test_a_trajectory_that_cannot_be_saved_does_not_cost_the_result_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with capture_logs() as logged:
        assert await AIAgent(save_trajectories=True, trajectories_dir=tmp_path / "file").chat("hello")
    assert [(one["log_level"], one["event"]) for one in logged] == [("error", "trajectory not saved")]


async def test_trajectories_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        (tmp_path / "trajectories.jsonl").touch(0o644)
        await AIAgent(save_trajectories=True, trajectories_dir=tmp_path).chat("hello")
        await AIAgent(save_trajectories=True, trajectories_dir=tmp_path, max_iterations=0).chat("hello")
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir() if file.suffix == ".jsonl"}
    assert modes == {"trajectories.jsonl": 0o600, "failed_trajectories.jsonl": 0o600}


def test_a_name_is_looked_up_in_the_environment_and_then_in_the_env_file(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path(os.environ["HERMES_HOME"])
    monkeypatch.delenv("DICE_KEY", raising=False)
    assert environment.lookup("DICE_KEY") == ""
    home.mkdir(mode=0o700)
    (home / ".env").write_text("DICE_KEY='from file'\nBROKEN\n")
    assert environment.lookup("DICE_KEY") == "from file"
    monkeypatch.setenv("DICE_KEY", "from environment")
    assert environment.lookup("DICE_KEY") == "from environment"
    monkeypatch.setenv("DICE_KEY", "")
    assert environment.lookup("DICE_KEY") == ""


def test_a_trajectory_before_the_first_run_is_refused_clearly() -> None:
    with pytest.raises(ValueError, match="no trajectory yet"):
        AIAgent().trajectory()


def test_sharegpt_groups_results_and_keeps_thoughts_and_broken_arguments() -> None:
    calls = (ToolCall(id="1", name="a", arguments='{"x": 1}'), ToolCall(id="2", name="b", arguments="{broken"))
    results = [tool_result(call, "ok") for call in calls]
    turns = to_sharegpt([user("go"), assistant("on it", tool_calls=calls, reasoning="hm"), *results], (), system="S")
    assert [turn["from"] for turn in turns] == ["system", "human", "gpt", "tool"]
    assert turns[0]["value"] == "S"
    assert turns[2]["value"].startswith("<think>\nhm\n</think>\non it\n<tool_call>")
    assert '"arguments": "{broken"' in turns[2]["value"]
    assert turns[3]["value"].count("<tool_response>") == 2


async def test_file_tools_work_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("milk\n")
    read = ToolCall(id="1", name="file_read", arguments='{"path": "notes.txt"}')
    agent = AIAgent(model=ScriptedModel([assistant(tool_calls=(read,)), assistant("done")]), enabled_toolsets=["file"])
    result = await agent.run("what is in my notes?")
    assert json.loads(result.messages[-2]["content"])["content"] == "     1|milk"


async def test_each_task_has_a_shell_of_its_own_which_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = AIAgent(enabled_toolsets=["core"])
    await agent.run("run cd /usr; export A=1", task_id="one")
    last = [
        (await agent.run("run pwd; echo ${A-none}", task_id=task)).messages[-1]["content"] for task in ("one", "two")
    ]
    assert last == ["```\n/usr\n1\n```", f"```\n{tmp_path}\nnone\n```"]


async def test_what_runs_in_the_background_is_the_agents_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = AIAgent(enabled_toolsets=["core"])
    await agent.chat("run sleep 1000 in the background")
    assert await AIAgent(enabled_toolsets=["core"]).chat("what is running?") == "Nothing is running."
    which, _, listed = (await agent.chat("what is running?")).partition(": ")
    assert listed.startswith("sleep 1000 (running")
    assert await agent.chat(f"kill {which}") == f"{which} has ended (exit code 143)."


async def test_neither_other_agents_nor_other_tasks_see_it_wherever_they_work(tmp_path: Path) -> None:
    def agent() -> AIAgent:
        return AIAgent(enabled_toolsets=["core"], workplace=local_workplace(tmp_path, home=Home(tmp_path / "home")))

    mine, other = agent(), agent()
    await mine.run("run sleep 1000 in the background", task_id="one")
    for somebody, task in ((other, "one"), (mine, "two"), (mine, None)):
        told = (await somebody.run("what is running?", task_id=task)).messages[-1]["content"]
        assert told == "Nothing is running."
    which, _, listed = (await mine.run("what is running?", task_id="one")).messages[-1]["content"].partition(": ")
    assert listed.startswith("sleep 1000 (running")
    await mine.run(f"kill {which}", task_id="one")


async def test_a_workplace_of_the_callers_own_is_used_instead(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = local_workplace(tmp_path / "elsewhere", home=Home(tmp_path / "home"))
    write = ToolCall(id="1", name="file_write", arguments='{"path": "a.txt", "content": "x"}')
    agent = AIAgent(model=ScriptedModel([assistant(tool_calls=(write,)), assistant("done")]), workplace=place)
    await agent.run("write a file")
    assert (tmp_path / "elsewhere" / "a.txt").read_text() == "x"


def test_scripts_without_an_event_loop_get_the_same_answers() -> None:
    agent = AIAgent(enabled_toolsets=["core"])
    assert agent.chat_sync("what is 17 * 23?", task_id="t") == "17 * 23 = 391"
    first = agent.run_conversation("what is 2 * 3?", "Be brief.", [], "t")
    assert first["final_response"] == "2 * 3 = 6"
    assert first["api_calls"] == 1
    assert [message["role"] for message in first["messages"]] == ["system", "user", "assistant"]
    second = agent.run_conversation("what is 3 * 3?", conversation_history=first["messages"])
    assert [message["content"] for message in second["messages"]][-2:] == ["what is 3 * 3?", "3 * 3 = 9"]
    assert agent.get_trajectory() == agent.trajectory()
    assert agent.get_trajectory()[-1] == {"from": "gpt", "value": "3 * 3 = 9"}


async def test_inside_an_event_loop_the_synchronous_twins_say_what_to_do() -> None:
    agent = AIAgent()
    with pytest.raises(RuntimeError, match="Await `chat`"):
        agent.chat_sync("hello")
    with pytest.raises(RuntimeError, match="Await `chat`"):
        agent.run_conversation("hello")


@pytest.mark.parametrize("answers_later", [False, True])
@pytest.mark.parametrize("allowed", [False, True])
async def test_the_callback_decides_about_risky_calls(tmp_path: Path, allowed: bool, answers_later: bool) -> None:
    asked: list[str] = []
    (tmp_path / "precious").mkdir()

    async def later() -> bool:
        return allowed

    def approve(question: Question) -> bool | Awaitable[bool]:
        asked.append(question.action)
        return later() if answers_later else allowed

    delete = ToolCall(id="c1", name="terminal", arguments=json.dumps({"command": f"rm -rf {tmp_path}/precious"}))
    model = ScriptedModel([assistant(tool_calls=(delete,)), assistant("done")])
    agent = AIAgent(
        model=model,
        enabled_toolsets=["terminal"],
        approval_callback=approve,
        workplace=local_workplace(tmp_path, home=Home(tmp_path / "home")),
    )
    result = await agent.run("clean up")
    assert len(asked) == 1
    assert "rm -rf" in asked[0]
    assert (tmp_path / "precious").exists() is not allowed
    assert bool(result.tool_errors) is not allowed


async def test_verbose_logging_tells_of_tools_and_tokens_and_of_no_text() -> None:
    with capture_logs() as logs:
        await AIAgent(verbose_logging=True).run("what time is it?")
    assert [entry["tool"] for entry in logs if entry["event"] == "tool started"] == ["clock"]
    assert "what time" not in str(logs)


async def test_a_long_conversation_of_a_script_is_summarised_once_and_returned_whole() -> None:
    summary = "\n".join(f"## {name}\n- noted" for name in SECTIONS)
    history = [message for n in range(300) for message in (user(f"fact-{n} is /data/{n}.csv"), assistant("ok"))]
    model = ScriptedModel([assistant("fine"), assistant("fine again")])
    helper = ScriptedModel([assistant(summary)] * 3, name="helper")
    agent = AIAgent(model=model, auxiliary_model=helper, enabled_toolsets=[])
    first = await agent.run("and now?", history=history)
    summaries = len(helper.asked)
    second = await agent.run("and then?", history=first.messages)
    assert summaries >= 1
    assert len(helper.asked) == summaries
    assert len(model.asked[0]) < 50
    assert model.asked[1][: len(model.asked[0])] == model.asked[0]
    assert len(second.messages) == 1 + 600 + 4


async def test_long_results_that_cannot_be_stored_do_not_cost_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(backend: LocalBackend, text: str) -> str:
        raise BackendFailed("The disk is full.")

    monkeypatch.setattr(LocalBackend, "keep", fail)
    calls = [ToolCall(id=f"call_{n}", name="clock", arguments="{}") for n in range(20)]
    steps = [one for call in calls for one in (assistant(tool_calls=(call,)), tool_result(call, "line\n" * 400))]
    model = ScriptedModel([assistant("fine")])
    helper = ScriptedModel([assistant("")] * 9, name="helper")  # an extract takes the place of its summary
    workplace = local_workplace(tmp_path, home=Home(tmp_path / "home"))
    agent = AIAgent(model=model, auxiliary_model=helper, workplace=workplace, context_tokens=11_000)
    result = await agent.run("and now?", history=[user("read all"), *steps, assistant("done")])
    assert result.finished_naturally
