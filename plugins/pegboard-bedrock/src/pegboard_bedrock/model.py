"""`BedrockModel`: models on Amazon Bedrock, through Converse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from pegboard import Exporter, ModelRequest, ModelResponse
from pegboard.messages.response import Delta
from pegboard.request.client import Secrets, streamed
from pegboard.threads import WorkerPool
from pegboard.typing import JsonObject
from pegboard_bedrock.bedrock import exporter as shared
from pegboard_bedrock.client import check_alone, made_client
from pegboard_bedrock.credentials import secrets_of
from pegboard_bedrock.errors import model_error, nothing_read
from pegboard_bedrock.events import Events


class BedrockModel:
    """A model that is asked through Amazon's own SDK, which blocks, and so works in threads.

    Args:
        model: Its id, or that of an inference profile, such as `"eu.anthropic.claude-sonnet-4-5-20250929-v1:0"`, or an
            ARN.
        client: A `boto3` client of `bedrock-runtime` that is used as it is, and is not closed; make it with one
            attempt, as turns try again themselves. By default one is made.
        exporter: What writes and reads; by default the built-in `"bedrock"`.
        base_url: By default Amazon's address in the region.
        options: What else `boto3.Session().client` takes, such as `region_name`, `config`, or the credentials that the
            SDK finds by itself otherwise.

    Raises:
        ModelError: There is no region, or the client can't be made.
        TypeError: A client is given together with what makes one.
    """

    def __init__(
        self,
        model: str,
        *,
        client: Any = None,
        exporter: Exporter | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        check_alone(client, {"base_url": base_url, **options})
        self._model = model
        self._exporter = exporter or shared()
        self._client = client or made_client(self.provider, base_url, options)
        self._owned = client is None
        self._secrets = Secrets(partial(secrets_of, self._client))
        self._threads = WorkerPool()

    @property
    def name(self) -> str:
        """The model's id."""
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
        """Whether it searches and loads deferred tools itself: Converse has no word for it."""
        return False

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request.

        One that is cancelled is waited for no longer; but the SDK takes nothing back, so that its connection stays open
        until the provider has answered, or the client's `read_timeout` is over. `stream` closes it at once.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
            ExportError: The request can't be said to it.
        """
        body = self._body(request)
        with self._secrets.kept():
            try:
                raw = await self._threads.run(self._client.converse, **body)
            except Exception as error:  # the SDK and its transport raise all kinds
                raise model_error(error, self.provider) from error
            if not raw.get("output"):
                raise nothing_read(raw, self.provider)
            return self._secrets.kept_from(self._exporter.response(raw, request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """Pieces as they come, and last the whole `ModelResponse`; leaving early closes the connection.

        A stream that breaks off, once it has said something, ends with a response that says so.

        Raises:
            ModelError: The provider can't be asked, or answered with an error before it said anything.
            ExportError: The request can't be said to it.
        """
        events = Events(self._threads, partial(self._client.converse_stream, **self._body(request)), self.provider)
        read = streamed(events.data(), self._exporter.reader(request), provider=self.provider)
        async with aclosing(self._secrets.kept_from_all(read)) as pieces:  # it closes `data`, too
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """Closes the client, unless it was given."""
        self._threads.close()
        if self._owned:
            self._client.close()

    def _body(self, request: ModelRequest) -> JsonObject:
        return {"modelId": self._model, **self._exporter.request(request)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, provider={self.provider!r})"


__all__ = ["BedrockModel"]
