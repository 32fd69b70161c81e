"""The agent for scripts: `AIAgent` with toolset names in, answers out. Needs no gateway and no store."""

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent_core.conversation import ListJournal, Message, user
from agent_core.conversation import system as system_message
from agent_core.events import Emit, Event, ToolStarted, ignore
from agent_core.model import Model
from agent_core.prompt import Layers, build_prompt
from agent_core.result import AgentResult, TurnOutcome, final_text
from agent_core.trajectory import Turn, to_sharegpt
from agent_core.turn import run_turn
from tools.base import Tool, ToolContext
from tools.builtin import load_builtin
from tools.toolsets import select

ToolProgress = Callable[[str, str], None]
"""Called with a tool's name and its arguments when it starts."""


@dataclass(kw_only=True)
class AIAgent:
    """`model` is a name, looked up like the gateway's, or a Model of your own.

    Without one it is the offline demo model. `quiet_mode` keeps events from `on_event`; the results are the same.
    """

    model: str | Model = "demo"
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
    _last: "_Last | None" = field(default=None, init=False, repr=False)

    async def chat(self, text: str) -> str:
        """One question, one answer."""
        return final_text((await self.run(text)).messages)

    async def run(
        self,
        messages: str | Iterable[Message],
        *,
        history: Sequence[Message] = (),
        system: str | None = None,
        task_id: str | None = None,
    ) -> AgentResult:
        """Raises ModelError. Tools keep their state per `task_id`; without one every run is a task of its own."""
        tools = select(load_builtin(), self.enabled_toolsets, self.disabled_toolsets)
        prompt = build_prompt(Layers(tools=tuple(tool.name for tool in tools))) if system is None else system
        asked = [user(messages)] if isinstance(messages, str) else list(messages)
        outcome = await run_turn(
            model=self._model(),
            tools=tools,
            messages=[*([system_message(prompt)] if prompt else []), *history, *asked],
            journal=ListJournal(),
            context=ToolContext(task_id=task_id or uuid.uuid4().hex),
            emit=self._emit,
            max_iterations=self.max_iterations,
        )
        self._last = _Last(outcome=outcome, tools=tools, system=prompt)
        if self.save_trajectories:
            self._save()
        return outcome.result

    def trajectory(self) -> list[Turn]:
        """The last run in ShareGPT form."""
        if self._last is None:
            raise ValueError("There is no trajectory yet: run something first.")
        return to_sharegpt(self._last.outcome.conversation, self._last.tools, system=self._last.system)

    def _model(self) -> Model:
        if not isinstance(self.model, str):
            return self.model
        from agent_core.models import open_model
        from agent_core.providers import PRESETS
        from hermes_config import environment

        names = {preset.key_env for preset in PRESETS if preset.key_env}
        keys = {name: self.api_key or environment.get(name) for name in names}
        opened = self.model = open_model(self.model, base_url=self.base_url, keys=keys)
        return opened

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
            "model": self._model().name,
            "timestamp": datetime.now(UTC).isoformat(),
            "completed": outcome.finished_naturally,
        }
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    outcome: TurnOutcome
    tools: Sequence[Tool]
    system: str
