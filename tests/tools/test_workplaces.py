"""Who works where: the owner as the settings say, everybody else in a sandbox."""

from pathlib import Path

import pytest

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import BackendFailed, Workplace
from tools.backends.bubblewrap import BubblewrapBackend
from tools.workplaces import build_workplace, choose_folder


def built(tmp_path: Path, *, is_owner: bool, folder: str = "ws", **settings: object) -> Workplace:
    return build_workplace(
        TerminalSettings.model_validate(settings),
        tmp_path / folder,
        home=Home(tmp_path / "home"),
        private=tmp_path / "private",
        is_owner=is_owner,
    )


@pytest.mark.parametrize(
    ("backend", "is_owner", "name"),
    [
        ("local", True, "local"),
        ("sandbox", True, "sandbox"),
        ("local", False, "sandbox"),
        ("sandbox", False, "sandbox"),
    ],
)
def test_only_the_owner_works_outside_of_a_sandbox(tmp_path: Path, backend: str, is_owner: bool, name: str) -> None:
    place = built(tmp_path, is_owner=is_owner, backend=backend)
    assert (place.backend.name, place.backend.isolates) == (name, name != "local")
    assert place.workspace == place.current_folder == str(tmp_path / "ws")
    assert place.kept_outputs == str(tmp_path / "private" / "outputs")


def test_what_is_passed_through_reaches_the_owners_commands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    for is_owner in (True, False):
        place = built(tmp_path, is_owner=is_owner, backend="sandbox", env_passthrough=("GITHUB_TOKEN",))
        assert isinstance(place.backend, BubblewrapBackend)
        assert ("GITHUB_TOKEN" in place.backend._environment()) is is_owner


def test_limits_are_those_of_the_settings(tmp_path: Path) -> None:
    place = built(tmp_path, is_owner=False, sandbox={"memory_mb": 123, "max_processes": 45, "workspace_mb": 67})
    assert "123 MB of memory" in place.backend.limits_in_force
    assert "a workspace of 67 MB" in place.backend.limits_in_force


def test_our_home_is_nobodys_workspace(tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match="files of Hermes itself"):
        built(tmp_path, is_owner=False, folder="home")


@pytest.mark.parametrize(
    ("path", "located"),
    [
        ("a", "/srv/place/a"),
        ("", "/srv/place"),
        (".", "/srv/place"),
        ("../b", "/srv/b"),
        ("../../../..", "/"),
        ("/etc//x/", "/etc/x"),
        ("//etc", "/etc"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("~other/x", "/srv/place/~other/x"),
    ],
)
def test_paths_are_found_from_the_current_folder(tmp_path: Path, path: str, located: str) -> None:
    place = built(tmp_path, is_owner=True)
    place.current_folder = "/srv/place"
    place.backend.home = "/home/me"  # type: ignore[misc]
    assert place.locate(path) == located


@pytest.mark.parametrize(("folder", "is_kept"), [("/", False), ("/tmp", False), ("/tmp/project", True), ("/srv", True)])
def test_in_a_sandbox_the_owner_does_not_work_in_the_machines_own_tmp(
    monkeypatch: pytest.MonkeyPatch, folder: str, is_kept: bool
) -> None:
    """Commands would see the sandbox's own there, and the file tools the machine's, with everybody's sockets."""
    monkeypatch.setenv("HOME", "/home/me")
    chosen = choose_folder(TerminalSettings(backend="sandbox"), Path(folder), Home(Path("/home/me/.hermes")))
    assert chosen == (Path(folder) if is_kept else Path("/home/me/hermes-work"))
