"""JSON that somebody else has written, read fact by fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pegboard.typing import JsonMapping

Types: TypeAlias = tuple[type, ...]
"""The types that a fact may have, exactly: `True` is no number."""

TEXT: Final[Types] = (str,)
FLAG: Final[Types] = (bool,)
WHOLE: Final[Types] = (int,)
NUMBER: Final[Types] = (int, float)
OBJECT: Final[Types] = (dict,)
LIST: Final[Types] = (list,)
NOTHING: Final[Types] = (type(None),)

_WORDS: Final[Mapping[type, str]] = {
    str: "a text",
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    type(None): "null",
}


def read(data: JsonMapping, types: Mapping[str, Types], *needed: str) -> dict[str, Any]:
    """The facts that are there, each of its type; other keys are passed over.

    Raises:
        ValueError: One of `needed` is missing, or something is of the wrong type; names it.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever came from outside
        raise ValueError(f"expected an object, found {type(data).__name__}")  # noqa: TRY004  (as documented)
    for name in needed:
        if name not in data:
            raise ValueError(f"{name}: missing")
    facts = {name: fact for name, fact in data.items() if name in types}
    for name, fact in facts.items():
        if type(fact) not in types[name]:
            wanted = " or ".join(_WORDS[each] for each in types[name])
            raise ValueError(f"{name}: expected {wanted}, found {type(fact).__name__}")
    return facts
