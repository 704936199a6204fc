"""Parsers of responses and their items, whole and streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, field, frozen

from pegboard import ImageContent, Message, ModelResponse
from pegboard.messages import (
    CallPart,
    Delta,
    FinishReason,
    HostedPart,
    MediaPart,
    Part,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
)
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import FAULT, StreamedCall, StreamedCalls, fault_in
from pegboard_clients.wire import (
    MadeCalls,
    SizeBudget,
    StreamReader,
    StrictSchema,
    TextBuffer,
    decoded,
    facts_of,
    known_text,
    none_readable,
    object_in,
    object_or_none,
    objects_in,
    place_in,
    text_in,
)
from pegboard_openai._openai import (
    RESPONSES,
    Limits,
    Rendered,
    answer_body,
    error_facts,
    failure,
    no_answer,
    read_citations,
    read_usage,
    without_nulls,
)


@frozen
class ClientCall:
    """A kind of calls that the host runs by OpenAI's definition, such as shell calls.

    Attributes:
        tools: The types of its tool; the first is the call's name if the request has no such tool.
        arguments: The members of the item that may hold the arguments.
        output: Writes the result's item, from the call's id, the contents, whether it failed, and structured data.
    """

    tools: tuple[str, ...]
    arguments: tuple[str, ...]
    output: Callable[[str, list[Rendered], bool, Any], JsonObject]

    def read(self, item: JsonMapping) -> Any:
        """The call's arguments: the member itself, or under its name if it isn't an object."""
        for name in self.arguments:
            if item.get(name) is not None:
                return item[name] if object_or_none(item[name]) is not None else {name: item[name]}
        return None


def _texts(contents: list[Rendered]) -> str:
    unseen = "[{}: it can't be shown here]"
    return "\n".join(each.value if each.kind == "text" else unseen.format(each.name or each.kind) for each in contents)


def _local_shell(call_id: str, contents: list[Rendered], failed: bool, data: Any) -> JsonObject:
    del failed, data
    return {"type": "local_shell_call_output", "id": call_id, "output": _texts(contents)}


def _shell(call_id: str, contents: list[Rendered], failed: bool, data: Any) -> JsonObject:
    """The list under `output` in the structured result, else all text as one output."""
    outputs = [dict(each) for each in objects_in(object_or_none(data) or {}, "output")]
    if not outputs or not all(each.keys() == {"stdout", "stderr", "outcome"} for each in outputs):
        streams = {"stdout": "", "stderr": _texts(contents)} if failed else {"stdout": _texts(contents), "stderr": ""}
        outputs = [{**streams, "outcome": {"type": "exit", "exit_code": int(failed)}}]
    return {"type": "shell_call_output", "call_id": call_id, "output": outputs}


def _apply_patch(call_id: str, contents: list[Rendered], failed: bool, data: Any) -> JsonObject:
    del data
    status = "failed" if failed else "completed"
    return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": _texts(contents)}


def _computer(call_id: str, contents: list[Rendered], failed: bool, data: Any) -> JsonObject:
    """The screenshot; without a picture if the result has none."""
    del failed, data
    picture = next((each.value for each in contents if each.kind == "image"), None)
    screen = {"type": "computer_screenshot", **({} if picture is None else {"image_url": picture})}
    return {"type": "computer_call_output", "call_id": call_id, "output": screen}


CLIENT_CALLS: Final[Mapping[str, ClientCall]] = {
    "local_shell_call": ClientCall(("local_shell",), ("action",), _local_shell),
    "shell_call": ClientCall(("shell",), ("action",), _shell),
    "apply_patch_call": ClientCall(("apply_patch",), ("operation",), _apply_patch),
    "computer_call": ClientCall(("computer", "computer_use_preview", "computer_use"), ("actions", "action"), _computer),
}
"""By the type of the item."""


def client_call(item: JsonMapping) -> ClientCall | None:
    """The kind of an item that the host has to run, or `None`."""
    kind = CLIENT_CALLS.get(known_text(item, "type") or "")
    return None if kind is None or _is_hosted(item) else kind


def _is_hosted(item: JsonMapping) -> bool:
    """Whether a shell call ran in one of the provider's containers."""
    environment = object_or_none(item.get("environment")) or {}
    return known_text(environment, "type") == "container_reference"


