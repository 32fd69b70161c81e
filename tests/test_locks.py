"""Nothing is installed that is not pinned by version and hash."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _locked(name: str) -> dict[str, str]:
    """Return the pinned requirements of a lock file, each with its hashes."""
    blocks = re.split(r"^(?=[a-z])", (ROOT / name).read_text(), flags=re.MULTILINE)
    return {block.split(" ", 1)[0]: block for block in blocks if block.strip() and not block.startswith("#")}


def test_everything_in_the_lock_files_has_a_version_and_a_hash() -> None:
    for name in (
        "requirements.lock",
        "requirements-dev.lock",
        "requirements-extras.lock",
        "requirements-research.lock",
        "requirements-build.lock",
    ):
        locked = _locked(name)
        assert locked
        for requirement, block in locked.items():
            assert "==" in requirement, (name, requirement)
            assert "--hash=sha256:" in block, (name, requirement)


def test_what_builds_the_package_is_pinned_and_installed_by_hash() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert set(wanted) == set(_locked("requirements-build.lock"))
    editable = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--editable" in line]
    assert editable
    assert all("--no-build-isolation" in line for line in editable), "pip would download what it builds with"
