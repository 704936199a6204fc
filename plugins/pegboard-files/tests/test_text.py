"""Text files: encodings, lines, blocks."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolError
from pegboard_files import text as module
from pegboard_files.root import Deadline
from pegboard_files.text import KEPT_BYTES, MAX_COLUMNS, SNIFFED_BYTES, BinaryFileError, describe, lines_of, text_of


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"", b"", "utf-8"),
        (b"abc\n", b"abc\n", "utf-8"),
        (b"\xef\xbb\xbfabc", b"abc", "utf-8"),
        (b"\xffabc", b"\xffabc", "utf-8"),
        ("héllo\n".encode("utf-16"), "héllo\n".encode(), "utf-16"),
        (b"\xfe\xff" + "héllo".encode("utf-16-be"), "héllo".encode(), "utf-16"),
        ("héllo".encode("utf-32"), "héllo".encode(), "utf-32"),
        (b"\xff\xfea\0b", "a\ufffd".encode(), "utf-16"),
        (b"a" * SNIFFED_BYTES + b"\0", b"a" * SNIFFED_BYTES + b"\0", "utf-8"),
    ],
)
def test_text_is_read_as_utf8_without_its_mark(data, text, encoding):
    found = text_of(io.BytesIO(data))
    assert found.file.read() == text
    assert found.encoding == encoding


@pytest.mark.parametrize("data", [b"\0", b"PK\x03\x04\0\0", b"a" * (SNIFFED_BYTES - 1) + b"\0"])
def test_a_nul_byte_near_the_beginning_makes_it_binary(data):
    with pytest.raises(BinaryFileError):
        text_of(io.BytesIO(data))


def test_too_much_utf16_counts_as_binary(monkeypatch):
    monkeypatch.setattr(module, "MAX_DECODED_BYTES", 10)
    with pytest.raises(BinaryFileError):
        text_of(io.BytesIO("hello".encode("utf-16")))


def test_a_binary_file_is_described_by_type_and_size(tmp_path):
    (tmp_path / "x").write_bytes(b"\0" * 1_234)
    with (tmp_path / "x").open("rb") as file:
        assert describe(file, "a.png") == "image/png, 1,234 bytes"
        assert describe(file, "a.txt") == "unknown type, 1,234 bytes"
        assert describe(file, "a.unknown-ending") == "unknown type, 1,234 bytes"


def read(data: bytes) -> list[module.Line]:
    return list(lines_of(io.BytesIO(data), Deadline(60)))


def test_lines_end_at_line_feeds_only():
    lines = read("a\r\nb\rc\x0b\u2028d\n\ne".encode())
    assert [line.text for line in lines] == ["a", "b\rc\x0b\u2028d", "", "e"]
    assert [line.crlf for line in lines] == [True, False, False, False]


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


def test_bytes_that_are_not_utf8_are_replaced_and_detected():
    (good, bad, cut) = read(b"caf\xc3\xa9 \xef\xbf\xbd\ncaf\xe9\n\xc3")
    assert good.is_utf8
    assert not bad.is_utf8
    assert bad.text == "caf\ufffd"
    assert not cut.is_utf8


def test_an_endless_line_ends_at_the_deadline():
    with pytest.raises(ToolError, match="Reading one line took longer than 0 seconds"):
        list(lines_of(io.BytesIO(b"x" * 100_000), Deadline(0)))
