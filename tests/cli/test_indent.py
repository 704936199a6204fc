"""JSON laid out for people, without reading it into values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard.cli.indent import indented

values = st.recursive(
    st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values, st.booleans())
def test_it_is_what_json_writes(value, ascii_only):
    compact = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    assert indented(compact) == json.dumps(value, ensure_ascii=ascii_only, indent=2)


@pytest.mark.parametrize("text", [r'"\\"', r'"\""', r'"\\\""', r'{"a\\":"{[,:]}"}', '""', "[]", "{}", "[[],{}]"])
def test_quotes_and_brackets_in_strings_do_not_count(text):
    assert indented(text) == json.dumps(json.loads(text), indent=2)
