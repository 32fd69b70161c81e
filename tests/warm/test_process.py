"""A warm process is one of its own: what it is given, what it is not, and how it ends."""

import asyncio
import json
import os
import signal

import pytest

from tests.warm.process import run_warm, start_warm

TOLD = "tests.warm.told"
GIVEN = {"PATH": os.environ["PATH"], "ONLY": "this"}


def test_it_gets_what_it_is_given_and_nothing_of_the_one_before() -> None:
    run_warm(TOLD, environment={**GIVEN, "BEFORE": "1"}, typed="before")
    done = run_warm(TOLD, environment=GIVEN, typed="hello", warnings="error")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (told["environment"], told["typed"], told["arguments"]) == (GIVEN, "hello", [])
    assert told["warnings"] == "error"
    assert told["files"] == [0, 1, 2, 3], "its own three, and the folder that it lists"


def test_how_it_ends_is_told() -> None:
    done = run_warm(TOLD, "something is wrong", environment=GIVEN)
    assert (done.returncode, done.stderr) == (1, "something is wrong\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_it_can_be_ended_at_any_time_and_leads_a_session_if_wanted(number: signal.Signals) -> None:
    process = await start_warm(TOLD, "wait", environment=GIVEN, new_session=True)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert json.loads(await process.stdout.readline())["session"] == process.pid
        assert process.returncode is None
        process.send_signal(number)
        assert await process.wait() == process.returncode == -number
        process.kill()  # does nothing to whoever has that number by now
