"""Store the pictures of tools, and describe pictures for models that do not see."""

import asyncio
from dataclasses import dataclass
from pathlib import PurePath

import structlog

from agent_core.model import Model, look_at
from gateway.media.kinds import detect_format, find_picture_problem
from gateway.store import media
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from tools.content import Media
from tools.errors import ToolFailed

log = structlog.get_logger()

_DESCRIBE_SECONDS = 60.0
_MAX_DESCRIPTION_CHARS = 4_000
_DESCRIBE = "Describe this picture in a few sentences, and quote the text in it."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPictures:
    db: Database | None  # None: nobody asks for them by name
    files: MediaFiles
    max_pixels: int

    async def save(self, content: bytes, name: str) -> Media:
        form = detect_format(content)
        if form.kind != "image":
            raise ToolFailed(f"{name} is not a picture but: {form.title}. PNG, JPEG, GIF and WebP can be seen.")
        if problem := form.problem or find_picture_problem(form, content, self.max_pixels):
            raise ToolFailed(f"{name} cannot be seen: {problem}.")
        sha256 = await asyncio.to_thread(self.files.save, "image", content)
        ending = form.mime.rpartition("/")[2].replace("jpeg", "jpg")
        made = Media(
            kind="image",
            name=name if PurePath(name).suffix else f"{name}.{ending}",
            mime=form.mime,
            form=form.title,
            size_bytes=len(content),
            sha256=sha256,
        )
        if self.db is not None:
            await self.db.write_when_possible(lambda tx: media.record_parts(tx, [made]))
        return made

    async def find(self, task_id: str, name: str) -> Media | None:
        if self.db is None:
            return None
        sent = await self.db.read(lambda tx: media.list_files(tx, task_id))
        return next((one for one in sent if one.kind == "image" and name in (one.name, one.sha256)), None)

    def path(self, picture: Media) -> str:
        return str(self.files.path(picture.kind, picture.sha256))


async def describe_picture(
    model: Model, picture: Media, question: str = _DESCRIBE, timeout_seconds: float = _DESCRIBE_SECONDS
) -> str:
    """Return what a picture shows, for a model that cannot see it; empty when nobody could tell."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return (await look_at(model, picture, question)).strip()[:_MAX_DESCRIPTION_CHARS]
    except (ToolFailed, TimeoutError) as error:
        log.warning("picture not described", problem=str(error) or "the model took too long")
    except Exception:  # contained: a picture that nobody describes is still a picture
        log.exception("picture not described")
    return ""
