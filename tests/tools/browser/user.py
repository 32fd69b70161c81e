"""Somebody's agent that uses a browser: the eight tools over real Chromium."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hermes_config.settings import BrowserSettings
from tests.tools.places import place_in
from tools.approval.gate import Gate, NobodyToAsk
from tools.base import Tool, ToolContext, ToolOutput
from tools.browser.browsers import Browsers
from tools.builtin.browser import browser_tools
from tools.content import Media
from tools.pictures import NoPictures
from tools.provenance import Provenance
from tools.url_guard import UrlGuard

PATIENCE_SECONDS = 90.0


class Album(NoPictures):
    """Keeps the newest picture."""

    content = b""

    async def save(self, content: bytes, name: str) -> Media:
        self.content = content
        return Media(kind="image", name=name, sha256="0" * 64)


@dataclass
class User:
    browsers: Browsers
    folder: Path
    task: str = "one"
    album: Album = field(default_factory=Album)
    gate: Gate = field(default_factory=NobodyToAsk)
    heard: Provenance = field(default_factory=Provenance)
    keeps: bool = True  # a profile

    @property
    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in browser_tools(self.browsers, self.album, in_chat=True)}

    @property
    def context(self) -> ToolContext:
        place = place_in(self.folder)
        place.profile = self.folder / "profile" if self.keeps else None
        return ToolContext(task_id=self.task, workplace=place, gate=self.gate, heard=lambda: self.heard, call_id="c1")

    async def do(self, name: str, **arguments: Any) -> str:
        output: ToolOutput = await self.tools[f"browser_{name}"].run(json.dumps(arguments), self.context)
        return output if isinstance(output, str) else str(output)

    async def open(self, url: str) -> str:
        return await self.do("navigate", url=url)

    async def see(self, words: str) -> str:
        """Return the page once it shows the words."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while words not in (seen := await self.do("snapshot")):
                await asyncio.sleep(0)
        return seen

    async def ref(self, words: str) -> str:
        """Return the reference of the element whose line begins with these words."""
        seen = await self.see(words)
        found = re.search(rf"{re.escape(words)}.*? \[((?:f\d+)*e\d+)\]", seen)
        assert found, seen
        return found[1]

    async def click(self, words: str, **more: Any) -> str:
        return await self.do("click", ref=await self.ref(words), **more)

    async def type(self, words: str, text: str, **more: Any) -> str:
        return await self.do("type", ref=await self.ref(words), text=text, **more)

    def in_conversation(self, task: str) -> "User":
        return replace(self, task=task)


def processes_with(words: str) -> list[int]:
    """Return the processes with these words in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if words.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@asynccontextmanager
async def open_user(folder: Path, *allowed: str, **options: Any) -> AsyncIterator[User]:
    folder.mkdir(exist_ok=True)
    given = {"timeout_seconds": 60.0, "max_download_bytes": 1_000_000} | options
    browsers = Browsers(options=BrowserSettings(**given), guard=UrlGuard.of(allowed or ["127.0.0.1"]))
    try:
        yield User(browsers=browsers, folder=folder)
    finally:
        await browsers.aclose()
