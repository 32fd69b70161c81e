"""Whatever is wrong with a place is one sentence, with the next step for the operator, and what can go on goes on."""

import asyncio
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.doctor.facts import Facts
from gateway.doctor.service import check_backends
from hermes_config.places import Home
from hermes_config.settings import DaytonaSettings, ModalSettings, SingularitySettings, SshSettings, TerminalSettings
from tests.programs import needs
from tests.tools.backends.remote import sides
from tests.tools.backends.remote.conftest import Places
from tests.tools.backends.remote.test_conformance import count_sleeping, kinds, unique_seconds, until
from tools.backends.base import BackendFailed, Command, FileRefused
from tools.backends.remote.backend import RemoteBackend
from tools.backends.remote.containers import DockerPlace
from tools.backends.remote.places import remove_places
from tools.workplaces import process_backends

everything = kinds("local", "sandbox", "podman")
dockers = [needs("docker.io"), needs("busybox-static")]


def on(kind: str, change: Callable[[Any], dict[str, Any]], words: str, fix: str) -> Any:
    programs = ("openssh-server", "openssh-client") if kind == "ssh" else ("docker.io", "busybox-static")
    return pytest.param(kind, change, words, fix, marks=[needs(program) for program in programs])


@pytest.mark.parametrize(
    ("places", "change", "words", "fix"),
    [
        on("docker", lambda s: {"binary": "/none/docker"}, "/none/docker is not installed", "apt install docker.io"),
        on("docker", lambda s: {"image": "127.0.0.1:9/none"}, "there is no image 127.0.0.1:9/none", "docker pull"),
        on("docker", lambda s: {"image": "No Name"}, "not the name of an image", "terminal.docker.image"),
        on("ssh", lambda s: {"known_hosts": "/dev/null"}, "is not known yet", "compare the fingerprint"),
        on(
            "ssh",
            lambda s: {"known_hosts": s.key.replace("user", "forged")},
            "has changed",
            "ssh-keygen -R",
        ),
        on("ssh", lambda s: {"key": s.key.replace("user", "other")}, "refuses the key", "ssh-copy-id"),
        on("ssh", lambda s: {"port": free_port()}, "nothing listens", "start sshd"),
        on("ssh", lambda s: {"host": ""}, "No machine to work on is set", "terminal.ssh.host"),
        on(
            "singularity", lambda s: {"image": "/none.sif"}, "there is no image /none.sif", "terminal.singularity.image"
        ),
        on("singularity", lambda s: {"binary": "/none/apptainer"}, "is not installed", "install apptainer"),
        on("daytona", lambda s: {"image": "nosuch"}, "Snapshot nosuch not found", "doctor"),
        on("daytona", lambda s: {"api_url": f"http://127.0.0.1:{free_port()}"}, "cannot be reached", "network"),
        on("modal", lambda s: {"image": "nosuch"}, "the image cannot be used", "terminal.modal.image"),
    ],
    indirect=["places"],
)
async def test_a_sentence_says_why_and_what_to_do(
    places: Places, change: Callable[[Any], dict[str, Any]], words: str, fix: str
) -> None:
    section = getattr(places.settings, places.kind)
    if places.kind == "ssh":
        forge_host_key(section)
    backend = places.build(**{places.kind: section.model_copy(update=change(section))})
    with pytest.raises(BackendFailed, match=words) as failed:
        await backend.run(Command(text="true"))
    assert fix in failed.value.fix  # type: ignore[attr-defined]
    assert "\n" not in str(failed.value)
    with pytest.raises(FileRefused, match=words):
        await backend.files.read("/etc/passwd", max_bytes=10)
    places.made.clear()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def forge_host_key(settings: SshSettings) -> None:
    folder = Path(settings.key).parent
    key = " ".join((folder / "other.pub").read_text().split()[:2])
    (folder / "forged").write_text(f"[127.0.0.1]:{settings.port} {key}\n")


