"""Editing of texts in their own encoding and line ends: exact replacements, and diffs.

Bytes that aren't UTF-8 are preserved. A model ends lines with a line feed; where the file has CRLF, the text to find
and its replacement are converted.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final
from unicodedata import is_normalized

from attrs import frozen

from pegboard import ToolError
from pegboard.text import normalized
from pegboard_files.root import Deadline
from pegboard_files.text import SNIFFED_BYTES, BinaryFileError, mark_of

if TYPE_CHECKING:
    from difflib import Match, SequenceMatcher


@frozen
class EditedText:
    """The text of a file, with its encoding and byte order mark.

    Attributes:
        text: Without its byte order mark, line ends as they are; a byte that isn't UTF-8 is a lone surrogate.
        encoding: Python's name of its encoding.
        mark: Its byte order mark, or `b""`.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> EditedText:
        """The text in a file's bytes.

        Raises:
            BinaryFileError: They aren't text.
        """
        mark, encoding = mark_of(data)
        if encoding == "utf-8":
            if b"\0" in data[:SNIFFED_BYTES]:
                raise BinaryFileError
            return cls(data[len(mark) :].decode(errors="surrogateescape"), encoding, mark)
        try:
            return cls(data[len(mark) :].decode(encoding), encoding, mark)
        except UnicodeDecodeError:
            raise BinaryFileError from None

    @property
    def ending(self) -> str:
        """The line end of its first line; a line feed by default."""
        end = self.text.find("\n")
        return "\r\n" if end > 0 and self.text[end - 1] == "\r" else "\n"

    def bytes_of(self, text: str, name: str) -> bytes:
        """The bytes of another text in the same encoding.

        Args:
            text: The new content of the file.
            name: The file's path, for an error.

        Raises:
            ToolError: The file isn't valid UTF-8, and the new text would add non-ASCII characters that it doesn't have.
        """
        if self.encoding != "utf-8":
            return self.mark + text.encode(self.encoding)
        data = text.encode(errors="surrogateescape")
        if not self.text.isascii() and _NOT_UTF8.search(self.text) and _letters(text) - _letters(self.text):
            raise ToolError(
                f"{name!r} isn't encoded in UTF-8, so non-ASCII characters can't be added to it. "
                "Use only ASCII, or convert the file to UTF-8 first."
            )
        return self.mark + data


_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
_ASCII: Final = frozenset(map(chr, range(128)))


def _letters(text: str) -> frozenset[str]:
    return frozenset(text) - _ASCII


@frozen
class Replaced:
    """A text after replacements.

    Attributes:
        text: The new text.
        lines: The line numbers of the replacements in the old text, 1-based.
    """

    text: str
    lines: tuple[int, ...]


MAX_EDITED: Final = 64 << 20
"""Bytes of an edited file, before and after."""

MAX_REPLACED: Final = 100_000
"""Occurrences that one edit replaces."""

MAX_SHOWN: Final = 10
"""Line numbers that an error or a result names."""


def replace_text(  # noqa: PLR0913  (what an edit is made of)
    text: EditedText, old: str, new: str, name: str, deadline: Deadline, *, everywhere: bool = False
) -> Replaced:
    """Replaces the one occurrence of a part of a text, or all of them.

    The part is found as it is, or else in another Unicode normal form; then the words of the file stay in their form.

    Args:
        text: The file's text.
        old: The part to replace, with line feeds, or line ends as the file has them.
        new: The replacement; its line ends become those of the lines that it replaces.
        name: The file's path, for errors.
        deadline: When to give up.
        everywhere: Whether to replace all occurrences; else there must be exactly one.

    Raises:
        ToolError: `old` isn't there, or is there several times, or equals `new`; the text says where to look.
    """
    if old == new:
        raise ToolError("old_string and new_string are the same, so there is nothing to change.")
    found = list(islice(_places(text.text, old, deadline, overlapping=not everywhere), MAX_REPLACED + 1))
    in_form = not found
    if in_form:
        found = list(islice(_places_in_form(text.text, old, deadline, everywhere=everywhere), MAX_REPLACED + 1))
    if everywhere and (len(found) > MAX_REPLACED or len(text.text) + len(found) * (len(new) - len(old)) > MAX_EDITED):
        raise ToolError(
            f"Replacing all of old_string in {name!r} is too much: at most {MAX_REPLACED:,} places can be replaced, "
            f"and the file can have at most {MAX_EDITED:,} bytes afterwards. Include more of the lines around it."
        )
    if not found:
        raise ToolError(_explain_missing(text, old, name, deadline))
    lines = tuple(_line_numbers(text.text, [start for start, _ in found]))
    if len(found) > 1 and not everywhere:
        times = f"{len(found):,}" if len(found) <= MAX_REPLACED else f"more than {MAX_REPLACED:,}"
        raise ToolError(
            f"old_string occurs {times} times in {name!r} ({line_list(lines)}), but must occur exactly once. Include "
            "more of the lines around the right one, or set replace_all=true to replace all of them."
        )
    pieces: list[str] = []
    at, new, has_crlf = 0, new.replace("\r\n", "\n"), "\r\n" in text.text
    for start, end in found:
        deadline.check("Replacing old_string")
        into = in_form_of(new, text.text[start:end]) if in_form else new
        pieces += (text.text[at:start], _with_endings(into, text, start, end) if has_crlf else into)
        at = end
    pieces.append(text.text[at:])
    return Replaced("".join(pieces), lines)


