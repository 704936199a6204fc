"""Gemini, and what is refused of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fake_vendors.server.format import Format
from fake_vendors.server.script import Call, Error, Json, Reply, Request, Search, Usage, need

_FINISH = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini(Format):
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent?alt=sse`."""

    exporter = "gemini"
    required = ("contents",)
    credentials = ("x-goog-api-key", "authorization")
    declared = "tools[].functionDeclarations[].name"
    called = "contents[].parts[].functionCall.name"
    chosen = "toolConfig.functionCallingConfig.allowedFunctionNames"

    def streamed(self, path: str, body: Json) -> bool:
        """By the path."""
        return path.endswith(":streamGenerateContent")

    def authorise(self, request: Request) -> None:
        """By a header, or in the query."""
        if "key=" not in request.query:
            super().authorise(request)

    def check(self, request: Request) -> None:
        """Judges a request."""
        super().check(request)
        config = (request.body.get("toolConfig") or {}).get("functionCallingConfig") or {}
        fit = not config.get("allowedFunctionNames") or config.get("mode") in ("ANY", "VALIDATED")
        need(fit, "allowed_function_names is set, but the mode is neither ANY nor VALIDATED.")

    def body(self, reply: Reply) -> Json:
        """A `GenerateContentResponse`."""
        return _response(reply, list(_parts(reply)), last=True)

    def events(self, reply: Reply) -> Iterator[Json]:
        """`GenerateContentResponse`s; the last has finish reason and grounding."""
        for part in _stream_parts(reply):
            yield _response(reply, [part], last=False)
        yield _response(reply, [], last=True)

    def error_body(self, error: Error) -> Json:
        """`{"error": {code, message, status, details}}`."""
        status = _STATUS.get(error.status, "UNKNOWN")
        said: dict[str, Any] = {"code": error.status, "message": error.text, "status": status}
        if error.retry_after is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            said["details"] = [{"@type": kind, "retryDelay": f"{error.retry_after:g}s"}]
        return {"error": said}


def _response(reply: Reply, parts: list[Json], *, last: bool) -> Json:
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content["parts"] = parts
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if last:
        candidate["finishReason"] = _FINISH.get(reply.round.ending, reply.round.ending)
        if reply.round.refusal:
            candidate["finishMessage"] = reply.round.refusal
        grounding = _grounding(reply)
        if grounding:
            candidate["groundingMetadata"] = grounding
    model = reply.request.path.rpartition("/")[2].partition(":")[0]
    usage = _usage(reply.round.usage)
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": f"response_{reply.number}",
    }


def _parts(reply: Reply) -> Iterator[dict[str, Any]]:
    yield from _before_text(reply)
    if reply.round.said:
        yield {"text": reply.round.said} | _on_text(reply)
    for call in reply.round.calls:
        yield _call_part(reply, call)


def _stream_parts(reply: Reply) -> Iterator[dict[str, Any]]:
    yield from _before_text(reply)
    pieces = list(reply.text_pieces())
    for place, piece in enumerate(pieces, 1):
        yield {"text": piece} | (_on_text(reply) if place == len(pieces) else {})
    for call in reply.endless_calls():
        yield _call_part(reply, call)


def _before_text(reply: Reply) -> Iterator[dict[str, Any]]:
    thought = reply.round.reasoning
    if thought is not None and thought.text:
        yield {"text": thought.text, "thought": True}
    for hosted in reply.round.hosted:
        if not isinstance(hosted, Search):
            yield dict(hosted)


def _on_text(reply: Reply) -> dict[str, Any]:
    """Without calls the text carries the signature."""
    thought = reply.round.reasoning
    alone = not reply.round.calls and thought is not None and thought.signature is not None
    return {"thoughtSignature": thought.signature} if alone and thought is not None else {}


def _call_part(reply: Reply, call: Call) -> dict[str, Any]:
    made = {"name": call.name, "args": call.value} | ({"id": call.id} if call.id else {})
    thought = reply.round.reasoning
    signature = call.signature
    if signature is None and thought is not None and call is reply.round.calls[0]:
        signature = thought.signature
    return {"functionCall": made} | ({} if signature is None else {"thoughtSignature": signature})


def _grounding(reply: Reply) -> dict[str, Any]:
    searches = [hosted for hosted in reply.round.hosted if isinstance(hosted, Search)]
    cited = reply.round.citations
    pages = [*cited, *(page for search in searches for page in search.pages)]
    if not searches and not cited:
        return {}
    supports = [
        {"segment": _segment(reply.round.said, at.start, at.end), "groundingChunkIndices": [place]}
        for place, at in enumerate(cited)
    ]
    chunks = [{"web": {"uri": page.url, "title": page.title}} for page in pages]
    return {
        "webSearchQueries": [search.query for search in searches],
        "groundingChunks": chunks,
        "groundingSupports": supports,
    }


def _segment(said: str, start: int, end: int) -> Json:
    """Gemini counts bytes."""
    offsets = {"startIndex": len(said[:start].encode()), "endIndex": len(said[:end].encode())}
    return {**offsets, "text": said[start:end]}


def _usage(usage: Usage) -> Json:
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    }
