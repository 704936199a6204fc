"""`AnthropicModel`: models over the messages API and Anthropic's SDK."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from pegboard import Exporter, ModelError, ModelRequest, ModelResponse
from pegboard.messages import Delta
from pegboard.typing import JsonObject
from pegboard_anthropic._anthropic import AnthropicLimits, error_of, thinking_budgets
from pegboard_anthropic.anthropic import Anthropic, exporter
from pegboard_clients.client import Clients, SDKMethod, SDKModel, check_alone
from pegboard_clients.errors import environment_key, http_error, no_key, secrets_in, unanswered, usable_key
from pegboard_clients.wire import as_object, object_in, text_in

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic

_NEVER: Final = frozenset({"contract_spend_limit_reached", "enforced_spend_limit_reached"})
"""Permanent errors with the status 429: the spend limit is reached (types of the SDK)."""


def model_error(error: Exception, provider: str) -> ModelError:
    """Converts an exception of the SDK: status, the provider's code, request id, and whether to retry."""
    from anthropic import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        return _status_error(error, provider)
    return unanswered(error, provider, APIConnectionError)


def _status_error(error: APIStatusError, provider: str) -> ModelError:
    """The provider's own error; one in a stream has the status 200, so that its type decides."""
    body = as_object(error.body)
    made = error_of(body)
    within = error.status_code < 400
    passes = False if error.error_code in _NEVER else None
    return http_error(
        text_in(object_in(body, "error"), "message") or error.message,
        provider=provider,
        status=made.status if within else error.status_code,
        headers=error.response.headers,
        code=made.code,
        retryable=made.retryable if within else passes,
        request_id=error.request_id or made.request_id,
    )


KEY: Final = "ANTHROPIC_API_KEY"
"""The environment variable of the key."""

_VARIABLES: Final = {"api_key": KEY, "auth_token": "ANTHROPIC_AUTH_TOKEN"}
"""Options that are keys, and the environment variables from which the SDK takes them, by priority."""

_CREDENTIALS: Final = (*_VARIABLES, "credentials", "config", "profile")
"""Options each of which is sufficient: with it, the SDK doesn't look for keys in the environment."""


def _make_client(
    provider: str, api_key: str | None, base_url: str | None, options: Mapping[str, Any]
) -> AsyncAnthropic:
    """Makes a client, importing the SDK.

    The SDK finds alternatives to a key by itself: `ANTHROPIC_AUTH_TOKEN`, a profile, an identity of the machine.

    Raises:
        ModelError: There is no key, or none that can be sent; or the SDK refuses the options.
    """
    from anthropic import AnthropicError, AsyncAnthropic, CredentialsError

    given = {"max_retries": 0, **options, "api_key": api_key, "base_url": base_url}
    facts: dict[str, Any] = {**given, **_keys(given, provider)}
    try:
        client = AsyncAnthropic(**facts)
    except CredentialsError as error:
        raise no_key(KEY, provider, str(error)) from error
    except (AnthropicError, TypeError, ValueError) as error:
        raise ModelError(f"no client can be made: {error}", provider=provider) from error
    if not (client.api_key or client.auth_token or client.credentials):
        raise no_key(KEY, provider)
    return client


def secrets_of(client: AsyncAnthropic) -> list[str]:
    """The secrets in a client's requests."""
    keys = [key for key in (client.api_key, client.auth_token) if key]
    return [*keys, *secrets_in(client.default_headers)]


def _keys(given: Mapping[str, Any], provider: str) -> dict[str, str]:
    """The given keys, stripped; or the environment's if there are none."""
    if any(given.get(name) is not None for name in _CREDENTIALS):
        keys = {name: given[name] for name in _VARIABLES if isinstance(given.get(name), str)}
        return {name: usable_key(key, f"{name}=...", provider) for name, key in keys.items()}
    for name, variable in _VARIABLES.items():
        if key := environment_key(variable, provider):
            return {name: key}
    is_blank = any(os.environ.get(variable) for variable in _VARIABLES.values())
    return {"api_key": ""} if is_blank else {}  # the SDK would take blanks as a key


