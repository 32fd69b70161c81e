"""What every test gets: no network beyond loopback, and a home of its own."""

import importlib
import os
import runpy
import signal
import sys
import warnings
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from hermes_config.keys import variables
from tests import programs, thorough

_SLOW_ROOMS = {"faults", "interop", "journeys", "web"}
_GUARD = Path(__file__).parent / "guard"
runpy.run_path(str(_GUARD / "sitecustomize.py"))  # works from here on

# Wherever it is forbidden to keep what was compiled, each worker and each process that a test starts would compile
# all of ours again, which takes longer than most tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A run that was started in the background or by nohup ignores these, and each process that a test starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How busy the machine is decides no test.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("any machine")

_OURS = ("HERMES_", "NOTIFY_SOCKET", "WATCHDOG_")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of the developer's own Hermes reaches a test, no test reaches it, and none hides another's log lines."""
    for name in list(os.environ):
        if name.startswith(_OURS) or name in variables():
            monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(_GUARD))
    monkeypatch.setattr("tools.backends.box.IDLE_SECONDS", 5.0)  # not ten minutes after each test
    yield
    structlog.reset_defaults()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test is skipped")
    parser.addoption("--thorough", action="store_true", help="run every row of the long tables, not a few of each")


def pytest_collection(session: pytest.Session) -> None:
    """Workers that have all to read read different files first: what one has compiled the others only load."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(named).name for named in session.config.args] != [Path(__file__).parent.name]:
        return
    root = Path(__file__).parents[1]
    files = sorted(root.glob("tests/**/test_*.py"))
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        # What is wrong with a file is told where it is collected.
        with suppress(Exception), warnings.catch_warnings(action="error"):
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--thorough"):
        kept_back = [item for item in items if item.get_closest_marker(thorough.MARK)]
        config.hook.pytest_deselected(items=kept_back)
        items[:] = [item for item in items if not item.get_closest_marker(thorough.MARK)]
    items[:] = _slow_ones_first(items, workers=getattr(config, "workerinput", {}).get("workercount", 1))


def _slow_ones_first(items: list[pytest.Item], *, workers: int) -> list[pytest.Item]:
    """In each worker's share: begun last, one slow test would keep the other workers idle. Neighbours stay together,
    since they share what was started for them."""
    slow = [item for item in items if _is_slow(item)]
    quick = [item for item in items if not _is_slow(item)]
    shares = [
        group[worker * len(group) // workers : (worker + 1) * len(group) // workers]
        for worker in range(workers)
        for group in (slow, quick)
    ]
    return [item for share in shares for item in share]


def _is_slow(item: pytest.Item) -> bool:
    return not _SLOW_ROOMS.isdisjoint(item.path.parts) or item.get_closest_marker("slow") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = [mark.args[0] for mark in item.iter_markers(programs.MARK)]
    if lacking := {package: reason for package in wanted if (reason := programs.why_not(package))}:
        item.user_properties.append((programs.MARK, list(lacking)))
        pytest.skip(", ".join(lacking.values()))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so that it comes last, after pytest's own
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    yield
    lacking = [
        packages
        for report in (*terminalreporter.getreports("skipped"), *terminalreporter.getreports("failed"))
        for name, packages in report.user_properties
        if name == programs.MARK
    ]
    if lacking:
        terminalreporter.section(f"{len(lacking)} tests need programs that are missing here")
        for line in programs.summarise(package for packages in lacking for package in packages):
            terminalreporter.line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--no-skips"):
        report.outcome = "failed"
    return report
