"""The WebSocket of one open page: accepts and acknowledges what it sends, and sends it events."""

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

CHAT_ID = re.compile(r"[a-z0-9]{8,32}")
_MAX_ID_CHARS = 100
_MAX_ACTION_CHARS = 64
_MAX_FILES = 10
_MAX_PENDING = 100  # messages of one page that are being stored


class _BadLine(Exception):
    """A line that cannot be processed; the text tells the page why."""


@dataclass(slots=True, kw_only=True)
class PageSocket:
    """One connection of one page."""

    socket: web.WebSocketResponse
    platform: WebPlatform
    db: Database
    page: OpenPage = field(default_factory=OpenPage)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_PENDING))

    async def run(self) -> None:
        """Serve the connection until either side closes it."""
        self.platform.pages.add(self.page)
        try:
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(self._send_events())
                await self._receive(group)
                sender.cancel()
        finally:
            self.platform.pages.discard(self.page)

    async def _send_events(self) -> None:
        while True:
            lines = [await self.page.lines.get()]
            await asyncio.sleep(0)  # collect what arrives in the same moment
            while not self.page.lines.empty():
                lines.append(self.page.lines.get_nowait())
            for line in _join_texts(lines):
                if line is None:
                    await self.socket.close(message=b"too slow")
                    return
                try:
                    await self.socket.send_str(json.dumps(line, ensure_ascii=False))
                except ConnectionError:
                    return  # closed meanwhile; `_receive` ends by itself

    async def _receive(self, group: asyncio.TaskGroup) -> None:
        async for received in self.socket:
            if received.type is not WSMsgType.TEXT:
                continue
            line: Any = None
            try:
                line = json.loads(received.data)
                await self._handle(line, group)
            except _BadLine as error:
                self.page.tell({"type": "error", "problem": str(error), "id": _read_id(line)})
            except (ValueError, RecursionError):
                self.page.tell({"type": "error", "problem": "the line is not JSON"})

    async def _handle(self, line: Any, group: asyncio.TaskGroup) -> None:
        kind = line.get("type") if isinstance(line, dict) else None
        if kind not in ("send", "press"):
            raise _BadLine('"type" must be "send" or "press"')
        chat, message_id = line.get("chat"), _read_id(line)
        if not isinstance(chat, str) or not CHAT_ID.fullmatch(chat) or not message_id:
            raise _BadLine('"chat" must be 8 to 32 characters of a-z and 0-9, and "id" a short text')
        about: Line = {"id": message_id, "chat": chat}
        try:
            if kind == "press":
                accept = partial(self.platform.press, message_id, chat, *_parse_press(line))
            else:
                accept = partial(self.platform.accept, message_id, chat, await self._read_parts(line))
        except StoreUnavailable as error:
            self.page.tell({"type": "retry", "problem": str(error), **about})
            return
        # In parallel, so that messages that arrive together share a commit. They are queued in their order.
        await self.slots.acquire()
        group.create_task(self._accept(about, accept))

    async def _accept(self, about: Line, accept: Callable[[], Awaitable[None]]) -> None:
        try:
            await accept()
        except (StoreUnavailable, GatewayStopping, PlatformUnavailable) as error:
            self.page.tell({"type": "retry", "problem": str(error), **about})
        else:
            self.page.tell({"type": "ack", **about})
        finally:
            self.slots.release()

    async def _read_parts(self, line: dict[str, Any]) -> list[Part]:
        text, references = line.get("text", ""), line.get("files", [])
        if not isinstance(text, str) or not is_storable(text):
            raise _BadLine('"text" must be a string of valid characters')
        if not isinstance(references, list) or len(references) > _MAX_FILES:
            raise _BadLine(f"a message may have {_MAX_FILES} files at most")
        parts: list[Part] = [Text(text=text)] if text.strip() else []
        parts += [await self._find_upload(reference) for reference in references]
        if not parts:
            raise _BadLine("the message is empty")
        return parts

    async def _find_upload(self, reference: Any) -> Media:
        try:
            sha256, name = map(str, json.loads(base64.urlsafe_b64decode(reference)))
            if not is_storable(sha256 + name):
                raise ValueError(name)
        except (ValueError, TypeError, RecursionError):
            raise _BadLine("a file was not uploaded here; attach it again") from None
        stored = await self.db.read(lambda tx: media.find(tx, sha256))
        if stored is None:
            raise _BadLine("a file is no longer stored; attach it again")
        return Media(kind=stored.kind, name=name[:200], mime=stored.mime, size_bytes=stored.size_bytes, sha256=sha256)


def is_storable(text: str) -> bool:
    """Return False for text with half a surrogate pair, which SQLite cannot store."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _parse_press(line: dict[str, Any]) -> tuple[str, str]:
    """Return the key of the message with the button, and the button's action."""
    about, action = line.get("about"), line.get("action")
    for given, max_chars in ((about, _MAX_ID_CHARS), (action, _MAX_ACTION_CHARS)):
        if not isinstance(given, str) or not given or len(given) > max_chars or not given.isprintable():
            raise _BadLine('"about" must be the key of a message, and "action" that of its button')
    return str(about), str(action)


def _read_id(line: Any) -> str:
    """Return the id of a message, empty if there is no usable one."""
    given = line.get("id") if isinstance(line, dict) else None
    return given if isinstance(given, str) and len(given) <= _MAX_ID_CHARS and given.isprintable() else ""


def _join_texts(lines: list[Line | None]) -> list[Line | None]:
    """Join neighbouring pieces of one answer, so that a slow page catches up in one step."""
    joined: list[Line | None] = []
    for line in lines:
        last = joined[-1] if joined else None
        if line and last and line["type"] == last["type"] == "text" and line["turn"] == last["turn"]:
            joined[-1] = last | {"text": last["text"] + line["text"]}
        else:
            joined.append(line)
    return joined
