"""Only the keywords that a provider reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import only, without
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.walk import Place, from_outside
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema

_SAYS_NOTHING: Final = frozenset({"$comment", "$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "title"})
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_WITH_ANOTHER: Final = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}


def only_keywords(kept: Collection[str], *, untold: Collection[str] = ()) -> Step:
    """The step that leaves out all keywords but some, and tells in the description what the others asked.

    Args:
        kept: The keywords that stay.
        untold: Keywords that go without a word, and are not taken down.
    """
    silent = _SAYS_NOTHING | frozenset(untold)
    stay = frozenset(kept)

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if stay.issuperset(schema):
            return schema
        said: list[str] = []
        for keyword in schema:
            if keyword not in stay and keyword not in silent and not _is_idle(keyword, schema):
                said.append(told(keyword, schema))
                place.lost(keyword, "moved into the description" if said[-1] else "left out")
        return described(only(schema, stay), *said)

    return from_outside(visit)


def _is_idle(keyword: str, schema: JsonSchema) -> bool:
    """Whether a keyword asks nothing by itself, or nothing that the model has to know.

    Other keys than those that are told don't come to a model's mind, whether they are refused or welcome.
    """
    rule = schema[keyword]
    idle = rule is False or rule in ({}, []) or (rule is True and keyword in _OTHERS)
    return idle or _WITH_ANOTHER.get(keyword) in schema


def drop_keywords(*dropped: str) -> Step:
    """The step that leaves some keywords out, without a word in the description."""

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        gone = [keyword for keyword in dropped if keyword in schema]
        for keyword in gone:
            place.lost(keyword, "left out")
        return without(schema, gone) if gone else schema

    return where(*dropped)(visit)
