"""`OpenAIModel` and `OpenAIChatModel`: models of OpenAI and compatible servers, over OpenAI's SDK."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pegboard import Exporter, ModelError
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.client import Clients, SDKMethod, SDKModel, check_alone
from pegboard_clients.errors import environment_key, http_error, no_key, secrets_in, unanswered, usable_key
from pegboard_clients.wire import as_object, object_in, text_in
from pegboard_openai._openai import DIALECTS, NEVER, failure
from pegboard_openai.openai_chat import OpenAIChat, exporter
from pegboard_openai.openai_responses import exporter as shared

if TYPE_CHECKING:
    from openai import APIError, APIStatusError, AsyncOpenAI


def model_error(error: Exception, provider: str) -> ModelError:
    """Converts an exception of the SDK: status, the provider's code, request id, and whether to retry."""
    from openai import APIConnectionError, APIError, APIStatusError

    if isinstance(error, APIStatusError):
        return _status_error(error, provider)
    if isinstance(error, APIError) and error.body is not None:
        return _stream_error(error, provider)
    return unanswered(error, provider, APIConnectionError)


def _status_error(error: APIStatusError, provider: str) -> ModelError:
    """The provider's own error. Some permanent ones, such as used-up credit, are a 429, too."""
    code = failure(error.body, provider).code
    return http_error(
        text_in(as_object(error.body), "message") or error.message,
        provider=provider,
        status=error.status_code,
        headers=error.response.headers,
        code=code or type(error).__name__,
        retryable=False if code in NEVER else None,
        request_id=error.request_id,
    )


def _stream_error(error: APIError, provider: str) -> ModelError:
    """An error in a stream, which has no status: its code decides whether it is retryable."""
    made = failure(error.body, provider)
    made.code = made.code or type(error).__name__
    return made


KEY: Final = "OPENAI_API_KEY"
"""The environment variable of the key."""

NO_KEY: Final = "none"
"""The key for servers that need none: the SDK requires one."""

_OTHER_CREDENTIALS: Final = frozenset({"admin_api_key", "provider", "workload_identity"})
"""Options of the client that replace a key."""


def clients_of(
    client: AsyncOpenAI | None, provider: str, options: Mapping[str, Any], key_in: str = KEY
) -> Clients[AsyncOpenAI]:
    """The caller's client, or one made for each event loop, importing the SDK.

    Args:
        client: The caller's client, or `None`.
        provider: For errors.
        options: What `AsyncOpenAI` takes; `None` leaves one to it.
        key_in: The environment variable that holds the key, where `api_key` isn't among them.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
        TypeError: A client is given together with options for making one.
    """
    check_alone(client, options)
    given = {name: value for name, value in options.items() if value is not None}
    return Clients.of(client, partial(_make, provider, given, key_in), lambda made: made.close())


def _make(provider: str, given: Mapping[str, Any], key_in: str) -> AsyncOpenAI:
    from openai import AsyncOpenAI, OpenAIError

    facts: dict[str, Any] = {"max_retries": 0, **given}
    if not facts.keys() & _OTHER_CREDENTIALS:
        facts["api_key"] = _key(facts.get("api_key"), key_in, provider)
        if not facts["api_key"]:
            raise no_key(key_in, provider)
    elif isinstance(admin := facts.get("admin_api_key"), str):
        facts["admin_api_key"] = usable_key(admin, "admin_api_key=...", provider)
    try:
        return AsyncOpenAI(**facts)
    except (OpenAIError, TypeError, ValueError) as error:
        raise ModelError(f"no client can be made: {error}", provider=provider) from error


def _key(given: Any, key_in: str, provider: str) -> Any:
    """The given key, which may also be a function that the SDK calls for keys; or the environment's."""
    if given and not isinstance(given, str):
        return given
    if given:
        return usable_key(given, "api_key=...", provider)
    return environment_key(key_in, provider)


def secrets_of(client: AsyncOpenAI) -> list[str]:
    """The secrets in a client's requests."""
    keys = [key for key in (client.api_key, client.admin_api_key) if key and key != NO_KEY]
    return [*keys, *(header for header in secrets_in(client.default_headers) if not header.endswith(NO_KEY))]


