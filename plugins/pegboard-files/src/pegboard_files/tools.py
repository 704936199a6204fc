"""The tools that read files, their settings and results. Models read the docstrings and parameters of the tools."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, cast

import attrs
from annotated_types import Ge, Le, MaxLen, MinLen
from attrs import field, frozen

from pegboard import Concurrency, ReadonlyContext, TextContent, ToolContext, ToolError, ToolResult, tool
from pegboard.schema.converter import Allowed
from pegboard_files.contents import read_contents
from pegboard_files.patterns import EVERYTHING, MAX_GLOB, Globs, globs, names_hidden
from pegboard_files.reading import MAX_LINES, read_text
from pegboard_files.root import (
    Deadline,
    OpenRoot,
    Parts,
    as_tool_error,
    kind_of,
    open_roots,
    resolve,
    root_place,
)
from pegboard_files.searching import MAX_PATTERN, Case, FileCount, Match, Mode, Search, is_ascii_only, line_pattern
from pegboard_files.text import BinaryFileError, number_of
from pegboard_files.walking import DirectoryEntry, FoundFile, Walk, directory_of, find_files, list_entries
from pegboard_files.writing import SeenFiles, session_of, stamp_of


def _are_paths(value: Any) -> bool:
    """Whether it is a list of non-empty texts."""
    texts = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return bool(texts) and all(isinstance(text, str) and text != "" and "\0" not in text for text in texts)


_Root: TypeAlias = Annotated[
    Any, Allowed("the path of a folder, or a list of some", lambda value: _are_paths([value]) or _are_paths(value))
]
_Seconds: TypeAlias = Annotated[float, Allowed("a number of seconds above 0", lambda value: 0 < value < math.inf)]
_Days: TypeAlias = Annotated[float, Allowed("a number of days above 0", lambda value: 0 < value < math.inf)]
_Patterns: TypeAlias = Annotated[
    tuple[str, ...], Allowed("a list of patterns for models' names", lambda value: not value or _are_paths(value))
]


@frozen(kw_only=True)
class Settings:
    """Settings of the file tools.

    Attributes:
        root: The folder that the tools are confined to, or several, `~` allowed: relative paths start in the first,
            and the others are reached by absolute ones. `None` is the working directory at the time of a call.
        tools: Which tools there are: `"read-only"`, `"coding"` (each job once) or `"all"`.
        patch_models: The models that get `apply_patch` instead of `edit_file` and `multi_edit`, by patterns for their
            names; `*` matches anything.
        hidden: Whether hidden files are always listed and searched, not only when a call asks for it.
        no_ignore: Whether ignored files are always listed and searched, not only when a call asks for it.
        time_limit: Seconds after which a call stops with the results so far.
        read_first: Whether a session must have read a file before it replaces all of it.
        undo_bytes: The most bytes of the old and new contents that are kept for the undo of turns.
        undo_files: The most files of these turns.
        undo_days: After how many days a turn can't be undone any more.
        checks: Programs that run for each changed file: by a pattern for files, a program with its arguments, in which
            `{path}` is the file, or a list of such.
        check_time: Seconds that all checks after one call may take.
    """

    root: _Root | None = None
    hidden: bool = False
    no_ignore: bool = False
    time_limit: _Seconds = 30.0
    read_first: bool = True
    undo_bytes: Annotated[int, Ge(0)] = 200_000_000
    undo_files: Annotated[int, Ge(0)] = 20_000
    undo_days: _Days = 30.0
    tools: Literal["read-only", "coding", "all"] = "all"
    patch_models: _Patterns = ("gpt-5*", "*codex*")
    checks: Mapping[str, Any] = field(factory=dict[str, Any])
    check_time: _Seconds = 20.0

    @property
    def roots(self) -> Sequence[str]:
        """All roots."""
        return [self.root] if isinstance(self.root, str) else self.root or []

    @property
    def main_root(self) -> str | None:
        """The root that relative paths start in."""
        return next(iter(self.roots), None)


def listing_note(walk: Walk, offset: int, shown: int, total: int) -> str:
    """The note on a page of a directory."""
    notes = [_stop_note(walk)]
    if not shown:
        notes.append("No more entries." if total else "No entries to list.")
    elif shown < total:
        notes.append(f"Entries {offset + 1}-{offset + shown} of {total:,}.")
    if offset + shown < total:
        notes.append(f"To continue, use offset={offset + shown}.")
    return _join(*notes, _omission_note(walk), _denial_note(walk))


def glob_note(walk: Walk, offset: int, shown: int, *, more: bool) -> str:
    """The note on a page of a glob's results."""
    notes = [_stop_note(walk), _unreadable_note(walk.unreadable)]
    if more:
        notes.append(f"There are more results. To continue, use offset={offset + shown}, or use a narrower pattern.")
    elif not shown:
        notes.append("No more results." if offset else "No path matches.")
        notes.append(_omission_note(walk))
    return _join(*notes, _denial_note(walk))


