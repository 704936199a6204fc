"""`Citation`: what a model's words rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from pegboard.typing import JsonMapping, JsonObject

_NOTHING: Final[Mapping[str, Any]] = {}
_TEXTS: Final = ("text", "uri", "title")
_PLACES: Final = ("start", "end")


@frozen
class Citation:
    """A source of some of a model's words.

    Attributes:
        text: What is cited, in the source's words, or `None`.
        uri: Where it stands, or `None`.
        title: What the source is called, or `None`.
        start: Where the words that rest on it begin in their part, in characters from 0, or `None`.
        end: Where they end, exclusive, or `None`.
        data: By provider, the citation as the provider wrote it; opaque.
    """

    text: str | None = None
    uri: str | None = None
    title: str | None = None
    start: int | None = None
    end: int | None = None
    data: JsonMapping = field(default=_NOTHING, repr=False)

    def to_json(self) -> JsonObject:
        """The facts that are known, by name."""
        facts: JsonObject = {name: getattr(self, name) for name in (*_TEXTS, *_PLACES)}
        known = {name: fact for name, fact in facts.items() if fact is not None}
        return {**known, "data": dict(self.data)} if self.data else known

    @classmethod
    def from_json(cls, data: object) -> Citation:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: Something is of the wrong type; names it.
        """
        from pegboard.messages.reading import integer, mapping, members, text

        read = members(data, "citation")
        cited, uri, title = (text(read, name, None) for name in _TEXTS)
        start, end = (integer(read, name, None) for name in _PLACES)
        return cls(cited, uri, title, start, end, mapping(read, "data"))


__all__ = ["Citation"]
