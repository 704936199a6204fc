from __future__ import annotations

import asyncio
import gc
import re
import stat
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import example, given, strategies as st

from pegboard import (
    CallError,
    FileContent,
    ImageContent,
    Limits,
    LinkContent,
    ReadonlyContext,
    ResultLimits,
    ResultTexts,
    TextContent,
    Tool,
    ToolContext,
    ToolRegistry,
    ToolResult,
    read_result_tool,
)
from pegboard.dispatch.results import hold_to_limits
from pegboard.dispatch.truncate import (
    MOST_ITEMS,
    ResultStore,
    Size,
    TextPosition,
    cut,
    cut_short,
    is_within,
    size_of,
    truncate,
)
from pegboard.errors import ToolError

NUMBERS = "".join(f"{number}\n" for number in range(1, 11))
THREE_LINES = ResultLimits(lines=3)


@pytest.fixture
def store(tmp_path):
    store = ResultStore(parent=str(tmp_path))
    yield store
    store.close()


def text_of(text, **limits):
    return truncate(ToolResult(text), ResultLimits(**limits)).text


def test_what_fits_stays_the_very_same():
    result = ToolResult(NUMBERS)
    assert truncate(result, ResultLimits()) is result


def test_2000_lines_or_50_kib_stay_by_default():
    lines = "line\n" * 2_000
    assert truncate(ToolResult(f"{lines}line\n"), ResultLimits()).text.startswith(f"{lines}[Only the")
    wide = f"{'x' * 1_023}\n" * 51
    assert truncate(ToolResult(wide), ResultLimits()).text.startswith(f"{wide[: 50 * 1_024]}[Only the")


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        ("head", "1\n2\n3\n[Only the first 3 of 10 lines are shown (6 bytes of 21 bytes). {}]"),
        ("tail", "[Only the last 3 of 10 lines are shown (7 bytes of 21 bytes). {}]\n8\n9\n10\n"),
        ("middle", "1\n2\n[Lines 3 to 9 of 10 are omitted here; 7 bytes of 21 bytes are shown. {}]\n10\n"),
    ],
)
def test_the_text_describes_what_was_omitted(keep, text):
    note = "The rest is not stored. Request less at once."
    assert text_of(NUMBERS, lines=3, keep=keep) == text.format(note)


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        ("head", "xxxxxxxxxx\n[Only the beginning is shown: 10 bytes of 100 bytes, 1 line in total. {}]"),
        ("tail", "[Only the end is shown: 10 bytes of 100 bytes, 1 line in total. {}]\nxxxxxxxxxx"),
        ("middle", "xxxxx\n[A part of 1 line is omitted here; 10 bytes of 100 bytes are shown. {}]\nxxxxx"),
    ],
)
def test_of_one_enormous_line_a_part_stays(keep, text):
    note = "The rest is not stored. Request less at once."
    assert text_of("x" * 100, bytes=10, keep=keep) == text.format(note)


def test_sizes_are_shown_in_a_suitable_unit():
    assert "(1.0 KiB of 19.5 KiB)" in text_of("x" * 999 + "\n" + ("x" * 999 + "\n") * 19, bytes=1_100)
    assert "1.0 KiB of 1.9 MiB" in text_of("x" * 2_000_000, bytes=1_024)


def test_where_nothing_at_all_fits_only_the_words_stay():
    assert text_of("漢字", bytes=2) == (
        "[Only the end is shown: 0 bytes of 6 bytes, 1 line in total. The rest is not stored. Request less at once.]"
    )


# How to read on -------------------------------------------------------------------------------------------------------


def test_the_full_text_is_stored_in_a_file_that_the_text_names(store):
    result = truncate(ToolResult(NUMBERS), THREE_LINES, store)
    path = result.metadata["file"]
    assert Path(path).read_text() == NUMBERS
    assert result.text.endswith(f"The full text is in {path}; the omitted part begins at line 4.]")


@pytest.mark.parametrize(("keep", "place"), [("head", "line=4"), ("tail", "line=1"), ("middle", "line=3")])
def test_a_model_that_has_the_tool_reads_how_to_call_it(store, keep, place):
    result = truncate(ToolResult(NUMBERS), ResultLimits(lines=3, keep=keep), store, reader="read_result")
    key = result.metadata["kept"]
    assert f'Read the rest with read_result(id="{key}", {place}).' in result.text
    assert store.read(key).text == NUMBERS


