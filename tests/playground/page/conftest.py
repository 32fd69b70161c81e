"""One scene a test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.playground.page.scene import Scene, scene


@pytest_asyncio.fixture
async def on() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made
