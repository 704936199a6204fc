"""Bedrock's Converse, and what is refused of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fake_vendors.server.format import Format, authorised, choice_declared
from fake_vendors.server.script import (
    Citation,
    Error,
    Json,
    Reply,
    Request,
    Search,
    aws_message,
    fits,
    mapping,
    need,
    one_each,
    sequence,
)

NAME = "[a-zA-Z0-9_-]{1,64}"
USE_ID = "[a-zA-Z0-9_.:-]{1,64}"

_IN_RESULT = {"json", "text", "image", "document", "video", "searchResult"}

_TOO_SHORT = "Member must have length greater than or equal to 1"

Declared = Callable[[str, set[str], str], None]
Blocks = list[dict[str, Any]]


def check(request: Request, need_declared: Declared) -> None:
    """Judges a request.

    Raises:
        RefusedError: It breaks a rule.
    """
    authorised(request, "authorization")
    body = mapping(request.body, "body")
    _check_tools(body)
    messages = sequence(body.get("messages"), "messages")
    need(messages, "The messages field is required and must not be empty.")
    before = "assistant"
    for place, message in enumerate(messages):
        role = mapping(message, f"messages.{place}").get("role")
        need(role in ("user", "assistant") and role != before, _turn_taking(place, role))
        before = role
        for at, block in enumerate(sequence(message.get("content"), f"messages.{place}.content")):
            _check_block(mapping(block, f"messages.{place}.content.{at}"), f"messages.{place}.content.{at}")
    _check_pairs(messages)
    _check_called(body, messages, need_declared)


def names(body: Json) -> set[str]:
    """The names that a checked request declares."""
    return {tool[kind]["name"] for tool in _tools(body) for kind in ("toolSpec", "systemTool") if kind in tool}


def loop_start(messages: list[Json]) -> int:
    """Where the loop that is under way begins: behind the last message of the user's that holds no results."""
    plain = [
        place for place, message in enumerate(messages) if message["role"] == "user" and not _of(message, "toolResult")
    ]
    return plain[-1] if plain else 0


def _tools(body: dict[str, Any]) -> Blocks:
    return (body.get("toolConfig") or {}).get("tools") or []


def _of(message: Json, kind: str) -> Blocks:
    return [block[kind] for block in message["content"] if kind in block]


def _turn_taking(place: int, role: Json) -> str:
    if place == 0:
        start = "A conversation must start with a user message."
        return f"{start} Try again with a conversation that starts with a user message."
    return f"messages.{place}: roles must alternate between user and assistant, not {role!r} again."


def _check_tools(body: dict[str, Any]) -> None:
    config = body.get("toolConfig")
    if config is None:
        return
    tools = sequence(mapping(config, "toolConfig").get("tools"), "toolConfig.tools")
    need(
        tools,
        f"Value at 'toolConfig.tools' failed to satisfy constraint: {_TOO_SHORT}",
    )
    for place, tool in enumerate(tools):
        if "toolSpec" in mapping(tool, f"toolConfig.tools.{place}"):
            _check_tool(
                mapping(tool["toolSpec"], f"toolConfig.tools.{place}"), f"toolConfig.tools.{place}.member.toolSpec"
            )
    declared = [tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool]
    one_each(declared, "The toolConfig field contains the duplicate tool name '{}'.")
    choice = mapping(config.get("toolChoice") or {}, "toolConfig.toolChoice")
    if "tool" in choice:
        name = mapping(choice["tool"], "toolConfig.toolChoice.tool").get("name")
        choice_declared(name, names(body), "toolConfig.toolChoice.tool.name")


def _check_tool(spec: dict[str, Any], where: str) -> None:
    fits(spec.get("name"), NAME, f"{where}.name")
    described = spec.get("description") != ""
    need(
        described,
        f"Value at '{where}.description' failed to satisfy constraint: {_TOO_SHORT}",
    )
    schema = mapping(mapping(spec.get("inputSchema"), f"{where}.inputSchema").get("json"), f"{where}.inputSchema.json")
    need(
        schema.get("type") == "object",
        f"The value at {where}.inputSchema.json.type must be one of the following: object.",
    )


def _check_block(block: dict[str, Any], where: str) -> None:
    need(len(block) == 1, f"The ContentBlock object at {where} must set exactly one member.")
    if "text" in block:
        need(
            str(block["text"]).strip(),
            f"The text field in the ContentBlock object at {where} is blank. Add text to the text field and try again.",
        )
    if "toolUse" in block:
        use = mapping(block["toolUse"], f"{where}.toolUse")
        fits(use.get("toolUseId"), USE_ID, f"{where}.toolUse.toolUseId")
        fits(use.get("name"), NAME, f"{where}.toolUse.name")
        _need_object(use.get("input"), f"{where}.toolUse.input")
    if "toolResult" in block:
        _check_result(mapping(block["toolResult"], f"{where}.toolResult"), f"{where}.toolResult")


