"""`LinePattern`: what grep looks for, in an engine whose time grows with the text and nothing else.

A pattern comes from a model, and `(a+)+$` hangs a backtracking engine. RE2 has no backtracking, and so neither
look-around nor back-references, which is just what ripgrep's default engine offers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from pegboard import ToolError
from pegboard_files.name import shown

Case: TypeAlias = Literal["sensitive", "ignore", "smart"]

MAX_PATTERN: Final = 1_000
"""Characters of a pattern."""

MAX_MEMORY: Final = 2 << 20
"""Bytes that RE2 may use for one pattern; it keeps the last 128."""

MAX_PROGRAM: Final = 10_000
"""Instructions of a compiled pattern: a bound on what each byte can cost."""

_LINE_END: Final = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")
_ESCAPE: Final = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP].|x\{[^}]*\}|.)", re.DOTALL)


@frozen
class LinePattern:
    """A compiled pattern that matches within one line.

    Attributes:
        expression: RE2's.
    """

    expression: Any

    def lines_in(self, block: bytes) -> Iterator[tuple[int, int]]:
        r"""Where it matches first in each line that it matches.

        Args:
            block: Whole lines with `\n` at their ends.

        Yields:
            Start and end of the first match of each line, as places in `block`.
        """
        at = 0
        while at < len(block):
            match = self.expression.search(block, at)
            # Behind the last line end is no line.
            if match is None or (match.start() == len(block) and block.endswith(b"\n")):
                return
            start, end = match.span()
            yield start, end
            at = block.find(b"\n", end) + 1
            if at == 0:
                return


def line_pattern(pattern: str, *, literal: bool, case: Case) -> LinePattern:
    """Compiles what a model looks for.

    Args:
        pattern: A regular expression, or a text.
        literal: Whether it is a text.
        case: Whether letter case counts; `smart`: only where the pattern holds an upper-case letter.

    Raises:
        ToolError: It is no valid expression, too costly, or can't match within one line.
    """
    re2 = import_module("re2")
    if ("\n" in pattern) if literal else _LINE_END.search(pattern):
        raise ToolError(
            "the pattern holds a line end, and grep matches within single lines. "
            "Look for one of the lines, and see its neighbours with context=..."
        )
    options = re2.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    options.case_sensitive = not _ignores_case(pattern, literal=literal, case=case)
    try:
        expression = re2.compile(f"(?m){re2.escape(pattern) if literal else pattern}".encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise _refused(pattern, error) from None
    if expression.programsize > MAX_PROGRAM:
        raise ToolError("the pattern is too costly: use smaller counts in {...}, or fewer Unicode classes.")
    return LinePattern(expression)


def _ignores_case(pattern: str, *, literal: bool, case: Case) -> bool:
    if case != "smart":
        return case == "ignore"
    letters = pattern if literal else _ESCAPE.sub("", pattern)
    return not any(letter.isupper() for letter in letters)


def _refused(pattern: str, error: Exception) -> ToolError:
    reason = error.args[0] if error.args else error
    words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return ToolError(
        f"{shown(pattern)!r} is not a valid regular expression: {words}. The syntax is RE2's: no look-around and no "
        "back-references. Set literal=true to look for the text as it is."
    )
