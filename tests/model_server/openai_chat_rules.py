"""What OpenAI chat completions refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model_server.format import authorised, choice_declared
from model_server.openai_tools import NAME, check_function, need_room
from model_server.refused import RefusedError, fits, known, mapping, need, one_each, sequence, text
from model_server.request import Request
from model_server.script import Json

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
