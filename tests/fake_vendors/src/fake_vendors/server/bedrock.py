"""Bedrock's Converse, and what is refused of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fake_vendors.server.format import Format
from fake_vendors.server.script import Citation, Error, Json, Reply, Search, aws_message

_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
    "refusal": "content_filtered",
}
_ERRORS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


class Bedrock(Format):
    """`POST /model/{id}/converse` and `/converse-stream`."""

    exporter = "bedrock"
    required = ("messages",)
    declared = "toolConfig.tools[].[toolSpec, systemTool][].name"
    called = "messages[].content[].toolUse | [?!type].name"  # but for the provider's own tools, which have a type
    chosen = "toolConfig.toolChoice.tool.name"
    needs_tools = True
    content_type = "application/vnd.amazon.eventstream"

    def streamed(self, path: str, body: Json) -> bool:
        """By the path."""
        return path.endswith("/converse-stream")

    def body(self, reply: Reply) -> Json:
        """A `ConverseResponse`."""
        message = {"role": "assistant", "content": [block for block, _, _, _ in _blocks(reply)]}
        return {"output": {"message": message}, "stopReason": _finish(reply), **_metadata(reply)}

    def events(self, reply: Reply) -> Iterator[Json]:
        """Each event as `{event type: payload}`."""
        yield {"messageStart": {"role": "assistant"}}
        index = -1
        for _, begun, deltas, same_index in _blocks(reply):
            index += not (same_index and index >= 0)
            at = {"contentBlockIndex": index}
            if begun is not None:
                yield {"contentBlockStart": {"start": begun, **at}}
            for delta in deltas:
                yield {"contentBlockDelta": {"delta": delta, **at}}
            yield {"contentBlockStop": at}
        yield {"messageStop": {"stopReason": _finish(reply)}}
        yield {"metadata": _metadata(reply)}

    def frame(self, event: Json) -> bytes:
        """As a message of the AWS event stream."""
        [(kind, payload)] = event.items()
        headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
        return aws_message(headers, json.dumps(payload).encode())

    def error_body(self, error: Error) -> Json:
        """`{"message": ...}`; the kind stands in a header."""
        return {"message": error.text}

    def error_headers(self, error: Error) -> dict[str, str]:
        """The exception's name."""
        return {"x-amzn-errortype": f"{_exception(error)}:http://internal.amazon.com/", **super().error_headers(error)}

    def error_frame(self, error: Error) -> bytes:
        """An exception message."""
        name = _exception(error)
        kind = name[0].lower() + name[1:]
        headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
        return aws_message(headers, json.dumps(self.error_body(error)).encode())

    def headers(self, number: int) -> Mapping[str, str]:
        """Amazon's own header."""
        return {"x-amzn-requestid": f"req_{number}"}


def _exception(error: Error) -> str:
    return _ERRORS.get(error.status, "InternalServerException" if error.status >= 500 else "ValidationException")


def _finish(reply: Reply) -> str:
    return _FINISH.get(reply.round.ending, reply.round.ending)


def _metadata(reply: Reply) -> dict[str, Any]:
    usage = reply.round.usage
    tokens = {"inputTokens": usage.input, "outputTokens": usage.output, "totalTokens": usage.input + usage.output}
    return {"usage": {**tokens, "cacheReadInputTokens": usage.cached}, "metrics": {"latencyMs": 1}}


_Block = tuple[Json, Json | None, Iterator[Json], bool]
"""A block, how it begins in a stream, its deltas, and whether it is streamed under the index of the block before."""


def _blocks(reply: Reply) -> Iterator[_Block]:
    thought = _thinking(reply)
    if thought is not None:
        yield thought, None, _thinking_deltas(reply, thought["reasoningContent"]), False
    for hosted in reply.round.hosted:
        if not isinstance(hosted, Search):
            yield dict(hosted), None, iter(()), False
    if reply.round.said:
        yield _text(reply), None, _text_deltas(reply), False
    if reply.round.refusal:
        yield (
            {"text": reply.round.refusal},
            None,
            ({"text": piece} for piece in reply.pieces(reply.round.refusal)),
            False,
        )
    for call, call_id in reply.calls("tooluse_"):
        begun = {"name": call.name} | ({} if call_id is None else {"toolUseId": call_id})
        deltas = ({"toolUse": {"input": piece}} for piece in reply.argument_pieces(call))
        yield {"toolUse": {**begun, "input": call.value}}, {"toolUse": begun}, deltas, call.same_index


def _thinking(reply: Reply) -> Json:
    thought = reply.round.reasoning
    if thought is None:
        return None
    if thought.redacted:
        return {"reasoningContent": {"redactedContent": thought.signature or ""}}
    signed = {} if thought.signature is None else {"signature": thought.signature}
    return {"reasoningContent": {"reasoningText": {"text": thought.text, **signed}}}


def _thinking_deltas(reply: Reply, content: Json) -> Iterator[Json]:
    if "redactedContent" in content:
        yield {"reasoningContent": content}
        return
    thought = content["reasoningText"]
    for piece in reply.pieces(thought["text"]):
        yield {"reasoningContent": {"text": piece}}
    if "signature" in thought:
        yield {"reasoningContent": {"signature": thought["signature"]}}


def _text(reply: Reply) -> Json:
    if not reply.round.citations:
        return {"text": reply.round.said}
    cited = [_citation(citation) for citation in reply.round.citations]
    return {"citationsContent": {"content": [{"text": reply.round.said}], "citations": cited}}


def _text_deltas(reply: Reply) -> Iterator[Json]:
    for piece in reply.text_pieces():
        yield {"text": piece}
    for citation in reply.round.citations:
        yield {"citation": _citation(citation)}


def _citation(citation: Citation) -> Json:
    return {
        "title": citation.title,
        "sourceContent": [{"text": citation.text}],
        "location": {"web": {"url": citation.url}},
    }
