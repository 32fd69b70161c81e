"""Find model servers on this machine, to suggest one to the user."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from agent_core.models.catalog import ModelListUnavailable, fetch_names
from agent_core.models.providers import LOCAL_PRESETS, Endpoint, Preset


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
    found = await asyncio.gather(*(_list_models(preset, timeout_seconds) for preset in listening))
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


async def _list_models(preset: Preset, timeout_seconds: float) -> LocalServer | None:
    endpoint = Endpoint(provider=preset.title, model="", base_url=preset.base_url)
    try:
        names = await fetch_names(endpoint, timeout_seconds)
    except (ModelListUnavailable, TimeoutError):
        return None  # something else uses that port
    models = tuple(f"{preset.name}/{name}" for name in names)
    return LocalServer(title=preset.title, base_url=preset.base_url, models=models)
