"""A strict Telegram Bot API server on loopback: bots talk to it over HTTP, tests and the page play its people.

It refuses what Telegram refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import hmac
import math
import re
from typing import Literal, get_args

from aiohttp import web

from playground.faults import CallKind, Fault, Faults
from playground.limits import RateLimit, ServerLimits
from playground.params import NotJson, Params, read_params
from playground.server import JSON, ApiAnswer, ApiCall, PlatformServer
from playground.telegram.methods import LIMITED, METHODS
from playground.telegram.people import TelegramPeople
from playground.telegram.rules import MAX_UPLOAD_BYTES, TelegramRefusal, bad_request, too_many_requests
from playground.telegram.world import TelegramUser, TelegramWorld
from playground.wire import to_json

UpdateKind = Literal[
    "duplicate",  # send an update twice in a row with one id
    "duplicate_later",  # send an update once more with the same id after it was confirmed
    "duplicate_new_id",  # send an update twice with two ids
]
TelegramFault = CallKind | UpdateKind
_TOKEN = re.compile(r"[1-9]\d{0,15}:[\w-]{3,}", re.ASCII)


class TelegramServer(PlatformServer):
    """Serves at `url` while the `with` block runs; the base URL of a bot is `url` and `/bot`."""

    world: TelegramWorld
    people: TelegramPeople
    faults: Faults[TelegramFault]

    def __init__(
        self,
        *,
        token: str = "42:playground-token",  # noqa: S107 - of a bot that exists here alone
        username: str = "playground_bot",
        first_name: str = "Playground",
        privacy: bool = True,
        limits: bool = False,
    ) -> None:
        self.token = token
        bot = TelegramUser(id=int(token.split(":")[0]), first_name=first_name, username=username, is_bot=True)
        self.world = TelegramWorld(bot=bot, reads_all=not privacy)
        self.limits = ServerLimits(limits)
        faults = Faults[TelegramFault](get_args(UpdateKind))
        super().__init__(world=self.world, people=TelegramPeople(self.world), faults=faults)
        self.world.updates.duplicate_as = self._duplicate_as

    def _duplicate_as(self, update_kind: str) -> str:
        fault = self.faults.take(update_kind, pushed=True)
        return fault.kind if fault else ""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/bot{token:[^/]+}/{method:[^/]*}", self._serve_method)
        app.router.add_get("/file/bot{token:[^/]+}/{path:.+}", self._serve_file)

    def refuse(self, refusal: TelegramRefusal, call: ApiCall) -> ApiAnswer:
        seconds = refusal.parameters.get("retry_after")
        headers = {**JSON, "Retry-After": str(seconds)} if seconds else JSON
        return ApiAnswer(refusal.code, refusal.wire, refusal.description, headers)

    def fail(self, fault: Fault) -> ApiAnswer:
        status, seconds = fault.failure_status, int(fault.retry_after)
        words = {429: f"Too Many Requests: retry after {seconds}", 502: "Bad Gateway"}
        description = fault.description or words.get(status, "Internal Server Error")
        parameters = ({"retry_after": seconds} if seconds else {}) | fault.extra
        return self.refuse(TelegramRefusal(status, description, **parameters), ApiCall(fault.method))

    async def _serve_method(self, request: web.Request) -> web.StreamResponse:
        call = ApiCall(request.match_info["method"])
        try:
            self._check_token(request)
            if (request.content_length or 0) > MAX_UPLOAD_BYTES + 1024 * 1024:
                raise TelegramRefusal(413, "Request Entity Too Large")
            params = await read_params(request)
        except NotJson:
            return self.tell(call, self.refuse(bad_request("can't parse request JSON object"), call))
        except TelegramRefusal as refusal:
            return self.tell(call, self.refuse(refusal, call))
        call.params, call.place = params.log_entry, params.text("chat_id")

        async def work() -> ApiAnswer:
            try:
                return ApiAnswer(200, await self._run(call.method.lower(), params))
            except NotJson as error:
                raise bad_request(f"can't parse {str(error).replace('_', ' ')} JSON object") from None

        return await self.serve(request, call, work)

    def _check_token(self, request: web.Request) -> None:
        token = request.match_info["token"]
        if not _TOKEN.fullmatch(token):
            raise TelegramRefusal(404, "Not Found")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise TelegramRefusal(401, "Unauthorized")

    async def _run(self, method: str, params: Params) -> bytes:
        if method == "getupdates":
            page = await self.world.updates.get(
                offset=params.integer("offset"),
                limit=params.integer("limit", 100),
                timeout=params.integer("timeout"),
                allowed=params.data("allowed_updates"),
            )
            return b'{"ok":true,"result":[%b]}' % b",".join(page)
        function = METHODS.get(method)
        if function is None:
            raise TelegramRefusal(404, "Not Found: method not found")
        if method in LIMITED:
            self._check_limits(params)
        return b'{"ok":true,"result":%b}' % to_json(function(self.world, params))

    def _check_limits(self, params: Params) -> None:
        """Limit a chat to a burst of three at one a second, a group to 20 a minute, and all to 30 a second."""
        chat = params.text("chat_id")
        in_chat = RateLimit(chat, 20, 60.0) if chat.startswith("-") else RateLimit(chat, 3, 3.0)
        if seconds := self.limits.spend(in_chat, RateLimit("", 30, 1.0)):
            raise too_many_requests(max(1, math.ceil(seconds)))

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        call = ApiCall("file", {"path": path})
        stored = next((one for one in self.world.files.values() if one.path == path), None)
        try:
            self._check_token(request)
            if stored is None:
                raise TelegramRefusal(404, "Not Found")
        except TelegramRefusal as refusal:
            return self.tell(call, self.refuse(refusal, call))
        return await self.serve_file(request, call, stored.content or bytes(stored.size), "application/octet-stream")