def line_list(lines: Sequence[int]) -> str:
    """Line numbers for a model, each once: `"line 3"`, `"lines 3, 4, ..."`."""
    shown = list(dict.fromkeys(lines))
    more = ", ..." if len(shown) > MAX_SHOWN else ""
    return f"{'line' if len(shown) == 1 else 'lines'} {', '.join(map(str, shown[:MAX_SHOWN]))}{more}"


def _places(text: str, old: str, deadline: Deadline, *, overlapping: bool) -> Iterator[tuple[int, int]]:
    """Start and end of each occurrence of a part; a line end of it is one line end, whatever the file has."""
    crlf = "\n" in old and "\r\n" in text
    old = old.replace("\r\n", "\n")
    searched = text.replace("\r\n", "\n") if crlf else text
    at, last, begin = searched.find(old), 0, 0
    while at >= 0:
        deadline.check("Looking for old_string")
        begin, last = _after(text, begin, at - last) if crlf else at, at
        yield begin, _after(text, begin, len(old)) if crlf else at + len(old)
        at = searched.find(old, at + (1 if overlapping else len(old)))


def _after(text: str, at: int, length: int) -> int:
    """The end of so many characters from an offset on, where a CRLF counts as one."""
    while length:
        end = at + length + text.startswith("\r\n", at + length - 1)
        length -= end - at - text.count("\r\n", at, end)
        at = end
    return at


_BLOCK: Final = 100
_ASCII_CHARACTER: Final = re.compile(r"[\0-\x7f]")


def _places_in_form(text: str, old: str, deadline: Deadline, *, everywhere: bool) -> Iterator[tuple[int, int]]:
    """Start and end of each occurrence that is equal to a part in Unicode's normal form C."""
    if text.isascii() and old.isascii():
        return
    starts, forms, begin = [0], list[str](), 0
    while begin < len(text):  # an ASCII character is never composed with those before it
        found = _ASCII_CHARACTER.search(text, begin + _BLOCK)
        end = found.start() if found else len(text)
        forms.append(normalized("NFC", text[begin:end]))
        starts.append(begin := end)
        deadline.check("Looking for old_string")
    ends = list(accumulate(map(len, forms), initial=0))

    def offset(place: int) -> int | None:
        block = max(bisect_right(ends, place) - 1, 0) if place < ends[-1] else len(forms) - 1
        inside = _length_before(text[starts[block] : starts[block + 1]], place - ends[block], deadline)
        return None if inside is None else starts[block] + inside

    for places in _places("".join(forms), normalized("NFC", old), deadline, overlapping=not everywhere):
        start, end = map(offset, places)
        if start is not None and end is not None:
            yield start, end


def _length_before(text: str, length: int, deadline: Deadline) -> int | None:
    """Length of the start of a text whose normal form is the first so many characters of the text's normal form."""

    def form(end: int) -> str:
        deadline.check("Looking for old_string")
        return normalized("NFC", text[:end])

    whole = normalized("NFC", text)
    at = bisect_left(range(len(text)), length, key=lambda end: len(form(end)))
    while at <= len(text) and len(start := form(at)) == length:
        if start == whole[:length] and start + normalized("NFC", text[at:]) == whole:
            return at
        at += 1
    return None  # it is inside of a character


