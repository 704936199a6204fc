"""`OpenAIChatModel`: models that are asked for chat completions, OpenAI's and those of other servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from pegboard import Exporter
from pegboard.typing import JsonObject
from pegboard_openai.client import KEY, clients_of
from pegboard_openai.model import SDKModel
from pegboard_openai.servers import chat_exporter

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_WITH_USAGE: Final = {"include_usage": True}


class OpenAIChatModel(SDKModel):
    """A model that is asked for chat completions.

    Args:
        model: Its name, such as `"gpt-5.4"`.
        client: A client that is used as it is, and is not closed; make it with `max_retries=0`, as turns try again
            themselves. By default one is made.
        exporter: What writes and reads; by default the built-in `"openai"`, and for a server that isn't OpenAI's own
            one that leaves out what few others know: `OpenAIChat(custom_tools=False, most_tokens="max_tokens")`.
        api_key: By default what the environment variable holds.
        base_url: By default OpenAI's, or what `OPENAI_BASE_URL` holds.
        key_in: The environment variable that holds the key.
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
        key_in: str = KEY,
        **options: Any,
    ) -> None:
        provider = "openai" if exporter is None else exporter.name
        clients = clients_of(client, provider, {"api_key": api_key, "base_url": base_url, **options}, key_in)
        exporter = exporter or chat_exporter(str(clients.first.base_url))
        super().__init__(model, exporter, clients, lambda sdk: sdk.chat.completions.create)

    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """As for every model; the usage is asked for, unless the option `stream_options` says otherwise."""
        return super()._events({"stream_options": _WITH_USAGE, **body})