def grep_note(walk: Walk, search: Search, pattern: str = "") -> str:
    """The note on a search's results; `pattern` is the regular expression."""
    found = len(search.matches) or len(search.files)
    what = "matching lines" if search.mode == "matches" else "files"
    notes: list[str] = []
    if search.full:
        notes.append(f"Stopped after {found:,} {what}; there are more. Use a narrower search, or a higher limit.")
    elif search.stopped or walk.stopped:
        notes.append(
            f"Stopped after {walk.deadline.seconds:.3g} seconds; not all files were searched. Use a narrower search."
        )
    elif not found:
        notes += [f"No line matches in {number_of(search.searched, 'file')}.", _omission_note(walk)]
    if search.binary:
        notes.append(f"{number_of(search.binary, 'binary file')} skipped.")
    is_ascii = bool(found) and pattern.isascii() and all(match.text.isascii() for match in search.matches)
    if is_ascii_only(pattern) and not is_ascii:
        notes.append(r"\w, \d and \b match ASCII only; \p{L} matches any letter.")
    return _join(*notes, _unreadable_note(walk.unreadable + search.unreadable), _denial_note(walk))


def _stop_note(walk: Walk) -> str:
    return f"Stopped after {walk.deadline.seconds:.3g} seconds; the list is incomplete." if walk.stopped else ""


def _omission_note(walk: Walk) -> str:
    """The number of hidden and ignored entries; those in a directory that was left out aren't counted."""
    counts = (walk.left_hidden, "hidden", "hidden"), (walk.left_ignored, "ignored", "no_ignore")
    left = [f"{count:,} {what} (use {flag}=true)" for count, what, flag in counts if count]
    return f"Not shown: {', '.join(left)}." if left else ""


def _denial_note(walk: Walk) -> str:
    return "Paths denied by the permission rules are not shown." if walk.root.denied else ""


def _unreadable_note(count: int) -> str:
    return f"{count:,} unreadable {'entry' if count == 1 else 'entries'} skipped." if count else ""


def _join(*notes: str) -> str:
    return " ".join(filter(None, notes))


class Answer(attrs.AttrsInstance, Protocol):
    """Structured result that also has a text form."""

    def text(self) -> str:
        """All of it for a model, shorter than JSON."""
        ...


def answer(result: Answer) -> ToolResult:
    """The text of a result for the model, and its data for programs."""
    return ToolResult((TextContent(result.text()),), attrs.asdict(result))


@frozen
class DirectoryListing:
    """The entries of a directory.

    Attributes:
        path: The directory, relative to the root.
        entries: Its entries, sorted by name.
        total: The number of all entries, also those on other pages.
        note: How to continue, and what was left out; may be empty.
    """

    path: str
    entries: list[DirectoryEntry]
    total: int
    note: str = ""

    def text(self) -> str:
        """One entry a line: `name/`, `name -> link`, or name and bytes."""
        return _with_note([_entry_line(entry) for entry in self.entries], self.note)


@frozen
class GlobResult:
    """The paths that a pattern matches.

    Attributes:
        files: The matching paths, sorted.
        truncated: Whether there are more results.
        note: How to continue, and what was left out; may be empty.
    """

    files: list[FoundFile]
    truncated: bool
    note: str = ""

    def text(self) -> str:
        """One path a line."""
        return _with_note([file.path + ("/" if file.kind == "directory" else "") for file in self.files], self.note)


