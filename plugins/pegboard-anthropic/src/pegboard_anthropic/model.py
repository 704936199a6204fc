"""`AnthropicModel`: Anthropic's models, through the messages API."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pegboard import Exporter, ModelRequest, ModelResponse
from pegboard.messages.response import Delta
from pegboard.request.client import ProviderModel, SDKMethod
from pegboard.typing import JsonObject
from pegboard_anthropic.client import clients_of, secrets_of
from pegboard_anthropic.errors import error_event, model_error
from pegboard_anthropic.versions import exporter_of, searches

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

MOST_WHOLE: Final = 8_192
"""Tokens that an answer in one piece may have: the SDK refuses to wait for what may take ten minutes."""


class AnthropicModel(ProviderModel):
    """A model that is asked through the messages API.

    Args:
        model: Its name, such as `"claude-sonnet-5"`.
        client: A client that is used as it is, and is not closed; make it with `max_retries=0`, as turns try again
            themselves. By default one is made.
        exporter: What writes and reads; by default the built-in `"anthropic"`, and for models that are older, or
            another maker's, one that writes as those want it:
            `Anthropic(AnthropicLimits(reasoning=thinking_budgets(), sampling=True))`.
        api_key: By default what the environment variable `ANTHROPIC_API_KEY` holds.
        base_url: By default Anthropic's, or what `ANTHROPIC_BASE_URL` holds.
        loads_deferred: Whether the model searches and loads deferred tools itself; by default as its name tells.
        options: What else `anthropic.AsyncAnthropic` takes, such as `timeout` or `default_headers`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with what makes one.
    """

    def __init__(  # noqa: PLR0913  facets of one client, by name
        self,
        model: str,
        *,
        client: AsyncAnthropic | None = None,
        exporter: Exporter | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        loads_deferred: bool | None = None,
        **options: Any,
    ) -> None:
        exporter = exporter or exporter_of(model)
        super().__init__(model, exporter)
        clients = clients_of(client, exporter.name, api_key, base_url, options)
        error = partial(model_error, provider=exporter.name)
        self._method = SDKMethod(clients, lambda sdk: sdk.messages.create, error, error_event)
        self._loads_deferred = searches(model) if loads_deferred is None else loads_deferred

    @property
    def loads_deferred(self) -> bool:
        """Whether it searches and loads deferred tools itself."""
        return self._loads_deferred

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request; one that is cancelled closes the connection.

        An answer that may have more than 8,192 tokens is gathered from a stream, as the provider asks for: where that
        breaks off, what has come is the answer, and says so.

        Raises:
            ModelError: The provider can't be asked, or answered with an error.
            ExportError: The request can't be said to it.
        """
        body = self._body(request)
        if _may_be_long(body):
            return await _last(self._pieces(body, request))
        return await self._whole(body, request)

    async def aclose(self) -> None:
        """Closes the client of the running event loop, unless it was given."""
        await self._method.clients.aclose()

    async def _answer(self, body: JsonObject) -> Any:
        return await self._method.answer(body)

    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        return self._method.events(body)

    def _known_secrets(self) -> list[str]:
        return secrets_of(self._method.clients.now())


def _may_be_long(body: JsonObject) -> bool:
    most = body.get("max_tokens")
    return isinstance(most, int) and most > MOST_WHOLE


async def _last(pieces: AsyncGenerator[Delta | ModelResponse]) -> ModelResponse:
    last: Delta | ModelResponse | None = None
    async with aclosing(pieces):
        async for piece in pieces:
            last = piece
    assert isinstance(last, ModelResponse), "a stream of pieces ends with the answer"
    return last


__all__ = ["MOST_WHOLE", "AnthropicModel"]
