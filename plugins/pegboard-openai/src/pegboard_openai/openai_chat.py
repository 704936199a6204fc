"""`OpenAIChat`: OpenAI's chat completions, both ways."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

from attrs import define, field, frozen

from pegboard import (
    AudioContent,
    CallPart,
    ExportedTools,
    Loss,
    MediaPart,
    Message,
    ModelRequest,
    ModelResponse,
    ReasoningPart,
    ResultPart,
    TextPart,
    ToolCall,
    ToolSpec,
)
from pegboard.dialects import deep_copy
from pegboard.messages.message import Part
from pegboard.messages.response import CallDelta, Delta, FinishReason, ReasoningDelta, TextDelta
from pegboard.schema.json import json_text
from pegboard.tools.call import writable
from pegboard.typing import JsonMapping, JsonObject
from pegboard.wire import (
    Entries,
    Entry,
    Gathered,
    MadeCalls,
    Room,
    SentIds,
    StreamEnd,
    StrictSchema,
    arguments_text,
    hosted_type,
    input_text,
    known,
    known_text,
    merged,
    object_in,
    object_or_none,
    objects_in,
    own,
    passthrough,
    place_in,
    refusal,
    sendable,
    strict_schemas,
    text_in,
)
from pegboard_openai._openai import (
    ALLOWED,
    CHAT,
    REFUSED_IN_IDS,
    Definition,
    JsonEnd,
    Limits,
    Listed,
    Spoken,
    beyond,
    custom_definition,
    error_facts,
    failure,
    function_definition,
    joined,
    kept,
    no_answer,
    read_citations,
    read_usage,
    spoken,
    spoken_result,
    tool_facts,
    user_content,
    words,
)

REASONING: Final = ("reasoning_content", "reasoning")
"""Where servers that speak as OpenAI does put a model's reasoning."""

EXTRA: Final = "extra_content"
"""Where other servers put what they want back with a call, such as Gemini's signatures."""

_FINISH: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}
_CUT_OFF: Final = ("length", "content_filter", "error")
_NOTED: Final = ("service_tier", "system_fingerprint")


@frozen
class ChatAnswers:
    """Reads chat completions.

    Attributes:
        key: Under which the provider's own facts are kept; also for errors.
        limits: How much is read.
        strict: Gives the schemas of the tools that were to be strict.
    """

    key: str
    strict: StrictSchema
    limits: Limits = CHAT

    def read(self, raw: object) -> ModelResponse:
        """The answer: the first choice.

        Raises:
            ModelError: It is no chat completion, or the provider's error.
        """
        body = object_or_none(raw)
        if body is None:
            raise no_answer(f"an object was expected, got {type(raw).__name__}", self.key)
        choices = objects_in(body, "choices")
        if not choices and body.get("error"):
            raise failure(body["error"], self.key)
        if not choices or object_or_none(choices[0].get("message")) is None:
            raise no_answer("it has no choices with a message", self.key)
        return self._answer(body, choices[0])

    def _answer(self, body: JsonMapping, choice: JsonMapping) -> ModelResponse:
        message = object_in(choice, "message")
        parts = self.parts(message)
        reason = _finish(choice.get("finish_reason"), parts)
        return ModelResponse(
            Message("assistant", parts),
            reason,
            read_usage(object_in(body, "usage"), "prompt", "completion"),
            known_text(body, "model"),
            known_text(body, "id"),
            complete=reason not in _CUT_OFF,
            custom_metadata={name: body[name] for name in _NOTED if known_text(body, name)},
        )

    def parts(self, message: JsonMapping) -> tuple[Part, ...]:
        """What a message is made of: reasoning, words, sound, calls."""
        calls = MadeCalls(self.key, self.strict, most=self.limits.argument_text)
        said = [
            part for read in (_reasoning, _words, _refusal, _audio) if (part := read(message, self.key)) is not None
        ]
        made = [_call(each, calls) for each in objects_in(message, "tool_calls")]
        legacy = object_or_none(message.get("function_call"))
        if legacy is not None and not made:
            made = [CallPart(calls.call(legacy.get("name"), legacy.get("arguments"), None, {}))]
        return (*said, *made)


