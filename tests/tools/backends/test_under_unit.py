"""A command in a sandbox works under the restrictions of both systemd units."""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import needs

ROOT = Path(__file__).parents[3]
UNITS = ("hermes-gateway.service", "deploy/hermes-gateway.system.service")
pytestmark = [
    needs("bubblewrap"),
    pytest.mark.skipif(os.geteuid() != 0 or platform.machine() != "x86_64", reason="mounts and filters need root"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="under-unit-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def run_under(unit: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "user").mkdir(parents=True)
    argv = ["unshare", "--mount", sys.executable, "-m", "tests.tools.backends.under_unit", str(unit), str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)


@pytest.mark.parametrize("unit", UNITS)
def test_a_command_in_the_sandbox_works_under_the_unit(unit: str, folder: Path) -> None:
    ran = run_under(ROOT / unit, folder / "state")
    assert {"1000", "works"} <= set(ran.stdout.split()), ran.stderr[-1000:]


@pytest.mark.parametrize(
    "line",
    [
        "ProtectKernelTunables=yes",
        "ProtectKernelLogs=yes",
        "RestrictNamespaces=~cgroup",
        "RestrictAddressFamilies=AF_UNIX",
    ],
)
def test_what_the_units_leave_out_would_prevent_it(line: str, folder: Path) -> None:
    unit = folder / "strict.service"
    unit.write_text((ROOT / UNITS[1]).read_text().replace("LimitCORE=0\n", f"LimitCORE=0\n{line}\n"))
    ran = run_under(unit, folder / "state")
    assert "works" not in ran.stdout
    assert "No sandbox can be made" in ran.stderr or "did not start" in ran.stderr
