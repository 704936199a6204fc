"""What a model's words rest on, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pegboard.messages.message import Citation
from pegboard.request.exporters.alternating.opaque import opaque
from pegboard.request.exporters.anthropic.limits import FAMILY
from pegboard.request.exporters.untrusted import object_in, text_in
from pegboard.typing import JsonMapping, JsonObject

_IN_DOCUMENT: Final = ("cited_text", "document_index", "document_title")
_TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "char_location": (*_IN_DOCUMENT, "start_char_index", "end_char_index"),
    "page_location": (*_IN_DOCUMENT, "start_page_number", "end_page_number"),
    "content_block_location": (*_IN_DOCUMENT, "start_block_index", "end_block_index"),
    "web_search_result_location": ("cited_text", "encrypted_index", "title", "url"),
    "search_result_location": (
        *("cited_text", "search_result_index", "source", "title"),
        *("start_block_index", "end_block_index"),
    ),
}
"""By type, what is taken back: less than is given (`file_id`), and what has no title wants a null (the SDK's types)."""


def read_citations(given: Iterable[JsonMapping]) -> tuple[Citation, ...]:
    """Citations as they came; each is for its whole block, so that none says where its words begin."""
    return tuple(map(_citation, given))


def written_citations(citations: Iterable[Citation]) -> list[JsonObject]:
    """Those that this provider gave, as it takes them back."""
    found = (object_in(citation.data, FAMILY) for citation in citations)
    return [
        {"type": kind, **{key: own.get(key) for key in _TAKEN[kind]}}
        for own in found
        if isinstance(kind := own.get("type"), str) and kind in _TAKEN
    ]


def _citation(given: JsonMapping) -> Citation:
    text = text_in(given, "cited_text") or None
    uri = text_in(given, "url") or text_in(given, "source") or None
    title = text_in(given, "title") or text_in(given, "document_title") or None
    kept = opaque(given)
    return Citation(text, uri, title, data={FAMILY: kept} if kept else {})


__all__ = ["read_citations", "written_citations"]
