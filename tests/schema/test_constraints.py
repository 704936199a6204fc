from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import re
import sys
from typing import Annotated, Literal, NewType, TypedDict

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from attrs import frozen, validators
from hypothesis import given, strategies as st
from pydantic import Field
from pydantic_core import core_schema
from typing_extensions import Doc, TypeAliasType

from pegboard import schema_of
from pegboard.errors import DefinitionError
from pegboard.json import StructureError
from pegboard.schema import Validator
from pegboard.schema.structure import strict_structurer
from strategies import Level, Marker, Mixed, Node, UserId as UserName

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


class WithSchema:
    def __init__(self, json_schema):
        self.json_schema = json_schema


class Predicate:
    def __init__(self, func):
        self.func = func


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Annotated[Annotated[int, "Inner."], "Outer."], {"type": "integer", "description": "Outer."}),
        (Annotated[int, Doc("Documented.")], {"type": "integer", "description": "Documented."}),
        (Annotated[int, {"examples": [1]}], {"type": "integer", "examples": [1]}),
        (
            Annotated[int, WithSchema({"examples": [1]})] | None,
            {"anyOf": [{"type": "integer", "examples": [1]}, {"type": "null"}]},
        ),
        (Annotated[int, Marker(ge=1, lt=5.0)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 5}),
        (Annotated[int, Marker(gt=1), Marker(le=5)], {"type": "integer", "exclusiveMinimum": 1, "maximum": 5}),
        (Annotated[int, Marker(ge=1), Marker(ge=2)], {"type": "integer", "minimum": 1, "allOf": [{"minimum": 2}]}),
        (Annotated[int, Marker(ge=math.inf)], INTEGER),
        (Annotated[int, Marker(ge=decimal.Decimal("1.5"))], INTEGER),
        (Annotated[float, Marker(multiple_of=0.1)], {"type": "number", "multipleOf": 0.1}),
        (Annotated[str, Marker(min_length=0)], TEXT),
        (Annotated[str, Marker(pattern="^a+$")], {"type": "string", "pattern": "^a+$"}),
        (Annotated[str, Marker(pattern=re.compile("a", re.IGNORECASE))], TEXT),
        (Annotated[str, Marker(pattern="(?=a)b")], TEXT),
        (Annotated[str, Marker(ge="m")], TEXT),
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
        (Annotated[int, Duck()], {"type": "integer", "minimum": 1, "description": "From a field of another library."}),
        (Annotated[Annotated[int, "Text."], Marker(ge=1)], {"type": "integer", "minimum": 1, "description": "Text."}),
        (Annotated[str, Predicate(str.islower)], TEXT),
        (Annotated[int, object(), 3, Marker], INTEGER),
    ],
)
def test_annotated_metadata_becomes_keywords(annotation, schema):
    assert schema_of(annotation) == schema


def test_annotations_with_equal_markers_have_separate_schemas():
    assert schema_of(Annotated[int, Marker(ge=1)]) != schema_of(Annotated[int, Marker(ge=2)])
    assert schema_of(Annotated[int, "one"]) != schema_of(Annotated[int, "two"])


def test_a_constraint_on_a_recursive_alias_applies_to_the_aliased_type():
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
def test_attrs_validators_in_annotated_mean_what_they_do_on_a_field(validator, keywords, refused):
    """None of them is passed over in silence."""
    schema = schema_of(Annotated[int, validator])
    assert {name: schema[name] for name in keywords} == keywords
    with pytest.raises(StructureError):
        strict_structurer(Annotated[int, validator])(refused)


@pytest.mark.parametrize(
    ("validator", "value", "refused"),
    [
        (validators.or_(validators.lt(0), validators.gt(9)), -1, 5),
        (validators.and_(validators.ge(1), lambda _self, _attribute, value: 1 / (value - 7)), 8, 7),
    ],
)
def test_attrs_validators_without_keywords_run_in_annotated(validator, value, refused):
    structure = strict_structurer(Annotated[int, validator])
    assert structure(value) == value
    with pytest.raises(StructureError, match="must pass") as caught:
        structure(refused)
    assert " at 0x" not in str(caught.value)


def test_a_constraint_that_doesnt_apply_is_refused():
    with pytest.raises(DefinitionError, match="doesn't apply to int"):
        schema_of(Annotated[int, Marker(ge=1, min_length=1)])


# --- pydantic in Annotated ---


def no_dots(value):
    if ".." in value:
        raise ValueError("no dots")
    return value


