"""What a model's words rest on: citations from `groundingMetadata` and `citationMetadata`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice
from typing import Final, cast

import attrs
from attrs import define, field

from pegboard.messages.message import Citation, Part, TextPart
from pegboard.request.exporters.gemini.limits import FAMILY
from pegboard.request.exporters.untrusted import as_object, count_in, list_in, object_in, objects_in, text_in
from pegboard.typing import JsonMapping

MOST: Final = 1000
"""Citations that are read of one answer; `grounding` holds whatever there was."""

_SOURCES: Final = ("web", "retrievedContext", "maps", "image")


@define(eq=False)
class _Words:
    """A part's text, whose places the provider counts in bytes of UTF-8.

    Attributes:
        text: The text.
        place: Which of the answer's parts it is.
    """

    text: str
    place: int
    citations: list[Citation] = field(factory=list[Citation])
    _ends: list[int] | None = None

    @property
    def length(self) -> int:
        """In bytes."""
        return len(self.text) if self.text.isascii() else self._byte_ends()[-1]

    def character(self, offset: int) -> int | None:
        """The character that begins at a byte; `None` where none does."""
        if self.text.isascii():
            return offset if offset <= len(self.text) else None
        from bisect import bisect_left

        ends = self._byte_ends()
        place = bisect_left(ends, offset)
        return place if place < len(ends) and ends[place] == offset else None

    def _byte_ends(self) -> list[int]:
        if self._ends is None:
            self._ends = [0, *accumulate(len(each.encode(errors="replace")) for each in self.text)]
        return self._ends


def with_citations(parts: Sequence[Part], candidate: JsonMapping) -> list[Part]:
    """The parts with what their words rest on.

    Args:
        parts: The answer's.
        candidate: With `groundingMetadata` and `citationMetadata`, where there are any.
    """
    texts = [_Words(part.text, place) for place, part in enumerate(parts) if isinstance(part, TextPart)]
    if not texts:
        return list(parts)
    for support, chunk in islice(_supports(object_in(candidate, "groundingMetadata")), MOST):
        _cite(texts, object_in(support, "segment"), _of_chunk(chunk), {"chunk": dict(chunk), "support": dict(support)})
    for cited in objects_in(object_in(candidate, "citationMetadata"), "citations")[:MOST]:
        named = Citation(uri=text_in(cited, "uri") or None, title=text_in(cited, "title") or None)
        _cite(texts, cited, named, dict(cited))
    new = list(parts)
    for words in texts:
        part = new[words.place]
        if words.citations and isinstance(part, TextPart):
            new[words.place] = attrs.evolve(part, citations=words.citations)
    return new


def _supports(grounding: JsonMapping) -> Iterable[tuple[JsonMapping, JsonMapping]]:
    """Each support with each of its chunks."""
    chunks = list_in(grounding, "groundingChunks")
    for support in objects_in(grounding, "groundingSupports")[:MOST]:
        for index in list_in(support, "groundingChunkIndices"):
            chunk = chunks[index] if type(index) is int and 0 <= index < len(chunks) else None
            if isinstance(chunk, Mapping):
                yield support, cast("JsonMapping", chunk)


def _of_chunk(chunk: JsonMapping) -> Citation:
    source = as_object(next((chunk[key] for key in _SOURCES if chunk.get(key)), None))
    uri = text_in(source, "uri") or text_in(source, "sourceUri")
    return Citation(text_in(source, "text") or None, uri or None, text_in(source, "title") or None)


def _cite(texts: list[_Words], segment: JsonMapping, named: Citation, raw: JsonMapping) -> None:
    """Puts a citation to the part whose words it is of; where none fits, to the first, without its place."""
    start, end = count_in(segment, "startIndex"), count_in(segment, "endIndex")
    said = text_in(segment, "text")
    wanted = count_in(segment, "partIndex")
    for words in sorted(texts, key=lambda each: each.place != wanted) if len(texts) > 1 else texts:
        found = _placed(words, start, end, said)
        if found is not None:
            words.citations.append(attrs.evolve(named, start=found[0], end=found[1], data={FAMILY: raw}))
            return
    texts[0].citations.append(attrs.evolve(named, data={FAMILY: raw}))


def _placed(words: _Words, start: int, end: int, said: str) -> tuple[int, int] | None:
    """Where some bytes of a text are in characters; `None` where they aren't, or say something else."""
    if not start < end <= words.length:
        return None
    first, last = words.character(start), words.character(end)
    if first is None or last is None or (said and (last - first != len(said) or words.text[first:last] != said)):
        return None
    return first, last


__all__ = ["with_citations"]
