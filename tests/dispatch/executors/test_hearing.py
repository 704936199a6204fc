from __future__ import annotations

import pytest

from pegboard.dispatch.executors.hearing import NonsenseError, message_of, told_in
from pegboard.tools.content import TextContent
from pegboard.tools.context import Progress, Told


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"NaN", b'{"a": 1, "a": 2}', b'{"a": "\\ud800"}', b"[" * 500])
def test_what_is_no_json_object_is_nonsense(body):
    with pytest.raises(NonsenseError):
        message_of(body)


@pytest.mark.parametrize(
    ("told", "thing"),
    [
        ({"progress": [1, 2.5, "half"]}, Progress(1, 2.5, "half")),
        ({"progress": [1, None, None]}, Progress(1)),
        ({"facts": {"a": 1}, "title": "T"}, Told("T", {"a": 1})),
        ({"facts": {}}, Told(None, {})),
        ({"content": {"type": "text", "text": "t"}}, TextContent("t")),
        ({"partial": [1]}, [1]),
    ],
)
def test_what_is_told_is_what_was_told(told, thing):
    assert told_in({"tell": told}) == thing


@pytest.mark.parametrize(
    "told",
    [
        1,
        {"progress": "half"},
        {"progress": [1]},
        {"progress": ["1", None, None]},
        {"progress": [1, None, 3]},
        {"progress": [True, None, None]},
        {"facts": 1},
        {"facts": {}, "title": 1},
        {"content": {"type": "smell"}},
    ],
)
def test_what_has_none_of_the_forms_is_nonsense(told):
    with pytest.raises(NonsenseError):
        told_in({"tell": told})
