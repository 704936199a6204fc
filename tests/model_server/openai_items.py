"""The output items of an OpenAI response, whole and as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from model_server.reply import Reply, Sent
from model_server.script import Json, Search

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
    for place, sent in enumerate(reply.calls("call_")):
        yield _call(reply, sent, f"fc_{reply.number}_{place}")


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


def _call(reply: Reply, sent: Sent, item_id: str) -> _Part:
    key, kind, event = ("arguments", "function_call", "function_call_arguments")
    if sent.call.freeform:
        key, kind, event = ("input", "custom_tool_call", "custom_tool_call_input")
    item = {"type": kind, "id": item_id, "name": sent.call.name, key: sent.call.text, "status": "completed"}
    if sent.id is not None:
        item["call_id"] = sent.id
    if sent.call.namespace is not None:
        item["namespace"] = sent.call.namespace

    def pieces(at: At) -> Iterator[Event]:
        for piece in reply.argument_pieces(sent.call):
            yield {"type": f"response.{event}.delta", **at, "delta": piece}
        yield {"type": f"response.{event}.done", **at, "name": sent.call.name, key: sent.call.text}

    return item, {key: "", "status": "in_progress", "same_index": sent.call.same_index}, pieces
