"""A strict OpenAI-compatible model server on loopback that follows a script.

It refuses what the strictest provider refuses, remembers every request, and can fail at any byte.
"""

import asyncio
import hmac
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from playground.model_rules import find_problem
from playground.model_script import HangUp, ModelAnswer, ModelRefusal, Silence, Step

Respond = Callable[[Mapping[str, Any]], Step]
"""Returns the reply to a request."""


def count_tokens(body: Mapping[str, Any]) -> int:
    """Return the tokens of a request, at four bytes each: of its messages and tools as JSON."""
    given = {name: body.get(name) for name in ("messages", "tools")}
    return len(json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")) // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request as it came in; `refused` is the rule that it broke, if any."""

    body: Any
    headers: Mapping[str, str]
    connection: int  # the client's port
    refused: str = ""


class ModelServer:
    """Serves at `url` while the `with` block runs. Replies come from the script in order, then `otherwise`.

    With `window_tokens` it refuses longer requests as OpenAI does, and reports the tokens that it counted.
    """

    def __init__(
        self,
        *,
        api_key: str = "sk-playground",
        models: Sequence[str] = ("playground",),
        extra_fields: Collection[str] = (),
        otherwise: Step | Respond | None = None,
        window_tokens: int = 0,
        port: int = 0,
    ) -> None:
        self.api_key = api_key
        self.open_to_all = False  # accepts any key, as servers at home do
        self.models = tuple(models)
        self.requests: list[ModelRequest] = []
        self.overflows = 0
        self._extra_fields = extra_fields
        self._steps: deque[Step] = deque()
        self._otherwise = otherwise
        self._window_tokens = window_tokens
        self._port = port
        self._runner: web.AppRunner | None = None
        self._closing = asyncio.Event()

    def script(self, *steps: Step) -> None:
        """Add replies to the next requests; requests against the rules use up none."""
        self._steps.extend(steps)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def bodies(self) -> list[Any]:
        return [asked.body for asked in self.requests]

    @property
    def refusals(self) -> list[str]:
        """The rules that requests broke, for tests that must not see any."""
        return [asked.refused for asked in self.requests if asked.refused]

    @property
    def left(self) -> int:
        return len(self._steps)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._runner:
            await self._runner.cleanup()

    async def _list_models(self, request: web.Request) -> web.Response:
        if refused := self._check_key(request):
            return refused
        models = [{"id": name, "object": "model", "created": 1, "owned_by": "playground"} for name in self.models]
        return web.json_response({"object": "list", "data": models})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if refused := self._check_key(request):
            self._remember(request, None, "wrong key")
            return refused
        try:
            body = json.loads(await request.read())
        except ValueError:
            body = None
        problem = find_problem(body, extra_fields=self._extra_fields)
        self._remember(request, body, problem)
        if problem:
            return _refuse(ModelRefusal(status=400, message=problem))
        if body["model"] not in self.models:
            message = f"The model `{body['model']}` does not exist or you do not have access to it."
            return _refuse(ModelRefusal(status=404, message=message, code="model_not_found"))
        tokens = count_tokens(body)
        if self._window_tokens and tokens > self._window_tokens:
            self.overflows += 1
            words = (
                f"This model's maximum context length is {self._window_tokens} tokens. However, your messages resulted "
                f"in {tokens} tokens. Please reduce the length of the messages."
            )
            return _refuse(ModelRefusal(status=400, message=words, code="context_length_exceeded"))
        step = self._next(body)
        if self._window_tokens and isinstance(step, ModelAnswer):
            written = len("".join(step.text)) // 4 + 1
            counts = {"prompt_tokens": tokens, "completion_tokens": written, "total_tokens": tokens + written}
            step = replace(step, usage=counts)
        return await self._play(step, request, body)

    def _remember(self, request: web.Request, body: object, refused: str) -> None:
        port = request.transport.get_extra_info("peername")[1] if request.transport else 0
        self.requests.append(ModelRequest(body=body, headers=dict(request.headers), connection=port, refused=refused))

    def _next(self, body: Mapping[str, Any]) -> Step:
        if self._steps:
            return self._steps.popleft()
        if callable(self._otherwise):
            return self._otherwise(body)
        return self._otherwise or ModelRefusal(
            status=400, message="The script has come to its end.", code="script_ended"
        )

    def _check_key(self, request: web.Request) -> web.Response | None:
        if self.open_to_all or hmac.compare_digest(
            request.headers.get("Authorization", "").encode(), f"Bearer {self.api_key}".encode()
        ):
            return None
        words = "Incorrect API key provided. You can find your API key in the settings."
        return _refuse(ModelRefusal(status=401, message=words, code="invalid_api_key"))

    async def _play(self, step: Step, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        match step:
            case ModelRefusal():
                return _refuse(step)
            case Silence():
                await self._closing.wait()
                return web.Response(status=503)
            case HangUp():
                _close(request)
                return web.Response(status=503)
        if body.get("stream"):
            return await self._stream(step, request, body["model"])
        return await self._send_whole(step, request, body["model"])

    async def _stream(self, step: ModelAnswer, request: web.Request, model: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": step.content_type or "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        frames = [step.raw] if step.raw is not None else step.frames(model)
        left = len(step.sent_part(b"".join(frames)))
        for frame in frames:
            if step.delay_seconds:
                await asyncio.sleep(step.delay_seconds)
            if left > 0:
                await response.write(frame[:left])
            left -= len(frame)
        return await self._end(step, request, response)

    async def _send_whole(self, step: ModelAnswer, request: web.Request, model: str) -> web.StreamResponse:
        wire = step.raw if step.raw is not None else step.whole(model)
        response = web.StreamResponse(headers={"Content-Type": step.content_type or "application/json"})
        response.content_length = len(wire)
        if step.delay_seconds:
            await asyncio.sleep(step.delay_seconds)
        await response.prepare(request)
        await response.write(step.sent_part(wire))
        return await self._end(step, request, response)

    async def _end(self, step: ModelAnswer, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        if step.ending == "cut":
            _close(request)
        elif step.ending == "hang":
            await self._closing.wait()
        else:
            await response.write_eof()
        return response


def _refuse(step: ModelRefusal) -> web.Response:
    return web.Response(
        status=step.status, body=step.wire, headers={"Content-Type": "application/json", **dict(step.headers)}
    )


def _close(request: web.Request) -> None:
    if request.transport:
        request.transport.close()
