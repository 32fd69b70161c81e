"""Files and the messages that carry them, whoever sends them."""

from typing import Literal, get_args

from playground.telegram.rules import Wire, bad_request
from playground.telegram.world import StoredFile, World

MediaKind = Literal["photo", "document", "voice", "audio", "video", "animation", "sticker", "video_note"]
KINDS: tuple[str, ...] = get_args(MediaKind)

_FOLDERS = {"photo": "photos", "voice": "voice", "audio": "music", "video": "videos", "sticker": "stickers"}
_ENDINGS = {"photo": "jpg", "voice": "oga", "audio": "mp3", "video": "mp4", "sticker": "webp", "video_note": "mp4"}
_MIME_TYPES = {"voice": "audio/ogg", "audio": "audio/mpeg", "video": "video/mp4", "animation": "video/mp4"}
_CAPTIONED = frozenset(("photo", "document", "voice", "audio", "video", "animation"))


def has_caption(kind: str) -> bool:
    return kind in _CAPTIONED


def store_file(
    world: World, kind: str, content: bytes | None, *, name: str = "", mime_type: str = "", size: int | None = None
) -> StoredFile:
    """Keep a file; with `size` and no content it only claims to be that big."""
    number = world.number()
    ending = _ENDINGS.get(kind) or (name.rsplit(".", 1)[-1] if "." in name else "bin")
    stored = StoredFile(
        id=f"AgACAgIAAxkBAAI{number:08d}{kind[:3]}AQAD",
        unique_id=f"AQAD{number:08d}",
        path=f"{_FOLDERS.get(kind, 'documents')}/file_{number}.{ending}",
        size=len(content or b"") if size is None else size,
        name=name,
        mime_type=mime_type or _MIME_TYPES.get(kind, ""),
        content=content,
        kind=kind,
    )
    world.files[stored.id] = world.paths[stored.path] = stored
    return stored


def media_fields(world: World, kind: str, stored: StoredFile, details: Wire) -> Wire:
    """The part of a Message that shows this file; `details` are sizes, durations and titles that the sender gave."""
    file: Wire = {"file_id": stored.id, "file_unique_id": stored.unique_id, "file_size": stored.size}
    if kind == "photo":
        small = store_file(world, "photo", stored.content, size=min(stored.size, 1000))
        thumb: Wire = {"file_id": small.id, "file_unique_id": small.unique_id, "file_size": small.size}
        size = {"width": details.get("width", 1280), "height": details.get("height", 720)}
        return {"photo": [{**thumb, "width": 90, "height": 51}, {**file, **size}]}
    if stored.mime_type and kind not in ("sticker", "video_note"):
        file["mime_type"] = stored.mime_type
    if stored.name and kind in ("document", "audio", "video", "animation"):
        file["file_name"] = stored.name
    needed: dict[str, Wire] = {
        "voice": {"duration": 1},
        "audio": {"duration": 1},
        "video": {"width": 640, "height": 360, "duration": 1},
        "animation": {"width": 320, "height": 240, "duration": 1},
        "video_note": {"length": 240, "duration": 1},
        "sticker": {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False},
    }
    fields = {kind: {**file, **needed.get(kind, {}), **details}}
    if kind == "animation":
        fields["document"] = file  # for clients older than animations
    return fields


def find_file(world: World, file_id: str) -> StoredFile:
    stored = world.files.get(file_id)
    if stored is None:
        raise bad_request("invalid file_id")
    return stored
