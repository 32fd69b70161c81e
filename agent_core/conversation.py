"""Messages, tool calls and results, and the journal that stores them."""

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from tools.content import Part, Text, encodable, text_of

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model wants to make."""

    id: str
    name: str
    arguments: str  # JSON as the model wrote it, which may be broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation, in any role."""

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()  # assistant only
    tool_call_id: str = ""  # tool only: the call this is the result of
    tool_name: str = ""  # tool only
    is_error: bool = False  # tool only
    reasoning: str = ""  # assistant only
    provider_data: str = ""  # assistant only: JSON that only the client of its provider reads

    @property
    def text(self) -> str:
        return text_of(self.parts)


def system(content: str | tuple[Part, ...]) -> Message:
    return Message(role="system", parts=(Text(text=content),) if isinstance(content, str) else content)


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text=text),))


def assistant(text: str = "", *, tool_calls: tuple[ToolCall, ...] = (), reasoning: str = "") -> Message:
    parts = (Text(text=text),) if text else ()
    return Message(role="assistant", parts=parts, tool_calls=tool_calls, reasoning=reasoning)


def tool_result(
    call: ToolCall, content: str | tuple[Part, ...], *, origin: str = "", is_error: bool = False
) -> Message:
    """Return the result of a call; texts that name no origin get `origin`, else that of the called tool."""
    origin = origin or f"tool:{call.name}"
    if isinstance(content, str):
        parts: tuple[Part, ...] = (Text(text=encodable(content), origin=origin),)
    else:
        parts = tuple(
            replace(part, origin=origin) if isinstance(part, Text) and not part.origin else part for part in content
        )
    return Message(role="tool", parts=parts, tool_call_id=call.id, tool_name=call.name, is_error=is_error)


class Journal(Protocol):
    """Stores a turn as it happens. Each call returns once it is durable."""

    async def append(self, message: Message) -> None: ...

    async def tool_started(self, call: ToolCall) -> None:
        """Record that a tool is about to run: after a crash this call is not run again."""


@dataclass(slots=True)
class ListJournal:
    """A journal in memory, for batch runs and tests."""

    messages: list[Message] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    async def append(self, message: Message) -> None:
        self.messages.append(message)

    async def tool_started(self, call: ToolCall) -> None:
        self.started.append(call.id)
