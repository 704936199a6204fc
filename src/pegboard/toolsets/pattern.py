"""Patterns: `*` is any run of characters, `?` is one, the rest is literal; anchored, case-sensitive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

Matcher: TypeAlias = Callable[[str], object]
"""Takes a value; what it gives is true where the pattern matches."""

_BARE: Final = re.compile(r"[A-Za-z0-9_.*?/@+=%,:-]+")
quoted: Final = json.JSONEncoder(ensure_ascii=False).encode


def is_literal(pattern: str) -> bool:
    """Whether the pattern matches itself only."""
    return "*" not in pattern and "?" not in pattern


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Matcher:
    """The test for one pattern. What it costs is bounded by length of pattern x length of value."""
    if is_literal(pattern):
        return lambda value: value == pattern
    head, *middle, tail = re.sub(r"\*+", "*", pattern).split("*") if "*" in pattern else (pattern, None)
    if tail is not None and not middle and "?" not in pattern:
        return _surrounded(head, tail)
    # Between two stars the leftmost place is as good as any other: an atomic group never tries a second one.
    steps = "".join(f"(?>.*?{_regex(part or '')})" for part in middle)
    end = "" if tail is None else f".*{_regex(tail)}"
    return re.compile(f"{_regex(head or '')}{steps}{end}", re.DOTALL).fullmatch


def _surrounded(head: str, tail: str) -> Matcher:
    if not tail:
        return lambda value: value.startswith(head)
    if not head:
        return lambda value: value.endswith(tail)
    shortest = len(head) + len(tail)
    return lambda value: len(value) >= shortest and value.startswith(head) and value.endswith(tail)


def _regex(part: str) -> str:
    return ".".join(re.escape(literal) for literal in part.split("?"))


def written(value: str) -> str:
    """`value` in a predicate's text: bare, or as a JSON string where it holds more than plain characters."""
    return value if _BARE.fullmatch(value) else quoted(value)
