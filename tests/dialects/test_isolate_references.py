from __future__ import annotations

import pytest

from pegboard.dialects.references import isolate_references

CASES = {
    "with notes": (
        {"items": {"$ref": "#/$defs/A", "description": "d", "default": 1}},
        {"items": {"anyOf": [{"$ref": "#/$defs/A"}], "description": "d", "default": 1}},
        [],
    ),
    "alone": ({"items": {"$ref": "#/$defs/A"}}, {"items": {"$ref": "#/$defs/A"}}, []),
    "the root": ({"$ref": "#/$defs/A", "$defs": {}}, {"$ref": "#/$defs/A", "$defs": {}}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(isolate_references, schema) == (expected, changes)
