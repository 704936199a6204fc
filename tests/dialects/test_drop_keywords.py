from __future__ import annotations

import pytest

from pegboard.dialects.keywords import drop_keywords, only_keywords

STEP = only_keywords(("type", "description"), untold=("x",))

CASES = {
    "told": (
        {"minimum": 1, "type": "integer"},
        {"type": "integer", "description": "At least 1."},
        [" minimum"],
    ),
    "after the description": (
        {"description": "D.", "not": {"const": 1}},
        {"description": 'D. Must not fit {"const":1}.'},
        [" not"],
    ),
    "without words": ({"contentSchema": {"a": 1}}, {}, [" contentSchema"]),
    "nothing lost": (
        {"$comment": "c", "uniqueItems": False, "additionalProperties": True, "propertyNames": {}, "x": 1},
        {},
        [],
    ),
    "conditions": (
        {"if": {"a": 1}, "then": {"b": 1}, "else": {"c": 1}},
        {"description": 'If it fits {"a":1}: it fits {"b":1}; otherwise it fits {"c":1}.'},
        [" if"],
    ),
    "a condition without an outcome": ({"if": {"a": 1}}, {}, [" if"]),
    "all that has words": (
        {
            "uniqueItems": True,
            "deprecated": True,
            "readOnly": True,
            "writeOnly": True,
            "minItems": 2,
            "maxItems": 1,
            "dependentRequired": {"a": ["b", "c"], "d": []},
            "examples": [1, "x"],
            "default": None,
        },
        {
            "description": "No item twice. Deprecated. Read only. Write only. At least 2 items. At most 1 item. "
            'With a, b, c must be given too. Examples: 1, "x". Default: null.'
        },
        [
            " uniqueItems",
            " deprecated",
            " readOnly",
            " writeOnly",
            " minItems",
            " maxItems",
            " dependentRequired",
            " examples",
            " default",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(STEP, schema) == (expected, changes)


def test_dropping_says_nothing_in_the_description(apply):
    assert apply(drop_keywords("title", "minimum"), {"items": {"title": "t", "minimum": 1, "type": "integer"}}) == (
        {"items": {"type": "integer"}},
        ["/items title", "/items minimum"],
    )


def test_long_values_and_lists_are_cut(apply):
    schema, _ = apply(only_keywords(("description",)), {"enum": list(range(60)), "const": "x" * 300})
    assert schema["description"].endswith("….")
    assert "49 and 10 more." in schema["description"]