_WORD: Final = re.compile(r"[\w\x80-\U0010ffff]+")


def in_form_of(new: str, there: str) -> str:
    """A replacement in the normal form of the text in the file: its words stay as they are, other ones follow them."""
    words = {normalized("NFC", word): word for word in _WORD.findall(there)}
    form = "NFD" if is_normalized("NFD", there) else "NFC"
    return _WORD.sub(lambda word: words.get(normalized("NFC", word[0])) or normalized(form, word[0]), new)


def _with_endings(new: str, text: EditedText, start: int, end: int) -> str:
    """A replacement with line ends: unchanged lines keep theirs, new ones get those of the lines around them."""
    old, after = text.text[start:end].split("\n"), new.split("\n")
    next_end = text.text.find("\n", end)
    next_is_crlf = text.text[next_end - 1 : next_end] == "\r" if next_end > 0 else text.ending != "\n"
    is_crlf = [line.endswith("\r") for line in old[:-1]] or [next_is_crlf]
    before = [line.removesuffix("\r") for line in old]
    shorter = min(len(before), len(after)) - 1
    top = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - top) if before[-1 - n] != after[-1 - n]), shorter - top)
    for n in range(len(after) - 1):
        place = n if n < len(after) - 1 - tail else n - len(after) + len(before)
        after[n] += "\r" * is_crlf[min(place, len(is_crlf) - 1)]
    return "\n".join(after)


def _line_numbers(text: str, places: Sequence[int]) -> Iterator[int]:
    number, at = 1, 0
    for place in places:
        number += text.count("\n", at, place)
        at = place
        yield number


_NUMBERED: Final = re.compile(r"\s*\d+\t")


def _explain_missing(text: EditedText, old: str, name: str, deadline: Deadline) -> str:
    """Error text for a part that isn't found: the likely reason, and what to do."""
    problem = f"old_string isn't in {name!r}."
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    if old.isspace():
        return f"{problem} It contains only spaces, tabs and line breaks. Include text from the lines around it."
    if all(map(_NUMBERED.match, wanted)):
        return f"{problem} Remove the line numbers and tabs that read_file adds."
    if "\ufffd" in old and not text.text.isascii():
        return (
            f"{problem} It contains U+FFFD, which read_file shows for bytes that aren't UTF-8. Use a part without it."
        )
    lines = text.text.split("\n", _MOST_COMPARED)[:_MOST_COMPARED]
    return f"{problem} {near_miss(lines, wanted, deadline)}"


_MOST_COMPARED: Final = 200_000
"""Lines of a file that are searched for a near miss."""
_MOST_LOOKED_FOR: Final = 200
"""Lines of a text for which a near miss is searched."""
_NEAR_SECONDS: Final = 2.0
_LONGEST_COMPARED: Final = 300
"""Characters of a line that are compared with another."""
_LONGEST_SQUEEZED: Final = 10_000
_SHORTEST_COMPARED: Final = 3
_SHORTEST_PART: Final = 8
"""Characters of a text that is compared with a part of a line."""
_SIMILAR: Final = 0.6
_SHOWN_CHARACTERS: Final = 1_000


def near_miss(lines: Sequence[str], wanted: Sequence[str], deadline: Deadline) -> str:
    """What to tell a model about lines that aren't in a file: the most similar ones that are.

    Args:
        lines: The lines of the file.
        wanted: The lines that the model gave.
        deadline: When to give up; the search takes two seconds at most.
    """
    deadline = deadline.within(_NEAR_SECONDS)
    there, squeezed = list(_squeeze(lines[:_MOST_COMPARED], deadline)), list(_squeeze(wanted))
    text = "\n".join(["", *there, ""])
    at = text.find("\n".join(["", *squeezed, ""]))
    if at >= 0:
        first = text.count("\n", 0, at)
        window = lines[first : first + len(wanted)]
        odd = sorted({char for line in window for char in line if char.isspace()} - set(" \t\r").union(*wanted))
        names = f" It contains {', '.join(f'U+{ord(char):04X}' for char in odd)}." if odd else ""
        where = f"The text from line {first + 1} on differs only in spaces, tabs and blank lines"
        return f"{where}.{names} Copy it exactly:\n{_excerpt(window)}"
    begin = _most_similar(there, squeezed[:_MOST_LOOKED_FOR], deadline)
    if begin is None:
        return "Read the file again, and copy the text exactly."
    window = [line.rstrip("\r") for line in lines[begin : begin + len(wanted)]]
    first = next((n for n, (one, other) in enumerate(zip(window, wanted, strict=False)) if one != other), 0)
    where = f"The most similar text begins at line {begin + 1}"
    where += f", and differs from line {begin + first + 1} on" if first else ""
    return f"{where}. Copy it exactly:\n{_excerpt(window[first:])}"


