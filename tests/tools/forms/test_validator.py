from __future__ import annotations

import datetime as dt
import math
import re
from typing import Annotated, Literal

import attrs
import pytest
from attrs import frozen, validators

from pegboard.tools.schema import schema_of
from strategies import Level, Marker, Mixed, Node, UserId as UserName

NONE = type(None)
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


def check_even(_instance, _attribute, value):
    if value % 2:
        raise ValueError("must be even")


@frozen
class Half:
    """Looks like a validator of attrs's."""

    options: int = 1


Half.__module__, Half.__qualname__ = "attr.validators", "_InValidator"
Half.__name__ = "_InValidator"


@pytest.mark.parametrize(
    ("annotation", "validator", "schema"),
    [
        (int, validators.ge(1), {"type": "integer", "minimum": 1}),
        (int, [validators.gt(1), validators.lt(5)], {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 5}),
        (
            int | None,
            validators.optional(validators.le(5)),
            {"anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}]},
        ),
        (int | None, validators.le(5), {"type": "integer", "maximum": 5}),
        (int | str, validators.in_([1]), {"type": "integer", "const": 1}),
        (str, validators.min_len(2), {"type": "string", "minLength": 2}),
        (str, validators.max_len(2), {"type": "string", "maxLength": 2}),
        (str, validators.matches_re("a|b"), {"type": "string", "pattern": "^(?:a|b)$"}),
        (str, validators.matches_re("a", func=re.match), {"type": "string", "pattern": "^(?:a)"}),
        (str, validators.matches_re("a", func=re.search), {"type": "string", "pattern": "a"}),
        (str, validators.matches_re("a", re.IGNORECASE), TEXT),
        (str, validators.in_({"b", "a"}), {"type": "string", "enum": ["a", "b"]}),
        (str, validators.in_("ab"), TEXT),
        (int, validators.in_({1: "one", 2.0: "two", "x": "x"}), {"type": "integer", "enum": [1, 2]}),
        (float, validators.in_([1, 0.5]), {"type": "number", "enum": [1, 0.5]}),
        (bool, validators.in_([1]), {"type": "boolean", "const": True}),
        (NONE, validators.in_([None]), {"type": "null"}),
        (NONE, validators.ge(1), {"type": "null"}),
        (Level, validators.in_([Level.LOW]), {"type": "integer", "const": 1}),
        (Level, validators.in_([3]), {"type": "integer", "enum": [1, 2]}),
        (Annotated[int, Marker(ge=0)], validators.in_([1]), {"type": "integer", "minimum": 0, "enum": [1]}),
        (UserName, validators.in_(["a"]), {"type": "string", "enum": ["a"]}),
        (dt.date, validators.in_([dt.date(2024, 1, 1)]), {"type": "string", "format": "date"}),
        (str, validators.in_({dt.date, "a"}), {"type": "string", "const": "a"}),
        (
            list[int],
            validators.deep_iterable(validators.ge(0), validators.max_len(3)),
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3},
        ),
        (
            list[int],
            validators.and_(validators.min_len(1), validators.deep_iterable(validators.ge(0), validators.max_len(3))),
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 3},
        ),
        (
            Annotated[list[int], Marker(min_length=1)],
            validators.deep_iterable(validators.ge(0)),
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        ),
        (list[int], validators.deep_iterable(validators.in_(["x"])), {"type": "array", "items": INTEGER}),
        (str, validators.deep_iterable(validators.in_(["x"])), TEXT),
        (
            list[int] | None,
            validators.deep_iterable(validators.ge(0)),
            {"type": "array", "items": {"type": "integer", "minimum": 0}},
        ),
        (
            dict[str, int] | None,
            validators.deep_mapping(validators.min_len(1), validators.ge(0), validators.min_len(1)),
            {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0},
                "propertyNames": {"minLength": 1},
                "minProperties": 1,
            },
        ),
        (
            Annotated[dict[str, int], Marker(min_length=1)],
            validators.deep_mapping(value_validator=validators.ge(0)),
            {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}, "minProperties": 1},
        ),
        (list[int], validators.deep_mapping(validators.min_len(1)), {"type": "array", "items": INTEGER}),
        (
            int,
            validators.or_(validators.lt(0), validators.gt(10)),
            {"anyOf": [{"type": "integer", "exclusiveMaximum": 0}, {"type": "integer", "exclusiveMinimum": 10}]},
        ),
        (int, validators.or_(validators.lt(0), check_even), INTEGER),
        (int, validators.or_(validators.in_(["x"]), validators.gt(1)), {"type": "integer", "exclusiveMinimum": 1}),
        (int, validators.or_(validators.in_(["x"]), validators.in_(["y"])), INTEGER),
        (int, validators.not_(validators.in_([1])), {"type": "integer", "not": {"enum": [1]}}),
        (int, validators.not_(validators.gt(1)), {"type": "integer", "not": {"exclusiveMinimum": 1}}),
        (int, validators.not_(validators.gt(math.inf)), INTEGER),
        (int, validators.not_(validators.gt(1), exc_types=ValueError), INTEGER),
        (int, validators.not_(validators.instance_of(str)), INTEGER),
        (int, validators.not_(validators.in_(["x"])), INTEGER),
        (int, validators.not_(validators.min_len(1)), INTEGER),
        (NONE, validators.not_(validators.in_([None])), {"type": "null"}),
        (Level, validators.not_(validators.in_([Level.LOW])), {"type": "integer", "const": 2}),
        (Level, validators.not_(validators.ge(0)), {"type": "integer", "enum": [1, 2]}),
        (int, validators.instance_of(int), INTEGER),
        (int | None, validators.in_(["x"]), {"anyOf": [INTEGER, {"type": "null"}]}),
        (int | bool, validators.min_len(1), {"anyOf": [INTEGER, {"type": "boolean"}]}),
        (Literal["a", 3], validators.ge(1), {"type": "integer", "const": 3}),
        (Mixed, validators.ge(1), {"enum": ["t", 3, False, None]}),
        (int, check_even, INTEGER),
        (int, Half(), INTEGER),
        (Annotated[int, "Text."], validators.ge(1), {"type": "integer", "minimum": 1, "description": "Text."}),
        (Annotated[int, "Text."], check_even, {"type": "integer", "description": "Text."}),
        (Node, validators.ge(1), {"$ref": "#/$defs/Node"}),
    ],
)
def test_validators_of_attrs_are_keywords_where_there_are_any(annotation, validator, schema):
    cls = attrs.make_class("Made", {"x": attrs.field(type=annotation, validator=validator)})

    assert schema_of(cls)["properties"]["x"] == schema
