"""A worked environment: count errors in log files with the shell, and write a report that a command checks."""

import random
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any

from agent_core.result import AgentResult
from environments.hermes_base_env import HermesAgentBaseEnv
from environments.task import AgentTask, Item
from environments.tool_context import RewardContext

_LEVELS = ("INFO", "WARNING", "ERROR")
_SERVICES = ("api", "billing", "mail", "search")


class TerminalTask(AgentTask):
    """Write `report.txt` with the number of errors in each log file. The score is the share of lines that are right."""

    name = "terminal-task"
    toolsets = ("terminal",)

    def load_items(self) -> Sequence[Item]:
        chance = random.Random(7)  # noqa: S311  # the same items each time
        return [_make_item(chance) for _ in range(200)]

    def format_prompt(self, item: Item) -> str:
        return (
            "The folder logs holds the log files of some services. Write report.txt with one line for each file, in "
            "order of their names: the name without .log, a space, and how many lines have the level ERROR."
        )

    def files(self, item: Item) -> Mapping[str, str]:
        return {
            f"logs/{name}.log": "".join(f"{level} {name}: step\n" for level in item["levels"][name])
            for name in item["levels"]
        }

    async def compute_reward(self, item: Item, result: AgentResult, ctx: RewardContext) -> float:
        written = (await ctx.terminal("cat report.txt"))["output"].splitlines()
        wanted = [f"{name} {levels.count('ERROR')}" for name, levels in sorted(item["levels"].items())]
        if len(written) > len(wanted):  # or a report with every number in it would be right
            return 0.0
        return fmean(one == other for one, other in zip_longest(written, wanted))


def _make_item(chance: random.Random) -> dict[str, Any]:
    names = chance.sample(_SERVICES, k=chance.randint(2, len(_SERVICES)))
    return {"levels": {name: chance.choices(_LEVELS, k=chance.randint(3, 12)) for name in names}}


class TerminalTaskEnv(TerminalTask, HermesAgentBaseEnv):
    """The environment: `python -m environments.terminal_task process`."""


if __name__ == "__main__":
    TerminalTaskEnv.cli()
