"""The buffer of a command's output, and the conversion to readable text."""

from __future__ import annotations

import asyncio
from time import process_time

import pytest
from hypothesis import given, strategies as st

from pegboard_shell.output import MOST_SHOWN, TextBuffer, readable

PIECES = st.lists(st.binary(max_size=200), max_size=30)


@given(PIECES)
def test_short_output_is_stored_completely(pieces):
    buffer, data = TextBuffer(1 << 16), b"".join(pieces)
    for piece in pieces:
        buffer.add(piece)
    output = buffer.take()
    assert output.text == readable(data.decode("utf-8", "replace"))[0]
    assert (output.size, output.lost) == (len(data), 0)
    assert buffer.take().text == ""


@given(PIECES, st.integers(2, 60))
def test_of_long_output_the_beginning_and_the_end_are_stored(pieces, most):
    buffer, data = TextBuffer(most), b"".join(pieces)
    for piece in pieces:
        buffer.add(piece)
    output = buffer.take()
    assert output.size == len(data)
    assert 0 <= output.lost <= len(data)
    assert (output.lost > 0) == ("bytes were dropped here" in output.text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=300), st.data())
def test_characters_are_not_split(text, data):
    written = text.encode()
    place = data.draw(st.integers(0, len(written)))
    buffer = TextBuffer(1 << 16)
    shown = []
    for piece in (written[:place], written[place:]):
        buffer.add(piece)
        shown.append(buffer.new_text())
    assert "".join(shown) == text
    assert buffer.take().text == text


def test_of_very_long_output_only_the_beginning_is_emitted():
    buffer = TextBuffer(8 << 20)
    for _ in range(3):
        buffer.add(b"x" * MOST_SHOWN)
    assert len(buffer.new_text()) == MOST_SHOWN
    assert buffer.new_text() == ""


def test_a_text_is_found_near_the_end_of_what_was_written():
    buffer = TextBuffer(1 << 16)
    buffer.add(b"rea")
    buffer.add(b"dy\n")
    assert buffer.holds(b"ready")
    buffer.add(b"x" * (3 << 20))
    assert not buffer.holds(b"ready")
    buffer.add(b"done")
    assert buffer.holds(b"xdone")


@pytest.mark.parametrize("before", [0, (1 << 15) - 3])
def test_a_text_is_found_where_the_stored_beginning_ends(before):
    buffer = TextBuffer(1 << 16)
    buffer.add(b"x" * before + b"ready" + b"x" * ((1 << 15) - 3))
    assert buffer.holds(b"ready")


def test_a_text_is_found_that_ends_after_what_was_taken():
    buffer = TextBuffer(1 << 16)
    buffer.add(b"Your na")
    buffer.take()
    assert not buffer.holds(b"a")
    buffer.add(b"me: ")
    assert buffer.holds(b"name: ")
    assert not buffer.holds(b"na")


def test_escape_sequences_are_removed_and_control_characters_marked():
    assert readable("\x1b[1;31mred\x1b[0m \x1b]0;title\x07ok\x1b(B") == ("red ok\ufffd(B", 1)
    assert readable("a\0b\x7f\x85\tc\r\n") == ("a\ufffdb\ufffd\ufffd\tc\r\n", 3)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("10%\r20%\rdone\nnext\n", "done\nnext\n"),
        ("a\r\nb\r\n", "a\r\nb\r\n"),
        ("\r10%\r100%\r\n", "100%\r\n"),
        ("10%\r20%\r", "20%\r"),
        ("10%\r\x1b[K20%\n\rlast", "20%\nlast"),
        ("\r\r\n", "\r\r\n"),
    ],
)
def test_of_a_progress_bar_the_last_state_is_left(written, shown):
    assert readable(written) == (shown, 0)


@given(st.lists(st.text(st.sampled_from("ab%"), min_size=1), min_size=1), st.sampled_from(["\n", "\r\n", ""]))
def test_a_line_is_its_last_state(states, end):
    assert readable("\r".join(states) + end)[0] == states[-1] + end


@pytest.mark.slow
@pytest.mark.parametrize("written", ["\0", "\x1b[31mx\x1b[0m"])
def test_odd_output_never_blocks_the_event_loop(written):
    async def longest_pause():
        work = asyncio.create_task(asyncio.to_thread(readable, written * (8_000_000 // len(written))))
        longest = 0.0
        while not work.done():
            before = process_time()  # not the time of a clock, in which other processes may run
            await asyncio.sleep(0)
            longest = max(longest, process_time() - before)
        return longest

    assert any(asyncio.run(longest_pause()) < 0.1 for _ in range(3))
