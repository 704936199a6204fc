"""The net diff of a turn: one for each file, however often the turn has changed it."""

from __future__ import annotations

import json
from typing import Any, Final

from attrs import asdict, field, frozen

from pegboard import ToolError
from pegboard_files.editing import Diff, diff_of_bytes
from pegboard_files.root import Deadline
from pegboard_files.turns import DISTURBED, FileChange, TurnOfSession, TurnStore

MAX_TURN_DIFF: Final = 200_000
"""Characters of the diff of a turn, as JSON; and of the paths of the files that are listed."""

MAX_LISTED: Final = 1_000
"""Files that are listed of a turn."""

_SHORT: Final = 10_000
"""Characters of a diff: where one of no more doesn't fit, none of the others is tried."""

_FILE_SECONDS: Final = 5.0
"""How long the diff of one file may take; at most half of the time that is left for all."""

NOT_COVERED: Final = "Only changes by the file tools are covered, not those by other programs, such as shell commands."


@frozen
class ListedChange:
    """A file that a turn has changed.

    Attributes:
        path: Its path, as shown to the model.
        change: `"added"`, `"modified"` or `"deleted"`.
        note: Why it has no diff, or can't be undone; or `None`.
    """

    path: str
    change: str
    note: str | None = None


@frozen
class TurnDiff:
    """What a turn has changed.

    Attributes:
        changed: The number of files.
        additions: Lines added, in the files with a diff.
        deletions: Lines removed, in the files with a diff.
        diff: The unified diff of all files, without those that would exceed `MAX_TURN_DIFF`.
        files: The first files, by path, within both limits.
        note: What the diff doesn't cover.
    """

    changed: int = 0
    additions: int = 0
    deletions: int = 0
    diff: str = ""
    files: list[ListedChange] = field(factory=list[ListedChange])
    note: str = NOT_COVERED

    def to_json(self) -> dict[str, Any]:
        """All attributes; a file's `note` only where there is one."""
        return asdict(self, filter=lambda _, value: value is not None)


def diff_of_turn(store: TurnStore, turn: TurnOfSession, deadline: Deadline) -> TurnDiff:
    """The net diff of a turn.

    Args:
        store: The store that has it.
        turn: The turn.
        deadline: When to stop comparing; further files are listed without a diff.

    Raises:
        ToolError: The store can't be read.
    """
    changed = added = removed = listed_characters = 0
    room, is_full = MAX_TURN_DIFF, False
    diffs, files = list[str](), list[ListedChange]()
    for change in store.changes(turn):
        changed += 1
        if is_full or deadline.is_over:
            note = "its diff isn't shown: there are too many changes"
        else:
            diff, note = _diff_of_file(change, deadline.within(_FILE_SECONDS))
            if (size := len(json.dumps(diff.text, ensure_ascii=False))) > room:
                note = f"its diff is too long to be shown: {len(diff.text):,} characters"
                is_full = size <= _SHORT
            else:
                diffs.append(diff.text)
                room, added, removed = room - size, added + diff.added, removed + diff.removed
        listed_characters += len(change.name)
        if len(files) < MAX_LISTED and listed_characters <= MAX_TURN_DIFF:
            files.append(ListedChange(change.name, change.kind, note))
    return TurnDiff(changed, added, removed, "".join(diffs), files)


def _diff_of_file(change: FileChange, deadline: Deadline) -> tuple[Diff, str | None]:
    """The diff of one file, and a note on it."""
    if not change.kept:
        return Diff(""), "its contents weren't kept: the turn's changes exceed undo_bytes or undo_files"
    note = f"{DISTURBED}: the diff isn't exact" if change.disturbed else None
    if change.is_link:
        return Diff(""), "it was a link"
    try:
        return diff_of_bytes(change.old, change.new, change.name, deadline), note
    except ToolError:
        return Diff(""), "its diff takes too long"
