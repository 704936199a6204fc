r"""Nothing hidden reaches a person who reads: neither in the approval prompt nor in a terminal."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from pegboard.tools.visible import visible, visible_json


@pytest.mark.parametrize(
    "text",
    ["", "plain", "naïve café", "é ü 漢字 עברית العربية", "日本語です", "👍🏽", "हिन्दी", "각", "x\u0301", "\\u202e \\"],
)
def test_what_is_visible_stays(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2J", r"\u{1b}[2J"),
        ("a\rb", r"a\u{d}b"),
        ("a\nb\tc", r"a\u{a}b\u{9}c"),
        ("\x7f\x9b31m", r"\u{7f}\u{9b}31m"),
        ("rm \u202egnp.exe\u202c", r"rm \u{202e}gnp.exe\u{202c}"),
        ("\u2066a\u2069\u200e\u200f\u061c", r"\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}"),
        ("a\u200bb\ufeffc\u00add", r"a\u{200b}b\u{feff}c\u{ad}d"),
        ("\u2028\u2029\x85", r"\u{2028}\u{2029}\u{85}"),
        ("lone \ud800", r"lone \u{d800}"),
        ("hi\U000e0068\U000e0069", r"hi\u{e0068}\u{e0069}"),
        ("a\U000e0100b", r"a\u{e0100}b"),
        ("\u3164\u2800\u034f", r"\u{3164}\u{2800}\u{34f}"),
        ("a\u0600\U00013430", r"a\u{600}\u{13430}"),
        ("\u2062\u206a", r"\u{2062}\u{206a}"),
        ("\ufff9a\ufffc\uffff", r"\u{fff9}a\u{fffc}\u{ffff}"),
        ("\ue000\U0010fffd\u0378", r"\u{e000}\u{10fffd}\u{378}"),
        ("a\u00a0b\u3000c\u2009", r"a\u{a0}b\u{3000}c\u{2009}"),
        (r"a\u{202e}b", r"a\u{5c}u{202e}b"),
        ("e\u0301 é", r"e\u{301} é"),
        ("e\u0323\u0301", r"e\u{323}\u{301}"),
        ("e\u0301\u0323", r"e\u{301}\u{323}"),
        ("\u1100\u1161\u11a8", "\u1100" + r"\u{1161}\u{11a8}"),
        ("\u212b\u2126\u037e", r"\u{212b}\u{2126}\u{37e}"),
        ("\u202e\u0301 \u0301", r"\u{202e}\u{301} \u{301}"),
    ],
)
def test_what_hides_is_written_out(text, seen):
    assert visible(text) == seen


def test_line_ends_and_tabs_stay_where_they_may():
    assert visible("a\r\nb\n\tc\rd", newlines=True) == "a\\u{d}\nb\n\tc\\u{d}d"


@pytest.mark.parametrize(
    "text", ["👩\u200d💻", "🏳\ufe0f\u200d🌈", "❤\ufe0f", "\u0645\u06cc\u200c\u062e\u0648", "क्\u200dष"]
)
def test_joiners_stay_where_scripts_need_them(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\u200db", r"a\u{200d}b"),
        ("\u200d", r"\u{200d}"),
        ("\u200b\u200d", r"\u{200b}\u{200d}"),
        ("é\u200dé\u200cд\u200dд", "é\\u{200d}é\\u{200c}д\\u{200d}д"),
        ("漢\u200d字\ufe0f", "漢\\u{200d}字\\u{fe0f}"),
        ("❤\u200d\u200d👍", "❤\\u{200d}\\u{200d}👍"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\u{fe0f}"),
        ("\u0645\u200c", "\u0645\\u{200c}"),
        ("❤\ufe00", r"❤\u{fe00}"),
        ("a\ufe0f\u200d", r"a\u{fe0f}\u{200d}"),
    ],
)
def test_joiners_hide_nowhere_else(text, seen):
    assert visible(text) == seen


texts = st.text(max_size=30) | st.text(
    "ae\\u{}1\u0301\u0323\u00e9\u1100\u1161\u11a8\u212b\u202e\u200d\ufe0f❤م \n\r", max_size=8
)


@pytest.mark.parametrize("part", ["a", "\\u{", "❤\u200d", "\u0301", "\u202e"])
def test_a_long_word_costs_no_more_than_its_length(part):
    """Milliseconds; were it the square, minutes."""
    assert len(visible(part * 100_000 + "\n", newlines=True)) >= 100_000


@given(texts, st.booleans())
def test_nothing_hidden_is_left(text, newlines):
    """No character of a category without a shape; and what was there is still there, written out."""
    shown = visible(text, newlines=newlines)
    left = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")}
    assert left <= {" ", "\u200c", "\u200d"} | ({"\n", "\t"} if newlines else set())


@given(texts, st.booleans())
def test_two_texts_that_differ_are_shown_differently(text, newlines):
    """What was there can be read back, whatever it was."""
    shown = visible(text, newlines=newlines)
    assert re.sub(r"\\u\{([0-9a-f]+)\}", lambda match: chr(int(match[1], 16)), shown) == text


@given(texts, st.booleans())
def test_no_two_texts_look_alike_by_their_normal_form(text, newlines):
    """Composed or not, reordered, or another character with the same shape."""
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, text)
        shown = [unicodedata.normalize("NFC", visible(each, newlines=newlines)) for each in (text, other)]
        assert (shown[0] == shown[1]) is (text == other)


@given(st.text())
def test_nothing_visible_is_lost(text):
    kept = "".join(c for c in text if unicodedata.category(c) in ("Lu", "Nd", "Po"))
    assert visible(kept) == kept


values = st.recursive(
    st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(values, st.sampled_from([None, 2]))
def test_json_stays_the_same_value(value, indent):
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert json.loads(text) == value
    assert set(visible(text, newlines=True)) <= {*text, *"u{5c}"}


def test_json_is_escaped_as_json_does():
    assert visible_json('"é\u202e\x7f\U000e0041\u200d\ud800"') == r'"é\u202e\u007f\udb40\udc41\u200d\ud800"'
