"""Find model servers on this machine, to suggest one to the user."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_core.models.providers import LOCAL_PRESETS, Preset

if TYPE_CHECKING:
    import aiohttp

MAX_ANSWER_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServer:
    """A model server that answers on this machine."""

    title: str
    base_url: str
    models: tuple[str, ...]  # as they are written in the settings: `ollama/llama3.2`


async def find_local_servers(
    timeout_seconds: float = 1.0, presets: Sequence[Preset] = LOCAL_PRESETS
) -> tuple[LocalServer, ...]:
    """Return the servers that answer at the well-known addresses in time, in the order of the presets. Never raises."""
    answers = await asyncio.gather(*(_is_listening(preset, timeout_seconds) for preset in presets))
    listening = [preset for preset, listens in zip(presets, answers, strict=True) if listens]
    if not listening:
        return ()
    import aiohttp  # costs ten megabytes, so only where a server listens

    limit = aiohttp.ClientTimeout(total=timeout_seconds)
    # Without the proxies of the environment, which would answer for this machine.
    async with aiohttp.ClientSession(timeout=limit, trust_env=False) as session:
        found = await asyncio.gather(*(_list_models(session, preset) for preset in listening))
    return tuple(server for server in found if server)


async def _is_listening(preset: Preset, timeout_seconds: float) -> bool:
    address = urlsplit(preset.base_url)
    try:
        async with asyncio.timeout(timeout_seconds):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _list_models(session: "aiohttp.ClientSession", preset: Preset) -> LocalServer | None:
    import aiohttp

    try:
        async with session.get(f"{preset.base_url}/models", allow_redirects=False) as response:
            if response.status != 200:
                return None
            listed = json.loads(await response.content.read(MAX_ANSWER_BYTES))
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    names = _names(listed)
    if names is None:
        return None  # something else uses that port
    models = tuple(f"{preset.name}/{name}" for name in names)
    return LocalServer(title=preset.title, base_url=preset.base_url, models=models)


def _names(listed: object) -> list[str] | None:
    """Return the models' names in a response to `GET /models`; None for any other response."""
    match listed:
        case {"data": list(rows)}:
            return [row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
        case {"object": "list", "data": None}:  # Ollama without any model
            return []
    return None
