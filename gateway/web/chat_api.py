"""The OpenAI-compatible endpoint: a request is a message in the inbox, and its response the answer from the outbox.

Who asks is decided by the key alone. Nothing here runs a turn: the request waits for what lanes and delivery do.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import hdrs, web

from gateway.changes import Changes
from gateway.clock import new_id, now_ms
from gateway.errors import GatewayStopping, PlatformUnavailable, StoreUnavailable
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import PROGRAMS, InboundMessage, Media, OutboundMessage, Part, Progress, Sender, SessionKey, Text
from gateway.platforms.api import ApiPlatform, PendingReply, ProgramNotice
from gateway.store import api_keys, media, program_requests, sessions, turns
from gateway.store.api_keys import KeyHolder
from gateway.store.db.database import Database
from gateway.store.inbox import Outcome
from gateway.store.media import MediaFiles
from gateway.store.program_requests import ANSWERED, ProgramRequest, RequestResult
from gateway.web.body import BodyProblem, read_body
from gateway.web.chat_request import MODEL, ApiProblem, ChatRequest, Picture, StreamedText, answer_task, parse_request
from tools.content import text_of

log = structlog.get_logger()

_LOOK_SECONDS = 2.0  # between two looks whether the program is still there, and the request not ended otherwise
_KEEP_ALIVE_SECONDS = 15.0
_NOT_RETRIED = {"x-should-retry": "false"}  # the official clients repeat what failed, and would ask the agent again
_MAX_ID_CHARS = 200

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request on its way."""

    chat: ChatRequest
    key: SessionKey
    message: InboundMessage
    may_repeat: bool  # it came with an Idempotency-Key, so its answer can be fetched later

    @property
    def id(self) -> str:
        return f"chatcmpl-{self.message.message_id}"


