from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.executors.frames import FrameError, Frames, framed


@given(st.lists(st.binary(max_size=50)), st.data())
def test_messages_come_out_as_they_went_in_however_the_stream_is_cut(messages, data):
    stream, frames, found = b"".join(map(framed, messages)), Frames(most=50), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += frames.feed(stream[:size])
        stream = stream[size:]
    assert found == messages


def test_a_message_that_is_too_long_is_refused_before_it_has_come():
    with pytest.raises(FrameError, match="a message of 11 bytes was announced; at most 10 are taken"):
        list(Frames(most=10).feed(framed(b"x" * 11)[:5]))
