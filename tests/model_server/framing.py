"""How events stand on the wire."""

from __future__ import annotations

import json
import struct
from binascii import crc32
from collections.abc import Mapping

from model_server.script import Json

_TEXT = 7
"""The type of a header whose value is text."""


def sse(event: Json, name: str | None = None) -> bytes:
    """A server-sent event."""
    data = f"data: {json.dumps(event)}\n\n"
    return (f"event: {name}\n{data}" if name else data).encode()


def json_line(event: Json) -> bytes:
    """One line of JSON lines."""
    return json.dumps(event).encode() + b"\n"


def aws_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message of the AWS event stream.

    Its form (Amazon's `vnd.amazon.eventstream`): total length, headers' length, CRC-32 of these eight bytes, headers,
    payload, CRC-32 of all before it; numbers are big-endian.
    """
    head = b"".join(_aws_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    checked = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return checked + struct.pack(">I", crc32(checked))


def _aws_header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return struct.pack(">B", len(key)) + key + struct.pack(">BH", _TEXT, len(text)) + text
