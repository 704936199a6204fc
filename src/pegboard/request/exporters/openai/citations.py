"""Citations of an answer, both ways: what the provider wrote goes back as it was."""

from __future__ import annotations

from collections.abc import Iterable

from pegboard.messages.message import Citation
from pegboard.request.exporters.openai.kept import kept
from pegboard.request.exporters.untrusted import known_text, object_in, own, place_in
from pegboard.typing import JsonMapping, JsonObject


def read_citations(annotations: Iterable[JsonMapping], key: str) -> tuple[Citation, ...]:
    """The citations of a text; one that can't be read is passed over.

    Args:
        annotations: As chat completions nest them (`{"type", "url_citation": {...}}`), or flat as responses have them.
        key: Under which the provider's own is kept.
    """
    return tuple(_citation(each, key) for each in annotations)


def _citation(annotation: JsonMapping, key: str) -> Citation:
    said = object_in(annotation, "url_citation") or annotation
    whole = kept(annotation)
    return Citation(
        uri=known_text(said, "url"),
        title=known_text(said, "title") or known_text(said, "filename"),
        start=place_in(said, "start_index"),
        end=place_in(said, "end_index"),
        data={key: whole} if whole else {},
    )


def said_citations(citations: Iterable[Citation], key: str) -> list[JsonObject]:
    """The provider's own annotations, as it wrote them; another's can't be said."""
    return [dict(annotation) for each in citations if (annotation := own(each.data, key))]


__all__ = ["read_citations", "said_citations"]
