"""Search in files: lines that match an RE2 regular expression, with their context.

A pattern comes from a model, and `(a+)+$` takes a backtracking engine years. RE2 doesn't backtrack, and so has neither
look-around nor back-references, like ripgrep's default engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, BinaryIO, Final, Literal, TypeAlias

from attrs import define, evolve, field, frozen

from pegboard import ToolError
from pegboard.text import printable
from pegboard_files.root import Deadline, OpenRoot, Parts
from pegboard_files.text import FIRST_BLOCK, BinaryFileError, blocks_of, is_plain, line_at, lines_of, text_of

Case: TypeAlias = Literal["sensitive", "ignore", "smart"]
MAX_PATTERN: Final = 1_000
"""Characters of a pattern."""

MAX_MEMORY: Final = 2 << 20
"""Bytes that RE2 may use for one pattern; it caches the last 128."""

MAX_PROGRAM: Final = 10_000
"""Instructions of a compiled pattern: a bound on the cost per byte."""

_LINE_END: Final = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")
_ESCAPE: Final = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP].|x\{[^}]*\}|.)", re.DOTALL)


def line_pattern(pattern: str, *, literal: bool, case: Case) -> Any:
    """Compiles a model's pattern by RE2.

    Args:
        pattern: A regular expression, or a plain text.
        literal: Whether it is a plain text.
        case: Whether letter case counts; `smart`: only if the pattern has an upper-case letter.

    Raises:
        ToolError: It isn't a valid expression, is too costly, or can't match within one line.
    """
    re2 = import_module("re2")
    if ("\n" in pattern) if literal else _LINE_END.search(pattern):
        raise ToolError(
            "The pattern contains a line break, but grep matches single lines. Search for one of the lines, and use "
            "context to see the lines around it."
        )
    options = re2.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    options.case_sensitive = not _ignores_case(pattern, literal=literal, case=case)
    try:
        expression = re2.compile(f"(?m){re2.escape(pattern) if literal else with_edges(pattern)}".encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise _pattern_error(pattern, error) from None
    if expression.programsize > MAX_PROGRAM:
        raise ToolError("The pattern is too complex. Use smaller counts in {...}, or fewer Unicode classes.")
    return expression


_OTHER: Final = r"[^\p{L}\p{M}\p{N}_]"


def with_edges(pattern: str) -> str:
    r"""A pattern in which `\b` beside non-ASCII letters is an edge of a word, too; RE2's knows ASCII letters only.

    RE2 can't look around. At the start or end of a pattern, an edge takes the character beside the word; within one
    line that changes no result. Elsewhere it is left out: the pattern finds the same lines, or more.
    """
    return pattern if pattern.isascii() else _ESCAPE.sub(_edge, pattern)


def _edge(escape: re.Match[str]) -> str:
    before, after = escape.string[: escape.start()], escape.string[escape.end() :]
    is_flat = "(" not in escape.string  # else it isn't known what is beside an alternative
    is_first = before in {"", "^", ".*", "^.*"} or (is_flat and before.endswith("|"))
    is_last = after in {"", "$", ".*", ".*$"} or (is_flat and after.startswith("|"))
    for inside, more, is_end, end in ((after[:1], "([", is_first, "^"), (before[-1:], ")]}*+?", is_last, "$")):
        if escape[0] == r"\b" and inside and (inside in more or (not inside.isascii() and inside.isalnum())):
            return f"(?:{end}|{_OTHER})" if is_end else ""
    return escape[0]


def is_ascii_only(pattern: str) -> bool:
    r"""Whether a pattern has `\w`, `\b` or `\d`, or their opposites, which know ASCII only."""
    return any(escape[1] in "wWbBdD" for escape in _ESCAPE.findall(with_edges(pattern)))


def lines_in(block: bytes, pattern: Any) -> Iterator[tuple[int, int]]:
    r"""Start and end in `block` of the first match in each matching line.

    Args:
        block: Whole lines with `\n` at their ends.
        pattern: Compiled by `line_pattern`.
    """
    at = 0
    while at < len(block):
        match = pattern.search(block, at)
        # There is no line after the last line end.
        if match is None or (match.start() == len(block) and block.endswith(b"\n")):
            return
        start, end = match.span()
        yield start, end
        at = block.find(b"\n", end) + 1
        if at == 0:
            return


def _ignores_case(pattern: str, *, literal: bool, case: Case) -> bool:
    if case != "smart":
        return case == "ignore"
    letters = pattern if literal else _ESCAPE.sub("", pattern)
    return not any(letter.isupper() for letter in letters)


def _pattern_error(pattern: str, error: Exception) -> ToolError:
    reason = error.args[0] if error.args else error
    words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    what, _, part = words.partition(": ")
    words = words if part in pattern else what  # it may be of the pattern as it is compiled
    return ToolError(
        f"{printable(pattern)!r} is not a valid regular expression: {words}. The syntax is RE2: no look-around, no "
        "backreferences. To search for plain text, set literal=true."
    )


MAX_TEXT: Final = 400
"""Characters shown of one line."""


@frozen
class Match:
    """One matching line.

    Attributes:
        path: The file, relative to the root.
        line: The line's number, 1-based.
        text: The line; if it is long, the part around the match.
        before: The context lines before it that belong to no earlier match.
        after: The context lines after it, up to the next match.
    """

    path: str
    line: int
    text: str
    before: list[str] = field(factory=list[str])
    after: list[str] = field(factory=list[str])


@frozen
class FileCount:
    """One file with matching lines.

    Attributes:
        path: The file, relative to the root.
        count: The number of matching lines; null in the mode "files".
    """

    path: str
    count: int | None = None


def with_context(matches: list[Match], file: BinaryIO, context: int, deadline: Deadline) -> list[Match]:
    """The matches of one file, at least one, with the lines around them; no line is given twice.

    Args:
        matches: In the order of their lines.
        file: The file, positioned at its first line.
        context: The number of lines before and after each.
        deadline: When to stop reading them.
    """
    near = _lines_near({match.line for match in matches}, file, context, deadline)
    complete: list[Match] = []
    for match in matches:
        after = _take_lines(near, match.line, 1, context)
        before = _take_lines(near, match.line, -1, context)
        complete.append(evolve(match, before=before, after=after))
    return complete


def _lines_near(hits: set[int], file: BinaryIO, context: int, deadline: Deadline) -> dict[int, str]:
    wanted = {hit + away for hit in hits for away in range(-context, context + 1)} - hits
    last = max(hits) + context
    near: dict[int, str] = {}
    for number, line in enumerate(lines_of(file, deadline), 1):
        if number in wanted:
            near[number] = _shorten(line.text)
        if number >= last or deadline.is_over:
            break
    return near


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _take_lines(near: dict[int, str], line: int, step: int, most: int) -> list[str]:
    """Removes consecutive lines from `near`, starting next to `line`; gives them in reading order."""
    taken: list[str] = []
    number = line + step
    while len(taken) < most and number in near:
        taken.append(near.pop(number))
        number += step
    return taken[::step]


Mode: TypeAlias = Literal["matches", "files", "counts"]
MAX_BYTES: Final = 48 << 10
"""Bytes of lines in one result."""


@define
class Search:
    """A search over many files, with its results so far.

    Attributes:
        root: The root that the files are in.
        pattern: The pattern, compiled by `line_pattern`.
        mode: `matches`, `files` or `counts`.
        limit: The maximum number of matches, or files.
        context: The number of lines before and after each match.
        deadline: When to stop.
        matches: Found lines, for the mode `matches`.
        files: Found files, for the other modes.
        searched: The number of files searched.
        binary: The number of files left out because they aren't text.
        unreadable: The number of files that couldn't be opened.
        size: Bytes of the found lines.
        full: Whether there was more to find than `limit` or `MAX_BYTES` allow.
        stopped: Whether the deadline passed.
    """

    root: OpenRoot
    pattern: Any
    mode: Mode
    limit: int
    context: int
    deadline: Deadline
    matches: list[Match] = field(factory=list[Match], init=False)
    files: list[FileCount] = field(factory=list[FileCount], init=False)
    searched: int = field(default=0, init=False)
    binary: int = field(default=0, init=False)
    unreadable: int = field(default=0, init=False)
    size: int = field(default=0, init=False)
    full: bool = field(default=False, init=False)
    stopped: bool = field(default=False, init=False)

    def run(self, files: Iterable[Parts]) -> None:
        """Searches files that a walk gave, in order, until a limit is reached."""
        for parts in files:
            try:
                if self._may_match(parts):
                    self.search(parts)
                else:
                    self.searched += 1
            except BinaryFileError:
                self.binary += 1
            except (OSError, ToolError):
                self.unreadable += 1
            if self.full or self.stopped:
                return

    def _may_match(self, parts: Parts) -> bool:
        """Whether a file has to be searched line by line: `False` if it is a small text without a match."""
        data = self.root.read_small(parts, FIRST_BLOCK)
        if data is None or not is_plain(data):
            return True
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        return self.pattern.search(data) is not None

    def search(self, parts: Parts) -> None:
        """Searches one file.

        Raises:
            BinaryFileError: It isn't text.
            OSError: It can't be read.
            ToolError: It isn't a regular file.
        """
        with self.root.open_file(parts) as opened:
            file = text_of(opened).file
            self.searched += 1
            begin = file.tell()
            if self.mode != "matches":
                self._count(parts, file)
                return
            found = self._take(parts, file)
            if self.context and found:
                file.seek(begin)
                found = with_context(found, file, self.context, self.deadline)
            self._add(found)

    def _count(self, parts: Parts, file: BinaryIO) -> None:
        count = 0
        for _ in self._hits(file):
            if len(self.files) == self.limit:
                self.full = True
                return
            count += 1
            if self.mode == "files":
                break
        if count:
            self.files.append(FileCount(self.root.label(parts), count if self.mode == "counts" else None))

    def _take(self, parts: Parts, file: BinaryIO) -> list[Match]:
        """The matches of one file, without context, within the limits."""
        found: list[Match] = []
        size = self.size
        for line, text in self._hits(file):
            if len(self.matches) + len(found) == self.limit or size > MAX_BYTES:
                self.full = True
                break
            found.append(Match(self.root.label(parts), line, text))
            size += _size(text)
        return found

    def _add(self, found: list[Match]) -> None:
        for match in found:
            self.size += sum(map(_size, (*match.before, match.text, *match.after)))
            if self.size > MAX_BYTES and self.matches:
                self.full = True
                return
            self.matches.append(match)

    def _hits(self, file: BinaryIO) -> Iterator[tuple[int, str]]:
        """Number and text of each line that matches, once each."""
        number, last = 1, 0
        for block in blocks_of(file):
            if self.deadline.is_over:
                self.stopped = True
                return
            line, seen = number, 0
            for start, end in lines_in(block, self.pattern):
                line += block.count(b"\n", seen, start)
                seen = start
                if line != last:  # an enormous line comes in several blocks
                    yield line, line_at(block, start, end, MAX_TEXT)
                last = line
            number += block.count(b"\n")


def _size(text: str) -> int:
    """Bytes of a line in a result, with some for its number and path."""
    return len(text.encode()) + 16
