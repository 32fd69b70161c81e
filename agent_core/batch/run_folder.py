"""The folder of a run: `data/<run>/` with a file for each batch, the combined files, and what the run was started with.

Only the batch files count: a row in one of them is done. Everything else is made from them, so a run that is killed at
any moment goes on where they end.
"""

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_core.batch.tasks import BatchTask, Key
from agent_core.trajectory import FAILED, SUCCEEDED, InputRefused, Row, append, dump, read_rows
from hermes_config.places import make_private

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUMMED = ("success", "completed", "partial", "api_calls", "input_tokens", "output_tokens", "cost_micros")
_MANIFEST, _STATISTICS, _LOCK, _WORK = "run.json", "statistics.json", ".lock", ".work"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    root: Path
    batch_size: int

    @classmethod
    def open(cls, parent: Path, name: str, *, batch_size: int, resume: bool, facts: Mapping[str, Any]) -> "RunFolder":
        """Create the folder of a run, or find it again with `resume`. Raises InputRefused, having written nothing."""
        if not _NAME.fullmatch(name):
            raise InputRefused(f"{name!r} cannot name a run: use letters, digits, dots, dashes and underscores.")
        folder = cls(root=parent / name, batch_size=batch_size)
        root, has_begun = folder.root, (parent / name / _MANIFEST).exists()
        if has_begun and not resume:
            raise InputRefused(
                f"The run {name!r} exists already in {parent}. Add --resume, or choose another run name."
            )
        if not root.exists() and resume:
            raise InputRefused(f"There is no run {name!r} in {parent} to resume.")
        if root.exists() and not has_begun and any(root.iterdir()):
            raise InputRefused(f"{root} is not the folder of a run. Choose another run name.")
        make_private(root)
        if not has_begun:
            folder._replace(_MANIFEST, [json.dumps(dict(facts), indent=2).encode() + b"\n"])
        return folder

    @property
    def work(self) -> Path:
        """Return the folder for the workplaces of its tasks."""
        return self.root.absolute() / _WORK

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes away from the run. Raises InputRefused."""
        descriptor = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise InputRefused(
                f"Another process works on the run {self.root.name!r}. Wait for it, or stop it."
            ) from None
        finally:
            os.close(descriptor)

    def append(self, finished: Iterable[tuple[BatchTask, Row]]) -> None:
        """Store outcomes in the files of their batches; they are on disk when this returns. Blocks."""
        by_file: dict[Path, list[bytes]] = {}
        for task, row in finished:
            file = self.root / f"batch_{task.position // self.batch_size:05}.jsonl"
            by_file.setdefault(file, []).append(dump(row))
        for file, lines in by_file.items():
            append(file, lines)

    def read(self) -> Iterator[tuple[Key, Row]]:
        """Yield each stored row with the key of its task; a task that was tried again has several."""
        for file in sorted(self.root.glob("batch_*.jsonl")):
            for _, row in read_rows(file):
                with suppress(KeyError, TypeError):  # torn by a crash
                    if row is not None:
                        yield (row["prompt_sha256"], row["sample"]), row

    def combine(self) -> dict[str, Any]:
        """Write the combined files, in which each task is once, and the statistics; return these.

        Of several rows of a task the last one counts that did not fail.
        """
        best: dict[Key, tuple[bool, int]] = {}
        for place, (key, row) in enumerate(self.read()):
            best[key] = max(best.get(key, (False, -1)), (not row["error"], place))
        chosen = {place for _, place in best.values()}
        totals: Counter[str] = Counter()
        tools: dict[str, Counter[str]] = {}

        def rows(*, succeeded: bool) -> Iterator[bytes]:
            for place, (_, row) in enumerate(self.read()):
                if place in chosen and row["success"] is succeeded:
                    _count(row, totals, tools)
                    yield dump(row)

        self._replace(SUCCEEDED, rows(succeeded=True))
        self._replace(FAILED, rows(succeeded=False))
        statistics = dict(totals) | {"tools": [{"tool": name, **counts} for name, counts in sorted(tools.items())]}
        self._replace(_STATISTICS, [json.dumps(statistics, indent=2).encode() + b"\n"])
        return statistics

    def _replace(self, name: str, lines: Iterable[bytes]) -> None:
        """Write a file as a whole or not at all."""
        new = self.root / f".{name}.new"
        new.unlink(missing_ok=True)
        append(new, lines)
        new.replace(self.root / name)


def _count(row: Row, totals: Counter[str], tools: dict[str, Counter[str]]) -> None:
    totals.update(prompts=1, errors=bool(row["error"]))
    totals.update({name: int(row[name]) for name in _SUMMED})
    for used in row["tool_stats"]:
        tools.setdefault(used["tool"], Counter()).update(calls=used["calls"], failures=used["failures"])
