"""The least that a chat in front of a model can be: a socket, one streamed request a message, nothing kept.

`python -m tests.bench.relay_floor <address of the model>` prints its address and serves until it is ended.
It speaks the page's protocol, and offers the model the gateway's own tools: the request is the same but for what
a conversation adds to it.
"""

import asyncio
import json
import sys
from typing import Any

import aiohttp
from aiohttp import web

from agent_core.openai_format import tool_to_openai
from tests.bench.relay_model import KEY, serve
from tools.builtin import load_builtin


class RelayFloor:
    def __init__(self, model_url: str) -> None:
        self._model_url = model_url
        self._tools = [tool_to_openai(tool) for tool in load_builtin()]

    async def run(self) -> None:
        app = web.Application()
        app.router.add_get("/ws", self._socket)
        headers = {"Authorization": f"Bearer {KEY}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as self._session:
            await serve(app)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        async with asyncio.TaskGroup() as group:
            async for received in socket:
                group.create_task(self._relay(socket, json.loads(received.data)))
        return socket

    async def _relay(self, socket: web.WebSocketResponse, line: dict[str, Any]) -> None:
        about = {"chat": line["chat"]}
        await socket.send_str(json.dumps({"type": "ack", "id": line["id"], **about}))
        body = {
            "model": "bench",
            "messages": [{"role": "user", "content": line["text"]}],
            "tools": self._tools,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        whole = ""
        async with self._session.post(f"{self._model_url}/v1/chat/completions", json=body) as response:
            async for event in response.content:
                if text := _text(event):
                    whole += text
                    await socket.send_str(json.dumps({"type": "text", "text": text, **about}))
        item = {"kind": "answer", "text": whole, "answers": [line["id"]]}
        await socket.send_str(json.dumps({"type": "message", "item": item, **about}))


def _text(event: bytes) -> str:
    if not event.startswith(b"data: {"):
        return ""
    choices = json.loads(event[6:])["choices"]
    return choices[0]["delta"].get("content", "") if choices else ""


if __name__ == "__main__":
    asyncio.run(RelayFloor(sys.argv[1]).run())
