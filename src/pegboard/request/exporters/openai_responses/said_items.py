"""What a model has said, as the items in which it said it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from attrs import frozen

from pegboard.messages.message import HostedPart, MediaPart, Part, ReasoningPart, TextPart
from pegboard.request.exporters.openai.citations import said_citations
from pegboard.request.exporters.untrusted import known_text, object_or_none, objects_in, own
from pegboard.request.exporters.worded import worded
from pegboard.typing import JsonObject

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
    return TextPart(worded(part.content)) if isinstance(part, MediaPart) else part


__all__ = ["OF_ITEM", "SaidItems", "in_words"]
