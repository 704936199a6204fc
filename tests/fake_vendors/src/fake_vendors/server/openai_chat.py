"""OpenAI's chat completions, and what is refused of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from fake_vendors.server.format import Format, authorised, choice_declared
from fake_vendors.server.script import (
    Error,
    Json,
    RefusedError,
    Reply,
    Request,
    Sent,
    Usage,
    fits,
    known,
    mapping,
    need,
    one_each,
    sequence,
    subschemas,
    text,
)

NAME = "^[a-zA-Z0-9_-]{1,64}$"
MOST_TOOLS = 128
"""Known from the provider's error reports."""

_AT_ROOT = ("oneOf", "anyOf", "allOf", "enum", "not")


def check_function(function: dict[str, Any], where: str) -> str:
    """Judges a function's name and schema, and returns the name."""
    name = fits(function.get("name"), NAME, f"{where}.name")
    said = function.get("description")
    need(
        said is None or isinstance(said, str),
        f"{where}.description: a string is required",
        param=f"{where}.description",
    )
    schema = function.get("parameters")
    if schema is not None:
        _check_schema(name, mapping(schema, f"{where}.parameters"), where)
        if function.get("strict"):
            _check_strict(name, schema, where)
    return name


def need_room(tools: list[Json]) -> None:
    """Refuses more tools than the provider takes."""
    message = f"Invalid 'tools': array too long. Expected at most {MOST_TOOLS} elements, but got {len(tools)} instead."
    need(len(tools) <= MOST_TOOLS, message, param="tools", code="array_above_max_length")


def openai_error(error: Error) -> Json:
    """An error body of OpenAI's."""
    kinds = {
        401: ("invalid_request_error", "invalid_api_key"),
        403: ("invalid_request_error", "unsupported_country_region_territory"),
        429: ("requests", "rate_limit_exceeded"),
    }
    kind, code = kinds.get(error.status, ("server_error" if error.status >= 500 else "invalid_request_error", None))
    return {"error": {"message": error.text, "type": kind, "param": None, "code": code}}


def openai_refusal(refused: RefusedError) -> Json:
    """A refusal's body."""
    return {
        "error": openai_error(Error(refused.status, refused.message))["error"]
        | {"param": refused.param, "code": refused.code}
    }


def _check_schema(name: str, schema: dict[str, Any], where: str) -> None:
    found = schema.get("type") == "object" and not any(key in schema for key in _AT_ROOT)
    _need_schema(
        found,
        name,
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        where,
    )
    for part in _read(schema):
        _need_schema(part.get("type") != "array" or "items" in part, name, "array schema missing items.", where)


def _check_strict(name: str, schema: dict[str, Any], where: str) -> None:
    """The main rules of strict mode: objects closed, every property required."""
    for part in _read(schema):
        if part.get("type") != "object" and "properties" not in part:
            continue
        closed = part.get("additionalProperties") is False
        _need_schema(closed, name, "'additionalProperties' is required to be supplied and to be false.", where)
        complete = set(part.get("required", ())) == set(part.get("properties", ()))
        _need_schema(
            complete,
            name,
            "'required' is required to be supplied and to be an array including every key in properties.",
            where,
        )


