"""Tables that are too long for every run: a few rows always, all of them with `--thorough`."""

from collections.abc import Sequence
from typing import Any

import pytest

MARK = "thorough"


def a_few_of(rows: Sequence[Any], count: int) -> list[Any]:
    """The rows as parameters; all but so many of them, evenly spread, are kept for a thorough run."""
    step = len(rows) / count
    always = {int(number * step) for number in range(count)}
    return [row if place in always else _kept_back(row) for place, row in enumerate(rows)]


def _kept_back(row: Any) -> Any:
    mark = getattr(pytest.mark, MARK)
    if isinstance(row, type(pytest.param())):
        return pytest.param(*row.values, marks=(*row.marks, mark), id=row.id)
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=mark)