def test_inside_a_line_the_tool_gets_the_byte(store):
    result = truncate(ToolResult("x" * 100), ResultLimits(bytes=10), store, reader="more")
    assert "line=1, byte=10).]" in result.text


def test_the_metadata_has_the_size_of_the_whole_text(store):
    result = truncate(ToolResult(NUMBERS, metadata={"own": 1}), THREE_LINES, store)
    assert result.metadata.items() >= {"own": 1, "truncated": True, "lines": 10, "bytes": 21}.items()


# What is left alone ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truncates", [True, False])
def test_a_tool_that_truncates_itself_is_left_alone(truncates):
    result = ToolResult(NUMBERS, metadata={"truncated": truncates})
    assert truncate(result, THREE_LINES) is result
    assert is_within(result, THREE_LINES)


def test_structured_content_stays_whole_for_the_host():
    result = truncate(ToolResult(NUMBERS, {"numbers": list(range(100))}), THREE_LINES)
    assert result.structured_content == {"numbers": list(range(100))}
    assert result.text.startswith("1\n2\n3\n[")


def test_truncation_leaves_the_other_attributes():
    result = ToolResult.error("tool_failure", NUMBERS, detail="stack")
    short = truncate(attrs.evolve(result, title="Numbers", display=NUMBERS, details=5), THREE_LINES)
    assert (short.is_error, short.kind, short.detail) == (True, "tool_failure", "stack")
    assert (short.title, short.display, short.details) == ("Numbers", NUMBERS, 5)


# Content other than text ----------------------------------------------------------------------------------------------

PICTURE = ImageContent(b"x" * 100)


def test_texts_are_truncated_as_one_in_place_of_the_first():
    result = truncate(ToolResult([PICTURE, "1\n2", PICTURE, "3\n4"]), THREE_LINES)
    first, text, second = result.content
    assert (first, second) == (PICTURE, PICTURE)
    assert text.text.startswith("1\n2\n3\n[Only the first 3 of 4 lines")


def test_a_files_text_counts_as_text():
    file = FileContent("file:a", "1\n2\n3\n")
    assert is_within(ToolResult(file), THREE_LINES) is False
    assert truncate(ToolResult([file]), THREE_LINES).text.startswith("file:a:\n1\n2\n[Only")
    assert truncate(ToolResult([file]), ResultLimits()).content == (file,)


def test_a_file_with_the_bytes_of_a_text_counts_as_text_and_becomes_an_attachment():
    file = FileContent("file:a", b"1\n2\n3\n", "text/csv; charset=utf-8")
    short = truncate(ToolResult([PICTURE, file]), THREE_LINES)
    assert is_within(ToolResult(file), THREE_LINES) is False
    assert short.text.startswith("file:a:\n1\n2\n[Only")
    assert (short.content[0], short.attachments) == (PICTURE, (file,))


def test_pictures_beyond_their_limit_become_attachments():
    limits = ResultLimits(media_bytes=250)
    small = ImageContent(b"y" * 50)
    result = truncate(ToolResult([PICTURE, PICTURE, PICTURE, small], attachments=[small]), limits)
    assert result.content[:3] == (PICTURE, PICTURE, small)
    assert result.attachments == (small, PICTURE)
    assert result.text == "[Not shown: 1 file (100 bytes). A result can contain 1000 items of at most 250 bytes.]"
    assert result.metadata == {"truncated": True}


def test_ten_mib_of_pictures_stay_by_default():
    picture = ImageContent(b"x" * 5 * 1024 * 1024)
    assert is_within(ToolResult([picture, picture]), ResultLimits())
    assert not is_within(ToolResult([picture, picture, PICTURE]), ResultLimits())


def test_links_are_counted_by_their_words():
    link = LinkContent("file:///a", "a")
    limits = ResultLimits(media_bytes=25)
    assert is_within(ToolResult([link, link]), limits)
    assert truncate(ToolResult([link] * 3), limits).attachments == (link,)


