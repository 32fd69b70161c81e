"""From a model's name to a model that can be asked.

Nothing heavy is imported here: the client of real models is loaded by the first question.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from agent_core.conversation import Message
from agent_core.demo_model import DemoModel
from agent_core.events import Emit
from agent_core.fallback import FallbackModel
from agent_core.model import Model, ModelError
from agent_core.providers import Endpoint, NoEndpoint, choose
from tools.base import Tool
from tools.parts import Media

LoadMedia = Callable[[Media], bytes | None]


def open_model(
    name: str,
    *,
    base_url: str = "",
    keys: Mapping[str, str],
    fallbacks: Sequence[str] = (),
    load_media: LoadMedia | None = None,
    demo_pace_seconds: float = 0.0,
) -> Model:
    """The model of that name, and behind it those to fall back on. `keys` holds what is set, by environment name.

    A name that cannot be served gives a model that says so when it is asked: whoever writes to it reads why.
    """
    if name == "demo":
        return DemoModel(pace_seconds=demo_pace_seconds)
    chain = [_one(name, base_url, keys, load_media), *(_one(other, "", keys, load_media) for other in fallbacks)]
    return FallbackModel(chain) if len(chain) > 1 else chain[0]


def _one(name: str, base_url: str, keys: Mapping[str, str], load_media: LoadMedia | None) -> Model:
    try:
        return RealModel(choose(name, base_url, keys), load_media=load_media)
    except NoEndpoint as error:
        return NoModel(name, error)


class NoModel:
    """Stands where a model should be, and says why there is none."""

    def __init__(self, name: str, problem: ModelError) -> None:
        self.name = name
        self._problem = problem

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit) -> Message:
        raise self._problem


class RealModel:
    """A model behind an endpoint, whose client is loaded in a thread when it is first asked."""

    def __init__(self, endpoint: Endpoint, *, load_media: LoadMedia | None = None) -> None:
        self.name = endpoint.model
        self._endpoint = endpoint
        self._load_media = load_media
        self._loading = asyncio.Lock()
        self._model: Model | None = None

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit) -> Message:
        return await (await self._loaded()).reply(messages, tools, emit)

    async def aclose(self) -> None:
        if close := getattr(self._model, "aclose", None):
            await close()

    async def _loaded(self) -> Model:
        async with self._loading:
            if self._model is None:
                module = await asyncio.to_thread(import_module, "agent_core.openai_model")
                opened: Model = module.OpenAIModel(self._endpoint, load_media=self._load_media)
                self._model = opened
            return self._model
