"""A platform's line, for whoever wants it now and for whoever can wait a moment."""

import asyncio

import pytest

from gateway.errors import MediaUnavailable, PlatformUnavailable
from gateway.platforms import transport
from gateway.platforms.transport import LiveConnection
from tests.gateway.scene import soon


def test_whoever_wants_a_line_that_is_not_there_is_told_at_once() -> None:
    made = LiveConnection[str]("Discord")
    with pytest.raises(PlatformUnavailable, match="not connected to Discord"):
        _ = made.transport
    made.open("a line")
    assert made.transport == "a line"
    made.close()
    with pytest.raises(PlatformUnavailable, match="not connected to Discord"):
        _ = made.transport


async def test_whoever_can_wait_gets_the_line_when_it_is_there() -> None:
    made = LiveConnection[str]("Discord")
    waiting = asyncio.create_task(made.wait_for_transport())
    await asyncio.sleep(0)
    made.open("the first")
    made.close()  # before whoever waits had their turn: they are not given a line that is gone
    await asyncio.sleep(0)
    assert not waiting.done()
    made.open("the second")
    assert await soon(waiting) == "the second"


async def test_a_line_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 0.01)
    with pytest.raises(MediaUnavailable, match="Discord could not be reached"):
        await LiveConnection[str]("Discord").wait_for_transport()
