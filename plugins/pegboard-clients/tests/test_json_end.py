from __future__ import annotations

from hypothesis import given, strategies as st

from pegboard.json import json_text
from pegboard_clients.json_end import JsonEnd


@given(
    st.dictionaries(st.text(max_size=4), st.text(alphabet='{}[]"\\a', max_size=6) | st.lists(st.integers())),
    st.integers(1, 4),
)
def test_an_object_is_whole_at_its_end_and_never_before(value, size):
    text = str(json_text(value))
    end = JsonEnd()
    reached = [end.reached(text[start : start + size]) for start in range(0, len(text), size)]
    assert reached == [False] * (len(reached) - 1) + [True]
