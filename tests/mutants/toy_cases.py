"""Not collected by itself: what `test_mutants.py` has run on faults in `toy.py`."""

from tests.mutants.toy import is_older, together


def test_the_border() -> None:
    assert [is_older(age, 18) for age in (17, 18, 19)] == [False, False, True]


def test_the_sum_is_not_really_looked_at() -> None:
    together(3, 4)
