from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st

from pegboard.messages.message import Message, ResultPart
from pegboard.request.model_request import ModelRequest
from pegboard.request.processors import LEAST, LimitResults, _shortened
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, TextContent, ToolResult

LONG = "x" * 1_000
EVERY = LimitResults(keep=0, most=300, stride=1)


def rounds(count, result=None):
    """A conversation of so many rounds, each with a long result."""
    messages = [Message.user("go")]
    for number in range(count):
        call = ToolCall("read", id=f"c{number}")
        messages += [Message.assistant(call), Message.tool([(call, result or ToolResult(LONG))])]
    return ModelRequest(messages)


def cut(request):
    """Which rounds were cut, counted from 0."""
    texts = [part.result.text for message in request.messages for part in message.results]
    return [number for number, text in enumerate(texts) if len(text) < len(LONG)]


@pytest.mark.parametrize(
    ("count", "keep", "stride", "old"),
    [(3, 2, 1, 1), (2, 2, 1, 0), (3, 0, 1, 3), (12, 2, 5, 10), (11, 2, 5, 5), (6, 2, 5, 0), (0, 0, 1, 0)],
)
def test_the_newest_rounds_keep_theirs_whole(count, keep, stride, old):
    step = LimitResults(keep=keep, most=300, stride=stride)
    assert cut(step(rounds(count)) or rounds(count)) == list(range(old))


def test_what_is_old_moves_on_in_strides():
    """So that a provider's cache of what was sent before stays good in between."""
    step = LimitResults(keep=2, most=300, stride=5)
    prefixes = {cut(step(rounds(count)) or rounds(count))[-1:] == [4] for count in range(7, 12)}
    assert prefixes == {True}


def test_by_default_only_long_conversations_are_touched():
    assert LimitResults()(rounds(29, ToolResult("x" * 9_000))) is None
    assert LimitResults()(rounds(30, ToolResult("x" * 9_000))) is not None
    assert LimitResults()(rounds(200)) is None


def test_it_can_be_switched_off():
    assert LimitResults(keep=0, most=None)(rounds(50)) is None


def test_messages_that_nothing_is_cut_in_stay_the_same():
    request = rounds(3, ToolResult("short")).with_messages(*rounds(1).messages)
    made = EVERY(request)
    assert made.messages[:-1] == request.messages[:-1]
    assert all(new is old for new, old in zip(made.messages[:-1], request.messages[:-1], strict=True))


def test_only_texts_are_cut_and_the_data_that_says_the_same_goes():
    picture = ImageContent(b"png")
    result = ToolResult([picture, LONG, LONG], {"long": LONG}, title="Long", is_error=True, kind="tool_failure")
    made = EVERY(rounds(1, result)).messages[2].results[0].result
    assert [type(item) for item in made.content] == [TextContent, ImageContent]
    assert len(made.text) <= 300
    assert (made.structured_content, made.title, made.is_error, made.kind) == (None, "Long", True, "tool_failure")


def test_a_note_says_how_much_is_left_out_and_what_to_do():
    text = _shortened("a" * 500 + "b" * 500, 400, "read")
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "characters of this old result are left out; call read again to see them" in text


@given(st.text(min_size=LEAST + 1, max_size=2_000), st.integers(LEAST, 400), st.text(max_size=100))
def test_what_is_cut_fits_keeps_its_ends_and_counts_right(text, most, name):
    if len(text) <= most:
        return
    made = _shortened(text, most, name)
    assert len(made) <= most
    head, _, rest = made.partition("\n[... ")
    note, _, tail = rest.rpartition(" ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert not (tail and unicodedata.combining(tail[0]))
    if "\n[... " not in text:
        assert int(note.split()[0].replace(",", "")) == len(text) - len(head) - len(tail)


def test_it_is_cut_where_a_line_ends():
    lines = "".join(f"line {number:03}\n" for number in range(100))
    head = _shortened(lines, 400, "read").partition("\n[...")[0]
    assert head.splitlines() == lines.splitlines()[: len(head.splitlines())]


def test_no_character_is_torn_from_its_accents():
    accented = "e\N{COMBINING ACUTE ACCENT}" * 500
    for most in range(300, 310):
        head, _, tail = _shortened(accented, most, "read").partition("\n[...")
        assert head.endswith("\N{COMBINING ACUTE ACCENT}")
        assert tail.rpartition("]\n")[2].startswith("e")


def test_cutting_twice_changes_nothing():
    once = EVERY(rounds(3))
    assert EVERY(once) is None


def test_words_of_people_are_never_cut():
    request = ModelRequest([LONG, Message("user", [ResultPart("a", "a", ToolResult(LONG))]), *rounds(1).messages])
    assert EVERY(request).messages[:2] == request.messages[:2]


@pytest.mark.parametrize("settings", [{"keep": -1}, {"most": LEAST - 1}, {"stride": 0}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        LimitResults(**settings)
