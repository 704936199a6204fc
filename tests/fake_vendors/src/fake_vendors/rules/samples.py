"""Any JSON, and JSON of about some shape."""

from __future__ import annotations

import copy

from hypothesis import strategies as st

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def like(draw, shape):
    """JSON of about this shape: at some places stands any value, or nothing."""
    shape = copy.deepcopy(shape)
    for _ in range(draw(st.integers(0, 4))):
        holder, key = draw(st.sampled_from(list(_places(shape))))
        if draw(st.booleans()):
            holder[key] = draw(json_values)
        else:
            del holder[key]
        if not shape:
            break
    return shape


def _places(value):
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def nested(levels):
    value = None
    for _ in range(levels):
        value = {"a": value}
    return value