def _squeeze(lines: Sequence[str], deadline: Deadline | None = None) -> Iterator[str]:
    """The lines until the deadline, with one space for blanks; very long ones as they are."""
    for number, line in enumerate(lines):
        if deadline is not None and number % 1_000 == 0 and deadline.is_over:
            return
        yield line if len(line) > _LONGEST_SQUEEZED else " ".join(line.split())


def _excerpt(lines: Sequence[str]) -> str:
    text = "\n".join(line.rstrip("\r") for line in lines)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _most_similar(there: Sequence[str], wanted: Sequence[str], deadline: Deadline) -> int | None:
    """Index of the lines that are most similar to others: one is similar to the longest of them, and others equal."""
    from difflib import SequenceMatcher

    anchor = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    if len(wanted[anchor]) < _SHORTEST_COMPARED:
        return None
    matcher = SequenceMatcher[str](autojunk=False)
    looked_for = wanted[anchor][:_LONGEST_COMPARED].lower()
    matcher.set_seq2(looked_for)
    best, place = 0.0, None
    for number, line in enumerate(there):
        if deadline.is_over:
            break
        matcher.set_seq1(line := line[:_LONGEST_COMPARED].lower())
        if len(line) > len(looked_for) >= _SHORTEST_PART:  # a part of the line may be similar
            match = matcher.find_longest_match()
            matcher.set_seq1(line[max(match.a - match.b, 0) :][: len(looked_for)])
        if matcher.real_quick_ratio() < _SIMILAR or matcher.quick_ratio() < _SIMILAR:
            continue
        ratio, begin = matcher.ratio(), max(number - anchor, 0)
        if ratio >= _SIMILAR:
            near = zip(there[begin : begin + len(wanted)], wanted, strict=False)
            ratio += sum(one == other for one, other in near)
            if ratio > best:
                best, place = ratio, begin
    return place


_WRITING: Final = "Writing the diff"
_CONTEXT: Final = 3
_MOST_DIFFED: Final = 2_000
"""Lines between the first and the last change, or two anchors, that difflib compares (in quadratic time)."""
_DIFF_SECONDS: Final = 5.0
_MOST_ANCHORED: Final = 200_000
"""Lines between the first and the last change among which anchors are looked for; more are shown as replaced."""


@frozen
class Diff:
    """The difference of two texts.

    Attributes:
        text: A unified diff; empty for equal texts.
        added: The number of lines it adds.
        removed: The number of lines it removes.
    """

    text: str
    added: int = 0
    removed: int = 0


def diff_of(before: str | None, after: str | None, name: str, deadline: Deadline, new_name: str | None = None) -> Diff:
    """The unified diff of two texts; parts that take too long to compare are shown as replaced.

    Args:
        before: The old text; `None`: there was no file.
        after: The new text; `None`: the file is removed.
        name: The old file's path.
        deadline: When to give up; comparing takes five seconds at most.
        new_name: The new file's path, if it differs.
    """
    old, new = before or "", after or ""
    start = old.rfind("\n", 0, _same_at_start(old, new)) + 1
    same = _same_at_end(old, new, min(len(old), len(new)) - start)
    end = len(old) - same
    for _ in range(_CONTEXT + 1):  # the first of them may only be the rest of a line
        end = old.find("\n", end) + 1 or len(old)
    for _ in range(_CONTEXT):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
    tail = len(old) - end
    lines = _lines(old[start:end], deadline), _lines(new[start : len(new) - tail], deadline)
    rows = list(_rows(*lines, old.count("\n", 0, start), deadline))
    if not rows and (before is None) == (after is None) and new_name in (None, name):
        return Diff("")
    text = "".join(["--- {}\n+++ {}\n".format(*_heads(before, after, name, new_name)), *rows])
    return Diff(
        text.encode("utf-8", "surrogateescape").decode(errors="replace"),
        sum(row.startswith("+") for row in rows),
        sum(row.startswith("-") for row in rows),
    )