def test_too_many_pieces_become_attachments():
    link = LinkContent("a", "a")
    limits = ResultLimits(media_bytes=None)
    result = ToolResult([link] * (MOST_ITEMS + 2))
    assert not is_within(result, limits)
    short = truncate(result, limits)
    assert (len(short.content), len(short.attachments)) == (MOST_ITEMS + 1, 2)
    assert short.text == "[Not shown: 2 files (4 bytes). A result can contain 1000 items.]"


# The look on the event loop -------------------------------------------------------------------------------------------

pieces = st.lists(st.sampled_from(["a", "\n", "é", "😀"]), max_size=30).map("".join)


@given(st.lists(pieces, max_size=3), st.integers(1, 40), st.integers(1, 40), st.none() | st.integers(1, 20))
def test_what_the_look_lets_pass_stays_as_it_is(texts, lines, most, tokens):
    result = ToolResult(texts)
    limits = ResultLimits(lines, most, tokens)
    assert is_within(result, limits) == (truncate(result, limits) is result)


def test_what_is_long_or_has_to_be_counted_is_looked_at_off_the_loop():
    """Even where it turns out to fit."""
    long, counted = ResultLimits(lines=None, bytes=None, tokens=10**5), ResultLimits(tokens=100, count_tokens=len)
    assert not is_within(ToolResult("x" * 250_000), long)
    assert not is_within(ToolResult("x" * 50), counted)
    assert truncate(ToolResult("x" * 250_000), long).metadata == {}
    assert truncate(ToolResult("x" * 50), counted).metadata == {}


# One call -------------------------------------------------------------------------------------------------------------


def held(prepare, make, store=None, context=None, **facts):
    state = prepare(make(), context=context, limits=attrs.evolve(Limits(), results=THREE_LINES))
    state.tool = make(**facts)
    state.runtime = attrs.evolve(state.runtime)
    vars(state.runtime)["store"] = store  # as if an earlier call had made it
    return state, asyncio.run(hold_to_limits(state, ToolResult(NUMBERS)))


def test_the_tool_to_read_on_is_named_only_where_the_model_has_it(prepare, make, store):
    store.reader = "read_result"
    everything = ToolContext()
    assert "read_result(" in held(prepare, make, store, everything)[1].text
    offered = ToolContext(offered=(make(name="other"), make(name="read_result")))
    assert "read_result(" in held(prepare, make, store, offered)[1].text
    without = ToolContext(offered=(make(name="other"),))
    assert "The full text is in" in held(prepare, make, store, without)[1].text


def test_a_stored_text_belongs_to_its_calls_session(prepare, make, store):
    _, result = held(prepare, make, store, ToolContext(ReadonlyContext(session="ann")))
    assert store.read(result.metadata["kept"], session="ann").text == NUMBERS


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limits", "short"),
    [
        ("short", {}, "short"),
        ("1\n2\n3\n4", {"lines": 2}, "1\n2\n[The rest is omitted.]"),
        ("x" * 100, {"bytes": 10}, "x" * 10 + "\n[The rest is omitted.]"),
        ("x" * 100, {"bytes": 10, "keep": "tail"}, "x" * 10 + "\n[The rest is omitted.]"),
        ("é\udcff" * 10, {"bytes": 10}, "é\ufffdé\ufffd\n[The rest is omitted.]"),
        ("x" * 100, {"lines": None, "bytes": None, "tokens": 100}, "x" * 100),
    ],
)
def test_an_errors_text_is_truncated_without_being_stored(text, limits, short):
    assert cut_short(text, ResultLimits(**limits)) == short


def test_cutting_an_enormous_error_looks_at_no_more_than_it_needs():
    assert cut_short("x" * 1_000_000, ResultLimits(lines=None, bytes=None, tokens=10)).startswith("x" * 40 + "\n[")
    assert TextContent(cut_short("\n" * 1_000_000, ResultLimits())).text.count("\n") == 2_000


@pytest.mark.parametrize("error", [ToolError("line\n" * 3_000), CallError("denied", "line\n" * 3_000)])
def test_the_text_of_any_error_is_truncated(make, send, error):
    def failing():
        raise error

    result = send(make(failing, blocking=False)).result
    assert result.text == "line\n" * 2_000 + "[The rest is omitted.]"
    assert result.kind in ("tool_failure", "denied")


# The part that stays -------------------------------------------------------------------------------------------------

