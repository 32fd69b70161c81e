"""From a model's name to a model that can be asked.

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
    """How real models are asked."""

    stream: bool = True
    patience: Patience = field(default_factory=Patience)
    retries: Retries = field(default_factory=Retries)
    cooldown_seconds: float = 60.0  # how long a model that failed is left alone when there is another
    load_media: LoadMedia | None = None


def open_model(
    name: str,
    *,
    base_url: str = "",
    keys: Mapping[str, str],
    fallbacks: Sequence[str] = (),
    manner: ModelOptions | None = None,
    demo_pace_seconds: float = 0.0,
) -> Model:
    """The model of that name, and behind it those to fall back on. `keys` holds what is set, by environment name.

    A name that cannot be served gives a model that says so when it is asked: whoever writes to it reads why.
    """
    if name == "demo":
        return DemoModel(pace_seconds=demo_pace_seconds)
    manner = manner or ModelOptions()
    chain = [_one(name, base_url, keys, manner), *(_one(other, "", keys, manner) for other in fallbacks)]
    return FallbackModel(chain, cooldown_seconds=manner.cooldown_seconds) if len(chain) > 1 else chain[0]


def _one(name: str, base_url: str, keys: Mapping[str, str], manner: ModelOptions) -> Model:
    if name == "demo":
        return DemoModel()
    try:
        return RealModel(choose(name, base_url, keys), manner)
    except NoEndpoint as error:
        return NoModel(name, str(error))


class NoModel:
    """Stands where a model should be, and says why there is none."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        raise NoEndpoint(self._problem)  # a new one each time: a raised error holds on to its frames


class RealModel:
    """A model behind an endpoint, whose client is loaded in a thread when it is first asked."""

    def __init__(self, endpoint: Endpoint, manner: ModelOptions) -> None:
        self.name = endpoint.model
        self._endpoint = endpoint
        self._manner = manner
        self._loading = asyncio.Lock()
        self._model: Model | None = None

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        return await (await self._loaded()).reply(messages, tools, emit, may_call=may_call)

    async def aclose(self) -> None:
        if close := getattr(self._model, "aclose", None):
            await close()

    async def _loaded(self) -> Model:
        async with self._loading:
            if self._model is None:
                module = await asyncio.to_thread(import_module, "agent_core.models.openai")
                self._model = self._open(module.OpenAIModel)
            return self._model

    def _open(self, build: Callable[..., Model]) -> Model:
        manner = self._manner
        return build(
            self._endpoint,
            stream=manner.stream,
            patience=manner.patience,
            retries=manner.retries,
            load_media=manner.load_media,
        )
