"""`OpenAIResponses`: OpenAI's responses API, both ways."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

from attrs import define, evolve, field, frozen

from pegboard import (
    CallPart,
    ExportedTools,
    HostedPart,
    ImageContent,
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
from pegboard.messages.message import Part
from pegboard.messages.response import CallDelta, Delta, FinishReason, ReasoningDelta, TextDelta
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
    render_text,
    sendable,
    strict_schemas,
    text_in,
)
from pegboard_openai._openai import (
    ALLOWED,
    REFUSED_IN_IDS,
    RESPONSES,
    Definition,
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
    said_citations,
    spoken,
    spoken_result,
    tool_facts,
    user_content,
    words,
)


@frozen
class ClientCall:
    """One kind of such calls.

    Attributes:
        tools: The types of its tool; the first is the call's name where no tool of the request has one of them.
        arguments: The members of the item that may hold what to do.
        output: Makes the item of the result, from the call's id, what is said, whether it failed, and structured data.
    """

    tools: tuple[str, ...]
    arguments: tuple[str, ...]
    output: Callable[[str, list[Spoken], bool, Any], JsonObject]

    def read(self, item: JsonMapping) -> Any:
        """What to do, as the call's arguments: the member itself, or under its name where it is no object."""
        for name in self.arguments:
            if item.get(name) is not None:
                return item[name] if object_or_none(item[name]) is not None else {name: item[name]}
        return None


def _texts(said: list[Spoken]) -> str:
    return "\n".join(each.value for each in said if each.kind == "text")


