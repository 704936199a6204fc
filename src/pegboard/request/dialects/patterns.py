"""Only the patterns that every engine reads."""

from __future__ import annotations

import re
from typing import Final

from pegboard.request.dialects.everywhere import where
from pegboard.request.dialects.keyed import without
from pegboard.request.dialects.step import Step
from pegboard.request.dialects.walk import Place
from pegboard.request.dialects.words import described, told
from pegboard.typing import JsonSchema

_TOKEN: Final = re.compile(r"\\(?P<escape>.)|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<look>\(\?(?:<?[=!]|>))", re.DOTALL)


def patterns(*, word_bounds: bool = True) -> Step:
    r"""The step that tells patterns with look-around or backreferences in the description.

    Args:
        word_bounds: Whether the provider reads `\b` and `\B`.
    """

    def visit(schema: JsonSchema, place: Place) -> JsonSchema:
        if "pattern" not in schema or is_plain(schema["pattern"], word_bounds=word_bounds):
            return schema
        place.lost("pattern", "needs more than the provider's engine has, moved into the description")
        return described(without(schema, ("pattern",)), told("pattern", schema))

    return where("pattern")(visit)


def is_plain(pattern: str, *, word_bounds: bool = True) -> bool:
    r"""Whether a pattern has no look-around, no atomic group, no backreference, and `\b` only if that may be."""
    for token in _TOKEN.finditer(pattern):
        escape = token["escape"]
        if token["look"] or (escape and escape in "k123456789"):
            return False
        if escape and escape in "bB" and not word_bounds:
            return False
    return True
