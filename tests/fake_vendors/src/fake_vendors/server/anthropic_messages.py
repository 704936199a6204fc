"""Anthropic's messages, and what is refused of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fake_vendors.server.format import Format, authorised, choice_declared
from fake_vendors.server.script import (
    Error,
    Json,
    RefusedError,
    Reply,
    Request,
    Search,
    fits,
    known,
    mapping,
    need,
    one_each,
    optional_text,
    sequence,
    sse,
    text,
)

NAME = "^[a-zA-Z0-9_-]{1,64}$"
PROPERTY = "^[a-zA-Z0-9_.-]{1,64}$"
MOST_STRICT = 20
"""Strict tools in one request."""

_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")
_IN_RESULT = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
_COMMON = {"type", "cache_control"}
_KEYS = {
    "text": _COMMON | {"text", "citations"},
    "image": _COMMON | {"source", "transformations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": _COMMON | {"id", "name", "input", "caller", "toolset_name"},
    "server_tool_use": _COMMON | {"id", "name", "input", "caller"},
    "tool_result": _COMMON | {"tool_use_id", "content", "is_error", "toolset_name"},
}

Declared = Callable[[str, set[str], str], None]
Blocks = list[dict[str, Any]]


def check(request: Request, need_declared: Declared) -> None:
    """Judges a request.

    Raises:
        RefusedError: It breaks a rule.
    """
    authorised(request, "x-api-key", "authorization")
    need(request.headers.get("anthropic-version"), "anthropic-version: header is required")
    body = mapping(request.body, "body")
    text(body.get("model"), "model")
    need(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    _check_tools(body)
    messages = sequence(body.get("messages"), "messages")
    need(messages, "messages: at least one message is required")
    for place, message in enumerate(messages):
        _check_message(mapping(message, f"messages.{place}"), place, last=place == len(messages) - 1)
    turns = _turns(messages)
    need(turns[0][1] == "user", 'messages: first message must use the "user" role')
    _check_pairs(turns)
    _check_called(body, turns, need_declared)


def names(body: Json) -> set[str]:
    """The names that a checked request declares."""
    return {tool["name"] for tool in body.get("tools") or () if "name" in tool}


def loop_start(messages: list[Json]) -> int:
    """Where the loop that is under way begins: behind the last message of the user's that holds no results."""
    plain = [
        place
        for place, message in enumerate(messages)
        if message["role"] == "user" and not _kinds(message, "tool_result")
    ]
    return plain[-1] if plain else 0


def _kinds(message: dict[str, Any], kind: str) -> Blocks:
    return [block for block in message["content"] if isinstance(block, dict) and block["type"] == kind]


def _check_tools(body: dict[str, Any]) -> None:
    choice = body.get("tool_choice")
    tools = sequence(body.get("tools") or [], "tools")
    need(choice is None or tools, "tool_choice: tool_choice may only be specified while providing tools.")
    for place, tool in enumerate(tools):
        _check_tool(mapping(tool, f"tools.{place}"), f"tools.{place}")
    one_each(
        [tool["name"] for tool in tools if "name" in tool], "tools: Tool names must be unique. '{}' is there twice."
    )
    deferred = bool(tools) and all(tool.get("defer_loading") for tool in tools)
    need(not deferred, "tools: At least one tool must have defer_loading=false.")
    strict = [tool for tool in tools if tool.get("strict")]
    need(
        len(strict) <= MOST_STRICT,
        f"tools: Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MOST_STRICT}.",
    )
    if choice is not None:
        _check_choice(body, mapping(choice, "tool_choice"))


def _check_choice(body: dict[str, Any], choice: dict[str, Any]) -> None:
    kind = choice.get("type")
    need(kind in ("auto", "any", "none", "tool"), "tool_choice.type: Input should be 'auto', 'any', 'none' or 'tool'")
    if kind == "tool":
        choice_declared(choice.get("name"), names(body), "tool_choice.name")
    thinks = mapping(body.get("thinking") or {}, "thinking").get("type") == "enabled"
    need(not (thinks and kind in ("any", "tool")), "Thinking may not be enabled when tool_choice forces tool use.")