pieces = st.sampled_from(["a", "b", "\n", "\n", "é", "漢", "😀", "\u0301", "\r", "👩\u200d🚀"])
letters = st.lists(pieces, max_size=40).map("".join)
numbers = st.integers(1, 30)


def cut_limits(keep="head", *, lines=None, most=None, tokens=None, count=None):
    return ResultLimits(lines, most, tokens, keep, count)


def lines_of(text):
    """Each with its end."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def encoded(text):
    return len(text.encode())


@given(letters)
def test_the_size_of_a_text_is_its_lines_and_bytes(text):
    assert size_of(text) == Size(len(lines_of(text)), encoded(text))


@given(letters, numbers, numbers, st.sampled_from(["head", "tail", "middle"]))
def test_what_fits_stays_as_it_is(text, lines, most, keep):
    """`None` says so; and only then."""
    done = cut(text, cut_limits(keep, lines=lines, most=most))
    assert (done is None) == (len(lines_of(text)) <= lines and encoded(text) <= most)


@given(letters, numbers, numbers, st.sampled_from(["head", "tail", "middle"]))
def test_a_cut_keeps_the_beginning_or_end_within_the_limits_and_locates_the_gap(text, lines, most, keep):
    done = cut(text, cut_limits(keep, lines=lines, most=most))
    if done is None:
        return
    assert text.startswith(done.head)
    assert text.endswith(done.tail)
    assert len(done.head) + len(done.tail) < len(text)
    assert done.shown.bytes <= most
    assert done.shown.lines <= lines
    assert done.whole == size_of(text)
    assert not done.tail if keep == "head" else keep == "middle" or not done.head
    all_lines = [line.encode() for line in lines_of(text)]
    before = b"".join(all_lines[: done.gap.line - 1]) + b"".join(all_lines[done.gap.line - 1 :])[: done.gap.byte]
    assert before == done.head.encode()
    behind = b"".join(all_lines[done.end.line - 1 :])[done.end.byte :]
    assert behind == done.tail.encode()


@given(letters, numbers, numbers, st.sampled_from(["head", "tail"]))
@example("a\n\u0301\u0301a", 2, 4, "head")  # marks that follow the end of a line belong to nothing before it
def test_lines_stay_whole_but_for_one_that_is_too_long_by_itself(text, lines, most, keep):
    """And no line is left out that would fit."""
    done = cut(text, cut_limits(keep, lines=lines, most=most))
    if done is None:
        return
    all_lines = lines_of(text)
    store = lines_of(done.head or done.tail)
    if keep == "tail":
        all_lines.reverse()
        store.reverse()
    if store == all_lines[: len(store)]:
        following = all_lines[len(store)]
        assert len(store) == lines or encoded("".join([*store, following])) > most
    else:
        assert store[:-1] == all_lines[: len(store) - 1]
        assert encoded(all_lines[len(store) - 1]) > most


@pytest.mark.parametrize(
    ("keep", "lines", "expected"),
    [
        ("head", 2, ("1\n2\n", "", TextPosition(3), TextPosition(6))),
        ("tail", 2, ("", "4\n5\n", TextPosition(1), TextPosition(4))),
        ("middle", 2, ("1\n", "5\n", TextPosition(2), TextPosition(5))),
        ("middle", 3, ("1\n2\n", "5\n", TextPosition(3), TextPosition(5))),
        ("middle", 1, ("1\n", "", TextPosition(2), TextPosition(6))),
    ],
)
def test_so_many_lines_of_the_beginning_the_end_or_both_stay(keep, lines, expected):
    done = cut("1\n2\n3\n4\n5\n", cut_limits(keep, lines=lines))
    assert (done.head, done.tail, done.gap, done.end) == expected


@pytest.mark.parametrize("keep", ["tail", "middle"])
def test_of_lines_without_number_only_those_that_stay_are_taken_apart(keep):
    text = "ab\n" * 200_000
    tracemalloc.start()
    try:
        cut(text, cut_limits(keep, lines=10))
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("most", range(1, 30))
def test_no_character_is_torn_apart(most):
    text = "e\u0301👩\u200d🚀🇩🇪👍🏽한" * 3
    head, tail = cut(text, cut_limits(most=most)).head, cut(text, cut_limits("tail", most=most)).tail
    assert text.startswith(head)
    assert text.endswith(tail)
    assert most - 4 < encoded(head) <= most
    assert most - 4 < encoded(tail) <= most


def test_tokens_are_taken_at_four_bytes_each():
    assert cut("a" * 40, cut_limits(tokens=10)) is None
    assert cut("a" * 41, cut_limits(tokens=10)).head == "a" * 40
    assert cut("a" * 41, cut_limits(tokens=10, most=5)).head == "a" * 5


def test_tokens_are_counted_by_the_hosts_own_counter():
    def count(text):
        return len(text.split())

    text = "one two three\n" * 100
    done = cut(text, cut_limits(tokens=30, count=count))
    assert count(done.head) <= 30
    assert count(done.head) > 15
    assert cut(text, cut_limits(tokens=300, count=count)) is None


@pytest.mark.parametrize("answer", [ValueError("broken"), float("nan"), "many", None, float("inf")])
def test_a_counter_that_fails_is_replaced_by_the_estimate(answer):
    def count(text):
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert encoded(cut("a" * 1000, cut_limits(tokens=10, count=count)).head) <= 40


def test_a_counter_that_is_never_content_gets_one_byte_a_token():
    assert cut("a" * 1000, cut_limits(tokens=10, count=lambda text: 10**9)).head == "a" * 10


# The store ------------------------------------------------------------------------------------------------------------

FEW = ResultLimits(lines=2, bytes=10)


def test_no_folder_is_created_before_the_first_text(store, tmp_path):
    assert list(tmp_path.iterdir()) == []
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_stored_in_its_own_file_readable_by_this_user_only(store, tmp_path):
    one, other = store.keep("a\nb"), store.keep("a\nb")
    assert Path(one.path).read_text() == "a\nb"
    assert (one.size, one.id != other.id, one.path != other.path) == (Size(2, 3), True, True)
    assert stat.S_IMODE(Path(one.path).stat().st_mode) == 0o600
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_closing_removes_all_texts_and_the_store_is_still_usable(store, tmp_path):
    first = store.keep("a")
    store.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LookupError):
        store.read(first.id)
    again = store.keep("b")
    assert store.read(again.id).text == "b"


def test_the_folder_is_removed_with_the_store_object(tmp_path):
    store = ResultStore(parent=str(tmp_path))
    store.keep("a")
    del store
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_the_program_removes_it_and_that_of_a_forked_child_does_not(tmp_path):
    program = f"""
