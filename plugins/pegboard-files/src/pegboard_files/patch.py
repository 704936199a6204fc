"""Parser for patches in codex's format, and their application to texts.

    *** Begin Patch
    *** Add File: PATH           its lines follow, each after a "+"
    *** Delete File: PATH
    *** Update File: PATH
    *** Move to: PATH            (optional)
    @@ LINE                      (optional) a line above, such as the head of a function; several narrow down further
     context
    -old
    +new
    *** End of File              (optional) the lines above are the last of the file
    *** End Patch

Lines are searched from the end of the previous chunk: exactly, then in one Unicode normal form, then without trailing
blanks, then without leading and trailing blanks, then with typographic characters as ASCII. They have to be there once.
After a line that `@@` names the first match counts, unless that line is there again before another match.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, islice, takewhile
from typing import Final, Literal, TypeAlias
from unicodedata import is_normalized

from attrs import define, evolve, field, frozen

from pegboard import ToolError
from pegboard.text import normalized
from pegboard_files.editing import MAX_SHOWN, EditedText, in_form_of, near_miss
from pegboard_files.root import Deadline

GRAMMAR: Final = r"""
start: begin file+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
file: add | delete | update
add: "*** Add File: " path LF added*
delete: "*** Delete File: " path LF
update: "*** Update File: " path LF move? (head | row)* last?
move: "*** Move to: " path LF
head: ("@@" | "@@ " /(.+)/) LF
row: (" " | "-" | "+") /(.*)/ LF
added: "+" /(.*)/ LF
last: "*** End of File" LF
path: /(.+)/

%import common.LF
""".lstrip()

MAX_PATCH: Final = 1 << 20
"""Characters of a patch."""

MAX_FILES: Final = 200
"""Files that one patch names."""

MAX_LINES: Final = 2_000_000
"""Lines of a file that is patched."""

Row: TypeAlias = tuple[Literal[" ", "-", "+"], str]
"""A line of a chunk: context, removed or added, and its text."""


@frozen
class Chunk:
    """One changed place of a file.

    Attributes:
        heads: The lines that `@@` names.
        rows: Its lines.
        at_end: Whether they are the last of the file.
    """

    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The context and removed lines, which the file must have."""
        return [text for kind, text in self.rows if kind != "+"]


