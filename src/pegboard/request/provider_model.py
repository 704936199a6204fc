"""`ProviderModel`: a model behind a provider's client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any

from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.exporter import Exporter
from pegboard.request.model_request import ModelRequest
from pegboard.request.secrets import Secrets
from pegboard.request.streaming import streamed
from pegboard.typing import JsonObject


class ProviderModel(ABC):
    """A model behind a provider's client: an exporter writes and reads, and a subclass carries.

    A subclass says how one body is asked: `_answer` for an answer in one piece, `_events` for a stream; and by
    `_known_secrets` what its errors must not show.

    Args:
        model: Its name.
        exporter: What writes its requests and reads its answers.
    """

    def __init__(self, model: str, exporter: Exporter) -> None:
        self._model, self._exporter = model, exporter
        self._secrets = Secrets(self._known_secrets)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model

    @property
    def provider(self) -> str:
        """The name of the exporter that writes for it."""
        return self._exporter.name

    @property
    def exporter(self) -> Exporter:
        """What writes its requests and reads its answers."""
        return self._exporter

    @property
    def loads_deferred(self) -> bool:
        """Whether it searches and loads deferred tools itself."""
        return False

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request; one that is cancelled closes the connection.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
            ExportError: The request can't be said to it.
        """
        return await self._whole(self._body(request), request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Pieces as they come, and last the whole `ModelResponse`; leaving early closes the connection.

        A stream that breaks off, once it has said something, ends with a response that says so.

        Raises:
            ModelError: The provider can't be asked, or answered with an error before it said anything.
            ExportError: The request can't be said to it.
        """
        async with aclosing(self._pieces(self._body(request), request)) as pieces:
            async for piece in pieces:
                yield piece

    @abstractmethod
    async def aclose(self) -> None:
        """Closes the client, unless it was given."""

    @abstractmethod
    async def _answer(self, body: JsonObject) -> Any:
        """Asks for an answer in one piece.

        Args:
            body: What the exporter has written, and the model's name.

        Returns:
            The answer as JSON data.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
        """

    @abstractmethod
    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """Asks for a stream.

        Args:
            body: What the exporter has written, and the model's name.

        Returns:
            The events as JSON data; `aclose` closes the connection.

        Raises:
            ModelError: The provider can't be asked or answered with an error, or the stream broke off. Where the
                provider says the error within the stream, that event comes before.
        """

    def _known_secrets(self) -> Iterable[str]:
        """Keys and the like, which neither errors nor the error of an answer show, whoever echoes them."""
        return ()

    def _body(self, request: ModelRequest) -> JsonObject:
        return {"model": self._model, **self._exporter.request(request)}

    async def _whole(self, body: JsonObject, request: ModelRequest) -> ModelResponse:
        with self._secrets.kept():
            return self._secrets.kept_from(self._exporter.response(await self._answer(body), request))

    def _pieces(self, body: JsonObject, request: ModelRequest) -> AsyncGenerator[Delta | ModelResponse]:
        read = streamed(self._events(body), self._exporter.reader(request), provider=self.provider)
        return self._secrets.kept_from_all(read)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, provider={self.provider!r})"


__all__ = ["ProviderModel"]
