"""The model as the loop sees it, and how a model can fail, by what the catcher must do.

    ModelError
    └── ProviderError
        ├── NoEndpoint        the operator must set a key or a model      falls over
        ├── KeyRefused        the operator must fix the key               falls over
        ├── NoCredit          the operator must pay                       falls over
        ├── ModelUnknown      the operator must choose another            falls over
        ├── Overloaded        wait (`retry_after_seconds`), ask again     retried, falls over
        ├── Unreachable       the network or the server is down           retried, falls over
        ├── BrokenAnswer      nonsense instead of an answer               retried, falls over
        │   └── OutOfRoom     no room was left for an answer              falls over
        ├── ContextTooLong    shorten the conversation, ask again
        ├── Filtered          say it differently
        └── RequestRefused    the request itself is at fault

A failure of the *model* falls over to the next one of a chain. A failure of the *request* does not: a longer window
elsewhere would hide that the conversation needs compressing, a laxer model would get around a filter that somebody
chose, and a request that one provider calls wrong is a mistake to be seen.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from agent_core.conversation import Message
from agent_core.events import Emit
from tools.base import Tool
from tools.content import Media

LoadMedia = Callable[[Media], bytes | None]
"""Returns the bytes of a part, None when they are gone. Blocks: call it in a thread."""


class Model(Protocol):
    name: str

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        """Return the assistant's next message. Emits text as it comes and usage at the end; raises ModelError.

        With `may_call` False the tools are shown only because the history holds calls of them.
        """


class ModelError(Exception):
    """The model cannot answer. The text is one or two sentences for the chat: what happened, what to do next."""


class ProviderError(ModelError):
    """Any failure of a real model; never raised itself."""

    retryable: ClassVar[bool] = False  # the same model may well answer the same request soon
    falls_over: ClassVar[bool] = False  # another model may answer it

    def __init__(self, words: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(words)
        self.retry_after_seconds = retry_after_seconds  # as the provider asked for


class NoEndpoint(ProviderError):
    """The settings name no model that can be asked. The text says what to set."""

    falls_over = True


class KeyRefused(ProviderError):
    falls_over = True


class NoCredit(ProviderError):
    falls_over = True


class ModelUnknown(ProviderError):
    falls_over = True


class Overloaded(ProviderError):
    retryable = True
    falls_over = True


class Unreachable(ProviderError):
    retryable = True
    falls_over = True


class BrokenAnswer(ProviderError):
    retryable = True
    falls_over = True


class OutOfRoom(BrokenAnswer):
    """The output limit was used up before the first word; the same request would end the same way."""

    retryable = False


class ContextTooLong(ProviderError):
    pass


class Filtered(ProviderError):
    pass


class RequestRefused(ProviderError):
    pass
