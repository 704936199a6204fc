"""`SDKModel`: a model behind OpenAI's SDK; what both wires have in common."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pegboard import Exporter
from pegboard.request.client import Clients, ProviderModel, SDKMethod
from pegboard.typing import JsonObject
from pegboard_openai.client import secrets_of
from pegboard_openai.errors import model_error

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class SDKModel(ProviderModel):
    """A model that is asked through a client of OpenAI's SDK.

    Args:
        model: Its name.
        exporter: What writes its requests and reads its answers.
        clients: Of whose the running loop's is asked.
        method: The client's method, such as `client.responses.create`.
    """

    def __init__(
        self,
        model: str,
        exporter: Exporter,
        clients: Clients[AsyncOpenAI],
        method: Callable[[AsyncOpenAI], Callable[..., Awaitable[Any]]],
    ) -> None:
        super().__init__(model, exporter)
        self._method = SDKMethod(clients, method, partial(model_error, provider=exporter.name), _error_event)

    async def aclose(self) -> None:
        """Closes the client of the running event loop, unless it was given."""
        await self._method.clients.aclose()

    async def _answer(self, body: JsonObject) -> Any:
        body.pop("stream_options", None)  # these go with a stream only
        return await self._method.answer(body)

    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        return self._method.events(body)

    def _known_secrets(self) -> list[str]:
        return secrets_of(self._method.clients.now())


def _error_event(said: JsonObject) -> JsonObject:
    return {"error": said}
