"""`Search`: which lines of which files a pattern matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, Literal, TypeAlias

from attrs import define, field

from pegboard import ToolError
from pegboard_files.blocks import blocks_of, line_at
from pegboard_files.deadline import Deadline
from pegboard_files.decoding import BinaryFileError, text_of
from pegboard_files.match import MAX_TEXT, FileCount, Match, with_context
from pegboard_files.name import Parts, shown_path
from pegboard_files.regex import LinePattern
from pegboard_files.root import OpenRoot

Mode: TypeAlias = Literal["matches", "files", "counts"]

MAX_BYTES: Final = 48 << 10
"""Bytes of lines in one result."""


@define
class Search:
    """One search over many files: what it looks for, and what it has found so far.

    Attributes:
        root: What can't be left.
        pattern: What to look for.
        mode: `matches`, `files` or `counts`.
        limit: How many matches, or files, at most.
        context: How many lines before and after each match.
        deadline: When to stop.
        matches: Found lines, for the mode `matches`.
        files: Found files, for the other modes.
        searched: How many files were searched.
        binary: How many files were left out, in whole or from some byte on, since they aren't text.
        unreadable: How many files couldn't be opened.
        size: Bytes of the found lines.
        full: Whether there was more to find than `limit` or `MAX_BYTES` allow.
        stopped: Whether the deadline passed.
    """

    root: OpenRoot
    pattern: LinePattern
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
        """Searches files in their order, as long as there is time and place."""
        for parts in files:
            try:
                self.search(parts)
            except BinaryFileError:
                self.binary += 1
            except (OSError, ToolError):
                self.unreadable += 1
            if self.full or self.stopped:
                return

    def search(self, parts: Parts) -> None:
        """Searches one file.

        Raises:
            BinaryFileError: It is no text.
            OSError: It can't be read.
            ToolError: It is no regular file.
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
            self._keep(found)

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
            self.files.append(FileCount(shown_path(parts), count if self.mode == "counts" else None))

    def _take(self, parts: Parts, file: BinaryIO) -> list[Match]:
        """The matches of one file, without context, as far as there may be place for them."""
        found: list[Match] = []
        size = self.size
        for line, text in self._hits(file):
            if len(self.matches) + len(found) == self.limit or size > MAX_BYTES:
                self.full = True
                break
            found.append(Match(shown_path(parts), line, text))
            size += _size(text)
        return found

    def _keep(self, found: list[Match]) -> None:
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
            if self.deadline.passed:
                self.stopped = True
                return
            if b"\0" in block:
                self.binary += 1
                return
            line, seen = number, 0
            for start, end in self.pattern.lines_in(block):
                line += block.count(b"\n", seen, start)
                seen = start
                if line != last:  # an enormous line comes in several blocks
                    yield line, line_at(block, start, end, MAX_TEXT)
                last = line
            number += block.count(b"\n")


def _size(text: str) -> int:
    # Path and number of a line cost something too.
    return len(text.encode()) + 16
