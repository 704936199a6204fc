"""`GoogleModel`: Gemini models, of the Gemini API and of Vertex AI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from pegboard import Exporter, ModelRequest, ModelResponse
from pegboard.messages.response import Delta
from pegboard.request.client import Secrets, streamed
from pegboard.typing import JsonObject
from pegboard_google.client import check_alone, made_client, secrets_of
from pegboard_google.errors import model_error
from pegboard_google.events import Events, as_data, methods
from pegboard_google.gemini import exporter as shared, sdk_arguments

if TYPE_CHECKING:
    from google.genai import Client


class GoogleModel:
    """A model that is asked through Google's own SDK.

    Args:
        model: Its name, such as `"gemini-3-pro"`.
        client: A client that is used as it is, and is not closed; make it without `retry_options`, as turns try again
            themselves. By default one is made.
        exporter: What writes and reads; by default the built-in `"gemini"`. `"gemini-schema"` is for models and
            proxies that take no JSON Schema.
        api_key: By default what the environment variable `GOOGLE_API_KEY` or `GEMINI_API_KEY` holds.
        base_url: By default Google's.
        options: What else `google.genai.Client` takes, such as `vertexai`, `project` and `location`, or
            `http_options`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with what makes one.
    """

    def __init__(
        self,
        model: str,
        *,
        client: Client | None = None,
        exporter: Exporter | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        check_alone(client, {"api_key": api_key, "base_url": base_url, **options})
        self._model = model
        self._exporter = exporter or shared()
        self._client = client or made_client(self.provider, api_key, base_url, options)
        self._owned = client is None
        self._secrets = Secrets(partial(secrets_of, self._client))

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
        """Whether it searches and loads deferred tools itself: Gemini doesn't."""
        return False

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request; one that is cancelled closes the connection.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
            ExportError: The request can't be said to it.
        """
        arguments = self._arguments(request)
        with self._secrets.kept():
            try:
                raw = as_data(await methods(self._client).generate_content(**arguments))
            except Exception as error:
                raise model_error(error, self.provider) from error
            return self._secrets.kept_from(self._exporter.response(raw, request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Pieces as they come, and last the whole `ModelResponse`; leaving early closes the connection.

        A stream that breaks off, once it has said something, ends with a response that says so.

        Raises:
            ModelError: The provider can't be asked, or answered with an error before it said anything.
            ExportError: The request can't be said to it.
        """
        events = Events(self._client, self._arguments(request), self.provider)
        read = streamed(events.data(), self._exporter.reader(request), provider=self.provider)
        async with aclosing(self._secrets.kept_from_all(read)) as pieces:  # it closes `data`, too
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """Closes the client, unless it was given."""
        if self._owned:
            await self._client.aio.aclose()
            self._client.close()

    def _arguments(self, request: ModelRequest) -> JsonObject:
        """The SDK's keywords; the exporter is told the model's name, as models differ in what they take."""
        named = request if request.model else request.evolve(model=self._model)
        return sdk_arguments(self._exporter.request(named))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, provider={self.provider!r})"


__all__ = ["GoogleModel"]
