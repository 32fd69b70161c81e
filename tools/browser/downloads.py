"""Save what pages download into the workspace, up to a size."""

import asyncio
import os
import posixpath
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tools.backends.base import Workplace
from tools.content import in_bytes, one_line
from tools.errors import ToolFailed

if TYPE_CHECKING:
    from playwright.async_api import Download

_FOLDER = "downloads"
_MAX_SECONDS = 300.0
_LOOK_SECONDS = 0.1


async def save_download(download: "Download", place: Workplace, unfinished: str, max_bytes: int) -> str:
    """Save a download; return a sentence about that. `unfinished` is the browser's folder for it, if it is here."""
    from playwright.async_api import Error

    name = one_line(download.suggested_filename, 100).replace("/", "-").lstrip(".") or "download"
    stem, dot, ending = name.partition(".")
    folder, number = posixpath.join(place.workspace, _FOLDER), 1
    try:
        content = await _fetch(download, unfinished, max_bytes)
        path = posixpath.join(folder, name)
        while await place.backend.files.look(path) is not None:
            number += 1
            path = posixpath.join(folder, f"{stem}-{number}{dot}{ending}")
        await place.backend.files.write(path, content)
    except (Error, ToolFailed, OSError) as error:
        is_cut = "canceled" in str(error)
        reason = f"it is larger than {in_bytes(max_bytes)}, or takes too long" if is_cut else one_line(str(error))
        return f"The download of {name} failed: {reason}."
    return f"Downloaded {path} ({in_bytes(len(content))})."


async def _fetch(download: "Download", unfinished: str, max_bytes: int) -> bytes:
    """Return the content. Its size is not known beforehand, so it is checked while it grows."""
    looks_left = int(_MAX_SECONDS / _LOOK_SECONDS)
    with TemporaryDirectory(prefix="hermes-download-") as folder:
        copy = Path(folder, "content")
        saving = asyncio.ensure_future(download.save_as(copy))
        try:
            while not (await asyncio.wait([saving], timeout=_LOOK_SECONDS))[0]:
                looks_left -= 1
                if looks_left == 0 or _measure(unfinished) > 2 * max_bytes:
                    await download.cancel()
                    break
            await saving
        finally:
            saving.cancel()
        await download.delete()
        if await asyncio.to_thread(os.path.getsize, copy) > max_bytes:
            raise ToolFailed(f"it is larger than {in_bytes(max_bytes)}")
        return await asyncio.to_thread(copy.read_bytes)


def _measure(folder: str) -> int:
    with suppress(OSError):
        return sum(entry.stat().st_size for entry in Path(folder).iterdir()) if folder else 0
    return 0
