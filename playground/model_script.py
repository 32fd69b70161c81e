"""The script of the model server: answers, refusals and faults, and their bytes on the wire."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ReasoningField = Literal["reasoning_content", "reasoning", "reasoning_details"]
Ending = Literal["done", "cut", "hang"]

USAGE: Mapping[str, Any] = {
    "prompt_tokens": 12,
    "completion_tokens": 3,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool call as the model writes it; it need not be valid."""

    name: str
    arguments: str = "{}"
    id: str = "call_1"
    pieces: int = 3  # in how many deltas the arguments come
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """A reply; `stops_before` or `stops_after_bytes` cut it off before the `ending`."""

    text: tuple[str, ...] = ()  # one delta each
    calls: tuple[ScriptedCall, ...] = ()
    reasoning: str = ""
    reasoning_field: ReasoningField = "reasoning_content"
    refusal: str = ""
    finish: str | None = ""  # empty: stop or tool_calls, as fits; None: never said
    usage: Mapping[str, Any] | None = field(default_factory=lambda: USAGE)
    delay_seconds: float = 0.0  # before each delta
    stops_before: str = ""  # a text to be found in the bytes
    stops_after_bytes: int | None = None
    ending: Ending = "done"
    content_type: str = ""  # instead of the right one
    raw: bytes | None = None  # instead of everything above

    @property
    def finish_reason(self) -> str | None:
        return self.finish if self.finish != "" else ("tool_calls" if self.calls else "stop")

    def frames(self, model: str) -> list[bytes]:
        """Return the whole stream, one event each."""
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if self.reasoning:
            deltas += [self._reasoning(half, index) for index, half in enumerate(_split(self.reasoning, 2))]
        deltas += [{"content": piece} for piece in self.text]
        if self.refusal:
            deltas.append({"refusal": self.refusal})
        for index, call in enumerate(self.calls):
            deltas += _call_deltas(index, call)
        events: list[dict[str, Any]] = [
            chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        if self.finish_reason is not None:
            events.append(chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish_reason}]})
        if self.usage is not None:
            events.append(chunk | {"choices": [], "usage": dict(self.usage)})
        return [b"data: " + _json(event) + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]

    def whole(self, model: str) -> bytes:
        """Return the same reply without a stream."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.text) or None}
        if self.reasoning:
            message |= self._reasoning(self.reasoning, 0)
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [_whole_call(call) for call in self.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        body: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
        return _json(body | {"choices": [choice]} | ({} if self.usage is None else {"usage": dict(self.usage)}))

    def sent_part(self, wire: bytes) -> bytes:
        """Return the bytes that are sent before the fault."""
        if self.stops_after_bytes is not None:
            return wire[: self.stops_after_bytes]
        return wire[: wire.index(self.stops_before.encode())] if self.stops_before else wire

    def _reasoning(self, text: str, index: int) -> dict[str, Any]:
        if self.reasoning_field != "reasoning_details":
            return {self.reasoning_field: text}
        detail: dict[str, Any] = {"type": "reasoning.text", "text": text, "index": 0, "format": "anthropic-claude-v1"}
        return {"reasoning": text, "reasoning_details": [detail | {"signature": f"sig{index}"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRefusal:
    """An error status with the body of some provider."""

    status: int
    message: str = "refused"
    code: str | None = None
    kind: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None  # instead of OpenAI's shape

    @property
    def wire(self) -> bytes:
        if self.body is not None:
            return self.body
        error = {
            "message": self.message,
            "type": self.kind or "invalid_request_error",
            "param": None,
            "code": self.code,
        }
        return _json({"error": error})


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Read the request and never answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """Close the connection before a status line."""


Step = ModelAnswer | ModelRefusal | Silence | HangUp


def say(*pieces: str, **details: Any) -> ModelAnswer:
    return ModelAnswer(text=pieces, **details)


def ask_for(*calls: ScriptedCall, **details: Any) -> ModelAnswer:
    return ModelAnswer(calls=calls, **details)


def _call_deltas(index: int, call: ScriptedCall) -> list[dict[str, Any]]:
    first = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in _split(call.arguments, call.pieces)]
    return [{"tool_calls": [delta]} for delta in (first | dict(call.extra), *rest)]


def _whole_call(call: ScriptedCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function} | dict(call.extra)


def _split(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
