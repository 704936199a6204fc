from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Annotated, Literal, NewType

import attrs
import pytest
from typing_extensions import Doc, TypeAliasType

from pegboard.schema.problems import StructureError
from pegboard.tools.schema import schema_of
from pegboard.tools.structure import structurer
from strategies import Marker, UserId as UserName

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")


class Duck:
    """Bounds as the classes of other libraries spell them, and things that only look like them."""

    ge = 1
    le = None
    description = "From a field of another library."

    def lt(self):
        """A method, as data frames have it."""


class Said:
    def __init__(self, json_schema):
        self.json_schema = json_schema


class Predicate:
    def __init__(self, func):
        self.func = func


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[int, "Text."], {"type": "integer", "description": "Text."}),
        (Annotated[Annotated[int, "Inner."], "Outer."], {"type": "integer", "description": "Outer."}),
        (Annotated[int, Doc("Documented.")], {"type": "integer", "description": "Documented."}),
        (Annotated[int, {"examples": [1]}], {"type": "integer", "examples": [1]}),
        (
            Annotated[int, Said({"examples": [1]})] | None,
            {"anyOf": [{"type": "integer", "examples": [1]}, {"type": "null"}]},
        ),
        (Annotated[int, Marker(ge=1, lt=5.0)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 5}),
        (Annotated[int, Marker(gt=1), Marker(le=5)], {"type": "integer", "exclusiveMinimum": 1, "maximum": 5}),
        (Annotated[int, Marker(ge=1), Marker(ge=2)], {"type": "integer", "minimum": 1, "allOf": [{"minimum": 2}]}),
        (Annotated[int, Marker(ge=math.inf)], INTEGER),
        (Annotated[int, Marker(ge=decimal.Decimal("1.5"))], INTEGER),
        (Annotated[float, Marker(multiple_of=0.1)], {"type": "number", "multipleOf": 0.1}),
        (Annotated[str, Marker(min_length=1, max_length=5)], {"type": "string", "minLength": 1, "maxLength": 5}),
        (Annotated[str, Marker(min_length=0)], TEXT),
        (Annotated[str, Marker(pattern="^a+$")], {"type": "string", "pattern": "^a+$"}),
        (Annotated[str, Marker(pattern=re.compile("a", re.IGNORECASE))], TEXT),
        (Annotated[str, Marker(pattern="(?=a)b")], TEXT),
        (Annotated[str, Marker(ge="m")], TEXT),
        (Annotated[list[int], Marker(min_length=1)], {"type": "array", "items": INTEGER, "minItems": 1}),
        (
            Annotated[dict[str, int], Marker(max_length=1)],
            {"type": "object", "additionalProperties": INTEGER, "maxProperties": 1},
        ),
        (Annotated[bytes, Marker(max_length=1)], {"type": "string", "contentEncoding": "base64"}),
        (Annotated[dt.date, Marker(ge=dt.date(2024, 1, 1))], {"type": "string", "format": "date"}),
        (Annotated[int | None, Marker(ge=1)], {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}),
        (Annotated[Literal[1, 2, 3], Marker(ge=2)], {"type": "integer", "enum": [2, 3]}),
        (Annotated[UserId, Marker(ge=1)], {"type": "integer", "minimum": 1}),
        (Annotated[UserName, Marker(min_length=1)], {"type": "string", "minLength": 1}),
        (
            Annotated[int, Duck()],
            {"type": "integer", "minimum": 1, "description": "From a field of another library."},
        ),
        (Annotated[Annotated[int, "Text."], Marker(ge=1)], {"type": "integer", "minimum": 1, "description": "Text."}),
        (Annotated[str, Predicate(str.islower)], TEXT),
        (Annotated[int, object(), 3, Marker], INTEGER),
    ],
)
def test_what_stands_in_annotated(annotation, schema):
    assert schema_of(annotation) == schema


def test_annotations_with_equal_markers_are_kept_apart():
    assert schema_of(Annotated[int, Marker(ge=1)]) != schema_of(Annotated[int, Marker(ge=2)])
    assert schema_of(Annotated[int, "one"]) != schema_of(Annotated[int, "two"])


def test_a_demand_on_an_alias_made_of_itself_is_made_of_what_it_stands_for():
    schema = schema_of(Annotated[Json, Marker(min_length=1)])

    assert schema["anyOf"][1] == {"type": "array", "items": {"$ref": "#/$defs/Json"}, "minItems": 1}


@pytest.mark.parametrize(
    ("validator", "keywords", "refused"),
    [
        (attrs.validators.ge(1), {"minimum": 1}, 0),
        (attrs.validators.lt(9), {"exclusiveMaximum": 9}, 9),
        (attrs.validators.and_(attrs.validators.ge(1), attrs.validators.le(5)), {"minimum": 1, "maximum": 5}, 6),
        (attrs.validators.in_([1, 2]), {"enum": [1, 2]}, 3),
    ],
)
def test_validators_of_attrs_demand_in_annotated_what_they_do_on_a_field(validator, keywords, refused):
    """None of them is passed over in silence."""
    schema = schema_of(Annotated[int, validator])
    assert {name: schema[name] for name in keywords} == keywords
    with pytest.raises(StructureError):
        structurer(Annotated[int, validator])(refused)
