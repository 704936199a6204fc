"""`Ollama`: exporter for Ollama's chat API."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from attrs import Factory, define, field

from pegboard import (
    ImageContent,
    Message,
    ModelConfig,
    ModelError,
    ModelRequest,
    ModelResponse,
    NamedTool,
    ToolCall,
    ToolSpec,
)
from pegboard.errors import ExportError
from pegboard.messages import (
    CallPart,
    Delta,
    FinishReason,
    MediaPart,
    Part,
    ReasoningDelta,
    ReasoningPart,
    ResultPart,
    TextDelta,
    TextPart,
    Usage,
)
from pegboard.request import ResponseReader
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import StreamedCall, StreamedCalls
from pegboard_clients.conversation import OrderedConversation
from pegboard_clients.dialects import SHAPED, Dialect
from pegboard_clients.exporter import BaseExporter
from pegboard_clients.wire import (
    BINARY,
    ORIGINAL,
    CallIdAllocator,
    Content,
    Entry,
    StreamReader,
    TextBuffer,
    admit,
    arguments_object,
    as_object,
    config_facts,
    convert_schema,
    count_in,
    decoded,
    description_of,
    list_in,
    made_call,
    media_type,
    merged,
    object_in,
    object_or_none,
    objects_in,
    output_schema,
    passthrough,
    place_in,
    refusal,
    render_json,
    render_text,
    text_in,
    wire_name,
    without_empty,
)
from pegboard_clients.wire.ids import MOST_ARGUMENTS

IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/webp"})
"""What the decoders of all its engines read."""

OLLAMA: Final = Dialect("ollama", SHAPED)
"""Ollama, whose templates show a model little more than names, types and descriptions."""


def image_of(raw: Any) -> ImageContent | None:
    """A picture from base64, with the type from its first bytes, as Ollama sends none; `None` for other values."""
    data = decoded(raw)
    if data is None:
        return None
    kind = media_type(data)
    return ImageContent(data, "image/png" if kind == BINARY else kind)


FAMILY: Final = "ollama"


_REASONS: Final[Mapping[str, FinishReason]] = {"stop": "stop", "length": "length", "": "stop"}


@define(eq=False)
class OllamaReader(StreamReader):
    """Parser of one answer, whole or streamed in lines of the same shape."""

    _text: TextBuffer = field(default=Factory(lambda self: TextBuffer(self.budget), takes_self=True), init=False)
    _thoughts: TextBuffer = field(default=Factory(lambda self: TextBuffer(self.budget), takes_self=True), init=False)
    _media: list[Part] = field(factory=list[Part], init=False)
    _calls: StreamedCalls = field(
        default=Factory(lambda self: StreamedCalls(self.budget, MOST_ARGUMENTS), takes_self=True), init=False
    )
    _given: dict[int, Any] = field(factory=dict[int, Any], init=False)
    _last: JsonMapping = field(factory=dict[str, Any], init=False)
    _model: str = field(default="", init=False)

    def read(self, event: JsonMapping) -> Sequence[Delta]:
        """Parses one line; returns its deltas."""
        if not is_answer(event):
            if event.get("error"):
                self.end.failed(None, error_of(event).message)
            return ()
        self._model = text_in(event, "model") or self._model
        if event.get("done") is True:
            self._last, self.end.reached = event, True
        message = object_in(event, "message")
        images = (image for raw in list_in(message, "images") if (image := image_of(raw)) is not None)
        self._media += [MediaPart(image) for image in images if self.budget.take_item()]
        deltas: list[Delta] = []
        if thought := self._thoughts.add(message.get("thinking")):
            deltas.append(ReasoningDelta(thought))
        if text := self._text.add(message.get("content")):
            deltas.append(TextDelta(text))
        for call in objects_in(message, "tool_calls"):
            deltas += self._read_call(call)
        return deltas

    def _read_call(self, raw: JsonMapping) -> list[Delta]:
        function = object_in(raw, "function")
        given: Any = {} if function.get("arguments") is None else function["arguments"]
        fed = self._calls.feed(place_in(function, "index"), text_in(raw, "id"), text_in(function, "name"), given)
        if fed is None:
            return []
        call, text = fed
        call.closed = call.closed or object_or_none(given) is not None
        if len(call.text) == len(text):
            self._given[call.place] = given  # all of it so far
        else:
            self._given.pop(call.place, None)
        return [call.delta(text)]

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer."""
        return ModelResponse(
            Message("assistant", self._parts()),  # pyright: ignore[reportArgumentType]
            self._reason(),
            Usage(count_in(self._last, "prompt_eval_count"), count_in(self._last, "eval_count")),
            self._model or None,
            complete=self._reason() != "length",
        )

    def _parts(self) -> list[Part]:
        thoughts, text = self._thoughts.text, self._text.text
        parts: list[Part] = [ReasoningPart(thoughts, {FAMILY: {}})] if thoughts else []
        if text:
            parts.append(TextPart(text))
        ids = CallIdAllocator()
        return [*parts, *self._media, *(CallPart(self._call(call, *ids.take(call.id))) for call in self._calls.calls)]

    def _call(self, call: StreamedCall, call_id: str, wire: str | None) -> ToolCall:
        metadata = None if wire is None else {FAMILY: {ORIGINAL: wire}}
        return made_call(call.name, self._given.get(call.place, call.arguments), call_id, metadata, call.fault)

    def _reason(self) -> FinishReason:
        reason: FinishReason = _REASONS.get(text_in(self._last, "done_reason"), "other")
        return "tool_calls" if self._calls.calls and reason == "stop" else reason


