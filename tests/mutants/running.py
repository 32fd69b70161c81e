"""Runs a module's tests in forks of this process, which has the libraries loaded but nothing of the project."""

import ast
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.mutants.making import Mutant, mutated

ROOT = Path(__file__).parents[2]
ROOMS = ("agent_core", "gateway", "hermes_cli", "hermes_config", "playground", "tests", "tools")
_MEMORY_BYTES = 4 << 30
_OPTIONS = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--assert=plain", "--tb=line")


class TestsFail(Exception):
    """Without any fault in the module."""


@dataclass(frozen=True, slots=True)
class Outcome:
    mutant: Mutant
    caught_by: str | None  # a test, or what else became of the run; None: nobody noticed
    seconds: float


class _Loader(importlib.machinery.SourceFileLoader):
    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


@dataclass
class _Finder(importlib.abc.MetaPathFinder):
    module: str
    tree: ast.Module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.tree = self.tree
        spec.loader = loader
        return spec


@dataclass(eq=False)
class _Watch:
    """A plugin of pytest: who fails first, how long each test takes; likely ones first, then quick ones."""

    order: dict[str, float]
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self.order.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)


@dataclass
class Runner:
    module: str
    source: str
    tests: Sequence[str]
    folder: Path
    jobs: int = 1
    _order: dict[str, float] = field(default_factory=dict)
    _limit_seconds: float = 600.0
    _catches: int = 0

    def warm_up(self) -> float:
        """Once without a fault: they must pass; then the libraries that they need are loaded here, for all forks. And
        once more, since what fails by that alone would seem to notice every fault."""
        report = self._without_a_fault()
        self._order = report["seconds"]
        seconds = report["took_seconds"]
        self._limit_seconds = 30 + 4 * seconds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in report["libraries"]:
                with suppress(Exception):
                    importlib.import_module(name)
        self._without_a_fault()
        return float(seconds)

    def _without_a_fault(self) -> dict[str, Any]:
        [(_, status, seconds, folder)] = self._forks([None])
        if status != 0:
            raise TestsFail((folder / "out.txt").read_text()[-3000:])
        report = self._report(folder)
        shutil.rmtree(folder)
        return {**report, "took_seconds": seconds}

    def run(self, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        for mutant, status, seconds, folder in self._forks(mutants):
            assert mutant is not None
            yield Outcome(mutant, self._caught_by(status, folder), seconds)
            shutil.rmtree(folder, ignore_errors=True)

    def _caught_by(self, status: int | None, folder: Path) -> str | None:
        if status is None:
            return "took too long"
        if status == 0:
            return None
        failed = self._report(folder).get("failed") or ["was not even loaded"]
        if failed[0] in self._order:  # will likely notice the next one as well
            self._catches += 1
            self._order[failed[0]] = -float(self._catches)
        return str(failed[0])

    def _report(self, folder: Path) -> dict[str, Any]:
        with suppress(FileNotFoundError, json.JSONDecodeError):
            return dict(json.loads((folder / "report.json").read_text()))
        return {}

    def _forks(self, mutants: Sequence[Mutant | None]) -> Iterator[tuple[Mutant | None, int | None, float, Path]]:
        """As many at a time as there are jobs. The status is None for one that hung and was ended."""
        waiting = list(enumerate(mutants))
        running: dict[int, tuple[Mutant | None, float, Path]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    number, mutant = waiting.pop(0)
                    folder = self.folder / str(number)
                    folder.mkdir(parents=True)
                    running[self._fork(mutant, folder)] = mutant, time.monotonic(), folder
                for pid, (mutant, begun, folder) in list(running.items()):
                    seconds = time.monotonic() - begun
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    if ended or seconds > self._limit_seconds:
                        del running[pid]
                        _end(pid, is_over=bool(ended))
                        yield mutant, os.waitstatus_to_exitcode(status) if ended else None, seconds, folder
                time.sleep(0.01)
        finally:  # also when somebody has had enough
            for pid in running:
                _end(pid)

    def _fork(self, mutant: Mutant | None, folder: Path) -> int:
        if pid := os.fork():
            return pid
        status = 70
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            status = self._test(mutant, folder)
        finally:
            os._exit(status)

    def _test(self, mutant: Mutant | None, folder: Path) -> int:
        out = os.open(folder / "out.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(ROOT)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(self.module, mutated(self.source, mutant)))
        watch = _Watch(self._order)
        stop = ("-x",) if mutant is not None else ()
        basetemp = f"--basetemp={folder / 'tmp'}"
        status = int(pytest.main([*_OPTIONS, *stop, basetemp, *self.tests], plugins=[watch]))
        # As they were loaded: `_asyncio` before `asyncio` would leave loops that do not know their own tasks.
        libraries = [name for name in sys.modules if name.partition(".")[0] not in (*ROOMS, "conftest", "__main__")]
        report = {"seconds": watch.seconds, "failed": watch.failed, "libraries": libraries}
        (folder / "report.json").write_text(json.dumps(report))
        return status


def _end(pid: int, *, is_over: bool = False) -> None:
    """With whatever it has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not is_over:
        os.waitpid(pid, 0)
