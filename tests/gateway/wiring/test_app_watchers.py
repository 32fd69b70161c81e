"""What settings make of watchers: what is told, and to whom."""

from pathlib import Path
from typing import Any

import pytest

from gateway.messages import InboundMessage, Sender, SessionKey
from gateway.processes.watcher import Watchers
from gateway.store import members
from gateway.store.db.database import Database
from gateway.wiring.app import Gateway
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.settings import Settings


def made(db: Database, folder: Path, **access: Any) -> Watchers:
    platforms = {"socket": {"enabled": True}, "web": {"enabled": False}}
    secrets = {"telegram_bot_token": "1:first-token"}
    settings = Settings.model_validate({"platforms": platforms, "secrets": secrets, "access": access})
    return Gateway(settings, Home(folder / "home"), db).watchers


async def role(db: Database, watchers: Watchers, platform: str) -> str | None:
    key = SessionKey(platform=platform, kind="dm", chat="42")
    message = InboundMessage(key=key, message_id="proc_a", kind="wake", sender=Sender(id="42"), parts=(), sent_ms=1)
    return await db.read(lambda tx: watchers.role_of(tx, message))


async def test_who_is_told_is_decided_when_it_is_told(db: Database, tmp_path: Path) -> None:
    watchers = made(db, tmp_path, allowed_users=("telegram:42",))
    assert await role(db, watchers, "socket") == "owner"  # only the owner has a way to it
    assert await role(db, watchers, "telegram") == "member"
    assert await role(db, watchers, "discord") is None
    await db.write(lambda tx: members.revoke(tx, "telegram", "42", owner_users=(), allowed_users=(), by="cli"))
    assert await role(db, watchers, "telegram") is None


@pytest.mark.parametrize("chosen", ["all", "result", "error", "off"])
def test_what_is_told_is_a_setting(tmp_path: Path, chosen: str) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    home.config_file.write_text(f"display:\n  background_process_notifications: {chosen}\n")
    assert load(home).settings.display.background_process_notifications == chosen
