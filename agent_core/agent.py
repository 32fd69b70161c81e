"""The agent for scripts: `AIAgent` takes toolset names and questions, and returns answers, without a gateway."""

import asyncio
import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog

from agent_core.conversation import ListJournal, Message, user
from agent_core.conversation import system as system_message
from agent_core.events import Emit, Event, ToolStarted, ignore
from agent_core.model import Model
from agent_core.openai_format import conversation_from_openai
from agent_core.prompt import Layers, build_prompt
from agent_core.result import AgentResult, TurnOutcome, final_text
from agent_core.trajectory import Turn, to_sharegpt
from agent_core.turn import run_turn
from hermes_config.redaction import Redactor
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext
from tools.content import text_of
from tools.loading import load_builtin
from tools.toolsets import select

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_TASKS = 1_000

ToolProgress = Callable[[str, str], None]
"""Called with a tool's name and its arguments when it starts."""


@dataclass
class AIAgent:
    """An agent that a script asks.

    `model` is a name, looked up as the gateway does, or a Model of your own; by default it is the offline demo model.
    Keys come from `api_key`, else from the settings, .env included. `quiet_mode` sends no events to `on_event`; the
    results are the same. `async with` or `aclose` closes the connections of a model given by name. Files and commands
    are those of this machine, in the current folder, unless you pass a `workplace`.
    """

    model: str | Model = "demo"
    _: KW_ONLY
    base_url: str = ""
    api_key: str = ""
    max_iterations: int = 60
    enabled_toolsets: Sequence[str] = ("core",)
    disabled_toolsets: Sequence[str] = ()
    tool_progress_callback: ToolProgress | None = None
    on_event: Emit = ignore
    quiet_mode: bool = False
    save_trajectories: bool = False
    trajectories_dir: Path | None = None
    workplace: Workplace | None = None
    _last: "_Last | None" = field(default=None, init=False, repr=False)
    _opened: "_Opened | None" = field(default=None, init=False, repr=False)
    _local: Workplace | None = field(default=None, init=False, repr=False)
    _holder: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, repr=False)
    _workplaces: OrderedDict[str, Workplace] = field(default_factory=OrderedDict, init=False, repr=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next question opens new ones."""
        opened, self._opened = self._opened, None
        if opened and opened.loop is asyncio.get_running_loop() and (close := getattr(opened.model, "aclose", None)):
            await close()

    async def chat(self, text: str) -> str:
        """Ask one question and return the answer."""
        return final_text((await self.run(text)).messages)

    async def run(
        self,
        messages: str | Iterable[Message | Mapping[str, Any]],
        *,
        history: Iterable[Message | Mapping[str, Any]] = (),
        system: str | None = None,
        task_id: str | None = None,
    ) -> AgentResult:
        """Run one turn; raises ModelError. Tools keep state per `task_id`; without one every run is a task of its own.

        Messages are ours or dicts in OpenAI format, so that the `messages` of a result are the next `history`.
        System messages at its beginning are dropped: `system`, or the prompt we build, takes their place.
        """
        tools = select(load_builtin(), self.enabled_toolsets, self.disabled_toolsets, has_workplace=True)
        prompt = system
        if prompt is None:
            prompt = text_of(build_prompt(Layers(tools=tuple(tool.name for tool in tools))))
        new = [user(messages)] if isinstance(messages, str) else list(messages)
        before = dropwhile(lambda message: message.role == "system", conversation_from_openai(history))
        conversation = conversation_from_openai([*before, *new])
        model = await self._model()
        outcome = await run_turn(
            model=model,
            tools=tools,
            messages=[*([system_message(prompt)] if prompt else []), *conversation],
            journal=ListJournal(),
            context=ToolContext(task_id=task_id or uuid.uuid4().hex, workplace=self._workplace(task_id)),
            emit=self._emit,
            max_iterations=self.max_iterations,
        )
        self._last = _Last(outcome=outcome, tools=tools, system=prompt, model=model.name)
        if self.save_trajectories:
            try:
                self._save()
            except OSError as error:  # the result is there, and worth more than the record of it
                log.error("trajectory not saved", problem=str(error))
        return outcome.result

    def trajectory(self) -> list[Turn]:
        """Return the last run in ShareGPT form. If the settings cannot be read, secrets are found by pattern alone."""
        if self._last is None:
            raise ValueError("There is no trajectory yet. Call `run` or `chat` first.")
        last = self._last
        return to_sharegpt(last.outcome.conversation, last.tools, system=last.system, redactor=self._redactor())

    def _redactor(self) -> Redactor:
        from hermes_config.accounts import account_tokens
        from hermes_config.errors import ConfigError
        from hermes_config.load import load
        from hermes_config.places import Home

        try:
            settings = load(Home.locate()).settings
        except ConfigError as error:  # a run that was made and paid for must not be lost over that
            log.warning("secrets redacted by pattern only", problem=str(error))
            return Redactor([self.api_key])
        return Redactor([self.api_key, *settings.secrets.by_variable().values(), *account_tokens(settings).values()])

    async def _model(self) -> Model:
        if not isinstance(self.model, str):
            return self.model
        from agent_core.models.factory import open_model

        wanted = (self.model, self.base_url, self.api_key)
        # Connections belong to the loop that made them: a script's second `asyncio.run` needs new ones.
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop or self._opened.wanted != wanted:
            await self.aclose()
            opened = open_model(self.model, base_url=self.base_url, keys=self._keys())
            self._opened = _Opened(model=opened, loop=loop, wanted=wanted)
        return self._opened.model

    def _keys(self) -> dict[str, str]:
        from agent_core.models.providers import PRESETS
        from hermes_config.load import load
        from hermes_config.places import Home

        if self.model == "demo":
            return {}
        if self.api_key:
            return {preset.key_env: self.api_key for preset in PRESETS}
        return load(Home.locate()).settings.secrets.by_variable()

    def _workplace(self, task_id: str | None) -> Workplace:
        """Return the workplace of a task: each has a current folder of its own, all share one backend."""
        base = self._base_workplace()
        if task_id is None:
            return replace(base, environment=dict(base.environment))
        known = self._workplaces.get(task_id)
        if known is None or known.backend is not base.backend:
            holder = f"{base.holder}/{task_id}"  # a task must not see processes of other tasks
            self._workplaces[task_id] = replace(base, holder=holder, environment=dict(base.environment))
        self._workplaces.move_to_end(task_id)
        if len(self._workplaces) > MAX_TASKS:
            self._workplaces.popitem(last=False)
        return self._workplaces[task_id]

    def _base_workplace(self) -> Workplace:
        from hermes_config.places import Home
        from tools.workplaces import local_workplace

        if self.workplace is not None:
            return replace(self.workplace, holder=self.workplace.holder or self._holder)
        folder = Path.cwd()
        if self._local is None or self._local.workspace != str(folder):
            self._local = replace(local_workplace(folder, home=Home.locate()), holder=self._holder)
        return self._local

    def _emit(self, event: Event) -> None:
        if self.quiet_mode:
            return
        if isinstance(event, ToolStarted) and self.tool_progress_callback:
            self.tool_progress_callback(event.call.name, event.call.arguments)
        self.on_event(event)

    def _save(self) -> None:
        from hermes_config.places import Home

        assert self._last is not None
        outcome = self._last.outcome
        folder = self.trajectories_dir or Home.locate().root / "trajectories"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = "trajectories.jsonl" if outcome.finished_naturally else "failed_trajectories.jsonl"
        row = {
            "conversations": self.trajectory(),
            "model": self._last.model,
            "timestamp": datetime.now(UTC).isoformat(),
            "completed": outcome.finished_naturally,
        }
        # Conversations are private, whatever the umask says.
        with open(folder / name, "a", encoding="utf-8", opener=_open_private) as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    outcome: TurnOutcome
    tools: Sequence[Tool]
    system: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    model: Model
    loop: asyncio.AbstractEventLoop
    wanted: tuple[str, str, str]


def _open_private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # also for a file that is there already
    return descriptor
