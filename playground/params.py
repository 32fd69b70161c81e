"""Parameters of an HTTP call, whether they come as a query, a form or JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import content_disposition_filename, parse_content_disposition, web

from playground.wire import Wire


class NotJson(Exception):
    """Something that must be JSON is not; the message names the parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    name: str
    mime_type: str
    content: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"<{self.name}, {len(self.content)} bytes>"


class Params:
    """Values arrive as strings or, in a JSON body, as themselves."""

    def __init__(self, values: Wire, files: Mapping[str, Upload] | None = None) -> None:
        self.values = values
        self.files: Mapping[str, Upload] = files or {}

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if isinstance(value, str):
            return value
        return "" if value is None else json.dumps(value)

    def integer(self, name: str, default: int = 0) -> int:
        try:
            return int(self.text(name))
        except ValueError:
            return default

    def boolean(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "yes", "1")

    def data(self, name: str) -> Any:
        """Return a parameter that is JSON, or None without one. Raises `NotJson`."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        return _parse(value, name) if value else None

    @property
    def log_entry(self) -> Wire:
        """The values for the log of calls, with files by name and size."""
        return {**self.values, **{name: str(upload) for name, upload in self.files.items()}}


async def read_params(request: web.Request) -> Params:
    """Raises `NotJson` for a JSON body that is no object."""
    values: Wire = dict(request.query)
    if not request.can_read_body:
        return Params(values)
    if request.content_type == "multipart/form-data":
        fields, files = await read_form(request)
        return Params(values | fields, files)
    body = await request.read()
    if request.content_type == "application/json":
        given = _parse(body or b"{}", "request")
        if not isinstance(given, dict):
            raise NotJson("request")
        return Params(values | given)
    return Params(values | dict(parse_qsl(body.decode("utf-8", "surrogateescape"), keep_blank_values=True)))


async def read_form(request: web.BaseRequest) -> tuple[dict[str, str], dict[str, Upload]]:
    """Return the text fields and the files of a multipart form.

    All of it is read first: aiohttp's own reader fails, or ends a file early, where a packet ends shortly before a
    boundary.
    """
    form = Message()
    form["Content-Type"] = request.headers["Content-Type"]
    boundary = f"\r\n--{form.get_boundary()}".encode()
    fields: dict[str, str] = {}
    files: dict[str, Upload] = {}
    for part in (b"\r\n" + await request.read()).split(boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        lines = (line.split(": ", 1) for line in head.decode().strip().splitlines())
        headers = {key.lower(): value for key, value in lines}
        _, parameters = parse_content_disposition(headers["content-disposition"])
        name = content_disposition_filename(parameters, "name") or ""
        if (filename := content_disposition_filename(parameters)) is None:
            fields[name] = content.decode()
        else:
            kind = headers.get("content-type", "application/octet-stream")
            files[name] = Upload(name=filename, mime_type=kind, content=content)
    return fields, files


def _parse(text: str | bytes, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise NotJson(name) from None
