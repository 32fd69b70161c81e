"""Open a model by its name.

Nothing heavy is imported here: the client of real models is loaded by the first question.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from agent_core.conversation import Message
from agent_core.events import Emit
from agent_core.model import LoadMedia, Model, NoEndpoint
from agent_core.models.demo import DemoModel
from agent_core.models.fallback import FallbackModel
from agent_core.models.providers import Endpoint, choose
from agent_core.models.retries import Patience, Retries
from tools.base import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options for all real models of a chain."""

    stream: bool = True
    patience: Patience = field(default_factory=Patience)
    retries: Retries = field(default_factory=Retries)
    cooldown_seconds: float = 60.0  # before a model that failed is preferred again
    load_media: LoadMedia | None = None


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
        return RealModel(choose(name, base_url, keys), options)
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

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        return await (await self._load()).reply(messages, tools, emit, may_call=may_call)

    async def aclose(self) -> None:
        if close := getattr(self._model, "aclose", None):
            await close()

    async def _load(self) -> Model:
        async with self._loading:
            if self._model is None:
                module = await asyncio.to_thread(import_module, "agent_core.models.openai")
                self._model = self._open(module.OpenAIModel)
            return self._model

    def _open(self, build: Callable[..., Model]) -> Model:
        options = self._options
        return build(
            self._endpoint,
            stream=options.stream,
            patience=options.patience,
            retries=options.retries,
            load_media=options.load_media,
        )