class Guard:
    """Metadata of a user that only pydantic can read."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_after_validator_function(no_dots, handler(source))


class Slug(str):
    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return core_schema.no_info_after_validator_function(no_dots, core_schema.str_schema())


class Broken:
    def __get_pydantic_core_schema__(self):
        """Takes too little."""


@frozen
class Page:
    path: Annotated[str, pydantic.AfterValidator(no_dots)]


class Pages(TypedDict):
    path: Annotated[str, Field(max_length=4), pydantic.AfterValidator(no_dots)]


Guarded = NewType("Guarded", Annotated[str, pydantic.AfterValidator(no_dots)])
BLANK = pydantic.StringConstraints(strip_whitespace=True, min_length=1)
ALL = Field(ge=0, title="T", description="D", examples=[1], deprecated=True, json_schema_extra={"x": 1, "maximum": 9})


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (
            Annotated[int, ALL],
            {"title": "T", "examples": [1], "deprecated": True, "x": 1, "description": "D", "minimum": 0, "maximum": 9},
        ),
        (Annotated[int, Field(json_schema_extra=lambda schema: schema.update(x=1))], {"x": 1}),
        (Annotated[int, msgspec.Meta(ge=1, title="T", examples=[3])], {"title": "T", "examples": [3], "minimum": 1}),
        (Annotated[int, annotated_types.Interval(ge=1, lt=3)], {"minimum": 1, "exclusiveMaximum": 3}),
    ],
)
def test_what_a_field_carries_is_in_the_schema(annotation, schema):
    assert schema_of(annotation) == {**INTEGER, **schema}
    assert schema_of(list[annotation])["items"] == {**INTEGER, **schema}


@pytest.mark.parametrize(
    ("annotation", "accepted", "value", "refused"),
    [
        (Annotated[str, pydantic.AfterValidator(no_dots)], "a", "a", "../a"),
        (Annotated[str, pydantic.WrapValidator(lambda value, handler: no_dots(handler(value)))], "a", "a", "../a"),
        (Annotated[str, pydantic.PlainValidator(no_dots)], "a", "a", "../a"),
        (Annotated[str, Guard()], "a", "a", "../a"),
        (Slug, "a", "a", "../a"),
        (Guarded, "a", "a", "../a"),
        (Annotated[Guarded, Marker(min_length=2)], "ab", "ab", "a"),
        (list[Annotated[str, pydantic.AfterValidator(no_dots)]], ["a"], ["a"], ["../a"]),
        (dict[Annotated[str, pydantic.AfterValidator(no_dots)], int], {"a": 1}, {"a": 1}, {"..": 1}),
        (Annotated[str, pydantic.AfterValidator(no_dots)] | None, None, None, "../a"),
        (Page, {"path": "a"}, Page("a"), {"path": ".."}),
        (Pages, {"path": "a"}, {"path": "a"}, {"path": "abcde"}),
        (Annotated[Page, pydantic.AfterValidator(lambda page: no_dots(page.path))], {"path": "a"}, "a", {"path": ".."}),
        (Annotated[str, BLANK], " a ", "a", "  "),
        (Annotated[Annotated[str, BLANK], Marker(min_length=2)], " ab ", "ab", " b "),
        (Annotated[bytes, pydantic.AfterValidator(len)], "YWI=", 2, "!"),
        (Annotated[dt.date, pydantic.AfterValidator(lambda day: day.year)], "2024-01-02", 2024, "1700000000"),
        (Annotated[decimal.Decimal, Field(max_digits=3)], "1.25", decimal.Decimal("1.25"), "12.55"),
        (Annotated[int, pydantic.BeforeValidator(int)], 5, 5, "5"),
        (Annotated[int, Field(ge=2), pydantic.PlainValidator(len, json_schema_input_type=str)], "abc", 3, 3),
        (pydantic.Json[int], "5", 5, 5),
        (list[pydantic.Json[list[int]]], ["[5]"], [[5]], ["x"]),
        (Annotated[int, pydantic.PlainSerializer(str)], 5, 5, "5"),
        (Annotated[int, annotated_types.Predicate(lambda value: value > 1)], 2, 2, 1),
        (Annotated[str, annotated_types.LowerCase], "a", "a", "A"),
    ],
)
def test_pydantics_validators_run_after_the_schema_and_never_widen_it(annotation, accepted, value, refused):
    structure = strict_structurer(annotation)
    if value is not None or accepted is None:
        assert structure(accepted) == value
    with pytest.raises(StructureError):
        structure(refused)


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.booleans(), st.none()))
def test_no_validator_accepts_what_the_type_refuses(value):
    plain, lax = strict_structurer(int), strict_structurer(Annotated[int, pydantic.BeforeValidator(lambda _: 1)])
    try:
        plain(value)
    except StructureError:
        with pytest.raises(StructureError):
            lax(value)
    else:
        assert lax(value) == 1


def test_only_pydantic_may_apply_what_only_pydantic_reads(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(DefinitionError, match="only pydantic can apply it"):
        schema_of(Annotated[str, Guard()])


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Annotated[str, no_dots], "no_dots looks like a constraint"),
        (Annotated[str, functools.partial(no_dots)], "looks like a constraint"),
        (Annotated[str, annotated_types.Not(str.islower)], "Not.* looks like a constraint"),
        (Annotated[str, pydantic.PositiveInt], "doesn't apply to str"),
        (Annotated[dt.datetime, annotated_types.Timezone(None)], "looks like a constraint"),
        (Annotated[dt.datetime, msgspec.Meta(tz=True)], "looks like a constraint"),
        (Annotated[str, Broken()], "pydantic can't apply it"),
        (Annotated[int, Field(json_schema_extra=lambda schema: schema.pop("x"))], "its metadata can't be read"),
        (list[Annotated[int, Field(default=3)]], "only to a parameter"),
        (Annotated[int, Field(alias="x")] | None, "only to a parameter"),
    ],
)
def test_what_looks_like_a_constraint_is_never_dropped(annotation, reason):
    with pytest.raises(DefinitionError, match=reason):
        schema_of(annotation)


# --- validators of attrs on fields ---

NONE = type(None)


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
        (str, validators.in_(set("dbeac")), {"type": "string", "enum": [*"abcde"]}),
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
        (int, validators.or_(validators.lt(0), validators.gt(10)), INTEGER),
        (int, validators.not_(validators.gt(1)), INTEGER),
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
def test_attrs_validators_of_fields_become_keywords(annotation, validator, schema):
    cls = attrs.make_class("Made", {"x": attrs.field(type=annotation, validator=validator)})

    assert schema_of(cls)["properties"]["x"] == schema


# --- patterns ---


def written_pattern(pattern, way="search"):
    """The pattern in the schema of text that has to match this one of Python."""
    return schema_of(Annotated[str, validators.matches_re(pattern, func=getattr(re, way))]).get("pattern")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("^abc$", "^abc$"),
        (r"^\d{3}-\d{4}$", r"^\d{3}-\d{4}$"),
        (r"[\w.!#$%&'*+/=?^_`{|}~-]+@[a-z]{2,}", r"[\w.!#$%&'*+/=?^_`{|}~-]+@[a-z]{2,}"),
        (r"(a|b)*?(?:c)+", r"(a|b)*?(?:c)+"),
        (r"a{2}b{1,}c{1,2}?", r"a{2}b{1,}c{1,2}?"),
        (r"[^\x00-\x1f]\u00e9é", r"[^\x00-\x1f]\u00e9é"),
        (r"\.\*\[\]\(\)\{\}\|\/\\\^\$\+\?", r"\.\*\[\]\(\)\{\}\|\/\\\^\$\+\?"),
        (re.escape("a-b c@d") + r"[\w\@\-]", r"a-b c@d[\w@\-]"),
    ],
)
def test_portable_patterns_are_written_into_the_schema(pattern, text):
    assert written_pattern(re.compile(pattern)) == text


@pytest.mark.filterwarnings("ignore:Possible")
@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        *((each, 0) for each in ("(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "(?P<name>a)", "(?i:a)", "(?i)a", "(?>a)")),
        *((each, 0) for each in ("a++", "a*+", "a{1,2}+", r"\Aa", r"a\Z", "a{", "]", "[]a]", "a{,3}", "(?#note)a")),
        *((each, 0) for each in (r"\N{BULLET}", r"\a", "(a{1000}){1000}")),  # the last too large for the validator
        *((each, 0) for each in ("[[a]", "[a&&b]", "[--a]", "[a||b]", "[a~~b]")),  # operations, to some engine
        *(("a", flag) for flag in (re.IGNORECASE, re.MULTILINE, re.DOTALL, re.VERBOSE)),
    ],
)
def test_other_patterns_are_left_to_python(pattern, flags):
    assert written_pattern(re.compile(pattern, flags)) is None


@given(st.from_regex(r"[ab][*+?]?(?:\|[ab]{1,2})?\.?", fullmatch=True), st.text("ab.", max_size=5))
def test_a_portable_pattern_matches_as_in_python(pattern, text):
    for way in ("search", "match", "fullmatch"):
        validator = Validator({"pattern": written_pattern(re.compile(pattern), way)})
        assert validator.accepts(text) == (getattr(re, way)(pattern, text) is not None)
