"""`Globs`: the file name patterns that a model gives, in the language of .gitignore with braces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from pegboard import ToolError
from pegboard_files.rules import Rules, compiled, translated

MAX_GLOB: Final = 1_000
"""Characters of a pattern."""

MAX_BRACES: Final = 20
"""Pairs of braces in one pattern; the library that takes them apart goes deeper for each."""

MAX_BRANCHES: Final = 1_000
"""How many patterns the braces of one may stand for."""


@frozen
class Globs:
    """Which paths are wanted.

    Attributes:
        wanted: A path has to match one of these; `None` wants all.
        unwanted: A path must match none of these; `None` for none.
    """

    wanted: Rules | None = None
    unwanted: Rules | None = None

    def takes(self, path: str) -> bool:
        """Whether a path is wanted.

        Args:
            path: Relative to where the search starts; a directory ends in `/`.
        """
        if self.wanted is not None and not self.wanted.verdict(path):
            return False
        return self.unwanted is None or not self.unwanted.verdict(path)

    def prunes(self, directory: str) -> bool:
        """Whether a directory (ending in `/`) is unwanted with all that is in it."""
        return self.unwanted is not None and bool(self.unwanted.verdict(directory))


EVERYTHING: Final = Globs()


def globs(include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Globs:
    """Globs from patterns such as `*.py`, `src/**/*.{ts,tsx}`, `/README.md`, `build/`.

    Raises:
        ToolError: A pattern is broken, stands for too many, or climbs out with `..`.
    """
    return Globs(_rules(include), _rules(exclude))


def names_hidden(pattern: str) -> bool:
    """Whether a pattern asks for a hidden name by itself, as `.github/*.yml` does."""
    return any(part.startswith(".") and part not in {".", ".."} for part in pattern.split("/"))


def _rules(patterns: Sequence[str]) -> Rules | None:
    return compiled([line for pattern in patterns for line in _lines(pattern)]) if patterns else None


def _lines(pattern: str) -> list[str]:
    """A pattern as lines of an ignore file, one for each way through its braces."""
    import bracex

    if ".." in pattern.split("/"):
        raise ToolError(f"the pattern {pattern!r} must not contain '..': give the folder in 'path' instead.")
    if pattern.count("{") > MAX_BRACES:
        raise ToolError(f"the pattern has more than {MAX_BRACES} braces: give several patterns, or a simpler one.")
    try:
        lines = bracex.expand(pattern.removeprefix("./"), keep_escapes=True, limit=MAX_BRANCHES)
    except bracex.ExpansionLimitException:
        raise ToolError(f"the braces in {pattern!r} stand for more than {MAX_BRANCHES:,} patterns.") from None
    # `!` and `#` begin a line that means something else; in a pattern they are themselves.
    lines = [f"\\{line}" if line.startswith(("!", "#")) else line for line in lines]
    if not lines or not all(map(translated, lines)):
        raise ToolError(
            f"{pattern!r} is not a valid pattern. Write for example '*.py', 'src/**/*.ts' or '*.{{js,jsx}}'; "
            "put a backslash before a '[' that is meant literally."
        )
    return lines
