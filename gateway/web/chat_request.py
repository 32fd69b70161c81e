"""Read a chat completion request, and write the pieces of its response, in OpenAI's format. Pure."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.conversation import Message
from gateway.store.sessions import title_of
from gateway.web.socket import is_storable
from tools.content import Text
from tools.provenance import HERMES

MODEL = "hermes"
MAX_IMAGES = 10
_MAX_NAME_CHARS = 200
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]{1,40});base64,(.*)", re.DOTALL)
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_INSTRUCTIONS = "[Instructions of the program through which the user writes:]"
_TASK = re.compile(r"\s*### Task:.*<chat_history>(?P<history>.*)</chat_history>", re.DOTALL)
_USER_LINE = re.compile(r"^\s*USER:\s*(.+)$", re.MULTILINE)


class ApiProblem(Exception):
    """A request that is not answered; the text tells the program's author why and what to do."""

    def __init__(self, status: int, text: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.param = status, code, param

    def render(self) -> dict[str, Any]:
        default = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "insufficient_quota" if self.code == "insufficient_quota" else _TYPES.get(self.status, default)
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A valid request."""

    said: tuple[str | Picture, ...]  # after the last answer
    history: tuple[Message, ...]  # before that
    conversation: str  # empty: the request brings everything along
    streams: bool
    with_usage: bool

    @property
    def text(self) -> str:
        return "\n\n".join(one for one in self.said if isinstance(one, str))


def parse_request(body: bytes) -> ChatRequest:
    """Return the request, or raise ApiProblem."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiProblem(400, "The body is not valid JSON.") from None
    if not isinstance(given, dict):
        raise ApiProblem(400, "The body must be a JSON object.")
    _check_options(given)
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiProblem(400, "messages must be a list with at least one message.", param="messages")
    read = [_read_message(message, f"messages[{at}]") for at, message in enumerate(messages)]
    asked = next((at for at, (role, _) in reversed(list(enumerate(read))) if role not in ("user", "system")), -1) + 1
    said = [one for role, content in read[asked:] if role == "user" for one in content]
    if not said or read[-1][0] != "user":
        raise ApiProblem(400, "The last message must be the user's, with a text.", param="messages")
    if sum(isinstance(one, Picture) for one in said) > MAX_IMAGES:
        raise ApiProblem(400, f"A request may have {MAX_IMAGES} images at most.", param="messages")
    before = [*read[:asked], *(one for one in read[asked:] if one[0] == "system")]
    options = given.get("stream_options")
    return ChatRequest(
        said=tuple(said),
        history=tuple(_to_message(role, content) for role, content in before if content),
        conversation=_read_conversation(given),
        streams=bool(given.get("stream")),
        with_usage=isinstance(options, dict) and bool(options.get("include_usage")),
    )


def _check_options(given: Mapping[str, Any]) -> None:
    """Refuse what would be misleading to ignore; settings of the model, such as its temperature, are ignored."""
    model = given.get("model")
    if model != MODEL:
        raise ApiProblem(
            404, f"There is no model {str(model)[:60]!r} here: use {MODEL!r}.", code="model_not_found", param="model"
        )
    for name in ("tools", "functions"):
        if given.get(name):
            raise ApiProblem(400, f"{name} cannot be given: the agent uses its own tools.", param=name)
    if given.get("n") not in (None, 1):
        raise ApiProblem(400, "n must be 1.", param="n")
    form = given.get("response_format")
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        raise ApiProblem(400, "response_format must be text; ask for JSON in the message.", param="response_format")


def _read_conversation(given: Mapping[str, Any]) -> str:
    """Return the name of the conversation, made safe for a key."""
    metadata = given.get("metadata")
    name = metadata.get("session") if isinstance(metadata, dict) else None
    param = "metadata.session" if name is not None else "user"
    name = given.get("user") if name is None else name
    if name is None or name == "":
        return ""
    if not isinstance(name, str) or len(name) > _MAX_NAME_CHARS or not is_storable(name):
        raise ApiProblem(400, f"{param} must be a text of {_MAX_NAME_CHARS} characters at most.", param=param)
    return name if _NAME.fullmatch(name) else f"n-{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def _read_message(message: Any, param: str) -> tuple[str, list[str | Picture]]:
    role = message.get("role") if isinstance(message, dict) else None
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant"):
        raise ApiProblem(400, "role must be system, developer, user or assistant.", param=f"{param}.role")
    content = message.get("content")
    pieces = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    read = [_read_piece(piece, f"{param}.content") for piece in pieces]
    return role, [one for one in read if one]


def _read_piece(piece: Any, param: str) -> str | Picture:
    kind = piece.get("type") if isinstance(piece, dict) else None
    if kind == "text" and isinstance(piece.get("text"), str):
        text: str = piece["text"]
        if not is_storable(text):
            raise ApiProblem(400, "The text contains half a surrogate pair, which is not a character.", param=param)
        return text if text.strip() else ""
    if kind == "image_url":
        image = piece.get("image_url")
        url = image.get("url") if isinstance(image, dict) else None
        found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
        if found is None:
            raise ApiProblem(400, "Images must come as data: URLs; other addresses are not fetched.", param=param)
        try:
            return Picture(mime=found[1], content=base64.b64decode(found[2], validate=True))
        except binascii.Error:
            raise ApiProblem(400, "The image is not valid base64.", param=param) from None
    raise ApiProblem(400, "content must be a text, or a list of text and image_url.", param=param)


def _to_message(role: str, content: Sequence[str | Picture]) -> Message:
    words = "\n\n".join(one if isinstance(one, str) else "[an image]" for one in content)
    if role == "assistant":
        return Message(role="assistant", parts=(Text(text=words),))
    mark = (Text(text=_INSTRUCTIONS, origin=HERMES),) if role == "system" else ()
    return Message(role="user", parts=(*mark, Text(text=words)))


def answer_task(text: str) -> str | None:
    """Return the answer to a front end's own request for a title or tags; None for anything else.

    These are no conversations: they must leave none behind, nor cost a model's time.
    """
    found = _TASK.match(text)
    if found is None:
        return None
    if '"title"' in text:
        first = _USER_LINE.search(found["history"])
        return json.dumps({"title": title_of(first[1]) if first else "Chat"}, ensure_ascii=False)
    return next((json.dumps({name: []}) for name in ("tags", "follow_ups", "queries") if f'"{name}"' in text), None)


class StreamedText:
    """The text of an answer while it grows: what was sent cannot be taken back, and nothing is sent twice."""

    def __init__(self) -> None:
        self._sent_any = False
        self._segment = ""  # of the model's current reply
        self._shown = ""  # of that

    def add(self, text: str) -> str:
        """Take the next piece of a reply, and return what to send of it."""
        self._segment += text
        if not self._segment.startswith(self._shown):
            return ""  # the reply began again, differently; `finish` sends what is missing
        return self._show(self._segment)

    def restart(self) -> None:
        """Note that the model begins its reply again."""
        self._segment = ""

    def end_reply(self) -> None:
        """Note that a tool runs, and that another reply follows."""
        self._segment = self._shown = ""

    def finish(self, answer: str) -> str:
        """Return what is missing of the final answer."""
        if not answer.startswith(self._shown.strip()):
            self._shown = ""
        elif not answer.startswith(self._shown):
            self._shown = self._shown.strip()
        return self._show(answer)

    def _show(self, whole: str) -> str:
        new = whole[len(self._shown) :]
        gap = "\n\n" if new and not self._shown and self._sent_any else ""
        self._shown = whole
        self._sent_any = self._sent_any or bool(new)
        return gap + new