OF_ITEM: Final = "of"
"""The metadata key of content that is part of another item, such as a generated picture."""


ToolOfType: TypeAlias = Callable[[tuple[str, ...]], "str | None"]
"""Returns the name of a request's tool of one of these types, which OpenAI defines."""

_CALL_FACTS: Final = ("id", "namespace", "caller", "async")
_RESULTS: Final = ("_output", "mcp_list_tools", "compaction")
_PICTURES: Final = frozenset({"png", "webp", "jpeg", "gif"})


@define
class Items:
    """Parser of items.

    Attributes:
        key: The key of provider metadata.
        calls: Makes the calls of this answer.
        tool_of_type: Finds the tools that OpenAI defines and the host runs.
        unread: Types of the items that were too large, and are left out.
        whole: Whether the answer is complete: otherwise the provider stores none of its items.
    """

    key: str
    calls: MadeCalls
    tool_of_type: ToolOfType
    unread: list[str]
    whole: bool = True

    def read(self, items: Iterable[JsonMapping]) -> tuple[Part, ...]:
        """The parts of items, in their order."""
        return tuple(part for item in items for part in self._one(item))

    def _one(self, item: JsonMapping) -> Iterator[Part]:
        kind = text_in(item, "type")
        read = _READERS.get(kind)
        client = client_call(item)
        if read is not None:
            yield from read(self, item)
        elif client is not None:
            yield self._client(item, client)
        else:
            yield from self._provider_parts(item)

    def message(self, item: JsonMapping) -> Iterator[Part]:
        """Texts and refusals, each with the item's id."""
        known = ("id", "phase", "status") if self.whole else ("phase",)
        facts = {name: text for name in known if (text := text_in(item, name))}
        for content in objects_in(item, "content"):
            if refusal := text_in(content, "refusal"):
                yield TextPart(refusal, provider_metadata={self.key: {**facts, "refusal": True}})
            elif text := text_in(content, "text"):
                citations = read_citations(objects_in(content, "annotations"), self.key)
                yield TextPart(text, citations, {self.key: dict(facts)} if facts else {})

    def reasoning(self, item: JsonMapping) -> Iterator[Part]:
        """The summary, or else the reasoning itself, with the whole item."""
        thoughts = objects_in(item, "summary") or objects_in(item, "content")
        text = "\n\n".join(filter(None, (text_in(each, "text") for each in thoughts)))
        facts = dict(self._keep(item) or {})
        facts.pop("type", None)
        if not self.whole and (facts.get("status") == "incomplete" or not text_in(facts, "encrypted_content")):
            facts = {}
        if text or facts:
            yield ReasoningPart(text, {self.key: facts} if facts else {})

    def function(self, item: JsonMapping) -> Iterator[Part]:
        """A call with arguments."""
        facts = self._facts(item)
        made = self.calls.call(item.get("name"), item.get("arguments"), item.get("call_id"), facts, fault_in(item))
        yield CallPart(made)

    def custom(self, item: JsonMapping) -> Iterator[Part]:
        """A call with free text."""
        facts = self._facts(item)
        made = self.calls.freeform(item.get("name"), item.get("input"), item.get("call_id"), facts, fault_in(item))
        yield CallPart(made)

    def _facts(self, item: JsonMapping) -> JsonObject:
        """Metadata to send back with a call. The SDK renames `async`, a Python keyword, to `async_`."""
        beside = {name: item.get(name) for name in _CALL_FACTS} | {"async": item.get("async", item.get("async_"))}
        if not self.whole:
            del beside["id"]
        return {"type": text_in(item, "type"), **(without_nulls(beside) or {})}

    def _client(self, item: JsonMapping, kind: ClientCall) -> CallPart:
        facts = {"type": text_in(item, "type"), "item": self._keep(item) or {}}
        name = self.tool_of_type(kind.tools) or kind.tools[0]
        return CallPart(self.calls.call(name, kind.read(item), item.get("call_id"), facts))

    def _provider_parts(self, item: JsonMapping) -> Iterator[Part]:
        """Items of the provider's own tools, and unknown ones; a generated picture is also a media part."""
        whole = self._keep(item)
        if whole is None:
            return
        kind, item_id = text_in(item, "type"), text_in(item, "id")
        role: Literal["call", "result"] = "result" if kind.endswith(_RESULTS) else "call"
        name = text_in(item, "name") or kind.removesuffix("_output").removesuffix("_call")
        yield HostedPart(self.key, whole, role, name, text_in(item, "call_id") or item_id)
        picture = _picture(item)
        if picture is not None:
            yield MediaPart(picture, {self.key: {OF_ITEM: item_id or kind}})

    def _keep(self, item: JsonMapping) -> JsonObject | None:
        whole = without_nulls(item)
        if whole is None:
            self.unread.append(text_in(item, "type"))
        return whole


