"""Which Python patterns JSON Schema can say, and how."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from pegboard.schema.json import json_text

Way: TypeAlias = Literal["search", "match", "fullmatch"]

_PORTABLE: Final = re.compile(
    r"""(?:
        [^\\\[\](){}?*+|^$.]                                  # a character that stands for itself
      | \\[dDwWsSbB.^$*+?()\[\]{}|/\\tnrfv]                   # what is escaped alike everywhere
      | \\x[0-9a-fA-F]{2} | \\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}
      | [.^$|)]
      | \((?:\?:|(?!\?))                                      # a group, numbered or not
      | \[\^?(?: [^\\\[\]&~|-] | -(?!-) | &(?!&) | ~(?!~) | \|(?!\|)
               | \\[dDwWsS.^$*+?()\[\]{}|/\\tnrfv-] | \\x[0-9a-fA-F]{2} )+\]
      | (?: [*+?] | \{[0-9]+(?:,[0-9]*)?\} )\??(?![*+?{])     # greedy or not, never possessive
    )*""",
    re.VERBOSE,
)
"""What Python's `re`, ECMA-262 and the judge's linear-time engine read alike.

Left out: lookaround, backreferences, atomic groups, possessive repeats, named groups, inline flags, `\\A` and
`\\Z`, and in sets what some engine takes for an operation (`[[`, `&&`, `--`, `||`, `~~`).
"""
_SET_OR_ESCAPE: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.", re.DOTALL)
_NEEDLESS: Final = re.compile(r"""\\([_@:;,'"#&~ !%=<>`-])""")
_NEEDLESS_IN_SET: Final = re.compile(r"""\\([_@:;,'"#&~ !%=<>`])""")
_UNPORTABLE_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.LOCALE


def portable(pattern: re.Pattern[str], way: Way) -> str | None:
    r"""The pattern as JSON Schema says it (searched, not anchored), or `None` where it can't.

    `\d` and `\w` mean ASCII there, and `$` means the end alone, not also before a last line break: the schema is
    as strict as the pattern or a little stricter.
    """
    text = _SET_OR_ESCAPE.sub(_without_needless, pattern.pattern)
    if pattern.flags & _UNPORTABLE_FLAGS or _PORTABLE.fullmatch(text) is None:
        return None
    if way != "search":
        text = f"^(?:{text}){'$' if way == 'fullmatch' else ''}"
    return text if linear(text) is not None else None


@lru_cache(maxsize=256)
def linear(pattern: str) -> Callable[[str], bool] | None:
    """Whether a text matches, as the judge sees it and in linear time; `None` where the judge can't compile it."""
    from pegboard.schema.references import compiled

    try:
        return compiled(json_text({"pattern": pattern})).is_valid
    except ValueError:
        return None


def _without_needless(found: re.Match[str]) -> str:
    """A set or an escape without the backslashes that Python allows and ECMA-262 doesn't."""
    text = found[0]
    return (_NEEDLESS_IN_SET if text.startswith("[") else _NEEDLESS).sub(r"\1", text)
