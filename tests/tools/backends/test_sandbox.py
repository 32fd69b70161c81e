"""What a sandbox is made of, and what is said where there can be none. Needs no bubblewrap."""

import os
from pathlib import Path

import pytest

from tools.backends.base import BackendFailed
from tools.backends.bubblewrap import BubblewrapBackend
from tools.backends.sandbox import (
    Cgroups,
    Sandbox,
    SandboxFeatures,
    SandboxLimits,
    SandboxProblem,
    WorkspaceUse,
    find_cgroups,
    find_features,
)

FEATURES = SandboxFeatures(program="bwrap", options=frozenset({"--size", "--disable-userns"}))


def box(tmp_path: Path, *, network: bool = False, hidden: tuple[Path, ...] = ()) -> Sandbox:
    return Sandbox.of(workspace=tmp_path / "ws", private=tmp_path / "private", hidden=hidden, network=network)


def arguments(made: Sandbox, *, features: SandboxFeatures = FEATURES, processes: int = 0) -> list[str]:
    return made.argv(["true"], workdir="/", features=features, processes=processes)


def test_every_namespace_is_its_own_and_no_right_is_left(tmp_path: Path) -> None:
    made = arguments(box(tmp_path))
    wanted = {"user", "pid", "ipc", "uts", "net"}
    assert {f"--unshare-{name}" for name in wanted} <= set(made)
    assert {"--die-with-parent", "--new-session", "--disable-userns"} <= set(made)
    assert made[made.index("--cap-drop") + 1] == "ALL"
    assert made[-2:] == ["--", "true"]


def test_only_the_workspace_and_a_private_tmp_can_be_written(tmp_path: Path) -> None:
    made = arguments(box(tmp_path))
    writable = [made[at + 2] for at, argument in enumerate(made) if argument == "--bind"]
    assert writable == ["/tmp", str(tmp_path / "ws")]
    shown = [made[at + 2] for at, argument in enumerate(made) if argument.startswith("--ro-bind")]
    roots = {Path(path).parts[1] for path in shown if not path.startswith((str(tmp_path), "/proc/sys"))}
    assert roots <= {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc"}
    assert not {"/etc/shadow", "/etc/resolv.conf", "/etc"} & set(shown)


def test_with_a_network_comes_what_names_are_looked_up_by(tmp_path: Path) -> None:
    made = arguments(box(tmp_path, network=True))
    assert "--unshare-net" not in made
    assert "/etc/resolv.conf" in made


def test_an_older_bubblewrap_is_not_asked_for_what_it_does_not_know(tmp_path: Path) -> None:
    made = arguments(box(tmp_path), features=SandboxFeatures(program="bwrap", options=frozenset()))
    assert not {"--size", "--disable-userns"} & set(made)


def test_what_is_hidden_inside_of_the_system_is_covered(tmp_path: Path) -> None:
    made = arguments(box(tmp_path, hidden=(Path("/usr/share"), Path("/root"))))
    assert [made[at + 1] for at, argument in enumerate(made) if argument == "--tmpfs"] == ["/dev/shm", "/usr/share"]


@pytest.mark.parametrize("workspace", ["home", ".", "/"])
def test_a_workspace_that_holds_our_home_is_refused(tmp_path: Path, workspace: str) -> None:
    with pytest.raises(BackendFailed, match="it contains files of Hermes itself"):
        BubblewrapBackend(workspace=tmp_path / workspace, private=Path("/nowhere"), hidden=[tmp_path / "home"])


def test_a_workspace_inside_of_our_home_shows_itself_alone(tmp_path: Path) -> None:
    made = Sandbox.of(
        workspace=tmp_path / "home" / "workspaces" / "7",
        private=tmp_path / "p",
        hidden=[tmp_path / "home"],
        network=False,
    )
    assert str(tmp_path / "home") not in arguments(made)


def test_without_bubblewrap_one_sentence_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxProblem, match=r"not installed\. Install it: apt install bubblewrap"):
        find_features.__wrapped__()


def test_where_the_kernel_forbids_it_its_own_words_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(SandboxProblem, match=r"setting up uid map: Permission denied\. Allow user namespaces"):
        find_features.__wrapped__()


# Control groups, in a copy of what the kernel shows.


def kernel(tmp_path: Path, *, switched_on: str, ours: str) -> Path:
    """A folder like /proc/self, and control groups of version 2 beside it."""
    groups, proc = tmp_path / "groups", tmp_path / "proc"
    (groups / ours).mkdir(parents=True)
    proc.mkdir()
    (groups / "cgroup.subtree_control").write_text(switched_on)
    (proc / "mountinfo").write_text(f"35 24 0:30 / {groups} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n")
    (proc / "cgroup").write_text(f"0::/{ours}\n")
    return proc


@pytest.mark.parametrize("switched_on", ["", "cpu io", "memory"])
def test_groups_whose_controllers_are_off_are_not_used(tmp_path: Path, switched_on: str) -> None:
    proc = kernel(tmp_path, switched_on=switched_on, ours="service")
    assert find_cgroups(SandboxLimits(), proc) is None


def test_a_folder_in_which_limits_cannot_be_set_is_not_used(tmp_path: Path) -> None:
    """An ordinary folder has no files like memory.max when it is made."""
    proc = kernel(tmp_path, switched_on="cpu memory pids", ours="service")
    assert find_cgroups(SandboxLimits(), proc) is None
    assert [folder.name for folder in (tmp_path / "groups").iterdir() if folder.is_dir()] == ["service"]


def test_limits_that_cannot_be_set_keep_a_command_from_running(tmp_path: Path) -> None:
    backend = BubblewrapBackend(workspace=tmp_path / "ws", private=tmp_path / "p")
    limits = SandboxLimits()
    backend._cgroups = Cgroups(version=2, parents=(tmp_path / "gone",), limits=limits)
    with pytest.raises(BackendFailed, match="its limits cannot be set"):
        backend._new_group()


def test_without_proc_there_are_none(tmp_path: Path) -> None:
    assert find_cgroups(SandboxLimits(), tmp_path) is None


def test_it_says_which_limits_are_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.backends.bubblewrap.find_cgroups", lambda limits: None)
    backend = BubblewrapBackend(
        workspace=tmp_path / "ws", private=tmp_path / "p", limits=SandboxLimits(memory_mb=100, max_processes=9)
    )
    told = backend.limits_in_force
    assert "100 MB of memory for each process" in told
    assert ("root has none" in told) == (os.geteuid() == 0)
    assert ("9 processes" in told) == (os.geteuid() != 0)
    assert "there is no quota" in told


def test_room_is_what_is_left_of_the_workspace(tmp_path: Path) -> None:
    use = WorkspaceUse(folders=(tmp_path,), max_bytes=100_000)
    assert use.room_bytes() == 100_000
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(bytes(40_000))
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert 40_000 <= use.used_bytes() < 60_000
    (tmp_path / "another").write_bytes(bytes(80_000))
    assert use.room_bytes() == 0
