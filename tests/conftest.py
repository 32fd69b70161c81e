"""What every test gets: no network beyond loopback, and a home of its own."""

import os
import runpy
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

from hermes_config.keys import variables
from tests.thorough import MARK

_GUARD = Path(__file__).parent / "guard"
runpy.run_path(str(_GUARD / "sitecustomize.py"))  # works from here on

_OURS = ("HERMES_", "NOTIFY_SOCKET", "WATCHDOG_")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of the developer's own Hermes reaches a test, no test reaches it, and none hides another's log lines."""
    for name in list(os.environ):
        if name.startswith(_OURS) or name in variables():
            monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(_GUARD))
    yield
    structlog.reset_defaults()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test is skipped")
    parser.addoption("--thorough", action="store_true", help="run every row of the long tables, not a few of each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough"):
        return
    kept_back = [item for item in items if item.get_closest_marker(MARK)]
    config.hook.pytest_deselected(items=kept_back)
    items[:] = [item for item in items if not item.get_closest_marker(MARK)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and item.config.getoption("--no-skips"):
        report.outcome = "failed"
    return report
