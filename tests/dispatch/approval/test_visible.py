"""Nothing hidden reaches the eye of whoever decides."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.approval.visible import cut, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("rm \u202egnp.exe", "rm \\u{202e}gnp.exe"),
        ("a\u2066b\u2069", "a\\u{2066}b\\u{2069}"),
        ("a\u200bb", "a\\u{200b}b"),
        ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
        ("one\rtwo", "one\\u{d}two"),
        ("one\ntwo\t.", "one\\u{a}two\\u{9}."),
        ("a\u2028b\x85c", "a\\u{2028}b\\u{85}c"),
        ("a\U000e0041", "a\\u{e0041}"),
        ("a\u3164\u2800\u034f", "a\\u{3164}\\u{2800}\\u{34f}"),
        ("a\ufe0f", "a\\u{fe0f}"),
        ("x\U000e0100", "x\\u{e0100}"),
        ("lone \ud800", "lone \\u{d800}"),
        ("soft\xadhyphen \ufeff", "soft\\u{ad}hyphen \\u{feff}"),
    ],
)
def test_what_is_hidden_is_written_out(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize("text", ["naïve café", "日本語　です", "a\xa0b", "🏳️‍🌈", "👩‍💻", "❤️", "می‌خواهم"])
def test_what_people_write_stays(text):
    """Accents, scripts, spaces, emoji with their joiners and selectors."""
    assert visible(text) == text


@pytest.mark.parametrize("text", ["\u200d", "a\u200d", "\u200b\u200d", "é\u200d\u200d", "\ufe0f\u200d"])
def test_a_joiner_that_joins_nothing_is_written_out(text):
    assert visible(text).endswith("\\u{200d}")


def test_line_ends_may_stay():
    assert visible("a\r\nb\tc\rd", newlines=True) == "a\nb\tc\\u{d}d"


@settings(deadline=None)
@given(st.text(max_size=30), st.booleans())
def test_nothing_hidden_is_left(text, newlines):
    """No control, no bidirectional mark; and what was there is still there, written out."""
    shown = visible(text, newlines=newlines)
    left = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")}
    assert left <= {"\u200c", "\u200d"} | ({"\n", "\t"} if newlines else set())
    assert visible(shown, newlines=newlines) == shown


def test_a_long_text_is_cut_and_says_so():
    assert cut("a" * 10, 10) == "a" * 10
    assert cut("a" * 1_012, 10) == "a" * 10 + "\n... (1,002 more characters are not shown)"
