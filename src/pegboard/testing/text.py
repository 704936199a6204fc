"""The texts that a schema takes: an ordinary one, and those at its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pegboard.testing.word import word_for
from pegboard.typing import JsonSchema

MOST_CHARACTERS: Final = 100_000
"""The longest text that is tried."""

_ORDINARY: Final = "sample"
_LONG: Final = 1_000
_BY_FORMAT: Final[Mapping[str, str]] = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00+00:00",
    "duration": "P1DT2H",
    "email": "sample@example.org",
    "hostname": "example.org",
    "idn-email": "sample@example.org",
    "idn-hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "iri": "https://example.org/",
    "iri-reference": "/sample",
    "json-pointer": "/sample",
    "regex": "^a+$",
    "relative-json-pointer": "0/sample",
    "time": "12:30:00",
    "uri": "https://example.org/",
    "uri-reference": "/sample",
    "uri-template": "https://example.org/{sample}",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}
"""Values of RFC 3339, 4122, 5321, ... as JSON Schema's "format" vocabulary names them."""


def texts(schema: JsonSchema) -> Iterator[tuple[str, str]]:
    """Texts with what is special about each; whoever asks holds them against the schema.

    Where a format, an encoding or a pattern says what a text has to look like, only ordinary ones are made.
    """
    formed = _BY_FORMAT.get(schema.get("format", ""))
    if formed is not None:
        yield "sample", formed
    elif schema.get("contentEncoding") == "base64":
        yield from (("sample", "c2FtcGxl"), ("nothing", ""))
    elif "pattern" in schema:
        word = word_for(schema["pattern"])
        if word is not None:
            yield "sample", word
    else:
        yield from _by_length(schema.get("minLength", 0), schema.get("maxLength"))


def _by_length(least: int, most: int | None) -> Iterator[tuple[str, str]]:
    if least > MOST_CHARACTERS:
        return
    yield "sample", _ORDINARY[:most].ljust(least, "a")
    yield "the shortest text", "a" * least
    if most is None:
        yield "a long text", "a" * max(_LONG, least)
    elif most <= MOST_CHARACTERS:
        yield "the longest text", "a" * most
    yield "a text of several lines and scripts", "Zoë\n日本 🙂"
