"""`Model`: answers a request; models by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, TypeGuard, cast, runtime_checkable

from pegboard.errors import ModelError
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


def made_model(name: str, make: Any, options: Mapping[str, Any]) -> Model:
    """The model of a name, made by its provider.

    Args:
        name: `"PROVIDER/MODEL"`, such as `"openai/gpt-5"`.
        make: What the provider has registered.
        options: For the client.

    Raises:
        ModelError: The name has no model, or the client can't be made.
    """
    provider, _, model = name.partition("/")
    if not model:
        raise ModelError(f"{name!r} names no model; write {provider}/MODEL", provider=provider)
    try:
        made = make(model, **options)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"no client for {name!r}: {type(error).__name__}: {error}", provider=provider) from error
    if not all(hasattr(made, part) for part in ("name", "provider", "respond")):
        raise ModelError(f"what it makes is no model, but {made!r:.100}", provider=provider)
    return cast("Model", made)


__all__ = ["Model", "StreamingModel", "can_stream", "made_model"]