@frozen
class GrepResult:
    """The results of a search.

    Attributes:
        matches: The matching lines, sorted by path and line; empty in the modes "files" and "counts".
        files: The files with matching lines, sorted by path; empty in the mode "matches".
        searched: The number of files that were searched.
        truncated: Whether there are more results.
        note: What was left out, and what to do next; may be empty.
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
        return _with_note(["\n\n".join(blocks)] if blocks else counts, self.note)


def _with_note(lines: list[str], note: str) -> str:
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


PathText = Annotated[str, MinLen(1), MaxLen(4_096)]
Offset = Annotated[int, Ge(0)]
GlobTexts = Annotated[list[Annotated[str, MinLen(1), MaxLen(MAX_GLOB)]], MaxLen(100)]


@frozen(eq=False)
class FileTools:
    """The four tools that read, bound to one root.

    Attributes:
        settings: The plugin's settings.
        seen: Records which files sessions have read.
    """

    settings: Settings = field(factory=Settings)
    seen: SeenFiles = field(factory=SeenFiles)

    def _folder(self, _arguments: Mapping[str, Any], context: ReadonlyContext) -> str:
        return str(root_place(self.settings.main_root, context.work_dir))

    _READS: ClassVar[Any] = {
        "read_only": True,
        "destructive": False,
        "idempotent": True,
        "open_world": False,
        "tags": ("files",),
        "permission_arguments": {"path": "path"},
        "work_dir": _folder,
        "concurrency": Concurrency("path", ("path",), "read"),
    }

    @tool(title="Read a file", **_READS)
    def read_file(
        self,
        path: PathText,
        offset: Annotated[int, Ge(1)] = 1,
        limit: Annotated[int, Ge(1), Le(MAX_LINES)] = MAX_LINES,
        *,
        raw: bool = False,
        call: ToolContext | None = None,
    ) -> str | ToolResult:
        """Read a file: text, an image, the text of a PDF, or the cells of a notebook.

        Text is returned with line numbers, one line as 'NUMBER<tab>TEXT'. If there is more, or if something isn't
        shown exactly as it is in the file, a final [note] says so and tells how to continue. Other binary files
        can't be read. To see what is in a directory, use list_directory.

        Args:
            path: The file, relative to the working folder, for example "src/main.py".
            offset: The number of the first line to return. The first line of a file is 1.
            limit: The maximum number of lines. Fewer are returned if the lines are long.
            raw: If true, returns the text of the file itself, for example the JSON of a notebook.
            call: The running call.
        """
        with self._open_root(call, path) as root:
            parts = resolve(root, path)
            with as_tool_error(root.label(parts)), root.open_file(parts) as file:
                stamp = stamp_of(os.fstat(file.fileno()))
                page = root.label(parts), offset, limit, self._deadline(call)
                contents = None if raw else read_contents(file, *page)
                shown = read_text(file, *page) if contents is None else ToolResult(contents)
                self.seen.note(session_of(call), root.place(parts), stamp)
                return shown

    @tool(title="List a directory", **_READS)
    def list_directory(  # noqa: PLR0913  (the tool's parameters)
        self,
        path: PathText = ".",
        *,
        hidden: bool = False,
        no_ignore: bool = False,
        offset: Offset = 0,
        limit: Annotated[int, Ge(1), Le(2_000)] = 500,
        call: ToolContext | None = None,
    ) -> DirectoryListing | ToolResult:
        """List the files and directories in one directory, sorted by name.

        Returns one entry per line: "NAME/" for a directory, "NAME  SIZE bytes" for a file, "NAME  (link)" for a link.
        Hidden entries (their names start with a dot) and entries ignored by .gitignore or .ignore are left out, and
        counted in a final [note]. To search subdirectories, use glob.

        Args:
            path: The directory, relative to the working folder. "." is the working folder itself.
            hidden: If true, includes hidden entries.
            no_ignore: If true, includes ignored entries.
            offset: The number of entries to skip, to continue a long list.
            limit: The maximum number of entries.
            call: The running call.
        """
        with self._open_root(call, path) as root:
            start = directory_of(root, path)
            walk = self._walk(root, self._deadline(call), hidden=hidden, no_ignore=no_ignore)
            entries, total = list_entries(walk, start, offset, limit)
            note = listing_note(walk, offset, len(entries), total)
            return answer(DirectoryListing(root.label(start), entries, total, note))

    @tool(title="Find files by name", **_READS)
    def glob(  # noqa: PLR0913  (the tool's parameters)
        self,
        pattern: Annotated[str, MinLen(1), MaxLen(MAX_GLOB)],
        path: PathText = ".",
        *,
        exclude: GlobTexts = [],  # noqa: B006  (never changed, and None would be one more way to say nothing)
        hidden: bool = False,
        no_ignore: bool = False,
        offset: Offset = 0,
        limit: Annotated[int, Ge(1), Le(2_000)] = 500,
        call: ToolContext | None = None,
    ) -> GlobResult | ToolResult:
        """Find files by a pattern for their paths, in a directory and all its subdirectories.

        Returns one path per line, sorted. A pattern without "/" matches file names at any depth ("*.py"). A pattern
        with "/" matches paths from the directory on ("src/**/*.py"). A pattern that ends in "/" finds directories.
        `*` and `?` don't match "/", `**` does; `[ab]` matches one of the characters, `{a,b}` one of the texts.
        Hidden files (their names start with a dot) and files ignored by .gitignore or .ignore are left out. If there
        are more results, a final [note] tells how to continue.

        Args:
            pattern: The pattern, for example "*.py", "src/**/*.{ts,tsx}", "/README.md" or "tests/".
            path: The directory to search, relative to the working folder. Results are relative to the working folder.
            exclude: Patterns of files and directories to leave out, for example "vendor/".
            hidden: If true, includes hidden files. Not needed if the pattern names one, as ".github/**" does.
            no_ignore: If true, includes ignored files.
            offset: The number of results to skip, to continue a long list.
            limit: The maximum number of results.
            call: The running call.
        """
        with self._open_root(call, path) as root:
            start = directory_of(root, path)
            pattern, *left_out = (root.pattern(each, start) for each in (pattern, *exclude))
            hidden = hidden or names_hidden(pattern)
            wanted = globs([pattern], left_out)
            walk = self._walk(root, self._deadline(call), wanted, hidden=hidden, no_ignore=no_ignore)
            files, more = find_files(walk, start, wanted, offset, limit)
            note = glob_note(walk, offset, len(files), more=more)
            return answer(GlobResult(files, more or walk.stopped, note))

    @tool(title="Search in files", **_READS)
    def grep(  # noqa: PLR0913  (the tool's parameters)
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
        call: ToolContext | None = None,
    ) -> GrepResult | ToolResult:
        r"""Search the lines of text files for a regular expression: in one file, or in all files below a directory.

        Returns the path of each file, and below it the matching lines as "LINE:TEXT", sorted by path and line. Hidden
        files, binary files, and files ignored by .gitignore or .ignore are left out. If there are more results, a
        final [note] says so.

        Args:
            pattern: A regular expression for a single line, in RE2 syntax: no look-around, no backreferences; \w and
                \d match ASCII only, \p{L} matches any letter.
            path: The file or directory to search, relative to the working folder.
            literal: If true, the pattern is plain text, not a regular expression.
            case: "sensitive"; "ignore"; or "smart", which ignores case if the pattern has no capital letter.
            include: Searches only files that match one of these patterns, for example "*.py" or "src/**/*.{ts,tsx}".
            exclude: Skips files and directories that match one of these patterns, for example "vendor/".
            context: The number of lines to show before and after each match, as "LINE-TEXT".
            mode: "matches" returns the matching lines; "files" only the paths of the files with matches; "counts" also
                the number of matching lines in each file.
            limit: The maximum number of matching lines, or of files.
            hidden: If true, includes hidden files.
            no_ignore: If true, includes ignored files.
            call: The running call.
        """
        looked_for = line_pattern(pattern, literal=literal, case=case)
        with self._open_root(call, path) as root:
            start = resolve(root, path)
            include, exclude = ([root.pattern(each, start) for each in listed] for listed in (include, exclude))
            hidden = hidden or any(map(names_hidden, include))
            wanted = globs(include, exclude)
            walk = self._walk(root, self._deadline(call), wanted, hidden=hidden, no_ignore=no_ignore)
            search = Search(root, looked_for, mode, limit, context, walk.deadline)
            with as_tool_error(root.label(start)):
                if kind_of(root.status(start).st_mode) == "directory":
                    search.run(_files(walk, start, wanted))
                else:
                    _search_one(search, start)
            truncated = search.full or search.stopped or walk.stopped
            note = grep_note(walk, search, "" if literal else pattern)
            return answer(GrepResult(search.matches, search.files, search.searched, truncated, note))

    @contextmanager
    def _open_root(self, call: ToolContext | None, path: str) -> Generator[OpenRoot]:
        """The root of a path, open for one call; what rules deny to `read_file` is denied to all tools."""
        call = call or ToolContext()
        with open_roots(self.settings.roots, call.work_dir, call) as roots:
            yield roots.of(path)

    def _deadline(self, call: ToolContext | None) -> Deadline:
        return Deadline.of(self.settings.time_limit, call)

    def _walk(
        self, root: OpenRoot, deadline: Deadline, wanted: Globs = EVERYTHING, *, hidden: bool, no_ignore: bool
    ) -> Walk:
        return Walk(
            root,
            deadline,
            hidden=hidden or self.settings.hidden,
            no_ignore=no_ignore or self.settings.no_ignore,
            globs=wanted,
        )


def _files(walk: Walk, start: Parts, wanted: Globs) -> Iterable[Parts]:
    for path, folder, name, kind in walk.entries(start):
        if kind == "file" and wanted.takes(path):
            yield (*folder, name)


def _search_one(search: Search, parts: Parts) -> None:
    """Searches a file given by its path, regardless of ignore files and globs."""
    try:
        search.search(parts)
    except BinaryFileError:
        raise ToolError(f"{search.root.label(parts)!r} is a binary file and can't be searched.") from None
