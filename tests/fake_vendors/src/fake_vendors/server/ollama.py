"""Ollama's chat, and what is refused of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from fake_vendors.server.format import Format
from fake_vendors.server.script import Call, Error, Json, Reply, Request, json_line

_FINISH = {"tool_calls": "stop", "refusal": "stop", "content_filter": "stop"}


class Ollama(Format):
    """`POST /api/chat`; streamed unless the client says no."""

    exporter = "ollama"
    declared = "tools[].function.name"
    called = "messages[].tool_calls[].function.name"
    chosen = "null"
    content_type: ClassVar[str] = "application/x-ndjson"

    def streamed(self, path: str, body: Json) -> bool:
        """Unless `stream` is false."""
        return isinstance(body, dict) and body.get("stream", True) is not False

    def authorise(self, request: Request) -> None:
        """Anyone may ask."""

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
