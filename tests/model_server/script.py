"""What a script is made of: rounds in a neutral form, which every wire format writes in its own words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
        namespace: OpenAI responses only.
    """

    name: str
    arguments: Mapping[str, Json] | str = field(factory=dict)
    id: str | None = ""
    signature: str | None = None
    freeform: bool = False
    same_index: bool = False
    namespace: str | None = None

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
        signature: Has to come back unchanged: Anthropic's and Bedrock's `signature`, OpenAI responses'
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
            bytes are sent unframed. Once a raw round was played, unknown names and signatures may come back.
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
