"""Answers with calls as the SDKs give them: built by their response types, dumped as their users dump them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import anthropic.types
import botocore.session
import pydantic
from attrs import frozen
from botocore.validate import validate_parameters
from google.genai import types as genai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

JsonObject = dict[str, Any]
_PIECE: Final = 7


@frozen
class Called:
    """A call that a model shall have made.

    Attributes:
        id: Its id; a provider without ids passes it over.
        name: The tool.
        arguments: Judged valid; of a freeform tool `{"input": text}`.
        freeform: Whether the provider has it as text.
    """

    id: str
    name: str
    arguments: JsonObject
    freeform: bool = False

    @property
    def text(self) -> str:
        """What goes over the wire where arguments are a text."""
        return self.arguments["input"] if self.freeform else json.dumps(self.arguments, ensure_ascii=False)

    @property
    def pieces(self) -> list[str]:
        """The same as a stream brings it."""
        text = self.text
        return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


Calls = Sequence[Called]


def _dumps(model: pydantic.BaseModel) -> list[JsonObject]:
    """As it is, without what is unset, without nulls, as JSON."""
    return [
        model.model_dump(),
        model.model_dump(exclude_unset=True),
        model.model_dump(exclude_none=True),
        model.model_dump(mode="json", by_alias=True),
    ]


# --- OpenAI chat ---


def _chat_call(call: Called) -> JsonObject:
    if call.freeform:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.text}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}


def openai_chat(calls: Calls) -> list[JsonObject]:
    """Dumps of a `ChatCompletion`."""
    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [_chat_call(each) for each in calls],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message, "logprobs": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    facts = {"id": "chatcmpl-1", "created": 1, "model": "gpt-x", "object": "chat.completion"}
    return _dumps(ChatCompletion.model_validate({**facts, "choices": [choice], "usage": usage}))


def openai_chat_stream(calls: Calls) -> list[JsonObject]:
    """Dumps of `ChatCompletionChunk`s; the SDK constructs them without a check, as it has no type for custom calls."""
    deltas: list[JsonObject] = [{"role": "assistant", "content": None}]
    for index, call in enumerate(calls):
        first = _chat_call(call)
        kind, field = ("custom", "input") if call.freeform else ("function", "arguments")
        first[kind][field] = ""
        deltas.append({"tool_calls": [{"index": index, **first}]})
        deltas += ({"tool_calls": [{"index": index, kind: {field: piece}}]} for piece in call.pieces)
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    facts = {"id": "chatcmpl-1", "created": 1, "model": "gpt-x", "object": "chat.completion.chunk"}
    return [ChatCompletionChunk.construct(**facts, choices=[choice]).model_dump() for choice in choices]


# --- OpenAI responses ---


def _item(number: int, call: Called, text: str, status: str) -> JsonObject:
    if call.freeform:
        return {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": call.id, "name": call.name, "input": text}
    facts = {"id": f"fc_{number}", "call_id": call.id, "name": call.name, "status": status}
    return {"type": "function_call", **facts, "arguments": text}


def _response(items: Sequence[JsonObject], status: str) -> JsonObject:
    facts = {"id": "resp_1", "created_at": 1.0, "model": "gpt-x", "object": "response", "status": status}
    settings = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**facts, **settings, "output": list(items)}


def openai_responses(calls: Calls) -> list[JsonObject]:
    """Dumps of a `Response`."""
    items = [_item(number, call, call.text, "completed") for number, call in enumerate(calls)]
    return _dumps(Response.model_validate(_response(items, "completed")))


def openai_responses_stream(calls: Calls) -> list[JsonObject]:
    """Dumps of the events of a stream."""
    events: list[JsonObject] = [{"type": "response.created", "response": _response([], "in_progress")}]
    for number, call in enumerate(calls):
        events += _item_events(number, call)
    items = [_item(number, call, call.text, "completed") for number, call in enumerate(calls)]
    events.append({"type": "response.completed", "response": _response(items, "completed")})
    read = _adapter(ResponseStreamEvent)
    return [
        read.validate_python({**event, "sequence_number": number}).model_dump() for number, event in enumerate(events)
    ]


def _item_events(number: int, call: Called) -> Iterator[JsonObject]:
    kind, field = ("custom_tool_call_input", "input") if call.freeform else ("function_call_arguments", "arguments")
    at = {"item_id": f"{'ctc' if call.freeform else 'fc'}_{number}", "output_index": number}
    added = _item(number, call, "", "in_progress")
    yield {"type": "response.output_item.added", "output_index": number, "item": added}
    yield from ({"type": f"response.{kind}.delta", **at, "delta": piece} for piece in call.pieces)
    yield {"type": f"response.{kind}.done", **at, "name": call.name, field: call.text}
    done = _item(number, call, call.text, "completed")
    yield {"type": "response.output_item.done", "output_index": number, "item": done}


# --- Anthropic ---


def _message(blocks: Sequence[JsonObject], stop: str | None) -> JsonObject:
    facts = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_sequence": None}
    usage = {"input_tokens": 3, "output_tokens": 4}
    return {**facts, "content": list(blocks), "stop_reason": stop, "usage": usage}


def _use(call: Called, arguments: JsonObject) -> JsonObject:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def anthropic_messages(calls: Calls) -> list[JsonObject]:
    """Dumps of a `Message`."""
    blocks = [_use(call, call.arguments) for call in calls]
    return _dumps(anthropic.types.Message.model_validate(_message(blocks, "tool_use")))


def anthropic_stream(calls: Calls) -> list[JsonObject]:
    """Dumps of the events of a stream; arguments without anything in them come without a piece."""
    events: list[JsonObject] = [{"type": "message_start", "message": _message([], None)}]
    for index, call in enumerate(calls):
        events.append({"type": "content_block_start", "index": index, "content_block": _use(call, {})})
        for piece in call.pieces if call.arguments else ():
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": {"output_tokens": 4}}, {"type": "message_stop"}]
    read = _adapter(anthropic.types.RawMessageStreamEvent)
    return [read.validate_python(event).model_dump() for event in events]


# --- Gemini ---


def _generated(calls: Calls) -> genai.GenerateContentResponse:
    parts = [{"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in calls]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return genai.GenerateContentResponse.model_validate({"candidates": [candidate], "responseId": "1"})


def gemini(calls: Calls) -> list[JsonObject]:
    """Dumps of a `GenerateContentResponse`, in the words of the wire."""
    model = _generated(calls)
    return [
        model.model_dump(mode="json", by_alias=True, exclude_none=True),
        model.model_dump(mode="json", by_alias=True),
    ]


def gemini_stream(calls: Calls) -> list[JsonObject]:
    """Dumps of what a stream brings: each call as a whole."""
    return [_generated([call]).model_dump(mode="json", by_alias=True, exclude_none=True) for call in calls]


# --- Bedrock ---


@cache
def _output_shape(operation: str) -> Any:
    model = botocore.session.Session().get_service_model("bedrock-runtime")
    return model.operation_model(operation).output_shape


_USAGE: Final = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}


def bedrock(calls: Calls) -> list[JsonObject]:
    """What `converse` gives."""
    content = [{"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}} for call in calls]
    answer = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use",
        "usage": _USAGE,
        "metrics": {"latencyMs": 1},
    }
    validate_parameters(answer, _output_shape("Converse"))
    return [answer]


def bedrock_stream(calls: Calls) -> list[JsonObject]:
    """What the events of `converse_stream` are."""
    events: list[JsonObject] = [{"messageStart": {"role": "assistant"}}]
    for index, call in enumerate(calls):
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        events.append({"contentBlockStart": {"start": start, "contentBlockIndex": index}})
        for piece in call.pieces:
            delta = {"toolUse": {"input": piece}}
            events.append({"contentBlockDelta": {"delta": delta, "contentBlockIndex": index}})
        events.append({"contentBlockStop": {"contentBlockIndex": index}})
    events.append({"messageStop": {"stopReason": "tool_use"}})
    events.append({"metadata": {"usage": _USAGE, "metrics": {"latencyMs": 1}}})
    for event in events:
        validate_parameters(event, _output_shape("ConverseStream").members["stream"])
    return events


@cache
def _adapter(annotation: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(annotation)


WHOLE: Final[Mapping[str, Callable[[Calls], list[JsonObject]]]] = {
    "openai": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "gemini": gemini,
    "gemini-schema": gemini,
    "bedrock": bedrock,
}
"""Exporter -> the answer with these calls, dumped in each of the usual ways."""

STREAMED: Final[Mapping[str, Callable[[Calls], list[JsonObject]]]] = {
    "openai": openai_chat_stream,
    "openai-responses": openai_responses_stream,
    "anthropic": anthropic_stream,
    "gemini": gemini_stream,
    "gemini-schema": gemini_stream,
    "bedrock": bedrock_stream,
}
"""Exporter -> the chunks that bring these calls."""

WITH_FREEFORM: Final = frozenset({"openai", "openai-responses"})
"""The exporters whose providers have freeform tools."""
