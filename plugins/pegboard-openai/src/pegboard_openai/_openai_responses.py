"""Parsers of responses and their items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define, frozen

from pegboard import ImageContent, Message, ModelResponse
from pegboard.messages import (
    CallPart,
    FinishReason,
    HostedPart,
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
)
from pegboard.typing import JsonMapping, JsonObject
from pegboard_clients.calls import fault_in
from pegboard_clients.wire import (
    MadeCalls,
    StrictSchema,
    decoded,
    facts_of,
    known_text,
    none_readable,
    object_in,
    object_or_none,
    objects_in,
    text_in,
)
from pegboard_openai._openai import (
    RESPONSES,
    Limits,
    Rendered,
    answer_body,
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
