"""Not collected by itself: what `test_mutants.py` has run on faults in `toy.py`."""

import asyncio

from tests.mutants.toy import is_older, together


def test_the_border() -> None:
    assert [is_older(age, 18) for age in (17, 18, 19)] == [False, False, True]


def test_the_sum_is_not_really_looked_at() -> None:
    together(3, 4)


def test_a_loop_knows_its_tasks_in_a_fork_too() -> None:
    async def waits() -> None:
        async with asyncio.timeout(10):
            await asyncio.sleep(0)

    asyncio.run(waits())
