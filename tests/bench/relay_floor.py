"""The least that a chat in front of a model can be: a socket, one streamed request a message, nothing kept.

`python -m tests.bench.relay_floor <address of the model>` prints its address and serves until it is ended.
It speaks the page's protocol.
"""

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from tests.bench.bare_model import BareModel, bare_session
from tests.bench.relay_model import serve


class RelayFloor:
    def __init__(self, model: BareModel) -> None:
        self._model = model

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/ws", self._socket)
        return app

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
        whole = ""
        async for text in self._model.answer(line["text"]):
            whole += text
            await socket.send_str(json.dumps({"type": "text", "text": text, **about}))
        item = {"kind": "answer", "text": whole, "answers": [line["id"]]}
        await socket.send_str(json.dumps({"type": "message", "item": item, **about}))


async def _main(model_url: str) -> None:
    async with bare_session() as session:
        await serve(RelayFloor(BareModel(session, model_url)).app())


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
