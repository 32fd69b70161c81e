"""What the agent could do to this machine."""

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.doctor import rights
from tests.gateway.doctor.scene import facts_of, run_check


@pytest.mark.parametrize(("user_id", "level"), [(0, "warn"), (1000, "ok")])
def test_who_is_root_is_told(root: Path, user_id: int, level: str) -> None:
    assert [found for found, _ in run_check(rights.check_root, facts_of(root, user_id=user_id))] == [level]


def test_a_gateway_that_runs_as_root_is_bad(root: Path) -> None:
    facts = facts_of(root, gateway={"pid": os.getpid()})
    assert [level for level, _ in run_check(rights.check_root, facts)] == ["bad" if os.geteuid() == 0 else "ok"]


@pytest.mark.parametrize(("backend", "level"), [("local", "warn"), ("sandbox", "ok")])
def test_the_owners_backend(root: Path, backend: str, level: str) -> None:
    assert [
        found for found, _ in run_check(rights.check_backend, facts_of(root, {"terminal": {"backend": backend}}))
    ] == [level]


@pytest.mark.parametrize(
    ("network", "problem", "level"), [(False, "", "ok"), (True, "", "warn"), (False, "No bubblewrap.", "warn")]
)
def test_the_sandbox(root: Path, network: bool, problem: str, level: str) -> None:
    facts = facts_of(root, {"terminal": {"sandbox": {"members_network": network}}}, sandbox_problem=problem)
    assert [found for found, _ in run_check(rights.check_sandbox, facts)] == [level]


@pytest.mark.parametrize(
    ("names", "levels"),
    [("", ["ok"]), ("EDITOR", ["ok"]), ("GITHUB_TOKEN", ["warn"]), ("OPENAI_API_KEY,GITHUB_TOKEN", ["bad", "warn"])],
)
def test_what_commands_are_given(root: Path, names: str, levels: list[str]) -> None:
    facts = facts_of(root, {"terminal": {"env_passthrough": names}}, secrets={"OPENAI_API_KEY": "k"})
    assert [level for level, _ in run_check(rights.check_passthrough, facts)] == levels


def test_a_password_for_sudo(root: Path) -> None:
    assert run_check(rights.check_sudo, facts_of(root)) == []
    [(level, text)] = run_check(rights.check_sudo, facts_of(root, secrets={"SUDO_PASSWORD": "hunter2"}))
    assert (level, "hunter2" in text) == ("warn", False)


@pytest.mark.parametrize("folder", ["/etc", "~/", "over", "beside"])
def test_folders_from_which_files_are_sent(root: Path, folder: str) -> None:
    places: dict[str, Any] = {"over": str(root.parent), "beside": str(root.parent / "pictures")}
    facts = facts_of(root, {"media": {"allowed_dirs": places.get(folder, folder)}})
    assert [level for level, _ in run_check(rights.check_media_folders, facts)] == (
        [] if folder == "beside" else ["bad"]
    )
