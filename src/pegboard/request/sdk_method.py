"""`SDKMethod`: a method of an SDK's client that is asked with a body, whole or streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from attrs import define, field

from pegboard.errors import ModelError
from pegboard.request.clients import Clients
from pegboard.typing import JsonObject

C = TypeVar("C")


class SDKStream(Protocol):
    """What an SDK gives for `stream=True`."""

    def __aiter__(self) -> AsyncIterator[Any]:
        """Its events."""
        ...

    async def close(self) -> None:
        """Closes the connection, or gives it back."""
        ...


@define(eq=False)
class SDKMethod(Generic[C]):
    """A method such as `client.messages.create`, as SDKs that are generated from a provider's description have it.

    It takes the members of a body by name, further ones as `extra_body`, and `stream=True`; it gives data, or objects
    with `to_dict`.

    Attributes:
        clients: Of whose the running loop's is asked.
        method: The method of a client.
        error: Whatever the SDK, or its transport, has raised, as the error that hosts know.
        event: The provider's body of an error, as the event by which its streams say it.
    """

    clients: Clients[C]
    method: Callable[[C], Callable[..., Awaitable[Any]]]
    error: Callable[[Exception], ModelError]
    event: Callable[[JsonObject], JsonObject]
    _known: frozenset[str] | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = _parameters(self.method(self.clients.first))

    async def answer(self, body: JsonObject) -> Any:
        """The answer in one piece, as JSON data.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
        """
        try:
            return as_data(await self._sent({name: value for name, value in body.items() if name != "stream"}))
        except Exception as error:  # the SDK, its transport and its reading of JSON raise all kinds
            raise self.error(error) from error

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """The events of a stream, as JSON data; leaving early closes the connection.

        Raises:
            ModelError: The provider can't be asked or answered with an error, or the stream broke off. Where the
                provider said the error within the stream, which the SDK raises, that event comes before.
        """
        try:
            stream: SDKStream = await self._sent({**body, "stream": True})
        except Exception as error:
            raise self.error(error) from error
        try:
            async for event in stream:
                yield as_data(event)
        except Exception as error:
            said = getattr(error, "body", None)
            if isinstance(said, Mapping):
                yield self.event(dict(cast("Mapping[str, Any]", said)))
            raise self.error(error) from error
        finally:
            await stream.close()

    def _sent(self, body: JsonObject) -> Awaitable[Any]:
        return self.method(self.clients.now())(**self._arguments(body))

    def _arguments(self, body: JsonObject) -> JsonObject:
        """The body as the method takes it: members that this version of the SDK has no parameter for, beside it."""
        if self._known is None:
            return body
        known = {name: value for name, value in body.items() if name in self._known}
        beside = {name: value for name, value in body.items() if name not in self._known}
        return {**known, "extra_body": {**beside, **(known.get("extra_body") or {})}} if beside else known


def as_data(answer: Any) -> Any:
    """What an SDK gives, as the JSON data that came: without what its models add, with what they don't know.

    Raises:
        ValueError: It is nested deeper than its models can say.
    """
    to_dict: Any = getattr(answer, "to_dict", None)
    return answer if to_dict is None else to_dict(mode="json", warnings=False)


def _parameters(method: Callable[..., Any]) -> frozenset[str] | None:
    """The names that it takes; `None`: any."""
    from inspect import Parameter, signature

    parameters = signature(method).parameters.values()
    free = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)
    return None if free else frozenset(each.name for each in parameters)


__all__ = ["SDKMethod", "SDKStream", "as_data"]
