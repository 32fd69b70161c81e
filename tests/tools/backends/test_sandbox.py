"""What a sandbox is made of, and what is said where there can be none."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import needs
from tools.backends.base import BackendFailed, Command
from tools.backends.bubblewrap import BubblewrapBackend
from tools.backends.policy import SandboxPolicy
from tools.backends.sandbox import (
    Cgroups,
    SandboxFeatures,
    SandboxLimits,
    SandboxProblem,
    _diagnose,
    devices,
    find_cgroups,
    find_features,
    namespaces,
)
from tools.backends.seccomp import build_filter

FEATURES = SandboxFeatures(program="bwrap", options=frozenset({"--size", "--disable-userns"}))


def bound(made: list[str], option: str) -> list[str]:
    return [made[at + 2] for at, argument in enumerate(made) if argument == option]


def test_every_namespace_is_its_own_and_no_right_is_left() -> None:
    made = namespaces(FEATURES)
    assert {f"--unshare-{name}" for name in ("user", "pid", "ipc", "uts", "net")} <= set(made)
    assert {"--new-session", "--disable-userns"} <= set(made)
    assert made[made.index("--cap-drop") + 1] == "ALL"


def test_only_the_workspace_and_a_private_tmp_can_be_written(tmp_path: Path) -> None:
    made = SandboxPolicy.of(workspace=tmp_path / "ws", private=tmp_path / "private").mounts()
    assert bound(made, "--bind") == ["/tmp", str(tmp_path / "ws")]
    shown = bound(made, "--ro-bind")
    ours = (str(tmp_path), "/run/hermes", os.path.realpath(sys.base_prefix))
    roots = {Path(path).parts[1] for path in shown if not path.startswith(ours)}
    assert roots <= {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt"}
    assert not {"/etc/shadow", "/etc/resolv.conf", "/etc"} & set(shown)


def test_an_older_bubblewrap_is_not_asked_for_what_it_does_not_know() -> None:
    older = SandboxFeatures(program="bwrap", options=frozenset())
    assert not {"--size", "--disable-userns"} & {*namespaces(older), *devices(older)}


def test_what_is_hidden_inside_of_what_is_shown_is_covered(tmp_path: Path) -> None:
    policy = SandboxPolicy.of(
        workspace=tmp_path / "ws", private=tmp_path / "p", hidden=[Path("/usr/share"), Path("/root")]
    )
    made = policy.mounts()
    assert [made[at + 1] for at, argument in enumerate(made) if argument == "--tmpfs"] == ["/usr/share"]
    assert made.index("/usr/share") > made.index("/usr")


@pytest.mark.parametrize("workspace", ["home", ".", "/"])
def test_a_workspace_that_holds_our_home_is_refused(tmp_path: Path, workspace: str) -> None:
    with pytest.raises(BackendFailed, match="it contains files of Hermes itself"):
        SandboxPolicy.of(workspace=tmp_path / workspace, private=Path("/nowhere"), ours=[tmp_path / "home"])


def test_a_workspace_inside_of_our_home_shows_itself_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "home" / "workspaces" / "7"
    made = SandboxPolicy.of(workspace=workspace, private=tmp_path / "p", ours=[tmp_path / "home"]).mounts()
    assert str(tmp_path / "home") not in made


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_jump_of_the_filter_leaves_it(machine: str) -> None:
    program = build_filter(machine)
    lines = list(struct.iter_unpack("=HBBI", program))
    assert len(lines) * 8 == len(program)
    assert all(
        at + 1 + max(yes, no) < len(lines) for at, (code, yes, no, _) in enumerate(lines) if code in (0x15, 0x45)
    )
    assert lines[-1] == (0x06, 0, 0, 0x7FFF0000)
    assert build_filter("riscv64") == b""


def test_without_bubblewrap_one_sentence_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxProblem, match="needs bubblewrap, which is not installed") as problem:
        find_features.__wrapped__()
    assert problem.value.fix == "apt install bubblewrap"


def test_where_the_kernel_forbids_it_its_own_words_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(SandboxProblem, match="setting up uid map: Permission denied"):
        find_features.__wrapped__()


@pytest.mark.parametrize(
    ("file", "content", "reason", "fix"),
    [
        ("proc/sys/user/max_user_namespaces", "0", "switched off", "user.max_user_namespaces=15000"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0", "only root", "unprivileged_userns_clone=1"),
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor", "bwrap-userns-restrict"),
        (".dockerenv", "", "container", "--security-opt"),
        ("proc/sys/user/max_user_namespaces", "15000", "not allowed", "terminal.backend to local"),
    ],
)
def test_each_reason_comes_with_its_fix(tmp_path: Path, file: str, content: str, reason: str, fix: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    told = _diagnose(tmp_path)
    assert reason in told[0]
    assert fix in told[1]


FALLEN_BACK = """
from hermes_config.settings import TerminalSettings
from tools.workplaces import runs_boxed, sandbox_fix, sandbox_problem
print(runs_boxed(TerminalSettings()), sandbox_problem(), sandbox_fix(), sep="\\n")
"""


@needs("bubblewrap")
def test_where_user_namespaces_are_off_the_owner_falls_back_to_this_machine() -> None:
    """In a user namespace of its own, in which they can be switched off for those inside."""
    switch = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    ran = subprocess.run(
        ["unshare", "--map-root-user", "sh", "-c", switch, "sh", sys.executable, "-c", FALLEN_BACK],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    fell_back, problem, fix = ran.stdout.splitlines()
    assert fell_back == "False"
    assert "user namespaces are switched off" in problem
    assert fix.startswith("sysctl -w user.max_user_namespaces")


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


@needs("bubblewrap")
async def test_limits_that_cannot_be_set_keep_a_command_from_running(tmp_path: Path) -> None:
    backend = BubblewrapBackend(SandboxPolicy.of(workspace=tmp_path / "ws", private=tmp_path / "p"))
    backend._cgroups = Cgroups(version=2, parents=(tmp_path / "gone",), limits=SandboxLimits())
    with pytest.raises(BackendFailed, match="cannot be prepared"):
        await backend.run(Command(text="true"))


def test_without_proc_there_are_none(tmp_path: Path) -> None:
    assert find_cgroups(SandboxLimits(), tmp_path) is None


def test_it_says_which_limits_are_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.backends.bubblewrap.find_cgroups", lambda limits: None)
    policy = SandboxPolicy.of(workspace=tmp_path / "ws", private=tmp_path / "p")
    backend = BubblewrapBackend(policy, limits=SandboxLimits(memory_mb=100, max_processes=9))
    told = backend.limits_in_force
    assert "100 MB of memory for each process" in told
    assert ("root has none" in told) == (os.geteuid() == 0)
    assert ("9 processes" in told) == (os.geteuid() != 0)
    assert "there is no quota" in told
