"""The arguments of a call, whether they came as a query, a form or JSON, and its token."""

import json
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

from playground.params import Given
from playground.slack.rules import Refused
from playground.wire import Wire


class Params(Given):
    def boolean(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "1")

    def data(self, name: str, error: str = "invalid_arguments") -> Any:
        """An argument that is JSON; None if it was not given."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError:
            raise Refused(error) from None

    @property
    def logged(self) -> Wire:
        return {name: value for name, value in self.values.items() if name != "token"}


async def read_params(request: web.Request) -> Params:
    values: Wire = dict(request.query)
    if not request.can_read_body:
        return Params(values)
    kind = request.content_type
    if kind == "multipart/form-data":
        values.update({name: value for name, value in (await request.post()).items() if isinstance(value, str)})
        return Params(values)
    body = await request.read()
    if kind == "application/json":
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            raise Refused("invalid_json") from None
        if not isinstance(given, dict):
            raise Refused("json_not_object")
        given.pop("token", None)  # in JSON it counts for nothing
        return Params(values | given)
    values.update(parse_qsl(body.decode("utf-8", "surrogateescape"), keep_blank_values=True))
    return Params(values)


def read_token(request: web.Request, params: Params) -> str:
    header = request.headers.get("Authorization", "")
    return header.removeprefix("Bearer ") if header.startswith("Bearer ") else params.text("token")
