"""`OpenAIModel`: OpenAI's models, through the responses API."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from pegboard import Exporter
from pegboard.typing import JsonMapping, JsonObject
from pegboard.wire import as_object, object_in
from pegboard_openai._openai import failure
from pegboard_openai.client import clients_of
from pegboard_openai.model import SDKModel
from pegboard_openai.openai_responses import exporter as shared

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_GPT: Final = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\w.])")
_FIRST_THAT_SEARCHES: Final = (5, 4)
"""https://developers.openai.com/api/docs/guides/tools: only gpt-5.4 and later models support `tool_search`."""


class OpenAIModel(SDKModel):
    """A model that is asked through the responses API.

    Args:
        model: Its name, such as `"gpt-5.4"`.
        client: A client that is used as it is, and is not closed; make it with `max_retries=0`, as turns try again
            themselves. By default one is made.
        exporter: What writes and reads; by default the built-in `"openai-responses"`.
        api_key: By default what the environment variable `OPENAI_API_KEY` holds.
        base_url: By default OpenAI's, or what `OPENAI_BASE_URL` holds.
        loads_deferred: Whether the model searches and loads deferred tools itself; by default as its name tells.
        options: What else `openai.AsyncOpenAI` takes, such as `timeout` or `organization`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with what makes one.
    """

    def __init__(  # noqa: PLR0913  facets of one client, by name
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        exporter: Exporter | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        loads_deferred: bool | None = None,
        **options: Any,
    ) -> None:
        exporter = exporter or shared()
        clients = clients_of(client, exporter.name, {"api_key": api_key, "base_url": base_url, **options})
        super().__init__(model, exporter, clients, lambda sdk: sdk.responses.create)
        self._loads_deferred = searches(model) if loads_deferred is None else loads_deferred

    @property
    def loads_deferred(self) -> bool:
        """Whether it searches and loads deferred tools itself."""
        return self._loads_deferred

    async def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """Errors are events like others here: the SDK doesn't raise them."""
        async with aclosing(super()._events(body)) as events:
            async for event in events:
                yield event
                if (said := _error_in(as_object(event))) is not None:
                    raise failure(said, self.provider)


def _error_in(event: JsonMapping) -> object | None:
    match event.get("type"):
        case "error":
            return event
        case "response.failed":
            return object_in(object_in(event, "response"), "error")
        case _:
            return None


def searches(model: str) -> bool:
    """Whether a model of this name knows OpenAI's search for deferred tools; of fine-tuned ones, the base counts."""
    base = model.split(":")[1] if model.startswith("ft:") else model
    found = _GPT.match(base)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _FIRST_THAT_SEARCHES
