from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings, strategies as st

from pegboard.dispatch.cut import Place, Size, cut, size_of
from pegboard.tools.policy import ResultLimits

NO_LIMIT = ResultLimits(lines=None, bytes=None)
pieces = st.sampled_from(["a", "b", "\n", "\n", "é", "漢", "😀", "\u0301", "\r", "👩\u200d🚀"])
letters = st.lists(pieces, max_size=40).map("".join)
numbers = st.integers(1, 30)


def limits_of(keep="head", *, lines=None, most=None, tokens=None, count=None):
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
    done = cut(text, limits_of(keep, lines=lines, most=most))
    assert (done is None) == (len(lines_of(text)) <= lines and encoded(text) <= most)


@settings(max_examples=300)
@given(letters, numbers, numbers, st.sampled_from(["head", "tail", "middle"]))
def test_what_stays_is_the_beginning_or_the_end_within_the_limits(text, lines, most, keep):
    done = cut(text, limits_of(keep, lines=lines, most=most))
    if done is None:
        return
    assert text.startswith(done.head)
    assert text.endswith(done.tail)
    assert len(done.head) + len(done.tail) < len(text)
    assert done.shown.bytes <= most
    assert done.shown.lines <= lines
    assert done.whole == size_of(text)
    assert not done.tail if keep == "head" else keep == "middle" or not done.head


@settings(max_examples=300)
@given(letters, numbers, numbers, st.sampled_from(["head", "tail"]))
@example("a\n\u0301\u0301a", 2, 4, "head")  # marks that follow the end of a line belong to nothing before it
def test_lines_stay_whole_but_for_one_that_is_too_long_by_itself(text, lines, most, keep):
    """And no line is left out that would fit."""
    done = cut(text, limits_of(keep, lines=lines, most=most))
    if done is None:
        return
    all_lines = lines_of(text)
    kept = lines_of(done.head or done.tail)
    if keep == "tail":
        all_lines.reverse()
        kept.reverse()
    if kept == all_lines[: len(kept)]:
        following = all_lines[len(kept)]
        assert len(kept) == lines or encoded("".join([*kept, following])) > most
    else:
        assert kept[:-1] == all_lines[: len(kept) - 1]
        assert encoded(all_lines[len(kept) - 1]) > most


@given(letters, numbers, numbers, st.sampled_from(["head", "tail", "middle"]))
def test_the_gap_says_where_to_read_on(text, lines, most, keep):
    done = cut(text, limits_of(keep, lines=lines, most=most))
    if done is None:
        return
    all_lines = [line.encode() for line in lines_of(text)]
    before = b"".join(all_lines[: done.gap.line - 1]) + b"".join(all_lines[done.gap.line - 1 :])[: done.gap.byte]
    assert before == done.head.encode()
    behind = b"".join(all_lines[done.end.line - 1 :])[done.end.byte :]
    assert behind == done.tail.encode()


@pytest.mark.parametrize(
    ("keep", "lines", "expected"),
    [
        ("head", 2, ("1\n2\n", "", Place(3), Place(6))),
        ("tail", 2, ("", "4\n5\n", Place(1), Place(4))),
        ("middle", 2, ("1\n", "5\n", Place(2), Place(5))),
        ("middle", 3, ("1\n2\n", "5\n", Place(3), Place(5))),
        ("middle", 1, ("1\n", "", Place(2), Place(6))),
    ],
)
def test_so_many_lines_of_the_beginning_the_end_or_both_stay(keep, lines, expected):
    done = cut("1\n2\n3\n4\n5\n", limits_of(keep, lines=lines))
    assert (done.head, done.tail, done.gap, done.end) == expected


@pytest.mark.parametrize(
    ("keep", "head", "tail"),
    [("head", "aaaa\n", ""), ("tail", "", "cccc\n"), ("middle", "aaaa\n", "cccc\n")],
)
def test_so_many_bytes_of_whole_lines_stay(keep, head, tail):
    done = cut("aaaa\nbbbb\ncccc\n", limits_of(keep, most=14 if keep == "middle" else 9))
    assert (done.head, done.tail) == (head, tail)


@pytest.mark.parametrize(
    ("keep", "head", "tail", "gap", "end"),
    [
        ("head", "x" * 10, "", Place(1, 10), Place(2)),
        ("tail", "", "x" * 10, Place(1), Place(1, 90)),
        ("middle", "xxxxx", "xxxxx", Place(1, 5), Place(1, 95)),
    ],
)
def test_one_enormous_line_is_cut_inside(keep, head, tail, gap, end):
    done = cut("x" * 100, limits_of(keep, most=10))
    assert (done.head, done.tail, done.gap, done.end) == (head, tail, gap, end)


def test_an_enormous_line_after_others_is_cut_inside_too():
    done = cut("short\n" + "x" * 100 + "\nshort\n", limits_of(most=20))
    assert (done.head, done.gap) == ("short\n" + "x" * 14, Place(2, 14))
    done = cut("short\n" + "x" * 100 + "\nshort\n", limits_of("tail", most=20))
    assert (done.tail, done.end) == ("x" * 13 + "\nshort\n", Place(2, 87))


@pytest.mark.parametrize("most", range(1, 30))
def test_no_character_is_torn_apart(most):
    """Whole code points always; whole graphemes where one fits at all."""
    text = "e\u0301👩\u200d🚀🇩🇪👍🏽한" * 3
    graphemes = ["e\u0301", "👩\u200d🚀", "🇩🇪", "👍🏽", "한"] * 3
    ends = ["".join(graphemes[:count]) for count in range(len(graphemes) + 1)]
    head = cut(text, limits_of(most=most)).head
    fitting = max((end for end in ends if encoded(end) <= most), key=len)
    assert head == fitting or (not fitting and text.startswith(head))
    tail = cut(text, limits_of("tail", most=most)).tail
    assert text.endswith(tail)
    assert text[: len(text) - len(tail)] in ends or encoded("한") > most


def test_tokens_are_taken_at_four_bytes_each():
    assert cut("a" * 40, limits_of(tokens=10)) is None
    assert cut("a" * 41, limits_of(tokens=10)).head == "a" * 40
    assert cut("a" * 41, limits_of(tokens=10, most=5)).head == "a" * 5


def test_tokens_are_counted_by_the_hosts_own_counter():
    def count(text):
        return len(text.split())

    text = "one two three\n" * 100
    done = cut(text, limits_of(tokens=30, count=count))
    assert count(done.head) <= 30
    assert count(done.head) > 15
    assert cut(text, limits_of(tokens=300, count=count)) is None


@pytest.mark.parametrize("answer", [ValueError("broken"), float("nan"), "many", None, float("inf")])
def test_a_counter_that_fails_is_replaced_by_the_estimate(answer):
    def count(text):
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert encoded(cut("a" * 1000, limits_of(tokens=10, count=count)).head) <= 40


def test_a_counter_that_is_never_content_gets_one_byte_a_token():
    assert cut("a" * 1000, limits_of(tokens=10, count=lambda text: 10**9)).head == "a" * 10


def test_without_limits_everything_stays():
    assert cut("a\n" * 10_000, NO_LIMIT) is None


def test_a_long_text_is_looked_at_in_steps():
    """Longer than one step, in more than one kind of character, with a line end at the seam."""
    text = ("é" * ((1 << 20) - 1) + "\n") * 2 + "z"
    done = cut(text, limits_of("tail", lines=1))
    assert (done.tail, done.whole, done.end) == ("z", Size(3, encoded(text)), Place(3))