def _check_tool(tool: dict[str, Any], where: str) -> None:
    if tool.get("type") not in (None, "custom"):
        optional_text(tool.get("name"), f"{where}.name")
        return
    fits(tool.get("name"), NAME, f"{where}.custom.name")
    schema = tool.get("input_schema")
    need(schema is not None, f"{where}.custom.input_schema: Field required")
    need(
        mapping(schema, f"{where}.custom.input_schema").get("type") == "object",
        f"{where}.custom.input_schema.type: Input should be 'object'",
    )
    combined = any(key in schema for key in ("oneOf", "allOf", "anyOf"))
    need(
        not combined,
        f"{where}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    )
    for name in mapping(schema.get("properties") or {}, f"{where}.custom.input_schema.properties"):
        fits(name, PROPERTY, f"{where}.custom.input_schema.properties")


def _check_message(message: dict[str, Any], place: int, *, last: bool) -> None:
    where = f"messages.{place}"
    known(message, {"role", "content"}, where)
    role = message.get("role")
    need(role in ("user", "assistant", "system"), f"{where}.role: Input should be 'user', 'assistant' or 'system'")
    content = message.get("content")
    need(isinstance(content, str | list), f"{where}.content: Field required")
    may_be_empty = last and role == "assistant"
    need(
        content or may_be_empty,
        f"{where}: all messages must have non-empty content except for the optional final assistant message",
    )
    for at, block in enumerate(content if isinstance(content, list) else ()):
        _check_block(mapping(block, f"{where}.content.{at}"), role, f"{where}.content.{at}")


def _check_block(block: dict[str, Any], role: str, where: str) -> None:
    kind = text(block.get("type"), f"{where}.type")
    if kind in _KEYS:
        known(block, _KEYS[kind], where)
    mine = {
        "tool_use": "assistant",
        "thinking": "assistant",
        "redacted_thinking": "assistant",
        "tool_result": "user",
        "image": "user",
    }
    need(mine.get(kind, role) == role, f"{where}: `{kind}` blocks are not allowed in `{role}` messages")
    if kind == "text":
        need(block.get("text"), f"{where}.text: text content blocks must be non-empty")
    if kind == "image":
        _check_image(block, where)
    if kind == "tool_use":
        fits(block.get("id"), "^[a-zA-Z0-9_-]+$", f"{where}.tool_use.id")
        fits(block.get("name"), NAME, f"{where}.tool_use.name")
        need(isinstance(block.get("input"), dict), f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result":
        _check_result(block, where)


def _check_result(block: dict[str, Any], where: str) -> None:
    text(block.get("tool_use_id"), f"{where}.tool_result.tool_use_id")
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    for at, part in enumerate(sequence(content, f"{where}.tool_result.content")):
        kind = mapping(part, f"{where}.content.{at}").get("type")
        need(
            kind in _IN_RESULT,
            f"{where}.tool_result.content.{at}: Input tag '{kind}' does not match any of the expected tags",
        )
        _check_block(part, "user", f"{where}.content.{at}")


def _check_image(block: dict[str, Any], where: str) -> None:
    source = mapping(block.get("source"), f"{where}.image.source")
    legal = source.get("type") != "base64" or source.get("media_type") in _MEDIA
    need(legal, f"{where}.image.source.base64.media_type: Input should be {', '.join(_MEDIA)}")


def _turns(messages: list[Json]) -> list[tuple[int, str, Blocks]]:
    """Messages of one role that stand side by side count as one turn."""
    turns: list[tuple[int, str, Blocks]] = []
    for place, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][1] == message["role"]:
            turns[-1][2].extend(blocks)
        else:
            turns.append((place, message["role"], list(blocks)))
    return turns


def _check_pairs(turns: list[tuple[int, str, Blocks]]) -> None:
    waiting: list[str] = []
    used: set[str] = set()
    for place, _, blocks in [*turns, (turns[-1][0] + 1, "end", [])]:
        _check_answers(waiting, blocks, place)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        one_each(waiting, f"messages.{place}: `tool_use` ids must be unique: {{}}")
        again = used.intersection(waiting)
        need(not again, f"messages.{place}: `tool_use` ids must be unique: {', '.join(again)}")
        used.update(waiting)
        _check_hosted(blocks, place)


def _check_answers(waiting: list[str], blocks: Blocks, place: int) -> None:
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for at, use_id in enumerate(answered):
        need(
            use_id in waiting,
            f"messages.{place}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {use_id}. "
            "Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
        )
    one_each(
        answered,
        f"messages.{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {{}}",
    )
    first = [block["type"] for block in blocks[: len(waiting)]]
    missing = [use_id for use_id in waiting if use_id not in answered] or (
        [] if set(first) <= {"tool_result"} else waiting
    )
    if missing:
        raise RefusedError(
            f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )


def _check_hosted(blocks: Blocks, place: int) -> None:
    """A search's result stands behind the search."""
    used = set()
    for block in blocks:
        if block["type"] == "server_tool_use":
            used.add(block.get("id"))
        if block["type"] == "web_search_tool_result":
            need(
                block.get("tool_use_id") in used,
                f"messages.{place}: `web_search_tool_result` without its `server_tool_use` block",
            )


def _check_called(body: dict[str, Any], turns: list[tuple[int, str, Blocks]], need_declared: Declared) -> None:
    declared = names(body)
    for place, _, blocks in turns:
        for block in blocks:
            if block["type"] not in {"tool_use", "tool_result"}:
                continue
            need(body.get("tools"), "Requests which include `tool_use` or `tool_result` blocks must define tools")
            if block["type"] == "tool_use":
                need_declared(block["name"], declared, f"messages.{place}.content")


_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_THOUGHTS = ("thinking", "redacted_thinking")
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

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        super().__init__(undeclared_calls=undeclared_calls)
        self._thoughts: list[Json] = []
        self._thought_first: dict[str, Json] = {}

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
        self._thoughts += [block for block, _, _ in _blocks(reply) if block["type"] in _THOUGHTS]
        thought = _thinking(reply)
        if thought is not None:
            self._thought_first |= {sent.id: thought for sent in reply.calls("toolu_") if sent.id}

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

    def _check_thoughts(self, messages: list[Json]) -> None:
        """Thinking comes back unchanged, and, in the loop that is under way, before the calls that it led to."""
        begun = loop_start(messages)
        for place, message in enumerate(messages):
            blocks = [block for block in message["content"] if isinstance(block, dict)]
            thoughts = [_bare(block) for block in blocks if block["type"] in _THOUGHTS]
            for thought in thoughts:
                kind = thought["type"]
                need(
                    self._raw_played or thought in self._thoughts,
                    f"messages.{place}.content: Invalid `signature` in `{kind}` block",
                )
            wanted = [self._thought_first.get(block["id"]) for block in blocks if block["type"] == "tool_use"]
            missing = place >= begun and any(one is not None and one not in thoughts for one in wanted)
            expected = f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`"
            need(not missing, f"{expected}, but found another block.")


def _bare(block: dict[str, Any]) -> Json:
    return {key: value for key, value in block.items() if key != "cache_control"}


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
    for sent in reply.calls("toolu_"):
        block = {"type": "tool_use", "name": sent.call.name, "input": sent.call.value}
        if sent.id is not None:
            block["id"] = sent.id
        deltas = _json_deltas(reply.argument_pieces(sent.call))
        yield block, deltas, sent.call.same_index


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