def diff_of_bytes(
    before: bytes | None, after: bytes | None, name: str, deadline: Deadline, new_name: str | None = None
) -> Diff:
    """`diff_of` for the bytes of two files; of a binary one it only says that they differ."""
    try:
        old, new = (None if data is None else EditedText.of(data).text for data in (before, after))
    except BinaryFileError:
        return Diff("Binary files {} and {} differ\n".format(*_heads(before, after, name, new_name)))
    return diff_of(old, new, name, deadline, new_name)


def _heads(before: object, after: object, name: str, new_name: str | None) -> tuple[str, str]:
    return "/dev/null" if before is None else f"a/{name}", "/dev/null" if after is None else f"b/{new_name or name}"


def _same_at_start(one: str, other: str) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _same_at_end(one: str, other: str, most: int) -> int:
    """Length of the common suffix, at most `most`."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        same = one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        low, high = (middle, high) if same else (low, middle - 1)
    return low


def _lines(text: str, deadline: Deadline) -> list[str]:
    *lines, rest = text.split("\n")
    return [f"{line}\n" for line in deadline.iterate(lines, _WRITING)] + (
        [f"{rest}\n\\ No newline at end of file\n"] if rest else []
    )


def _matcher(old: list[str], new: list[str], deadline: Deadline) -> SequenceMatcher[str]:
    """Difflib's matcher, which finds nothing more after the deadline, and begins at anchors in long texts."""
    from difflib import Match, SequenceMatcher

    class Matcher(SequenceMatcher[str]):
        def find_longest_match(
            self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
        ) -> Match:
            return Match(alo, blo, 0) if deadline.is_over else super().find_longest_match(alo, ahi, blo, bhi)

    class AnchoredMatcher(SequenceMatcher[str]):
        def get_matching_blocks(self) -> list[Match]:
            return _matching_blocks(old, new, deadline)

    return AnchoredMatcher() if max(len(old), len(new)) > _MOST_DIFFED else Matcher(None, old, new)


def _rows(old: list[str], new: list[str], skipped: int, deadline: Deadline) -> Iterator[str]:
    """The hunks of a diff of lines that follow `skipped` others."""
    matcher = _matcher(old, new, deadline.within(_DIFF_SECONDS))
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(a1 + skipped, a2 - a1)} +{_range(b1 + skipped, b2 - b1)} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
            else:
                yield from (f"-{line}" for line in deadline.iterate(old[i1:i2], _WRITING))
                yield from (f"+{line}" for line in deadline.iterate(new[j1:j2], _WRITING))


def _matching_blocks(old: list[str], new: list[str], deadline: Deadline) -> list[Match]:
    """Matching blocks as of difflib for long texts: the anchors, and what difflib finds between them."""
    from difflib import Match

    blocks = [Match(0, 0, 0)]
    a = b = 0
    anchors = _anchors(old, new) if max(len(old), len(new)) <= _MOST_ANCHORED else []
    for i, j in [*anchors, (len(old), len(new))]:
        between = old[a:i], new[b:j]
        is_short = all(between) and max(map(len, between)) <= _MOST_DIFFED
        found = _matcher(*between, deadline).get_matching_blocks()[:-1] if is_short else []
        for x, y, size in [*((a + x, b + y, size) for x, y, size in found), (i, j, int(i < len(old)))]:
            last = blocks[-1]
            if (last.a + last.size, last.b + last.size) == (x, y):
                blocks[-1] = Match(last.a, last.b, last.size + size)
            else:
                blocks.append(Match(x, y, size))
        a, b = i + 1, j + 1
    return blocks


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Anchors of a patience diff: the longest ordered chain of lines that occur exactly once in both texts."""
    in_old, in_new = Counter(old), Counter(new)
    places = {line: j for j, line in enumerate(new) if in_old[line] == in_new[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(old) if line in places]
    ends: list[int] = []  # for each length of a chain, the smallest index in the new text at which one ends
    last: list[int] = []  # the pair at that index
    before: list[int] = []  # for each pair, the previous one in its chain
    for number, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [j], [number]
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _range(start: int, length: int) -> str:
    begin = start + 1 if length else start
    return f"{begin}" if length == 1 else f"{begin},{length}"