def _reasoning(message: JsonMapping, key: str) -> ReasoningPart | None:
    for name in REASONING:
        if text := text_in(message, name):
            return ReasoningPart(text, {key: {"field": name}})
    return None


def _words(message: JsonMapping, key: str) -> TextPart | None:
    content = message.get("content")
    text = content if isinstance(content, str) else "".join(text_in(part, "text") for part in _pieces(message))
    return TextPart(text, read_citations(objects_in(message, "annotations"), key)) if text else None


def _pieces(message: JsonMapping) -> list[JsonMapping]:
    """Some servers write content in parts."""
    return objects_in(message, "content")


def _refusal(message: JsonMapping, key: str) -> TextPart | None:
    text = text_in(message, "refusal") or "".join(text_in(part, "refusal") for part in _pieces(message))
    return TextPart(text, provider_metadata={key: {"refusal": True}}) if text else None


def _audio(message: JsonMapping, key: str) -> Part | None:
    """What was spoken; its words where its bytes can't be read."""
    audio = object_in(message, "audio")
    transcript, known_id = text_in(audio, "transcript"), known_text(audio, "id")
    try:
        data = base64.b64decode(text_in(audio, "data"), validate=True)
    except ValueError:
        data = b""
    if not data:
        return TextPart(transcript) if transcript else None
    facts = {"audio": known_id, "transcript": transcript}
    return MediaPart(AudioContent(data), {key: {name: fact for name, fact in facts.items() if fact}})


def _call(call: JsonMapping, calls: MadeCalls) -> CallPart:
    custom = object_or_none(call.get("custom"))
    if custom is not None and object_or_none(call.get("function")) is None:
        return CallPart(calls.freeform(custom.get("name"), custom.get("input"), call.get("id"), {"type": "custom"}))
    function = object_in(call, "function")
    extra = kept(object_in(call, EXTRA))
    facts = {EXTRA: extra} if extra else {}
    return CallPart(calls.call(function.get("name"), function.get("arguments"), call.get("id"), facts))


def _finish(given: Any, parts: tuple[Part, ...]) -> FinishReason:
    """The reason, in our words: a forced call ends with `stop` on the wire, and a refusal does too."""
    reason: FinishReason = "stop" if given is None else "other"
    if isinstance(given, str):
        reason = _FINISH.get(given, "other")
    if reason not in ("stop", "tool_calls"):
        return reason
    if any(isinstance(part, CallPart) for part in parts):
        return "tool_calls"
    return "refusal" if any(isinstance(part, TextPart) and part.provider_metadata for part in parts) else "stop"


class ChatChoice:
    """Tool choice in the words of chat completions."""

    def one(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "function": {"name"}}`, and the same of a custom tool."""
        return {"type": entry["type"], entry["type"]: {"name": name}}

    def some(self, mode: Literal["auto", "required"], tools: Sequence[tuple[str, JsonObject]]) -> JsonObject:
        """`{"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}`."""
        named = [self.one(name, entry) for name, entry in tools]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}


_NOTHING: Final[JsonMapping] = {}


def users_content(parts: Iterable[Part], limits: Limits, key: str) -> str | list[JsonObject]:
    """What the user says: one text as it is, everything else part by part.

    Args:
        parts: What is said.
        limits: What the provider takes.
        key: Under which a picture's or a file's options stand: `detail`, `file_id`.
    """
    return user_content(parts, lambda part: _part(part, limits, key))


def _part(part: TextPart | MediaPart, limits: Limits, key: str) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    options = own(part.provider_metadata, key)
    file_id = known_text(options, "file_id")
    if file_id is not None:
        return {"type": "file", "file": {"file_id": file_id}}
    return written(spoken(part.content, limits, links=True), options)


