"""Texts that are edited: encodings, line ends, exact replacement, diffs."""

from __future__ import annotations

import difflib
import re
from unicodedata import normalize

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolError
from pegboard_files import editing
from pegboard_files.editing import EditedText, diff_of, replace_text
from pegboard_files.root import Deadline
from pegboard_files.text import BinaryFileError

MARKED = [
    ("utf-8", b"\xef\xbb\xbf"),
    ("utf-16-le", b"\xff\xfe"),
    ("utf-16-be", b"\xfe\xff"),
    ("utf-32-le", b"\xff\xfe\0\0"),
    ("utf-32-be", b"\0\0\xfe\xff"),
]


def edit(data: bytes, old: str, new: str, **options) -> bytes:
    text = EditedText.of(data)
    return text.bytes_of(replace_text(text, old, new, "a.txt", Deadline(30), **options).text, "a.txt")


@pytest.mark.parametrize(("encoding", "mark"), [*MARKED, ("utf-8", b"")])
def test_encoding_and_mark_of_a_file_stay(encoding, mark):
    data = mark + "eins\nzwölf\n".encode(encoding)
    assert edit(data, "zwölf", "zwei 名") == mark + "eins\nzwei 名\n".encode(encoding)


def test_bytes_that_are_not_utf8_stay_as_they_are():
    assert edit(b"caf\xe9\none\n", "one", "two") == b"caf\xe9\ntwo\n"


def test_a_file_that_is_not_utf8_gets_no_second_encoding():
    with pytest.raises(ToolError, match="isn't encoded in UTF-8"):
        edit(b"caf\xe9\none\n", "one", "zwölf")


@pytest.mark.parametrize("data", [b"\x89PNG\0\0", b"\xff\xfe\0", b"\xfe\xff\xd8\x00\x00\x41"])
def test_a_binary_file_is_refused(data):
    with pytest.raises(BinaryFileError):
        EditedText.of(data)


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\nb\r\nc\n", "a\nb\nc", "x\ny", b"x\ny\n"),
        (b"a\nb\r\nc\n", "b", "x\ny", b"a\nx\r\ny\r\nc\n"),
        (b"a\r\nb\nc", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc"),
        (b"a\nb\r\nc\n", "a\nb\nc\n", "a\nx\ny\nb\nc\n", b"a\nx\r\ny\nb\r\nc\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nc\nd", b"a\r\nc\r\nd\n"),
        (b"a\r\nb", "b", "x\ny", b"a\r\nx\r\ny"),
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a", "a", "x\ny", b"x\ny"),
        (b"a\rb\n", "a", "x", b"x\rb\n"),
    ],
)
def test_line_ends_of_a_file_stay(data, old, new, after):
    assert edit(data, old, new) == after


def test_a_text_must_be_there_once():
    with pytest.raises(ToolError, match=r"occurs 3 times in 'a\.txt' \(lines 1, 2, 4\).*replace_all=true"):
        edit(b"x\nx\ny\nx\n", "x", "z")
    with pytest.raises(ToolError, match=r"occurs 2 times in 'a\.txt' \(line 1\)"):
        edit(b"aaa\n", "aa", "b")
    assert edit(b"aaa\n", "aa", "b", everywhere=True) == b"ba\n"
    assert edit(b"x\nx\ny\nx\n", "x", "z", everywhere=True) == b"z\nz\ny\nz\n"


def test_of_many_places_only_the_first_are_named():
    with pytest.raises(ToolError, match=r"1,000 times in 'a\.txt' \(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \.\.\.\)"):
        edit(b"x\n" * 1_000, "x", "z")


@pytest.mark.parametrize(("data", "new"), [(b"x" * 200_000, "y"), (b"x" * 1_000, "y" * 100_000)])
def test_a_replacement_with_too_many_places_or_too_large_a_result_is_refused(data, new):
    with pytest.raises(ToolError, match=r"is too much: at most 100,000 places .* 67,108,864 bytes"):
        edit(data, "x", new, everywhere=True)


