"""The web page as a platform: messages go to every open page; a page reads older ones from the store.

The server in `gateway/web` handles HTTP; this module only knows the open pages and the answers being written.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gateway.clock import now_ms
from gateway.errors import MediaUnavailable, PlatformUnavailable
from gateway.messages import (
    Address,
    InboundMessage,
    Kind,
    Media,
    OutboundMessage,
    Part,
    Progress,
    Receipt,
    Sender,
    SessionKey,
    Text,
    ToolProgress,
    text_of,
)
from gateway.platforms.base import Features, Inlet
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.spec import AccountSetup, PlatformSpec

Line = dict[str, Any]
Serve = Callable[[Callable[[], None]], Awaitable[None]]
"""Run the HTTP server; calls back once it listens. Raises PlatformUnavailable if it cannot."""

_MAX_WAITING_LINES = 2_000


@dataclass(slots=True)
class PageDraft:
    """The answer being written, for a page that is opened in the middle of it."""

    turn: str
    pieces: list[str] = field(default_factory=list)
    chars: int = 0  # total of the pieces
    tools: dict[str, ToolProgress] = field(default_factory=dict)
    ended: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class OpenPage:
    """One open page. A page that reads too slowly is dropped; it reconnects and reads the store."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[Line | None] = asyncio.Queue(_MAX_WAITING_LINES)

    def tell(self, line: Line) -> None:
        if self.lines.qsize() >= _MAX_WAITING_LINES - 1:
            while not self.lines.empty():
                self.lines.get_nowait()
            self.lines.put_nowait(None)
        else:
            self.lines.put_nowait(line)


class WebPlatform:
    account = "web"
    # Pages discard duplicates by their key.
    features = Features(resend="safe", local=True, sends_files=True)

    def __init__(self) -> None:
        self.serve: Serve | None = None  # set by the wiring: the server needs us, and we need it
        self.pages: set[OpenPage] = set()
        self.rate_limits = RateLimits()
        self.drafts: dict[str, PageDraft] = {}
        self._inlet: Inlet | None = None

    async def run(self, inlet: Inlet) -> None:
        assert self.serve is not None
        self._inlet = inlet
        try:
            await self.serve(inlet.alive)
        finally:
            self._inlet = None

    async def accept(self, message_id: str, chat: str, parts: Sequence[Part]) -> None:
        """Accept a message from a page. Raises StoreUnavailable or GatewayStopping if it was not accepted."""
        at_ms = now_ms()
        await self._accept(chat, message_id, parts, at_ms)
        item = {"kind": "user", "id": message_id, "text": words(parts), "files": files(parts), "at_ms": at_ms}
        self._tell({"type": "user", "chat": chat, "item": item | {"state": "waiting"}})

    async def press(self, press_id: str, chat: str, about: str, action: str) -> None:
        """Accept the press of a button below one of our messages. Raises what `accept` raises."""
        await self._accept(chat, press_id, [Text(text=action)], now_ms(), kind="button", about=about)

    async def _accept(
        self, chat: str, message_id: str, parts: Sequence[Part], at_ms: int, *, kind: Kind = "message", about: str = ""
    ) -> None:
        if self._inlet is None:
            raise PlatformUnavailable("the gateway is not ready yet")
        message = InboundMessage(
            key=key_of(chat),
            message_id=message_id,
            kind=kind,
            sender=Sender(id="owner"),
            parts=tuple(parts),
            sent_ms=at_ms,
            about=about,
        )
        self._inlet.alive()
        await self._inlet.accept([message], None)

    def questions_changed(self) -> None:
        """Tell the pages that a question was asked or decided."""
        self._tell({"type": "questions"})

    def chat_deleted(self, chat: str) -> None:
        self.drafts.pop(chat, None)
        self._tell({"type": "deleted", "chat": chat})
        self._tell({"type": "chats"})

    def chat_renamed(self) -> None:
        self._tell({"type": "chats"})

    async def send(self, message: OutboundMessage) -> Receipt:
        """Send to the open pages. Others read the row from the store, so delivery never fails."""
        chat = message.address.chat
        draft = self.drafts.get(chat)
        tools: list[Line] = []
        if draft is not None and draft.ended and message.notify:
            tools = [tool_line(tool) for tool in draft.tools.values()]
            del self.drafts[chat]
        # A question notifies like an answer, but leaves the turn running; an edit keeps its kind.
        is_answer = message.notify and not message.edits and bool(message.answers or not message.choices)
        item: Line = {
            "kind": "answer" if is_answer else "notice",
            "key": message.key,
            "text": words(message.parts),
            "files": files(message.parts),
            "at_ms": now_ms(),
            "answers": list(message.answers),
            "tools": tools,
            "choices": [asdict(choice) for choice in message.choices],
            "edits": message.edits,
            "failed": message.failed,
        }
        self._tell({"type": "message", "chat": chat, "item": item})
        self._tell({"type": "chats"})
        return Receipt(message_id=message.edits or message.key)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        raise MediaUnavailable("it was not uploaded")  # uploads are stored before their message is accepted

    def show(self, address: Address, progress: Progress) -> None:
        draft = self._keep(address.chat, progress)
        line: Line = {"type": progress.what, "chat": address.chat, "turn": progress.turn}
        if progress.tool is not None:
            line["tool"] = tool_line(progress.tool)
        elif progress.what == "text":
            line |= {"text": progress.text, "at": draft.chars - len(progress.text)}
        elif progress.text:
            line["text"] = progress.text
        self._tell(line)

    def _keep(self, chat: str, progress: Progress) -> PageDraft:
        draft = self.drafts.get(chat)
        if draft is None or draft.turn != progress.turn:
            draft = self.drafts[chat] = PageDraft(progress.turn)
        if progress.what == "text":
            draft.pieces.append(progress.text)
            draft.chars += len(progress.text)
        elif progress.what == "restart":
            draft.pieces.clear()
            draft.chars = 0
        elif progress.tool is not None:
            draft.tools[progress.tool.id] = progress.tool
        draft.ended = progress.what == "ended"
        return draft

    def _tell(self, line: Line) -> None:
        for page in self.pages:
            page.tell(line)


def key_of(chat: str) -> SessionKey:
    return SessionKey(platform="web", chat=chat)


def words(parts: Sequence[Part]) -> str:
    return text_of(part for part in parts if not isinstance(part, Media))


def file_reference(sha256: str, name: str) -> str:
    """Return the token by which a page names an uploaded file in a message."""
    return base64.urlsafe_b64encode(json.dumps([sha256, name]).encode()).decode()


def files(parts: Sequence[Part]) -> list[Line]:
    return [
        {
            "name": part.name,
            "mime": part.mime,
            "size": part.size_bytes,
            "url": f"/media/{part.sha256}" if part.sha256 else "",
            "file": file_reference(part.sha256, part.name) if part.sha256 else "",
            "problem": part.problem,
        }
        for part in parts
        if isinstance(part, Media)
    ]


def tool_line(tool: ToolProgress) -> Line:
    return asdict(tool)


def build(setup: AccountSetup, **_: object) -> WebPlatform:
    return WebPlatform()


WEB = PlatformSpec(name="web", hint="Your answers are shown on a web page that renders Markdown.", build=build)
