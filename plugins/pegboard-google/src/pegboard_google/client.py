"""`GoogleModel`: Gemini models over the Gemini API or Vertex AI, and Google's SDK."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final

from pegboard import Exporter, ModelError, ModelRequest
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.client import ProviderModel, check_alone
from pegboard_clients.errors import environment_key, http_error, is_lost, no_key, secrets_in, usable_key, with_cause
from pegboard_clients.wire import as_object, text_in
from pegboard_google._gemini import DEFAULT_LIMITS, MALFORMED, error_of
from pegboard_google._gemini_answers import first_candidate, parts_of
from pegboard_google.gemini import earlier_exporter, exporter as shared, sdk_arguments

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import HttpOptions


def model_error(error: Exception, provider: str) -> ModelError:
    """Converts an exception of the SDK: status, the provider's code, and whether and when to retry."""
    if isinstance(error, ModelError):
        return error
    facts: Any = error
    status, code, message = (getattr(facts, name, None) for name in ("code", "status", "message"))
    known = type(status) is int
    made = http_error(
        message if isinstance(message, str) and message else with_cause(error),
        provider=provider,
        status=status if known else None,
        headers=as_object(getattr(getattr(error, "response", None), "headers", None)),
        code=code if isinstance(code, str) and code else type(error).__name__,
        retryable=None if known else _passes(error),
    )
    if made.retry_after is None:  # Gemini has it in the body
        made.retry_after = error_of(body_of(error)).retry_after
    return made


def body_of(error: Exception) -> JsonMapping:
    """The body of an error, `{"error": {...}}`; empty if there is none."""
    return as_object(getattr(error, "details", None))


def _passes(error: Exception) -> bool:
    """Whether an error without status is retryable; errors of credentials say so themselves.

    Answers that aren't JSON, such as a proxy's page, are like lost connections.
    """
    from google.genai.errors import UnknownApiResponseError

    unread = isinstance(error, UnknownApiResponseError | JSONDecodeError)
    return unread or is_lost(error) or getattr(error, "retryable", False) is True


KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The environment variables of the key, by priority, as in the SDK."""

_VERTEX: Final = ("enterprise", "vertexai")
"""Options for Vertex AI, which uses a project's credentials instead of a key."""

_VERTEX_IN: Final = ("GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI")
"""Environment variables that do the same."""


def make_client(provider: str, api_key: str | None, base_url: str | None, options: Mapping[str, Any]) -> Client:
    """Makes a client, importing the SDK.

    Args:
        provider: For errors.
        api_key: The key; by default the environment's.
        base_url: The server's address; by default Google's.
        options: Further options of `google.genai.Client`.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
    """
    from google.genai import Client

    key = usable_key(api_key or "", "api_key=...", provider) or None
    around = _key_around(provider)
    if not (key or around or _on_vertex(options)):
        raise no_key(" or ".join(KEYS), provider)
    try:
        facts: dict[str, Any] = {**options, "http_options": _http_options(options.get("http_options"), base_url)}
        return Client(api_key=key or _instead_of_space(around), **facts)
    except Exception as error:
        raise ModelError(f"no client can be made: {error}", provider=provider, code=type(error).__name__) from error


def _key_around(provider: str) -> str:
    """The key in the environment, or `""`."""
    return next((key for name in KEYS if (key := environment_key(name, provider))), "")


def _instead_of_space(around: str) -> str | None:
    """The environment's key, if a blank variable with a higher priority hides it from the SDK."""
    found = next(filter(None, (os.environ.get(name) for name in KEYS)), "")
    return around if around and not found.strip() else None


def _on_vertex(options: Mapping[str, Any]) -> bool:
    asked = [options[name] for name in _VERTEX if options.get(name) is not None]
    if asked:
        return any(asked)
    return any(os.environ.get(name, "").lower() in ("true", "1") for name in _VERTEX_IN)


def _http_options(given: Any, base_url: str | None) -> HttpOptions:
    """The host's HTTP options, with one attempt by default, as some transports would make two."""
    from google.genai.types import HttpOptions, HttpRetryOptions

    asked = HttpOptions.model_validate({} if given is None else given)
    facts: dict[str, Any] = {} if base_url is None else {"base_url": base_url}
    if asked.retry_options is None:
        facts["retry_options"] = HttpRetryOptions(attempts=1)
    return asked.model_copy(update=facts)