def response_of(raw: Any) -> ModelResponse:
    """Parses a whole answer.

    Raises:
        ModelError: The body is not an answer, or is the provider's error.
    """
    message = as_object(raw).get("message", {})
    content = as_object(message).get("content")
    if not is_answer(raw) or object_or_none(message) is None or not isinstance(content, str | None):
        raise error_of(raw)
    reader = OllamaReader()
    reader.feed({**raw, "done": True})
    return reader.response()


def is_answer(raw: Any) -> bool:
    """Whether this is the body of an answer, or a line of one."""
    read = as_object(raw)
    return not read.get("error") and ("message" in read or "done" in read)


def error_of(body: Any) -> ModelError:
    """The error of a body, `{"error": "..."}` or any other value."""
    return ModelError(text_in(as_object(body), "error") or "the body is not an answer", provider=FAMILY)


@define(eq=False)
class Conversation(OrderedConversation):
    """Writer of messages; each result of a turn is a separate message."""

    family = FAMILY

    media: frozenset[str]

    def speak(self, message: Message) -> None:
        """Writes a message of the model."""
        calls = [part.call for part in message.parts if isinstance(part, CallPart) and not part.call.provider_executed]
        text, images = _content(message.parts, self.media)
        thoughts = "".join(
            part.text for part in message.parts if isinstance(part, ReasoningPart) and FAMILY in part.provider_metadata
        )
        written: JsonObject = {"role": "assistant", "content": text}
        if thoughts:
            written["thinking"] = thoughts
        if images:
            written["images"] = images
        if calls:
            written["tool_calls"] = [self._call(call) for call in calls]
        if text or len(written) > 2:
            self.written.append(written)

    def _call(self, call: ToolCall) -> JsonObject:
        wire_id = self.wire_id(call)
        named = {"id": wire_id} if wire_id else {}
        return {**named, "function": {"name": wire_name(call.name, _TAKEN), "arguments": arguments_object(call)}}

    def hear(self, role: str, parts: Sequence[Part]) -> None:
        """Writes other parts, pictures as the user's."""
        text, images = _content(parts, self.media)
        if text or images:
            self.answer_calls()
            role = "system" if role == "system" and not images else "user"
            self.written.append({"role": role, "content": text, **({"images": images} if images else {})})

    def answer(self, results: Sequence[tuple[ResultPart, str]]) -> None:
        """Writes results."""
        self.written += [self._answer(part, wire_id) for part, wire_id in results]

    def _answer(self, part: ResultPart, wire_id: str) -> JsonObject:
        contents = [admit(item, self.media) for item in part.result.content]
        images = _images(contents)
        texts = [render_text(item) for item in contents if not isinstance(item, ImageContent)]
        if not contents and part.result.structured_content is not None:
            texts = [render_json(part.result.structured_content)]
        text = "\n".join(texts)
        answer: JsonObject = {"role": "tool", "tool_name": wire_name(part.name, _TAKEN)}
        answer["content"] = f"Error: {text or 'failed'}" if part.result.is_error else text
        if wire_id:
            answer["tool_call_id"] = wire_id
        if images:
            answer["images"] = images
        return answer


