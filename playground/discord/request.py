"""A REST call as a function sees it: the path, the query, the JSON body and the files of a form."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.web_request import FileField

from playground.discord.rules import MAX_FILE_BYTES, MAX_FILES, Refused, invalid, refused
from playground.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    name: str
    mime_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    path: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    files: Mapping[int, Upload] = field(default_factory=dict)  # by the n of `files[n]`

    @property
    def fields(self) -> Wire:
        """The body where it must be an object."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def place(self) -> str:
        return self.path.get("channel_id", "")

    @property
    def logged(self) -> Wire:
        """For the log of calls: files by name and size."""
        files = {f"files[{n}]": f"<{upload.name}, {len(upload.content)} bytes>" for n, upload in self.files.items()}
        body = self.body if isinstance(self.body, dict) else {} if self.body is None else {"body": self.body}
        return {**body, **files, **self.query, **self.path}


async def read_ask(request: web.Request) -> Ask:
    path, query = dict(request.match_info), dict(request.query)
    if not request.can_read_body:
        return Ask(path=path, query=query)
    if request.content_type == "multipart/form-data":
        body, files = await _form(request)
        return Ask(path=path, query=query, body=body, files=files)
    content = await request.read()
    if content and request.content_type != "application/json":
        raise Refused(400, 50035, "Invalid Form Body", _expected_json(request.content_type))
    return Ask(path=path, query=query, body=_parsed(content) if content else None)


def _expected_json(kind: str) -> Wire:
    message = f"Expected \"Content-Type\" header to be one of {{'application/json'}}; got {kind}."
    return {"_errors": [{"code": "CONTENT_TYPE_INVALID", "message": message}]}


def _parsed(content: bytes | str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise refused(50109) from None


async def _form(request: web.Request) -> tuple[Any, dict[int, Upload]]:
    body: Any = {}
    files: dict[int, Upload] = {}
    for name, value in (await request.post()).items():
        if name == "payload_json":
            body = _parsed(value if isinstance(value, str) else b"")
        elif isinstance(value, FileField) and name.startswith("files[") and name[6:-1].isdigit():
            content = value.file.read()
            value.file.close()
            files[int(name[6:-1])] = Upload(name=value.filename, mime_type=value.content_type, content=content)
        else:
            raise invalid(name, "UNKNOWN_FIELD", "Unknown part of the form")
    if len(files) > MAX_FILES:
        raise invalid("attachments", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_FILES} or fewer in length.")
    if sum(len(upload.content) for upload in files.values()) > MAX_FILE_BYTES:
        raise refused(40005)
    return body, files
