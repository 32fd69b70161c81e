"""The prompts of a batch: tasks, and the files that they come from."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_core.trajectory import InputRefused, Row, read_rows

Key = tuple[str, int]
"""Identifies a task in any file and order: the digest of its prompt, and how many tasks before it have the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """A prompt. `position` is its place in the dataset, `sample` tells apart tasks with the same prompt."""

    id: str
    prompt: str
    expected_output: str
    position: int
    sample: int

    @property
    def key(self) -> Key:
        return hashlib.sha256(self.prompt.encode("utf-8", "surrogatepass")).hexdigest(), self.sample


def read_dataset(file: Path) -> tuple[list[BatchTask], list[int]]:
    """Return the tasks of a JSONL file, and its lines without a `prompt`. Raises InputRefused if all lack it."""
    if not file.is_file():
        raise InputRefused(f"There is no dataset at {file}. Name a JSONL file whose lines have a `prompt`.")
    rows, bad = list[Row](), list[int]()
    for number, row in read_rows(file):
        if row is not None and _has_prompt(row):
            rows.append(row)
        else:
            bad.append(number)
    if not rows:
        raise InputRefused(f"No line of {file} is a JSON object with a `prompt`.")
    return make_tasks(rows), bad


def make_tasks(rows: Iterable[Mapping[str, Any]]) -> list[BatchTask]:
    """Return the tasks of rows with `prompt`, and perhaps `id` and `expected_output`. Raises InputRefused."""
    seen: Counter[str] = Counter()
    tasks: list[BatchTask] = []
    for position, row in enumerate(rows):
        if not _has_prompt(row):
            raise InputRefused(f"Task {position + 1} has no `prompt`. Each task needs one.")
        prompt = row["prompt"]
        task = BatchTask(
            id=str(row.get("id", row.get("task_id", position))),
            prompt=prompt,
            expected_output=str(row.get("expected_output") or ""),
            position=position,
            sample=seen[prompt],
        )
        tasks.append(task)
        seen[prompt] += 1
    return tasks


def _has_prompt(row: Mapping[str, Any]) -> bool:
    prompt = row.get("prompt")
    return isinstance(prompt, str) and bool(prompt.strip())
