"""What the tools answer: data for programs, and the text of it for models."""

from __future__ import annotations

from itertools import groupby
from typing import Protocol

import attrs
from attrs import frozen

from pegboard import TextContent, ToolResult
from pegboard_files.listing import DirectoryEntry, FoundFile
from pegboard_files.match import FileCount, Match


class Answer(attrs.AttrsInstance, Protocol):
    """Data that can also be read as text."""

    def text(self) -> str:
        """The whole of it for a model, in fewer words than JSON."""
        ...


def answer(result: Answer) -> ToolResult:
    """The text of a result for the model, and its data for programs."""
    return ToolResult((TextContent(result.text()),), attrs.asdict(result))


@frozen
class DirectoryListing:
    """What a directory holds.

    Attributes:
        path: The directory, relative to the root.
        entries: Its entries, sorted by name.
        total: How many entries there are, those on other pages included.
        note: What else is to know: how to read on, what was left out; may be empty.
    """

    path: str
    entries: list[DirectoryEntry]
    total: int
    note: str = ""

    def text(self) -> str:
        """One entry a line: `name/`, `name -> link`, or name and bytes."""
        return _lines([_entry_line(entry) for entry in self.entries], self.note)


@frozen
class GlobResult:
    """Which paths a glob found.

    Attributes:
        files: What it matches, sorted by path.
        truncated: Whether there is more.
        note: What else is to know; may be empty.
    """

    files: list[FoundFile]
    truncated: bool
    note: str = ""

    def text(self) -> str:
        """One path a line."""
        return _lines([file.path + ("/" if file.kind == "directory" else "") for file in self.files], self.note)


@frozen
class GrepResult:
    """What a search found.

    Attributes:
        matches: Lines that match, sorted by path and line; empty unless they were asked for.
        files: Files with lines that match, sorted by path; empty unless they were asked for.
        searched: How many files were searched.
        truncated: Whether there is more to find.
        note: What else is to know; may be empty.
    """

    matches: list[Match]
    files: list[FileCount]
    searched: int
    truncated: bool
    note: str = ""

    def text(self) -> str:
        """As `rg --heading` prints it: a path, below it `line:text`, context as `line-text`."""
        blocks = [_file_block(path, list(group)) for path, group in groupby(self.matches, lambda each: each.path)]
        counts = [file.path if file.count is None else f"{file.path}:{file.count}" for file in self.files]
        return _lines(["\n\n".join(blocks)] if blocks else counts, self.note)


def _lines(lines: list[str], note: str) -> str:
    return "\n".join([*lines, f"[{note}]"] if note else lines)


def _entry_line(entry: DirectoryEntry) -> str:
    if entry.kind == "directory":
        return f"{entry.name}/"
    if entry.size is not None:
        return f"{entry.name}  {entry.size:,} bytes"
    return f"{entry.name}  ({entry.kind})"


def _file_block(path: str, matches: list[Match]) -> str:
    rows = [path]
    last = 0
    for match in matches:
        first = match.line - len(match.before)
        if last and first > last + 1 and (match.before or match.after):
            rows.append("--")
        rows += [f"{first + n}-{text}" for n, text in enumerate(match.before)]
        rows.append(f"{match.line}:{match.text}")
        rows += [f"{match.line + n}-{text}" for n, text in enumerate(match.after, 1)]
        last = match.line + len(match.after)
    return "\n".join(rows)
