"""What settings make of live replies: where there are drafts, what they tell, and how long the pauses are."""

from pathlib import Path
from typing import Any

import pytest

from gateway.commands.registry import Commands
from gateway.messages import Address
from gateway.outbound.delivery import NATURAL_PAUSE_MS
from gateway.outbound.live_reply import LiveReply
from gateway.store.db.database import Database
from gateway.wiring.connect import _pause_ms
from gateway.wiring.platforms import build_live_reply, build_platforms
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import DisplaySettings, Settings


def live(db: Database, folder: Path, *, display: dict[str, Any] | None = None, **telegram: Any) -> LiveReply:
    platforms = {"telegram": {"accounts": ("work",), **telegram}, "web": {"enabled": True}}
    secrets = {"telegram_bot_token": "1:first-token"}
    settings = Settings.model_validate({"platforms": platforms, "secrets": secrets, "display": display or {}})
    built = build_platforms(settings, Home(folder / "home"), Commands(()))
    return build_live_reply(settings, db, {one.account: one for one in built}, Redactor())


def has_draft(made: LiveReply, account: str) -> bool:
    assert made.drafts is not None
    return made.drafts.style(Address(account=account, chat="-5")) is not None


async def test_every_bot_of_a_platform_shows_drafts_and_the_page_needs_none(db: Database, tmp_path: Path) -> None:
    made = live(db, tmp_path)
    assert [has_draft(made, account) for account in ("telegram", "telegram@work", "web")] == [True, True, False]
    assert set(made.shows) == {"web"}


async def test_where_streaming_is_off_what_is_left_is_still_taken_away(db: Database, tmp_path: Path) -> None:
    made = live(db, tmp_path, streaming=False)
    assert not has_draft(made, "telegram")
    assert made.drafts is not None
    assert set(made.drafts.platforms) == {"telegram", "telegram@work"}


@pytest.mark.parametrize(
    ("display", "mode"),
    [
        ({}, "new"),
        ({"tool_progress": False}, "off"),
        ({"tool_progress_mode": "all"}, "all"),
        ({"tool_progress": False, "tool_progress_mode": "verbose"}, "off"),
    ],
)
async def test_how_much_is_told_of_tools(db: Database, tmp_path: Path, display: dict[str, Any], mode: str) -> None:
    assert live(db, tmp_path, display=display).showing.tool_progress == mode


async def test_reactions_can_be_switched_off(db: Database, tmp_path: Path) -> None:
    assert set(live(db, tmp_path).reacts) == {"telegram", "telegram@work"}
    assert live(db, tmp_path, display={"reactions": False}).reacts == {}


@pytest.mark.parametrize(
    ("display", "pause_ms"),
    [
        ({}, (0, 0)),
        ({"human_delay_mode": "natural"}, NATURAL_PAUSE_MS),
        ({"human_delay_mode": "custom", "human_delay_min_ms": 5, "human_delay_max_ms": 7}, (5, 7)),
        ({"human_delay_mode": "custom", "human_delay_min_ms": 9, "human_delay_max_ms": 7}, (9, 9)),
    ],
)
def test_the_pause_between_the_messages_of_a_long_answer(display: dict[str, Any], pause_ms: tuple[int, int]) -> None:
    assert _pause_ms(DisplaySettings.model_validate(display)) == pause_ms
