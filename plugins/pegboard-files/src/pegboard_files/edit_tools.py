"""The tools that change files, their previews and their results. Docstrings and parameters are what a model reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from annotated_types import MaxLen, MinLen
from attrs import Factory, define, evolve, field, frozen

from pegboard import (
    Concurrency,
    Grammar,
    ModelRequest,
    Preview,
    ReadonlyContext,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    nonblocking,
    tool,
)
from pegboard.approval import MOST_DETAILS
from pegboard_files.checks import Checks, as_metadata, as_text
from pegboard_files.editing import MAX_EDITED, Diff, EditedText, diff_of, diff_of_bytes, line_list, replace_text
from pegboard_files.patch import GRAMMAR, MAX_PATCH, FilePatch, PatchedText, read_patch
from pegboard_files.root import Deadline, Roots, open_roots, resolve, root_place
from pegboard_files.text import BinaryFileError, number_of
from pegboard_files.tools import PathText, Settings
from pegboard_files.turns import TurnStore
from pegboard_files.writing import Change, FileState, SeenFiles, commit, read_state, session_of

MAX_TEXT: Final = 1 << 20
"""Characters of one argument that holds text."""

MAX_EDITS: Final = 100

EXAMPLE: Final = """*** Begin Patch
*** Update File: src/greet.py
@@ def greet():
-    return "helo"
+    return "hello"
*** End Patch"""

EDITS_BY: Final = "edits_by"
"""Key in a tool's `meta`: how it edits, `"replacement"` or `"patch"`."""

NewText = Annotated[str, MaxLen(MAX_TEXT)]
OldText = Annotated[str, MinLen(1), MaxLen(MAX_TEXT)]


@frozen
class Edit:
    """One replacement.

    Attributes:
        old_string: The text to replace, copied exactly from the file.
        new_string: The text to put in its place. It may be empty.
        replace_all: If true, replaces every occurrence of old_string.
    """

    old_string: OldText
    new_string: NewText
    replace_all: bool = False


@frozen
class Planned:
    """The planned changes of a call.

    Attributes:
        changes: One for each file.
        diffs: One for each file.
        text: The result for the model once the changes are made.
    """

    changes: Sequence[Change]
    diffs: Sequence[Diff]
    text: str

    @property
    def diff(self) -> str:
        """All diffs, joined."""
        return "".join(diff.text for diff in self.diffs)

    @property
    def counts(self) -> dict[str, int]:
        """The number of lines added and removed."""
        added, removed = sum(diff.added for diff in self.diffs), sum(diff.removed for diff in self.diffs)
        return {"additions": added, "deletions": removed}


MAX_DIFF: Final = 200_000
"""Characters of a diff in a result's metadata."""


