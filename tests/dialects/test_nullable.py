from __future__ import annotations

import pytest

from pegboard.dialects.values import nullable, or_null, takes_null

CASES = {
    "one other": (
        {"anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}], "default": None},
        {"type": "string", "description": "inner", "default": None, "nullable": True},
        [],
    ),
    "descriptions of both": (
        {"anyOf": [{"type": "null"}, {"type": "string", "description": "inner"}], "description": "outer"},
        {"type": "string", "description": "outer inner", "nullable": True},
        [],
    ),
    "several others": (
        {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "number"}], "title": "t"},
        {"anyOf": [{"type": "string"}, {"type": "number"}], "title": "t", "nullable": True},
        [],
    ),
    "only null": ({"anyOf": [{"type": "null"}]}, {"type": "null"}, []),
    "no null": ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(nullable, schema) == (expected, changes)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "string", "title": "t"}, {"type": ["string", "null"], "title": "t"}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a"]}, {"enum": ["a", None]}),
        (
            {"anyOf": [{"type": "string"}], "title": "t"},
            {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "t"},
        ),
        (
            {"type": "object", "anyOf": [{"type": "object"}], "title": "t"},
            {"anyOf": [{"type": "object", "anyOf": [{"type": "object"}]}, {"type": "null"}], "title": "t"},
        ),
        ({"$ref": "#/$defs/A", "title": "t"}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "title": "t"}),
    ],
)
def test_null_is_added(given, expected):
    assert or_null(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": "null"},
        {"type": ["null", "string"]},
        {"enum": [1, None]},
        {"anyOf": [{"type": "string"}, {}]},
        {"minimum": 3},
    ],
)
def test_what_takes_null_stays(given):
    assert takes_null(given)
    assert or_null(given) is given
