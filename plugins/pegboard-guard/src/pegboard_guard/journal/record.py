"""One record of a journal: a line of JSON that holds its own hash, and that of the record before.

    {"n":7,"at":"2025-03-01T09:30:00.125000Z","kind":"call",...,"prev":"<hash of record 6>","hash":"<its own>"}

The hash is the hexadecimal SHA-256 of the line as it is without its last member, `hash`, and without its line end. A
line is ASCII; `jq -ca 'del(.hash)'` gives the bytes that were hashed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

from attrs import frozen

Facts: TypeAlias = Mapping[str, Any]
"""What a record says, without its number, its time and its hashes; JSON data, `"kind"` among it."""

FORMAT: Final = 1
START: Final = "0" * 64
"""What the first record of all holds instead of an earlier one's hash."""
TORN: Final = b"#torn\n"
"""What is put behind bytes that a crash has left, right before the record that tells of them.

No change of one byte makes it of a record's end, and a crash while it is written leaves no line end: so what was torn
is told apart from what was changed.
"""
MOST_LINE: Final = 256 * 1024
"""Bytes of a line; a longer one is no record."""

_TAIL: Final = re.compile(rb',"hash":"([0-9a-f]{64})"}\Z')
_write: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


@frozen
class Record:
    """A record that was read, and whose hash fits.

    Attributes:
        number: Its place in the journal, from 1; it goes on over all files of the journal.
        previous: The hash of the record before, as it holds it.
        hash: Its own.
        facts: Everything that it says, the above included.
    """

    number: int
    previous: str
    hash: str
    facts: Facts

    @property
    def kind(self) -> str:
        """What it tells of: `journal` (a file's first), `call`, `start`, `mended` or `lost`."""
        return str(self.facts.get("kind"))


def time_text(seconds: float) -> str:
    """Seconds since 1970 as text: `2025-03-01T09:30:00.125000Z`."""
    from datetime import datetime, timezone

    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")  # noqa: UP017  datetime.UTC reads the same


def encode(number: int, at: str, facts: Facts, previous: str) -> tuple[bytes, str]:
    """A record's line, its line end included, and its hash."""
    body = _write({"n": number, "at": at, **facts, "prev": previous}).encode("ascii")
    digest = sha256(body).hexdigest()
    return b'%b,"hash":"%b"}\n' % (body[:-1], digest.encode()), digest


class NoRecordError(ValueError):
    """A line is no record, or was changed; the text says how one can tell."""


def decode(line: bytes) -> Record:
    """Reads a line, without its line end.

    Raises:
        NoRecordError: It is none, or its content doesn't fit its hash.
    """
    tail = _TAIL.search(line[-80:])
    if tail is None:
        raise NoRecordError("it doesn't end with a hash")
    body, said = line[: -len(tail.group())] + b"}", tail.group(1).decode()
    if sha256(body).hexdigest() != said:
        raise NoRecordError("its content doesn't fit its hash")
    try:
        facts = json.loads(body)
        number, previous = facts["n"], facts["prev"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NoRecordError("it is no JSON object with n and prev") from None
    if type(number) is not int or not isinstance(previous, str):
        raise NoRecordError("its n is no number, or its prev no text")
    return Record(number, previous, said, {**facts, "hash": said})
