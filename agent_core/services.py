"""Search engines, browsers and other models, for the tools of scripts and batches.

They are built where the gateway's are. That package lies above this one, so it is named here and not imported; it is
loaded only for toolsets that need it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module

from agent_core.conversation import Message
from agent_core.events import Emit, Event, Usage
from agent_core.model import HelperModels, LoadMedia, Model, look_at, make_panel
from hermes_config.settings import Settings
from tools.base import Tool, ToolContext
from tools.loading import load_builtin
from tools.toolsets import TOOLSETS, resolve

_TOOLSETS = frozenset(("web", "browser", "vision", "image", "speech", "moa"))
_BUILDER = "gateway.wiring.services"


async def _nothing_to_end(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Built from settings. Whoever opens them closes them, and ends each task that has used them."""

    tools: Mapping[str, Tool] = field(default_factory=dict)  # by name; they take the place of bare ones
    helpers: HelperModels = field(default_factory=HelperModels)
    load_media: LoadMedia | None = None  # of the pictures that tools have made
    end_task: Callable[[ToolContext], Awaitable[None]] = _nothing_to_end
    aclose: Callable[[], Awaitable[None]] = _nothing_to_end

    def replace_bare(self) -> list[Tool]:
        """Return all tools, with ours in place of the bare ones."""
        return [self.tools.get(tool.name, tool) for tool in load_builtin()]

    def equip(self, context: ToolContext, model: Model, emit: Emit) -> ToolContext:
        """Return the context with the other models, whose use is reported as that of the agent's own model."""
        panel = [_Reported(one, emit) for one in self.helpers.panel]
        vision = self.helpers.vision
        see = partial(look_at, _Reported(vision, emit)) if vision is not None else None
        return replace(context, see=see, panel=make_panel(panel, _Reported(self.helpers.aggregator or model, emit)))


NO_SERVICES = Services()


def open_services(read_settings: Callable[[], Settings], toolsets: Iterable[str]) -> Services:
    """Open what these toolsets need, which is nothing for most."""
    if not resolve(name for name in toolsets if name in TOOLSETS) & _TOOLSETS:
        return NO_SERVICES
    services: Services = import_module(_BUILDER).build_services(read_settings())
    return services


def list_tools(settings: Settings, toolsets: Iterable[str] = _TOOLSETS) -> list[Tool]:
    """Return the tools as a task with these toolsets has them; those that cannot be used say why."""
    return open_services(lambda: settings, toolsets).replace_bare()


class _Reported:
    """A model that a tool asks. Only what it uses is told: its text is no part of the reply."""

    def __init__(self, model: Model, emit: Emit) -> None:
        self.name = model.name
        self._model = model
        self._emit = emit

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        def tell(event: Event) -> None:
            if isinstance(event, Usage):
                self._emit(replace(event, model=""))

        return await self._model.reply(messages, tools, tell, may_call=may_call)