@frozen
class FilePatch:
    """The part of a patch about one file.

    Attributes:
        kind: What is done with it.
        path: The file, as the model wrote it.
        move: The path that it is moved to, or `None`.
        content: The content of a new file.
        chunks: The changes of an updated file.
    """

    kind: Literal["add", "delete", "update"]
    path: str
    move: str | None = None
    content: str = ""
    chunks: tuple[Chunk, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Each path that it names."""
        return (self.path,) if self.move is None else (self.path, self.move)


_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_HEADERS: Final[dict[str, Literal["add", "delete", "update"]]] = {
    "*** Add File: ": "add",
    "*** Delete File: ": "delete",
    "*** Update File: ": "update",
}
_MOVE: Final = "*** Move to: "
_LAST: Final = "*** End of File"
_RANGE: Final = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
"""Line numbers of a unified diff, which are ignored."""

_WRAPPERS: Final = ((re.compile(r"(?:apply_patch )?<<(['\"]?)EOF\1"), "EOF"), (re.compile(r"```\w*"), "```"))
"""Start and end of a here-document or a fence around a patch."""


def read_patch(text: str) -> tuple[FilePatch, ...]:
    """Reads a patch.

    Blanks around it, blank lines between its sections, and a here-document (`<<'EOF'`) or a fence (```` ``` ````)
    around it are ignored.

    Raises:
        ToolError: It isn't a patch; the text names the line and what is expected there.
    """
    lines = text.strip().replace("\r\n", "\n").split("\n")
    offset = 0
    if any(begin.fullmatch(lines[0].strip()) and lines[-1].strip().endswith(end) for begin, end in _WRAPPERS):
        lines, offset = lines[1:-1], 1
    if not lines or lines[0].strip() != _BEGIN:
        raise ToolError(f"A patch must begin with the line {_BEGIN!r}.")
    if lines[-1].strip() != _END:
        raise ToolError(f"A patch must end with the line {_END!r}.")
    reader = _Reader(lines[1:-1], offset + 2)
    files = tuple(islice(reader.files(), MAX_FILES + 1))
    if not files:
        raise ToolError("The patch changes no file. Add a section such as '*** Update File: PATH'.")
    if len(files) > MAX_FILES:
        raise ToolError(f"The patch names more than {MAX_FILES} files. Split it into several patches.")
    return files


@define(eq=False)
class _Reader:
    """Recursive-descent parser over the lines of a patch."""

    lines: list[str]
    offset: int
    at: int = 0

    def _fault(self, wanted: str, at: int | None = None) -> ToolError:
        at = self.at if at is None else at
        line = self.lines[at] if at < len(self.lines) else _END
        return ToolError(f"Line {at + self.offset} of the patch, {line[:100]!r}: {wanted}")

    def _take(self, header: str) -> str | None:
        """Consumes the next line if it starts with `header`; gives the rest of it, else `None`."""
        if self.at < len(self.lines) and self.lines[self.at].strip().startswith(header.rstrip()):
            rest = self.lines[self.at].strip()[len(header.rstrip()) :].strip()
            self.at += 1
            return rest
        return None

    def files(self) -> Iterator[FilePatch]:
        while self.at < len(self.lines):
            begin = self.at
            if not self.lines[begin].strip():  # models put a blank line between two sections
                self.at += 1
                continue
            kind, path = self._header()
            if not path:
                raise self._fault("the path is missing.", begin)
            if kind == "add":
                yield FilePatch(kind, path, content=self._content())
            elif kind == "delete":
                yield FilePatch(kind, path)
            else:
                move = self._take(_MOVE)
                if move == "":
                    raise self._fault("the path is missing.", self.at - 1)
                patch = FilePatch(kind, path, move, chunks=tuple(self._chunks()))
                if not patch.chunks and move is None:
                    raise self._fault(
                        f"the update of {path!r} has no changes: add lines that begin with '-' or '+'.", begin
                    )
                yield patch

    def _header(self) -> tuple[Literal["add", "delete", "update"], str]:
        for header, kind in _HEADERS.items():
            path = self._take(header)
            if path is not None:
                return kind, path
        raise self._fault(f"expected one of {', '.join(f'{header}PATH' for header in _HEADERS)}.")

    def _content(self) -> str:
        lines = list(takewhile(lambda line: not line.startswith("***"), self.lines[self.at :]))
        while lines and not lines[-1].strip():
            lines.pop()
        for line in lines:
            if not line.startswith("+"):
                raise self._fault("each line of a new file must begin with '+'.")
            self.at += 1
        return "".join(f"{line[1:]}\n" for line in lines)

    def _chunks(self) -> Iterator[Chunk]:
        while self.at < len(self.lines) and not self._is_header():
            heads = list[str]()
            while self.at < len(self.lines) and re.match(r"@@(?: |$)", self.lines[self.at]):
                heads += filter(None, [_RANGE.sub("", self.lines[self.at][3:].rstrip())])
                self.at += 1
            begin, rows = self.at, list(self._rows())
            at_end = self._take(_LAST) is not None
            if not rows:
                raise self._fault("expected a line that begins with ' ', '-' or '+'.", begin)
            yield Chunk(tuple(heads), tuple(rows), at_end)

    def _is_header(self) -> bool:
        return self.lines[self.at].strip().startswith((*(header.rstrip() for header in _HEADERS), _MOVE.rstrip()))

    def _rows(self) -> Iterator[Row]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if re.match(r"@@(?: |$)", line) or line.startswith("***"):
                return
            match line[:1]:
                case " " | "-" | "+" as kind:
                    yield kind, line[1:]
                case "":
                    yield " ", ""
                case _:
                    raise self._fault("this line must begin with ' ' (context), '-' (removed) or '+' (added).")
            self.at += 1


_TYPOGRAPHIC: Final = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-")
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\uff07", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\uff02", '"')
    | dict.fromkeys("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008", " ")
    | dict.fromkeys("\u2009\u200a\u202f\u205f\u3000", " ")
    | dict.fromkeys("\u200b\u2060\ufeff", "")  # invisible
    | {"\u2026": "..."}
)
_LEVELS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    partial(normalized, "NFC"),
    lambda line: normalized("NFC", line.rstrip()),
    lambda line: normalized("NFC", line.strip()),
    lambda line: normalized("NFC", line.translate(_TYPOGRAPHIC)).strip(),
)
_LOOKING: Final = "Looking for the lines of the patch"
_MOST_HITS: Final = MAX_SHOWN + 1
_LONGEST_LINE: Final = 500
"""Characters of a line that is compared with the line that replaces it."""


@define(eq=False)
class PatchedText:
    """A text that chunks of a patch are applied to.

    Attributes:
        text: The text.
        name: The file's path, for errors.
        deadline: When to give up.
    """

    text: EditedText
    name: str
    deadline: Deadline
    _lines: list[str] = field(init=False)
    _views: dict[int, list[str]] = field(init=False, factory=dict[int, list[str]])
    _at: int = field(init=False, default=0)
    _done: list[tuple[int, int, list[str]]] = field(init=False, factory=list[tuple[int, int, list[str]]])

    def __attrs_post_init__(self) -> None:
        if self.text.text.count("\n") > MAX_LINES:
            raise ToolError(f"{self.name!r} has more than {MAX_LINES:,} lines, too many for a patch. Use edit_file.")
        self._lines = self.text.text.split("\n")
        if self._lines[-1] == "":
            self._lines.pop()
        else:  # it gets a line end when a line follows
            self._lines[-1] += self.text.ending[:-1]

    def apply(self, chunks: Sequence[Chunk]) -> str:
        """Gives the text with these changes.

        Raises:
            ToolError: The lines of a chunk aren't there, or are there several times.
        """
        for chunk in chunks:
            self._apply(chunk)
        return self._join()

    def _apply(self, chunk: Chunk) -> None:
        start, again = self._at, 0  # where the last head ends, and where it ends once more
        for head in chunk.heads:
            found = self._places([head], start)
            if not found:
                raise self._not_found([head], start, "the line after '@@' wasn't found")
            start, again = (place + 1 for place in [*found, len(self._lines)][:2])
        if not chunk.old:
            if chunk.heads:
                raise ToolError(
                    f"In {self.name!r}, it isn't clear where after '@@ {chunk.heads[-1]}' to add the new lines. "
                    "Include an unchanged line before or after them, with a space in front of it."
                )
            self._done.append((len(self._lines), 0, self._new_lines(chunk.rows, len(self._lines))))
            return
        found = self._places(chunk.old, start, at_end=chunk.at_end)
        if not found and chunk.rows[-1] == (" ", "") and len(chunk.old) > 1:
            chunk = evolve(chunk, rows=chunk.rows[:-1])
            found = self._places(chunk.old, start, at_end=chunk.at_end)
        if not found:
            raise self._not_found(
                chunk.old, start, "these lines weren't found" + (" at its end" if chunk.at_end else "")
            )
        if len(found) > 1 and (not chunk.heads or found[0] < again <= found[-1]):
            shown = ", ".join(str(place + 1) for place in found[:MAX_SHOWN])
            raise ToolError(
                f"In {self.name!r}, these lines occur more than once (at lines {shown}):\n{_beginning(chunk.old)}\n"
                "Include more of the lines around them, or a line '@@ ' with the class or function that contains them."
            )
        self._done.append((found[0], len(chunk.old), self._new_lines(chunk.rows, found[0])))
        self._at = found[0] + len(chunk.old)

    def _places(self, wanted: Sequence[str], start: int, *, at_end: bool = False) -> list[int]:
        """Indexes of the lines' matches by the strictest level that finds any, at most `_MOST_HITS`."""
        for level, form in enumerate(_LEVELS):
            self.deadline.check(_LOOKING)
            if level not in self._views:
                lines = self.deadline.iterate(self._lines, _LOOKING)
                self._views[level] = [form(line.removesuffix("\r")) for line in lines]
            looked_for = [form(line) for line in wanted]
            found = list(islice(self._hits(self._views[level], looked_for, start, at_end=at_end), _MOST_HITS))
            if found:
                return found
        return []

    def _hits(self, lines: list[str], wanted: list[str], start: int, *, at_end: bool) -> Iterator[int]:
        """Indexes at which lines equal those that are wanted, from `start` on, or only at their end."""
        if at_end:
            last = len(lines) - len(wanted)
            if last >= 0 and lines[last:] == wanted:
                yield last
            return
        with suppress(ValueError):
            while True:
                start = lines.index(wanted[0], start)
                if lines[start : start + len(wanted)] == wanted:
                    yield start
                self.deadline.check(_LOOKING)
                start += 1

    def _not_found(self, wanted: Sequence[str], start: int, what: str) -> ToolError:
        text = f"In {self.name!r}, {what}"
        if start and self._places(wanted, 0):
            text += f" after line {start}, only before it: changes must be in the order of the file"
        return ToolError(f"{text}:\n{_beginning(wanted)}\n{near_miss(self._lines, wanted, self.deadline)}")

    def _new_lines(self, rows: Sequence[Row], at: int) -> list[str]:
        """The new lines from `at` on; context lines are copied from the file."""
        new: list[str] = []
        old = "\n".join(text for kind, text in rows if kind != "+")
        there = "\n".join(self._lines[at : at + old.count("\n") + 1])
        added = "\n".join(text for kind, text in rows if kind == "+")
        if is_normalized("NFC", old) != is_normalized("NFC", there):
            added = in_form_of(added, there)
        lines, indents, start = iter(added.split("\n")), self._indents(rows, at), at
        removed: deque[tuple[str, str]] = deque()  # as the patch has them, and as the file has
        for kind, text in rows:
            if kind == "+":
                near = "".join(self._lines[max(at - 1, start) : max(at, start + 1)]) or self.text.ending[:-1]
                line = next(lines)
                if removed:
                    self.deadline.check(_LOOKING)
                    line = _with_typography(line, *removed.popleft())
                new.append(_reindent(line, indents) + ("\r" if near.endswith("\r") else ""))
                continue
            if kind == " ":
                new.append(self._lines[at])
                removed.clear()
            else:
                removed.append((text, self._lines[at]))
            at += 1
        return new

    def _indents(self, rows: Sequence[Row], at: int) -> dict[str, str]:
        """Indentation in the patch -> in the file, where they differ: lines also match without regard to it."""
        indents: dict[str, str] = {}
        for number, (_, text) in enumerate((row for row in rows if row[0] != "+"), at):
            if text.strip():
                indents.setdefault(_indent(text), _indent(self._lines[number]))
        return indents if any(patch != file for patch, file in indents.items()) else {}

    def _join(self) -> str:
        lines: list[str] = []
        at = 0
        for start, length, new in self._done:
            lines += [*self._lines[at:start], *new]
            at = start + length
        lines += self._lines[at:]
        if not lines:
            return ""
        # A file without a final line end stays that way as long as its last line is unchanged.
        if self._lines and not self.text.text.endswith("\n") and lines[-1] == self._lines[-1]:
            return "\n".join(lines).removesuffix("\r")
        return "\n".join(lines) + "\n"


def _with_typography(new: str, patch: str, file: str) -> str:
    """A new line with the file's dashes and quotes in the parts that stay, where a patch has plain ones.

    Args:
        new: The new line.
        patch: The line that it replaces, as in the patch.
        file: The same, as in the file.
    """
    body, old, there = new.strip(), patch.strip(), file.strip()
    plain = [character.translate(_TYPOGRAPHIC) for character in there]
    if old == there or "".join(plain) != old or max(len(old), len(body)) > _LONGEST_LINE:
        return new
    from difflib import SequenceMatcher  # rarely needed

    starts, parts = list(accumulate(map(len, plain), initial=0)), list[str]()
    for kind, begin, end, start, stop in SequenceMatcher(None, old, body, autojunk=False).get_opcodes():
        first, last = (bisect_left(starts, place) for place in (begin, end))
        is_whole = kind == "equal" and (starts[first], starts[last]) == (begin, end)
        kept = "".join(" " if each.isspace() else each for each in there[first:last])
        parts.append(kept if is_whole else body[start:stop])
    return new.replace(body, "".join(parts), 1)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(line: str, indents: Mapping[str, str]) -> str:
    """A line with the file's indentation in place of the longest one of the patch that it begins with.

    Where tabs stand for spaces, or the reverse, they do so in the rest of its indentation too.
    """
    if not indents or not line.strip():
        return line
    indent = _indent(line)
    known = max((each for each in indents if indent.startswith(each)), key=len, default="")
    rest = indent[len(known) :]
    for patch, file in indents.items():
        length, left = divmod(len(rest) * len(file), len(patch) or 1)
        if file and patch and file[0] != patch[0] and not rest.strip(patch[0]) and not left:
            rest = file[0] * length
            break
    return indents.get(known, known) + rest + line[len(indent) :]


def _beginning(lines: Sequence[str]) -> str:
    """The first lines of a chunk, for an error."""
    text = "\n".join(lines[:MAX_SHOWN])
    return text if len(text) <= 1_000 and len(lines) <= MAX_SHOWN else f"{text[:1_000]}\n..."
