"""What the server refuses of Ollama's.

Ollama itself takes nearly everything; its own rules are the required fields and that arguments are an object. The rest
(names, pairs) are the rules that the other providers share, so that a client that breaks them is found out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model_server.refused import mapping, need, one_each, sequence, text
from model_server.request import Request
from model_server.script import Json

_ROLES = ("system", "user", "assistant", "tool")

Declared = Callable[[str, set[str], str], None]


def check(request: Request, need_declared: Declared) -> None:
    """Judges a request.

    Raises:
        RefusedError: It breaks a rule.
    """
    body = mapping(request.body, "body")
    text(body.get("model"), "model")
    for place, tool in enumerate(sequence(body.get("tools") or [], "tools")):
        _check_tool(mapping(tool, f"tools[{place}]"), f"tools[{place}]")
    one_each([tool["function"]["name"] for tool in body.get("tools") or ()], "duplicate tool name: {}")
    messages = sequence(body.get("messages"), "messages")
    need(messages, "messages: at least one is required")
    for place, message in enumerate(messages):
        _check_message(mapping(message, f"messages[{place}]"), f"messages[{place}]")
    _check_pairs(messages)
    declared = names(body)
    for place, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            need_declared(call["function"]["name"], declared, f"messages[{place}]")


def names(body: Json) -> set[str]:
    """The names that a checked request declares."""
    return {tool["function"]["name"] for tool in body.get("tools") or ()}


def _check_tool(tool: dict[str, Any], where: str) -> None:
    need(tool.get("type") == "function", f"{where}.type: 'function' is required")
    function = mapping(tool.get("function"), f"{where}.function")
    text(function.get("name"), f"{where}.function.name")
    mapping(function.get("parameters") or {}, f"{where}.function.parameters")


def _check_message(message: dict[str, Any], where: str) -> None:
    role = message.get("role")
    need(role in _ROLES, f"{where}.role: invalid role {role!r}")
    need(
        isinstance(message.get("content", ""), str),
        f"json: cannot unmarshal into Go struct field {where}.content of type string",
    )
    for image in sequence(message.get("images") or [], f"{where}.images"):
        text(image, f"{where}.images")
    for call in sequence(message.get("tool_calls") or [], f"{where}.tool_calls"):
        function = mapping(mapping(call, f"{where}.tool_calls").get("function"), f"{where}.tool_calls.function")
        text(function.get("name"), f"{where}.tool_calls.function.name")
        fit = isinstance(function.get("arguments"), dict)
        need(
            fit,
            "json: cannot unmarshal into Go struct field .tool_calls.function.arguments "
            "of type api.ToolCallFunctionArguments",
        )


def _check_pairs(messages: list[Json]) -> None:
    waiting: list[str] = []
    for place, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            need(waiting, f"messages[{place}]: a tool message that no call waits for")
            asked = waiting.pop(0)
            name = message.get("tool_name", asked)
            need(name == asked, f"messages[{place}]: '{asked}' is answered by '{name}'")
            continue
        need(not waiting, f"messages[{place}]: no tool message for {', '.join(waiting)}")
        waiting = [call["function"]["name"] for call in message.get("tool_calls") or ()]
