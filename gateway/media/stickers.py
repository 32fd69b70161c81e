"""Describe stickers: ask the model once about each, and store the answer by the sticker's permanent id."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from agent_core.model import Model
from gateway.media.pictures import describe_picture
from hermes_config.edit import replace_file
from hermes_config.errors import ConfigError
from tools.content import Media, one_line

log = structlog.get_logger()

MAX_STICKERS = 2_000
MAX_DESCRIPTION_CHARS = 200
_QUESTION = "This is a sticker from a chat. Say in one short sentence what it shows and what it expresses."

BringPicture = Callable[[], Awaitable[Media | None]]
"""Returns the sticker's picture from the cache; None when it is unavailable."""


class StickerBook:
    """Descriptions of stickers. Without a model that accepts pictures, only stored ones."""

    def __init__(self, file: Path, model: Model | None = None, *, timeout_seconds: float = 10.0) -> None:
        self._file = file
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._known: dict[str, str] | None = None
        self._loading = asyncio.Lock()
        self._being_described: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def describe(self, sticker: str, bring: BringPicture, model: Model | None = None) -> str:
        """Return what a sticker shows; empty when unknown. `model` is ours, metered for this sender."""
        async with self._loading:
            if self._known is None:
                self._known = await asyncio.to_thread(_read, self._file)
            known = self._known
        alone = self._being_described.setdefault(sticker, asyncio.Lock())
        async with alone:  # others who send it at the same time wait for this answer
            if sticker in known or self._model is None:
                return known.get(sticker, "")
            picture = await bring()
            if picture is None:
                return ""
            text = await describe_picture(model or self._model, picture, _QUESTION, self._timeout_seconds)
            text = one_line(text, MAX_DESCRIPTION_CHARS)
            if text:
                known[sticker] = text
                while len(known) > MAX_STICKERS:
                    del known[next(iter(known))]
                async with self._loading:
                    try:
                        content = json.dumps(known, ensure_ascii=False, indent=0)
                        await asyncio.to_thread(replace_file, self._file, content)
                    except ConfigError as error:
                        log.warning("descriptions of stickers could not be stored", problem=str(error))
            return text


def _read(file: Path) -> dict[str, str]:
    try:
        kept = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        log.warning("descriptions of stickers could not be read; starting without", problem=str(error))
        return {}
    if not isinstance(kept, dict):
        return {}
    texts = {id_: one_line(text, MAX_DESCRIPTION_CHARS) for id_, text in kept.items() if isinstance(text, str)}
    return dict(list(texts.items())[-MAX_STICKERS:])
