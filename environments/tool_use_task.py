"""A worked environment: find an order in files with the file tools, and name it."""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_core.result import AgentResult, final_text, tool_names
from environments.hermes_base_env import HermesAgentBaseEnv
from environments.task import AgentTask, Item
from environments.tool_context import RewardContext

_CUSTOMERS = ("Ada", "Grace", "Katherine", "Margaret")
_MONTHS = ("january", "february", "march")
_ANSWER = re.compile(r"^Answer:\s*(\S+)\s*$", re.M)


class ToolUseTask(AgentTask):
    """Name the most expensive order of a customer. The score is 1 for a right answer, less for failed calls.

    An answer that was guessed, or given more than once, scores 0.
    """

    name = "tool-use-task"
    toolsets = ("file",)

    def load_items(self) -> Sequence[Item]:
        chance = random.Random(11)  # noqa: S311  # the same items each time
        return [_make_item(chance) for _ in range(200)]

    def format_prompt(self, item: Item) -> str:
        return (
            f"The files orders/*.csv list orders as id,customer,amount. Which order of {item['customer']} has the "
            "highest amount? End your answer with a line: Answer: <id>"
        )

    def files(self, item: Item) -> Mapping[str, str]:
        return {
            f"orders/{month}.csv": "id,customer,amount\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
            for month, rows in item["orders"].items()
        }

    async def compute_reward(self, item: Item, result: AgentResult, ctx: RewardContext) -> float:
        orders = [row for rows in item["orders"].values() for row in rows if row[1] == item["customer"]]
        right = max(orders, key=lambda row: row[2])[0]
        if _ANSWER.findall(final_text(result.messages)) != [right] or not tool_names(result.messages):
            return 0.0
        return max(0.5, 1.0 - 0.1 * len(result.tool_errors))


def _make_item(chance: random.Random) -> dict[str, Any]:
    ids, amounts = chance.sample(range(1000, 9999), k=24), chance.sample(range(10, 900), k=24)
    rows = [
        [f"A{number}", _CUSTOMERS[place % len(_CUSTOMERS)], amount]
        for place, (number, amount) in enumerate(zip(ids, amounts, strict=True))
    ]
    orders = {month: rows[place :: len(_MONTHS)] for place, month in enumerate(_MONTHS)}
    return {"customer": chance.choice(_CUSTOMERS), "orders": orders}


class ToolUseTaskEnv(ToolUseTask, HermesAgentBaseEnv):
    """The environment: `python -m environments.tool_use_task process`."""


if __name__ == "__main__":
    ToolUseTaskEnv.cli()
