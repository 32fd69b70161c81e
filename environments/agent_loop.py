"""One rollout: the loop of every other conversation, without shortening it, since the policy's tokens must stay."""

from dataclasses import replace
from typing import Any, Protocol

from agent_core.conversation import ListJournal, user
from agent_core.conversation import system as system_message
from agent_core.model import Model
from agent_core.result import AgentResult as AgentResult
from agent_core.trajectory import training_prompt
from agent_core.turn import run_turn
from environments.tool_context import RewardContext


class TrainedModel(Model, Protocol):
    """The model that is trained."""

    @property
    def managed_state(self) -> dict[str, Any] | None:
        """Return the sampled tokens as the trainer needs them; None where the server does not tell."""


async def run_rollout(
    policy: TrainedModel,
    prompt: str,
    ctx: RewardContext,
    *,
    system: str | None = None,
    max_turns: int = 30,
    max_result_chars: int = 20_000,
) -> AgentResult:
    """Run the agent on a prompt until it answers, or `max_turns` are used up; raises ModelError."""
    if system is None:
        system = training_prompt(ctx.tools)
    outcome = await run_turn(
        model=policy,
        tools=ctx.tools,
        messages=[*([system_message(system)] if system else []), user(prompt)],
        journal=ListJournal(),
        context=ctx.calling,
        max_iterations=max_turns,
        max_result_chars=max_result_chars,
    )
    return replace(outcome.result, managed_state=policy.managed_state)
