"""What a model's words rest on, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pegboard.messages.message import Citation
from pegboard.request.exporters.alternating.opaque import opaque
from pegboard.request.exporters.bedrock.limits import FAMILY
from pegboard.request.exporters.untrusted import object_in, objects_in, text_in
from pegboard.typing import JsonMapping, JsonObject

_TAKEN: Final = ("title", "source", "sourceContent", "location")


def read_citations(given: Iterable[JsonMapping]) -> tuple[Citation, ...]:
    """Citations as they came; each is for its whole block, so that none says where its words begin."""
    return tuple(map(_citation, given))


def written_citations(citations: Iterable[Citation]) -> list[JsonObject]:
    """Those that this provider gave, as it takes them back."""
    found = (object_in(citation.data, FAMILY) for citation in citations)
    return [{key: own[key] for key in _TAKEN if own.get(key) is not None} for own in found if own]


def _citation(given: JsonMapping) -> Citation:
    text = "".join(text_in(each, "text") for each in objects_in(given, "sourceContent")) or None
    uri = text_in(object_in(object_in(given, "location"), "web"), "url") or text_in(given, "source") or None
    kept = opaque(given)
    return Citation(text, uri, text_in(given, "title") or None, data={FAMILY: kept} if kept else {})


__all__ = ["read_citations", "written_citations"]
