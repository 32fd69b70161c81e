"""The Gymnasium wrapper: episodes of one message a step, through the real loop."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from agent_core.result import AgentResult, final_text
from environments.task import AgentTask, Item
from environments.tool_context import RewardContext
from tests.environments.serving import in_markup, offline
from tests.environments.test_rollouts import processes_of
from tests.programs import needs

pytestmark = needs("research")

CHECK_BOTH = """
from gymnasium.utils.env_checker import check_env
from environments.atropos.env import AtroposEnv
from environments.terminal_task import TerminalTask
from environments.tool_use_task import ToolUseTask
for task in (TerminalTask(), ToolUseTask()):
    env = AtroposEnv(task, backend="local")
    check_env(env, skip_render_check=True)
    env.close()
"""


class AddTask(AgentTask):
    """Add the numbers in a file; the reward compares the answer with what a command says."""

    name = "add-task"
    toolsets = ("terminal",)

    def load_items(self) -> Sequence[Item]:
        return [{"numbers": list(range(count))} for count in range(2, 30)]

    def format_prompt(self, item: Item) -> str:
        return f"Add the {len(item['numbers'])} numbers in numbers.txt."

    def files(self, item: Item) -> Mapping[str, str]:
        return {"numbers.txt": "\n".join(map(str, item["numbers"]))}

    async def compute_reward(self, item: Item, result: AgentResult, ctx: RewardContext) -> float:
        counted = await ctx.terminal("awk '{sum += $1} END {print sum}' numbers.txt")
        return float(final_text(result.messages) == counted["output"].strip())


@pytest.fixture
def env() -> Iterator["AtroposEnv"]:  # type: ignore[name-defined]  # noqa: F821  # not installed everywhere
    from environments.atropos.env import AtroposEnv

    made = AtroposEnv(AddTask(), backend="local", max_turns=3)
    yield made
    made.close()


def test_the_checker_of_gymnasium_finds_nothing(env) -> None:  # type: ignore[no-untyped-def]
    from gymnasium.utils.env_checker import check_env

    check_env(env, skip_render_check=True)


def test_an_episode_goes_message_by_message_to_its_reward(env) -> None:  # type: ignore[no-untyped-def]
    prompt, info = env.reset(seed=5, options={"item": 2})
    assert prompt == "Add the 4 numbers in numbers.txt."
    assert [message["role"] for message in info["messages"]] == ["system", "user"]
    assert {tool["function"]["name"] for tool in info["tools"]} == {"terminal", "process"}
    start = {"command": "pwd; exec sleep 1000", "background": True}
    seen, reward, terminated, truncated, _ = env.step(in_markup(("", [("terminal", start), ("nonsense", {})])))
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert "session_id" in seen
    assert "There is no tool named 'nonsense'" in seen
    seen, *_ = env.step(in_markup(("", [("terminal", {"command": "pwd; cat numbers.txt"})])))
    folder = Path(re.findall(r"/\S*hermes-rollout-[^/]+", seen)[0])
    assert processes_of(folder)
    seen, reward, terminated, truncated, info = env.step("6")
    assert (seen, reward, terminated, truncated) == ("", 1.0, True, False)
    assert info == {"turns_used": 3, "tool_errors": 1}
    assert not processes_of(folder)
    assert not folder.exists()
    with pytest.raises(Exception, match=r"Call reset\(\)"):
        env.step("6")


def test_an_episode_without_an_answer_is_truncated_and_one_that_is_left_is_ended(env) -> None:  # type: ignore[no-untyped-def]
    env.reset(seed=5)
    look = in_markup(("", [("terminal", {"command": "pwd"})]))
    outcomes = [env.step(look)[1:4] for _ in range(3)]
    assert outcomes == [(0.0, False, False), (0.0, False, False), (0.0, False, True)]
    env.reset(seed=5)
    seen = env.step(in_markup(("", [("terminal", {"command": "pwd; sleep 1000 & disown"})])))[0]
    folder = Path(re.findall(r"/\S*hermes-rollout-[^/]+", seen)[0])
    env.reset()
    assert not processes_of(folder)
    assert not folder.exists()


def test_the_worked_tasks_pass_the_checker_too() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK_BOTH],
        capture_output=True,
        text=True,
        env=offline(),
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
