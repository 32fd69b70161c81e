"""`hermes send` when it is ended early. Whole sends are played in `tests/journeys/test_send_command.py`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.messages import Text
from gateway.store.db.database import Database, open_database
from hermes_cli import send
from hermes_cli.opening import open_home


async def test_ctrl_c_while_the_message_is_stored_takes_it_back(
    home: Path, made: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "require_gateway", lambda opened: {"telegram": {"state": "connected"}})
    monkeypatch.setenv("HERMES_ACCESS__ALLOWED_CHATS", "telegram:-1001")
    db = await open_database(home / "state.db")
    stored, write = asyncio.Event(), Database.write

    async def write_slowly(self: Database, unit: Callable[..., Any]) -> Any:
        result = await write(self, unit)
        stored.set()
        await asyncio.sleep(0)  # committed, and its caller has not heard of it
        return result

    monkeypatch.setattr(Database, "write", write_slowly)
    sending = asyncio.create_task(send.deliver(db, open_home(), "telegram:-1001", [Text(text="too late")], timeout=5))
    try:
        async with asyncio.timeout(10):
            await stored.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            [row] = await db.read(lambda tx: tx.all("SELECT state FROM outbox"))
            assert row["state"] == "expired"
    finally:
        await db.close()
