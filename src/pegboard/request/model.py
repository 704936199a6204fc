"""`Model`: whoever answers a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, TypeGuard, runtime_checkable

from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.model_request import ModelRequest


class Model(Protocol):
    """Whoever answers a request: a provider's client, a router of several, a script in a test.

    Any class with these will do. Two more are used where they are there: `stream(request)` (`StreamingModel`), and
    `loads_deferred`, true where the provider searches and loads deferred tools itself.
    """

    @property
    def name(self) -> str:
        """The model's name, for predicates, logs and callbacks."""
        ...

    @property
    def provider(self) -> str:
        """The name of the exporter that writes for it, such as `"anthropic"`."""
        ...

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request.

        Raises:
            ModelError: The model can't be asked, or the provider answered with an error.
        """
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """A model whose answers can be had piece by piece."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Pieces as they come, and last the whole `ModelResponse`.

        A stream that breaks off ends with a response that says so (`interrupted`, not `complete`) and holds what has
        come.

        Raises:
            ModelError: The model can't be asked, or the provider answered with an error.
        """
        ...


def can_stream(model: object) -> TypeGuard[StreamingModel]:
    """Whether its answers can be had piece by piece."""
    return isinstance(model, StreamingModel)


__all__ = ["Model", "StreamingModel", "can_stream"]