import os, sys
from pegboard.dispatch.truncate import ResultStore, _remove_folder
store = ResultStore(parent={str(tmp_path)!r})
path = store.keep("a").path
if os.fork() == 0:
    sys.exit()
os.wait()
print(os.path.exists(path))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_goes_where_there_are_too_many(tmp_path):
    store = ResultStore(most=2, parent=str(tmp_path))
    first, second, third = (store.keep(text) for text in "abc")
    assert len(store) == 2
    assert not Path(first.path).exists()
    with pytest.raises(LookupError, match=f"no stored result '{first.id}'"):
        store.read(first.id)
    assert [store.read(each.id).text for each in (second, third)] == ["b", "c"]


def test_the_oldest_go_where_they_are_too_long_together(tmp_path):
    store = ResultStore(most_bytes=10, parent=str(tmp_path))
    texts = [store.keep(text) for text in ("aaaa", "bbbb", "cccccc")]
    assert [Path(each.path).exists() for each in texts] == [False, True, True]


def test_a_text_beyond_the_size_of_the_store_is_not_stored(tmp_path):
    store = ResultStore(most_bytes=10, parent=str(tmp_path))
    before = store.keep("a")
    assert store.keep("é" * 6) is None
    assert store.read(before.id).text == "a"
    assert ResultStore(most=0).keep("a") is None


def test_a_failure_to_write_is_logged(tmp_path, logged):
    store = ResultStore(parent=str(tmp_path / "missing"))
    assert store.keep("a") is None
    assert [(who, type(error)) for who, error in logged()] == [("storing a result", FileNotFoundError)]


def test_where_the_folder_was_removed_a_new_one_is_made(store, tmp_path):
    first = store.keep("a")
    Path(first.path).unlink()
    Path(first.path).parent.rmdir()
    with pytest.raises(LookupError, match="can't be read now"):
        store.read(first.id)
    assert store.read(store.keep("b").id).text == "b"


