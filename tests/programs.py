"""Programs that some tests need, by the Debian package that has them, and packages too large for every machine.

A test says `@needs("ripgrep")` or `@needs("research")` and is skipped where that is missing; the end of a run tells how
many were, and how to install what they need. `make test-all` installs it: programs by `python -m tests.programs`.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest

from tests import mcp_servers
from tools.backends.sandbox import SandboxProblem, find_features

MARK = "needs"
COMMANDS = {
    "bubblewrap": ("bwrap",),
    "busybox-static": ("busybox",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "curl": ("curl",),
    "docker.io": ("dockerd",),
    "espeak-ng": ("espeak-ng",),
    "git": ("git",),
    "iproute2": ("ip",),
    "nodejs": ("node",),
    "npm": ("npm",),
    "openssh-client": ("ssh",),
    "openssh-server": ("sshd",),
    "podman": ("podman",),
    "procps": ("pgrep",),
    "ripgrep": ("rg",),
    "systemd": ("systemd-analyze",),
}
RESEARCH = "research"
RESEARCH_PACKAGES = ("ray", "atroposlib", "gymnasium", "datasets")  # of requirements-research.lock: a gigabyte

AS_ROOT = ("docker.io", "podman", "openssh-server")


def needs(package: str) -> pytest.MarkDecorator:
    assert package in COMMANDS or package in (RESEARCH, mcp_servers.NAME)
    return getattr(pytest.mark, MARK)(package)  # type: ignore[no-any-return]


def find(package: str) -> str | None:
    """Return the path of the package's program."""
    return next(filter(None, map(shutil.which, COMMANDS[package])), None)


def missing() -> list[str]:
    return [package for package in COMMANDS if find(package) is None]


@cache
def why_not(package: str) -> str:
    """Return why tests that need the package cannot run here; empty where they can."""
    if package == RESEARCH:
        lacking = [name for name in RESEARCH_PACKAGES if importlib.util.find_spec(name) is None]
        return f"{', '.join(lacking)} of requirements-research.lock: not installed" if lacking else ""
    if package == mcp_servers.NAME:
        return "" if mcp_servers.is_installed() else "the public MCP servers are not installed"
    if find(package) is None:
        return f"{package} is not installed"
    if package in AS_ROOT and os.geteuid() != 0:
        return f"{package} works in tests for root only"
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
    if mcp_servers.NAME in counts:
        lines.append("To run those with MCP servers: python -m tests.programs (`make test-all` does that)")
    if to_install := [
        package for package in sorted(set(counts) - {RESEARCH, mcp_servers.NAME}) if find(package) is None
    ]:
        lines.append(f"To run them too: {_install_line(to_install)} (`make test-all` does that, as root)")
    if RESEARCH in counts:
        install = "pip install --require-hashes -r requirements-research.lock"
        lines.append(f"To run them too: .venv/bin/{install} (`make test-all` does that)")
    return lines


def install() -> str:
    """Install what is missing; return what is left to be done by hand."""
    problem = _install_packages(missing())
    if not problem and not mcp_servers.is_installed():
        mcp_servers.install()
    return problem


def _install_packages(packages: list[str]) -> str:
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