def _read(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that are schemas by their `type`: a property named `type` holds an object, not a text."""
    return [part for part in subschemas(schema) if isinstance(part.get("type"), str)]


def _need_schema(fact: object, name: str, why: str, where: str) -> None:
    message = f"Invalid schema for function '{name}': {why}"
    need(fact, message, param=f"{where}.parameters", code="invalid_function_parameters")


MOST_DESCRIPTION = 1024
"""Characters; known from the provider's error reports."""

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_KEYS = {
    "assistant": {
        "annotations",
        "audio",
        "content",
        "function_call",
        "name",
        "reasoning_content",
        "refusal",
        "role",
        "tool_calls",
    },
    "tool": {"content", "role", "tool_call_id"},
}

Declared = Callable[[str, set[str], str], None]


def check(request: Request, need_declared: Declared) -> None:
    """Judges a request.

    Raises:
        RefusedError: It breaks a rule.
    """
    authorised(request, "authorization")
    body = mapping(request.body, "body")
    text(body.get("model"), "model")
    _check_tools(body)
    mapping(body.get("stream_options") or {}, "stream_options")
    declared = names(body)
    messages = sequence(body.get("messages"), "messages")
    need(messages, "Invalid 'messages': empty array.", param="messages", code="empty_array")
    for place, message in enumerate(messages):
        _check_message(mapping(message, f"messages[{place}]"), f"messages[{place}]")
    _check_pairs(messages)
    for place, message in enumerate(messages):
        for at, call in enumerate(message.get("tool_calls") or ()):
            need_declared(_called(call), declared, f"messages[{place}].tool_calls[{at}]")


def names(body: Json) -> set[str]:
    """The names that a checked request declares."""
    return {_named(tool) for tool in body.get("tools") or ()}


def _named(tool: dict[str, Any]) -> str:
    return tool[tool["type"]]["name"]


_called = _named


def _check_tools(body: dict[str, Any]) -> None:
    choice = body.get("tool_choice")
    if body.get("tools") is None:
        need(
            choice is None,
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
            param="tool_choice",
        )
        return
    tools = sequence(body["tools"], "tools")
    need(
        tools,
        "Invalid 'tools': empty array. Expected an array with minimum length 1.",
        param="tools",
        code="empty_array",
    )
    need_room(tools)
    for place, tool in enumerate(tools):
        _check_tool(mapping(tool, f"tools[{place}]"), f"tools[{place}]")
    one_each([_named(tool) for tool in tools], "Duplicate tool name: '{}'.", param="tools")
    _check_choice(choice, names(body))


def _check_tool(tool: dict[str, Any], where: str) -> None:
    kind = text(tool.get("type"), f"{where}.type")
    need(
        kind in {"function", "custom"},
        f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'.",
        param=f"{where}.type",
    )
    definition = mapping(tool.get(kind), f"{where}.{kind}")
    if kind == "custom":
        fits(definition.get("name"), NAME, f"{where}.custom.name")
        return
    check_function(definition, f"{where}.function")
    length = len(definition.get("description") or "")
    place = f"{where}.function.description"
    message = f"Invalid '{place}': string too long. Expected at most {MOST_DESCRIPTION} characters, got {length}."
    need(length <= MOST_DESCRIPTION, message, param=place, code="string_above_max_length")


def _check_choice(choice: Json, declared: set[str]) -> None:
    if choice is None or choice in ("none", "auto", "required"):
        return
    kind = text(mapping(choice, "tool_choice").get("type"), "tool_choice.type")
    if kind == "allowed_tools":
        allowed = mapping(choice.get("allowed_tools"), "tool_choice.allowed_tools")
        for tool in sequence(allowed.get("tools"), "tool_choice.allowed_tools.tools"):
            _check_choice(tool, declared)
        return
    name = mapping(choice.get(kind), f"tool_choice.{kind}").get("name")
    choice_declared(name, declared, f"tool_choice.{kind}.name")


def _check_message(message: dict[str, Any], where: str) -> None:
    role = text(message.get("role"), f"{where}.role")
    need(role in _ROLES, f"Invalid value: '{role}'.", param=f"{where}.role", code="invalid_value")
    if role in _KEYS:
        known(message, _KEYS[role], where)
    if role == "tool":
        text(message.get("tool_call_id"), f"{where}.tool_call_id")
    if role == "assistant":
        _check_assistant(message, where)
        return
    content = message.get("content")
    need(
        isinstance(content, str | list),
        f"Invalid value for 'content': expected a string, got {type(content).__name__}.",
        param=f"{where}.content",
    )
    for place, part in enumerate(content if isinstance(content, list) else ()):
        kind = text(mapping(part, f"{where}.content[{place}]").get("type"), f"{where}.content[{place}].type")
        legal = role == "user" or kind == "text"
        need(
            legal,
            f"Invalid '{where}.content[{place}]': '{kind}' is not allowed in messages with role '{role}'.",
            param=f"{where}.content",
        )


def _check_assistant(message: dict[str, Any], where: str) -> None:
    calls = message.get("tool_calls")
    if calls is None:
        said = (
            message.get("content") is not None or message.get("refusal") is not None or message.get("audio") is not None
        )
        need(said, f"Invalid value for '{where}.content': expected a string, got null.", param=f"{where}.content")
        return
    need(
        sequence(calls, f"{where}.tool_calls"),
        f"Invalid '{where}.tool_calls': empty array.",
        param=f"{where}.tool_calls",
        code="empty_array",
    )
    for place, call in enumerate(calls):
        _check_call(mapping(call, f"{where}.tool_calls[{place}]"), f"{where}.tool_calls[{place}]")
    one_each([call["id"] for call in calls], "Duplicate tool call id: '{}'.", param=f"{where}.tool_calls")


def need_object(arguments: str, where: str) -> None:
    """Refuses what servers of this format read and OpenAI's own doesn't: arguments that are no JSON object."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    need(is_object, f"{where}: must be a JSON object", param=where)


def _check_call(call: dict[str, Any], where: str) -> None:
    text(call.get("id"), f"{where}.id")
    kind = text(call.get("type"), f"{where}.type")
    need(kind in {"function", "custom"}, f"Invalid value: '{kind}'.", param=f"{where}.type", code="invalid_value")
    known(call, {"id", "type", kind}, where)
    made = mapping(call.get(kind), f"{where}.{kind}")
    key = "arguments" if kind == "function" else "input"
    known(made, {"name", key}, f"{where}.{kind}")
    text(made.get("name"), f"{where}.{kind}.name")
    carried = isinstance(made.get(key), str)
    need(
        carried,
        f"Invalid type for '{where}.{kind}.{key}': expected a string.",
        param=f"{where}.{kind}.{key}",
        code="invalid_type",
    )
    if kind == "function":
        need_object(made[key], f"{where}.{kind}.{key}")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Tool messages stand directly behind the assistant's, one for every id."""
    waiting: list[str] = []
    for place, message in enumerate([*messages, {"role": "end"}]):
        where = f"messages.[{place}].role"
        if message["role"] == "tool":
            _answer(waiting, message["tool_call_id"], where)
            continue
        if waiting:
            listed = ", ".join(waiting)
            raise RefusedError(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {listed}",
                param=where,
            )
        waiting = [call["id"] for call in message.get("tool_calls") or ()]


def _answer(waiting: list[str], call_id: str, where: str) -> None:
    message = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    need(call_id in waiting, f"{message} (id '{call_id}').", param=where)
    waiting.remove(call_id)


_FINISH = {"refusal": "stop"}


class OpenAIChat(Format):
    """`POST /v1/chat/completions`."""

    end = b"data: [DONE]\n\n"

    def check(self, request: Request) -> None:
        """Judges a request."""
        check(request, self.need_declared)

    def declared(self, body: Json) -> set[str]:
        """The tools' names."""
        return names(body)

    def body(self, reply: Reply) -> Json:
        """A `chat.completion`."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.round.said or None,
            "refusal": reply.round.refusal or None,
        }
        message["annotations"] = _annotations(reply)
        if reply.round.reasoning is not None:
            message["reasoning_content"] = reply.round.reasoning.text
        if reply.round.calls:
            message["tool_calls"] = [_tool_call(sent, sent.call.text) for sent in reply.calls("call_")]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return _envelope(reply, "chat.completion") | {"choices": [choice], "usage": _usage(reply.round.usage)}

    def events(self, reply: Reply) -> Iterator[Json]:
        """`chat.completion.chunk`s."""
        envelope = _envelope(reply, "chat.completion.chunk")
        for delta in _deltas(reply):
            yield envelope | {"choices": [_choice(delta, None)]}
        yield envelope | {"choices": [_choice({}, _finish(reply))]}
        if (reply.request.body.get("stream_options") or {}).get("include_usage"):
            yield envelope | {"choices": [], "usage": _usage(reply.round.usage)}

    def error_body(self, error: Error) -> Json:
        """`{"error": {message, type, param, code}}`."""
        return openai_error(error)

    def refusal_body(self, refused: RefusedError) -> Json:
        """The same, with the path to the bad field."""
        return openai_refusal(refused)


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    if reply.round.reasoning is not None:
        for piece in reply.pieces(reply.round.reasoning.text):
            yield {"reasoning_content": piece}
    for piece in reply.text_pieces():
        yield {"content": piece}
    if reply.round.citations:
        yield {"annotations": _annotations(reply)}
    for piece in reply.pieces(reply.round.refusal):
        yield {"refusal": piece}
    index = -1
    for sent in reply.calls("call_"):
        index += not (sent.call.same_index and index >= 0)
        yield {"tool_calls": [{"index": index, **_tool_call(sent, "")}]}
        key, text = ("custom", "input") if sent.call.freeform else ("function", "arguments")
        for piece in reply.argument_pieces(sent.call):
            yield {"tool_calls": [{"index": index, key: {text: piece}}]}


def _tool_call(sent: Sent, text: str) -> dict[str, Any]:
    named = {} if sent.id is None else {"id": sent.id}
    if sent.call.freeform:
        return {**named, "type": "custom", "custom": {"name": sent.call.name, "input": text}}
    return {**named, "type": "function", "function": {"name": sent.call.name, "arguments": text}}


def _annotations(reply: Reply) -> list[Json]:
    return [
        {
            "type": "url_citation",
            "url_citation": {"url": at.url, "title": at.title, "start_index": at.start, "end_index": at.end},
        }
        for at in reply.round.citations
    ]


def _choice(delta: dict[str, Any], finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _envelope(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": 1_700_000_000, "model": reply.model}


def _finish(reply: Reply) -> str:
    return _FINISH.get(reply.round.ending, reply.round.ending)


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
