from __future__ import annotations

import pytest
from hypothesis import given

from message_strategies import USAGES
from pegboard.messages.response import NO_USAGE, Usage


@given(USAGES)
def test_it_comes_back_from_json(usage):
    assert Usage.from_json(usage.to_json()) == usage


@given(USAGES, USAGES, USAGES)
def test_adding_is_what_adding_is(a, b, c):
    assert a + NO_USAGE == a
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_what_is_missing_is_none():
    assert Usage.from_json({"input_tokens": 3, "other": "x"}) == Usage(3)


@pytest.mark.parametrize("count", ["3", 3.0, True, [3]])
def test_a_count_that_is_none_is_refused_by_name(count):
    with pytest.raises(ValueError, match="output_tokens: must be a whole number"):
        Usage.from_json({"output_tokens": count})
