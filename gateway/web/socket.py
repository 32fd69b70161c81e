"""One open page's socket: what it sends is accepted and acked, what happens is told."""

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import WSMsgType, web

from gateway.errors import GatewayStopping, PlatformUnavailable, StoreUnavailable
from gateway.messages import Media, Part, Text
from gateway.platforms.web import Line, OpenPage, WebPlatform
from gateway.store import media
from gateway.store.db.database import Database

_CHAT = re.compile(r"[a-z0-9]{8,32}")
_MAX_ID_CHARS = 100
_MAX_ACTION_CHARS = 64
_MAX_FILES = 10
_MAX_AT_ONCE = 100  # messages of one page that are being written down


class _BadLine(Exception):
    """The text tells the page what was wrong."""


@dataclass(slots=True, kw_only=True)
class PageSocket:
    socket: web.WebSocketResponse
    platform: WebPlatform
    db: Database
    page: OpenPage = field(default_factory=OpenPage)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_AT_ONCE))

    async def run(self) -> None:
        """Until either side closes."""
        self.platform.pages.add(self.page)
        try:
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell())
                await self._listen(group)
                telling.cancel()
        finally:
            self.platform.pages.discard(self.page)

    async def _tell(self) -> None:
        while True:
            lines = [await self.page.lines.get()]
            await asyncio.sleep(0)  # what comes in the same moment goes out together
            while not self.page.lines.empty():
                lines.append(self.page.lines.get_nowait())
            for line in _joined(lines):
                if line is None:
                    await self.socket.close(message=b"too slow")
                    return
                try:
                    await self.socket.send_str(json.dumps(line, ensure_ascii=False))
                except ConnectionError:
                    return  # closed meanwhile; `_listen` ends by itself

    async def _listen(self, group: asyncio.TaskGroup) -> None:
        async for received in self.socket:
            if received.type is not WSMsgType.TEXT:
                continue
            line: Any = None
            try:
                line = json.loads(received.data)
                await self._take(line, group)
            except _BadLine as error:
                self.page.tell({"type": "error", "problem": str(error), "id": _identifier(line)})
            except (ValueError, RecursionError):
                self.page.tell({"type": "error", "problem": "this is not JSON"})

    async def _take(self, line: Any, group: asyncio.TaskGroup) -> None:
        kind = line.get("type") if isinstance(line, dict) else None
        if kind not in ("send", "press"):
            raise _BadLine('only lines of the types "send" and "press" are taken here')
        chat, message_id = line.get("chat"), _identifier(line)
        if not isinstance(chat, str) or not _CHAT.fullmatch(chat) or not message_id:
            raise _BadLine('"chat" must be 8 to 32 of a-z and 0-9, and "id" a text that names the message')
        about: Line = {"id": message_id, "chat": chat}
        if kind == "press":
            press = partial(self.platform.press, message_id, chat, *_pressed(line))
            await self.places.acquire()
            group.create_task(self._accept(about, press))
            return
        try:
            parts = await self._parts(line)
        except StoreUnavailable as error:
            self.page.tell({"type": "retry", "problem": str(error), **about})
            return
        # Not one after the other: messages that come together share a commit. They are queued in their order.
        await self.places.acquire()
        group.create_task(self._accept(about, partial(self.platform.accept, message_id, chat, parts)))

    async def _accept(self, about: Line, take: Callable[[], Awaitable[None]]) -> None:
        try:
            await take()
        except (StoreUnavailable, GatewayStopping, PlatformUnavailable) as error:
            self.page.tell({"type": "retry", "problem": str(error), **about})
        else:
            self.page.tell({"type": "ack", **about})
        finally:
            self.places.release()

    async def _parts(self, line: dict[str, Any]) -> list[Part]:
        text, references = line.get("text", ""), line.get("files", [])
        if not isinstance(text, str) or not is_text(text):
            raise _BadLine('"text" must be a text')
        if not isinstance(references, list) or len(references) > _MAX_FILES:
            raise _BadLine(f"a message may have {_MAX_FILES} files at most")
        parts: list[Part] = [Text(text=text)] if text.strip() else []
        parts += [await self._uploaded(reference) for reference in references]
        if not parts:
            raise _BadLine("the message is empty")
        return parts

    async def _uploaded(self, reference: Any) -> Media:
        try:
            sha256, name = map(str, json.loads(base64.urlsafe_b64decode(reference)))
        except (ValueError, TypeError):
            raise _BadLine("this file was not uploaded here") from None
        kept = await self.db.read(lambda tx: media.find(tx, sha256))
        if kept is None:
            raise _BadLine("a file is no longer available; please attach it again")
        return Media(kind=kept.kind, name=name[:200], mime=kept.mime, size_bytes=kept.size_bytes, sha256=sha256)


def is_text(given: str) -> bool:
    """Tell whether it can be stored: half a surrogate pair cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in given)


def _pressed(line: dict[str, Any]) -> tuple[str, str]:
    """The message below which a button stands, and what the button carries."""
    about, action = line.get("about"), line.get("action")
    for given, most in ((about, _MAX_ID_CHARS), (action, _MAX_ACTION_CHARS)):
        if not isinstance(given, str) or not given or len(given) > most or not given.isprintable():
            raise _BadLine('"about" must name a message, and "action" be what its button carries')
    return str(about), str(action)


def _identifier(line: Any) -> str:
    identifier = line.get("id") if isinstance(line, dict) else None
    usable = isinstance(identifier, str) and len(identifier) <= _MAX_ID_CHARS and identifier.isprintable()
    return str(identifier) if usable else ""


def _joined(lines: list[Line | None]) -> list[Line | None]:
    """Neighbouring pieces of the same text become one: a page that is behind catches up in one step."""
    joined: list[Line | None] = []
    for line in lines:
        last = joined[-1] if joined else None
        if line and last and line["type"] == last["type"] == "text" and line["turn"] == last["turn"]:
            joined[-1] = last | {"text": last["text"] + line["text"]}
        else:
            joined.append(line)
    return joined