@frozen(eq=False)
class EditTools:
    """The tools that change files, bound to one root.

    Attributes:
        settings: The plugin's settings.
        seen: Which files sessions have read; shared with the tools that read.
        checks: The programs that run for changed files; by default those of the settings.
        turns: The changes of whole turns, for their undo.
    """

    settings: Settings = field(factory=Settings)
    seen: SeenFiles = field(factory=SeenFiles)
    checks: Checks = Factory(lambda self: Checks.of(self.settings.checks, self.settings.check_time), takes_self=True)
    turns: TurnStore = field(default=Factory(lambda self: TurnStore.of(self.settings), takes_self=True))

    def _folder(self, _arguments: Mapping[str, Any], context: ReadonlyContext) -> str:
        return str(root_place(self.settings.main_root, context.work_dir))

    def _preview(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> Preview:
        """Preview for the approval: the diff, or its length; for a call that would fail, the error."""
        try:
            with open_roots(self.settings.roots, context.work_dir) as roots:
                deadline = Deadline(self.settings.time_limit)
                planned = self._plan(arguments, roots, session_of(context), deadline, read_first=False)
        except ToolError as error:
            return Preview(f"This call would fail: {error.text}")
        summary = "+{additions:,} -{deletions:,} lines".format_map(planned.counts)
        if len(planned.diff) > MOST_DETAILS:  # a longer preview is left out as a whole
            return Preview(f"{summary}; the diff is too long to be shown: {len(planned.diff):,} characters")
        for change in planned.changes:  # showing the diff counts as reading the file
            self.seen.note(session_of(context), change.before.place, change.before.stamp, shown=True)
        return Preview(summary, planned.diff)

    _CHANGES: ClassVar[dict[str, Any]] = {
        "read_only": False,
        "destructive": True,
        "open_world": False,
        "edit": True,
        "tags": ("files", "edit"),
        "permission": "edit",
        "permission_arguments": {"path": "path"},
        "work_dir": _folder,
        "concurrency": Concurrency("path", ("path",)),
        "preview": _preview,
    }

    @tool(title="Write a file", idempotent=True, **_CHANGES)
    def write_file(self, path: PathText, content: NewText, *, call: ToolContext | None = None) -> ToolResult:
        """Create a text file, or replace the whole content of one.

        Missing directories are created. Read an existing file before you replace it. To change a part of a file, use
        an edit tool instead. Returns the number of lines written.

        Args:
            path: The file, relative to the working folder, for example "src/main.py".
            content: The whole content of the file.
            call: The running call.
        """
        return self._run({"path": path, "content": content}, call)

    @tool(title="Edit a file", idempotent=False, meta={EDITS_BY: "replacement"}, **_CHANGES)
    def edit_file(
        self,
        path: PathText,
        old_string: OldText,
        new_string: NewText,
        *,
        replace_all: bool = False,
        call: ToolContext | None = None,
    ) -> ToolResult:
        """Replace a text in a file.

        Unless replace_all is true, old_string must occur exactly once in the file: include enough of the lines around
        it. Copy it exactly from the file, with its indentation, but without the line numbers of read_file. Preserves
        encoding and line endings. Returns the line numbers of the replacements.

        Args:
            path: The file, relative to the working folder, for example "src/main.py".
            old_string: The text to replace, copied exactly from the file.
            new_string: The text to put in its place. It may be empty.
            replace_all: If true, replaces every occurrence of old_string.
            call: The running call.
        """
        arguments = {"path": path, "old_string": old_string, "new_string": new_string, "replace_all": replace_all}
        return self._run(arguments, call)

    @tool(title="Edit a file in several places", idempotent=False, meta={EDITS_BY: "replacement"}, **_CHANGES)
    def multi_edit(
        self,
        path: PathText,
        edits: Annotated[list[Edit], MinLen(1), MaxLen(MAX_EDITS)],
        *,
        call: ToolContext | None = None,
    ) -> ToolResult:
        """Make several replacements in one file. If one of them fails, none is made.

        Each replacement works as in edit_file. They are made in order, and each sees the result of those before it.
        Returns the line numbers of the replacements.

        Args:
            path: The file, relative to the working folder, for example "src/main.py".
            edits: The replacements, in order.
            call: The running call.
        """
        return self._run({"path": path, "edits": edits}, call)

    def tools(self) -> Iterator[Any]:
        """The edit tools of the set chosen by the settings."""
        if self.settings.tools == "read-only":
            return
        yield from (self.write_file, self.edit_file, self.patch_tool())
        if self.settings.tools == "all":
            yield self.multi_edit

    def patch_tool(self) -> Tool:
        """`apply_patch`, a freeform tool; models without freeform tools pass the patch as the argument `input`."""
        options: Any = {**self._CHANGES, "concurrency": "exclusive", "preview": self._preview, "work_dir": self._folder}
        options |= {"title": "Apply a patch", "check": _argument_errors, "permission_values": self._paths}
        options |= {"idempotent": False, "meta": {EDITS_BY: "patch"}, "examples": [{"input": EXAMPLE}]}
        return Tool.freeform("apply_patch", self._apply_patch, grammar=Grammar("lark", GRAMMAR), **options)

    def _paths(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> dict[str, list[str]]:
        """The paths in a patch, for the permission rules; of a link that it deletes, the folder, too.

        Rules follow a link, and so judge its target only.
        """
        patch = read_patch(arguments["input"])
        root = self._folder(arguments, context)
        deleted = (file.path.rstrip("/") for file in patch if file.kind == "delete")
        folders = [path.rpartition("/")[0] or "." for path in deleted if os.path.islink(os.path.join(root, path))]  # noqa: PTH114, PTH118
        return {"path": [*(path for file in patch for path in file.paths), *folders]}

    def _apply_patch(self, input: str, call: ToolContext | None = None) -> ToolResult:  # noqa: A002  (models know it)
        """Change, add, delete and move files with one patch. Either the whole patch is applied, or nothing.

        The input is a patch. It begins with the line "*** Begin Patch" and ends with the line "*** End Patch". In
        between, it has a section for each file, which begins with one of these lines:

        - "*** Add File: PATH". The lines of the new file follow, with a "+" before each.
        - "*** Delete File: PATH". Nothing follows.
        - "*** Update File: PATH". The changes follow. To move the file, put "*** Move to: PATH" before them.

        A change consists of about three unchanged lines before it and after it, with a space before each, the removed
        lines, with a "-" before each, and the added lines, with a "+" before each. If these lines occur more than once
        in the file, put a line "@@ " with the class or function that contains them above the change.

        Paths are relative to the working folder. Returns a line for each file: A (added), M (modified) or D (deleted)
        and its path.

        Args:
            input: The whole patch, from "*** Begin Patch" to "*** End Patch".
            call: The running call.
        """
        return self._run({"input": input}, call)

    def _run(self, arguments: Mapping[str, Any], call: ToolContext | None) -> ToolResult:
        call = call or ToolContext()
        with open_roots(self.settings.roots, call.work_dir, call) as roots:
            deadline = Deadline.of(self.settings.time_limit, call)
            planned = self._plan(arguments, roots, session_of(call), deadline, read_first=self.settings.read_first)
            stamps = commit(planned.changes, deadline, self.turns.record(call, planned.changes))
            for change, stamp in zip(planned.changes, stamps, strict=True):  # a session knows what it wrote
                self.seen.note(session_of(call), change.before.place, stamp)
            checked = self.checks.run(planned.changes, stamps, call)
            for change, stamp in ((file.change, file.stamp) for file in checked if file.change and file.shown):
                self.seen.note(session_of(call), change.before.place, stamp)
            with self.turns.record(call, [file.change for file in checked if file.change]):
                pass  # the programs have made them
        diff = planned.diff
        cut = diff if len(diff) <= MAX_DIFF else f"{diff[:MAX_DIFF]}\n[cut: {len(diff) - MAX_DIFF:,} more characters]\n"
        metadata = {"diff": cut, **planned.counts, **as_metadata(checked)}
        return ToolResult("\n".join(filter(None, (planned.text, as_text(checked)))), metadata=metadata)

    def _plan(
        self, arguments: Mapping[str, Any], roots: Roots, session: object, deadline: Deadline, *, read_first: bool
    ) -> Planned:
        """Plans a call of the tool that has such arguments; changes nothing. Edits are JSON data in a preview."""
        if "input" in arguments:
            run = PatchRun(roots, partial(self.seen.check, session), deadline)
            return run.plan(read_patch(arguments["input"]))
        path, content = arguments["path"], arguments.get("content")
        root = roots.of(path)
        state = read_state(root, resolve(root, path, create=content is not None))
        self.seen.check(session, state, read_first=read_first and content is not None)
        if content is not None:
            return plan_write(state, content, deadline)
        edits = arguments.get("edits") or [arguments]
        return plan_edit(state, [each if isinstance(each, Edit) else _edit_of(each) for each in edits], deadline)


def _argument_errors(arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments of `apply_patch`."""
    try:
        if len(arguments["input"]) > MAX_PATCH:
            return [f"input: a patch has at most {MAX_PATCH:,} characters; split it into several patches"]
        read_patch(arguments["input"])
    except ToolError as error:
        return [f"input: {error.text}"]
    return []


@frozen
class EditToolChoice:
    """Request processor that offers each model only the edit tools it was trained on: `apply_patch`, or the others.

    Tools of the host or of other plugins stay, also under these names.

    Attributes:
        patch_models: Patterns for the names of the models that get `apply_patch`.
    """

    patch_models: tuple[str, ...] = field(converter=tuple[str, ...])

    @nonblocking
    def __call__(self, request: ModelRequest, context: ReadonlyContext) -> ModelRequest | None:
        """Leaves out apply_patch, or edit_file and multi_edit, by the model's name."""
        if request.tools is None:
            return None
        model = (request.model or context.model or "").rpartition("/")[2].lower()
        patches = any(fnmatchcase(model, pattern.lower()) for pattern in self.patch_models)
        kinds = {tool.name: tool.spec.meta.get(EDITS_BY) for tool in request.tools}
        if {"patch", "replacement"} - set(kinds.values()):
            return None  # only one kind of tool is offered
        left_out = "replacement" if patches else "patch"
        reason = f"model {model!r} {'matches' if patches else 'matches none of'} the setting patch_models"
        without = {name: reason for name, kind in kinds.items() if kind == left_out}
        return request.evolve(tools=request.tools.without("edit_tools", without))


def _edit_of(arguments: Mapping[str, Any]) -> Edit:
    return Edit(arguments["old_string"], arguments["new_string"], arguments.get("replace_all", False))


def text_of_state(state: FileState) -> EditedText:
    """The text of a file that is to be changed.

    Raises:
        ToolError: There is no such file, or it is binary.
    """
    if state.data is None:
        raise ToolError(f"{state.name!r} doesn't exist. Use write_file to create it.")
    try:
        return EditedText.of(state.data)
    except BinaryFileError:
        raise ToolError(f"{state.name!r} is a binary file and can't be edited.") from None


def plan_write(state: FileState, content: str, deadline: Deadline) -> Planned:
    """Plans writing a whole file; an existing file keeps its encoding, byte order mark and line ends."""
    if state.data is None:
        before, data, what = None, content.encode(), "Created"
    else:
        text = text_of_state(state)
        if text.ending == "\r\n" and "\r\n" not in content:
            content = content.replace("\n", "\r\n")
        before, data, what = text.text, text.bytes_of(content, state.name), "Wrote"
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    report = f"{what} {state.name!r}: {number_of(lines, 'line')}."
    return Planned([Change(state, data)], [diff_of(before, content, state.name, deadline)], report)


def plan_edit(state: FileState, edits: Sequence[Edit], deadline: Deadline) -> Planned:
    """Plans replacements in one file."""
    before = text = text_of_state(state)
    lines: list[int] = []
    for number, edit in enumerate(edits, 1):
        try:
            strings = edit.old_string, edit.new_string
            done = replace_text(text, *strings, state.name, deadline, everywhere=edit.replace_all)
        except ToolError as error:
            if len(edits) == 1:
                raise
            raise _no_change(f"Edit {number} of {len(edits)}: {error.text}") from None
        text = evolve(text, text=done.text)
        lines += done.lines
    data = before.bytes_of(text.text, state.name)
    report = f"Edited {state.name!r}: {number_of(len(lines), 'replacement')}, at {line_list(lines)}."
    return Planned([Change(state, data)], [diff_of(before.text, text.text, state.name, deadline)], report)


MAX_PATCHED: Final = 4 * MAX_EDITED
"""Bytes of all files that one patch changes."""


@define(eq=False)
class _PatchedFile:
    """A file in a patch run: its state on disk, and its content after the parts applied so far."""

    before: FileState
    data: bytes | None
    like: FileState | None = None  # the file that was moved here

    @property
    def letter(self) -> str:
        """What was done to it, as codex reports it: `"A"` (added), `"M"` (modified) or `"D"` (deleted)."""
        if self.data is None:
            return "D"
        return "A" if (self.like or self.before).data is None else "M"

    @property
    def is_changed(self) -> bool:
        return self.data != self.before.data or self.like is not None


@define(eq=False)
class PatchRun:
    """Applies a patch to the files on disk in memory; nothing is written.

    Attributes:
        roots: The folders that the paths must be in.
        check: Raises where a file isn't what the session has seen.
        deadline: When to give up.
    """

    roots: Roots
    check: Callable[[FileState], None]
    deadline: Deadline
    _files: dict[str, _PatchedFile] = field(init=False, factory=dict[str, _PatchedFile])

    def plan(self, patch: Sequence[FilePatch]) -> Planned:
        """Plans the patch.

        Raises:
            ToolError: A part of it can't be applied, or nothing would change.
        """
        try:
            for each in patch:
                self._apply(each)
        except ToolError as error:
            raise _no_change(error.text) from None
        changed = [file for file in self._files.values() if file.is_changed]
        if not changed:
            raise ToolError("The patch changes nothing: the files already have this content.")
        moved = {id(file.like) for file in changed}
        shown = [file for file in changed if file.data is not None or id(file.before) not in moved]
        rows = sorted((f"{file.letter} {file.before.name}" for file in shown), key=lambda row: "AMD".index(row[0]))
        return Planned(
            [Change(file.before, file.data, file.like) for file in changed],
            [
                diff_of_bytes(old.data, file.data, old.name, self.deadline, file.before.name)
                for file, old in ((file, file.like or file.before) for file in shown)
            ],
            "\n".join(["Success. Updated the following files:", *rows]),
        )

    def _file_at(self, path: str, *, follow: bool = True) -> _PatchedFile:
        """The file at a path, or none yet, as the patch has left it so far; not `follow`: a link itself."""
        root = self.roots.of(path)
        parts = resolve(root, path, create=True, follow=False)
        if follow and root.place(parts) not in self._files:  # a link that the patch has deleted leads nowhere
            parts = resolve(root, path, create=True)
        place = root.place(parts)
        if place not in self._files:
            state = read_state(root, parts, follow=follow)
            self.check(state)
            self._files[place] = _PatchedFile(state, state.data)
            if sum(len(file.before.data or b"") for file in self._files.values()) > MAX_PATCHED:
                raise ToolError("The files of this patch are too large together. Split it into several patches.")
        return self._files[place]

    def _new_file(self, path: str) -> _PatchedFile:
        file = self._file_at(path)
        if file.data is not None:
            raise ToolError(f"{file.before.name!r} already exists. Update it, or delete it first.")
        return file

    def _existing_file(self, path: str, *, follow: bool = True) -> _PatchedFile:
        file = self._file_at(path, follow=follow)
        if file.data is None:
            resolve(self.roots.of(path), path)  # raises for a missing file, with near misses
            raise ToolError(
                f"{file.before.name!r} doesn't exist any more: an earlier part of the patch deletes or moves it."
            )
        return file

    def _apply(self, patch: FilePatch) -> None:
        if patch.kind == "add":
            self._new_file(patch.path).data = patch.content.encode()
            return
        file = self._existing_file(patch.path, follow=patch.kind != "delete")
        root = file.before.root
        if patch.move is not None and resolve(root, patch.path, create=True, follow=False) != file.before.parts:
            raise ToolError(
                f"{patch.path!r} is a link to {file.before.name!r}, and links can't be moved. "
                "Move that file instead, or delete the link."
            )
        if patch.chunks:
            text = text_of_state(evolve(file.before, data=file.data))
            new = PatchedText(text, file.before.name, self.deadline).apply(patch.chunks)
            file.data = text.bytes_of(new, file.before.name)
        if patch.move is not None:
            target, moved = self._new_file(patch.move), file.like or file.before
            target.data = file.data
            target.like = None if moved.mode is None or moved is target.before else moved
        if patch.move is not None or patch.kind == "delete":
            file.data = file.like = None


def _no_change(text: str) -> ToolError:
    """An error that says so; behind an excerpt of a file on a line of its own, or a model would copy it, too."""
    end = "\n" if "\n" in text else " "
    return ToolError(f"{text}{end}Nothing was changed.")
