"""Anthropic's messages, and what is refused of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fake_vendors.server.format import Format
from fake_vendors.server.script import Error, Json, Reply, Request, Search, need, sse

_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicMessages(Format):
    """`POST /v1/messages`."""

    exporter = "anthropic"
    required = ("model", "max_tokens", "messages")
    credentials = ("x-api-key", "authorization")
    declared = "tools[].name"
    called = "messages[].content[] | [?type=='tool_use'].name"
    chosen = "tool_choice.name"
    needs_tools = True

    def check(self, request: Request) -> None:
        """Judges a request."""
        super().check(request)
        need(request.headers.get("anthropic-version"), "anthropic-version: header is required")
        forces = (request.body.get("tool_choice") or {}).get("type") in ("any", "tool")
        thinks = (request.body.get("thinking") or {}).get("type") == "enabled"
        need(not (forces and thinks), "Thinking may not be enabled when tool_choice forces tool use.")

    def body(self, reply: Reply) -> Json:
        """A `message`."""
        return _message(reply) | {"content": [block for block, _, _ in _blocks(reply)]} | _stop(reply)

    def events(self, reply: Reply) -> Iterator[Json]:
        """`message_start`, a ping, each block's events, `message_delta`, `message_stop`."""
        begun = _message(reply)
        begun["usage"] = begun["usage"] | {"output_tokens": 1}
        yield {"type": "message_start", "message": begun}
        yield {"type": "ping"}
        index = -1
        for block, deltas, same_index in _blocks(reply):
            index += not (same_index and index >= 0)
            yield {"type": "content_block_start", "index": index, "content_block": _begun(block)}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": _stop(reply), "usage": {"output_tokens": reply.round.usage.output}}
        yield {"type": "message_stop"}

    def frame(self, event: Json) -> bytes:
        """With its type as its name."""
        return sse(event, event.get("type"))

    def error_body(self, error: Error) -> Json:
        """`{"type": "error", "error": {type, message}}`."""
        kind = _ERRORS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": error.text}, "request_id": "req_error"}

    def headers(self, number: int) -> Mapping[str, str]:
        """Anthropic's own header."""
        return {"request-id": f"req_{number}"}


def _message(reply: Reply) -> dict[str, Any]:
    usage = reply.round.usage
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input - usage.cached,
            "output_tokens": usage.output,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
        },
    }


def _stop(reply: Reply) -> dict[str, Any]:
    stop: dict[str, Any] = {"stop_reason": _FINISH.get(reply.round.ending, reply.round.ending), "stop_sequence": None}
    if reply.round.refusal:
        stop["stop_details"] = {"type": "refusal", "explanation": reply.round.refusal}
    return stop


_Block = tuple[dict[str, Any], Iterator[Json], bool]
"""A block, its deltas, and whether it is streamed under the index of the block before."""


def _blocks(reply: Reply) -> Iterator[_Block]:
    thought = _thinking(reply)
    if thought is not None:
        yield thought, _thinking_deltas(reply, thought), False
    for place, hosted in enumerate(reply.round.hosted):
        yield from _search(reply, hosted, f"srvtoolu_{reply.number}_{place}")
    if reply.round.said:
        yield _text(reply), _text_deltas(reply), False
    for call, call_id in reply.calls("toolu_"):
        block = {"type": "tool_use", "name": call.name, "input": call.value}
        if call_id is not None:
            block["id"] = call_id
        deltas = _json_deltas(reply.argument_pieces(call))
        yield block, deltas, call.same_index


def _begun(block: dict[str, Any]) -> Json:
    """The block as it stands when it begins: what comes in deltas is still empty."""
    empty = {
        "thinking": {"thinking": "", "signature": ""},
        "text": {"text": ""} | ({"citations": []} if "citations" in block else {}),
        "tool_use": {"input": {}},
        "server_tool_use": {"input": {}},
    }
    return block | empty.get(block["type"], {})


def _thinking(reply: Reply) -> Json:
    thought = reply.round.reasoning
    if thought is None:
        return None
    if thought.redacted:
        return {"type": "redacted_thinking", "data": thought.signature or ""}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature or ""}


def _thinking_deltas(reply: Reply, thought: Json) -> Iterator[Json]:
    if thought["type"] == "redacted_thinking":
        return
    for piece in reply.pieces(thought["thinking"]):
        yield {"type": "thinking_delta", "thinking": piece}
    yield {"type": "signature_delta", "signature": thought["signature"]}


def _text(reply: Reply) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": reply.round.said}
    if reply.round.citations:
        block["citations"] = _citations(reply)
    return block


def _text_deltas(reply: Reply) -> Iterator[Json]:
    for piece in reply.text_pieces():
        yield {"type": "text_delta", "text": piece}
    for citation in _citations(reply):
        yield {"type": "citations_delta", "citation": citation}


def _citations(reply: Reply) -> list[Json]:
    kind = "web_search_result_location"
    return [
        {"type": kind, "url": at.url, "title": at.title, "cited_text": at.text, "encrypted_index": f"index_{at.url}"}
        for at in reply.round.citations
    ]


def _json_deltas(pieces: Iterator[str]) -> Iterator[Json]:
    yield {"type": "input_json_delta", "partial_json": ""}
    for piece in pieces:
        yield {"type": "input_json_delta", "partial_json": piece}


def _search(reply: Reply, hosted: Search | Mapping[str, Json], use_id: str) -> Iterator[_Block]:
    if not isinstance(hosted, Search):
        yield dict(hosted), iter(()), False
        return
    use = {"type": "server_tool_use", "id": use_id, "name": "web_search", "input": {"query": hosted.query}}
    yield use, _json_deltas(reply.pieces(json.dumps(use["input"]))), False
    pages = [
        {
            "type": "web_search_result",
            "url": page.url,
            "title": page.title,
            "encrypted_content": f"content_{page.url}",
            "page_age": None,
        }
        for page in hosted.pages
    ]
    yield {"type": "web_search_tool_result", "tool_use_id": use_id, "content": pages}, iter(()), False
