"""OpenAI responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model_server import openai_items, openai_responses_rules
from model_server.format import Format
from model_server.framing import sse
from model_server.openai_tools import openai_error, openai_refusal
from model_server.refused import RefusedError
from model_server.reply import Reply
from model_server.request import Request
from model_server.script import Error, Json, Usage

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class OpenAIResponses(Format):
    """`POST /v1/responses`."""

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        super().__init__(undeclared_calls=undeclared_calls)
        self._stored: dict[str, list[Json]] = {}
        self._reasoning: dict[str, str | None] = {}
        self._thought_first: dict[str, str] = {}

    def check(self, request: Request) -> None:
        """Judges a request, together with the earlier ones that it goes on from."""
        items = openai_responses_rules.check(request, self._stored, self.need_declared)
        if not self._raw_played:
            openai_responses_rules.check_reasoning(items, self._reasoning, self._thought_first)

    def declared(self, body: Json) -> set[str]:
        """The tools' names."""
        return openai_responses_rules.names(body)

    def remember(self, reply: Reply) -> None:
        """Keeps the conversation for `previous_response_id`, and what was thought before which call."""
        super().remember(reply)
        items = openai_items.items(reply)
        body = reply.request.body
        before = self._stored.get(body.get("previous_response_id") or "", [])
        asked = body["input"] if isinstance(body["input"], list) else []
        self._stored[_id(reply)] = [*before, *asked, *items]
        thought = [item for item in items if item["type"] == "reasoning"]
        self._reasoning |= {item["id"]: item.get("encrypted_content") for item in thought}
        calls = [item for item in items if item["type"] in {"function_call", "custom_tool_call"}]
        self._thought_first |= {item["id"]: thought[0]["id"] for item in calls if thought}

    def body(self, reply: Reply) -> Json:
        """A `response`."""
        return _response(reply, openai_items.items(reply))

    def events(self, reply: Reply) -> Iterator[Json]:
        """`response.created`, each item's events, `response.completed` or `response.incomplete`."""
        for number, event in enumerate(self._events(reply)):
            yield event | {"sequence_number": number}

    def frame(self, event: Json) -> bytes:
        """With its type as its name."""
        return sse(event, event.get("type"))

    def error_body(self, error: Error) -> Json:
        """`{"error": {message, type, param, code}}`."""
        return openai_error(error)

    def refusal_body(self, refused: RefusedError) -> Json:
        """The same, with the path to the bad field."""
        return openai_refusal(refused)

    def error_frame(self, error: Error) -> bytes:
        """An `error` event."""
        said = openai_error(error)["error"]
        return self.frame(
            {**said, "type": "error", "code": said["code"] or said["type"], "sequence_number": error.after}
        )

    def _events(self, reply: Reply) -> Iterator[dict[str, Any]]:
        begun = _response(reply, []) | {"status": "in_progress", "usage": None, "completed_at": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        yield from openai_items.events(reply)
        done = self.body(reply)
        yield {"type": f"response.{done['status']}", "response": done}


def _id(reply: Reply) -> str:
    return f"resp_{reply.number}"


def _response(reply: Reply, items: list[Json]) -> dict[str, Any]:
    reason = _INCOMPLETE.get(reply.round.ending)
    body = reply.request.body
    return {
        "id": _id(reply),
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": None if reason else 1_700_000_001,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": reply.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": _usage(reply.round.usage),
    }


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