def _picture(item: JsonMapping) -> ImageContent | None:
    kind = known_text(item, "output_format") or "png"
    if text_in(item, "type") != "image_generation_call" or kind not in _PICTURES:
        return None
    data = decoded(item.get("result"))
    return ImageContent(data, f"image/{kind}") if data else None


_READERS: Final[Mapping[str, Callable[[Items, JsonMapping], Iterator[Part]]]] = {
    "message": Items.message,
    "reasoning": Items.reasoning,
    "function_call": Items.function,
    "custom_tool_call": Items.custom,
}


def sources(items: Iterable[JsonMapping]) -> list[Any]:
    """The results of the provider's own searches, unchanged."""
    found: list[Any] = []
    for item in items:
        action = item.get("action")
        if isinstance(action, Mapping):
            found += objects_in(action, "sources")  # pyright: ignore[reportUnknownArgumentType]
        if text_in(item, "type") == "file_search_call":
            found += objects_in(item, "results")
    return [each for each in map(without_nulls, found) if each is not None]


_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_RUNNING: Final = frozenset({"queued", "in_progress"})
_NOTED: Final = ("service_tier", "previous_response_id")


@frozen
class ResponsesAnswers:
    """Parser of responses."""

    key: str
    strict: StrictSchema
    tool_of_type: ToolOfType
    limits: Limits = RESPONSES

    def read(self, raw: object) -> ModelResponse:
        """Parses an answer. A background response that is still running is partial.

        Raises:
            ModelError: The body is not a response, or is the provider's error.
        """
        body = answer_body(raw, self.key)
        status = text_in(body, "status")
        if status == "failed" or (body.get("error") and not isinstance(body.get("output"), list)):
            raise failure(body.get("error"), self.key)
        if not isinstance(body.get("output"), list) or (body["output"] and not objects_in(body, "output")):
            raise no_answer("it has no output", self.key)
        if any(item.get("type") == "message" and none_readable(item, "content") for item in objects_in(body, "output")):
            raise no_answer("a message has no content that can be read", self.key)
        return self.answer(body)

    def answer(self, body: JsonMapping, *, whole: bool = True) -> ModelResponse:
        """Parses an answer whose body has been checked.

        Args:
            body: With a list as its output.
            whole: Whether it is complete.
        """
        items = objects_in(body, "output")
        unread: list[str] = []
        calls = MadeCalls(self.key, self.strict, most=self.limits.argument_text)
        parts = Items(self.key, calls, self.tool_of_type, unread, whole).read(items)
        status = text_in(body, "status") or "completed"
        found = sources(items)
        return ModelResponse(
            Message("assistant", parts),
            self._finish(body, status, parts),
            read_usage(object_in(body, "usage"), "input", "output"),
            known_text(body, "model"),
            known_text(body, "id"),
            partial=status in _RUNNING,
            complete=status == "completed",
            interrupted=status == "cancelled",
            grounding={"sources": found} if found else {},
            custom_metadata=_metadata(body, unread),
        )

    def _finish(self, body: JsonMapping, status: str, parts: tuple[Part, ...]) -> FinishReason:
        if status != "completed":
            return _INCOMPLETE.get(text_in(object_in(body, "incomplete_details"), "reason"), "other")
        if any(isinstance(part, CallPart) for part in parts):
            return "tool_calls"
        texts = (part for part in parts if isinstance(part, TextPart))
        refused = any(facts_of(text.provider_metadata, self.key).get("refusal") is True for text in texts)
        return "refusal" if refused else "stop"


