"""What a benchmark gives: rows of numbers, each with its aim and what it is held against."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Size = Literal["full", "quick", "tiny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    what: str
    samples: Sequence[float]  # one for each repetition
    unit: str
    aim: float | None = None
    floor: "Row | None" = None  # measured in the same run, on the same machine, under the same load

    @property
    def value(self) -> float:
        return median(self.samples)

    @property
    def best(self) -> float:
        return max(self.samples) if self.more_is_better else min(self.samples)

    @property
    def more_is_better(self) -> bool:
        return self.unit.endswith(("/s", "at once"))

    @property
    def is_met(self) -> bool:
        return self.aim is None or (self.value >= self.aim if self.more_is_better else self.value <= self.aim)


def percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def table(rows: Sequence[Row]) -> str:
    lines = [("what", "median", "best", "unit", "aim", "against floor"), *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(_laid_out(line, widths) for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    aim = ""
    if row.aim is not None:
        aim = f"{'≥' if row.more_is_better else '≤'} {number(row.aim)}{'' if row.is_met else ', missed'}"
    ratio = f"× {number(row.value / row.floor.value)}" if row.floor else ""
    return row.what, number(row.value), number(row.best), row.unit, aim, ratio


def _laid_out(cells: Sequence[str], widths: Sequence[int]) -> str:
    numbers = (1, 2)
    placed = (
        cell.rjust(width) if place in numbers else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(placed).rstrip()


def number(value: float) -> str:
    """Three figures that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