def _check_result(result: dict[str, Any], where: str) -> None:
    fits(result.get("toolUseId"), USE_ID, f"{where}.toolUseId")
    need(
        result.get("status") in (None, "success", "error"), f"Value at '{where}.status' must be one of: success, error"
    )
    for at, part in enumerate(sequence(result.get("content"), f"{where}.content")):
        kinds = set(mapping(part, f"{where}.content.{at}"))
        need(
            len(kinds) == 1 and kinds <= _IN_RESULT,
            f"The ToolResultContentBlock object at {where}.content.{at} must set exactly one member.",
        )
        _need_object(part.get("json", {}), f"{where}.content.{at}.json")


def _need_object(value: Json, where: str) -> None:
    message = f"The format of the value at {where} is invalid. Provide a json object for the field and try again."
    need(isinstance(value, dict), message)


def _check_pairs(messages: list[Json]) -> None:
    """The next turn answers every use once; those with a type are the provider's own, answered in their own turn."""
    waiting: list[str] = []
    for place, message in enumerate([*messages, {"role": "end", "content": []}]):
        answered = [result["toolUseId"] for result in _of(message, "toolResult") if result.get("type") is None]
        missing = [use_id for use_id in waiting if use_id not in answered]
        need(
            not missing,
            f"Expected toolResult blocks at messages.{place}.content for the following Ids: {', '.join(missing)}",
        )
        found = f"The number of toolResult blocks at messages.{place}.content"
        need(len(answered) <= len(waiting), f"{found} exceeds the number of toolUse blocks of previous turn.")
        waiting = [use["toolUseId"] for use in _of(message, "toolUse") if use.get("type") is None]
        need(
            not waiting or message["role"] == "assistant",
            f"messages.{place}.content: toolUse blocks belong in an assistant turn.",
        )
        one_each(waiting, f"The toolUse blocks at messages.{place}.content contain duplicate Ids: {{}}")


def _check_called(body: dict[str, Any], messages: list[Json], need_declared: Declared) -> None:
    declared = names(body)
    for place, message in enumerate(messages):
        uses = _of(message, "toolUse")
        used = uses or _of(message, "toolResult")
        need(
            not used or _tools(body),
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        )
        for use in uses:
            if use.get("type") is None:
                need_declared(use["name"], declared, f"messages.{place}.content")


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

    content_type = "application/vnd.amazon.eventstream"

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        super().__init__(undeclared_calls=undeclared_calls)
        self._thoughts: list[Json] = []
        self._thought_first: dict[str, Json] = {}

    def streamed(self, path: str, body: Json) -> bool:
        """By the path."""
        return path.endswith("/converse-stream")

    def check(self, request: Request) -> None:
        """Judges a request."""
        check(request, self.need_declared)
        self._check_thoughts(request.body["messages"])

    def declared(self, body: Json) -> set[str]:
        """The tools' names."""
        return names(body)

    def remember(self, reply: Reply) -> None:
        """Keeps what was thought, and before which call."""
        super().remember(reply)
        self._thoughts += [block for block, _, _, _ in _blocks(reply) if "reasoningContent" in block]
        thought = _thinking(reply)
        if thought is not None:
            self._thought_first |= {sent.id: thought for sent in reply.calls("tooluse_") if sent.id}

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

    def _check_thoughts(self, messages: list[Json]) -> None:
        """Reasoning comes back unchanged, and, in the loop that is under way, before the calls that it led to."""
        begun = loop_start(messages)
        for place, message in enumerate(messages):
            thoughts = [block for block in message["content"] if "reasoningContent" in block]
            for thought in thoughts:
                need(
                    self._raw_played or thought in self._thoughts,
                    f"messages.{place}.content: Invalid `signature` in `thinking` block",
                )
            wanted = [
                self._thought_first.get(block["toolUse"]["toolUseId"])
                for block in message["content"]
                if "toolUse" in block
            ]
            missing = place >= begun and any(one is not None and one not in thoughts for one in wanted)
            expected = f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`"
            need(not missing, f"{expected}, but found another block.")


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
    for sent in reply.calls("tooluse_"):
        begun = {"name": sent.call.name} | ({} if sent.id is None else {"toolUseId": sent.id})
        deltas = ({"toolUse": {"input": piece}} for piece in reply.argument_pieces(sent.call))
        yield {"toolUse": {**begun, "input": sent.call.value}}, {"toolUse": begun}, deltas, sent.call.same_index


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
