"""`OllamaModel`: models of an Ollama server, over Ollama's SDK.

The SDK's `chat` converts tools to its own types, which drop most of a schema (`anyOf`, nested properties, ids of
calls). So the exporter's bodies are sent unchanged, over the HTTP client of the SDK's client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pegboard import Exporter, ModelError
from pegboard.typing import JsonObject
from pegboard_clients.client import Clients, ProviderModel, check_alone
from pegboard_clients.errors import environment_key, http_error, is_lost, secrets_in, usable_key, with_cause
from pegboard_clients.wire import as_object, text_in
from pegboard_ollama.ollama import exporter as shared

if TYPE_CHECKING:
    from ollama import AsyncClient

KEY: Final = "OLLAMA_API_KEY"
"""The environment variable of the key; your own server needs none."""

_PATH: Final = "/api/chat"
_SECONDS: Final = 600.0
"""Read timeout: the server may have to load the model first."""


class OllamaModel(ProviderModel):
    """A model of an Ollama server.

    Args:
        model: Its name, such as `"qwen3:8b"`.
        client: A client that is used as it is, and is not closed. By default one is made.
        exporter: Writes requests and reads answers; by default the shared `"ollama"`.
        api_key: By default what the environment variable `OLLAMA_API_KEY` holds; none is needed.
        base_url: By default what `OLLAMA_HOST` holds, or this machine's port 11434.
        options: What else `ollama.AsyncClient` takes, such as `timeout` or `headers`.

    Raises:
        ModelError: The key can't be sent, or the client can't be made.
        TypeError: A client is given together with options for making one.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncClient | None = None,
        exporter: Exporter | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(model, exporter or shared())
        check_alone(client, {"api_key": api_key, "base_url": base_url, **options})
        make = partial(_make, self.provider, api_key, base_url, options)
        self._clients: Clients[AsyncClient] = Clients.of(client, make, lambda made: made.close())

    async def aclose(self) -> None:
        """Closes the client of the running event loop, unless it was given."""
        await self._clients.aclose()

    async def _models(self) -> list[str]:
        response = await self._http().get("/api/tags")
        self._check(response)
        return [model["name"] for model in response.json()["models"]]

    async def _answer(self, body: JsonObject) -> Any:
        response = await self._http().post(_PATH, json={**body, "stream": False})
        self._check(response)
        return response.json()

    async def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """The lines; an error in the stream is a line, too, before it is raised."""
        try:
            async with self._http().stream("POST", _PATH, json={**body, "stream": True}) as response:
                if response.is_error:
                    await response.aread()
                self._check(response)
                async for line in response.aiter_lines():
                    if line.strip():
                        yield (event := json.loads(line))
                        self._check_event(event)
        except Exception as error:
            raise self._error(error) from error

    def _known_secrets(self) -> list[str]:
        return secrets_in(self._http().headers)

    def _http(self) -> Any:
        sdk: Any = self._clients.now()
        return sdk._client  # noqa: SLF001  see the module

    def _check(self, response: Any) -> None:
        """Raises an error status as a `ModelError`."""
        if response.is_error:
            text = text_in(as_object(_json(response)), "error") or f"HTTP {response.status_code}"
            raise http_error(text, provider=self.provider, status=response.status_code, headers=response.headers)

    def _check_event(self, event: Any) -> None:
        """Raises an error in a stream; as it has no status, it is retryable."""
        if text := text_in(as_object(event), "error"):
            raise http_error(text, provider=self.provider, retryable=True)

    def _error(self, error: Exception) -> ModelError:
        """Converts an exception of the transport to a `ModelError`."""
        if isinstance(error, ModelError):
            return error
        from httpx import ConnectError

        text = with_cause(error)
        if isinstance(error, ConnectError):
            url = self._http().base_url
            where = f"{url.scheme}://{url.netloc.decode()}"
            text = f"no server answers at {where}: start it ('ollama serve'), or set OLLAMA_HOST ({error})"
        return http_error(text, provider=self.provider, code=type(error).__name__, retryable=is_lost(error))


def _json(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _make(provider: str, api_key: str | None, base_url: str | None, options: Mapping[str, Any]) -> AsyncClient:
    """Makes a client, importing the SDK."""
    from ollama import AsyncClient

    key = usable_key(api_key or "", "api_key=...", provider)
    key = key or environment_key(KEY, provider)
    headers = {**options.get("headers", {}), **({"authorization": f"Bearer {key}"} if key else {})}
    try:
        return AsyncClient(base_url, **{"timeout": _SECONDS, **options, "headers": headers})
    except Exception as error:
        raise ModelError(f"no client can be made: {error}", provider=provider) from error
