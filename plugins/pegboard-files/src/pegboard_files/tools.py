"""`FileTools`: the four tools. Their docstrings and parameters are what a model reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from annotated_types import Ge, Le, MaxLen, MinLen
from attrs import field, frozen

from pegboard import ToolError, ToolResult, tool
from pegboard_files.deadline import Deadline
from pegboard_files.decoding import BinaryFileError
from pegboard_files.globs import EVERYTHING, MAX_GLOB, Globs, globs, names_hidden
from pegboard_files.listing import directory_of, found, listed
from pegboard_files.name import Parts, shown_path
from pegboard_files.notes import glob_note, grep_note, listing_note
from pegboard_files.reading import MAX_LINES, read_text
from pegboard_files.regex import MAX_PATTERN, Case, line_pattern
from pegboard_files.resolving import resolve
from pegboard_files.results import (
    DirectoryListing,
    GlobResult,
    GrepResult,
    answer,
)
from pegboard_files.root import OpenRoot, Root, kind_of, told_of
from pegboard_files.searching import Mode, Search
from pegboard_files.settings import Settings
from pegboard_files.walking import Walk

PathText = Annotated[str, MinLen(1), MaxLen(4_096)]
Offset = Annotated[int, Ge(0)]
GlobTexts = Annotated[list[Annotated[str, MinLen(1), MaxLen(MAX_GLOB)]], MaxLen(100)]

_READS: Final[Any] = {
    "read_only": True,
    "destructive": False,
    "idempotent": True,
    "open_world": False,
    "tags": ("files",),
    "permission_arguments": {"path": "path"},
}


@frozen(eq=False)
class FileTools:
    """The four tools, bound to one root.

    Attributes:
        settings: How they work.
    """

    settings: Settings = field(factory=Settings)

    @tool(title="Read a file", **_READS)
    def read_file(
        self,
        path: PathText,
        offset: Annotated[int, Ge(1)] = 1,
        limit: Annotated[int, Ge(1), Le(MAX_LINES)] = MAX_LINES,
    ) -> str:
        """Reads a text file, with line numbers.

        Each line comes as its number, a tab, and its text. A note in brackets at the end says how to read on where
        there is more, and whether something isn't shown as it is in the file. Directories and binary files are
        refused.

        Args:
            path: The file, relative to the working folder, such as "src/main.py".
            offset: The number of the first line to read; the first line of a file is 1.
            limit: How many lines to read at most; fewer come where they are long.
        """
        with Root(self.settings.root).opened() as root:
            return read_text(root, path, offset, limit, self._deadline())

    @tool(title="List a directory", **_READS)
    def list_directory(
        self,
        path: PathText = ".",
        *,
        hidden: bool = False,
        no_ignore: bool = False,
        offset: Offset = 0,
        limit: Annotated[int, Ge(1), Le(2_000)] = 500,
    ) -> DirectoryListing | ToolResult:
        """Lists the files and directories right inside of one directory, sorted by name.

        Hidden entries (a leading dot) and those that .gitignore or .ignore files name are left out and counted. To
        find files in directories further down, use glob.

        Args:
            path: The directory, relative to the working folder; "." is that folder itself.
            hidden: Lists hidden entries too.
            no_ignore: Lists ignored entries too.
            offset: How many entries to pass over, to read on in a long list.
            limit: How many entries to list at most.
        """
        with Root(self.settings.root).opened() as root:
            start = directory_of(root, path)
            walk = self._walk(root, hidden=hidden, no_ignore=no_ignore)
            entries, total = listed(walk, start, offset, limit)
            note = listing_note(walk, offset, len(entries), total)
            return answer(DirectoryListing(shown_path(start), entries, total, note))

    @tool(title="Find files by name", **_READS)
    def glob(  # noqa: PLR0913  (what a model may say)
        self,
        pattern: Annotated[str, MinLen(1), MaxLen(MAX_GLOB)],
        path: PathText = ".",
        *,
        exclude: GlobTexts = [],  # noqa: B006  (never changed, and None would be one more way to say nothing)
        hidden: bool = False,
        no_ignore: bool = False,
        offset: Offset = 0,
        limit: Annotated[int, Ge(1), Le(2_000)] = 500,
    ) -> GlobResult | ToolResult:
        """Finds files by a pattern for their paths, in a directory and everything below it, sorted by path.

        `*` and `?` stop at "/", `**` doesn't; `[ab]` and `{a,b}` choose. A pattern without "/" matches names at any
        depth ("*.py"); one with "/" matches from the directory on ("src/**/*.py"); one that ends in "/" finds
        directories. Hidden files and those that .gitignore or .ignore files name are left out.

        Args:
            pattern: What to find, such as "*.py", "src/**/*.{ts,tsx}", "/README.md" or "tests/".
            path: The directory to look in, relative to the working folder. Results are relative to that folder too.
            exclude: Patterns for files and directories to leave out, such as "vendor/".
            hidden: Finds hidden files too; not needed where the pattern itself names one (".github/**").
            no_ignore: Finds ignored files too.
            offset: How many results to pass over, to read on in a long list.
            limit: How many results to give at most.
        """
        wanted = globs([pattern], exclude)
        with Root(self.settings.root).opened() as root:
            start = directory_of(root, path)
            walk = self._walk(root, wanted, hidden=hidden or names_hidden(pattern), no_ignore=no_ignore)
            files, more = found(walk, start, wanted, offset, limit)
            note = glob_note(walk, offset, len(files), more=more)
            return answer(GlobResult(files, more or walk.stopped, note))

    @tool(title="Search in files", **_READS)
    def grep(  # noqa: PLR0913  (what a model may say)
        self,
        pattern: Annotated[str, MinLen(1), MaxLen(MAX_PATTERN)],
        path: PathText = ".",
        *,
        literal: bool = False,
        case: Case = "sensitive",
        include: GlobTexts = [],  # noqa: B006  (never changed, and None would be one more way to say nothing)
        exclude: GlobTexts = [],  # noqa: B006  (as above)
        context: Annotated[int, Ge(0), Le(20)] = 0,
        mode: Mode = "matches",
        limit: Annotated[int, Ge(1), Le(2_000)] = 200,
        hidden: bool = False,
        no_ignore: bool = False,
    ) -> GrepResult | ToolResult:
        r"""Searches the lines of text files, as ripgrep does: one file, or all below a directory.

        Hidden files, binary files and those that .gitignore or .ignore files name are left out. Results are sorted
        by path and line.

        Args:
            pattern: A regular expression for one line, in the syntax of RE2: no look-around, no back-references;
                \w, \d and \b know ASCII only, \p{L} is any letter.
            path: The file or directory to search, relative to the working folder.
            literal: Takes the pattern as plain text.
            case: "sensitive"; "ignore" for either case; "smart" to ignore case unless the pattern has a capital.
            include: Searches only files that match one of these patterns, such as "*.py" or "src/**/*.{ts,tsx}".
            exclude: Leaves out files and directories that match one of these patterns, such as "vendor/".
            context: How many lines to show before and after each match.
            mode: "matches" gives the lines; "files" only the paths of files with matches; "counts" also how many
                lines match in each.
            limit: How many lines, or files, to give at most.
            hidden: Searches hidden files too.
            no_ignore: Searches ignored files too.
        """
        looked_for = line_pattern(pattern, literal=literal, case=case)
        wanted = globs(include, exclude)
        with Root(self.settings.root).opened() as root:
            start = resolve(root, path)
            walk = self._walk(root, wanted, hidden=hidden or any(map(names_hidden, include)), no_ignore=no_ignore)
            search = Search(root, looked_for, mode, limit, context, walk.deadline)
            with told_of(start):
                if kind_of(root.status(start).st_mode) == "directory":
                    search.run(_files(walk, start, wanted))
                else:
                    _search_one(search, start)
            truncated = search.full or search.stopped or walk.stopped
            note = grep_note(walk, search)
            return answer(GrepResult(search.matches, search.files, search.searched, truncated, note))

    def _deadline(self) -> Deadline:
        return Deadline(self.settings.time_limit)

    def _walk(self, root: OpenRoot, wanted: Globs = EVERYTHING, *, hidden: bool, no_ignore: bool) -> Walk:
        return Walk(
            root,
            self._deadline(),
            hidden=hidden or self.settings.hidden,
            no_ignore=no_ignore or self.settings.no_ignore,
            globs=wanted,
        )


def _files(walk: Walk, start: Parts, wanted: Globs) -> Iterable[Parts]:
    for entry in walk.entries(start):
        if entry.kind == "file" and (wanted == EVERYTHING or wanted.takes(shown_path(entry.parts[len(start) :]))):
            yield entry.parts


def _search_one(search: Search, parts: Parts) -> None:
    """Searches the file that was named, whatever ignore files and globs say of it."""
    try:
        search.search(parts)
    except BinaryFileError:
        raise ToolError(f"{shown_path(parts)!r} is not a text file: there are no lines to search.") from None
