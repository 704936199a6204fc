from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch import json_writer
from pegboard.dispatch.json_writer import write_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=50)
@given(json_values)
def test_it_writes_what_dumps_writes(value):
    assert write_json(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    ("value", "error"),
    [(float("nan"), ValueError), ([float("inf")], ValueError), (object(), TypeError), ({(1,): 1}, TypeError)],
)
def test_it_refuses_what_is_no_json_and_works_on(value, error):
    with pytest.raises(error):
        write_json(value)
    assert write_json({"a": [1]}) == '{"a": [1]}'


def test_a_cycle_ends():
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        write_json(endless)


def test_without_the_encoder_in_c_it_writes_the_same(monkeypatch):
    monkeypatch.setattr(json_writer.json.encoder, "c_make_encoder", None)
    assert json_writer._made()({"a": [1, "é", None]}) == '{"a": [1, "é", null]}'
