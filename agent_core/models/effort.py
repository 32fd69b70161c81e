"""Ask a model to think more or less, where its provider lets one choose."""

from typing import Protocol, runtime_checkable

from agent_core.model import Model


@runtime_checkable
class Adjustable(Protocol):
    """A model whose reasoning effort can be chosen."""

    def with_effort(self, effort: str) -> Model:
        """Return the same model, thinking with that effort; always the same one for the same effort."""


def with_effort(model: Model, effort: str) -> Model:
    """Return the model with that effort; unchanged where none is chosen or it has no such setting."""
    return model.with_effort(effort) if effort and isinstance(model, Adjustable) else model
