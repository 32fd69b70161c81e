"""The benchmarks run. How fast they find us is for people to read, not for a test to judge."""

from pathlib import Path

import pytest

from tests.bench.rows import Row, table
from tests.bench.runner import BENCHMARKS

LONG = (
    "background",
    "looking",
    "memory",
    "start",
    "telegram",
    "three",
)  # even the smallest run of these takes its time


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough) if name in LONG else name for name in BENCHMARKS]
)
def test_the_smallest_run_gives_rows(name: str, tmp_path: Path) -> None:
    rows = BENCHMARKS[name]("tiny", tmp_path)
    assert rows
    assert all(row.value > 0 for row in rows)


def test_the_table_says_which_aims_are_missed_and_compares_with_the_floor() -> None:
    floor = Row(what="floor", samples=[2.0], unit="ms")
    rows = [
        Row(what="slow", samples=[9.0, 8.0, 7.0], unit="ms", aim=5, floor=floor),
        Row(what="many", samples=[12_000, 11_000], unit="rows/s", aim=10_000),
    ]
    header, slow, many = table(rows).splitlines()
    assert header.split() == ["what", "median", "best", "unit", "aim", "against", "floor"]
    assert slow.split() == ["slow", "8.00", "7.00", "ms", "≤", "5.00,", "missed", "×", "4.00"]
    assert many.split() == ["many", "11,500", "12,000", "rows/s", "≥", "10,000"]
