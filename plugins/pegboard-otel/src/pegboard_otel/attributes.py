"""Attributes of model requests and turns, without their content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pegboard import ModelRequest, ModelResponse, ReadonlyContext, TurnOutcome
from pegboard.errors import ModelError
from pegboard.messages import Usage
from pegboard_otel import conventions as names

_CODE: Final = re.compile(r"[\w.-]{1,64}")
_FAILURES: Final = frozenset({"failed", "fatal", "aborted", "cancelled"})


def of_model(context: ReadonlyContext, request: ModelRequest) -> dict[str, Any]:
    """The attributes that a request's span and metrics share."""
    model = request.model or context.model
    return _without_none({names.OPERATION: names.CHAT, names.PROVIDER: context.provider, names.REQUEST_MODEL: model})


def of_request(context: ReadonlyContext, request: ModelRequest) -> dict[str, Any]:
    """The settings of a request."""
    config = request.config
    return _without_none(
        {
            names.CONVERSATION: context.session,
            names.REQUEST_MAX_TOKENS: config.max_output_tokens,
            names.REQUEST_TEMPERATURE: config.temperature,
            names.REQUEST_TOP_P: config.top_p,
            names.REQUEST_SEED: config.seed,
            names.REQUEST_STOP: config.stop or None,
        }
    )


def of_response(response: ModelResponse) -> dict[str, Any]:
    """The facts of an answer, and its tokens."""
    facts = {
        names.RESPONSE_ID: response.id,
        names.RESPONSE_MODEL: response.model,
        names.RESPONSE_FINISH: [response.finish_reason],
    }
    return {**_without_none(facts), **of_usage(response.usage)}


def of_turn(context: ReadonlyContext) -> dict[str, Any]:
    """The agent and the conversation of a turn."""
    return _without_none(
        {
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT_NAME: context.agent,
            names.AGENT_DESCRIPTION: context.agent_description,
            names.CONVERSATION: context.session,
        }
    )


def of_usage(usage: Usage) -> dict[str, Any]:
    """The numbers of tokens; none if the client gave none."""
    numbers = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cached_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
    }
    return {name: number for name, number in numbers.items() if number}


def tokens_of(response: ModelResponse) -> Iterable[tuple[str, int]]:
    """The tokens of an answer by the type that the metric has."""
    usage = response.usage
    return [(kind, n) for kind, n in (("input", usage.input_tokens), ("output", usage.output_tokens)) if n]


def error_of(response: ModelResponse) -> str | None:
    """The `error.type` of an answer; `None` if it isn't an error."""
    return None if response.finish_reason != "error" else _code(response.error_code) or names.OTHER


def kind_of(error: BaseException) -> str:
    """The `error.type` of an exception: the provider's code or status, or its class; never its text."""
    if isinstance(error, ModelError):
        return _code(error.code) or _code(error.status) or type(error).__name__
    return type(error).__name__


def failure_of(outcome: TurnOutcome) -> str | None:
    """The `error.type` of a turn; `None` if it didn't fail."""
    if outcome.error is not None:
        return kind_of(outcome.error)
    return outcome.ended if outcome.ended in _FAILURES else None


def _code(given: object) -> str | None:
    text = "" if given is None else str(given)
    return text if _CODE.fullmatch(text) else None


def _without_none(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encodable(value) for name, value in facts.items() if value is not None}


def encodable(value: Any) -> Any:
    """A value whose texts have no lone surrogates, for which an exporter would lose all spans of its batch."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return [encodable(each) for each in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value
