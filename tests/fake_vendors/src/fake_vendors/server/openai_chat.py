"""OpenAI's chat completions, and what is refused of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fake_vendors.server.format import Format
from fake_vendors.server.script import Call, Error, Json, Reply, Usage


def openai_error(error: Error) -> Json:
    """An error body of OpenAI's."""
    kinds = {
        401: ("invalid_request_error", "invalid_api_key"),
        403: ("invalid_request_error", "unsupported_country_region_territory"),
        429: ("requests", "rate_limit_exceeded"),
    }
    kind, code = kinds.get(error.status, ("server_error" if error.status >= 500 else "invalid_request_error", None))
    return {"error": {"message": error.text, "type": kind, "param": None, "code": code}}


_FINISH = {"refusal": "stop"}


class OpenAIChat(Format):
    """`POST /v1/chat/completions`."""

    exporter = "openai"
    declared = "tools[].[function, custom][].name"
    called = "messages[].tool_calls[].[function, custom][].name"
    chosen = "tool_choice.[[@], allowed_tools.tools][][].[function, custom][].name"
    end = b"data: [DONE]\n\n"

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
            message["tool_calls"] = [_tool_call(call, call_id, call.text) for call, call_id in reply.calls("call_")]
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
    for call, call_id in reply.calls("call_"):
        index += not (call.same_index and index >= 0)
        yield {"tool_calls": [{"index": index, **_tool_call(call, call_id, "")}]}
        key, text = ("custom", "input") if call.freeform else ("function", "arguments")
        for piece in reply.argument_pieces(call):
            yield {"tool_calls": [{"index": index, key: {text: piece}}]}


def _tool_call(call: Call, call_id: str | None, text: str) -> dict[str, Any]:
    named = {} if call_id is None else {"id": call_id}
    if call.freeform:
        return {**named, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {**named, "type": "function", "function": {"name": call.name, "arguments": text}}


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