@dataclass(slots=True, kw_only=True)
class ChatApi:
    platform: ApiPlatform
    db: Database
    media_files: MediaFiles
    limits: SenderLimits
    wait_seconds: float
    max_body_bytes: int
    clean: Callable[[str], str] = lambda text: text  # hides secrets
    changes: Changes = field(default_factory=Changes)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._guard(self._models)),
            web.get("/v1/models/{name}", self._guard(self._models)),
            web.post("/v1/chat/completions", self._guard(self._complete)),
            web.route("*", "/v1/{rest:.*}", self._guard(self._unknown)),
        ]

    def _guard(self, handler: Callable[[web.Request, KeyHolder], Awaitable[web.StreamResponse]]) -> Handler:
        """Check the key before anything else is looked at, and answer every problem in OpenAI's format."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            headers = dict(_NOT_RETRIED)
            try:
                return await handler(request, await self._authenticate(request))
            except ApiProblem as error:
                problem = error
            except BodyProblem as error:
                problem = ApiProblem(error.status, str(error))
            except (StoreUnavailable, GatewayStopping, PlatformUnavailable) as error:
                problem, headers = ApiProblem(503, str(error)), {hdrs.RETRY_AFTER: "5"}  # nothing was accepted
            if problem.code == "rate_limit_exceeded":
                headers = {hdrs.RETRY_AFTER: "5"}
            return web.json_response(problem.render(), status=problem.status, headers=headers)

        return guarded

    async def _authenticate(self, request: web.Request) -> KeyHolder:
        scheme, _, key = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise ApiProblem(401, "Send a key as `Authorization: Bearer …`; `hermes keys create` makes one.")
        holder = await self.db.read(lambda tx: api_keys.find_holder(tx, key))
        if holder is None:
            raise ApiProblem(401, "This key is not valid, or was revoked.", code="invalid_api_key")
        if await self.db.read(lambda tx: api_keys.needs_note(tx, holder.key_id)):
            await self.db.write(lambda tx: api_keys.note_use(tx, holder.key_id))
        return holder

    async def _models(self, request: web.Request, holder: KeyHolder) -> web.Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "hermes"}
        name = request.match_info.get("name")
        if name not in (None, MODEL):
            raise ApiProblem(404, f"There is no model {name[:60]!r} here: use {MODEL!r}.", code="model_not_found")
        return web.json_response(model if name else {"object": "list", "data": [model]})

    async def _unknown(self, request: web.Request, holder: KeyHolder) -> web.Response:
        raise ApiProblem(404, "There are only /v1/models and /v1/chat/completions here.", code="unknown_url")

    async def _complete(self, request: web.Request, holder: KeyHolder) -> web.StreamResponse:
        if not self.limits.allow(PROGRAMS, holder.person_id):
            text = f"More than {self.limits.per_minute} requests in a minute (http.requests_per_minute). Wait a moment."
            raise ApiProblem(429, text, code="rate_limit_exceeded")
        chat = parse_request(await read_body(request, self.max_body_bytes))
        if not chat.conversation and (done := answer_task(chat.text)) is not None:
            return await _respond_at_once(request, chat, done)
        asked = await self._prepare(request, chat, holder)
        pending = self.platform.expect(asked.message.address)
        try:
            begin = program_requests.begin_conversation
            if chat.history:
                await self.db.write(lambda tx: begin(tx, asked.key, chat.history, name=holder.name))
            await self.platform.accept(asked.message)
            accepted = await self._find_accepted(asked)
            events = self._follow(request, asked, accepted, pending)
            if chat.streams:
                return await self._stream(request, asked, accepted, events)
            return await self._respond(asked, accepted, events)
        finally:
            self.platform.forget(pending)

    async def _prepare(self, request: web.Request, chat: ChatRequest, holder: KeyHolder) -> _Asked:
        given = request.headers.get("Idempotency-Key", "").strip()
        if len(given) > _MAX_ID_CHARS or not given.isprintable():
            raise ApiProblem(400, f"Idempotency-Key must be a line of {_MAX_ID_CHARS} characters at most.")
        # "~" is in no name of a conversation: one of its own, which ends with its answer.
        thread = chat.conversation or f"~{given or new_id()}"
        key = SessionKey(platform=PROGRAMS, kind="dm", chat=holder.person_id, thread=thread.replace(":", "_"))
        message = InboundMessage(
            key=key,
            message_id=given or new_id(),
            sender=Sender(id=holder.person_id, name=holder.name),
            parts=tuple([await self._store(one) for one in chat.said]),
            sent_ms=now_ms(),
        )
        return _Asked(chat=chat, key=key, message=message, may_repeat=bool(given))

    async def _store(self, said: str | Picture) -> Part:
        if isinstance(said, str):
            return Text(text=said)
        try:
            sha256 = await asyncio.to_thread(self.media_files.save, "image", said.content)
        except OSError as error:
            raise ApiProblem(503, f"The image could not be saved: {error.strerror}.") from error
        part = Media(kind="image", name="image", mime=said.mime, size_bytes=len(said.content), sha256=sha256)
        await self.db.write(lambda tx: media.record_parts(tx, [part]))
        return part

    async def _find_accepted(self, asked: _Asked) -> ProgramRequest:
        """Return the request as it was accepted now or, with the same Idempotency-Key, before."""
        found = await self.db.read(lambda tx: program_requests.find(tx, asked.key, asked.message.message_id))
        if found is None:
            raise ApiProblem(403, "This key's person has no access any more.", code="no_access")
        if found.session_key != str(asked.key) or text_of(found.parts) != text_of(asked.message.parts):
            raise ApiProblem(422, "This Idempotency-Key was used for another request.", code="idempotency_key_reused")
        if found.outcome in (Outcome.FULL, Outcome.TOO_FAST):
            text = "Too many requests wait in this conversation. Wait until some are answered."
            raise ApiProblem(429, text, code="rate_limit_exceeded")
        return found

    async def _follow(
        self, request: web.Request, asked: _Asked, accepted: ProgramRequest, pending: PendingReply
    ) -> AsyncIterator[Progress | ProgramNotice | RequestResult | None]:
        """Yield what happens to the request, its result last; None now and then, while nothing does."""
        until, told = time.monotonic() + self.wait_seconds, time.monotonic()
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    event = None if accepted.is_done else await pending.events.get()
            except TimeoutError:
                event = None
            if isinstance(event, Progress | ProgramNotice):
                yield event
                continue
            now = await self.db.read(lambda tx: program_requests.find(tx, asked.key, asked.message.message_id))
            if now is None or now.is_done or isinstance(event, OutboundMessage):
                yield await self._read_result(asked, accepted)
                return
            if request.transport is None or request.transport.is_closing():
                await self._abandon(asked, accepted)
                raise ApiProblem(499, "The program has closed its connection.")
            if time.monotonic() > until:
                raise ApiProblem(504, _describe_wait(asked, self.wait_seconds), code="still_working")
            if time.monotonic() - told > _KEEP_ALIVE_SECONDS:
                told = time.monotonic()
                yield None

    async def _read_result(self, asked: _Asked, accepted: ProgramRequest) -> RequestResult:
        if not asked.chat.conversation:  # nobody can go on with it
            await self.db.write_when_possible(lambda tx: sessions.end_current(tx, str(asked.key), reason=ANSWERED))
        result = await self.db.read(lambda tx: program_requests.read_result(tx, accepted))
        if result is None:
            raise ApiProblem(409, f"The request ended without an answer. See: hermes trace inbox:{accepted.id}")
        if result.is_failed:
            code = "insufficient_quota" if result.problem == "BudgetSpent" else "agent_failed"
            status = 429 if code == "insufficient_quota" else 502
            raise ApiProblem(status, self.clean(text_of(result.parts)), code=code)
        return result

    async def _abandon(self, asked: _Asked, accepted: ProgramRequest) -> None:
        """Stop working for a program that has gone, unless it can come back for the answer."""
        if not asked.may_repeat:
            log.info("program has gone", inbox=accepted.id)
            await self.db.write_when_possible(lambda tx: turns.request_stop_of(tx, accepted.id))
            self.changes.notify("inbox")

    async def _respond(
        self,
        asked: _Asked,
        accepted: ProgramRequest,
        events: AsyncIterator[Progress | ProgramNotice | RequestResult | None],
    ) -> web.Response:
        notices: list[str] = []
        async for event in events:
            if isinstance(event, ProgramNotice):
                notices.append(self.clean(event.text))
            elif isinstance(event, RequestResult):
                text, usage = self.clean(text_of(event.parts)), _usage(event)
        about = {"trace": f"inbox:{accepted.id}", "conversation": asked.chat.conversation, "notices": notices}
        return web.json_response(_completion(asked.id, text, usage) | {"hermes": about})

    async def _stream(
        self,
        request: web.Request,
        asked: _Asked,
        accepted: ProgramRequest,
        events: AsyncIterator[Progress | ProgramNotice | RequestResult | None],
    ) -> web.StreamResponse:
        out = _EventStream(request, asked.id, with_usage=asked.chat.with_usage)
        text = StreamedText()
        try:
            await out.begin()
            async for event in events:
                match event:
                    case Progress(what="text"):
                        await out.send_text(text.add(event.text))
                    case Progress(what="restart"):
                        text.restart()
                    case Progress(what="tool"):
                        text.end_reply()
                    case ProgramNotice():
                        await out.comment(self.clean(event.text))
                    case RequestResult():
                        await out.send_text(text.finish(self.clean(text_of(event.parts))))
                        await out.end(_usage(event))
                    case None:
                        await out.comment("still working")
        except ApiProblem as error:
            await out.fail(error)
        except ConnectionError:
            await self._abandon(asked, accepted)
        return out.response


class _EventStream:
    """Server-sent events of one response."""

    def __init__(self, request: web.Request, response_id: str, *, with_usage: bool) -> None:
        headers = {hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8", hdrs.CACHE_CONTROL: "no-store"}
        self.response = web.StreamResponse(headers=headers | {"X-Content-Type-Options": "nosniff"})
        self._request, self._with_usage = request, with_usage
        self._head = _head(response_id, "chat.completion.chunk")

    async def begin(self) -> None:
        await self.response.prepare(self._request)
        await self._send_delta({"role": "assistant", "content": ""}, None)

    async def send_text(self, text: str) -> None:
        if text:
            await self._send_delta({"content": text}, None)

    async def comment(self, text: str) -> None:
        """Send a line that clients skip; it keeps the connection open."""
        await self.response.write(f": {' '.join(text.split())}\n\n".encode())

    async def end(self, usage: dict[str, int]) -> None:
        await self._send_delta({}, "stop")
        if self._with_usage:
            await self._send(self._head | {"choices": [], "usage": usage})
        await self.response.write(b"data: [DONE]\n\n")

    async def fail(self, problem: ApiProblem) -> None:
        """Send the problem, if anybody is still there."""
        try:
            await self._send(problem.render())
            await self.response.write(b"data: [DONE]\n\n")
        except ConnectionError:
            return

    async def _send_delta(self, delta: dict[str, str], finish: str | None) -> None:
        await self._send(self._head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    async def _send(self, event: dict[str, Any]) -> None:
        await self.response.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())


async def _respond_at_once(request: web.Request, chat: ChatRequest, text: str) -> web.StreamResponse:
    """Answer what needs no agent, in the form that was asked for."""
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    response_id = f"chatcmpl-{new_id()}"
    if chat.streams:
        out = _EventStream(request, response_id, with_usage=chat.with_usage)
        await out.begin()
        await out.send_text(text)
        await out.end(usage)
        return out.response
    return web.json_response(_completion(response_id, text, usage))


def _completion(response_id: str, text: str, usage: dict[str, int]) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return _head(response_id, "chat.completion") | {"choices": [choice], "usage": usage}


def _head(response_id: str, kind: str) -> dict[str, Any]:
    return {"id": response_id, "object": kind, "created": now_ms() // 1000, "model": MODEL}


def _usage(result: RequestResult) -> dict[str, int]:
    used, made = result.input_tokens, result.output_tokens
    return {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}


def _describe_wait(asked: _Asked, seconds: float) -> str:
    later = (
        "Send the same request with the same Idempotency-Key to get the answer."
        if asked.may_repeat
        else "With an Idempotency-Key the answer could be fetched later."
    )
    return f"No answer after {seconds:g} s: the agent still works on it, or an owner has to approve something. {later}"