def methods(client: Client) -> Any:
    """The SDK's methods, untyped: their annotations refer to optional packages."""
    return client.aio.models


def as_data(answer: Any) -> JsonObject:
    """The JSON data of an SDK's object."""
    return answer.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


def _is_malformed(answer: JsonObject) -> bool:
    return text_in(first_candidate(answer), "finishReason") == MALFORMED


async def _leave(chunks: AsyncIterator[Any]) -> None:
    """Closes the connection of a stream that may not have ended.

    The SDK's generators form a reference cycle: closing the outermost leaves the connection open until garbage is
    collected. But cancelling one while it reads closes it at once, so this reads on in a task, and cancels it.
    """
    reading = asyncio.ensure_future(_read_out(chunks))
    try:
        await asyncio.sleep(0)  # until it waits for the provider
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def _read_out(chunks: AsyncIterator[Any]) -> None:
    with suppress(Exception):
        async for _ in chunks:
            pass


class GoogleModel(ProviderModel):
    """A model over Google's SDK.

    Args:
        model: Its name, such as `"gemini-3-pro"`.
        client: A client that is used as it is, and is not closed; make it without `retry_options`, as turns try again
            themselves. By default one is made.
        exporter: Writes requests and reads answers; by default the built-in `"gemini"`. `"gemini-schema"` is for models
            and proxies that take no JSON Schema.
        api_key: By default what the environment variable `GOOGLE_API_KEY` or `GEMINI_API_KEY` holds.
        base_url: By default Google's.
        options: What else `google.genai.Client` takes, such as `vertexai`, `project` and `location`, or
            `http_options`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with options for making one.
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
        super().__init__(model, exporter or (earlier_exporter() if DEFAULT_LIMITS.is_dated(model) else shared()))
        self._client = client or make_client(self.provider, api_key, base_url, options)
        self._owned = client is None

    async def aclose(self) -> None:
        """Closes the client, unless it was given."""
        if self._owned:
            await self._client.aio.aclose()
            self._client.close()

    async def _models(self) -> list[str]:
        """Requests the names of the models that converse."""
        found = [model async for model in await methods(self._client).list()]
        talk = (each for each in found if "generateContent" in (each.supported_actions or ["generateContent"]))
        return [each.name.rpartition("/")[2] for each in talk]  # "models/NAME", on Vertex AI with more before it

    def _error(self, error: Exception) -> ModelError:
        return model_error(error, self.provider)

    async def _answer(self, body: JsonObject) -> Any:
        """The answer; a malformed call is requested once more."""
        answer = as_data(await methods(self._client).generate_content(**body))
        return await self._again(body) if _is_malformed(answer) else answer

    async def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """The chunks; an error in the stream is a chunk, too, before it is raised."""
        try:
            chunks = await methods(self._client).generate_content_stream(**body)
            try:
                shown = False
                async for chunk in chunks:
                    data = as_data(chunk)
                    if _is_malformed(data) and not shown:
                        data = await self._again(body)
                    shown = shown or any(not part.get("thought") for part in parts_of(first_candidate(data)))
                    yield data
            finally:
                await _leave(chunks)
        except Exception as error:
            if "error" in (within := body_of(error)):
                yield {"error": within["error"]}
            raise self._error(error) from error

    async def _again(self, body: JsonObject) -> JsonObject:
        """Another answer, as the provider wrote it: the SDK's objects are without the message of a malformed call."""
        config = {**body["config"], "shouldReturnHttpResponse": True}
        answer = await methods(self._client).generate_content(**{**body, "config": config})
        return json.loads(answer.sdk_http_response.body)

    def _known_secrets(self) -> list[str]:
        api: Any = self._client._api_client  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  nothing public has it
        headers: Any = api._http_options.headers  # noqa: SLF001
        return [*([api.api_key] if api.api_key else []), *secrets_in(headers or {})]

    def _body(self, request: ModelRequest) -> JsonObject:
        """The SDK's keyword arguments; the exporter gets the model's name, as its output depends on it."""
        named = request if request.model else request.evolve(model=self.name)
        return sdk_arguments(self.exporter.request(named))
