"""Lines, and how much of a long one is kept."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings, strategies as st

from pegboard import ToolError
from pegboard_files import lines as module
from pegboard_files.deadline import Deadline
from pegboard_files.lines import KEPT_BYTES, MAX_COLUMNS, lines_of


def read(data: bytes) -> list[module.Line]:
    return list(lines_of(io.BytesIO(data), Deadline(9)))


def test_lines_end_at_line_feeds_only():
    lines = read("a\r\nb\rc\x0b\u2028d\n\ne".encode())
    assert [line.text for line in lines] == ["a", "b\rc\x0b\u2028d", "", "e"]
    assert [line.crlf for line in lines] == [True, False, False, False]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40).filter(lambda data: b"\n" not in data)), st.booleans())
def test_no_byte_of_a_short_line_is_lost(parts, ends_open):
    """Property: data, line ends and dropped bytes make up the file."""
    data = b"\n".join(parts) + (b"" if ends_open else b"\n")
    lines = read(data)
    assert b"".join(line.data + (b"\r\n" if line.crlf else b"\n") for line in lines).removesuffix(
        b"\n"
    ) == data.removesuffix(b"\n") or data.endswith(b"\r")


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [KEPT_BYTES - 2, KEPT_BYTES - 1, KEPT_BYTES, KEPT_BYTES + 1, 3 * 65_536 + 7])
def test_of_a_long_line_the_beginning_is_kept_and_the_rest_counted(length, ending):
    (line,) = read(b"x" * length + ending)
    assert len(line.data) + line.dropped == length
    assert len(line.data) <= KEPT_BYTES
    assert line.crlf == (ending == b"\r\n")
    assert line.text == "x" * MAX_COLUMNS + f"… [cut: {length - MAX_COLUMNS:,} more bytes in this line]"


@pytest.mark.parametrize("letter", ["x", "é", "名", "😀"])
def test_a_cut_never_falls_into_a_character(letter):
    (line,) = read(letter.encode() * 5_000)
    assert line.is_utf8
    assert line.text.startswith(letter * MAX_COLUMNS + "…")


def test_a_line_of_just_as_many_characters_is_not_cut():
    (line,) = read("😀".encode() * MAX_COLUMNS)
    assert not line.is_cut
    assert line.text == "😀" * MAX_COLUMNS


def test_bytes_that_are_no_utf8_are_replaced_and_known():
    (good, bad, cut) = read(b"caf\xc3\xa9 \xef\xbf\xbd\ncaf\xe9\n\xc3")
    assert good.is_utf8
    assert not bad.is_utf8
    assert bad.text == "caf\ufffd"
    assert not cut.is_utf8


def test_an_endless_line_ends_at_the_deadline():
    with pytest.raises(ToolError, match="Reading one line took longer than 0 seconds"):
        list(lines_of(io.BytesIO(b"x" * 100_000), Deadline(0)))