_CLAUDE: Final = "claude"
_VERSION: Final = re.compile(r"claude-(?:[a-z]{1,20}-|v)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NEWEST: Final = (99, 0)
_FIRST_THAT_SEARCHES: Final = (4, 5)
"""https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool, its table of models."""

_FIRST_THAT_ADAPTS: Final = (4, 6)
"""https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking: earlier models have a thinking budget."""


_FIRST_THAT_FORMATS: Final = (4, 5)
"""https://platform.claude.com/docs/en/build-with-claude/structured-outputs, its table of models."""


def searches(model: str) -> bool:
    """Whether a model of this name searches and loads deferred tools itself."""
    return _version(model) >= _FIRST_THAT_SEARCHES


def exporter_of(model: str) -> Exporter:
    """The exporter for a model: the built-in `"anthropic"`, or that for older and other makers' models."""
    return exporter() if _version(model) >= _FIRST_THAT_ADAPTS else earlier_exporter()


@cache
def earlier_exporter() -> Anthropic:
    """The exporter for models with a thinking budget, and with `temperature` and `top_p`."""
    return Anthropic(AnthropicLimits(reasoning=thinking_budgets(), sampling=True))


def _version(model: str) -> tuple[int, int]:
    """Major and minor version; the newest for a Claude without one in its name, and 0 for other makers' models."""
    if _CLAUDE not in model:
        return (0, 0)
    found = _VERSION.search(model)
    return _NEWEST if found is None else (int(found[1]), int(found[2] or 0))


MOST_WHOLE: Final = 8_192
"""Maximum tokens of an answer in one piece: the SDK refuses requests that may take over ten minutes."""


class AnthropicModel(SDKModel["AsyncAnthropic"]):
    """A model over the messages API.

    Args:
        model: Its name, such as `"claude-sonnet-5"`.
        client: An existing client, which is not closed; make it with `max_retries=0`, as turns retry themselves. By
            default one is made.
        exporter: Writes requests and reads answers; by default the built-in `"anthropic"`, or for models that are older
            or another maker's:
            `Anthropic(AnthropicLimits(reasoning=thinking_budgets(), sampling=True))`.
        api_key: By default what the environment variable `ANTHROPIC_API_KEY` holds.
        base_url: By default Anthropic's, or what `ANTHROPIC_BASE_URL` holds.
        loads_deferred: Whether the model searches and loads deferred tools itself; by default, depends on its name.
        options: What else `anthropic.AsyncAnthropic` takes, such as `timeout` or `default_headers`.

    Raises:
        ModelError: There is no key, or the client can't be made.
        TypeError: A client is given together with options for making one.
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
        check_alone(client, {"api_key": api_key, "base_url": base_url, **options})
        make = partial(_make_client, exporter.name, api_key, base_url, options)
        clients: Clients[AsyncAnthropic] = Clients.of(client, make, lambda made: made.close())
        error = partial(model_error, provider=exporter.name)
        method = SDKMethod(clients, lambda sdk: sdk.messages.create, error, lambda body: {**body, "type": "error"})
        super().__init__(model, exporter, method, secrets_of)
        self.loads_deferred = searches(model) if loads_deferred is None else loads_deferred

    def formats(self, request: ModelRequest) -> bool:
        """Whether the answer will be in the format of the request's `output`."""
        return _version(request.model or self.name) >= _FIRST_THAT_FORMATS and super().formats(request)

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer to a request; cancelling it closes the connection.

        An answer that may have more than 8,192 tokens is collected from a stream, as the provider requires; if that
        breaks off, the response is interrupted.

        Raises:
            ModelError: The request failed, or the provider answered with an error.
            ExportError: The request can't be written for it.
        """
        body = self._body(request)
        if _may_be_long(body):
            return await _last(self._pieces(body, request))
        return await self._whole(body, request)


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
