"""Each kind of place, made when a test first asks for it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes_config.places import Home
from hermes_config.settings import DaytonaSettings, ModalSettings, SingularitySettings, SshSettings, TerminalSettings
from tests.tools.backends.remote import sides, standins
from tools.backends.base import Backend
from tools.workplaces import build_workplace


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with sides.docker_daemon(tmp_path_factory.mktemp("d")) as address:
        yield address


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sides.podman_program(tmp_path_factory.mktemp("p"))


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshSettings]:
    with sides.ssh_server(tmp_path_factory.mktemp("s")) as settings:
        yield settings


class Places:
    """Builds backends of one kind as the gateway does, and removes their places afterwards."""

    def __init__(self, kind: str, settings: TerminalSettings, root: Path) -> None:
        self.kind, self.settings, self.home = kind, settings, Home(root / "home")
        self._folder = root / "project"
        self._folder.mkdir(exist_ok=True)
        self.made: list[Any] = []

    def build(self, person: str = "ann", **more: Any) -> Backend:
        settings = self.settings.model_copy(update=more)
        folder = self._folder if person == "ann" else self.home.workspaces / person
        private = self.home.private / person / "alone"
        place = build_workplace(settings, folder, home=self.home, private=private, is_owner=True, holder=person)
        self.made.append(place.backend)
        self.workspace = place.workspace
        return place.backend

    async def remove(self) -> None:
        for backend in self.made:
            await backend.close()
            if hasattr(backend, "place"):
                await backend.place.remove(with_files=True)


@pytest.fixture
async def places(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Places]:
    """Return the places of the kind that the test is parametrised with."""
    kind: str = request.param
    more: dict[str, Any] = {"backend": kind}
    async with AsyncExitStack() as stack:
        if kind == "podman":
            more = {"docker": sides.docker_settings(binary=request.getfixturevalue("podman"), image=sides.PLAIN_IMAGE)}
        elif kind == "ssh":
            more = {"ssh": request.getfixturevalue("sshd")}
        elif kind not in ("local", "sandbox"):
            request.getfixturevalue("docker")
        if kind == "docker":
            more = {"docker": sides.docker_settings()}
        elif kind == "singularity":
            program = await asyncio.to_thread(standins.apptainer_program, tmp_path)
            more = {"singularity": SingularitySettings(image=f"docker://{sides.IMAGE}", binary=program)}
        elif kind == "daytona":
            monkeypatch.setenv("DAYTONA_API_KEY", "dtn_right")
            address = await stack.enter_async_context(standins.daytona_server("dtn_right"))
            more = {"daytona": DaytonaSettings(api_url=address)}
        elif kind == "modal":
            monkeypatch.setenv("MODAL_TOKEN_ID", "ak-right")
            monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-right")
            monkeypatch.setitem(sys.modules, "modal", standins.modal_sdk(("ak-right", "as-right")))
            more = {"modal": ModalSettings()}
        made = Places(kind, sides.terminal_settings(kind, **more), tmp_path)
        yield made
        await made.remove()
