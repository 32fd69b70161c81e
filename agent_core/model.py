"""What the loop needs of a model, and how a model says that it cannot answer."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_core.conversation import Message
from agent_core.events import Emit
from tools.base import Tool
from tools.content import Media

LoadMedia = Callable[[Media], bytes | None]
"""The bytes of a part, None when they are gone. Blocks: call it in a thread."""


class ModelError(Exception):
    """The model cannot answer. The text is one or two sentences for the chat: what happened, what to do next."""


class Model(Protocol):
    name: str

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        """The assistant's next message. Emits text as it comes and usage at the end; raises ModelError.

        With `may_call` False the tools are shown only because the history holds calls of them.
        """