def _content(parts: Sequence[Part], media: frozenset[str]) -> tuple[str, list[str]]:
    """The text of a message, with placeholders for other media, and its pictures as base64."""
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ResultPart):
            texts.append(f"\n[result of {part.name}]\n" + "\n".join(map(render_text, part.result.content)))
        elif isinstance(part, MediaPart):
            content = admit(part.content, media)
            images += _images([content])
            texts += [] if isinstance(content, ImageContent) else [f"\n{render_text(content)}\n"]
    return "".join(texts), images


def _images(contents: Iterable[Content]) -> list[str]:
    return [base64.b64encode(item.data).decode() for item in contents if isinstance(item, ImageContent)]


_TAKEN: Final = r"(?s).+"
"""The names that Ollama accepts: any but an empty one."""


_CONFIG: Final = {
    "max_output_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
}


@define(eq=False)
class Ollama(BaseExporter):
    """Exporter for Ollama's `/api/chat`.

    Ollama has no tool choice: a request that requires a call offers the tools, or only the named one, and adds an
    instruction to call it.

    Attributes:
        images: Media types of pictures.
    """

    images: frozenset[str] = field(default=IMAGES, converter=frozenset, kw_only=True)
    name: str = field(default=FAMILY, init=False)

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry, `{"type": "function", "function": {...}}`; Ollama hosts no tools."""
        if spec.kind == "provider":
            return refusal(
                spec, "/providerId", "providerId", f"{spec.provider_id!r} isn't supported: Ollama hosts no tools"
            )
        schema = convert_schema(spec, OLLAMA, None, strict)
        if schema.refused:
            return Entry(None, schema.losses)
        function: JsonObject = {
            "name": spec.name,
            "description": description_of(spec, examples=True, grammar=True),
            "parameters": schema.schema,
        }
        entry = {"type": "function", "function": function}
        return Entry({**entry, **passthrough(spec.provider_options, (FAMILY,))}, schema.losses)

    def request(self, request: ModelRequest) -> JsonObject:
        """The body, without `stream`, which the client adds.

        Raises:
            ExportError: There is nothing to send, or the tool choice can't be met.
        """
        tools, order = self._list_tools(request)
        system = "\n\n".join(text for text in (request.system, order) if text)
        first = [{"role": "system", "content": system}] if system else []
        messages = Conversation(self.images, written=first).write(request.messages)
        if len(messages) == bool(system):
            raise ExportError("there is nothing to send: no message has any content", exporter=self.name)
        facts = {
            "model": request.model,
            "messages": messages,
            "tools": tools,
            "options": config_facts(request.config, _CONFIG),
            "think": _think(request.config),
            **(self.response_format(request) or {}),
        }
        return merged(without_empty(facts), passthrough(request.config.provider_options, (FAMILY,)))

    def response_format(self, request: ModelRequest) -> JsonObject | None:
        """The member `format`; `None` if there is none for the request's `output`, or if it has tools."""
        schema = None if request.offered else output_schema(request, OLLAMA)
        return None if schema is None else {"format": schema}

    def _list_tools(self, request: ModelRequest) -> tuple[list[JsonObject], str]:
        """The tools, and the instruction to call them.

        Raises:
            ExportError: The tool choice can't be met.
        """
        exported, choice = self.exported(request), request.tool_choice
        if choice == "none":
            return [], ""
        if isinstance(choice, NamedTool):
            named = [entry for entry in exported.entries if entry["function"]["name"] == choice.name]
            return named, f"Answer by calling the tool {choice.name}."
        return list(exported.entries), "Answer by calling a tool." if choice == "required" else ""

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:  # noqa: ARG002  as `Exporter` has it: nothing is written strictly
        """Parses an answer.

        Raises:
            ModelError: The body is not an answer, or is the provider's error.
        """
        return response_of(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:  # noqa: ARG002
        """A parser for a streamed answer, line by line."""
        return OllamaReader()


def _think(config: ModelConfig) -> bool | str | None:
    return False if config.reasoning == "none" else config.reasoning


exporter: Final = cache(Ollama)
"""Returns the shared exporter of this process, with its cache."""
