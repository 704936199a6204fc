"""What a server is to answer, and one request and one answer of it."""

from __future__ import annotations

import json
import struct
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from attrs import field, frozen

Json: TypeAlias = Any


@frozen
class Call:
    """A call that the model makes.

    Attributes:
        name: The tool's name; the server doesn't care whether it was declared.
        arguments: A mapping, or text that is sent as it stands, JSON or not. A wire that carries no text gets the value
            of the text, or the bare string where the text is no JSON.
        id: Empty: the server makes one (Gemini and Ollama: none); `None`: the call goes out without an id.
        signature: Gemini's `thoughtSignature`, base64.
        freeform: OpenAI's custom call: `arguments` is its input, free text.
        same_index: Streamed under the index of the call before it: a new id is a new call all the same.
    """

    name: str
    arguments: Mapping[str, Json] | str = field(factory=dict)
    id: str | None = ""
    signature: str | None = None
    freeform: bool = False
    same_index: bool = False

    @property
    def text(self) -> str:
        """The arguments as text."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    @property
    def value(self) -> Json:
        """The arguments as a JSON value."""
        if not isinstance(self.arguments, str):
            return dict(self.arguments)
        try:
            return json.loads(self.arguments)
        except ValueError:
            return self.arguments


@frozen
class Reasoning:
    """What the model thought.

    Attributes:
        text: The thought, or its summary.
        signature: Anthropic's and Bedrock's `signature`, OpenAI responses'
            `encrypted_content`, Gemini's `thoughtSignature` on the first call (or on the text, if there is no call).
        redacted: Anthropic and Bedrock: `signature` stands alone, as redacted thinking.
    """

    text: str = ""
    signature: str | None = None
    redacted: bool = False


@frozen
class Page:
    """A page that a web search found."""

    url: str
    title: str = ""
    text: str = ""


@frozen
class Search:
    """A web search that the provider ran by itself: Anthropic, OpenAI responses, Gemini; nothing elsewhere."""

    query: str
    pages: tuple[Page, ...] = field(default=(), converter=tuple)


@frozen
class Citation:
    """A page cited for `text[start:end]` of the answer; OpenAI, Anthropic, Gemini, Bedrock; nothing for Ollama."""

    url: str
    title: str = ""
    text: str = ""
    start: int = 0
    end: int = 0


@frozen
class Usage:
    """Tokens. `input` holds the cached ones, `output` the reasoning."""

    input: int = 11
    output: int = 7
    cached: int = 0
    reasoning: int = 0


@frozen
class Error:
    """An error instead of an answer, in the provider's own shape.

    Attributes:
        status: The HTTP status.
        message: What it says; a text that fits the status if empty.
        retry_after: Seconds, for the `retry-after` header (and Gemini's `RetryInfo`).
        body: A mapping or text sent instead of the provider's own shape.
        after: The error comes inside a stream, as an event after so many others, and the status is 200; an answer that
            isn't streamed is the error.
    """

    status: int = 500
    message: str = ""
    retry_after: float | None = None
    body: Mapping[str, Json] | str | None = None
    after: int | None = None

    @property
    def text(self) -> str:
        """What it says."""
        return self.message or f"the script answers with status {self.status}"


@frozen
class Round:
    """One answer of the model.

    Attributes:
        text: The answer, or the pieces in which it is streamed.
        calls: In order.
        reasoning: What stands before the answer.
        hosted: Searches that the provider ran, or JSON put among the answer's items (blocks, parts) as it stands.
        citations: Of the text.
        refusal: The words of a model that refuses.
        finish: `stop`, `length`, `tool_calls`, `content_filter`, or a provider's own word; by default what fits.
        usage: Tokens.
        pieces: In how many pieces texts and arguments are streamed.
        error: Instead of the answer, or within its stream.
        break_after: The connection is cut after so many events of the stream; an answer that isn't streamed is cut in
            half.
        stop_after: The stream ends in good order after so many events, its last ones missing.
        never_ends: The last call's arguments go on for so many pieces, then the connection is cut. Gemini and Ollama
            send arguments whole: there the last call is made so many times again.
        raw: The provider's JSON as it stands: the body, or the events of a stream (Bedrock: `{event type: payload}`);
            bytes are sent unframed. Once a raw round was played, unknown names may come back.
    """

    text: str | Sequence[str] = ""
    calls: tuple[Call, ...] = field(default=(), converter=tuple)
    reasoning: Reasoning | None = None
    hosted: tuple[Search | Mapping[str, Json], ...] = field(default=(), converter=tuple)
    citations: tuple[Citation, ...] = field(default=(), converter=tuple)
    refusal: str = ""
    finish: str | None = None
    usage: Usage = Usage()
    pieces: int = 3
    error: Error | None = None
    break_after: int | None = None
    stop_after: int | None = None
    never_ends: int | None = None
    raw: Json | bytes | Sequence[Json] | None = None

    def __attrs_post_init__(self) -> None:
        """Refuses what can't be played.

        Raises:
            ValueError: There is no call that could go on, or the stream is to go wrong in two ways.
        """
        if self.never_ends is not None and not self.calls:
            raise ValueError("never_ends: there is no call that could go on")
        ways = (self.break_after, self.stop_after, self.never_ends, self.error)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("break_after, stop_after, never_ends, error: a stream goes wrong in one way")

    @property
    def said(self) -> str:
        """The text in one piece."""
        return self.text if isinstance(self.text, str) else "".join(self.text)

    @property
    def ending(self) -> str:
        """The finish reason in neutral words."""
        if self.finish is not None:
            return self.finish
        if self.refusal:
            return "refusal"
        return "tool_calls" if self.calls else "stop"


@frozen
class Request:
    """One request, as it was read.

    Attributes:
        path: Without the query.
        query: What stands behind the `?`.
        headers: Names in lower case.
        body: The JSON body, parsed.
        streamed: Whether the client asked for a stream.
    """

    path: str
    query: str
    headers: Mapping[str, str]
    body: Json
    streamed: bool = False


class RefusedError(Exception):
    """The request breaks a rule.

    Args:
        message: Which, and where.
        status: The HTTP status.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def need(fact: object, message: str) -> None:
    """Refuses the request unless the fact holds."""
    if not fact:
        raise RefusedError(message)


_TEXT = 7
"""The type of a header whose value is text."""


def sse(event: Json, name: str | None = None) -> bytes:
    """A server-sent event."""
    data = f"data: {json.dumps(event)}\n\n"
    return (f"event: {name}\n{data}" if name else data).encode()


def json_line(event: Json) -> bytes:
    """One line of JSON lines."""
    return json.dumps(event).encode() + b"\n"


def aws_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message of the AWS event stream.

    Its form (Amazon's `vnd.amazon.eventstream`): total length, headers' length, CRC-32 of these eight bytes, headers,
    payload, CRC-32 of all before it; numbers are big-endian.
    """
    head = b"".join(_aws_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    checked = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return checked + struct.pack(">I", crc32(checked))


def _aws_header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return struct.pack(">B", len(key)) + key + struct.pack(">BH", _TEXT, len(text)) + text


class CutError(Exception):
    """The connection is to be cut here."""


@frozen
class Reply:
    """One round on its way.

    Attributes:
        round: What the script says.
        number: Which round it is, from 1: what makes ids differ.
        request: What it answers.
    """

    round: Round
    number: int
    request: Request

    @property
    def model(self) -> Json:
        """The model that the client asked for."""
        return self.request.body.get("model")

    def calls(self, prefix: str) -> Iterator[tuple[Call, str | None]]:
        """The calls with the ids under which they go out, `None` without one; those that are made begin with this."""
        for place, call in enumerate(self.round.calls):
            yield call, f"{prefix}{self.number}_{place}" if call.id == "" else call.id

    def text_pieces(self) -> Iterator[str]:
        """The text as it is streamed."""
        said = self.round.text
        yield from split(said, self.round.pieces) if isinstance(said, str) else said

    def pieces(self, text: str) -> Iterator[str]:
        """Another text as it is streamed."""
        return split(text, self.round.pieces)

    def argument_pieces(self, call: Call) -> Iterator[str]:
        """A call's arguments as they are streamed.

        Raises:
            CutError: They are those that never end, and the script's patience is at its end.
        """
        if self.round.never_ends is None or call is not self.round.calls[-1]:
            yield from split(call.text, self.round.pieces)
            return
        yield '{"text": "'
        yield from repeat("and so on, ", self.round.never_ends)
        raise CutError

    def endless_calls(self) -> Iterator[Call]:
        """The calls where arguments come whole: the last never ends by coming again and again.

        Raises:
            CutError: As for `argument_pieces`.
        """
        yield from self.round.calls
        if self.round.never_ends is not None:
            yield from repeat(self.round.calls[-1], self.round.never_ends)
            raise CutError


def split(text: str, pieces: int) -> Iterator[str]:
    """The text in at most so many pieces, none of them empty."""
    size = max(1, -(-len(text) // max(1, pieces)))
    for start in range(0, len(text), size):
        yield text[start : start + size]
