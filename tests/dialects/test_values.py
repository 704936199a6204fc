from __future__ import annotations

import pytest

from pegboard.dialects.values import (
    any_value,
    arrays_need_items,
    boolean_schemas,
    const_to_enum,
    nullable,
    or_null,
    plain_enums,
    simple_enums,
    string_enums,
    takes_null,
    tuple_items,
    type_lists,
    typed_enums,
    typed_values,
    unevaluated,
)

CASES = {
    "anything": (
        {"description": "d"},
        {
            "description": "d",
            "type": ["string", "number", "boolean", "object", "array", "null"],
            "items": {"type": ["string", "number", "boolean", "object", "null"]},
        },
        [" type"],
    ),
    "with items": (
        {"items": {"type": "null"}},
        {"items": {"type": "null"}, "type": ["string", "number", "boolean", "object", "array", "null"]},
        [],
    ),
    "typed": ({"type": "string"}, {"type": "string"}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_cases(case, apply):
    schema, expected, changes = CASES[case]
    assert apply(any_value, schema) == (expected, changes)


CASES_ARRAYS_NEED_ITEMS = {
    "an array": ({"type": "array"}, {"type": "array", "items": {}}, []),
    "or null": ({"type": ["null", "array"]}, {"type": ["null", "array"], "items": {}}, []),
    "with items": ({"type": "array", "items": {"type": "null"}}, {"type": "array", "items": {"type": "null"}}, []),
    "no array": ({"type": "object"}, {"type": "object"}, []),
    "a list of types without one": ({"type": ["string"]}, {"type": ["string"]}, []),
}


@pytest.mark.parametrize("case", CASES_ARRAYS_NEED_ITEMS)
def test_cases_arrays_need_items(case, apply):
    schema, expected, changes = CASES_ARRAYS_NEED_ITEMS[case]
    assert apply(arrays_need_items, schema) == (expected, changes)


CASES_BOOLEAN_SCHEMAS = {
    "true": ({"items": True, "anyOf": [True, {"type": "null"}]}, {"items": {}, "anyOf": [{}, {"type": "null"}]}, []),
    "what may stay": ({"additionalProperties": False}, {"additionalProperties": False}, []),
    "no items": ({"items": False}, {"maxItems": 0}, []),
    "no further items": (
        {"prefixItems": [True, {}], "items": False, "maxItems": 9},
        {"prefixItems": [{}, {}], "maxItems": 2},
        [],
    ),
    "no such alternative": ({"oneOf": [False, {"type": "null"}]}, {"oneOf": [{"type": "null"}]}, []),
    "no alternative at all": ({"anyOf": [False]}, {"anyOf": [{"not": {}}]}, []),
    "never": (
        {"allOf": [False], "not": False, "contains": False},
        {"allOf": [{"not": {}}], "not": {"not": {}}, "contains": {"not": {}}},
        [],
    ),
    "a forbidden property of a closed object": (
        {"properties": {"a": False, "b": True}, "required": ["a", "b"], "additionalProperties": False},
        {"properties": {"b": {}}, "required": ["b"], "additionalProperties": False},
        [],
    ),
    "a forbidden property of an open object": (
        {"properties": {"a": False}},
        {"properties": {}},
        [" properties"],
    ),
    "by name": (
        {"patternProperties": {"^a": True}, "$defs": {"A": False}},
        {"patternProperties": {"^a": {}}, "$defs": {"A": {"not": {}}}},
        [],
    ),
}


@pytest.mark.parametrize("case", CASES_BOOLEAN_SCHEMAS)
def test_cases_boolean_schemas(case, apply):
    schema, expected, changes = CASES_BOOLEAN_SCHEMAS[case]
    assert apply(boolean_schemas, schema) == (expected, changes)


CASES_CONST_TO_ENUM = {
    "a constant": ({"title": "t", "const": 1, "type": "integer"}, {"title": "t", "enum": [1], "type": "integer"}, []),
    "null": ({"items": {"const": None}}, {"items": {"enum": [None]}}, []),
    "among others": ({"enum": [1, 2], "const": 1.0}, {"enum": [1.0]}, []),
    "not among others": ({"enum": [1, 2], "const": True}, {"enum": [1, 2]}, [" const"]),
    "a property of that name": ({"properties": {"const": {}}}, {"properties": {"const": {}}}, []),
}


@pytest.mark.parametrize("case", CASES_CONST_TO_ENUM)
def test_cases_const_to_enum(case, apply):
    schema, expected, changes = CASES_CONST_TO_ENUM[case]
    assert apply(const_to_enum, schema) == (expected, changes)


CASES_NULLABLE = {
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


@pytest.mark.parametrize("case", CASES_NULLABLE)
def test_cases_nullable(case, apply):
    schema, expected, changes = CASES_NULLABLE[case]
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


TEXT, NUMBER = {"type": "string"}, {"type": "number", "title": "N"}
ORDER = {"description": "Its first items, in this order: string, N."}

CASES_TUPLE_ITEMS = {
    "exactly these": (
        {"prefixItems": [TEXT, NUMBER], "maxItems": 2},
        {"maxItems": 2, **ORDER, "items": {"anyOf": [TEXT, NUMBER]}},
        [" prefixItems"],
    ),
    "all the same": ({"prefixItems": [TEXT, TEXT], "maxItems": 2}, {"maxItems": 2, "items": TEXT}, []),
    "more of the same": ({"prefixItems": [TEXT], "items": TEXT}, {"items": TEXT}, []),
    "then others": (
        {"prefixItems": [TEXT, NUMBER], "items": {"type": "null"}},
        {**ORDER, "items": {"anyOf": [TEXT, NUMBER, {"type": "null"}]}},
        [" prefixItems"],
    ),
    "then anything": ({"prefixItems": [TEXT, NUMBER]}, {**ORDER, "items": {}}, [" prefixItems"]),
    "no tuple": ({"items": TEXT}, {"items": TEXT}, []),
}


@pytest.mark.parametrize("case", CASES_TUPLE_ITEMS)
def test_first_items_become_items(case, apply):
    schema, expected, changes = CASES_TUPLE_ITEMS[case]
    assert apply(tuple_items(), schema) == (expected, changes)


def test_a_closed_tuple_ends_after_its_items(apply):
    assert apply(tuple_items(closed=True), {"prefixItems": [TEXT, NUMBER]}) == (
        {"maxItems": 2, **ORDER, "items": {"anyOf": [TEXT, NUMBER]}},
        [" prefixItems"],
    )
    assert apply(tuple_items(closed=True), {"prefixItems": [TEXT], "items": {}, "maxItems": 3}) == (
        {"maxItems": 3, "description": "Its first items, in this order: string.", "items": {}},
        [" prefixItems"],
    )


CASES_TYPE_LISTS = {
    "two types": (
        {"type": ["string", "null"], "minLength": 1, "description": "d"},
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "description": "d"},
        [],
    ),
    "one type": ({"type": ["string"]}, {"type": "string"}, []),
    "values": (
        {"type": ["integer", "string", "null"], "enum": ["a", 1, 2.0, None, "b"]},
        {
            "anyOf": [
                {"type": "integer", "enum": [1, 2.0]},
                {"type": "string", "enum": ["a", "b"]},
                {"type": "null"},
            ]
        },
        [],
    ),
    "values of one of the types": ({"type": ["string", "null"], "enum": ["a"]}, {"type": "string", "enum": ["a"]}, []),
    "values of none": ({"type": ["string", "null"], "enum": [1]}, {"enum": []}, []),
    "every integer is a number": (
        {"type": ["integer", "number", "null"], "enum": [1, 1.5, None], "minimum": 1},
        {"anyOf": [{"type": "number", "minimum": 1, "enum": [1, 1.5]}, {"type": "null"}]},
        [],
    ),
    "beside anyOf": ({"type": ["string", "null"], "anyOf": [{}]}, {"type": ["string", "null"], "anyOf": [{}]}, []),
}


@pytest.mark.parametrize("case", CASES_TYPE_LISTS)
def test_cases_type_lists(case, apply):
    schema, expected, changes = CASES_TYPE_LISTS[case]
    assert apply(type_lists, schema) == (expected, changes)


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


CASES_STRING_ENUMS = {
    "strings": ({"enum": ["a"]}, {"enum": ["a"]}, []),
    "numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}, [" enum"]),
    "an empty string": ({"enum": ["a", ""]}, {"description": 'One of: "a", "".'}, [" enum"]),
    "none": ({"properties": {"enum": {}}}, {"properties": {"enum": {}}}, []),
}


@pytest.mark.parametrize("case", CASES_STRING_ENUMS)
def test_cases_string_enums(case, apply):
    schema, expected, changes = CASES_STRING_ENUMS[case]
    assert apply(string_enums, schema) == (expected, changes)


PLAIN = {
    "strings, numbers and null": ({"enum": ["a", 1, 2.5, None]}, {"enum": ["a", 1, 2.5, None]}, []),
    "a boolean": ({"type": "boolean", "enum": [True]}, {"type": "boolean", "description": "One of: true."}, [" enum"]),
    "an object": ({"enum": ["a", {"b": 1}]}, {"description": 'One of: "a", {"b":1}.'}, [" enum"]),
    "an array": ({"enum": [[]], "description": "None."}, {"description": "None. One of: []."}, [" enum"]),
    "none": ({"properties": {"enum": {}}}, {"properties": {"enum": {}}}, []),
}


@pytest.mark.parametrize("case", PLAIN)
def test_plain_cases(case, apply):
    schema, expected, changes = PLAIN[case]
    assert apply(plain_enums, schema) == (expected, changes)


CASES_UNEVALUATED = {
    "alone": ({"unevaluatedProperties": False}, {"additionalProperties": False}, []),
    "beside its kin": (
        {"additionalProperties": True, "unevaluatedProperties": False},
        {"additionalProperties": True},
        [],
    ),
    "with others about": (
        {"anyOf": [{}], "unevaluatedProperties": False},
        {"anyOf": [{}], "unevaluatedProperties": False},
        [],
    ),
    "items": ({"unevaluatedItems": {"type": "null"}}, {"items": {"type": "null"}}, []),
    "no items": ({"prefixItems": [{}], "unevaluatedItems": False}, {"prefixItems": [{}], "maxItems": 1}, []),
    "any items": ({"unevaluatedItems": True}, {}, []),
}


@pytest.mark.parametrize("case", CASES_UNEVALUATED)
def test_cases_unevaluated(case, apply):
    schema, expected, changes = CASES_UNEVALUATED[case]
    assert apply(unevaluated, schema) == (expected, changes)
