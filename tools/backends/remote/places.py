"""Build remote backends from settings, find their places again, and remove them."""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import Command, ProcessControl
from tools.backends.remote.backend import RemoteBackend, RemoteProcesses
from tools.backends.remote.calls import SHORT_CALL_SECONDS, Place, PlaceFailed
from tools.backends.remote.containers import DockerPlace, SingularityPlace
from tools.backends.remote.daytona import DaytonaPlace
from tools.backends.remote.files import HOME
from tools.backends.remote.modal import ModalPlace
from tools.backends.remote.ssh import SshPlace

REMOTE: Mapping[str, Callable[..., Place]] = {
    "docker": DockerPlace,
    "ssh": SshPlace,
    "singularity": SingularityPlace,
    "modal": ModalPlace,
    "daytona": DaytonaPlace,
}
_POLL_SECONDS = {"docker": 3.0, "ssh": 5.0, "singularity": 3.0, "modal": 15.0, "daytona": 15.0}


def kinds_in_use(settings: TerminalSettings) -> list[str]:
    """Return the remote backends that the settings name."""
    return [kind for kind in REMOTE if kind in (settings.backend, settings.members_backend)]


def has_network(settings: TerminalSettings, kind: str, *, is_owner: bool) -> bool:
    if kind == "ssh":
        return True
    chosen = getattr(settings, kind)
    return bool(chosen.network if is_owner else getattr(chosen, "members_network", False))


def build_place(settings: TerminalSettings, kind: str, home: Home, private: Path, *, is_owner: bool) -> Place:
    """Return the place of a person, whose folder for our own files is `private`. Nothing is made yet."""
    if kind == "ssh":
        return SshPlace(settings=settings.ssh, title=settings.ssh.host)
    label, who = _hash(str(home.root))[:10], _hash(os.path.relpath(private, home.root))[:12]
    return REMOTE[kind](
        settings=getattr(settings, kind),
        name=f"hermes-{label}-{who}",
        label=label,
        network=has_network(settings, kind, is_owner=is_owner),
        is_owners=is_owner,
        idle_seconds=settings.idle_minutes * 60,
        **({"folder": home.workspaces / "instances" / who} if kind == "singularity" else {}),
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def build_backend(settings: TerminalSettings, kind: str, home: Home, private: Path, *, is_owner: bool) -> RemoteBackend:
    place = build_place(settings, kind, home, private, is_owner=is_owner)
    limits = "a time limit only, and what that place itself limits"
    if kind in ("docker", "modal"):
        chosen = getattr(settings, kind)
        limits = f"{chosen.memory_mb} MB of memory and {chosen.cpus:g} processors"
    return RemoteBackend(kind, place, settings, poll_seconds=_POLL_SECONDS[kind], limits=limits)


def remote_processes(settings: TerminalSettings) -> Mapping[str, ProcessControl]:
    """Return what controls the background processes of each kind of place, by the facts in their handles."""
    return {kind: RemoteProcesses(partial(_find_place, settings, kind), _POLL_SECONDS[kind]) for kind in REMOTE}


def _find_place(settings: TerminalSettings, kind: str, facts: Mapping[str, Any]) -> Place:
    if kind == "ssh":
        return SshPlace(settings=settings.ssh.model_copy(update=dict(facts)), title=facts["host"])
    return REMOTE[kind](settings=getattr(settings, kind), **facts)


async def check_backend(settings: TerminalSettings, kind: str, home: Home) -> None:
    """Run a command in a place of its own, and remove that. Raises BackendFailed with the reason when it fails."""
    backend = build_backend(settings, kind, home, home.private / "doctor" / kind, is_owner=True)
    backend.workspace = HOME
    try:
        finished = await backend.run(Command(argv=("true",), timeout_seconds=SHORT_CALL_SECONDS))
        if finished.exit_code:
            raise PlaceFailed(f"{backend.place.title} runs no commands: {finished.output.strip()[:200]}.")
    finally:
        with suppress(PlaceFailed):  # then there is nothing to remove
            await backend.place.remove(with_files=True)


async def remove_places(settings: TerminalSettings, home: Home, *, with_files: bool) -> int:
    """Remove all containers and sandboxes of this home; return how many there were. Raises PlaceFailed."""
    removed = 0
    for kind in kinds_in_use(settings):
        place = build_place(settings, kind, home, home.private, is_owner=True)
        removed += await place.remove_all(with_files=with_files)
    return removed


async def remove_places_of(settings: TerminalSettings, home: Home, person_id: str) -> None:
    """Remove the places of a person with their files. Raises PlaceFailed."""
    for kind in kinds_in_use(settings):
        for box in ("alone", "box"):
            private = home.private / person_id / box
            await build_place(settings, kind, home, private, is_owner=box == "alone").remove(with_files=True)
