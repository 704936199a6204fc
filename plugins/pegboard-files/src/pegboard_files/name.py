"""File names as a model sees them: one line, printable, valid UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["file", "directory", "link", "other"]
"""What a name stands for; `other` is a pipe, a socket or a device."""

Parts: TypeAlias = tuple[str, ...]
"""A path below the root, component by component, links resolved; `()` is the root itself."""


def shown(name: str) -> str:
    r"""A name with everything escaped that can't be printed (`\n`, `\x1b`, `\u202e`, `\udcff` for a stray byte).

    A name may hold anything but `/` and NUL: line ends that fake a second entry, terminal control, bytes
    that are no UTF-8. `Root` finds files by their shown names too.
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def shown_path(parts: Iterable[str]) -> str:
    """The path relative to the root, with `/`; `"."` for the root."""
    return "/".join(map(shown, parts)) or "."


def near_misses(name: str, known: Sequence[str]) -> list[str]:
    """Up to three of `known` that look like `name`, best first; letter case doesn't count."""
    import difflib

    lowered: dict[str, str] = {}
    for candidate in sorted(known):
        lowered.setdefault(candidate.lower(), candidate)
    return [lowered[found] for found in difflib.get_close_matches(name.lower(), list(lowered), n=3)]
