"""Read a streamed answer: from bytes, cut anywhere, to events, and from events to a message."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.conversation import Message, ToolCall, assistant
from agent_core.events import Emit, ReasoningDelta, TextDelta, Usage
from tools.content import encodable

MAX_EVENT_BYTES = 16_000_000


class EventTooLarge(ValueError):
    pass


class EventReader:
    """Reads the data of server-sent events. Comments and other fields are dropped: no model server uses them."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """Return the events that are complete with these bytes."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return [event for line in lines if (event := self._take(line.removesuffix(b"\r")))]

    def end(self) -> list[bytes]:
        """Return the rest when the stream ended; some servers do not end the last event."""
        last = [self._take(self._rest.removesuffix(b"\r")), self._take(b"")]
        self._rest = b""
        return [event for event in last if event]

    def _take(self, line: bytes) -> bytes:
        if not line:
            event, self._data = b"\n".join(self._data), []
            return event
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            if sum(map(len, self._data)) > MAX_EVENT_BYTES:
                raise EventTooLarge
        return b""


CUT_SHORT = "\n\n(The answer was cut off here: it reached the model's length limit.)"
_MAX_TOKENS, _MAX_DOLLARS = 1_000_000_000, 1_000_000  # a larger count is nonsense, and would spoil all sums


class ErrorInStream(Exception):
    """The server reported an error after it had begun to answer."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__("error in stream")
        self.body = body
        code = body.get("code")
        self.status = code if isinstance(code, int) and 400 <= code < 600 else 500


@dataclass(slots=True)
class TextPieces:
    """A text that comes in pieces, cut anywhere: some servers cut between the two halves of an emoji."""

    _whole: list[str] = field(default_factory=list)
    _half: str = ""  # the first half of a character, whose second may come with the next piece

    def add(self, piece: str) -> str:
        """Add a piece; return what can be shown by now."""
        received = self._half + piece
        self._half = received[-1:] if "\ud800" <= received[-1:] <= "\udbff" else ""
        text = encodable(received[:-1] if self._half else received)
        if text:
            self._whole.append(text)
        return text

    def __str__(self) -> str:
        return "".join(self._whole) + encodable(self._half)


@dataclass(slots=True)
class CallPieces:
    """A tool call that comes in pieces."""

    id: str = ""
    name: str = ""
    arguments: TextPieces = field(default_factory=TextPieces)
    extra: dict[str, Any] = field(default_factory=dict)  # must go back to the provider with the call

    def add(self, piece: Mapping[str, Any]) -> None:
        function = _mapping(piece.get("function"))
        self.id = self.id or encodable(_text(piece.get("id")))
        name = encodable(_text(function.get("name")))
        if name != self.name:  # some servers repeat it in every piece
            self.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # parsed already, as Ollama's own API has it
            arguments = json.dumps(arguments, ensure_ascii=False)
        self.arguments.add(_text(arguments))
        self.extra.update(_mapping(piece.get("extra_content")))


class Assembly:
    """A reply put together from the pieces of an answer."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._text = TextPieces()
        self._reasoning = TextPieces()
        self._calls: list[CallPieces] = []
        self._by_index: dict[int, CallPieces] = {}
        self.reasoning_details: list[dict[str, Any]] = []
        self.finish_reason = ""
        self.usage: Usage | None = None

    @property
    def is_empty(self) -> bool:
        return not self._calls and not str(self._text).strip()

    @property
    def call_extras(self) -> list[dict[str, Any]]:
        return [call.extra for call in self._calls]

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add a chunk of a stream or a whole answer; raises ErrorInStream."""
        if error := piece.get("error"):
            raise ErrorInStream(error if isinstance(error, Mapping) else {"message": str(error)})
        choices = piece.get("choices")
        choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
        self._add_usage(_mapping(piece.get("usage") or choice.get("usage")))
        if error := choice.get("error"):
            raise ErrorInStream(_mapping(error))
        self._add_words(_mapping(choice.get("delta") or choice.get("message")))
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def message(self) -> Message:
        text = str(self._text)
        if self.finish_reason == "length" and not self._calls:
            text += CUT_SHORT
        calls = tuple(
            ToolCall(id=call.id, name=call.name, arguments=str(call.arguments) or "{}") for call in self._calls
        )
        return assistant(text if text.strip() else "", tool_calls=calls, reasoning=str(self._reasoning))

    def _add_words(self, delta: Mapping[str, Any]) -> None:
        if reasoning := self._reasoning.add(self._read_reasoning(delta)):
            self._emit(ReasoningDelta(text=reasoning))
        content = delta.get("content")
        if isinstance(content, list):  # parts, as Mistral sends them; thoughts among them are no text
            content = "".join(_text(part.get("text")) for part in content if isinstance(part, Mapping))
        if text := self._text.add(_text(content) + _text(delta.get("refusal"))):
            self._emit(TextDelta(text=text))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self._find_call(call).add(call)

    def _read_reasoning(self, delta: Mapping[str, Any]) -> str:
        details = delta.get("reasoning_details")
        blocks = [block for block in details if isinstance(block, dict)] if isinstance(details, list) else []
        for block in blocks:
            self._add_detail(block)
        # The same thoughts often come in two fields at once.
        plain = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        return plain or "".join(_text(block.get("text")) or _text(block.get("summary")) for block in blocks)

    def _add_detail(self, block: dict[str, Any]) -> None:
        """Join pieces of one block: it must go back as if it had come whole."""
        last = self.reasoning_details[-1] if self.reasoning_details else None
        if last is None or any(last.get(key) != block.get(key) for key in ("type", "index")) or "index" not in block:
            self.reasoning_details.append(dict(block))
            return
        for key, value in block.items():
            if key in ("text", "summary", "data") and isinstance(value, str):
                last[key] = _text(last.get(key)) + value
            elif value is not None:
                last[key] = value

    def _find_call(self, piece: Mapping[str, Any]) -> CallPieces:
        """Return the call that a piece belongs to. Servers omit the index, or give every call the same one."""
        index, call_id = piece.get("index"), encodable(_text(piece.get("id")))
        latest = self._calls[-1] if self._calls else None
        known = self._by_index.get(index) if isinstance(index, int) else latest
        named = bool(_mapping(piece.get("function")).get("name"))
        # A call begins with its name. An id alone begins none: some servers send it late, or a new one in each piece.
        goes_on = not named or (isinstance(index, int) and not call_id) or (known and call_id == known.id != "")
        if known is not None and goes_on:
            return known
        fresh = CallPieces()
        self._calls.append(fresh)
        if isinstance(index, int):
            self._by_index[index] = fresh
        return fresh

    def _add_usage(self, usage: Mapping[str, Any]) -> None:
        if not usage:
            return
        cached = _number(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
        cost = usage.get("cost")  # as OpenRouter tells it, in dollars
        is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < _MAX_DOLLARS
        self.usage = Usage(
            input_tokens=_number(usage.get("prompt_tokens")),
            output_tokens=_number(usage.get("completion_tokens")),
            cached_tokens=cached or _number(usage.get("prompt_cache_hit_tokens")),
            cost_micros=round(float(cost or 0) * 1_000_000) if is_cost else None,
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 < value <= _MAX_TOKENS else 0