def written(said: Spoken, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` says how closely a picture is looked at."""
    if said.kind == "text":
        return {"type": "text", "text": said.value}
    if said.kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": said.value, "format": said.name}}
    if said.kind == "file":
        return {"type": "file", "file": {"file_data": said.value, "filename": said.name}}
    picture: dict[str, Any] = {"url": said.value}
    detail = known_text(options, "detail")
    return {"type": "image_url", "image_url": picture if detail is None else {**picture, "detail": detail}}


_KINDS: Final = {"image": "Picture", "file": "File"}


@frozen
class ChatStyle:
    """How a conversation is said.

    Attributes:
        key: Under which the provider's own facts stand.
        limits: What the provider takes.
        system_role: Who the host is: `"system"`, or `"developer"`.
        reasoning: The member of the model's messages in which its reasoning goes back, for servers that want it
            (`"reasoning_content"`), or `None`.
    """

    key: str
    limits: Limits = CHAT
    system_role: str = "system"
    reasoning: str | None = None


def chat_messages(system: str, messages: Sequence[Message], listed: Listed, style: ChatStyle) -> list[JsonObject]:
    """The messages, instructions first.

    Args:
        system: The instructions, or `""`.
        messages: The conversation.
        listed: The tools of the request: a call of one that takes free text is said so.
        style: How it is said.
    """
    saying = _Saying(listed, style, SentIds(REFUSED_IN_IDS, style.limits.call_id))
    if system:
        saying.messages.append({"role": style.system_role, "content": writable(system)})
    for message in messages:
        saying.say(message)
    saying.show()
    return saying.messages


@define
class _Saying:
    """The messages so far, and what has to be said behind the results that come one after the other."""

    listed: Listed
    style: ChatStyle
    ids: SentIds
    messages: list[JsonObject] = field(factory=list[JsonObject])
    shown: list[JsonObject] = field(factory=list[JsonObject])
    hosted: set[str] = field(factory=set[str])

    def say(self, message: Message) -> None:
        if message.role != "tool":
            self.show()
        if message.role == "assistant":
            self._assistant(message.parts)
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._result(part)
        if message.role == "system":
            self._append(self.style.system_role, words(message.parts))
        elif message.role == "user":
            self._append("user", users_content(message.parts, self.style.limits, self.style.key))
        elif message.role == "tool":
            content = users_content(message.parts, self.style.limits, self.style.key)
            self.shown += [{"type": "text", "text": content}] if isinstance(content, str) else content

    def show(self) -> None:
        """Says what stood in results and can only be said by a user."""
        self._append("user", self.shown)
        self.shown = []

    def _append(self, role: str, content: str | list[JsonObject]) -> None:
        if content:
            self.messages.append({"role": role, "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        refusals = [part.text for part in parts if isinstance(part, TextPart) and _is_refusal(part, self.style.key)]
        audio = next((spoken for part in parts if (spoken := _audio_id(part, self.style.key)) is not None), None)
        said = words(
            part for part in parts if not _is_refusal(part, self.style.key) and _audio_id(part, self.style.key) is None
        )
        calls = [self._call(part.call) for part in parts if isinstance(part, CallPart) and not self._is_hosted(part)]
        facts = {
            "refusal": "".join(refusals),
            "audio": None if audio is None else {"id": audio},
            "tool_calls": calls,
        } | self._reasoning(parts)
        told = {name: fact for name, fact in facts.items() if fact}
        if said or told:
            self.messages.append({"role": "assistant", "content": said or None, **told})

    def _is_hosted(self, part: CallPart) -> bool:
        """Whether a provider has run the call itself: then neither it nor its result is said."""
        if part.call.provider_executed:
            self.hosted.add(part.call.id)
        return part.call.provider_executed

    def _call(self, call: ToolCall) -> JsonObject:
        facts = own(call.provider_metadata, self.style.key)
        kind = facts.get("type")
        call_id = self.ids.call(call.id)
        self.hosted.discard(call.id)
        if kind == "custom" or (kind is None and self.listed.is_custom(call.name)):
            return {"id": call_id, "type": "custom", "custom": {"name": sendable(call.name), "input": input_text(call)}}
        function = {"name": sendable(call.name), "arguments": arguments_text(call)}
        extra = {EXTRA: facts[EXTRA]} if facts.get(EXTRA) else {}
        return {"id": call_id, "type": "function", "function": function, **extra}

    def _reasoning(self, parts: Iterable[Part]) -> JsonObject:
        thought = [
            part.text
            for part in parts
            if isinstance(part, ReasoningPart) and own(part.provider_metadata, self.style.key)
        ]
        return {self.style.reasoning: "".join(thought)} if self.style.reasoning and thought else {}

    def _result(self, part: ResultPart) -> None:
        if part.call_id in self.hosted:
            return
        said = spoken_result(part.result, self.style.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of a call that has one, or of none that is left
            self.shown.append({"type": "text", "text": writable(f"A later result of {part.name}:")})
            self.shown += [written(each) for each in said]
            return
        numbers: Counter[str] = Counter()
        texts = [self._placed(each, numbers, call_id, part.name) for each in said]
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": joined(texts)})

    def _placed(self, said: Spoken, numbers: Counter[str], call_id: str, name: str) -> Spoken:
        """A text, or what says where to find what is no text."""
        if said.kind == "text":
            return said
        numbers[said.kind] += 1
        heading = writable(f"{_KINDS[said.kind]} {numbers[said.kind]} of the result of {name} ({call_id})")
        self.shown += [{"type": "text", "text": f"{heading}:"}, written(said)]
        return Spoken("text", f"[{heading}: in the message of the user behind the results]")


def _is_refusal(part: Part, key: str) -> bool:
    return isinstance(part, TextPart) and own(part.provider_metadata, key).get("refusal") is True


def _audio_id(part: Part, key: str) -> str | None:
    return known_text(own(part.provider_metadata, key), "audio") if isinstance(part, MediaPart) else None


FAMILY: Final = "openai"
_ELSEWHERE: Final = ("allowed_callers", "async", "defer_loading", "namespace", "output_schema")
"""Options that only responses have, under a key that both wires read."""


@frozen
class ChatWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
        custom_tools: Whether it knows tools that take free text; where not, they are functions.
        keys: Under which a tool's options stand.
    """

    limits: Limits
    custom_tools: bool = True
    keys: tuple[str, ...] = (FAMILY,)

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry, `{"type": "function", "function"}` or `{"type": "custom", "custom"}`."""
        if spec.kind == "provider":
            return self._hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            return self._custom(spec)
        told = function_definition(spec, strict, self.limits.description)
        function = _named(spec, told) | {"parameters": told.parameters}
        if told.strict:
            function["strict"] = True
        return self._written(spec, "function", function, told)

    def _custom(self, spec: ToolSpec) -> Entry:
        told = custom_definition(spec, self.limits.description)
        custom = _named(spec, told)
        if spec.grammar is not None:
            custom["format"] = {"type": "grammar", "grammar": spec.grammar.to_json()}
        return self._written(spec, "custom", custom, told)

    def _hosted(self, spec: ToolSpec) -> Entry:
        what = "another provider's tool"
        if hosted_type(spec, self.keys) is not None:
            what = "chat completions host no tools; the responses do"
        return refusal(spec, "/providerId", "providerId", what)

    def _written(self, spec: ToolSpec, kind: str, definition: JsonObject, told: Definition) -> Entry:
        options = passthrough(spec.provider_options, self.keys)
        elsewhere = [name for name in _ELSEWHERE if options.pop(name, None) is not None]
        losses = (*told.losses, *(_left_out(spec, name) for name in elsewhere), *_unsaid(spec))
        refused = any(loss.refused for loss in losses)
        return Entry(None if refused else {"type": kind, kind: {**definition, **options}}, losses)


def _named(spec: ToolSpec, told: Definition) -> JsonObject:
    return {"name": spec.name, **({"description": told.description} if told.description else {})}


def _left_out(spec: ToolSpec, name: str) -> Loss:
    return Loss(spec.name, f"/providerOptions/{FAMILY}/{name}", name, "left out: only responses have it")


def _unsaid(spec: ToolSpec) -> tuple[Loss, ...]:
    if spec.output_schema_text is None:
        return ()
    return (Loss(spec.name, "/outputSchema", "outputSchema", "not told: chat completions have no field for it"),)


def listed(written: Entries, specs: Sequence[ToolSpec], strict: bool | None, most: int) -> Listed:
    """The list of these tools; what comes after as many as the provider takes is refused.

    Args:
        written: The tools, each written once.
        specs: In their order.
        strict: What the request says of strictness.
        most: Entries in a list.
    """
    taken: list[ToolSpec] = []
    by_name: dict[str, JsonObject] = {}
    losses: list[Loss] = []
    for spec in specs:
        entry = written.one(spec, strict).entry
        if entry is not None and spec.name not in by_name:
            if len(by_name) >= most:
                losses.append(beyond(spec, most))
                continue
            by_name[spec.name] = entry
        taken.append(spec)
    exported = written.exported(taken, strict)
    return Listed(ExportedTools(exported.entries, (*exported.losses, *losses), exported.names), by_name)


def chat_body(request: ModelRequest, listed: Listed, style: ChatStyle, most_tokens: str) -> JsonObject:
    """The whole body.

    Args:
        request: What is asked.
        listed: The tools of the request.
        style: How the conversation is said.
        most_tokens: The member that limits the answer's length.

    Raises:
        ExportError: The tool choice can't be said.
    """
    options = passthrough(request.config.provider_options, (FAMILY, style.key))
    tools = tool_facts(request, listed, options.pop(ALLOWED, None), style.key, ChatChoice())
    body = {
        **known({"model": request.model}),
        "messages": chat_messages(request.system, request.messages, listed, style),
        **tools,
        **_config(request, most_tokens),
    }
    return merged(body, options)


def _config(request: ModelRequest, most_tokens: str) -> JsonObject:
    config = request.config
    return known(
        {
            most_tokens: config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "stop": list(config.stop),
            "seed": config.seed,
            "reasoning_effort": config.reasoning,
        }
    )


COST: Final = 1_000
"""Characters of an answer's room that each call takes beside its own: an answer can't bring calls without end."""


@define
class StreamedCall:
    """One call so far.

    Attributes:
        place: Which of the answer's calls it is.
        text: Its arguments, or its free text.
        id: As far as it is known.
        name: Likewise.
        custom: Whether it takes free text.
        extra: What other servers want back with it.
    """

    place: int
    text: Gathered
    id: str = ""
    name: str = ""
    custom: bool = False
    extra: Any = None
    _end: JsonEnd = field(factory=JsonEnd, init=False)
    _unread: list[str] = field(factory=list[str], init=False)

    def named(self, name: str) -> None:
        """Takes in some more of the name; servers that repeat the whole with each piece say nothing new."""
        if name and name != self.name and not len(self.text):
            self.name += name[:COST]

    def add(self, piece: str) -> str:
        """Takes in some more of its text, and gives what was taken of it."""
        taken = self.text.add(piece)
        self._unread.append(taken)
        return taken

    def is_whole(self) -> bool:
        """Whether its arguments are a whole object: then nothing more can belong to it."""
        unread, self._unread = self._unread, []
        return self._end.reached("".join(unread)) and not self.custom

    def repeats(self, text: str) -> bool:
        """Whether a piece is all of it once more, as some servers end with."""
        return len(text) == len(self.text) and self.is_whole() and text == self.text.text

    def data(self) -> JsonObject:
        """As an answer that comes whole would have it."""
        if self.custom:
            return {"id": self.id, "custom": {"name": self.name, "input": self.text.text}}
        function = {"name": self.name, "arguments": self.text.text}
        return {"id": self.id, "function": function, EXTRA: self.extra}


@define
class StreamedCalls:
    """The calls of an answer so far.

    Attributes:
        room: Of the answer.
        most: Characters that are kept of one call's arguments; one more than are taken, so that the call is refused
            for its length.
    """

    room: Room
    most: int
    calls: list[StreamedCall] = field(factory=list[StreamedCall], init=False)
    _at: dict[int | None, StreamedCall] = field(factory=dict["int | None", StreamedCall], init=False)
    _by_id: dict[tuple[int | None, str], StreamedCall] = field(
        factory=dict[tuple["int | None", str], StreamedCall], init=False
    )

    def feed(self, piece: JsonMapping) -> CallDelta | None:
        """Takes in one piece; gives what came with it, or `None` where there was no room."""
        custom = object_or_none(piece.get("custom"))
        said = custom if custom is not None else object_in(piece, "function")
        index, call_id, name = place_in(piece, "index"), text_in(piece, "id"), text_in(said, "name")
        text = _text(said.get("input" if custom is not None else "arguments"))
        call = self._of(index, call_id, name, text)
        if call is None:
            return None
        if call_id and call.id == call_id and call.repeats(text):
            return None
        call.custom = call.custom or custom is not None
        call.extra = piece.get(EXTRA) or call.extra
        call.named(name)
        return CallDelta(call.place, call.add(text), writable(call.id), writable(call.name))

    def _of(self, index: int | None, call_id: str, name: str, text: str) -> StreamedCall | None:
        """The call of a piece. A new id is a new call, under whatever index; so is a name behind a whole call."""
        current = self._at.get(index) if index is not None else self._last()
        if call_id:
            known = self._by_id.get((index, call_id))
            if known is not None and not _is_another(known, name, text):
                return known
            if current is None or current.id or known is not None:
                return self._new(index, call_id)
            current.id = call_id[:COST]
            self._by_id[index, call_id] = current
            return current
        return current if current is not None and not _is_another(current, name, text) else self._new(index, "")

    def _last(self) -> StreamedCall | None:
        return self.calls[-1] if self.calls else None

    def _new(self, index: int | None, call_id: str) -> StreamedCall | None:
        if self.room.take(COST) < COST:
            return None
        call = StreamedCall(len(self.calls), Gathered(self.room, self.most), call_id[:COST])
        self.calls.append(call)
        self._at[index] = call
        self._by_id[index, call_id] = call
        return call


def _is_another(call: StreamedCall, name: str, text: str) -> bool:
    """Whether a piece begins another call: it has a name and begins an object, and that of this call is whole."""
    begins = bool(name) and len(call.text) > 0 and text.lstrip().startswith("{")
    return begins and call.is_whole() and not call.repeats(text)


def _text(arguments: object) -> str:
    """Arguments that come whole, as an object, are written as text."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    data, fault = deep_copy(arguments)
    return str(json_text(data)) if fault is None else fault  # which is no JSON either, so that the call is refused


_KEPT = ("id", "model", "service_tier", "system_fingerprint")


@define
class ChatReader:
    """Gathers the first choice of a stream, and reads it as if it had come whole.

    Attributes:
        answers: Reads whole answers.
    """

    answers: ChatAnswers
    _room: Room = field(init=False)
    _calls: StreamedCalls = field(init=False)
    _texts: dict[str, Gathered] = field(factory=dict[str, Gathered], init=False)
    _annotations: list[JsonMapping] = field(factory=list[JsonMapping], init=False)
    _facts: JsonObject = field(factory=dict[str, Any], init=False)
    _audio: JsonObject = field(factory=dict[str, Any], init=False)
    _finish: str | None = field(default=None, init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self._room = Room(limits.answer_text)
        self._calls = StreamedCalls(self._room, limits.argument_text + 1)

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Takes in a `chat.completion.chunk`, and gives what came with it. Never raises."""
        body = object_or_none(chunk)
        if body is None:
            return []
        if body.get("error"):
            self._end.failed(*error_facts(object_or_none(body["error"]) or {"message": body["error"]}))
        self._facts |= {name: text for name in _KEPT if (text := text_in(body, name))}
        if object_or_none(body.get("usage")) is not None:
            self._facts["usage"] = body["usage"]
        deltas: list[Delta] = []
        for choice in objects_in(body, "choices"):
            if choice.get("index") in (0, None):
                deltas += self._choice(choice)
        return deltas

    def _choice(self, choice: JsonMapping) -> list[Delta]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish = reason
            self._end.reached = True
        message = object_or_none(choice.get("delta")) or object_in(choice, "message")
        return list(self._message(message))

    def _message(self, message: JsonMapping) -> Iterable[Delta]:
        for name in REASONING:
            if piece := self._gather(name, text_in(message, name)):
                yield ReasoningDelta(piece)
        for name in ("content", "refusal"):
            if piece := self._gather(name, text_in(message, name)):
                yield TextDelta(piece)
        self._annotate(message)
        self._hear(object_in(message, "audio"))
        for call in _delta_pieces(message):
            if (delta := self._calls.feed(call)) is not None:
                yield delta

    def _gather(self, name: str, piece: str) -> str:
        if not piece:
            return ""
        return self._texts.setdefault(name, Gathered(self._room)).add(piece)

    def _annotate(self, message: JsonMapping) -> None:
        for annotation in objects_in(message, "annotations"):
            if self._room.take(COST) == COST:
                self._annotations.append(annotation)

    def _hear(self, audio: JsonMapping) -> None:
        self._gather("audio", text_in(audio, "data"))
        self._gather("transcript", text_in(audio, "transcript"))
        if text_in(audio, "id"):
            self._audio["id"] = text_in(audio, "id")

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come.

        Args:
            broken: Why the stream ended early.
        """
        texts = {name: gathered.text for name, gathered in self._texts.items()}
        audio = {**self._audio, "data": texts.pop("audio", ""), "transcript": texts.pop("transcript", "")}
        calls = [call.data() for call in self._calls.calls]
        message = {**texts, "annotations": self._annotations, "audio": audio, "tool_calls": calls}
        choice = {"message": message, "finish_reason": self._finish}
        return self._end.of(self.answers.read({**self._facts, "choices": [choice]}), broken, spent=self._room.spent)


def _delta_pieces(message: JsonMapping) -> list[JsonMapping]:
    """The pieces of calls; those of a call in the form of before there were several, too."""
    legacy = object_or_none(message.get("function_call"))
    return [*objects_in(message, "tool_calls"), *([] if legacy is None else [{"index": 0, "function": legacy}])]


@define(eq=False, kw_only=True)
class OpenAIChat:
    """Writes requests for OpenAI's chat completions, and for the many servers that speak as they do.

    Options of tools and requests stand under `"openai"` and, stronger, under its own name. There its own facts of calls
    and parts stand too: one with another name, for another server, keeps apart what is whose. The request's option
    `allowed_tools` (names) leaves the list as it is and lets the model choose among these; all other options go into
    the body as they are.

    Attributes:
        name: What it is found by.
        limits: What the provider takes.
        custom_tools: Whether it knows tools that take free text; where not, they become functions.
        system_role: Who gives the instructions: `"system"`, or `"developer"`.
        reasoning: The member in which a server wants the model's reasoning back (`"reasoning_content"`), or `None`.
        most_tokens: The member that limits an answer's length; other servers call it `"max_tokens"`.
    """

    name: str = "openai"
    limits: Limits = CHAT
    custom_tools: bool = True
    system_role: str = "system"
    reasoning: str | None = None
    most_tokens: str = "max_completion_tokens"
    _written: Entries = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._written = Entries(ChatWriter(self.limits, self.custom_tools, (FAMILY, self.name)))

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions and custom tools; tools that providers host are refused."""
        return listed(self._written, specs, strict, self.limits.tools).exported

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._written.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /chat/completions`, without `stream`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs = [tool.spec for tool in request.offered]
        tools = listed(self._written, specs, request.config.strict, self.limits.tools)
        style = ChatStyle(self.name, self.limits, self.system_role, self.reasoning)
        return chat_body(request, tools, style, self.most_tokens)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """A `chat.completion`, read; of several choices the first.

        Raises:
            ModelError: It is no chat completion, or the provider's error.
        """
        return self._answers(request).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ChatReader:
        """What reads a stream of `chat.completion.chunk`s."""
        return ChatReader(self._answers(request))

    def _answers(self, request: ModelRequest | None) -> ChatAnswers:
        return ChatAnswers(self.name, strict_schemas(request), self.limits)


@cache
def exporter() -> OpenAIChat:
    """The one of this process, which keeps what it has written."""
    return OpenAIChat()


__all__ = [
    "EXTRA",
    "FAMILY",
    "REASONING",
    "ChatAnswers",
    "ChatChoice",
    "ChatReader",
    "ChatStyle",
    "ChatWriter",
    "OpenAIChat",
    "StreamedCall",
    "StreamedCalls",
    "chat_body",
    "chat_messages",
    "exporter",
    "listed",
    "users_content",
    "written",
]
