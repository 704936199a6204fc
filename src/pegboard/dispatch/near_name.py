"""`meant_name`: the one tool that a wrong name can only be a slip for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SHORTEST: Final = 6
"""Letters and digits that a name needs for a typing slip to be told from another word."""

_LONGEST: Final = 80


def meant_name(name: str, names: Sequence[str]) -> str | None:
    """The name that was meant, or `None` where that isn't sure.

    In this order, each only where exactly one name fits; where several do, none is taken:

    1. the same but for upper and lower case;
    2. the same but for case and what separates words (`readFile`, `read.file` for `read_file`);
    3. one letter more or less, or two neighbours swapped, in a name of six or more letters and digits with the same
       first one. Another letter is another word (`get_user`, `set_user`), and so is another digit; yet a name that is
       as near by such a change counts as a second one.

    Some 10 ms among 10,000 names.

    Args:
        name: As the model wrote it.
        names: Of tools: ASCII letters, digits, `_` and `-`.
    """
    if len(name) > _LONGEST or not name.isascii():
        return None
    lowered = name.lower()
    same = [each for each in names if each.lower() == lowered]
    if same:
        return _only(same)
    word = "".join(filter(str.isalnum, lowered))
    bare = [_bare(each) for each in names]
    same = [names[place] for place, each in enumerate(bare) if each == word != ""]
    if same:
        return _only([each for each in same if _numbers(each) == _numbers(name)])
    return _slip(word, names, bare) if len(word) >= SHORTEST else None


def _slip(word: str, names: Sequence[str], bare: Sequence[str]) -> str | None:
    length = len(word)
    near = [place for place, each in enumerate(bare) if -2 < len(each) - length < 2 and _is_one_change(word, each)]
    return _only([names[place] for place in near]) if all(_is_slip(word, bare[place]) for place in near) else None


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _bare(name: str) -> str:
    """A tool's name without case and what separates words."""
    return name.lower().replace("_", "").replace("-", "")


def _numbers(name: str) -> list[str]:
    """`v1_2` isn't `v12`."""
    import re

    return re.findall("[0-9]+", name)


def _is_one_change(one: str, other: str) -> bool:
    """Whether a single letter differs: it is more, less, another, or swapped with its neighbour."""
    start = _common(one, other)
    rest, others = one[start:], other[start:]
    return rest[1:] == others or rest == others[1:] or rest[1:] == others[1:] or _is_swapped(rest, others)


def _is_slip(one: str, other: str) -> bool:
    """Whether that difference is one that fingers make."""
    start = _common(one, other)
    rest, others = one[start:], other[start:]
    changed = rest[:1] + others[:1]
    same_length = len(one) == len(other)
    return start > 0 and not any(map(str.isdigit, changed)) and (not same_length or _is_swapped(rest, others))


def _is_swapped(rest: str, others: str) -> bool:
    return len(rest) > 1 and rest[:2] == others[1::-1] and rest[2:] == others[2:]


def _common(one: str, other: str) -> int:
    """How many letters at the start are the same."""
    place = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        place += 1
    return place
