from __future__ import annotations

import json

import pytest
from hypothesis import given

from message_strategies import CITATIONS
from pegboard.messages.message import Citation


@given(CITATIONS)
def test_it_comes_back_from_json(citation):
    assert Citation.from_json(json.loads(json.dumps(citation.to_json()))) == citation


def test_what_isnt_known_isnt_written():
    assert Citation(uri="https://example.org", start=0).to_json() == {"uri": "https://example.org", "start": 0}
    assert Citation().to_json() == {}


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (None, "citation: must be an object, got NoneType"),
        ({"text": 1}, "text: must be a text, got int"),
        ({"start": True}, "start: must be a whole number, got bool"),
        ({"data": []}, "data: must be an object, got list"),
    ],
)
def test_what_is_none_is_refused_by_name(data, wrong):
    with pytest.raises(ValueError, match=wrong):
        Citation.from_json(data)
