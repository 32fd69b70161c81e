"""A model server on loopback that answers after 200 ms, to three of ten prompts with a tool call first.

`python -m tests.bench.batch_model` prints its address and serves until it is ended; `/measure` tells what was asked.
"""

import asyncio
import json
import re
import time
from typing import Any

from aiohttp import web

from tests.bench.relay_model import frame_of

LATENCY_SECONDS = 0.2
CALLS_PER_PROMPT = 1.3
_CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "file_write", "arguments": '{"path": "notes.txt", "content": "milk"}'},
}
_ANSWER = {"content": "The answer is forty-two. " * 4}
_USAGE = {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420}


class BatchModelServer:
    def __init__(self) -> None:
        self._times: list[float] = []

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64_000_000)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/measure", self._measure)
        return app

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        await asyncio.sleep(LATENCY_SECONDS)
        calls = body["messages"][-1]["role"] == "user" and _number(body) % 10 < 3
        delta = {"tool_calls": [_CALL]} if calls else _ANSWER
        finish = "tool_calls" if calls else "stop"
        frames = (
            frame_of([{"index": 0, "delta": delta, "finish_reason": None}]),
            frame_of([{"index": 0, "delta": {}, "finish_reason": finish}]),
            frame_of([], usage=_USAGE),
            b"data: [DONE]\n\n",
        )
        self._times.append(time.monotonic())
        return web.Response(body=b"".join(frames), content_type="text/event-stream")

    async def _measure(self, request: web.Request) -> web.Response:
        """Tell how many calls there were, and how many a second between the first and the last tenth."""
        times = self._times
        start, end = len(times) // 10, len(times) * 9 // 10
        rate = (end - start) / (times[end] - times[start]) if end - start > 1 else 0.0
        return web.json_response({"calls": len(times), "rate": rate})


def _number(body: dict[str, Any]) -> int:
    [said] = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return int(re.findall(r"\d+", said if isinstance(said, str) else json.dumps(said))[0])


async def _serve() -> None:
    runner = web.AppRunner(BatchModelServer().app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
