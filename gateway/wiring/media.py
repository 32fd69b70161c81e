"""Builds what takes in files and what sends them, from the settings."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from agent_core.model import Model
from agent_core.models.providers import sees_images
from gateway.errors import MediaUnavailable
from gateway.media.incoming import Attachments, IntakeLimits
from gateway.media.outgoing import Enclosures
from gateway.media.reader import DocumentReader
from gateway.media.stickers import StickerBook
from gateway.messages import Media
from gateway.platforms.base import Platform
from gateway.platforms.outgoing import Load
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.turns.workplaces import Workplaces
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.media import MediaRoots


def build_attachments(
    settings: Settings, home: Home, db: Database, model: Model, platforms: Mapping[str, Platform], files: MediaFiles
) -> Attachments:
    chosen = settings.media
    sees = sees_images(model.name)

    async def fetch(account: str, media: Media) -> bytes:
        if account not in platforms:
            raise MediaUnavailable(f"{account} is switched off")
        return await platforms[account].fetch(media, chosen.max_file_bytes)

    return Attachments(
        db=db,
        files=files,
        fetch=fetch,
        limits=IntakeLimits(
            files_per_message=chosen.max_files_per_message,
            files_per_turn=chosen.max_files_per_turn,
            fetch_seconds=chosen.fetch_timeout_seconds,
            fetches_at_once=chosen.fetches_at_once,
            turn_text_chars=chosen.max_turn_text_chars,
            image_pixels=chosen.max_image_pixels,
        ),
        reader=DocumentReader(
            max_text_chars=chosen.max_text_chars,
            timeout_seconds=chosen.read_timeout_seconds,
            memory_mb=chosen.read_memory_mb,
        ),
        stickers=StickerBook(home.root / "sticker_cache.json", model if sees else None),
        sees=sees or model.name == "demo",  # the demo model says itself what it cannot do
    )


def build_enclosures(
    settings: Settings,
    home: Home,
    db: Database,
    platforms: Mapping[str, Platform],
    files: MediaFiles,
    workplaces: Workplaces,
) -> Enclosures:
    """Of our own home nothing but the caches goes out, and what is made in the sandbox of whoever asks."""
    named = (settings.terminal.cwd, *settings.media.allowed_dirs)
    caches = (home.image_cache, home.audio_cache, home.document_cache)
    return Enclosures(
        db=db,
        files=files,
        accounts=frozenset(name for name, one in platforms.items() if one.features.sends_files),
        for_owner=MediaRoots.of([*(Path(folder).expanduser() for folder in named), *caches], closed=[home.root]),
        folder=workplaces.folder,
        home=workplaces.home_folder,
        max_bytes=settings.media.max_outgoing_bytes,
    )


def loader(files: MediaFiles) -> Load:
    async def load(media: Media) -> bytes | None:
        return await asyncio.to_thread(files.load, media)

    return load
