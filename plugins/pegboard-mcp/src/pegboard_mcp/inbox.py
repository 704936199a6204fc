"""What a server sends, before the SDK reads it: the limit of its rate, and repairs of what is almost MCP."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from pegboard_mcp.definitions import object_schema

MOST_AT_ONCE: Final = 10_000
"""Messages that a server may send in a burst; with more, its connection ends."""

A_SECOND: Final = 500
"""Messages that it may send a second, after a burst."""

MOST_LEVELS: Final = 190
"""Nesting levels of a message: slightly fewer than pydantic reads, and far more than a schema may have."""

_MOST_LAST_WORDS: Final = 20
_CONTENT_TYPES: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


class BrokenServerError(Exception):
    """The server broke a rule of the protocol, or a limit, so that its connection was ended."""


@define(eq=False)
class Inbox:
    """Filter for a server's messages, before the SDK reads them.

    It extracts the definitions of a `tools/list`, and leaves a stub of each: the SDK refuses a whole page for one
    bad tool, and validates results by schemas that aren't checked yet.

    Attributes:
        ended: Set at the end of the messages.
        broken: Why the connection was ended, or `None`.
        is_ready: Whether the handshake and the first list are done; before, closing doesn't wait for the server.
        definitions: The definitions of the tools listed since it was cleared, as the server wrote them.
        last_words: The last lines that the process wrote to standard error.
        written: How many messages were written to the process.
    """

    ended: asyncio.Event = field(factory=asyncio.Event)
    broken: str | None = None
    is_ready: bool = False
    definitions: list[Any] = field(factory=list[Any])
    last_words: deque[str] = field(factory=lambda: deque[str](maxlen=_MOST_LAST_WORDS))
    written: int = 0
    _left: float = field(default=MOST_AT_ONCE, init=False)
    _seen: float = field(factory=time.monotonic, init=False)

    def take(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """The item for the SDK.

        Raises:
            BrokenServerError: There are too many.
        """
        now, before = time.monotonic(), self._seen
        self._seen, self._left = now, min(self._left + (now - before) * A_SECOND, MOST_AT_ONCE) - 1
        if self._left < 0:
            raise BrokenServerError(f"it sent {MOST_AT_ONCE:,} messages, and more than {A_SECOND} a second")
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            self._take_result(item.message.result)
        return item

    def _take_result(self, result: dict[str, Any]) -> None:
        """Changes a result so that the SDK reads it."""
        for key in [key for key, value in result.items() if value is None]:
            del result[key]  # some servers write null for what they leave out, as in "isError"
        listed: Any = result.get("tools")
        if isinstance(listed, list):
            self.definitions += listed
            result["tools"] = _stubs(cast("list[Any]", listed))
        if "content" not in result and result.keys() & {"structuredContent", "isError"}:
            result["content"] = []  # some servers leave it out
        elif isinstance(content := result.get("content"), list):
            result["content"] = [_content_or_text(each) for each in cast("list[Any]", content)]


def _content_or_text(item: Any) -> Any:
    """An item of a result; one of a type that MCP doesn't have as text, or the SDK would refuse the whole result."""
    facts = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    if not isinstance(kind := facts.get("type"), str) or kind in _CONTENT_TYPES:
        return cast("Any", item)
    text = facts.get("text")
    return {"type": "text", "text": text if isinstance(text, str) else f"(content of the unknown type {kind!r})"}


def _stubs(listed: list[Any]) -> list[dict[str, Any]]:
    """The parts of each tool that the SDK needs: its name, and its parameters, which may go into headers."""
    stubs: list[dict[str, Any]] = []
    for each in listed:
        facts = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if isinstance(name := facts.get("name"), str):
            with suppress(ValueError, RecursionError):
                given: Any = object_schema(facts.get("inputSchema")).get("properties")
                table = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
                schema = {
                    "type": "object",
                    "properties": {key: table[key] for key in table if type(table[key]) is dict},
                }
                stubs.append({"name": name, "inputSchema": schema})
    return stubs


