"""The models that a conversation can choose from: those of the settings, and those that their server offers."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence

from agent_core.models.providers import Endpoint

_MAX_ANSWER_BYTES = 1_000_000
_GOOD_SECONDS = 600.0
_FAILED_SECONDS = 30.0

ListModels = Callable[[Endpoint, float], Awaitable[list[str]]]


class ModelListUnavailable(Exception):
    """The server did not list its models. The text says why."""


class ModelCatalog:
    """Remembers what `GET /models` of the configured model's server answered.

    The network is asked in `run`, a task of its own: whoever holds a transaction only reads what is here. `request`
    and the attributes are safe to use from any thread.
    """

    def __init__(
        self,
        configured: Sequence[str],
        endpoint: Endpoint | None,
        *,
        timeout_seconds: float = 5.0,
        list_models: "ListModels | None" = None,
    ) -> None:
        """`configured`: the model of the settings and its fallbacks; without an endpoint nothing else is offered."""
        self.configured = tuple(configured)
        self.endpoint = endpoint
        self.offered: tuple[str, ...] = ()
        self.problem = ""  # why nothing is offered
        self._list_models = list_models or fetch_names
        self._timeout_seconds = timeout_seconds
        self._good_until = 0.0
        self._asking = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.configured, *self.offered)))

    def is_ready(self) -> bool:
        """Return whether the list is up to date, or nobody could bring it."""
        return self.endpoint is None or self._loop is None or time.monotonic() < self._good_until

    def request(self) -> None:
        """Ask for the list to be brought up to date, without waiting."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wanted.set)

    async def run(self) -> None:
        """Bring the list whenever it is requested, until cancelled."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self.refresh()
        finally:
            self._loop = None

    async def refresh(self) -> None:
        """Bring the list up to date. Never raises, and returns within the timeout."""
        async with self._asking:
            if self.endpoint is None or time.monotonic() < self._good_until:
                return
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    self.offered = tuple(sorted(await self._list_models(self.endpoint, self._timeout_seconds)))
                self.problem = ""
            except TimeoutError:
                self.problem = f"{self.endpoint.provider} did not list its models within {self._timeout_seconds:g} s"
            except ModelListUnavailable as error:
                self.problem = f"{self.endpoint.provider} did not list its models: {error}"
            self._good_until = time.monotonic() + (_FAILED_SECONDS if self.problem else _GOOD_SECONDS)


async def fetch_names(endpoint: Endpoint, timeout_seconds: float) -> list[str]:
    """Return the names of the models at an endpoint; raises ModelListUnavailable and TimeoutError."""
    import aiohttp  # costs ten megabytes, so only where it is needed

    headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    limit = aiohttp.ClientTimeout(total=timeout_seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, trust_env=not endpoint.is_local) as session,
            session.get(f"{endpoint.base_url}/models", headers=headers, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise ModelListUnavailable(f"it answered {response.status}")
            names = _read_names(json.loads(await response.content.read(_MAX_ANSWER_BYTES)))
    except aiohttp.ClientError as error:
        raise ModelListUnavailable("it cannot be reached") from error
    except ValueError as error:
        raise ModelListUnavailable("its answer cannot be read") from error
    if names is None:
        raise ModelListUnavailable("its answer is no list of models")
    return names


def _read_names(listed: object) -> list[str] | None:
    """Return the models' names in a response to `GET /models`; None for any other response."""
    match listed:
        case {"data": list(rows)}:
            return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
        case {"object": "list", "data": None}:  # Ollama without any model
            return []
    return None
