from __future__ import annotations

import json

import pytest

from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta


@pytest.mark.parametrize(
    ("delta", "data"),
    [
        (TextDelta("a"), {"type": "text", "text": "a"}),
        (ReasoningDelta("b"), {"type": "reasoning", "text": "b"}),
        (
            CallDelta(1, '{"x', "c1", "add"),
            {"type": "call", "index": 1, "id": "c1", "name": "add", "arguments": '{"x'},
        ),
        (CallDelta(0), {"type": "call", "index": 0, "id": "", "name": "", "arguments": ""}),
    ],
)
def test_each_is_written_as_json(delta, data):
    assert json.loads(json.dumps(delta.to_json())) == data


@pytest.mark.parametrize("delta", [TextDelta("\ud800"), ReasoningDelta("\ud800"), CallDelta(0, "\ud800")])
def test_half_a_character_is_replaced_since_no_wire_takes_it(delta):
    assert "\ufffd" in json.dumps(delta.to_json(), ensure_ascii=False)
    json.dumps(delta.to_json(), ensure_ascii=False).encode()
