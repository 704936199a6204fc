"""What counts as text."""

from __future__ import annotations

import io

import pytest

from pegboard_files import decoding
from pegboard_files.decoding import SNIFFED_BYTES, BinaryFileError, described, text_of


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
    monkeypatch.setattr(decoding, "MAX_DECODED_BYTES", 10)
    with pytest.raises(BinaryFileError):
        text_of(io.BytesIO("hello".encode("utf-16")))


def test_a_binary_file_is_described_by_type_and_size(tmp_path):
    (tmp_path / "x").write_bytes(b"\0" * 1_234)
    with (tmp_path / "x").open("rb") as file:
        assert described(file, "a.png") == "image/png, 1,234 bytes"
        assert described(file, "a.txt") == "of unknown type, 1,234 bytes"
        assert described(file, "a.unknown-ending") == "of unknown type, 1,234 bytes"
