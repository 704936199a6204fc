from __future__ import annotations

import pytest

from pegboard.dialects.keywords import well_formed

CASES = {
    "sound": ({"type": "object", "properties": {"a": True}}, {"type": "object", "properties": {"a": True}}, []),
    "properties that are none": ({"properties": None}, {}, [" properties"]),
    "a property that is no schema": (
        {"properties": {"a": 3, "b": {"type": "text"}}},
        {"properties": {"b": {}}},
        ["/properties/b type", " properties"],
    ),
    "types": ({"type": ["string", "text", "string"]}, {"type": ["string"]}, [" type"]),
    "a type that is none": ({"type": 3}, {}, [" type"]),
    "lists of schemas": ({"anyOf": [], "allOf": [{}, 1], "oneOf": 3}, {"allOf": [{}]}, [" anyOf", " allOf", " oneOf"]),
    "names": ({"required": ["a", "a", 1], "title": 4}, {"required": ["a"]}, [" required", " title"]),
    "names that are no list": ({"required": True}, {}, [" required"]),
    "numbers": (
        {"minimum": "1", "minLength": -1, "maxLength": 1.5, "multipleOf": 0, "maxItems": True, "minItems": 2.0},
        {"minItems": 2.0},
        [" minimum", " minLength", " maxLength", " multipleOf", " maxItems"],
    ),
    "dependents": (
        {"dependentRequired": {"a": ["b"], "c": 1}, "dependentSchemas": 1},
        {"dependentRequired": {"a": ["b"]}},
        [" dependentRequired", " dependentSchemas"],
    ),
    "dependents that are no object": ({"dependentRequired": []}, {}, [" dependentRequired"]),
    "sound dependents": ({"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}, []),
    "a flag and a list": ({"uniqueItems": 1, "enum": 3, "examples": {}}, {}, [" uniqueItems", " enum", " examples"]),
    "the same value twice": ({"enum": [1, 1.0, True]}, {"enum": [1, True]}, []),
    "unknown keywords": ({"x-note": {"type": 3}}, {"x-note": {"type": 3}}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(well_formed, schema) == (expected, changes)
