"""A task as a Gymnasium environment: the trainer is the policy, and each step is one of its messages."""

import asyncio
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from agent_core.openai_format import message_to_openai, tool_to_openai
from agent_core.result import AgentResult
from environments.agent_loop import run_rollout
from environments.servers import read_reply
from environments.task import AgentTask, Item, choose_tools
from environments.tool_context import RewardContext, RolloutBackend
from tools.base import Tool


class TextSpace(spaces.Text):
    """Any text up to a length; samples are letters and digits."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


class AtroposEnv(gymnasium.Env[str, str]):
    """Plays rollouts of a task step by step, through the same loop as everywhere.

    An action is a whole message of the policy, with <tool_call> regions; the observation is the text that answers it.
    The reward comes with the last step. It runs an event loop of its own: call it from ordinary code, not from async.
    """

    def __init__(self, task: AgentTask, *, max_turns: int = 30, backend: RolloutBackend = "sandbox") -> None:
        self.action_space = TextSpace(20_000, min_length=0)
        self.observation_space = TextSpace(1_000_000, min_length=0)
        self.task = task
        self.items = task.load_items()
        self.tools = choose_tools(task.toolsets)
        self._max_turns = max_turns
        self._backend: RolloutBackend = backend
        self._runner = asyncio.Runner()
        self._episode: _Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a rollout of a random item, or of `options["item"]`; return the prompt and what goes with it.

        `info` has the system prompt's and the user's `messages`, and the `tools`, both in OpenAI format.
        """
        super().reset(seed=seed)
        self._end_episode()
        number = (options or {}).get("item")
        item = self.items[int(self.np_random.integers(len(self.items))) if number is None else number]
        self._episode = episode = self._runner.run(self._open(item))
        asked = self._runner.run(episode.wait()) or []
        info = {"messages": list(map(message_to_openai, asked)), "tools": list(map(tool_to_openai, self.tools))}
        return asked[-1].text, info

    async def _open(self, item: Item) -> "_Episode":
        ctx = await RewardContext.open(self.tools, self.task.files(item), backend=self._backend)
        return _Episode(self.task, item, ctx, self._max_turns)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send the policy's message. After the last one, everything that the rollout has started is ended."""
        episode = self._episode
        if episode is None:
            raise gymnasium.error.ResetNeeded("The episode is over. Call reset().")
        episode.actions.put_nowait(read_reply(action))
        asked = self._runner.run(episode.wait())
        if asked is not None:
            return "\n".join(one.text for one in asked if one.role != "assistant"), 0.0, False, False, {}
        try:
            result, reward = self._runner.run(episode.score())
        finally:
            self._end_episode()
        info = {"turns_used": result.turns_used, "tool_errors": len(result.tool_errors)}
        return "", reward, result.finished_naturally, not result.finished_naturally, info

    def close(self) -> None:
        self._end_episode()
        self._runner.close()

    def _end_episode(self) -> None:
        episode, self._episode = self._episode, None
        if episode:
            self._runner.run(episode.end())


class _Episode:
    """A rollout that waits for the policy between steps. It is the rollout's model: its replies come from outside."""

    name = "policy"
    managed_state = None

    def __init__(self, task: AgentTask, item: Item, ctx: RewardContext, max_turns: int) -> None:
        self.actions = asyncio.Queue[Message]()
        self._asked = asyncio.Queue[Sequence[Message]]()
        self._seen = 0  # messages
        self._task, self._item, self._ctx = task, item, ctx
        prompt = task.format_prompt(item)
        self._turn = asyncio.create_task(run_rollout(self, prompt, ctx, system=task.system_prompt, max_turns=max_turns))

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        if not may_call:  # the turns are used up: the episode ends without a last word
            return assistant()
        self._asked.put_nowait(messages)
        return await self.actions.get()

    async def wait(self) -> Sequence[Message] | None:
        """Return what is new in the conversation once the policy is asked; None when the rollout has ended."""
        asking = asyncio.create_task(self._asked.get())
        await asyncio.wait({asking, self._turn}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            return None
        messages = asking.result()
        self._seen, before = len(messages), self._seen
        return messages[before:]

    async def score(self) -> tuple[AgentResult, float]:
        result = await self._turn
        return result, float(await self._task.compute_reward(self._item, result, self._ctx))

    async def end(self) -> None:
        self._turn.cancel()
        await asyncio.wait({self._turn})
        await self._ctx.cleanup()
