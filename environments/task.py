"""A task that a policy learns: items, prompts and rewards. It knows neither trainer nor model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import structlog

from agent_core.result import AgentResult
from environments.tool_context import RewardContext
from tools.base import Tool
from tools.loading import load_builtin
from tools.toolsets import select

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

Item = Mapping[str, Any]
"""One item of a task: plain values, all that prompt and reward need."""


class AgentTask(ABC):
    """One kind of task. Derive from it, and from `HermesAgentBaseEnv` to train on it with Atropos."""

    toolsets: ClassVar[Sequence[str]] = ()  # empty: the default ones, with a warning
    system_prompt: ClassVar[str | None] = None  # None: the agent's own

    @abstractmethod
    def load_items(self) -> Sequence[Item]:
        """Return all items, always in the same order; the last ones are held out for evaluation."""

    @abstractmethod
    def format_prompt(self, item: Item) -> str:
        """Return the user's message that begins a rollout."""

    @abstractmethod
    async def compute_reward(self, item: Item, result: AgentResult, ctx: RewardContext) -> float:
        """Return the score of a finished rollout. `ctx` is its own sandbox, as the policy has left it."""

    def files(self, item: Item) -> Mapping[str, str]:
        """Return the files of the workspace when the rollout begins, by relative path."""
        return {}


def choose_tools(enabled: Sequence[str], disabled: Sequence[str] = ()) -> Sequence[Tool]:
    """Return the policy's tools; raises ToolsetError."""
    if not enabled:
        log.warning(
            "toolsets are not restricted: the policy gets all default tools. Name those of the task, or choose with "
            "--env.enabled_toolsets"
        )
    return select(load_builtin(), enabled or ("core",), disabled, has_workplace=True)
