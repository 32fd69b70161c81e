"""Programs that some tests need, by the Debian package that has them.

A test says `@needs("ripgrep")` and is skipped where that is missing; the end of a run tells how many were, and how to
install what they need. `python -m tests.programs` installs it.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest

from tools.backends.sandbox import SandboxProblem, find_features

MARK = "needs"
COMMANDS = {
    "bubblewrap": ("bwrap",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "curl": ("curl",),
    "git": ("git",),
    "procps": ("pgrep",),
    "ripgrep": ("rg",),
    "systemd": ("systemd-analyze",),
}


def needs(package: str) -> pytest.MarkDecorator:
    assert package in COMMANDS
    return getattr(pytest.mark, MARK)(package)  # type: ignore[no-any-return]


def find(package: str) -> str | None:
    """Return the path of the package's program."""
    return next(filter(None, map(shutil.which, COMMANDS[package])), None)


def missing() -> list[str]:
    return [package for package in COMMANDS if find(package) is None]


@cache
def why_not(package: str) -> str:
    """Return why tests that need the package cannot run here; empty where they can."""
    if find(package) is None:
        return f"{package} is not installed"
    if package == "bubblewrap":
        try:
            find_features()
        except SandboxProblem as problem:
            return str(problem)
    return ""


def summarise(skipped: Iterable[str]) -> list[str]:
    """Return the lines that end a run, given the packages that skipped tests need."""
    counts = Counter(skipped)
    lines = [f"{count:>5}  {why_not(package)}" for package, count in sorted(counts.items())]
    if to_install := [package for package in sorted(counts) if find(package) is None]:
        lines.append(f"To run them too: {_install_line(to_install)} (`make test-all` does that, as root)")
    return lines


def install() -> str:
    """Install what is missing; return what is left to be done by hand."""
    packages = missing()
    if not packages:
        return ""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return f"Missing: {', '.join(packages)}. Install them and try again: sudo {_install_line(packages)}"
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], check=True, env=quietly)
    return ""


def _install_line(packages: Iterable[str]) -> str:
    return f"apt-get install {' '.join(packages)}"


if __name__ == "__main__":
    sys.exit(install() or None)  # an empty text would count as a failure