@pytest.mark.parametrize(
    ("kind", "variables", "words"),
    [
        pytest.param("docker", {"DOCKER_HOST": "unix:///none.sock"}, "daemon", marks=dockers),
        ("modal", {"MODAL_TOKEN_ID": ""}, "Modal|modal"),
        ("daytona", {"DAYTONA_API_KEY": ""}, "no key for Daytona"),
    ],
)
def test_the_doctor_says_what_is_wrong(
    kind: str, variables: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = SimpleNamespace(terminal=sides.terminal_settings(kind))
    [finding] = check_backends(cast(Facts, SimpleNamespace(settings=settings, home=Home(tmp_path))))
    assert finding.level == "bad"
    assert finding.fix
    assert any(word in finding.text for word in words.split("|"))


@pytest.mark.parametrize("places", [pytest.param("docker", marks=dockers)], indirect=True)
async def test_the_doctor_tries_a_backend_and_leaves_nothing(places: Places) -> None:
    facts = cast(Facts, SimpleNamespace(settings=SimpleNamespace(terminal=places.settings), home=places.home))
    findings = await asyncio.to_thread(lambda: list(check_backends(facts)))
    assert [finding.level for finding in findings] == ["ok"]
    assert await remove_places(places.settings, places.home, with_files=True) == 0


@pytest.mark.parametrize("places", [pytest.param("docker", marks=dockers)], indirect=True)
async def test_a_full_disk_is_told_and_stops_no_command(places: Places) -> None:
    options = ("--tmpfs=/full:size=1m", "--tmpfs=/tmp:size=1m,mode=1777")
    backend = places.build(docker=sides.docker_settings(options=options))
    with pytest.raises(FileRefused, match="disk is full"):
        await backend.files.write("/full/file", b"x" * 2_000_000)
    assert await backend.files.look("/full/file") is None
    finished = await backend.run(Command(text="yes | head -c 5000000; echo end >&2; exit 7"))
    assert finished.exit_code == 7
    assert 4_900_000 < finished.output_bytes <= 5_000_004
    assert "disk there is full" in finished.note


@pytest.mark.parametrize("places", [pytest.param("ssh", marks=needs("openssh-server"))], indirect=True)
async def test_a_connection_that_is_cut_ends_the_command_and_keeps_background_processes(places: Places) -> None:
    backend, waited, kept = places.build(), unique_seconds(), unique_seconds()
    handle = await backend.spawn(Command(text=f"sleep {kept}"))
    cut = (
        'p=$$; while [ "$(cat /proc/$p/comm)" != sshd ]; do p=$(cut -d" " -f4 /proc/$p/stat); done; '
        f"kill -9 $p; sleep {waited}"
    )
    with pytest.raises(BackendFailed, match="was cut"):
        await backend.run(Command(text=cut))

    async def is_gone() -> bool:
        return await count_sleeping(backend, waited) == 0

    await until(is_gone)
    control = process_backends(places.settings)["ssh"]
    assert await control.reattach([handle]) == {handle.id}
    await control.kill(handle)
    assert await count_sleeping(backend, kept) == 0


@everything
async def test_a_place_that_is_gone_is_made_again(places: Places) -> None:
    """And its background processes are over, instead of unknown for ever."""
    backend = places.build()
    assert isinstance(backend, RemoteBackend)
    handle = await backend.spawn(Command(text="sleep 600"))
    await backend.place.remove()
    if places.kind == "ssh":  # which nobody can remove
        await backend.kill(handle)
    assert not (await backend.statuses([handle]))[handle.id].is_running
    assert (await backend.run(Command(text="echo again"))).output == "again\n"
    assert await process_backends(places.settings)[handle.backend].reattach([handle]) == set()


@pytest.mark.parametrize("places", [pytest.param("docker", marks=dockers)], indirect=True)
async def test_an_idle_container_ends_but_not_under_a_process(places: Places) -> None:
    backend = places.build()
    assert isinstance(backend, RemoteBackend)
    assert isinstance(backend.place, DockerPlace)
    backend.place = replace(backend.place, idle_seconds=2)
    await backend.files.write("/workspace/kept", b"x")
    await backend.spawn(Command(text="sleep 5; echo x > /workspace/done"))

    def containers() -> str:
        return subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True).stdout

    async def is_removed() -> bool:
        return not await asyncio.to_thread(containers)

    await until(is_removed)
    for file in ("kept", "done"):
        assert await backend.files.look(f"/workspace/{file}")


@everything
async def test_uninstalling_leaves_no_place(places: Places) -> None:
    for person in ("ann", "bob"):
        await places.build(person).run(Command(text="true"))
    removed = await remove_places(places.settings, places.home, with_files=True)
    assert removed == (0 if places.kind == "ssh" else 2)
    assert await remove_places(places.settings, places.home, with_files=True) == 0
    places.made.clear()


def test_what_members_get_isolates() -> None:
    with pytest.raises(ValueError, match="members_backend"):
        TerminalSettings(members_backend="ssh")
    assert TerminalSettings(backend="docker").docker.network is False
    assert (SingularitySettings().network, ModalSettings().members_network, DaytonaSettings().members_network) == (
        False,
        False,
        False,
    )
