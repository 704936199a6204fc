"""The items of an answer, each as what it is."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import define

from pegboard.messages.message import CallPart, HostedPart, MediaPart, Part, ReasoningPart, TextPart
from pegboard.request.exporters.calls.made_calls import MadeCalls
from pegboard.request.exporters.openai.citations import read_citations
from pegboard.request.exporters.openai.kept import kept
from pegboard.request.exporters.openai_responses.client_calls import ClientCall, client_call
from pegboard.request.exporters.openai_responses.said_items import OF_ITEM
from pegboard.request.exporters.untrusted import known_text, objects_in, text_in
from pegboard.tools.content import ImageContent
from pegboard.typing import JsonMapping, JsonObject

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


__all__ = ["Items", "ToolOfType", "sources"]
