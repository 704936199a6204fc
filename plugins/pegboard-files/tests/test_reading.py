"""read_file: pages, notes, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pegboard import ToolError
from pegboard_files import reading
from pegboard_files.reading import MAX_BYTES, MAX_LINES, read_text
from pegboard_files.root import Deadline
from pegboard_files.tools import FileTools, Settings


def test_lines_come_with_their_numbers(write, files):
    write({"a.txt": "one\n\n\tthree\n"})
    assert files.read_file("a.txt") == "1\tone\n2\t\n3\t\tthree"


def test_an_empty_file_says_so(write, files):
    write({"a.txt": ""})
    assert files.read_file("a.txt") == "[The file is empty.]"


def test_a_page_says_how_to_read_on_until_the_end(write, files):
    write({"a.txt": "".join(f"line {n}\n" for n in range(1, 6))})
    assert files.read_file("a.txt", limit=2) == "1\tline 1\n2\tline 2\n[Lines 1-2 of 5. To continue, use offset=3.]"
    assert files.read_file("a.txt", 3, 2).endswith("4\tline 4\n[Lines 3-4 of 5. To continue, use offset=5.]")
    assert files.read_file("a.txt", 5, 2) == "5\tline 5\n[Lines 5-5. End of file.]"


@pytest.mark.parametrize(("text", "lines"), [("a\nb\nc\n", 3), ("a\nb\nc", 3), ("", 0), ("\n", 1)])
def test_an_offset_behind_the_end_is_an_error_that_says_how_long_the_file_is(write, files, text, lines):
    write({"a.txt": text})
    with pytest.raises(ToolError, match=rf"'a\.txt' has only {lines} lines?, so there is nothing at offset=9\."):
        files.read_file("a.txt", offset=9)


def test_a_page_holds_no_more_than_the_limits_in_whole_lines(write, files):
    write({"many.txt": "x\n" * 5_000, "wide.txt": ("é" * 500 + "\n") * 200})
    many = files.read_file("many.txt")
    assert len(many.splitlines()) <= MAX_LINES
    assert many.endswith("To continue, use offset=2000.]")
    wide = files.read_file("wide.txt")
    assert MAX_BYTES - 2_000 < len(wide.encode()) <= MAX_BYTES
    rows = wide.splitlines()
    assert all(row.endswith("\t" + "é" * 500) for row in rows[:-1])
    assert rows[-1] == f"[Lines 1-{len(rows) - 1} of 200. To continue, use offset={len(rows)}.]"


def test_a_file_of_as_many_lines_as_fit_needs_no_second_page(write, files):
    write({"a.txt": "x\n" * (MAX_LINES - 1)})
    assert files.read_file("a.txt").endswith(f"\n{MAX_LINES - 1}\tx")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), max_size=30), max_size=30),
    st.integers(1, 8),
    st.booleans(),
)
def test_following_the_offsets_gives_the_whole_file(top, lines, limit, ends_open):
    """Property: the pages of a file, one after the other, are the file."""
    text = "\n".join(lines) + ("" if ends_open else "\n")
    (top / "a.txt").write_text("\u0001" + text, encoding="utf-8", newline="")
    rows: list[str] = []
    offset = 1
    tools = FileTools(Settings(root=str(top)))
    while True:
        page = tools.read_file("a.txt", offset, limit).split("\n")
        note = page.pop() if page[-1].startswith("[Lines ") else ""
        rows += page
        if "To continue" not in note:
            break
        offset = int(note.split("offset=")[1].rstrip(".]"))
    assert [row.split("\t", 1)[1] for row in rows] == ("\u0001" + text).removesuffix("\n").split("\n")
    assert [int(row.split("\t", 1)[0]) for row in rows] == list(range(1, len(rows) + 1))


def test_a_long_line_is_cut_and_the_note_says_so(write, files):
    write({"a.txt": "x" * 5_000 + "\nshort\n"})
    first, second, note = files.read_file("a.txt").split("\n")
    assert first == "1\t" + "x" * 2_000 + "… [cut: 3,000 more bytes in this line]"
    assert second == "2\tshort"
    assert "cut" in note


@pytest.mark.parametrize(
    ("data", "row", "note"),
    [
        (b"a\r\nb\r\n", "1\ta", "[All lines end in CRLF.]"),
        (b"a\r\nb\n", "1\ta", "[Some lines end in CRLF.]"),
        (b"caf\xe9\n", "1\tcaf\ufffd", "[The file isn't valid UTF-8: invalid bytes are shown as \ufffd.]"),
        ("é\n".encode("utf-16"), "1\té", "[The file is encoded in UTF-16.]"),
    ],
)
def test_what_is_not_shown_as_it_is_gets_a_note(write, files, data, row, note):
    write({"a.txt": data})
    rows = files.read_file("a.txt").split("\n")
    assert (rows[0], rows[-1]) == (row, note)


def test_a_replacement_character_in_the_file_gets_no_note(write, files):
    write({"a.txt": "\ufffd\n"})
    assert files.read_file("a.txt") == "1\t\ufffd"


def test_a_binary_file_is_refused_with_size_and_type(write, files):
    write({"a.zip": b"PK\3\4\0\0"})
    with pytest.raises(ToolError, match=r"'a\.zip' is a binary file \(application/zip, 6 bytes\)"):
        files.read_file("a.zip")


def test_hidden_and_ignored_files_can_be_read_by_name(write, files):
    write({".gitignore": "*.env\n", ".env": "A=1\n", "x.env": "B=2\n"})
    assert files.read_file(".env") == "1\tA=1"
    assert files.read_file("x.env") == "1\tB=2"


def test_a_line_far_down_is_found_over_block_borders(write, files, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 7)
    write({"a.txt": "".join(f"line {n}\n" for n in range(1, 101))})
    for offset in (1, 2, 50, 99, 100):
        assert files.read_file("a.txt", offset, 1).startswith(f"{offset}\tline {offset}")
    with pytest.raises(ToolError, match="has only 100 lines"):
        files.read_file("a.txt", 101)


def test_an_enormous_rest_is_not_counted(write, files, monkeypatch):
    monkeypatch.setattr(reading, "_COUNTED_BYTES", 10)
    write({"a.txt": "line\n" * 100})
    assert files.read_file("a.txt", limit=1) == "1\tline\n[Lines 1-1. To continue, use offset=2.]"


def test_the_way_to_a_far_line_ends_at_the_deadline(top, write):
    write({"a.txt": "line\n" * 100})
    with (top / "a.txt").open("rb") as file, pytest.raises(ToolError, match="Reading up to that line took longer"):
        read_text(file, "a.txt", 1_000, 1, Deadline(0))


def test_a_file_that_cannot_be_read_is_refused_in_words(write, files, monkeypatch):
    write({"a.txt": "x"})

    def refuse(*args):
        raise PermissionError(13, "no", "/host/path")

    monkeypatch.setattr(reading, "text_of", refuse)
    with pytest.raises(ToolError, match=r"^'a\.txt': Permission denied\.$"):
        files.read_file("a.txt")
