"""A file's bytes as UTF-8 text: what is binary is refused, and UTF-16 is turned into UTF-8."""

from __future__ import annotations

import codecs
import io
import os
from typing import BinaryIO, Final

from attrs import frozen

SNIFFED_BYTES: Final = 8_192
"""A NUL byte among the first so many makes a file binary, as in git and ripgrep."""

MAX_DECODED_BYTES: Final = 16 << 20
"""Files in UTF-16 and UTF-32 are decoded as a whole; larger ones count as binary."""

# UTF-32's little-endian mark begins with UTF-16's, so it is looked for first.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class BinaryFileError(Exception):
    """A file isn't text."""


@frozen
class Text:
    """A text file, standing at its first line.

    Attributes:
        file: Its bytes in UTF-8, as far as they are text.
        encoding: What it is written in: `"utf-8"`, `"utf-16"` or `"utf-32"`.
    """

    file: BinaryIO
    encoding: str = "utf-8"


def text_of(file: BinaryIO) -> Text:
    """The text in a file that was just opened; its byte order mark is left out.

    Raises:
        BinaryFileError: It holds a NUL byte near its beginning.
    """
    start = file.read(SNIFFED_BYTES)
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return _decoded(file, encoding)
    if b"\0" in start:
        raise BinaryFileError
    file.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
    return Text(file)


def described(file: BinaryIO, name: str) -> str:
    """What a binary file is, for an error: `"image/png, 1,234 bytes"`."""
    import mimetypes

    kind = mimetypes.guess_type(name)[0] or ""
    known = kind and not kind.startswith("text/")
    return f"{kind if known else 'of unknown type'}, {os.fstat(file.fileno()).st_size:,} bytes"


def _decoded(file: BinaryIO, encoding: str) -> Text:
    file.seek(0)
    data = file.read(MAX_DECODED_BYTES + 1)
    if len(data) > MAX_DECODED_BYTES:
        raise BinaryFileError
    text = data.decode(encoding, errors="replace")
    return Text(io.BytesIO(text.encode()), encoding)
