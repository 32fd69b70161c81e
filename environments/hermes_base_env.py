"""The base of environments for Atropos: `serve`, `process` and `evaluate` over the agent's own loop."""

import asyncio
import signal
import sys
import time
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import structlog
from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataGroup
from pydantic import BeforeValidator, Field

from agent_core.model import ModelError
from agent_core.models.providers import choose
from agent_core.openai_format import conversation_from_openai
from agent_core.result import AgentResult
from agent_core.trajectory import InputRefused, to_sharegpt
from environments.agent_loop import TrainedModel, run_rollout
from environments.servers import UNTRAINED, ChatPolicy, TokenPolicy, describe, rl_test_inference, tokenize_chat
from environments.task import AgentTask, Item, choose_tools
from environments.tool_context import RewardContext, RolloutBackend
from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.places import Home
from tools.backends.base import BackendFailed
from tools.toolsets import ToolsetError
from tools.workplaces import sandbox_fix, sandbox_problem

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_FAILED_GROUPS = 3  # in a row; then the endpoint, not the item, is at fault
NO_KEY = "none"  # the client insists on one; servers at home ignore it
_ROLES = {"system": "system", "human": "user", "gpt": "assistant", "tool": "tool"}


Names = Annotated[
    list[str], BeforeValidator(lambda given: given.replace(",", " ").split() if isinstance(given, str) else given)
]


class HermesAgentEnvConfig(BaseEnvConfig):
    """The settings of an environment: atroposlib's, and those of the agent."""

    use_wandb: bool = Field(default=False, description="Send metrics and rollouts to Weights & Biases")
    tokenizer_name: str = Field(default="", description="Folder or name of the policy's own tokenizer")
    enabled_toolsets: Names = Field(default=[], description="Toolsets, with commas; empty: those of the task")
    disabled_toolsets: Names = Field(default=[], description="Toolsets to leave out, with commas")
    max_agent_turns: int = Field(default=30, ge=1, description="Model calls with tools in one rollout")
    agent_temperature: float = Field(default=1.0, ge=0, description="Sampling temperature; evaluation uses 0")
    max_result_chars: int = Field(default=20_000, ge=100, description="Longest tool result; its middle is cut out")
    held_out_items: int = Field(default=8, ge=0, description="Items at the end that are only for evaluation")
    terminal_backend: RolloutBackend = Field(
        default="sandbox", description="Where rollouts run; local only where the machine itself is disposable"
    )


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    """A finished rollout with its reward, and its tokens as the trainer takes them."""

    result: AgentResult
    score: float
    chat: list[dict[str, str]]  # for reading
    tokens: list[int]
    mask: list[int]
    logprobs: list[float] | None = None  # phase 2 only


