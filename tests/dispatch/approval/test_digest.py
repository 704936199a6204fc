"""What an approval is bound to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from dispatch.approval.samples import a_tool
from pegboard.dispatch.approval.pending import digest_of_call
from pegboard.schema.json import canonical_json
from strategies import json_values, mutated

OBJECTS = st.dictionaries(st.text(max_size=4), json_values(), max_size=3)


def test_order_and_spelling_make_no_difference():
    one, two = {"a": 1.0, "b": [2]}, {"b": [2.0], "a": 1}
    assert digest_of_call(a_tool(), one) == digest_of_call(a_tool(), two)


def test_the_tool_makes_a_difference():
    """All that it says of itself."""
    digests = {digest_of_call(tool, {}) for tool in (a_tool(), a_tool("other"), a_tool(description="else"))}
    assert len(digests) == 3


@settings(max_examples=50, deadline=None)
@given(OBJECTS, st.data())
def test_other_arguments_have_another_digest(arguments, data):
    other = data.draw(mutated(arguments).filter(lambda value: isinstance(value, dict)))
    same = canonical_json(arguments) == canonical_json(other)
    assert (digest_of_call(a_tool(), arguments) == digest_of_call(a_tool(), other)) is same


@pytest.mark.parametrize("value", [float("nan"), object(), {1}])
def test_what_is_no_json_has_no_digest(value):
    with pytest.raises((TypeError, ValueError)):
        digest_of_call(a_tool(), {"a": value})
