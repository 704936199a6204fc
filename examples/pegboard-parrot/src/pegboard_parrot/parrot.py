"""`Parrot`: the wire format of a fictitious vendor, both ways.

A request and its answer:

    {"model": "grey", "turns": [{"who": "human", "says": "Rain?"}],
     "tools": [{"tool": "weather", "about": "...", "takes": {...}}], "must_call": false}
    {"says": "Let me look.", "calls": [{"ref": "a", "tool": "weather", "with": {"city": "Oslo"}}],
     "stopped": "calls", "tokens": {"in": 20, "out": 9}}

A stream is a line for each piece, `{"says": "Let "}` or `{"call": {...}}`, and a last one with `stopped` and `tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from pegboard import Message, ModelError, ModelRequest, ModelResponse, NamedTool, ToolSpec
from pegboard.messages import CallDelta, CallPart, Delta, FinishReason, ResultPart, TextDelta, TextPart, Usage
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.dialects import READ, UNIONS, Dialect, named_definitions, root_object
from pegboard_clients.exporter import BaseExporter
from pegboard_clients.wire import (
    Entry,
    MadeCalls,
    SentIds,
    StreamReader,
    TextBuffer,
    arguments_object,
    as_object,
    convert_schema,
    count_in,
    description_of,
    merged,
    object_in,
    objects_in,
    passthrough,
    refusal,
    render_text,
    shown,
    strict_schemas,
    text_in,
    wire_name,
    without_empty,
)

NAME: Final = "parrot"
DIALECT: Final = Dialect(NAME, (*READ, root_object(*UNIONS), named_definitions))
"""What Parrot takes of JSON Schema: all of it, with a plain root."""

_REFUSED_IN_REFS: Final = re.compile(r"[^a-z0-9_]")
_STOPPED: Final[Mapping[str, FinishReason]] = {"done": "stop", "calls": "tool_calls", "length": "length"}


@define(eq=False)
class Parrot(BaseExporter):
    """Writes requests for Parrot, and reads its answers."""

    name: str = field(default=NAME, init=False)

    def write(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The entry of one tool; each is written once, and cached."""
        return _entry(spec, strict)

    def request(self, request: ModelRequest) -> JsonObject:
        """The body.

        Raises:
            ExportError: The tool choice can't be met.
        """
        choice = request.tool_choice
        opening: list[JsonObject] = [{"who": "keeper", "says": request.system}] if request.system else []
        facts = {
            "model": request.model,
            "turns": [*opening, *_turns(request.messages)],
            "tools": list(self.exported(request).entries),
            "must_call": choice.name if isinstance(choice, NamedTool) else choice == "required",
        }
        return merged(without_empty(facts), passthrough(request.config.provider_options, (self.name,)))

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """An answer that came whole.

        Raises:
            ModelError: It is no answer, or the vendor's error.
        """
        body = as_object(raw)  # what a client got may be anything
        if "stopped" not in body:
            raise ModelError(text_in(body, "problem") or "what came is no answer", provider=self.name)
        reader = self.reader(request)
        reader.feed({"says": text_in(body, "says")})
        for call in objects_in(body, "calls"):
            reader.feed({"call": call})
        reader.feed(body)
        return reader.response()

    def reader(self, request: ModelRequest | None = None) -> ParrotReader:
        """What reads the lines of a stream."""
        return ParrotReader(MadeCalls(self.name, strict_schemas(request)))


def _entry(spec: ToolSpec, strict: bool | None) -> Entry:
    if spec.kind == "provider":
        return refusal(spec, "/providerId", "providerId", "Parrot hosts no tools")
    schema = convert_schema(spec, DIALECT, None, strict)
    if schema.refused:
        return Entry(None, schema.losses)
    about = description_of(spec, examples=True, grammar=True)
    return Entry({"tool": spec.name, "about": about, "takes": schema.schema}, schema.losses)


def _turns(messages: Sequence[Message]) -> Iterator[JsonObject]:
    refs = SentIds(_REFUSED_IN_REFS, 32)
    for message in messages:
        who = {"assistant": "bird", "system": "keeper"}.get(message.role, "human")
        if said := message.text:
            yield {"who": who, "says": said}
        for part in message.parts:
            if isinstance(part, CallPart):
                called = {"tool": wire_name(part.call.name), "with": arguments_object(part.call)}
                yield {"who": who, "call": {"ref": refs.call(part.call.id), **called}}
            elif isinstance(part, ResultPart):
                text = "\n".join(map(render_text, part.result.content))
                yield {"who": "tool", "ref": refs.result(part.call_id) or "", "says": text}


@define(eq=False)
class ParrotReader(StreamReader):
    """Reads one streamed answer.

    Attributes:
        calls: Makes its calls.
    """

    calls: MadeCalls
    _text: TextBuffer = field(init=False)
    _made: list[CallPart] = field(factory=list[CallPart], init=False)
    _last: JsonMapping = field(factory=dict[str, Any], init=False)

    def __attrs_post_init__(self) -> None:
        self._text = TextBuffer(self.budget)

    def read(self, event: JsonMapping) -> Sequence[Delta]:
        """Parses one line; returns its deltas."""
        if "problem" in event:
            self.end.failed(None, text_in(event, "problem"))
        if "stopped" in event:
            self._last, self.end.reached = event, True
            return ()
        if "call" in event:
            return (self._called(object_in(event, "call")),)
        piece = self._text.add(event.get("says"))
        return (TextDelta(piece),) if piece else ()

    def _called(self, said: JsonMapping) -> CallDelta:
        call = self.calls.call(said.get("tool"), said.get("with"), said.get("ref"), {})
        self._made.append(CallPart(call))
        return CallDelta(len(self._made) - 1, shown(call.arguments), call.id, call.name)

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer."""
        text = (TextPart(self._text.text),) if self._text.text else ()
        reason: FinishReason = _STOPPED.get(text_in(self._last, "stopped"), "other")
        tokens = object_in(self._last, "tokens")
        return ModelResponse(
            Message("assistant", (*text, *self._made)),
            reason,
            Usage(count_in(tokens, "in"), count_in(tokens, "out")),
            complete=reason != "length",
        )


__all__ = ["DIALECT", "NAME", "Parrot", "ParrotReader"]
