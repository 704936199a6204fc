from __future__ import annotations

import pytest

from pegboard.dialects.objects import pattern_properties

CASES = {
    "beside closed": (
        {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
        {"description": 'Keys matching ^x hold {"type":"string"}.', "additionalProperties": {"type": "string"}},
        [" patternProperties"],
    ),
    "several": (
        {
            "patternProperties": {"^x": {"type": "string"}, "^y": {"type": "null"}},
            "additionalProperties": {"type": "null"},
        },
        {
            "description": 'Keys matching ^x hold {"type":"string"}. Keys matching ^y hold {"type":"null"}.',
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        [" patternProperties"],
    ),
    "open": (
        {"patternProperties": {"^x": {"type": "string"}}},
        {"description": 'Keys matching ^x hold {"type":"string"}.', "additionalProperties": True},
        [" patternProperties"],
    ),
    "none": ({"patternProperties": {}, "additionalProperties": False}, {"additionalProperties": False}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(pattern_properties, schema) == (expected, changes)
