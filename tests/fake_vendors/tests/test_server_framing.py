from __future__ import annotations

from botocore.eventstream import EventStreamBuffer
from hypothesis import given, strategies as st

from fake_vendors.server.script import aws_message, json_line, sse

NAMES = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=20)


@given(st.dictionaries(NAMES, st.text(max_size=50), max_size=5), st.binary(max_size=200))
def test_amazons_own_reader_reads_the_messages(headers, payload):
    """Its checks of both checksums are among it."""
    buffer = EventStreamBuffer()
    buffer.add_data(aws_message(headers, payload))
    [message] = list(buffer)
    assert (message.headers, message.payload) == (headers, payload)


def test_text_framings():
    assert sse({"a": "ø\n"}) == b'data: {"a": "\\u00f8\\n"}\n\n'
    assert sse({}, "ping") == b"event: ping\ndata: {}\n\n"
    assert json_line({"a": 1}) == b'{"a": 1}\n'
