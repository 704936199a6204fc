"""OpenAI's responses, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fake_vendors.server.format import Format
from fake_vendors.server.openai_chat import openai_error
from fake_vendors.server.script import Call, Error, Json, Reply, Search, Usage, sse

Event = dict[str, Any]
At = dict[str, Any]
"""Which item an event speaks of: `item_id` and `output_index`."""


def items(reply: Reply) -> list[Json]:
    """The items in one piece."""
    return [item for item, _, _ in _parts(reply)]


def events(reply: Reply) -> Iterator[Event]:
    """The items' events: added, their pieces, done."""
    index = -1
    for item, begun, pieces in _parts(reply):
        index += not (begun.get("same_index") and index >= 0)
        at = {"output_index": index}
        first = {key: value for key, value in begun.items() if key != "same_index"}
        yield {"type": "response.output_item.added", **at, "item": item | first}
        yield from pieces({**at, "item_id": item.get("id")})
        yield {"type": "response.output_item.done", **at, "item": item}


_Part = tuple[dict[str, Any], dict[str, Any], Callable[[At], Iterator[Event]]]
"""An item, what differs in it when it begins, and the events between."""


def _parts(reply: Reply) -> Iterator[_Part]:
    if reply.round.reasoning is not None:
        yield _reasoning(reply)
    for place, hosted in enumerate(reply.round.hosted):
        yield (
            _search(hosted, f"ws_{reply.number}_{place}")
            if isinstance(hosted, Search)
            else (dict(hosted), {}, _nothing)
        )
    if reply.round.said or reply.round.refusal:
        yield _message(reply)
    for place, (call, call_id) in enumerate(reply.calls("call_")):
        yield _call(reply, call, call_id, f"fc_{reply.number}_{place}")


def _nothing(at: At) -> Iterator[Event]:
    yield from ()


def _reasoning(reply: Reply) -> _Part:
    thought = reply.round.reasoning
    assert thought is not None
    summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    item = {"type": "reasoning", "id": f"rs_{reply.number}", "summary": summary}
    if thought.signature is not None:
        item["encrypted_content"] = thought.signature

    def pieces(at: At) -> Iterator[Event]:
        if not thought.text:
            return
        at = {**at, "summary_index": 0}
        kind = "response.reasoning_summary_"
        yield {"type": f"{kind}part.added", **at, "part": {"type": "summary_text", "text": ""}}
        for piece in reply.pieces(thought.text):
            yield {"type": f"{kind}text.delta", **at, "delta": piece}
        yield {"type": f"{kind}text.done", **at, "text": thought.text}
        yield {"type": f"{kind}part.done", **at, "part": summary[0]}

    return item, {"summary": []}, pieces


def _search(search: Search, item_id: str) -> _Part:
    sources = [{"type": "url", "url": page.url} for page in search.pages]
    action = {"type": "search", "query": search.query, "sources": sources}
    item = {"type": "web_search_call", "id": item_id, "status": "completed", "action": action}

    def pieces(at: At) -> Iterator[Event]:
        for step in ("in_progress", "searching", "completed"):
            yield {"type": f"response.web_search_call.{step}", **at}

    return item, {"status": "in_progress"}, pieces


def _message(reply: Reply) -> _Part:
    parts = [part for part in (_text_part(reply), _refusal_part(reply)) if part is not None]
    status = "incomplete" if reply.round.ending in {"length", "content_filter"} else "completed"
    item = {"type": "message", "id": f"msg_{reply.number}", "role": "assistant", "status": status, "content": parts}

    def pieces(at: At) -> Iterator[Event]:
        for index, part in enumerate(parts):
            yield from _part_events(reply, part, {**at, "content_index": index})

    return item, {"status": "in_progress", "content": []}, pieces


def _part_events(reply: Reply, part: Json, at: At) -> Iterator[Event]:
    key, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    extra = {"logprobs": []} if key == "text" else {}
    begun = part | {key: ""} | ({"annotations": []} if key == "text" else {})
    yield {"type": "response.content_part.added", **at, "part": begun}
    for piece in reply.text_pieces() if key == "text" else reply.pieces(part[key]):
        yield {"type": f"response.{kind}.delta", **at, **extra, "delta": piece}
    for number, annotation in enumerate(part.get("annotations", ())):
        yield {
            "type": "response.output_text.annotation.added",
            **at,
            "annotation_index": number,
            "annotation": annotation,
        }
    yield {"type": f"response.{kind}.done", **at, **extra, key: part[key]}
    yield {"type": "response.content_part.done", **at, "part": part}


def _text_part(reply: Reply) -> Json:
    if not reply.round.said:
        return None
    cited = [
        {"type": "url_citation", "url": at.url, "title": at.title, "start_index": at.start, "end_index": at.end}
        for at in reply.round.citations
    ]
    return {"type": "output_text", "text": reply.round.said, "annotations": cited}


def _refusal_part(reply: Reply) -> Json:
    return {"type": "refusal", "refusal": reply.round.refusal} if reply.round.refusal else None


def _call(reply: Reply, call: Call, call_id: str | None, item_id: str) -> _Part:
    key, kind, event = ("arguments", "function_call", "function_call_arguments")
    if call.freeform:
        key, kind, event = ("input", "custom_tool_call", "custom_tool_call_input")
    item = {"type": kind, "id": item_id, "name": call.name, key: call.text, "status": "completed"}
    if call_id is not None:
        item["call_id"] = call_id

    def pieces(at: At) -> Iterator[Event]:
        for piece in reply.argument_pieces(call):
            yield {"type": f"response.{event}.delta", **at, "delta": piece}
        yield {"type": f"response.{event}.done", **at, "name": call.name, key: call.text}

    return item, {key: "", "status": "in_progress", "same_index": call.same_index}, pieces


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class OpenAIResponses(Format):
    """`POST /v1/responses`."""

    exporter = "openai-responses"
    required = ("model", "input")
    # Those of namespaces, too; a hosted tool goes by its type.
    declared = "[tools[?type!='namespace'], tools[?type=='namespace'].tools[]][][].[name || type][]"
    called = "input[?type=='function_call' || type=='custom_tool_call'].name"
    chosen = "tool_choice.[tools || [@]][][].[name || type][]"

    def body(self, reply: Reply) -> Json:
        """A `response`."""
        return _response(reply, items(reply))

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
        yield from events(reply)
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
