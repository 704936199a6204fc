from __future__ import annotations

import pytest

from pegboard.dialects.values import simple_enums, typed_enums, typed_values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"enum": [1, None, 1.5, True, [], {}]},
            {"type": ["integer", "null", "number", "boolean", "array", "object"], "enum": [1, None, 1.5, True, [], {}]},
        ),
        ({"type": "string", "enum": [1]}, {"type": "string", "enum": [1]}),
        ({"enum": []}, {"enum": []}),
    ],
)
def test_enums_say_their_types(given, expected, apply):
    assert apply(typed_enums, given) == (expected, [])


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"properties": {}}, "object"),
        ({"minItems": 1}, "array"),
        ({"pattern": "a"}, "string"),
        ({"minimum": 1}, "number"),
    ],
)
def test_keywords_say_the_type(given, name, apply):
    assert apply(typed_values, {"anyOf": [given]}) == ({"anyOf": [{"type": name, **given}]}, ["/anyOf/0 type"])


@pytest.mark.parametrize("given", [{}, {"title": "t"}, {"minimum": 1, "pattern": "a"}])
def test_any_value_is_refused(given, apply):
    assert apply(typed_values, given) == (given, [" type!"])


@pytest.mark.parametrize("given", [{"type": "null"}, {"anyOf": [{"type": "null"}]}, {"$ref": "#"}, {"enum": [1]}])
def test_what_says_its_type_stays(given, apply):
    assert apply(typed_values, given) == (given, [])


def test_enums_of_objects_are_refused(apply):
    assert apply(simple_enums, {"enum": [1, {}]}) == ({"enum": [1, {}]}, [" enum!"])
    assert apply(simple_enums, {"enum": [1, None]}) == ({"enum": [1, None]}, [])
