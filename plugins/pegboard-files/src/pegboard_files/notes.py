"""What to know beside a result: how to read on, what was left out, what took too long."""

from __future__ import annotations

from pegboard_files.searching import Search
from pegboard_files.walking import Walk


def listing_note(walk: Walk, offset: int, shown: int, total: int) -> str:
    """What to know of a page of a directory."""
    notes = [_stopped(walk)]
    if shown < total:
        notes.append(f"Entries {offset + 1}-{offset + shown} of {total:,}.")
    if offset + shown < total:
        notes.append(f"Read on with offset={offset + shown}.")
    elif not total:
        notes.append("Nothing to list.")
    return _joined(*notes, _left_out(walk))


def glob_note(walk: Walk, offset: int, shown: int, *, more: bool) -> str:
    """What to know of a page of what a glob found."""
    notes = [_stopped(walk), _unreadable(walk.unreadable)]
    if more:
        notes.append(f"There are more: read on with offset={offset + shown}, or narrow the pattern.")
    elif not shown:
        notes.append("Nothing further matches." if offset else "Nothing matches.")
        notes.append(_left_out(walk))
    return _joined(*notes)


def grep_note(walk: Walk, search: Search) -> str:
    """What to know of a search."""
    found = len(search.matches) or len(search.files)
    what = "matching lines" if search.mode == "matches" else "files"
    notes: list[str] = []
    if search.full:
        notes.append(f"Stopped after {found:,} {what}; there are more. Narrow the search, or raise limit.")
    elif search.stopped or walk.stopped:
        notes.append(f"Stopped after {walk.deadline.seconds:g} seconds; not everything was searched.")
    elif not found:
        notes += [f"No line matches in {search.searched:,} {_plural(search.searched, 'file')}.", _left_out(walk)]
    if search.binary:
        notes.append(f"{search.binary:,} {_plural(search.binary, 'file')} left out as binary.")
    return _joined(*notes, _unreadable(walk.unreadable + search.unreadable))


def _stopped(walk: Walk) -> str:
    return f"Stopped after {walk.deadline.seconds:g} seconds; this is not all." if walk.stopped else ""


def _left_out(walk: Walk) -> str:
    """How many entries a call could still ask for; what is in a directory that was left out isn't counted."""
    left = [
        f"{count:,} {what} ({flag}=true shows them)"
        for count, what, flag in (
            (walk.left_hidden, "hidden", "hidden"),
            (walk.left_ignored, "ignored", "no_ignore"),
        )
        if count
    ]
    return f"Left out: {', '.join(left)}." if left else ""


def _unreadable(count: int) -> str:
    return f"{count:,} that could not be read were left out." if count else ""


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _joined(*notes: str) -> str:
    return " ".join(filter(None, notes))