def test_a_file_that_is_already_gone_is_dropped_without_error(tmp_path):
    store = ResultStore(most=1, parent=str(tmp_path))
    Path(store.keep("a").path).unlink()
    assert store.read(store.keep("b").id).text == "b"


def test_many_threads_may_keep_at_once(tmp_path):
    store = ResultStore(most=20, parent=str(tmp_path))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(store.keep, ["text"] * 80))
    (folder,) = tmp_path.iterdir()
    assert len(store) == len(list(folder.iterdir())) == 20


# Reading on -----------------------------------------------------------------------------------------------------------


def test_a_session_reads_only_its_own(store):
    one, other = store.keep("a", session="one"), store.keep("b")
    assert store.read(one.id, session="one").text == "a"
    assert store.read(other.id).text == "b"
    for session, each in (("two", one), (None, one), ("one", other)):
        with pytest.raises(LookupError, match="no stored result"):
            store.read(each.id, session=session)


def test_it_is_read_line_by_line(store):
    one = store.keep("1\n2\n3\n4\n5")
    page = store.read(one.id, limits=FEW)
    assert (page.text, page.next, page.whole) == ("1\n2\n", TextPosition(3), Size(5, 9))
    page = store.read(one.id, line=3, limits=FEW)
    assert (page.text, page.next) == ("3\n4\n", TextPosition(5))
    page = store.read(one.id, line=5, limits=FEW)
    assert (page.text, page.next) == ("5", None)


def test_reading_never_begins_inside_a_character(store):
    one = store.keep("漢字漢字漢字")
    page = store.read(one.id, byte=1, limits=ResultLimits(lines=None, bytes=6))
    assert (page.text, page.next) == ("字漢", TextPosition(1, 9))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"line": 0}, "there are lines 1 to 2"),
        ({"line": 3}, "got line 3, byte 0"),
        ({"byte": -1}, "bytes from 0"),
        ({"byte": 4}, "line 1 has fewer than 4 bytes"),
        ({"line": 2, "byte": 5}, "line 2 has fewer than 5 bytes"),
    ],
)
def test_a_position_outside_of_the_text_is_refused(store, place, message):
    with pytest.raises(LookupError, match=message):
        store.read(store.keep("abc\ndef").id, **place)


def test_far_into_a_long_text_it_is_read_in_steps(store):
    text = "".join(f"{number:07}\n" for number in range(300_000))
    assert store.read(store.keep(text).id, line=299_999, limits=FEW).text == "0299998\n"


@given(
    st.lists(st.sampled_from(["a", "\n", "é", "漢", "😀", "\u0301"]), min_size=1, max_size=60).map("".join),
    st.integers(1, 5),
    st.integers(6, 20),
)
def test_page_after_page_the_whole_text_is_read(text, lines, most):
    store = ResultStore()
    one = store.keep(text)
    place, pages = TextPosition(1), []
    while place is not None:
        page = store.read(one.id, line=place.line, byte=place.byte, limits=ResultLimits(lines, most))
        pages.append(page.text)
        assert page.next is None or page.text
        place = page.next
    store.close()
    assert "".join(pages) == text


# Kept tool ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def read(store, send):
    """Calls the tool as a model does."""
    tool = read_result_tool(store, limits=ResultLimits(lines=3, bytes=20))

    def read(arguments, session=None):
        return send(tool, arguments, context=ToolContext(ReadonlyContext(session=session))).result

    return read


def test_creating_the_tool_sets_the_stores_reader(store):
    assert store.reader is None
    tool = read_result_tool(store, name="more")
    assert (store.reader, tool.name) == ("more", "more")
    assert tool.spec.annotations.read_only_hint


def test_the_model_reads_on_to_the_end(store, read):
    one = store.keep("1\n2\n3\n4\n5\n")
    first = read({"id": one.id})
    assert first.text == f'1\n2\n3\n[The result has 5 lines. Read more with read_result(id="{one.id}", line=4).]'
    assert first.metadata == {"truncated": True}
    rest = read({"id": one.id, "line": 4})
    assert (rest.text, rest.metadata) == ("4\n5\n[End of the result.]", {"truncated": False})


