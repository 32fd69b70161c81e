"""The agent for scripts: `AIAgent` takes toolset names and questions, and returns answers, without a gateway."""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog

from agent_core.compactor import Compactor
from agent_core.conversation import ListJournal, Message, user
from agent_core.conversation import system as system_message
from agent_core.delegation import TaskJournal, TaskProgress, make_task_context, open_task, run_tasks
from agent_core.events import Emit, Event, ToolFinished, ToolStarted, Usage, ignore
from agent_core.model import Model
from agent_core.models.factory import ModelOptions, open_model
from agent_core.models.providers import PRESETS, window_tokens
from agent_core.openai_format import conversation_from_openai
from agent_core.result import AgentResult, TurnOutcome, error_of, final_text
from agent_core.script_history import ScriptHistory, ScriptLedger
from agent_core.services import Services, open_services
from agent_core.trajectory import Row, Turn, make_row, save, to_sharegpt, training_prompt
from agent_core.turn import run_turn
from hermes_config.accounts import account_tokens
from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import DelegationSettings, Settings
from tools.approval.gate import Approve, AskCallback, NobodyToAsk
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext
from tools.delegated import DelegatedResult, DelegatedTask
from tools.toolsets import select
from tools.workplaces import local_workplace

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_TASKS = 1_000
T = TypeVar("T")

ToolProgress = Callable[[str, str], None]
"""Called with a tool's name and its arguments when it starts."""


