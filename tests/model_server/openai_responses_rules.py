"""What OpenAI responses refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model_server.format import authorised, choice_declared
from model_server.openai_tools import NAME, check_function, need_room
from model_server.refused import RefusedError, fits, known, mapping, need, one_each, optional_text, sequence, text
from model_server.request import Request
from model_server.script import Json

_ROLES = ("user", "assistant", "system", "developer")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_COMMON = {"type", "id", "status", "async", "caller"}
_KEYS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": _COMMON | {"arguments", "call_id", "name", "namespace"},
    "custom_tool_call": _COMMON | {"input", "call_id", "name", "namespace"},
    "function_call_output": _COMMON | {"call_id", "output"},
    "custom_tool_call_output": _COMMON | {"call_id", "output"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
_PARTS = {
    "user": {"input_text", "input_image", "input_file", "input_audio"},
    "system": {"input_text", "input_image", "input_file"},
    "developer": {"input_text", "input_image", "input_file"},
    "assistant": {"output_text", "refusal"},
}

Declared = Callable[[str, set[str], str], None]


def check(request: Request, stored: Mapping[str, list[Json]], need_declared: Declared) -> list[Json]:
    """Judges a request, and returns its items, those before it too.

    Raises:
        RefusedError: It breaks a rule.
    """
    authorised(request, "authorization")
    body = mapping(request.body, "body")
    text(body.get("model"), "model")
    _check_tools(body)
    before = _before(body.get("previous_response_id"), stored)
    asked = body.get("input")
    if isinstance(asked, str):
        need(asked, "Invalid 'input': empty string.", param="input")
        asked = []
    for place, item in enumerate(sequence(asked, "input")):
        _check_item(mapping(item, f"input[{place}]"), f"input[{place}]")
    items = [*before, *asked]
    _check_pairs(items)
    declared = names(body)
    for place, item in enumerate(asked):
        if item.get("type") in _CALLS:
            need_declared(item["name"], declared, f"input[{place}]")
    return items


def check_reasoning(items: list[Json], issued: Mapping[str, str | None], thought_first: Mapping[str, str]) -> None:
    """What was thought comes back unchanged, and before the call that it led to.

    Raises:
        RefusedError: It was changed, or left out.
    """
    seen = set()
    for item in items:
        if item.get("type") == "reasoning":
            seen.add(item.get("id"))
            known_one = item.get("id") in issued and item.get("encrypted_content") == issued[item["id"]]
            message = f"The encrypted content for item {item.get('id')} could not be verified."
            need(known_one, message, code="invalid_encrypted_content")
        if item.get("type") in _CALLS and item.get("id") in thought_first:
            wanted = thought_first[item["id"]]
            named = f"Item '{item['id']}' of type '{item['type']}'"
            message = f"{named} was provided without its required 'reasoning' item: '{wanted}'."
            need(wanted in seen, message, param="input")


def names(body: Json) -> set[str]:
    """The names that a checked request declares, those of namespaces too; a hosted tool goes by its type."""
    return {tool.get("name", tool["type"]) for tool in _flat(body.get("tools") or ())}


def _flat(tools: Any) -> list[Json]:
    flat = []
    for tool in tools:
        flat.extend(tool["tools"] if tool["type"] == "namespace" else [tool])
    return flat


def _before(response_id: Json, stored: Mapping[str, list[Json]]) -> list[Json]:
    if response_id is None:
        return []
    if not isinstance(response_id, str) or response_id not in stored:
        message = f"Previous response with id '{response_id}' not found."
        raise RefusedError(message, param="previous_response_id", code="previous_response_not_found")
    return stored[response_id]


def _check_tools(body: dict[str, Any]) -> None:
    tools = [] if body.get("tools") is None else sequence(body["tools"], "tools")
    need_room(tools)
    for place, tool in enumerate(tools):
        _check_tool(mapping(tool, f"tools[{place}]"), f"tools[{place}]")
    one_each([tool["name"] for tool in tools if "name" in tool], "Duplicate tool name: '{}'.", param="tools")
    _check_choice(body.get("tool_choice"), names(body))


def _check_tool(tool: dict[str, Any], where: str) -> None:
    kind = text(tool.get("type"), f"{where}.type")
    optional_text(tool.get("name"), f"{where}.name")
    if kind == "function":
        known(
            tool,
            {
                "type",
                "name",
                "parameters",
                "strict",
                "description",
                "defer_loading",
                "allowed_callers",
                "output_schema",
            },
            where,
        )
        check_function(tool, where)
    elif kind == "custom":
        fits(tool.get("name"), NAME, f"{where}.name")
    elif kind == "namespace":
        text(tool.get("name"), f"{where}.name")
        text(tool.get("description"), f"{where}.description")
        inner = sequence(tool.get("tools"), f"{where}.tools")
        for place, one in enumerate(inner):
            _check_tool(mapping(one, f"{where}.tools[{place}]"), f"{where}.tools[{place}]")
        one_each([one.get("name") for one in inner], "Duplicate tool name: '{}'.", param=f"{where}.tools")


def _check_choice(choice: Json, declared: set[str]) -> None:
    if choice is None or choice in ("none", "auto", "required"):
        return
    kind = text(mapping(choice, "tool_choice").get("type"), "tool_choice.type")
    if kind == "allowed_tools":
        for tool in sequence(choice.get("tools"), "tool_choice.tools"):
            _check_choice(tool, declared)
        return
    named = kind in {"function", "custom"}
    choice_declared(choice.get("name") if named else kind, declared, "tool_choice.name" if named else "tool_choice")


def _check_item(item: dict[str, Any], where: str) -> None:
    kind = item.get("type", "message")
    need(isinstance(kind, str), f"Invalid type for '{where}.type': expected a string.", param=f"{where}.type")
    optional_text(item.get("id"), f"{where}.id")
    if kind in _KEYS:
        known(item, _KEYS[kind], where)
    if kind in _CALLS or kind in _OUTPUTS:
        text(item.get("call_id"), f"{where}.call_id")
    if kind in _CALLS:
        text(item.get("name"), f"{where}.name")
        key = _CALLS[kind]
        need(isinstance(item.get(key), str), f"Missing required parameter: '{where}.{key}'.", param=f"{where}.{key}")
    if kind in _OUTPUTS:
        _check_output(item.get("output"), f"{where}.output")
    if kind == "reasoning":
        sequence(item.get("summary"), f"{where}.summary")
    if kind == "message":
        _check_message(item, where)


def _check_output(output: Json, where: str) -> None:
    if isinstance(output, str):
        return
    for place, part in enumerate(sequence(output, where)):
        _check_part(part, {"input_text", "input_image", "input_file"}, f"{where}[{place}]")


def _check_message(item: dict[str, Any], where: str) -> None:
    role = text(item.get("role"), f"{where}.role")
    need(
        role in _ROLES,
        f"Invalid value: '{role}'. Supported values are: {', '.join(_ROLES)}.",
        param=f"{where}.role",
        code="invalid_value",
    )
    content = item.get("content")
    if isinstance(content, str):
        return
    for place, part in enumerate(sequence(content, f"{where}.content")):
        _check_part(part, _PARTS[role], f"{where}.content[{place}]")


def _check_part(part: Json, legal: set[str], where: str) -> None:
    kind = text(mapping(part, where).get("type"), f"{where}.type")
    message = f"Invalid value: '{kind}'. Supported values are: {', '.join(sorted(legal))}."
    need(kind in legal, message, param=f"{where}.type", code="invalid_value")


def _check_pairs(items: list[dict[str, Any]]) -> None:
    """Each output has its call before it, each call its output."""
    waiting: dict[str, str] = {}
    used: set[str] = set()
    for item in items:
        kind = item.get("type", "message")
        if kind in _CALLS:
            need(item.get("call_id") not in used, f"Duplicate call_id '{item.get('call_id')}'.", param="input")
            waiting[item.get("call_id")] = kind
            used.add(item.get("call_id"))
        elif kind in _OUTPUTS:
            legal = waiting.pop(item["call_id"], None) == _OUTPUTS[kind]
            need(
                legal, f"No tool call found for {kind.replace('_', ' ')} with call_id {item['call_id']}.", param="input"
            )
    if waiting:
        raise RefusedError(f"No tool output found for function call {next(iter(waiting))}.", param="input")
