"""Open a model by its name.

Nothing heavy is imported here: the client of real models is loaded by the first question.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from agent_core.conversation import Message
from agent_core.events import Emit
from agent_core.model import LoadMedia, Model, NoEndpoint
from agent_core.models.demo import DemoModel
from agent_core.models.fallback import FallbackModel
from agent_core.models.providers import Endpoint, choose
from agent_core.models.retries import Retries, Timeouts
from hermes_config.settings import ModelSettings
from tools.base import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options for all real models of a chain."""

    stream: bool = True
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    cooldown_seconds: float = 60.0  # before a model that failed is preferred again
    load_media: LoadMedia | None = None
    sees_images: bool = False  # whatever its name tells
    effort: str = ""  # of reasoning; empty: as the model does by itself

    @classmethod
    def of(cls, settings: ModelSettings, *, load_media: LoadMedia | None = None) -> "ModelOptions":
        return cls(
            stream=settings.stream,
            timeouts=Timeouts(
                connect_seconds=settings.connect_timeout_seconds,
                first_byte_seconds=settings.first_byte_timeout_seconds,
                idle_seconds=settings.idle_timeout_seconds,
                whole_seconds=settings.total_timeout_seconds,
            ),
            retries=Retries(attempts=settings.attempts),
            cooldown_seconds=settings.fallback_cooldown_seconds,
            load_media=load_media,
        )


def open_model(
    name: str,
    *,
    base_url: str = "",
    keys: Mapping[str, str],
    fallbacks: Sequence[str] = (),
    options: ModelOptions | None = None,
    demo_pace_seconds: float = 0.0,
) -> Model:
    """Return the model of that name with its fallbacks. `keys` holds the keys that are set, by environment name.

    For a name that cannot be served, return a model whose replies raise NoEndpoint: the chat is then told why.
    """
    if name == "demo":
        return DemoModel(pace_seconds=demo_pace_seconds)
    options = options or ModelOptions()
    chain = [_open_one(name, base_url, keys, options), *(_open_one(other, "", keys, options) for other in fallbacks)]
    return FallbackModel(chain, cooldown_seconds=options.cooldown_seconds) if len(chain) > 1 else chain[0]


def _open_one(name: str, base_url: str, keys: Mapping[str, str], options: ModelOptions) -> Model:
    if name == "demo":
        return DemoModel()
    try:
        endpoint = choose(name, base_url, keys)
        return RealModel(replace(endpoint, sees_images=endpoint.sees_images or options.sees_images), options)
    except NoEndpoint as error:
        return NoModel(name, str(error))


class NoModel:
    """A model that cannot be asked: each reply raises the reason."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        raise NoEndpoint(self._problem)  # a new error each time: a raised one holds on to its frames


class RealModel:
    """A model behind an endpoint, whose client is loaded in a thread when it is first asked."""

    def __init__(self, endpoint: Endpoint, options: ModelOptions) -> None:
        self.name = endpoint.model
        self._endpoint = endpoint
        self._options = options
        self._loading = asyncio.Lock()
        self._model: Model | None = None
        self._variants: dict[str, RealModel] = {}  # by effort

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        async with self._loading:
            if self._model is None:
                module = await asyncio.to_thread(import_module, "agent_core.models.openai")
                options = self._options
                self._model = module.OpenAIModel(
                    self._endpoint,
                    stream=options.stream,
                    timeouts=options.timeouts,
                    retries=options.retries,
                    load_media=options.load_media,
                    effort=options.effort,
                )
            model: Model = self._model
        return await model.reply(messages, tools, emit, may_call=may_call)

    def with_effort(self, effort: str) -> Model:
        if effort not in self._variants:
            self._variants[effort] = RealModel(self._endpoint, replace(self._options, effort=effort))
        return self._variants[effort]

    async def aclose(self) -> None:
        for variant in self._variants.values():
            await variant.aclose()
        if close := getattr(self._model, "aclose", None):
            await close()
