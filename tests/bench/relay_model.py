"""A model server on loopback that does as little as possible: the same streamed answer to whatever it is asked.

`python -m tests.bench.relay_model` prints its address and serves until it is ended.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

WORDS = tuple(f"{word} " for word in ("The build broke in the linker: a symbol was removed. " * 3).split())
ANSWER = "".join(WORDS)
KEY = "bench-key"


def frame_of(choices: list[dict[str, Any]], **more: Any) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": choices}
    return f"data: {json.dumps(chunk | more)}\n\n".encode()


FRAMES = (
    *(frame_of([{"index": 0, "delta": {"content": word}, "finish_reason": None}]) for word in WORDS),
    frame_of([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
    frame_of([], usage={"prompt_tokens": 400, "completion_tokens": len(WORDS), "total_tokens": 400 + len(WORDS)}),
    b"data: [DONE]\n\n",
)


class RelayModel:
    def __init__(self) -> None:
        self._pause_seconds = 0.0
        self._at_once = 0
        self._most_at_once = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64_000_000)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/measure", self._measure)
        return app

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.headers.get("Authorization") != f"Bearer {KEY}" or not (body.get("stream") and body.get("tools")):
            raise web.HTTPUnauthorized  # faster for leaving out what a real server insists on is not faster
        self._at_once += 1
        self._most_at_once = max(self._most_at_once, self._at_once)
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            if self._pause_seconds:
                await asyncio.sleep(self._pause_seconds)
            for frame in self._frames_for(body):
                await response.write(frame)
            await response.write_eof()
            return response
        finally:
            self._at_once -= 1

    def _frames_for(self, body: Mapping[str, Any]) -> Sequence[bytes]:
        return FRAMES

    async def _measure(self, request: web.Request) -> web.Response:
        """Sets the pause before each answer; gives the most calls there were at once, counted anew from here."""
        most, self._most_at_once = self._most_at_once, self._at_once
        self._pause_seconds = (await request.json())["pause_seconds"]
        return web.json_response({"most_at_once": most})


async def serve(app: web.Application) -> None:
    """Prints the address, then serves until cancelled."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(RelayModel().app()))