# Messages with faults -------------------------------------------------------------------------------------------------

_NOISE: Final = re.compile(rb'\A(?:\x1b\[[0-9;?]*[A-Za-z]|[^A-Za-z0-9{"\[])*+(?=\{)')
"""Colours, the sign of a prompt and the like before a message; a line with words before it is a log entry."""

_MEMBER: Final = rb'"(?!method")[^"\\]*"\s*:\s*(?:"[^"\\]*"|[^"{}\[\],\s]+)'  # one whose value is no object or list
_BEFORE: Final = rb"[\s\[]*\{\s*(?:" + _MEMBER + rb"\s*,\s*){0,5}"
_ID: Final = rb'"id"\s*:\s*(?P<id>"[ !#-\[\]-~]*"|-?(?:0|[1-9]\d{0,17}))(?:\.0+)?\s*'
_ANSWER: Final = re.compile(_BEFORE + _ID + rb'(?:\}|,\s*(?!"(?:method|params)"))')
_ANSWER_END: Final = re.compile(
    _BEFORE + rb'"(?:result|error)"\s*:.*' + _ID + rb"(?:,\s*" + _MEMBER + rb"\s*){0,5}\}[\s\]]*\Z", re.DOTALL
)
"""Answers whose JSON may be broken: the id stands before or after the result."""

# strings too, as they may contain brackets; also one without an end, or each later quote would search for it again
_PARTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """The message of a line; an error for an answer that can't be read; `None` for anything else."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        line = _NOISE.sub(b"", line, 1)
    facts: dict[str, Any] | None = None
    with suppress(ValueError):
        data: Any = from_json(repaired := _repair(line))
        if isinstance(data, dict):
            facts = cast("dict[str, Any]", data)
            if not facts.keys() & {"jsonrpc", "result", "error"}:
                return None  # a log entry may have an id, too
        with suppress(ValueError):
            return jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    if (answer := _ANSWER.match(line) or _ANSWER_END.match(line)) is None:
        return None
    error = ErrorData(code=PARSE_ERROR, message=f"the server's answer isn't a JSON-RPC message: {line[:200]!r}")
    with suppress(LookupError, TypeError):
        words: Any = None if facts is None else facts["error"]  # some servers write just a text, or no code
        if isinstance(said := words if isinstance(words, str) else words["message"], str):
            error = ErrorData(code=INTERNAL_ERROR, message=said)
    return JSONRPCError(jsonrpc="2.0", id=json.loads(answer["id"]), error=error)


def _repair(text: bytes) -> bytes:
    """JSON that pydantic can read: some servers nest too deeply, or write half of a surrogate pair, or other encodings.

    What isn't a character becomes U+FFFD.

    Raises:
        ValueError: It isn't JSON.
    """
    data: Any = json.loads(_cut(text).decode("utf-8-sig", "replace"), strict=False)
    whole = json.dumps(data, ensure_ascii=False).encode("utf-16", "surrogatepass")
    return whole.decode("utf-16", "replace").encode()


def _cut(text: bytes) -> bytes:
    """JSON with what is nested more than `MOST_LEVELS` deep replaced by a string.

    A definition that was cut is still nested deeply enough to be refused.
    """
    kept: list[bytes] = []
    level = start = 0
    for found in _PARTS.finditer(text):
        part = found[0]
        if part in (b"{", b"["):
            level += 1
            if level == MOST_LEVELS + 1:
                kept += text[start : found.start()], b'"nested too deeply"'
        elif part in (b"}", b"]"):
            if level == MOST_LEVELS + 1:
                start = found.end()
            level -= 1
    if level <= MOST_LEVELS:
        kept.append(text[start:])
    return b"".join(kept)


def readable(text: bytes) -> bytes:
    """The body of an answer over HTTP, with JSON that the SDK can't read repaired."""
    try:
        from_json(text)
    except ValueError:
        with suppress(ValueError):
            return _repair(text)
    return text