def test_occurrences_are_counted_up_to_a_limit():
    with pytest.raises(ToolError, match="more than 100,000 times"):
        edit(b"x" * 200_000, "x", "y")


def test_nothing_to_change_is_an_error():
    with pytest.raises(ToolError, match="the same"):
        edit(b"a\n", "a", "a")


@pytest.mark.parametrize(
    ("data", "old", "hint"),
    [
        (b"one\n", "nowhere", r"isn't in 'a\.txt'\. Read the file again"),
        (b"one\n  two\n", "1\tone\n2\t  two", "Remove the line numbers"),
        (
            b"one\n  two\nthree\n",
            "\ttwo\nthree",
            "The text from line 2 on differs only in spaces, tabs and blank lines. Copy.*:\n  two\nthree$",
        ),
        (
            "a\u00a0list\n".encode(),
            "a list",
            r"spaces, tabs and blank lines\. It contains U\+00A0\. Copy it.*:\na\u00a0list$",
        ),
        (
            b"    x = compute(alpha, beta, 3)  # and a long comment\n",
            "compute(alfa, beta, 3)",
            "similar text begins at line 1",
        ),
        (b"y = 1\nMAX_TIMEOUT = 5\n", "max_timeout = 5", "similar text begins at line 2"),
        (b"a\n\nb\n", " \n\t\n", "contains only spaces, tabs and line breaks. Include text"),
        (b"caf\xe9\n", "caf\ufffd", r"U\+FFFD, which read_file shows for bytes"),
        (b"a\ndef greet(name):\n", "def greet(nme):", r"most similar text begins at line 2\..*:\ndef greet\(name\):$"),
        ("“quoted” text\n".encode(), '"quoted" text', "begins at line 1.*:\n“quoted” text$"),
        (
            b"x = compute(1)\r\na\r\nx = compute(1)\r\ny = 2\r\nz\r\n",
            "x = compute(1)\ny = 3\nz",
            r"begins at line 3, and differs from line 4 on\. Copy it exactly:\ny = 2\nz$",
        ),
    ],
)
def test_a_text_that_is_not_there_says_why(data, old, hint):
    with pytest.raises(ToolError, match=hint):
        edit(data, old, "x")


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r"]), max_size=12).map("".join)


@given(PIECES, PIECES, st.text(st.sampled_from("xy\n"), max_size=4))
def test_just_the_one_place_is_replaced_whatever_its_line_ends(before, part, new):
    plain = before.replace("\r\n", "\n") if "\n" in part or "\r\n" not in before else before
    old = part.replace("\r\n", "\n") if plain is not before or "\r\n" not in before else part
    places = [at for at in range(len(plain)) if old and plain.startswith(old, at)]
    if len(places) != 1 or part == new:
        return
    after = edit(before.encode(), part, new).decode()
    expected = plain[: places[0]] + new + plain[places[0] + len(old) :]
    assert after.replace("\r\n", "\n") == expected.replace("\r\n", "\n")


LETTERS = st.text(st.sampled_from("aéй각ṩÅ x\n"), max_size=12)


@given(st.lists(LETTERS, min_size=4, max_size=4), *[st.sampled_from(["NFC", "NFD"])] * 2)
def test_a_text_is_found_in_another_normal_form_and_the_rest_keeps_its_own(texts, form, other):
    start, part, end, word = texts
    there = normalize(form, f"{part}<\u00f1>{part}")
    old = normalize(other, there)
    after = there + "|" + (word if there == old else normalize(form, word))
    assert edit(f"{start}<{there}>{end}".encode(), old, f"{old}|{word}").decode() == f"{start}<{after}>{end}"


def test_all_places_of_a_long_line_are_found_in_another_normal_form():
    assert edit("e\u0301 ".encode() * 3_000, "\u00e9", "x", everywhere=True) == b"x " * 3_000


