"""Answers with calls as the SDKs give them: what the server plays, by their response types, dumped as users dump it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import anthropic.types
import botocore.session
import pydantic
from botocore.validate import validate_parameters
from google.genai import types as genai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from fake_vendors.server.format import Format
from fake_vendors.server.script import Call, Reply, Request, Round
from fake_vendors.server.server import FORMATS

JsonObject = dict[str, Any]
Calls = Sequence[Call]
_ASKED: Final = Request("/x:y", "", {}, {"model": "m"})
_JSON: Final = {"mode": "json", "by_alias": True}


def arguments_of(call: Call) -> Any:
    """What the tool is to get."""
    return {"input": call.arguments} if call.freeform else call.arguments


@cache
def _adapter(annotation: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(annotation)


def _by_model(model: Any, answer: Any) -> list[Any]:
    """As it is, without what is unset, without nulls, as JSON."""
    read = _adapter(model).validate_python(answer)
    return [read.model_dump(**how) for how in ({}, {"exclude_unset": True}, {"exclude_none": True}, _JSON)]


def _by_genai(answer: Any) -> list[Any]:
    read = genai.GenerateContentResponse.model_validate(answer)
    return [read.model_dump(**_JSON, exclude_none=True), read.model_dump(**_JSON)]


@cache
def _output_shape(operation: str) -> Any:
    model = botocore.session.Session().get_service_model("bedrock-runtime")
    return model.operation_model(operation).output_shape


def _by_botocore(answer: Any) -> list[Any]:
    validate_parameters(answer, _output_shape("Converse"))
    return [answer]


def _event_by_botocore(event: Any) -> list[Any]:
    validate_parameters(event, _output_shape("ConverseStream").members["stream"])
    return [event]


def _unchecked(chunk: Any) -> list[Any]:
    """The SDK constructs chunks without a check, as it has no type for custom calls."""
    return [ChatCompletionChunk.construct(**chunk).model_dump()]


_READ: Final[Mapping[str, tuple[Callable[[Any], list[Any]], Callable[[Any], list[Any]]]]] = {
    "openai": (partial(_by_model, ChatCompletion), _unchecked),
    "openai-responses": (partial(_by_model, Response), partial(_by_model, ResponseStreamEvent)),
    "anthropic": (
        partial(_by_model, anthropic.types.Message),
        partial(_by_model, anthropic.types.RawMessageStreamEvent),
    ),
    "gemini": (_by_genai, _by_genai),
    "gemini-schema": (_by_genai, _by_genai),
    "bedrock": (_by_botocore, _event_by_botocore),
}
NAMES: Final = tuple(_READ)
"""The exporters whose vendors have types of answers."""

WITH_FREEFORM: Final = frozenset({"openai", "openai-responses"})
"""The exporters whose providers have freeform tools."""


def _format(name: str) -> Format:
    return FORMATS[name.removesuffix("-schema")]()


def whole(name: str, calls: Calls) -> list[JsonObject]:
    """The answer with these calls, dumped in each of the usual ways."""
    read, _ = _READ[name]
    return read(_format(name).body(Reply(Round(calls=calls), 1, _ASKED)))


def streamed(name: str, calls: Calls) -> list[JsonObject]:
    """The chunks that bring these calls; what an SDK keeps to itself isn't among them."""
    _, read = _READ[name]
    events = _format(name).events(Reply(Round(calls=calls, pieces=5), 1, _ASKED))
    return [read(event)[0] for event in events if event.get("type") != "ping"]