class OpenAISDKModel(SDKModel["AsyncOpenAI"]):
    """Base class of models over OpenAI's SDK."""

    def __init__(
        self,
        model: str,
        exporter: Exporter,
        clients: Clients[AsyncOpenAI],
        method: Callable[[AsyncOpenAI], Callable[..., Awaitable[Any]]],
    ) -> None:
        error = partial(model_error, provider=exporter.name)
        made = SDKMethod(clients, method, error, lambda body: {"error": body})
        super().__init__(model, exporter, made, secrets_of)

    async def _answer(self, body: JsonObject) -> Any:
        body.pop("stream_options", None)  # only for streams
        return await super()._answer(body)


_OWN: Final = ("openai.com", "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com")
"""Domains of OpenAI's own API."""


def chat_exporter(base_url: str) -> Exporter:
    """The exporter for a server.

    Args:
        base_url: Its address.

    Returns:
        The built-in `"openai"` for OpenAI's own API; for other servers, one limited to common features.
    """
    host = urlsplit(base_url).hostname or ""
    if any(host == own or host.endswith(f".{own}") for own in _OWN):
        return exporter()
    return server_exporter()


@cache
def server_exporter(
    name: str = "openai", *, most_tokens: str = "max_tokens", reasoning: str | None = None, dialect: str = "openai"
) -> OpenAIChat:
    """The exporter for an OpenAI-compatible server without custom tools and response formats.

    Args:
        name: The key of provider metadata.
        most_tokens: The member that limits an answer's length.
        reasoning: The member in which the server wants the model's reasoning back, or `None`.
        dialect: Its dialect of schemas: one of `DIALECTS`.
    """
    taken = DIALECTS[dialect]
    return OpenAIChat(
        name=name,
        custom_tools=False,
        response_formats=False,
        most_tokens=most_tokens,
        reasoning=reasoning,
        dialect=taken,
    )


_WITH_USAGE: Final = {"include_usage": True}


class OpenAIChatModel(OpenAISDKModel):
    """A model over the chat completions API.

    Args:
        model: Its name, such as `"gpt-5.4"`.
        client: An existing client, which is not closed; make it with `max_retries=0`, as turns retry themselves. By
            default one is made.
        exporter: Writes requests and reads answers; by default the built-in `"openai"`, or for a server that isn't
            OpenAI's own one without what few others know: `OpenAIChat(custom_tools=False, most_tokens="max_tokens")`.
        api_key: By default what the environment variable holds.
        base_url: By default OpenAI's, or what `OPENAI_BASE_URL` holds.
        key_in: The environment variable that holds the key.
        options: What else `openai.AsyncOpenAI` takes, such as `timeout` or `organization`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with options for making one.
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
        """As for every model; the usage is asked for, unless the option `stream_options` is given."""
        return super()._events({"stream_options": _WITH_USAGE, **body})


_GPT: Final = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\w.])")
_FIRST_THAT_SEARCHES: Final = (5, 4)
"""https://developers.openai.com/api/docs/guides/tools: only gpt-5.4 and later models support `tool_search`."""


class OpenAIModel(OpenAISDKModel):
    """A model over the responses API.

    Args:
        model: Its name, such as `"gpt-5.4"`.
        client: An existing client, which is not closed; make it with `max_retries=0`, as turns retry themselves. By
            default one is made.
        exporter: Writes requests and reads answers; by default the built-in `"openai-responses"`.
        api_key: By default what the environment variable `OPENAI_API_KEY` holds.
        base_url: By default OpenAI's, or what `OPENAI_BASE_URL` holds.
        loads_deferred: Whether the model searches and loads deferred tools itself; by default, depends on its name.
        options: What else `openai.AsyncOpenAI` takes, such as `timeout` or `organization`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with options for making one.
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
        self.loads_deferred = searches(model) if loads_deferred is None else loads_deferred

    async def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """The events; raises those that are errors, as the SDK doesn't."""
        async with aclosing(super()._events(body)) as events:
            async for event in events:
                yield event
                if (error := _error_in(as_object(event))) is not None:
                    raise failure(error, self.provider)


def _error_in(event: JsonMapping) -> object | None:
    match event.get("type"):
        case "error":
            return event
        case "response.failed":
            return object_in(object_in(event, "response"), "error")
        case _:
            return None


def searches(model: str) -> bool:
    """Whether a model of this name supports OpenAI's tool search; for fine-tuned ones, the base model decides."""
    base = model.split(":")[1] if model.startswith("ft:") else model
    found = _GPT.match(base)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _FIRST_THAT_SEARCHES
