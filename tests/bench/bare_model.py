"""The least that asks a model: one streamed request over plain aiohttp, nothing kept.

It offers the gateway's own tools: the request is the same but for what a conversation adds to it.
"""

import json
from collections.abc import AsyncIterator

import aiohttp

from agent_core.openai_format import tool_to_openai
from tests.bench.relay_model import KEY
from tools.loading import load_builtin


class BareModel:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/v1/chat/completions"
        self._headers = {"Authorization": f"Bearer {KEY}"}
        self._tools = [tool_to_openai(tool) for tool in load_builtin()]

    async def answer(self, text: str) -> AsyncIterator[str]:
        """Piece by piece, as it comes."""
        body = {
            "model": "bench",
            "messages": [{"role": "user", "content": text}],
            "tools": self._tools,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async with self._session.post(self._url, json=body, headers=self._headers) as response:
            async for event in response.content:
                if piece := _text(event):
                    yield piece


def bare_session() -> aiohttp.ClientSession:
    """As many connections at once as there are chats."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


def _text(event: bytes) -> str:
    if not event.startswith(b"data: {"):
        return ""
    choices = json.loads(event[6:])["choices"]
    return choices[0]["delta"].get("content", "") if choices else ""