class HermesAgentBaseEnv(AgentTask, BaseEnv):
    """An environment: derive from it and add what `AgentTask` asks for.

    Each rollout has a sandbox of its own, and everything in it is ended with it. Conversations are never shortened.
    """

    name = "hermes-agent"
    env_config_cls = HermesAgentEnvConfig

    @classmethod
    def config_init(cls) -> tuple[HermesAgentEnvConfig, list[Any]]:
        """Return the settings that the command line overrides. The health check would ask for a token each second."""
        # Without a name the trajectory API refuses to register it.
        config = cls.env_config_cls(wandb_name=cls.name, data_dir_to_save_evals=f"data/{cls.name}-eval")
        return config, [APIServerConfig(api_key=None, health_check=False)]

    def __init__(self, config: HermesAgentEnvConfig, server_configs: Any, slurm: bool = False, testing: bool = False):
        warnings.filterwarnings("ignore", message="vLLM is not installed")  # we parse calls ourselves
        _check_tokenizer_name(config.tokenizer_name)
        given = server_configs if isinstance(server_configs, list) else [server_configs]
        try:
            super().__init__(config, [_complete(server, config) for server in given], slurm, testing)
        except OSError as error:
            raise InputRefused(
                f"The tokenizer {config.tokenizer_name!r} cannot be loaded. Name a folder that holds one, or one that "
                "the Hugging Face hub knows: --env.tokenizer_name."
            ) from error
        if not getattr(self.tokenizer, "chat_template", None):
            raise InputRefused(f"The tokenizer {config.tokenizer_name!r} has no chat template, and needs one.")
        self.server.tool_parser = "hermes"  # has the template show the tools to the policy
        self.has_tokens = given[0].server_type != "openai"
        enabled = config.enabled_toolsets or self.toolsets
        self.policy_tools = choose_tools(enabled, config.disabled_toolsets)
        self._failed_groups = 0
        self._eval_metrics: dict[str, float] = {}

    async def setup(self) -> None:
        if self.config.terminal_backend == "sandbox" and (problem := await asyncio.to_thread(sandbox_problem)):
            raise InputRefused(f"{problem} {await asyncio.to_thread(sandbox_fix)}".strip())
        for server in self.server.servers:
            await rl_test_inference(server)
        items = self.load_items()
        kept = len(items) - min(self.config.held_out_items, len(items) - 1)
        self.held_out = items[kept:]
        self._items = cycle(items[:kept])

    async def register_env(self) -> None:
        try:
            await super().register_env()
        except Exception as error:  # whatever its client raises, wrapped in retries
            raise InputRefused(
                f"The trajectory API {self.config.rollout_server_url} did not take the environment "
                f"({describe(error)}). Start it with `run-api`, or correct --env.rollout_server_url."
            ) from error

    async def get_next_item(self) -> Item:
        return next(self._items)

    async def collect_trajectories(self, item: Item) -> tuple[Any, list[Item]]:
        """Run a group of rollouts. One that fails for its server leaves nothing to compare: the group is dropped."""
        running = (self.run_item(item) for _ in range(self.config.group_size))
        done = await asyncio.gather(*running, return_exceptions=True)
        if failures := [one for one in done if isinstance(one, BaseException)]:
            self._failed_groups += 1
            wrong = next((one for one in failures if not isinstance(one, ModelError | BackendFailed)), None)
            if wrong or self._failed_groups >= MAX_FAILED_GROUPS:
                raise wrong or failures[0]
            log.warning("group dropped", problem=str(failures[0]))
            return None, []
        self._failed_groups = 0
        rollouts = [one for one in done if isinstance(one, ScoredRollout)]
        group = ScoredDataGroup(
            tokens=[one.tokens for one in rollouts],
            masks=[one.mask for one in rollouts],
            scores=[one.score for one in rollouts],
        )
        if self.has_tokens:
            group["inference_logprobs"] = [one.logprobs for one in rollouts]
        if self.config.include_messages:
            group["messages"] = [one.chat for one in rollouts]
        return group, []

    async def run_item(self, item: Item, *, evaluating: bool = False) -> ScoredRollout:
        """Run and score one rollout; raises ModelError and BackendFailed. Nothing of it is left afterwards."""
        sampling = {
            "temperature": 0.0 if evaluating else self.config.agent_temperature,
            "max_tokens": self.config.max_token_length,
            "split": "eval" if evaluating else "train",
        }
        limits = {"max_turns": self.config.max_agent_turns, "max_result_chars": self.config.max_result_chars}
        backend = self.config.terminal_backend
        async with await RewardContext.open(self.policy_tools, self.files(item), backend=backend) as ctx:
            async with self._open_policy(sampling) as policy:
                prompt = self.format_prompt(item)
                result = await run_rollout(policy, prompt, ctx, system=self.system_prompt, **limits)
            score = float(await self.compute_reward(item, result, ctx))
        return self._score(result, score)

    @asynccontextmanager
    async def _open_policy(self, sampling: dict[str, Any]) -> AsyncGenerator[TrainedModel]:
        if not self.has_tokens:
            yield ChatPolicy(self.server, sampling)
            return
        async with self.server.managed_server(tokenizer=self.tokenizer) as managed:
            yield TokenPolicy(managed, self.tokenizer, sampling)

    def _score(self, result: AgentResult, score: float) -> ScoredRollout:
        messages = conversation_from_openai(result.messages)
        system = messages[0].text if messages[0].role == "system" else ""
        turns = to_sharegpt(messages, self.policy_tools, system=system)
        chat = [{"role": _ROLES[turn["from"]], "content": turn["value"]} for turn in turns if turn["value"]]
        if result.managed_state is None:
            return ScoredRollout(result, score, chat, *tokenize_chat(self.tokenizer, chat))
        *earlier, node = result.managed_state["nodes"]
        if earlier:
            log.warning("the chat template rewrites earlier turns, so only what follows the last change is trained")
        return ScoredRollout(result, score, chat, node.tokens, node.masked_tokens, node.logprobs)

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Run the held-out items at temperature 0; write metrics and samples."""
        if not self.held_out:
            log.warning("no item is held out, so there is nothing to evaluate")
            return
        places = asyncio.Semaphore(self.config.max_eval_workers)

        async def run(item: Item) -> ScoredRollout:
            async with places:
                return await self.run_item(item, evaluating=True)

        began = time.time()
        done = await asyncio.gather(*map(run, self.held_out))
        self._eval_metrics = {
            "eval/mean_score": fmean(one.score for one in done),
            "eval/finished": fmean(one.result.finished_naturally for one in done),
            "eval/mean_turns": fmean(one.result.turns_used for one in done),
            "eval/mean_tool_errors": fmean(len(one.result.tool_errors) for one in done),
            "eval/mean_tokens": fmean(sum(token != UNTRAINED for token in one.mask) for one in done),
        }
        await self.evaluate_log(
            dict(self._eval_metrics),
            start_time=began,
            end_time=time.time(),
            generation_parameters={"temperature": 0.0, "max_agent_turns": self.config.max_agent_turns},
            samples=[{"messages": one.chat, "score": one.score} for one in done],
        )

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        metrics, self._eval_metrics = {**(wandb_metrics or {}), **self._eval_metrics}, {}
        await super().wandb_log(metrics)

    @classmethod
    def cli(cls) -> None:
        """Run `serve`, `process` or `evaluate`. A problem that people can solve is a sentence and exit code 2."""
        # Two of them turn it on whatever the settings say: only the flag itself means that somebody wants it.
        if sys.argv[1:2] and not any(argument.startswith("--env.use_wandb") for argument in sys.argv):
            sys.argv += ["--env.use_wandb", "false"]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that rollouts are ended
        try:
            super().cli()
        except (InputRefused, ToolsetError, ModelError, BackendFailed) as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(2)


def _check_tokenizer_name(name: str) -> None:
    if not name:
        raise InputRefused("No tokenizer is given. Name the policy's own: --env.tokenizer_name FOLDER.")
    if (name.startswith((".", "/", "~")) or name.count("/") != 1) and not Path(name).is_dir():
        raise InputRefused(f"There is no tokenizer folder {name}. Correct --env.tokenizer_name.")


def _complete(server: Any, config: HermesAgentEnvConfig) -> Any:
    """Return the server's settings with the policy's tokenizer, and a key that is not printed with the settings."""
    if not server.base_url:
        raise InputRefused("No endpoint is given. Name it: --openai.base_url URL --openai.model_name NAME.")
    more = {"tokenizer_name": config.tokenizer_name} if server.tokenizer_name == "none" else {}
    if not server.api_key:
        try:
            keys = load(Home.locate()).settings.secrets.by_variable()
        except ConfigError:
            keys = {}
        more["api_key"] = choose(server.model_name, server.base_url, keys).key or NO_KEY
    return server.model_copy(update=more)