@dataclass
class AIAgent:
    """An agent that a script asks.

    `model` is a name, looked up as the gateway does, or a Model of your own; by default it is the offline demo model.
    Keys come from `api_key`, else from the settings, .env included. `quiet_mode` sends no events to `on_event`; the
    results are the same. `async with` or `aclose` closes the connections of a model given by name. Files and commands
    are those of this machine, in the current folder, unless you pass a `workplace`. Risky calls are refused unless
    `approval_callback` allows them. `verbose_logging` logs each model call and tool. A conversation that outgrows the
    model's window (`context_tokens`, by default as known for its name) is summarised by `auxiliary_model`, by default
    the model itself; results have all its messages. `extra_tools` are tools besides those of the toolsets, such as
    those of MCP servers. The web, browsers, pictures and other models are reached as the settings say, or by
    `services`, which stay yours to close.
    """

    model: str | Model = "demo"
    _: KW_ONLY
    base_url: str = ""
    api_key: str = ""
    max_iterations: int = 60
    enabled_toolsets: Sequence[str] = ("core",)
    disabled_toolsets: Sequence[str] = ()
    extra_tools: Sequence[Tool] = ()
    tool_progress_callback: ToolProgress | None = None
    on_event: Emit = ignore
    quiet_mode: bool = False
    verbose_logging: bool = False
    approval_callback: Approve | None = None
    auxiliary_model: Model | None = None
    context_tokens: int = 0
    save_trajectories: bool = False
    trajectories_dir: Path | None = None
    workplace: Workplace | None = None
    services: Services | None = None
    _history: ScriptHistory = field(default_factory=ScriptHistory, init=False, repr=False)
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
        """Close the connections and browsers; the next question opens new ones."""
        opened, self._opened = self._opened, None
        if opened is None or opened.loop is not asyncio.get_running_loop():
            return
        if self.services is None:
            await opened.services.aclose()
        if opened.model is not self.model and (close := getattr(opened.model, "aclose", None)):
            await close()

    async def chat(self, text: str, task_id: str | None = None) -> str:
        """Ask one question and return the answer."""
        return final_text((await self.run(text, task_id=task_id)).messages)

    def chat_sync(self, text: str, task_id: str | None = None) -> str:
        """Ask one question and return the answer, for scripts without an event loop."""
        return self._wait(self.chat(text, task_id))

    def run_conversation(
        self,
        user_message: str,
        system_message: str | None = None,
        conversation_history: Iterable[Message | Mapping[str, Any]] = (),
        task_id: str | None = None,
    ) -> dict[str, Any]:
        """Run one turn and return `final_response`, `messages` and `api_calls`, for scripts without an event loop."""
        result = self._wait(
            self.run(user_message, history=conversation_history or (), system=system_message, task_id=task_id)
        )
        return {
            "final_response": final_text(result.messages),
            "messages": result.messages,
            "api_calls": result.turns_used,
        }

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        async def run_and_close() -> T:
            try:
                return await work
            finally:
                await self.aclose()  # before its loop ends

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run_and_close())
        work.close()
        raise RuntimeError("An event loop is running here already. Await `chat` or `run` instead.")

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
        opened = await self._open()
        model, services = opened.model, opened.services
        offered = services.replace_bare()
        chosen = select(offered, self.enabled_toolsets, self.disabled_toolsets, has_workplace=True)
        tools = [*chosen, *self.extra_tools]
        prompt = system
        if prompt is None:
            prompt = training_prompt(tools)
        new = [user(messages)] if isinstance(messages, str) else list(messages)
        before = dropwhile(lambda message: message.role == "system", conversation_from_openai(history))
        conversation = conversation_from_openai([*before, *new])
        lead = [system_message(prompt)] if prompt else []
        known = self._history.find(conversation)
        shown, before_rest = self._history.show(conversation, known)
        journal, workplace = ListJournal(), self._workplace(task_id)
        ledger = ScriptLedger(self._history, conversation, journal, known)
        asking = replace(
            self._open_compactor(model, ledger, workplace), lead=len(lead) + before_rest, summary=known.summary
        )
        gate = AskCallback(self.approval_callback) if self.approval_callback else NobodyToAsk()
        context = ToolContext(
            task_id=task_id or uuid.uuid4().hex,
            workplace=workplace,
            gate=gate,
            delegate=partial(self._delegate, model),
        )
        context = services.equip(context, model, self._emit)
        whole = (*lead, *conversation)  # not only what is shown
        # What there is of a turn that fails.
        outcome = TurnOutcome(history=whole, messages=(), finished_naturally=False)
        try:
            outcome = await run_turn(
                model=model,
                tools=tools,
                messages=[*lead, *shown],
                journal=journal,
                context=context,
                emit=self._emit,
                max_iterations=self.max_iterations,
                asking=asking,
            )
        except BaseException:
            outcome = replace(outcome, messages=tuple(journal.messages))
            raise
        finally:
            if task_id is None or self.services is not None:
                await services.end_task(context)
            outcome = replace(outcome, history=whole)
            self._last = _Last(outcome=outcome, tools=tools, system=prompt, model=model.name)
            if self.save_trajectories:
                self._save()
        return outcome.result

    def _open_compactor(self, model: Model, ledger: ScriptLedger, workplace: Workplace | None) -> Compactor:
        auxiliary = self.auxiliary_model or model
        return Compactor(
            window_tokens=self.context_tokens or window_tokens(model.name),
            auxiliary=auxiliary,
            auxiliary_window_tokens=window_tokens(auxiliary.name),
            ledger=ledger,
            workplace=workplace,
            lead=2,
        )

    async def _delegate(
        self, model: Model, tasks: Sequence[DelegatedTask], call: ToolContext
    ) -> Sequence[DelegatedResult]:
        """Have tasks done in this process; nothing of them outlives it."""
        rules = DelegationSettings()

        async def perform(number: int, progress: TaskProgress) -> TurnOutcome:
            prompt, asked = open_task(tasks[number - 1])
            journal, history = ListJournal(), ScriptHistory()
            ledger = ScriptLedger(history, [asked], journal, history.find([asked]))
            context = make_task_context(call, number, progress, task_id=uuid.uuid4().hex)
            return await run_turn(
                model=model,
                tools=tasks[number - 1].tools,
                messages=[prompt, asked],
                journal=TaskJournal(journal=journal, progress=progress),
                context=context,
                emit=progress,
                max_iterations=rules.max_iterations,
                asking=self._open_compactor(model, ledger, context.workplace),
            )

        return await run_tasks(perform, len(tasks), call, rules)

    def get_trajectory(self) -> list[Turn]:
        """Return the last run in ShareGPT form, as `trajectory` does."""
        return self.trajectory()

    def trajectory(self) -> list[Turn]:
        """Return the last run in ShareGPT form. If the settings cannot be read, secrets are found by pattern alone."""
        turns: list[Turn] = self.trajectory_row()["conversations"]
        return turns

    def trajectory_row(self, redactor: Redactor | None = None) -> Row:
        """Return the last run as a row of a trajectory file; of a run that failed, as far as it came."""
        if self._last is None:
            raise ValueError("There is no trajectory yet. Call `run` or `chat` first.")
        last, messages = self._last, self._last.outcome.conversation
        turns = to_sharegpt(messages, last.tools, system=last.system, redactor=redactor or self._redactor())
        return make_row(turns, messages, model=last.model, completed=last.outcome.finished_naturally)

    def _redactor(self) -> Redactor:
        try:
            settings = load(Home.locate()).settings
        except ConfigError as error:  # a run that was made and paid for must not be lost over that
            log.warning("secrets redacted by pattern only", problem=str(error))
            return Redactor([self.api_key])
        return Redactor([self.api_key, *settings.secrets.by_variable().values(), *account_tokens(settings).values()])

    async def _open(self) -> "_Opened":
        wanted = (self.model, self.base_url, self.api_key, tuple(self.enabled_toolsets))
        # Connections belong to the loop that made them: a script's second `asyncio.run` needs new ones.
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened.loop is not loop or self._opened.wanted != wanted:
            await self.aclose()
            services, model = self.services or self._open_services(), self.model
            if isinstance(model, str):
                options = ModelOptions(load_media=services.load_media)
                model = open_model(model, base_url=self.base_url, keys=self._keys(), options=options)
            self._opened = _Opened(model=model, services=services, loop=loop, wanted=wanted)
        return self._opened

    def _open_services(self) -> Services:
        def read_settings() -> Settings:
            model, address = (self.model, self.base_url) if isinstance(self.model, str) else ("", "")
            return load(Home.locate(), {"model.name": model or None, "model.base_url": address or None}).settings

        return open_services(read_settings, self.enabled_toolsets)

    def _keys(self) -> dict[str, str]:
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
        if self.workplace is not None:
            return replace(self.workplace, holder=self.workplace.holder or self._holder)
        folder = Path.cwd()
        if self._local is None or self._local.workspace != str(folder):
            self._local = replace(local_workplace(folder, home=Home.locate()), holder=self._holder)
        return self._local

    def _emit(self, event: Event) -> None:
        if self.verbose_logging:
            _log(event)
        if self.quiet_mode:
            return
        if isinstance(event, ToolStarted) and self.tool_progress_callback:
            self.tool_progress_callback(event.call.name, event.call.arguments)
        self.on_event(event)

    def _save(self) -> None:
        row = self.trajectory_row()
        try:
            save(self.trajectories_dir or Home.locate().root / "trajectories", row, succeeded=row["completed"])
        except OSError as error:  # the result is there, and worth more than the record of it
            log.error("trajectory not saved", problem=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    outcome: TurnOutcome
    tools: Sequence[Tool]
    system: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    model: Model
    services: Services
    loop: asyncio.AbstractEventLoop
    wanted: tuple[object, ...]


def _log(event: Event) -> None:
    match event:
        case ToolStarted():
            log.info("tool started", tool=event.call.name, arguments_chars=len(event.call.arguments))
        case ToolFinished():
            problem = error_of(event.result) if event.result.is_error else ""
            log.info("tool finished", tool=event.call.name, seconds=round(event.seconds, 3), error=problem)
        case Usage():
            log.info("model replied", input_tokens=event.input_tokens, output_tokens=event.output_tokens)
