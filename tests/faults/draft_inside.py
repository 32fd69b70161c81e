"""What is wrapped around drafts inside the gateway under test, on any platform: their steps, and quick changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gateway.outbound.drafts import Drafts
from gateway.wiring import app
from tests.faults.draft_points import (
    ANSWERING,
    BEGUN,
    EDITED,
    EDITING,
    LOOKED_FOR,
    NOT_BEGUN,
    RECORDED,
    SENT,
    TAKEN_AWAY,
    TAKING,
)
from tests.faults.points import NOT_RECORDED

Reached = Callable[[str], None]

BREAKS: Mapping[str, Callable[[], None]] = {}
_SECONDS = 0.3  # between two changes


def prepare() -> None:
    _wrap_each(_hurry)


def watch_steps(reached: Reached) -> None:
    _wrap_each(lambda platform: _watch(platform, reached))
    show, remember = Drafts._show, Drafts._remember

    async def showing(drafts: Drafts, state: Any, draft: Any) -> Any:
        if not draft.message_id:
            reached(NOT_BEGUN)
        return await show(drafts, state, draft)

    async def remembering(drafts: Drafts, draft: Any, message_id: str) -> Any:
        known = await remember(drafts, draft, message_id)
        reached(RECORDED)
        return known

    patch.object(Drafts, "_show", showing).start()
    patch.object(Drafts, "_remember", remembering).start()


def _wrap_each(wrap: Callable[[Any], None]) -> None:
    """Each platform with drafts, before anybody holds it."""
    build = vars(app)["build_live_reply"]  # perhaps wrapped already

    def building(*given: Any) -> Any:
        live = build(*given)
        assert live.drafts is not None
        for platform in live.drafts.platforms.values():
            wrap(platform)
        return live

    patch.object(app, "build_live_reply", building).start()


def _hurry(platform: Any) -> None:
    style_of = platform.draft_style
    platform.draft_style = lambda address: replace(style_of(address), interval_seconds=_SECONDS, account_seconds=0.0)


def _watch(platform: Any, reached: Reached) -> None:
    show, find, take_away, send = platform.show_draft, platform.find_draft, platform.delete, platform.send

    async def showing(draft: Any) -> Any:
        reached(EDITING if draft.edits else BEGUN)
        receipt = await show(draft)
        reached(EDITED if draft.edits else SENT)
        return receipt

    async def finding(draft: Any, known: Any) -> Any:
        found = await find(draft, known)
        reached(LOOKED_FOR)
        return found

    async def taking_away(address: Any, message_id: str) -> None:
        reached(TAKING)
        await take_away(address, message_id)
        reached(TAKEN_AWAY)

    async def sending(message: Any) -> Any:
        if message.answers:
            reached(ANSWERING)
        receipt = await send(message)
        if message.answers:
            reached(NOT_RECORDED)
        return receipt

    platform.show_draft, platform.find_draft, platform.delete = showing, finding, taking_away
    platform.send = sending
