"""File name patterns in .gitignore syntax, for ignore files and globs.

pathspec translates a line into a regular expression, and RE2 matches all of them at once, in linear time: the lines
come from a repository or a model, and `*a*a*a*a*b` takes a backtracking engine years.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from attrs import frozen

from pegboard import ToolError

_SET_SIZE: Final = 500
"""Lines compiled together: RE2 refuses sets of several thousand."""

# The ends of pathspec's expressions, and their replacements. pathspec's are for lists of files: there `foo` also
# matches `foo/bar`. A walk matches each entry by itself, after its directory, and then `*`, `!*/`, `!*.py` only
# works if no line matches an entry by a directory above it.
_TAILS: Final = (
    ("(?:(?P<ps_d>/)|$)", "/?$"),  # foo: a file, or a directory (asked as "foo/")
    ("(?P<ps_d>/)", "/$"),  # foo/: a directory
    ("/", "/."),  # foo/**: whatever is below
)

Expression: TypeAlias = tuple[str, bool]
"""A regular expression, and its verdict: `True`, or `False` where the line begins with `!`."""


@frozen
class Rules:
    """The lines of one ignore file, or the globs of one call.

    Attributes:
        sets: Groups of lines, the last ones first: RE2's set of expressions, and the verdict of each.
    """

    sets: tuple[tuple[Any, tuple[bool, ...]], ...]

    def verdict(self, path: str) -> bool | None:
        """The verdict of the last line that matches.

        Args:
            path: Relative to the directory of the lines, in valid UTF-8; a directory ends in `/`.

        Returns:
            `True` where it matches, `False` where it begins with `!`, `None` where no line matches.
        """
        for expressions, verdicts in self.sets:
            matching: list[int] | None = expressions.Match(path)
            if matching:
                return verdicts[max(matching)]
        return None


def compile_rules(lines: Iterable[str]) -> Rules:
    """Compiles lines to rules; empty lines and comments are skipped, as git does."""
    known = [found for line in lines if (found := translate(line)) is not None]
    starts = range(0, len(known), _SET_SIZE)
    return Rules(tuple(_rule_set(known[start : start + _SET_SIZE]) for start in reversed(starts)))


@lru_cache(maxsize=64)
def rules_of(text: str) -> Rules:
    """The rules of an ignore file's text; cached, since the next call reads the same files."""
    return compile_rules(text.removeprefix("\ufeff").split("\n"))


def translate(line: str) -> Expression | None:
    """A line as a regular expression for one entry, or `None` where it is blank, a comment or broken."""
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if not line.removeprefix("!").strip("/ \t\r"):
        return None
    if line.rstrip().endswith("/**/"):
        # The directories below; pathspec treats `a/**/` as `a/`.
        line = line.rstrip() + "*/"
    try:
        regex, verdict = GitIgnoreSpecPattern.pattern_to_regex(line)
    except GitIgnorePatternError:
        return None
    return None if regex is None or verdict is None else (_for_one_entry(regex), verdict)


def _for_one_entry(regex: str) -> str:
    for tail, wanted in _TAILS:
        if regex.endswith(tail):
            return regex.removesuffix(tail) + wanted
    return regex


def _rule_set(lines: list[Expression]) -> tuple[Any, tuple[bool, ...]]:
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    expressions = re2.Set.SearchSet(options)
    verdicts: list[bool] = []
    for regex, verdict in lines:
        try:
            expressions.Add(regex)
        except re2.error:
            continue
        verdicts.append(verdict)
    expressions.Compile()
    return expressions, tuple(verdicts)


MAX_GLOB: Final = 1_000
"""Characters of a pattern."""

MAX_BRACES: Final = 20
"""Pairs of braces in one pattern; the library that expands them recurses for each."""

MAX_BRANCHES: Final = 1_000
"""Patterns that the braces of one pattern may expand to."""


@frozen
class Globs:
    """Include and exclude patterns for paths.

    Attributes:
        wanted: A path has to match one of these; `None` wants all.
        unwanted: A path must match none of these; `None` for none.
    """

    wanted: Rules | None = None
    unwanted: Rules | None = None

    def takes(self, path: str) -> bool:
        """Whether a path is selected.

        Args:
            path: Relative to where the search starts; a directory ends in `/`.
        """
        if self.wanted is not None and not self.wanted.verdict(path):
            return False
        return self.unwanted is None or not self.unwanted.verdict(path)

    def prunes(self, directory: str) -> bool:
        """Whether a directory (ending in `/`) is excluded with everything in it."""
        return self.unwanted is not None and bool(self.unwanted.verdict(directory))


EVERYTHING: Final = Globs()


def globs(include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Globs:
    """Globs from patterns such as `*.py`, `src/**/*.{ts,tsx}`, `/README.md`, `build/`.

    Brackets are a class of characters, and also stand for themselves, so that `app/[id]/page.tsx` matches that path.

    Raises:
        ToolError: A pattern is invalid, expands to too many, or contains `..`.
    """
    return Globs(_glob_rules(include), _glob_rules(exclude))


_BRACKET: Final = re.compile(r"\\.|[\[\]]", re.DOTALL)


def with_literal_brackets(pattern: str) -> str:
    """A pattern in which brackets stand for themselves, as in `app/[id]/page.tsx`."""
    return _BRACKET.sub(lambda found: found[0] if len(found[0]) > 1 else f"\\{found[0]}", pattern)


def names_hidden(pattern: str) -> bool:
    """Whether a pattern names a hidden file or directory, as `.github/*.yml` does."""
    return any(part.startswith(".") and part not in {".", ".."} for part in pattern.split("/"))


def _glob_rules(patterns: Sequence[str]) -> Rules | None:
    both = [each for pattern in patterns for each in dict.fromkeys((pattern, with_literal_brackets(pattern)))]
    return compile_rules([line for pattern in both for line in _expand_braces(pattern)]) if patterns else None


def _expand_braces(pattern: str) -> list[str]:
    """A pattern as lines of an ignore file, with its braces expanded."""
    import bracex

    if ".." in pattern.split("/"):
        raise ToolError(f"The pattern {pattern!r} must not contain '..'. Use 'path' for the directory.")
    if pattern.count("{") > MAX_BRACES:
        raise ToolError(f"The pattern has more than {MAX_BRACES} braces. Use a simpler pattern, or several.")
    try:
        lines = bracex.expand(pattern.removeprefix("./"), keep_escapes=True, limit=MAX_BRANCHES)
    except bracex.ExpansionLimitException:
        raise ToolError(
            f"The braces in {pattern!r} expand to more than {MAX_BRANCHES:,} patterns. Use fewer."
        ) from None
    # A leading `!` or `#` has a meaning in ignore files; in a pattern it is literal.
    lines = [f"\\{line}" if line.startswith(("!", "#")) else line for line in lines]
    if not lines or not all(map(translate, lines)):
        raise ToolError(
            f"{pattern!r} is not a valid pattern. Examples: '*.py', 'src/**/*.ts', '*.{{js,jsx}}'. "
            "Put a backslash before a literal '['."
        )
    return lines