def _local_shell(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    del failed, data
    return {"type": "local_shell_call_output", "id": call_id, "output": _texts(said)}


def _shell(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    """The tool's own list of outputs, under `output` of its structured result, else all its text as one."""
    outputs = [dict(each) for each in objects_in(object_or_none(data) or {}, "output")]
    if not outputs or not all(each.keys() == {"stdout", "stderr", "outcome"} for each in outputs):
        streams = {"stdout": "", "stderr": _texts(said)} if failed else {"stdout": _texts(said), "stderr": ""}
        outputs = [{**streams, "outcome": {"type": "exit", "exit_code": int(failed)}}]
    return {"type": "shell_call_output", "call_id": call_id, "output": outputs}


def _apply_patch(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    del data
    status = "failed" if failed else "completed"
    return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": _texts(said)}


def _computer(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    """The screen; a result without one can't be said otherwise than as a screen that nobody sees."""
    del failed, data
    picture = next((each.value for each in said if each.kind == "image"), None)
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
    """The kind of an item that the host has to answer, or `None` where it is none."""
    kind = CLIENT_CALLS.get(known_text(item, "type") or "")
    return None if kind is None or _is_hosted(item) else kind


def _is_hosted(item: JsonMapping) -> bool:
    """Whether a shell's call ran in a container of the provider's."""
    environment = object_or_none(item.get("environment")) or {}
    return known_text(environment, "type") == "container_reference"


OF_ITEM: Final = "of"
"""Marks content that stands in an item beside it, such as a picture that the provider has made."""


@frozen
class SaidItems:
    """Writes the parts of one message of the model's, but for its calls.

    Attributes:
        key: Under which the provider's own facts stand, and whose hosted items are given back.
        stored: Whether the provider keeps its answers; where it doesn't, it can't look up what goes without content.
        with_ids: Whether items go back under their ids: not where the reasoning that they want beside them is lost.
    """

    key: str
    stored: bool
    with_ids: bool = True

    def loses_reasoning(self, parts: Iterable[Part]) -> bool:
        """Whether some reasoning of the message can't be given back."""
        thought = (own(part.provider_metadata, self.key) for part in parts if isinstance(part, ReasoningPart))
        return not self.stored and any(facts and not known_text(facts, "encrypted_content") for facts in thought)

    def of(self, parts: Sequence[Part]) -> Iterator[JsonObject]:
        """The items of parts that stand together; texts of one item become one."""
        for item_id, together in groupby(parts, self._item):
            if isinstance(item_id, str):
                yield from self._message(item_id, [part for part in together if isinstance(part, TextPart)])
            else:
                for part in together:
                    yield from self._other(part)

    def _item(self, part: Part) -> str | None:
        """The id of the item that a text stands in, `""` where it has none; `None` for what is no text."""
        if isinstance(part, MediaPart):
            return None if own(part.provider_metadata, self.key).get(OF_ITEM) else ""
        if not isinstance(part, TextPart):
            return None
        return (known_text(own(part.provider_metadata, self.key), "id") if self.with_ids else None) or ""

    def _message(self, item_id: str, texts: Sequence[TextPart]) -> Iterator[JsonObject]:
        facts = own(texts[0].provider_metadata, self.key)
        phase = {"phase": facts["phase"]} if known_text(facts, "phase") else {}
        if item_id:
            content = [self._content(text) for text in texts]
            status = known_text(facts, "status") or "completed"
            message = {"type": "message", "id": item_id, "role": "assistant", "status": status}
            yield {**message, "content": content, **phase}
        elif said := "".join(text.text for text in texts):
            yield {"role": "assistant", "content": said, **phase}

    def _content(self, text: TextPart) -> JsonObject:
        if own(text.provider_metadata, self.key).get("refusal") is True:
            return {"type": "refusal", "refusal": text.text}
        return {"type": "output_text", "text": text.text, "annotations": said_citations(text.citations, self.key)}

    def _other(self, part: Part) -> Iterator[JsonObject]:
        if isinstance(part, ReasoningPart):
            facts = own(part.provider_metadata, self.key)
            if facts and (self.stored or known_text(facts, "encrypted_content")):
                yield _reasoning(part, facts)
        elif isinstance(part, HostedPart) and part.provider == self.key:
            yield dict(part.data)


def _reasoning(part: ReasoningPart, facts: Any) -> JsonObject:
    """The item as it was; a summary is wanted, if only an empty one."""
    item = dict(object_or_none(facts) or {})
    if "summary" not in item:
        item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {**item, "type": "reasoning", "summary": [dict(each) for each in objects_in(item, "summary")]}


def in_words(part: Part) -> Part:
    """A text instead of a picture, a sound or a file: as such a model can't have said them."""
    return TextPart(render_text(part.content)) if isinstance(part, MediaPart) else part


ToolOfType: TypeAlias = Callable[[tuple[str, ...]], "str | None"]
"""Gives the name of the tool that a request has of one of some types that OpenAI defines."""

_CALL_FACTS: Final = ("id", "namespace", "caller", "async")
_RESULTS: Final = ("_output", "mcp_list_tools", "compaction")
_PICTURES: Final = frozenset({"png", "webp", "jpeg", "gif"})


@define
class Items:
    """Reads items.

    Attributes:
        key: Under which the provider's own facts are kept.
        calls: Makes the calls of this answer.
        tool_of_type: Finds the tools that OpenAI defines and the host runs.
        unread: Types of the items that were beyond all bounds, and are left out.
        whole: Whether the answer came to its end: else the provider keeps nothing of it that could be referred to.
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
            yield from self._hosted(item)

    def message(self, item: JsonMapping) -> Iterator[Part]:
        """Words and refusals; the item's id goes with each."""
        known = ("id", "phase", "status") if self.whole else ("phase",)
        facts = {name: text for name in known if (text := text_in(item, name))}
        for content in objects_in(item, "content"):
            if refusal := text_in(content, "refusal"):
                yield TextPart(refusal, provider_metadata={self.key: {**facts, "refusal": True}})
            elif text := text_in(content, "text"):
                citations = read_citations(objects_in(content, "annotations"), self.key)
                yield TextPart(text, citations, {self.key: dict(facts)} if facts else {})

    def reasoning(self, item: JsonMapping) -> Iterator[Part]:
        """The summary, or else the reasoning itself; the whole item goes with it."""
        said = objects_in(item, "summary") or objects_in(item, "content")
        text = "\n\n".join(filter(None, (text_in(each, "text") for each in said)))
        facts = dict(self._kept(item) or {})
        facts.pop("type", None)
        if not self.whole and (facts.get("status") == "incomplete" or not text_in(facts, "encrypted_content")):
            facts = {}
        if text or facts:
            yield ReasoningPart(text, {self.key: facts} if facts else {})

    def function(self, item: JsonMapping) -> Iterator[Part]:
        """A call with arguments."""
        facts = self._facts(item)
        yield CallPart(self.calls.call(item.get("name"), item.get("arguments"), item.get("call_id"), facts))

    def custom(self, item: JsonMapping) -> Iterator[Part]:
        """A call with free text."""
        facts = self._facts(item)
        yield CallPart(self.calls.freeform(item.get("name"), item.get("input"), item.get("call_id"), facts))

    def _facts(self, item: JsonMapping) -> JsonObject:
        """What goes back with a call. `async_` is what the SDK makes of a name that Python has for itself."""
        beside = {name: item.get(name) for name in _CALL_FACTS} | {"async": item.get("async", item.get("async_"))}
        if not self.whole:
            del beside["id"]
        return {"type": text_in(item, "type"), **(kept(beside) or {})}

    def _client(self, item: JsonMapping, kind: ClientCall) -> CallPart:
        facts = {"type": text_in(item, "type"), "item": self._kept(item) or {}}
        name = self.tool_of_type(kind.tools) or kind.tools[0]
        return CallPart(self.calls.call(name, kind.read(item), item.get("call_id"), facts))

    def _hosted(self, item: JsonMapping) -> Iterator[Part]:
        """What the provider did by itself, and whatever isn't known here; a picture that it made can be seen too."""
        whole = self._kept(item)
        if whole is None:
            return
        kind, item_id = text_in(item, "type"), text_in(item, "id")
        role: Literal["call", "result"] = "result" if kind.endswith(_RESULTS) else "call"
        name = text_in(item, "name") or kind.removesuffix("_output").removesuffix("_call")
        yield HostedPart(self.key, whole, role, name, text_in(item, "call_id") or item_id)
        picture = _picture(item)
        if picture is not None:
            yield MediaPart(picture, {self.key: {OF_ITEM: item_id or kind}})

    def _kept(self, item: JsonMapping) -> JsonObject | None:
        whole = kept(item)
        if whole is None:
            self.unread.append(text_in(item, "type"))
        return whole


def _picture(item: JsonMapping) -> ImageContent | None:
    kind = known_text(item, "output_format") or "png"
    if text_in(item, "type") != "image_generation_call" or kind not in _PICTURES:
        return None
    try:
        data = base64.b64decode(text_in(item, "result"), validate=True)
    except ValueError:
        return None
    return ImageContent(data, f"image/{kind}") if data else None


_READERS: Final[Mapping[str, Callable[[Items, JsonMapping], Iterator[Part]]]] = {
    "message": Items.message,
    "reasoning": Items.reasoning,
    "function_call": Items.function,
    "custom_tool_call": Items.custom,
}


def sources(items: Iterable[JsonMapping]) -> list[Any]:
    """What the provider's own searches have found, as it wrote it."""
    found: list[Any] = []
    for item in items:
        action = item.get("action")
        if isinstance(action, Mapping):
            found += objects_in(action, "sources")  # pyright: ignore[reportUnknownArgumentType]
        if text_in(item, "type") == "file_search_call":
            found += objects_in(item, "results")
    return [each for each in map(kept, found) if each is not None]


_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_RUNNING: Final = frozenset({"queued", "in_progress"})
_NOTED: Final = ("service_tier", "previous_response_id")


@frozen
class ResponsesAnswers:
    """Reads responses.

    Attributes:
        key: Under which the provider's own facts are kept; also for errors.
        strict: Gives the schemas of the tools that were to be strict.
        tool_of_type: Finds the tools that OpenAI defines and the host runs.
        limits: How much is read.
    """

    key: str
    strict: StrictSchema
    tool_of_type: ToolOfType
    limits: Limits = RESPONSES

    def read(self, raw: object) -> ModelResponse:
        """The answer. One that has only begun (in the background) is partial.

        Raises:
            ModelError: It is no response, or the provider's error.
        """
        body = object_or_none(raw)
        if body is None:
            raise no_answer(f"an object was expected, got {type(raw).__name__}", self.key)
        status = text_in(body, "status")
        if status == "failed" or (body.get("error") and not isinstance(body.get("output"), list)):
            raise failure(body.get("error"), self.key)
        if not isinstance(body.get("output"), list):
            raise no_answer("it has no output", self.key)
        return self.answer(body)

    def answer(self, body: JsonMapping, *, whole: bool = True) -> ModelResponse:
        """The answer of a body that has been looked at.

        Args:
            body: With a list as its output.
            whole: Whether it came to its end.
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
            custom_metadata=_noted(body, unread),
        )

    def _finish(self, body: JsonMapping, status: str, parts: tuple[Part, ...]) -> FinishReason:
        if status != "completed":
            return _INCOMPLETE.get(text_in(object_in(body, "incomplete_details"), "reason"), "other")
        if any(isinstance(part, CallPart) for part in parts):
            return "tool_calls"
        texts = (part for part in parts if isinstance(part, TextPart))
        refused = any(own(text.provider_metadata, self.key).get("refusal") is True for text in texts)
        return "refusal" if refused else "stop"


def _noted(body: JsonMapping, unread: list[str]) -> JsonObject:
    noted: dict[str, Any] = {name: body[name] for name in _NOTED if known_text(body, name)}
    if reason := known_text(object_in(body, "incomplete_details"), "reason"):
        noted["incomplete"] = reason
    if unread:
        noted["unread_items"] = unread
    return noted


_BY_TYPE: Final = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "programmatic_tool_calling",
        "shell",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
"""Hosted tools that a choice can name; the others can only be the one that is allowed."""


class ResponsesChoice:
    """Tool choice in the words of responses."""

    def one(self, name: str, entry: JsonObject) -> JsonObject:
        """`{"type": "function", "name"}`, the same of a custom tool; a hosted tool goes by its type."""
        reference = self._reference(name, entry)
        if entry["type"] in ("custom", "function", "mcp") or entry["type"] in _BY_TYPE:
            return reference
        return {"type": "allowed_tools", "mode": "required", "tools": [reference]}

    def some(self, mode: Literal["auto", "required"], tools: Sequence[tuple[str, JsonObject]]) -> JsonObject:
        """`{"type": "allowed_tools", "mode", "tools"}`."""
        return {"type": "allowed_tools", "mode": mode, "tools": [self._reference(name, entry) for name, entry in tools]}

    def _reference(self, name: str, entry: JsonObject) -> JsonObject:
        kind = entry["type"]
        if kind in ("custom", "function"):
            return {"type": kind, "name": name}
        return {"type": kind, **({"server_label": entry.get("server_label")} if kind == "mcp" else {})}


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
        return {"type": "input_text", "text": part.text}
    options = own(part.provider_metadata, key)
    said = spoken(part.content, limits, links=True)
    file_id = known_text(options, "file_id")
    if file_id is None:
        return written(said, options)
    if said.kind == "image":
        return {"type": "input_image", "file_id": file_id, "detail": known_text(options, "detail") or "auto"}
    return {"type": "input_file", "file_id": file_id}


def written(said: Spoken, options: JsonMapping = _NOTHING) -> JsonObject:
    """One content; the option `detail` says how closely a picture is looked at."""
    if said.kind == "image":
        return {"type": "input_image", "image_url": said.value, "detail": known_text(options, "detail") or "auto"}
    if said.kind == "file":
        return {"type": "input_file", "file_data": said.value, "filename": said.name}
    return {"type": "input_text", "text": said.value}


def output_of(said: Sequence[Spoken]) -> str | list[JsonObject]:
    """The output of a call: one text where there is nothing else."""
    if all(each.kind == "text" for each in said):
        return joined(list(said))
    return [written(each) for each in said]


_BESIDE = ("id", "namespace", "caller", "async")
"""What goes back with a call as it came."""


@frozen
class ResponsesStyle:
    """How a conversation is said.

    Attributes:
        key: Under which the provider's own facts stand.
        limits: What the provider takes.
        stored: Whether the provider keeps its answers.
    """

    key: str
    limits: Limits = RESPONSES
    stored: bool = True


def input_items(messages: Sequence[Message], listed: Listed, style: ResponsesStyle) -> list[JsonObject]:
    """The items of a conversation.

    Args:
        messages: The conversation.
        listed: The tools of the request: a call of one that takes free text is said so.
        style: How it is said.
    """
    saying = _Saying(listed, style, SentIds(REFUSED_IN_IDS, style.limits.call_id))
    for message in messages:
        saying.say(message)
    return saying.items


@define
class _Saying:
    """The items so far, and what is known of the calls among them."""

    listed: Listed
    style: ResponsesStyle
    ids: SentIds
    items: list[JsonObject] = field(factory=list[JsonObject])
    calls: dict[str, JsonMapping] = field(factory=dict[str, JsonMapping])
    hosted: set[str] = field(factory=set[str])

    def say(self, message: Message) -> None:
        if message.role == "assistant":
            self._assistant(message.parts)
            return
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._result(part)
            elif isinstance(part, HostedPart):
                self.items += SaidItems(self.style.key, self.style.stored).of([part])
        if message.role == "system":
            self._append("system", words(message.parts))
        else:
            self._append("user", users_content(message.parts, self.style.limits, self.style.key))

    def _append(self, role: str, content: str | list[JsonObject]) -> None:
        if content:
            self.items.append({"role": role, "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        writing = SaidItems(self.style.key, self.style.stored)
        if writing.loses_reasoning(parts):
            writing = evolve(writing, with_ids=False)
        together: list[Part] = []
        for part in parts:
            if isinstance(part, CallPart):
                self.items += writing.of(together)
                together = []
                self._call(part.call, with_id=writing.with_ids)
            elif not isinstance(part, ResultPart):
                together.append(part if self._stands_in_item(part) else in_words(part))
        self.items += writing.of(together)
        while self.items and self.items[-1].get("type") == "reasoning":  # refused where nothing follows it
            self.items.pop()
        for part in parts:
            if isinstance(part, ResultPart):
                self._result(part)

    def _stands_in_item(self, part: Part) -> bool:
        return isinstance(part, MediaPart) and bool(own(part.provider_metadata, self.style.key).get(OF_ITEM))

    def _call(self, call: ToolCall, *, with_id: bool) -> None:
        if call.provider_executed:  # neither it nor its result is ours to say
            self.hosted.add(call.id)
            return
        facts = own(call.provider_metadata, self.style.key)
        call_id = self.ids.call(call.id)
        self.hosted.discard(call.id)
        kind = known_text(facts, "type")
        if kind in CLIENT_CALLS and object_or_none(facts.get("item")) is None:
            kind = "function_call"
        if kind is None and self.listed.is_custom(call.name):
            kind = "custom_tool_call"
        self.calls[call_id] = {**facts, "type": kind}
        self.items.append(self._call_item(call, kind, call_id, facts, with_id=with_id))

    def _call_item(
        self, call: ToolCall, kind: str | None, call_id: str, facts: JsonMapping, *, with_id: bool
    ) -> JsonObject:
        if kind in CLIENT_CALLS:
            return {**facts["item"], "call_id": call_id}
        beside = {name: facts[name] for name in _BESIDE if facts.get(name) and (with_id or name != "id")}
        named = {"call_id": call_id, "name": sendable(call.name)}
        if kind == "custom_tool_call":
            return {"type": kind, **named, "input": input_text(call), **beside}
        return {"type": "function_call", **named, "arguments": arguments_text(call), **beside}

    def _result(self, part: ResultPart) -> None:
        if part.call_id in self.hosted:
            return
        said = spoken_result(part.result, self.style.limits)
        call_id = self.ids.result(part.call_id)
        if call_id is None:  # a later result of a call that has one, or of none that is left
            heading = {"type": "input_text", "text": writable(f"A later result of {part.name}:")}
            self._append("user", [heading, *(written(each) for each in said)])
            return
        facts = self.calls[call_id]
        kind = facts["type"]
        if kind in CLIENT_CALLS:
            result = part.result
            self.items.append(CLIENT_CALLS[kind].output(call_id, said, result.is_error, result.structured_content))
            return
        output = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
        caller = {"caller": facts["caller"]} if facts.get("caller") else {}
        self.items.append({"type": output, "call_id": call_id, "output": output_of(said), **caller})


FAMILY: Final = "openai"
KEYS: Final = (FAMILY, "openai-responses")


@frozen
class InNamespace(Entry):
    """One tool that stands in a namespace.

    Attributes:
        namespace: Its name.
        told: What it is for, or `None` where this tool doesn't say.
    """

    namespace: str = ""
    told: str | None = None


@frozen
class ResponsesWriter:
    """Writes one tool.

    Attributes:
        limits: What the provider takes.
        custom_tools: Whether the models know tools that take free text; where not, they are functions.
        keys: Under which a tool's options stand, and what may stand before the dot of the tools that are hosted.
    """

    limits: Limits
    custom_tools: bool = True
    keys: tuple[str, ...] = KEYS

    def __call__(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The tool's entry; its option `namespace`, a name or `{"name", "description"}`, puts it into one."""
        if spec.kind == "provider":
            return self._hosted(spec)
        if spec.kind == "freeform" and self.custom_tools:
            return self._custom(spec)
        told = function_definition(spec, strict, self.limits.description)
        # Left out or null, `strict` would have the provider rewrite the schema by its own lights.
        entry = _named("function", spec, told) | {"parameters": told.parameters, "strict": told.strict}
        if spec.output_schema_text is not None:
            entry["output_schema"] = spec.output_schema
        return self._written(spec, entry, told)

    def _custom(self, spec: ToolSpec) -> Entry:
        told = custom_definition(spec, self.limits.description)
        entry = _named("custom", spec, told)
        if spec.grammar is not None:
            entry["format"] = {"type": "grammar", **spec.grammar.to_json()}
        return self._written(spec, entry, told)

    def _hosted(self, spec: ToolSpec) -> Entry:
        kind = hosted_type(spec, self.keys)
        if kind is None:
            return refusal(spec, "/providerId", "providerId", "another provider's tool")
        options = passthrough(spec.provider_options, self.keys)
        options.pop("namespace", None)
        return Entry({**spec.provider_arguments, **options, "type": kind})

    def _written(self, spec: ToolSpec, entry: JsonObject, told: Definition) -> Entry:
        if any(loss.refused for loss in told.losses):
            return Entry(None, told.losses)
        options = passthrough(spec.provider_options, self.keys)
        given = options.pop("namespace", None)
        entry = {**entry, **options}
        return Entry(entry, told.losses) if given is None else _placed(spec, entry, told.losses, given)


def _named(kind: str, spec: ToolSpec, told: Definition) -> JsonObject:
    return {"type": kind, "name": spec.name, **({"description": told.description} if told.description else {})}


def _placed(spec: ToolSpec, entry: JsonObject, losses: tuple[Loss, ...], given: object) -> Entry:
    said = object_or_none(given) or {"name": given}
    name, description = known_text(said, "name"), known_text(said, "description")
    if name is None:
        what = "left out: a namespace is a name, or an object with name and description"
        return Entry(entry, (*losses, Loss(spec.name, f"/providerOptions/{FAMILY}/namespace", "namespace", what)))
    return InNamespace(entry, losses, name, description)


def responses_body(request: ModelRequest, listed: Listed, limits: Limits, key: str) -> JsonObject:
    """The whole body; `stop` and `seed` have no words here.

    Args:
        request: What is asked.
        listed: The tools of the request.
        limits: What the provider takes.
        key: The exporter's name.

    Raises:
        ExportError: The tool choice can't be said.
    """
    options = passthrough(request.config.provider_options, (FAMILY, key))
    tools = tool_facts(request, listed, options.pop(ALLOWED, None), key, ResponsesChoice())
    style = ResponsesStyle(key, limits, stored=options.get("store") is not False)
    body = {
        **known({"model": request.model, "instructions": writable(request.system) or None}),
        "input": input_items(request.messages, listed, style),
        **tools,
        **_config(request),
    }
    return merged(body, options)


def _config(request: ModelRequest) -> JsonObject:
    config = request.config
    return known(
        {
            "max_output_tokens": config.max_output_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "reasoning": None if config.reasoning is None else {"effort": config.reasoning},
        }
    )


SEARCH: Final = "tool_search"
_DEFERRABLE: Final = frozenset({"function", "custom", "mcp"})


def listed(
    written: Entries, specs: Sequence[ToolSpec], strict: bool | None, most: int, *, deferred: bool = False
) -> Listed:
    """The list of these tools; what comes after as many as the provider takes is refused.

    Args:
        written: The tools, each written once.
        specs: In their order.
        strict: What the request says of strictness.
        most: Entries in a list, where a namespace is one.
        deferred: Whether deferred tools are left to the provider's search, which then is in the list too.
    """
    searched = deferred and any(spec.deferred for spec in specs)
    listing = _Listing(most - 1 if searched else most, searched)
    for spec in specs:
        listing.add(spec, written.one(spec, strict))
    left_out = {spec.name for spec in listing.beyond}
    return listing.listed(most, written.exported([spec for spec in specs if spec.name not in left_out], strict).losses)


@define
class _Listing:
    most: int
    searched: bool
    entries: list[JsonObject] = field(factory=list[JsonObject])
    by_name: dict[str, JsonObject] = field(factory=dict[str, JsonObject])
    namespaces: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    beyond: list[ToolSpec] = field(factory=list[ToolSpec])
    deferred: bool = False

    def add(self, spec: ToolSpec, written: Entry) -> None:
        entry = written.entry
        if entry is None or spec.name in self.by_name:
            return
        if self.searched and spec.deferred and entry["type"] in _DEFERRABLE:
            self.deferred = True
            entry = {**entry, "defer_loading": True}
        into = self._namespace(written) if isinstance(written, InNamespace) else self._room()
        if into is None:
            self.beyond.append(spec)
            return
        into.append(entry)
        self.by_name[spec.name] = entry

    def _room(self) -> list[JsonObject] | None:
        return self.entries if len(self.entries) < self.most else None

    def _namespace(self, written: InNamespace) -> list[JsonObject] | None:
        found: dict[str, Any] | None = self.namespaces.get(written.namespace)
        if found is None:
            room = self._room()
            if room is None:
                return None
            made: list[JsonObject] = []
            found = {"type": "namespace", "name": written.namespace, "description": "", "tools": made}
            self.namespaces[written.namespace] = found
            room.append(found)
        found["description"] = found["description"] or written.told or ""
        tools: list[JsonObject] = found["tools"]
        return tools

    def listed(self, most: int, losses: Iterable[Loss]) -> Listed:
        for name, namespace in self.namespaces.items():
            namespace["description"] = namespace["description"] or f"Tools of {name}."  # the provider wants one
        if self.deferred and not any(entry["type"] == SEARCH for entry in self.entries):
            self.entries.append({"type": SEARCH})
        left_out = [beyond(spec, most) for spec in self.beyond]
        exported = ExportedTools(tuple(self.entries), (*losses, *left_out), frozenset(self.by_name))
        return Listed(exported, self.by_name)


COST: Final = 1_000
"""Characters of an answer's room that each item and each part of one takes beside its own."""

CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items whose text comes in pieces, and where it stands in them."""


@define
class StreamedItem:
    """One item so far.

    Attributes:
        item: As it was when it began, or as it is when it is done.
        place: Among the answer's calls, or `None` where it is none.
        done: Whether it is whole.
        texts: The pieces of its texts, by the member and the place that they belong to.
        annotations: Of its content, by place.
    """

    item: JsonMapping
    place: int | None = None
    done: bool = False
    texts: dict[tuple[str, int], Gathered] = field(factory=dict[tuple[str, int], Gathered])
    annotations: dict[int, list[JsonMapping]] = field(factory=dict[int, list[JsonMapping]])

    def data(self) -> JsonMapping:
        """The item; of what isn't done, with what has come of it."""
        return self.item if self.done else self._so_far()

    def _so_far(self) -> JsonObject:
        item: dict[str, Any] = {**self.item}
        if text_in(item, "type") in ("message", "reasoning", *CALLS):
            item["status"] = "incomplete"
        lists: dict[str, list[JsonObject]] = {}
        for (member, place), gathered in sorted(self.texts.items()):
            if member in CALLS.values():
                item[member] = gathered.text
                continue
            where, _, kind = member.partition(".")
            lists.setdefault(where, []).append(self._part(kind, place, gathered.text))
        return {**item, **lists}

    def _part(self, kind: str, place: int, text: str) -> JsonObject:
        member = "refusal" if kind == "refusal" else "text"
        annotated = {"annotations": self.annotations.get(place, [])} if kind == "output_text" else {}
        return {"type": kind, member: text, **annotated}


@define
class StreamedItems:
    """The items of an answer so far.

    Attributes:
        room: Of the answer.
        most: Characters that are kept of one call's text; one more than are taken.
        items: In the order in which they began.
    """

    room: Room
    most: int
    items: list[StreamedItem] = field(factory=list[StreamedItem], init=False)
    _at: dict[int | None, StreamedItem] = field(factory=dict["int | None", StreamedItem], init=False)
    _by_id: dict[str, StreamedItem] = field(factory=dict[str, StreamedItem], init=False)
    _calls: int = field(default=0, init=False)

    def begin(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """An item begins; `None` where there is no room for it."""
        if self.room.take(COST) < COST:
            return None
        begun = StreamedItem(item)
        if text_in(item, "type") in CALLS:
            begun.place, self._calls = self._calls, self._calls + 1
        self.items.append(begun)
        self._at[place_in(event, "output_index")] = begun
        for name in ("id", "call_id"):
            if found := text_in(item, name):
                self._by_id[found] = begun
        return begun

    def end(self, event: JsonMapping, item: JsonMapping) -> StreamedItem | None:
        """An item is whole; one that nobody has heard of begins with it."""
        own = text_in(item, "id") or text_in(item, "call_id")
        ended = self._by_id.get(own) or self._at.get(place_in(event, "output_index"))
        if ended is None or ended.done or not _is_same(ended.item, item):
            ended = self.begin(event, item)
        if ended is not None:
            ended.item, ended.done = item, True
        return ended

    def of(self, event: JsonMapping, kind: str) -> StreamedItem | None:
        """The item that a piece belongs to; a piece of none that is there begins one of its kind."""
        item_id = text_in(event, "item_id")
        found = self._by_id.get(item_id) if item_id else None
        found = found or self._at.get(place_in(event, "output_index"))
        if found is None or (item_id and text_in(found.item, "id") not in ("", item_id)):
            return self.begin(event, {"type": kind, **({"id": item_id} if item_id else {})})
        return found

    def add(self, item: StreamedItem, member: str, place: int, piece: str) -> str:
        """Takes in a piece of a text of an item, and gives what was taken of it."""
        gathered = item.texts.get((member, place))
        if gathered is None:
            if self.room.take(COST) < COST:
                return ""
            gathered = Gathered(self.room, self.most if member in CALLS.values() else None)
            item.texts[member, place] = gathered
        return gathered.add(piece)


def _is_same(one: JsonMapping, other: JsonMapping) -> bool:
    """Whether two items may be one: of one type, and under no two ids."""
    if text_in(one, "type") != text_in(other, "type"):
        return False
    ids = ((text_in(one, name), text_in(other, name)) for name in ("id", "call_id"))
    return all(not mine or not its or mine == its for mine, its in ids)


_CALL_PIECES: Final = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_TEXT_PIECES: Final[Mapping[str, tuple[str, str, Callable[[str], Delta]]]] = {
    "response.output_text.delta": ("message", "content.output_text", TextDelta),
    "response.refusal.delta": ("message", "content.refusal", TextDelta),
    "response.reasoning_text.delta": ("reasoning", "content.reasoning_text", ReasoningDelta),
    "response.reasoning_summary_text.delta": ("reasoning", "summary.summary_text", ReasoningDelta),
}
"""By event: the kind of item, the member of it that grows, and what is passed on."""

_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


@define
class ResponsesReader:
    """Gathers the items of a stream; where the last event has them all, those count.

    Attributes:
        answers: Reads whole answers.
    """

    answers: ResponsesAnswers
    _room: Room = field(init=False)
    _items: StreamedItems = field(init=False)
    _body: JsonObject = field(factory=dict[str, Any], init=False)
    _end: StreamEnd = field(factory=StreamEnd, init=False)

    def __attrs_post_init__(self) -> None:
        limits = self.answers.limits
        self._room = Room(limits.answer_text)
        self._items = StreamedItems(self._room, limits.argument_text + 1)

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Takes in an event, and gives what came with it. Never raises."""
        event = object_or_none(chunk)
        if event is None:
            return []
        kind = text_in(event, "type")
        if kind in _TEXT_PIECES:
            return self._text(event, *_TEXT_PIECES[kind])
        if kind in _CALL_PIECES:
            return self._call_piece(event, _CALL_PIECES[kind])
        if kind == "response.output_item.added":
            return self._begun(event)
        if kind == "response.output_item.done":
            self._items.end(event, object_in(event, "item"))
        elif kind == "response.output_text.annotation.added":
            self._annotated(event)
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

    def _call_piece(self, event: JsonMapping, kind: str) -> list[Delta]:
        item = self._items.of(event, kind)
        if item is None or item.place is None:
            return []
        return [_delta(item, self._items.add(item, CALLS[kind], 0, text_in(event, "delta")))]

    def _begun(self, event: JsonMapping) -> list[Delta]:
        item = self._items.begin(event, object_in(event, "item"))
        return [_delta(item, "")] if item is not None and item.place is not None else []

    def _annotated(self, event: JsonMapping) -> None:
        item = self._items.of(event, "message")
        annotation = object_or_none(event.get("annotation"))
        if item is not None and annotation is not None and self._room.take(COST) == COST:
            item.annotations.setdefault(place_in(event, "content_index") or 0, []).append(annotation)

    def _of_whole(self, event: JsonMapping, kind: str) -> None:
        """What is said of the response as a whole: that it begins, ends, or failed."""
        response = object_or_none(event.get("response"))
        if response is not None:
            self._body = dict(response)
        self._end.reached = self._end.reached or kind in _ENDS
        if kind == "error" or event.get("error"):
            self._fail(event.get("error") or event)
        elif kind == "response.failed" or text_in(self._body, "status") == "failed":
            self._fail(self._body.get("error"))

    def _fail(self, error: object) -> None:
        code, message = error_facts(object_or_none(error) or {})
        self._end.failed(None if code == "error" else code, message)

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come.

        Args:
            broken: Why the stream ended early.
        """
        whole = objects_in(self._body, "output")
        gathered = [item.data() for item in self._items.items]
        output = whole if self._end.reached and len(whole) >= len(gathered) else gathered
        status = text_in(self._body, "status") if self._end.reached else "in_progress"
        answer = self.answers.answer({**self._body, "output": output, "status": status}, whole=self._end.reached)
        return self._end.of(answer.evolve(partial=False), broken, spent=self._room.spent and output is gathered)


def _delta(item: StreamedItem, piece: str) -> CallDelta:
    call_id, name = text_in(item.item, "call_id"), text_in(item.item, "name")
    return CallDelta(item.place or 0, piece, writable(call_id), writable(name))


@define(eq=False, kw_only=True)
class OpenAIResponses:
    """Writes requests for OpenAI's responses.

    The whole conversation goes with each request: items under their ids, reasoning with its encrypted content where it
    came with that. With the option `store` false, nothing is said that the provider would have to look up; left out,
    the provider decides whether it keeps answers.

    Options of tools and requests stand under `"openai"` and, stronger, under its own name. A tool's option `namespace`
    puts it into one; the request's option `allowed_tools` (names) leaves the list as it is and lets the model choose
    among these; all other options go into the entry or the body as they are.

    Attributes:
        name: What it is found by, and where its own facts of calls and parts stand.
        limits: What the provider takes.
        custom_tools: Whether its models know tools that take free text; where not, they become functions.
    """

    name: str = "openai-responses"
    limits: Limits = RESPONSES
    custom_tools: bool = True
    _written: Entries = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._written = Entries(ResponsesWriter(self.limits, self.custom_tools, (FAMILY, self.name)))

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions, custom tools, namespaces, and tools that OpenAI hosts."""
        return listed(self._written, specs, strict, self.limits.tools).exported

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._written.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /responses`, without `stream`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs = [tool.spec for tool in request.offered]
        strict, most = request.config.strict, self.limits.tools
        tools = listed(self._written, specs, strict, most, deferred=request.loads_deferred)
        return responses_body(request, tools, self.limits, self.name)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """A `response`, read.

        Raises:
            ModelError: It is no response, or the provider's error.
        """
        return self._answers(request).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ResponsesReader:
        """What reads the events of a streamed response."""
        return ResponsesReader(self._answers(request))

    def _answers(self, request: ModelRequest | None) -> ResponsesAnswers:
        return ResponsesAnswers(self.name, strict_schemas(request), self._of_type(request), self.limits)

    def _of_type(self, request: ModelRequest | None) -> ToolOfType:
        def find(types: tuple[str, ...]) -> str | None:
            for tool in () if request is None else request.offered:
                if tool.spec.kind == "provider" and hosted_type(tool.spec, (FAMILY, self.name)) in types:
                    return tool.spec.name
            return None

        return find


@cache
def exporter() -> OpenAIResponses:
    """The one of this process, which keeps what it has written."""
    return OpenAIResponses()


__all__ = [
    "CALLS",
    "CLIENT_CALLS",
    "COST",
    "FAMILY",
    "KEYS",
    "OF_ITEM",
    "SEARCH",
    "ClientCall",
    "InNamespace",
    "Items",
    "OpenAIResponses",
    "ResponsesAnswers",
    "ResponsesChoice",
    "ResponsesReader",
    "ResponsesStyle",
    "ResponsesWriter",
    "SaidItems",
    "StreamedItem",
    "StreamedItems",
    "ToolOfType",
    "client_call",
    "exporter",
    "in_words",
    "input_items",
    "listed",
    "output_of",
    "responses_body",
    "sources",
    "users_content",
    "written",
]
