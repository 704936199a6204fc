"""What Anthropic messages refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model_server.format import authorised, choice_declared
from model_server.refused import RefusedError, fits, known, mapping, need, one_each, optional_text, sequence, text
from model_server.request import Request
from model_server.script import Json

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