def test_words_that_stay_keep_each_its_own_form():
    mixed = "café cafés\n"
    assert edit(mixed.encode(), normalize("NFC", mixed), "x cafés é\n").decode() == "x cafés é\n"


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "ä\n", "\n", "x\r\n", "\x0c\n", "end"]), max_size=14).map(
    "".join
)


def apply_diff(before: str, diff: str) -> str:
    """A text with a diff applied, as `patch` does it."""
    old = before.split("\n")
    new: list[str] = []
    at = 0
    rows = diff.split("\n")[2:]
    for number, row in enumerate(rows):
        head = re.match(r"@@ -(\d+)(?:,(\d+))? ", row)
        if head:
            start = int(head[1]) - (head[2] != "0")
            new += [f"{line}\n" for line in old[at:start]]
            at = start
        elif row and row[0] in " -+":
            end = "" if number + 1 < len(rows) and rows[number + 1].startswith("\\") else "\n"
            if row[0] != "+":
                assert old[at] == row[1:]
                at += 1
            if row[0] != "-":
                new.append(row[1:] + end)
    return "".join(new) + "\n".join(old[at:])


@given(TEXTS, TEXTS)
def test_a_diff_leads_from_one_text_to_the_other(before, after):
    diff = diff_of(before, after, "a.txt", Deadline(7200))
    assert apply_diff(before, diff.text) == after
    assert (diff.added, diff.removed) == (
        sum(row.startswith("+") for row in diff.text.split("\n")[2:]),
        sum(row.startswith("-") for row in diff.text.split("\n")[2:]),
    )


@given(TEXTS, TEXTS, st.text(st.sampled_from("ab\n"), max_size=40))
@pytest.mark.parametrize("bound", ["_MOST_DIFFED", "_MOST_ANCHORED"])
def test_a_diff_of_many_lines_is_true(bound, before, after, same):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(editing, "_MOST_DIFFED", 2)
        patch.setattr(editing, bound, 2)
        assert apply_diff(
            same + "\n" + before, diff_of(same + "\n" + before, same + "\n" + after, "a", Deadline(30)).text
        ) == (f"{same}\n{after}")


def test_changes_far_from_each_other_are_shown_each_by_itself(monkeypatch):
    monkeypatch.setattr(editing, "_DIFF_SECONDS", 3600)  # on a busy machine, too: after it a diff is coarser
    before = "start\n" + "".join(f"line {n}\nend\n\n" for n in range(3_000)) + "stop\n"
    after = before.replace("start", "begin").replace("line 1000\n", "").replace("stop", "halt")
    diff = diff_of(before, after, "a.txt", Deadline(7200))
    assert apply_diff(before, diff.text) == after
    assert (diff.added, diff.removed, diff.text.count("@@ -")) == (2, 3, 3)


def test_no_diff_of_many_lines_is_written_after_the_deadline():
    with pytest.raises(ToolError, match="Writing the diff took longer than 0 seconds"):
        diff_of("a\n" * 20_000, "b\n" * 20_000, "a.txt", Deadline(0))


def test_a_diff_is_as_difflib_writes_it():
    before = "".join(f"line {n}\n" for n in range(40))
    after = before.replace("line 5\n", "five\n").replace("line 30\n", "line 30\nmore\n").replace("line 39\n", "")
    ours = diff_of(before, after, "x.py", Deadline(30)).text
    theirs = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), "a/x.py", "b/x.py")
    assert ours == "".join(theirs)


def test_new_and_removed_files_have_dev_null_on_the_other_side():
    assert diff_of(None, "a\n", "x", Deadline(30)).text == "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"
    assert diff_of("a\n", None, "x", Deadline(30)).text == "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert diff_of("a\n", "a\n", "x", Deadline(30)).text == ""
    assert diff_of("a\n", "a\n", "x", Deadline(30), "y").text == "--- a/x\n+++ b/y\n"
