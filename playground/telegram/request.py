"""The parameters of a method call, whichever of the four ways they came."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.web_request import FileField

from playground.params import Given
from playground.telegram.rules import MAX_UPLOAD_BYTES, Refused, bad_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    name: str
    mime_type: str
    content: bytes = field(repr=False)


class Params(Given):
    def __init__(self, values: Mapping[str, Any], files: Mapping[str, Upload] | None = None) -> None:
        super().__init__(values)
        self.files: Mapping[str, Upload] = files or {}

    def boolean(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "yes", "1")

    def data(self, name: str) -> Any:
        """A parameter that is JSON; None if it was not given."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value else None
        except ValueError:
            raise bad_request(f"can't parse {name.replace('_', ' ')} JSON object") from None

    @property
    def logged(self) -> dict[str, Any]:
        """For the log of calls: files by name and size."""
        files = {name: f"<{upload.name}, {len(upload.content)} bytes>" for name, upload in self.files.items()}
        return {**self.values, **files}


async def read_params(request: web.Request) -> Params:
    if request.content_length and request.content_length > MAX_UPLOAD_BYTES + 1024 * 1024:
        raise Refused(413, "Request Entity Too Large")
    values: dict[str, Any] = dict(request.query)
    kind = request.content_type
    if not request.can_read_body:
        return Params(values)
    if kind == "multipart/form-data":
        return await _multipart(request, values)
    body = await request.read()
    if kind == "application/json":
        return Params(values | _json_object(body))
    if kind == "application/x-www-form-urlencoded":
        values.update(parse_qsl(body.decode("utf-8", "surrogateescape"), keep_blank_values=True))
    return Params(values)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise bad_request("can't parse request JSON object")
    return value


async def _multipart(request: web.Request, values: dict[str, Any]) -> Params:
    files = {}
    for name, value in (await request.post()).items():
        if isinstance(value, FileField):
            content = value.file.read()
            value.file.close()
            files[name] = Upload(name=value.filename, mime_type=value.content_type, content=content)
        else:
            values[name] = value
    return Params(values, files)