def _metadata(body: JsonMapping, unread: list[str]) -> JsonObject:
    noted: dict[str, Any] = {name: body[name] for name in _NOTED if known_text(body, name)}
    if reason := known_text(object_in(body, "incomplete_details"), "reason"):
        noted["incomplete"] = reason
    if unread:
        noted["unread_items"] = unread
    return noted


CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items with streamed text, and the member that holds it."""


@define
class StreamedItem:
    """One item, as received so far.

    Attributes:
        item: The item at its start, or complete.
        call: Its call, if it is one.
        done: Whether it is complete.
        texts: The pieces of its texts, by the member and the place that they belong to.
        annotations: Of its content, by place.
    """

    item: JsonMapping
    call: StreamedCall | None = None
    done: bool = False
    texts: dict[tuple[str, int], TextBuffer] = field(factory=dict[tuple[str, int], TextBuffer])
    annotations: dict[int, list[JsonMapping]] = field(factory=dict[int, list[JsonMapping]])

    def data(self) -> JsonMapping:
        """The item; an incomplete one as received so far."""
        item = self.item if self.done else self._so_far()
        return item if self.call is None else {**item, **_call_facts(item, self.call)}

    def _so_far(self) -> JsonObject:
        item: dict[str, Any] = {**self.item}
        if text_in(item, "type") in ("message", "reasoning", *CALLS):
            item["status"] = "incomplete"
        lists: dict[str, list[JsonObject]] = {}
        for (member, place), gathered in sorted(self.texts.items()):
            where, _, kind = member.partition(".")
            lists.setdefault(where, []).append(self._part(kind, place, gathered.text))
        return {**item, **lists}

    def _part(self, kind: str, place: int, text: str) -> JsonObject:
        member = "refusal" if kind == "refusal" else "text"
        annotated = {"annotations": self.annotations.get(place, [])} if kind == "output_text" else {}
        return {"type": kind, member: text, **annotated}


def _call_facts(item: JsonMapping, call: StreamedCall) -> JsonObject:
    """The members of a call's item that its pieces decide."""
    return {CALLS[text_in(item, "type")]: call.arguments, FAULT: call.fault}


