"""On a machine without the programs that some tests need, those are skipped, counted and told how to be run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import mcp_servers, programs
from tools.backends.sandbox import find_features

ROOT = Path(__file__).parents[1]
UNITS = "tests/gateway/test_systemd.py::test_the_unit_files_are_sound"


def run_tests(path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run two tests that need systemd-analyze, with nothing on the path but what is in the folder."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", UNITS, *arguments],
        env={"PATH": str(path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_missing_program_is_named_at_the_end_with_the_line_that_installs_it(tmp_path: Path, workers: str) -> None:
    run = run_tests(tmp_path, "-n", workers)
    assert run.returncode == 0, run.stdout
    *_, title, count, how, _ = run.stdout.splitlines()
    assert "2 tests need programs that are missing here" in title
    assert count == "    2  systemd is not installed"
    assert how == "To run them too: apt-get install systemd (`make test-all` does that, as root)"


def test_where_nothing_may_be_skipped_a_missing_program_is_a_failure(tmp_path: Path) -> None:
    run = run_tests(tmp_path, "--no-skips")
    assert run.returncode == 1
    assert "systemd is not installed" in run.stdout


def test_what_is_installed_but_does_not_work_is_not_to_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    programs.why_not.cache_clear()
    find_features.cache_clear()
    try:
        [line] = programs.summarise(["bubblewrap", "bubblewrap"])
    finally:
        programs.why_not.cache_clear()
        find_features.cache_clear()
    assert line.startswith("    2  No sandbox can be made on this machine")
    assert "Permission denied" in line


def test_packages_for_research_are_installed_by_their_lock_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "RESEARCH_PACKAGES", ("pytest", "no_such_package"))
    programs.why_not.cache_clear()
    try:
        count, how = programs.summarise(["research", "research", "research"])
    finally:
        programs.why_not.cache_clear()
    assert count == "    3  no_such_package of requirements-research.lock: not installed"
    assert "pip install --require-hashes -r requirements-research.lock (`make test-all` does that)" in how


EVERYTHING = (
    "bubblewrap busybox-static chromium curl docker.io espeak-ng git iproute2 nodejs npm openssh-client "
    "openssh-server podman procps systemd"
)


def test_what_is_missing_is_installed_with_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-get").write_text('#!/bin/sh\necho "$@" >> "$LOG"\n')
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LOG", str(log))
    monkeypatch.setattr("tests.mcp_servers.is_installed", lambda: True)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert programs.install().endswith(f"sudo apt-get install {EVERYTHING}")
    assert not log.exists()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert programs.install() == ""
    assert log.read_text().splitlines()[1].endswith(f" {EVERYTHING}")


@pytest.mark.skipif(
    bool(programs.missing()) or not mcp_servers.is_installed(), reason="installs nothing only where nothing is missing"
)
def test_where_nothing_is_missing_the_installer_succeeds() -> None:
    run = subprocess.run([sys.executable, "-m", "tests.programs"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