def test_it_may_ask_for_fewer_lines_and_gets_no_more_than_there_may_be(store, read):
    one = store.keep("1\n2\n3\n4\n5\n")
    assert read({"id": one.id, "lines": 1}).text.startswith("1\n[The result has 5 lines. Read more")
    assert read({"id": one.id, "lines": 100}).text.startswith("1\n2\n3\n[")


def test_a_line_that_is_too_long_is_read_in_parts_by_the_tool(store, read):
    one = store.keep("x" * 30)
    assert f'Read more with read_result(id="{one.id}", line=1, byte=20).' in read({"id": one.id}).text
    assert read({"id": one.id, "byte": 20}).text == "x" * 10 + "\n[End of the result.]"


@pytest.mark.parametrize("arguments", [{"id": "unknown"}, {"id": "unknown", "line": 7}])
def test_an_unknown_id_is_an_error_with_a_hint(read, arguments):
    result = read(arguments)
    assert (result.kind, result.is_error) == ("tool_failure", True)
    assert result.text == (
        "Nothing was read: there is no stored result 'unknown'.\n"
        "Use the id, line and byte of a note, or call the original tool again and request less at once."
    )


def test_another_session_cant_read_it(store, read):
    one = store.keep("secret", session="ann")
    assert read({"id": one.id}, "ann").text.startswith("secret")
    assert read({"id": one.id}, "bob").text.startswith(f"Nothing was read: there is no stored result '{one.id}'.")


@pytest.mark.parametrize("arguments", [{}, {"id": "a", "line": 0}, {"id": "a", "byte": -1}, {"id": "a", "lines": 0}])
def test_arguments_that_make_no_sense_are_refused(read, arguments):
    assert read(arguments).kind == "invalid_arguments"


class DictTexts:
    """A persistent store, in a dict that outlives each registry."""

    def __init__(self, texts, error=None):
        self.texts, self.error = texts, error

    def keep(self, key, text, *, session):
        if self.error is not None:
            raise self.error
        self.texts[key, session] = text

    def load(self, key, *, session):
        if self.error is not None:
            raise self.error
        return self.texts.get((key, session))


ANN = ReadonlyContext(session="ann")


def reading(texts):
    """A registry with a tool of long results, the reader tool, and a persistent store."""
    registry = ToolRegistry(limits=Limits(results=THREE_LINES))
    registry.register(Tool.from_function(lambda: NUMBERS, name="count"), read_result_tool(registry.results))
    registry.provide(ResultTexts, texts)
    return registry


def test_texts_in_a_persistent_store_are_read_in_another_process():
    """Represented by another registry; and only by the session that they belong to."""
    texts = {}
    result = reading(DictTexts(texts)).call_sync("count", {}, ANN)
    key = result.metadata["kept"]
    assert (list(texts), "file" in result.metadata) == ([(key, "ann")], False)
    assert f'Read the rest with read_result(id="{key}", line=4).]' in result.text
    later = reading(DictTexts(texts))
    page = later.call_sync("read_result", {"id": key, "line": 4, "lines": 2}, ANN)
    assert page.text == f'4\n5\n[The result has 10 lines. Read more with read_result(id="{key}", line=6).]'
    for context in (ReadonlyContext(session="bob"), ReadonlyContext()):
        refused = later.call_sync("read_result", {"id": key}, context)
        assert (refused.is_error, "no stored result" in refused.text) == (True, True)


def test_a_file_is_the_fallback_of_a_failing_persistent_store(caplog):
    broken = reading(DictTexts({}, OSError("the disk is full")))
    result = broken.call_sync("count", {}, ANN)
    assert Path(result.metadata["file"]).read_text() == NUMBERS
    assert broken.call_sync("read_result", {"id": result.metadata["kept"]}, ANN).text.startswith("1\n2\n")
    refused = broken.call_sync("read_result", {"id": "a"}, ANN)
    assert refused.text.startswith("Nothing was read: the result 'a' can't be read now (OSError).")
    assert "the disk is full" in caplog.text


def test_without_the_reader_tool_the_text_says_so():
    registry = ToolRegistry(limits=Limits(results=THREE_LINES))
    registry.register(Tool.from_function(lambda: NUMBERS, name="count"))
    registry.provide(ResultTexts, DictTexts({}))
    result = registry.call_sync("count")
    assert f"stored as {result.metadata['kept']}, but no tool can read it. Request less at once.]" in result.text
