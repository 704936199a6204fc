"""Ollama's chat, and what is refused of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from fake_vendors.server.format import Format
from fake_vendors.server.script import (
    Call,
    Error,
    Json,
    Reply,
    Request,
    json_line,
    mapping,
    need,
    one_each,
    sequence,
    text,
)

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


_FINISH = {"tool_calls": "stop", "refusal": "stop", "content_filter": "stop"}


class Ollama(Format):
    """`POST /api/chat`; streamed unless the client says no."""

    content_type: ClassVar[str] = "application/x-ndjson"

    def streamed(self, path: str, body: Json) -> bool:
        """Unless `stream` is false."""
        return isinstance(body, dict) and body.get("stream", True) is not False

    def check(self, request: Request) -> None:
        """Judges a request."""
        check(request, self.need_declared)

    def declared(self, body: Json) -> set[str]:
        """The tools' names."""
        return names(body)

    def body(self, reply: Reply) -> Json:
        """The answer in one object."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.round.said + reply.round.refusal}
        if reply.round.reasoning is not None:
            message["thinking"] = reply.round.reasoning.text
        if reply.round.calls:
            message["tool_calls"] = [_tool_call(call, place) for place, call in enumerate(reply.round.calls)]
        return _line(reply, message) | _done(reply)

    def events(self, reply: Reply) -> Iterator[Json]:
        """A line for each piece, the last with `done`."""
        for piece in reply.pieces(reply.round.reasoning.text if reply.round.reasoning is not None else ""):
            yield _line(reply, {"role": "assistant", "content": "", "thinking": piece})
        for piece in [*reply.text_pieces(), *reply.pieces(reply.round.refusal)]:
            yield _line(reply, {"role": "assistant", "content": piece})
        for place, call in enumerate(reply.endless_calls()):
            yield _line(reply, {"role": "assistant", "content": "", "tool_calls": [_tool_call(call, place)]})
        yield _line(reply, {"role": "assistant", "content": ""}) | _done(reply)

    def frame(self, event: Json) -> bytes:
        """As a line."""
        return json_line(event)

    def error_body(self, error: Error) -> Json:
        """`{"error": ...}`."""
        return {"error": error.text}


def _line(reply: Reply, message: dict[str, Any]) -> dict[str, Any]:
    return {"model": reply.model, "created_at": "2026-11-01T12:00:00Z", "message": message, "done": False}


def _done(reply: Reply) -> dict[str, Any]:
    usage = reply.round.usage
    reason = _FINISH.get(reply.round.ending, reply.round.ending)
    return {"done": True, "done_reason": reason, "prompt_eval_count": usage.input, "eval_count": usage.output}


def _tool_call(call: Call, place: int) -> Json:
    named = {"id": call.id} if call.id else {}
    return {**named, "function": {"index": place, "name": call.name, "arguments": call.value}}