@define
class StreamedItems:
    """The items of an answer, as received so far."""

    budget: SizeBudget
    calls: StreamedCalls
    items: list[StreamedItem] = field(factory=list[StreamedItem], init=False)
    _at: dict[int | None, StreamedItem] = field(factory=dict["int | None", StreamedItem], init=False)
    _by_id: dict[str, StreamedItem] = field(factory=dict[str, StreamedItem], init=False)
    _of_call: dict[int, StreamedItem] = field(factory=dict[int, StreamedItem], init=False)

    def begin(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """Starts an item; `None` if there is no room for it."""
        kind = text_in(item, "type")
        if kind not in CALLS:
            return self._register(event, StreamedItem(item)) if self.budget.take_item() else None
        facts = {**item, "arguments": item.get(CALLS[kind])}
        fed = self._feed(event, facts, kind, text_in(item, "call_id") or text_in(item, "id"))
        return None if fed is None else fed[0]

    def end(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """Ends an item; an unknown one is added."""
        index, kind = place_in(event, "output_index"), text_in(item, "type")
        known = (self._by_id.get(text_in(item, name)) for name in ("id", "call_id"))
        among = (self._at.get(index), *known) if kind in CALLS else (*known, self._at.get(index))
        ended = next((each for each in among if each is not None and _is_same(each, item)), None)
        ended = ended or self.begin(event, {**item, CALLS[kind]: None} if kind in CALLS else item)
        if ended is None:
            return None
        ended.item, ended.done = item, True
        if ended.call is not None:
            self.calls.finish(ended.call, item.get(CALLS[kind]))
            ended.call.closed = True
        return ended

    def of(self, event: JsonMapping, kind: str) -> StreamedItem | None:
        """The item of a piece of text; started if it is unknown."""
        item_id = text_in(event, "item_id")
        found = self._by_id.get(item_id) if item_id else None
        found = found or self._at.get(place_in(event, "output_index"))
        if found is None or (item_id and text_in(found.item, "id") not in ("", item_id)):
            return self.begin(event, {"type": kind, **({"id": item_id} if item_id else {})})
        return found

    def call_piece(self, event: JsonMapping, kind: str, arguments: object) -> tuple[StreamedCall, str] | None:
        """Adds a piece of a call; returns the call with what was added to it.

        It goes by `output_index`, by `item_id` only where the index is unknown or doesn't tell two calls apart.
        """
        item_id = text_in(event, "item_id")
        at, by_id = self._at.get(place_in(event, "output_index")), self._by_id.get(item_id)
        first = at or by_id
        if first is not None and first.call is None:
            self.calls.doubt()
            return None
        known = None if by_id is None or not (at is None or (at.call and at.call.overlaps)) else by_id.call
        fed = self._feed(event, {"id": item_id, "arguments": arguments}, kind, "" if known is None else known.id)
        return None if fed is None or fed[0].call is None else (fed[0].call, fed[1])

    def add(self, item: StreamedItem, member: str, place: int, piece: str) -> str:
        """Adds a piece of an item's text; returns the part that was added."""
        gathered = item.texts.get((member, place))
        if gathered is None:
            if not self.budget.take_item():
                return ""
            gathered = item.texts[member, place] = TextBuffer(self.budget)
        return gathered.add(piece)

    def check(self, whole: list[JsonMapping]) -> list[JsonMapping]:
        """The items of the last event; the calls among them that contradict their pieces can't run."""
        streamed = [item.call for item in self.items if item.call is not None]
        by_id = {call.id: call for call in streamed}
        calls = [item for item in whole if text_in(item, "type") in CALLS]
        known: dict[int, StreamedCall] = {}
        for place, item in enumerate(calls):
            call_id, call = text_in(item, "call_id"), streamed[place] if place < len(streamed) else None
            if call is None or call.id != call_id:
                call = by_id.get(call_id, call)
            if call is None:
                continue
            known[id(item)] = call
            self.calls.finish(call, item.get(CALLS[text_in(item, "type")]))
            if call.name not in ("", text_in(item, "name")):
                self.calls.doubt(call)
        return [item if id(item) not in known else {**item, **_call_facts(item, known[id(item)])} for item in whole]

    def _feed(self, event: JsonMapping, item: JsonMapping, kind: str, call_id: str) -> tuple[StreamedItem, str] | None:
        index, is_free = place_in(event, "output_index"), kind != "function_call"
        name = text_in(item, "name")
        fed = self.calls.feed(index, call_id, name, item.get("arguments"), free=is_free)
        if fed is None:
            return None
        if name and name != fed[0].name:  # no part of its name: here, names aren't streamed
            self.calls.doubt(fed[0])
        known = self._of_call.get(fed[0].place)
        if known is None:
            facts = {name: fact for name, fact in item.items() if name != "arguments" and fact != ""}
            known = self._register(event, StreamedItem({"type": kind, **facts}, fed[0]))
            self._of_call[fed[0].place] = known
        return known, fed[1]

    def _register(self, event: JsonMapping, item: StreamedItem) -> StreamedItem:
        self.items.append(item)
        self._at[place_in(event, "output_index")] = item
        for name in ("id", "call_id"):
            if found := text_in(item.item, name):
                self._by_id[found] = item
        return item


def _is_same(begun: StreamedItem, item: JsonMapping) -> bool:
    """Whether an item may end the one that has begun: of one type, and a call not yet ended, or of the same ids."""
    mine = begun.item
    if text_in(mine, "type") != text_in(item, "type"):
        return False
    if begun.call is not None and not begun.done:
        return text_in(item, "name") in ("", begun.call.name) or not begun.call.name
    ids = [(text_in(mine, name), text_in(item, name)) for name in ("id", "call_id")]
    if begun.done:
        return begun.call is not None and ids[1][0] == ids[1][1] != ""
    return all(not own or not its or own == its for own, its in ids)


_CALL_PIECES: Final = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_CALL_ENDS: Final = {
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
}
_TEXT_PIECES: Final[Mapping[str, tuple[str, str, Callable[[str], Delta]]]] = {
    "response.output_text.delta": ("message", "content.output_text", TextDelta),
    "response.refusal.delta": ("message", "content.refusal", TextDelta),
    "response.reasoning_text.delta": ("reasoning", "content.reasoning_text", ReasoningDelta),
    "response.reasoning_summary_text.delta": ("reasoning", "summary.summary_text", ReasoningDelta),
}
"""By event: the type of the item, its member that grows, and the class of the delta."""

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@define(eq=False)
class ResponsesReader(StreamReader):
    """Parser of a stream: collects its items, unless the last event has all of them."""

    answers: ResponsesAnswers
    _items: StreamedItems = field(init=False)
    _body: JsonObject = field(factory=dict[str, Any], init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self.budget = SizeBudget(limits.answer_text)
        self._items = StreamedItems(self.budget, StreamedCalls(self.budget, limits.argument_text))

    def read(self, event: JsonMapping) -> list[Delta]:
        """Parses an event; returns its deltas."""
        kind = text_in(event, "type")
        if kind in _TEXT_PIECES:
            return self._text(event, *_TEXT_PIECES[kind])
        if kind in _CALL_PIECES:
            fed = self._items.call_piece(event, _CALL_PIECES[kind], event.get("delta"))
            return [] if fed is None else [fed[0].delta(fed[1])]
        if kind == "response.output_item.added":
            return self._begin(event)
        if kind == "response.output_item.done":
            self._items.end(event, object_in(event, "item"))
        elif kind in _CALL_ENDS:
            fed = self._items.call_piece(event, _CALL_ENDS[kind], None)
            if fed is not None:
                self._items.calls.finish(fed[0], event.get(CALLS[_CALL_ENDS[kind]]))
        elif kind == "response.output_text.annotation.added":
            self._annotate(event)
        else:
            self._of_whole(event, kind)
        return []

    def _text(self, event: JsonMapping, kind: str, member: str, delta: Callable[[str], Delta]) -> list[Delta]:
        item = self._items.of(event, kind)
        if item is None:
            return []
        place = place_in(event, "summary_index" if member.startswith("summary") else "content_index") or 0
        piece = self._items.add(item, member, place, text_in(event, "delta"))
        return [delta(piece)] if piece else []

    def _begin(self, event: JsonMapping) -> list[Delta]:
        item = self._items.begin(event, object_in(event, "item"))
        return [] if item is None or item.call is None else [item.call.delta(item.call.arguments)]

    def _annotate(self, event: JsonMapping) -> None:
        item = self._items.of(event, "message")
        annotation = object_or_none(event.get("annotation"))
        if item is not None and annotation is not None and self.budget.take_item():
            item.annotations.setdefault(place_in(event, "content_index") or 0, []).append(annotation)

    def _of_whole(self, event: JsonMapping, kind: str) -> None:
        """Handles an event about the response as a whole: its start, end or failure."""
        response = object_or_none(event.get("response"))
        if response is not None:
            self._body = dict(response)
        self.end.reached = self.end.reached or kind in _ENDS
        if kind == "error" or event.get("error"):
            self._fail(event.get("error") or event)
        elif kind == "response.failed" or text_in(self._body, "status") == "failed":
            self._fail(self._body.get("error"))

    def _fail(self, error: object) -> None:
        code, message = error_facts(object_or_none(error) or {})
        self.end.failed(None if code == "error" else code, message)

    def whole(self) -> ModelResponse:
        """What has come, as a complete answer; the last event may have all that was dropped for lack of room."""
        whole = self._items.check(objects_in(self._body, "output"))
        gathered = [item.data() for item in self._items.items]
        output = whole if self.end.reached and len(whole) >= len(gathered) else gathered
        status = text_in(self._body, "status") if self.end.reached else "in_progress"
        answer = self.answers.answer({**self._body, "output": output, "status": status}, whole=self.end.reached)
        self.budget.spent = self.budget.spent and output is gathered
        return answer.evolve(partial=False)
