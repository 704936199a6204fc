from __future__ import annotations

import pytest

from pegboard_clients.dialects.values import (
    any_value,
    arrays_need_items,
    boolean_schemas,
    close_objects,
    const_to_enum,
    nullable,
    open_objects,
    or_null,
    pattern_properties,
    plain_enums,
    property_names,
    require_all,
    required_properties,
    simple_enums,
    string_enums,
    takes_null,
    tuple_items,
    type_lists,
    typed_enums,
    typed_values,
    unevaluated,
)

TEXT, NULL = {"type": "string"}, {"type": "null"}
TABLES: dict[object, dict[str, tuple]] = {}
TABLES[any_value] = {
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
        {"items": NULL},
        {"items": NULL, "type": ["string", "number", "boolean", "object", "array", "null"]},
    ),
    "typed": (TEXT,),
}

TABLES[arrays_need_items] = {
    "an array": ({"type": "array"}, {"type": "array", "items": {}}),
    "or null": ({"type": ["null", "array"]}, {"type": ["null", "array"], "items": {}}),
    "with items": ({"type": "array", "items": NULL},),
    "no array": ({"type": "object"},),
    "a list of types without one": ({"type": ["string"]},),
}

TABLES[boolean_schemas] = {
    "true": ({"items": True, "anyOf": [True, NULL]}, {"items": {}, "anyOf": [{}, NULL]}),
    "what may stay": ({"additionalProperties": False},),
    "no items": ({"items": False}, {"maxItems": 0}),
    "no further items": (
        {"prefixItems": [True, {}], "items": False, "maxItems": 9},
        {"prefixItems": [{}, {}], "maxItems": 2},
    ),
    "no such alternative": ({"oneOf": [False, NULL]}, {"oneOf": [NULL]}),
    "no alternative at all": ({"anyOf": [False]}, {"anyOf": [{"not": {}}]}),
    "never": (
        {"allOf": [False], "not": False, "contains": False},
        {"allOf": [{"not": {}}], "not": {"not": {}}, "contains": {"not": {}}},
    ),
    "a forbidden property of a closed object": (
        {"properties": {"a": False, "b": True}, "required": ["a", "b"], "additionalProperties": False},
        {"properties": {"b": {}}, "required": ["b"], "additionalProperties": False},
    ),
    "a forbidden property of an open object": ({"properties": {"a": False}}, {"properties": {}}, [" properties"]),
    "by name": (
        {"patternProperties": {"^a": True}, "$defs": {"A": False}},
        {"patternProperties": {"^a": {}}, "$defs": {"A": {"not": {}}}},
    ),
}

TABLES[const_to_enum] = {
    "a constant": ({"title": "t", "const": 1, "type": "integer"}, {"title": "t", "enum": [1], "type": "integer"}),
    "null": ({"items": {"const": None}}, {"items": {"enum": [None]}}),
    "among others": ({"enum": [1, 2], "const": 1.0}, {"enum": [1.0]}),
    "not among others": ({"enum": [1, 2], "const": True}, {"enum": [1, 2]}, [" const"]),
    "a property of that name": ({"properties": {"const": {}}},),
}

TABLES[nullable] = {
    "one other": (
        {"anyOf": [{"type": "string", "description": "inner"}, NULL], "default": None},
        {"type": "string", "description": "inner", "default": None, "nullable": True},
    ),
    "descriptions of both": (
        {"anyOf": [NULL, {"type": "string", "description": "inner"}], "description": "outer"},
        {"type": "string", "description": "outer inner", "nullable": True},
    ),
    "several others": (
        {"anyOf": [TEXT, NULL, {"type": "number"}], "title": "t"},
        {"anyOf": [TEXT, {"type": "number"}], "title": "t", "nullable": True},
    ),
    "only null": ({"anyOf": [NULL]}, NULL),
    "no null": ({"anyOf": [TEXT]},),
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "string", "title": "t"}, {"type": ["string", "null"], "title": "t"}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a"]}, {"enum": ["a", None]}),
        ({"anyOf": [TEXT], "title": "t"}, {"anyOf": [TEXT, NULL], "title": "t"}),
        (
            {"type": "object", "anyOf": [{"type": "object"}], "title": "t"},
            {"anyOf": [{"type": "object", "anyOf": [{"type": "object"}]}, NULL], "title": "t"},
        ),
        ({"$ref": "#/$defs/A", "title": "t"}, {"anyOf": [{"$ref": "#/$defs/A"}, NULL], "title": "t"}),
    ],
)
def test_null_is_added(given, expected):
    assert or_null(given) == expected


@pytest.mark.parametrize(
    "given", [{}, NULL, {"type": ["null", "string"]}, {"enum": [1, None]}, {"anyOf": [TEXT, {}]}, {"minimum": 3}]
)
def test_what_takes_null_stays(given):
    assert takes_null(given)
    assert or_null(given) is given


NUMBER = {"type": "number", "title": "N"}
ORDER = {"description": "Its first items, in this order: string, N."}

TABLES[tuple_items()] = {
    "exactly these": (
        {"prefixItems": [TEXT, NUMBER], "maxItems": 2},
        {"maxItems": 2, **ORDER, "items": {"anyOf": [TEXT, NUMBER]}},
        [" prefixItems"],
    ),
    "all the same": ({"prefixItems": [TEXT, TEXT], "maxItems": 2}, {"maxItems": 2, "items": TEXT}),
    "more of the same": ({"prefixItems": [TEXT], "items": TEXT}, {"items": TEXT}),
    "then others": (
        {"prefixItems": [TEXT, NUMBER], "items": NULL},
        {**ORDER, "items": {"anyOf": [TEXT, NUMBER, NULL]}},
        [" prefixItems"],
    ),
    "then anything": ({"prefixItems": [TEXT, NUMBER]}, {**ORDER, "items": {}}, [" prefixItems"]),
    "no tuple": ({"items": TEXT},),
}


TABLES[tuple_items(closed=True)] = {
    "these alone": (
        {"prefixItems": [TEXT, NUMBER]},
        {"maxItems": 2, **ORDER, "items": {"anyOf": [TEXT, NUMBER]}},
        [" prefixItems"],
    ),
    "then anything": (
        {"prefixItems": [TEXT], "items": {}, "maxItems": 3},
        {"maxItems": 3, "description": "Its first items, in this order: string.", "items": {}},
        [" prefixItems"],
    ),
}

TABLES[type_lists] = {
    "two types": (
        {"type": ["string", "null"], "minLength": 1, "description": "d"},
        {"anyOf": [{"type": "string", "minLength": 1}, NULL], "description": "d"},
    ),
    "one type": ({"type": ["string"]}, TEXT),
    "values": (
        {"type": ["integer", "string", "null"], "enum": ["a", 1, 2.0, None, "b"]},
        {"anyOf": [{"type": "integer", "enum": [1, 2.0]}, {"type": "string", "enum": ["a", "b"]}, NULL]},
    ),
    "values of one of the types": ({"type": ["string", "null"], "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
    "values of none": ({"type": ["string", "null"], "enum": [1]}, {"enum": []}),
    "every integer is a number": (
        {"type": ["integer", "number", "null"], "enum": [1, 1.5, None], "minimum": 1},
        {"anyOf": [{"type": "number", "minimum": 1, "enum": [1, 1.5]}, NULL]},
    ),
    "beside anyOf": ({"type": ["string", "null"], "anyOf": [{}]},),
}


MANY = [1, None, 1.5, True, [], {}]

TABLES[typed_enums] = {
    "of one type": ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    "of all": ({"enum": MANY}, {"type": ["integer", "null", "number", "boolean", "array", "object"], "enum": MANY}),
    "typed": ({"type": "string", "enum": [1]},),
    "empty": ({"enum": []},),
}

TABLES[typed_values] = {
    "an object": ({"properties": {}}, {"type": "object", "properties": {}}, [" type"]),
    "an array": ({"minItems": 1}, {"type": "array", "minItems": 1}, [" type"]),
    "a string": ({"pattern": "a"}, {"type": "string", "pattern": "a"}, [" type"]),
    "a number": ({"minimum": 1}, {"type": "number", "minimum": 1}, [" type"]),
    "anything": ({"title": "t"}, {"title": "t"}, [" type!"]),
    "of two types": ({"minimum": 1, "pattern": "a"}, {"minimum": 1, "pattern": "a"}, [" type!"]),
    "typed": ({"anyOf": [NULL, {"$ref": "#"}, {"enum": [1]}]},),
}

TABLES[simple_enums] = {
    "an object": ({"enum": [1, {}]}, {"enum": [1, {}]}, [" enum!"]),
    "scalars": ({"enum": [1, None]},),
}

TABLES[string_enums] = {
    "strings": ({"enum": ["a"]},),
    "numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2."}, [" enum"]),
    "an empty string": ({"enum": ["a", ""]}, {"description": 'One of: "a", "".'}, [" enum"]),
    "none": ({"properties": {"enum": {}}},),
}

TABLES[plain_enums] = {
    "strings, numbers and null": ({"enum": ["a", 1, 2.5, None]},),
    "a boolean": ({"type": "boolean", "enum": [True]}, {"type": "boolean", "description": "One of: true."}, [" enum"]),
    "an object": ({"enum": ["a", {"b": 1}]}, {"description": 'One of: "a", {"b":1}.'}, [" enum"]),
    "an array": ({"enum": [[]], "description": "None."}, {"description": "None. One of: []."}, [" enum"]),
    "none": ({"properties": {"enum": {}}},),
}

TABLES[unevaluated] = {
    "alone": ({"unevaluatedProperties": False}, {"additionalProperties": False}),
    "beside its kin": ({"additionalProperties": True, "unevaluatedProperties": False}, {"additionalProperties": True}),
    "with others about": ({"anyOf": [{}], "unevaluatedProperties": False},),
    "items": ({"unevaluatedItems": NULL}, {"items": NULL}),
    "no items": ({"prefixItems": [{}], "unevaluatedItems": False}, {"prefixItems": [{}], "maxItems": 1}),
    "any items": ({"unevaluatedItems": True}, {}),
}

TABLES[close_objects] = {
    "open": (
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
        {
            "type": "object",
            "properties": {"a": {"properties": {}, "type": ["object", "null"], "additionalProperties": False}},
            "additionalProperties": False,
        },
        ["/properties/a additionalProperties", " additionalProperties"],
    ),
    "welcoming": (
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {}, "additionalProperties": False},
    ),
    "closed": ({"properties": {}, "additionalProperties": False},),
    "no object": ({"type": ["string", "null"]},),
}

TABLES[open_objects] = {
    "a map": (
        {"properties": {"a": {"type": "object", "additionalProperties": TEXT}}},
        {"properties": {"a": {"type": "object", "additionalProperties": TEXT}}},
        ["/properties/a additionalProperties!"],
    ),
    "any object": (
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        ["/properties/a properties!"],
    ),
    "no parameters": ({"type": "object"},),
    "closed": ({"type": "object", "additionalProperties": False},),
    "no object": (TEXT,),
}

TABLES[pattern_properties] = {
    "beside closed": (
        {"patternProperties": {"^x": TEXT}, "additionalProperties": False},
        {"description": 'Keys matching ^x hold {"type":"string"}.', "additionalProperties": TEXT},
        [" patternProperties"],
    ),
    "several": (
        {"patternProperties": {"^x": TEXT, "^y": NULL}, "additionalProperties": NULL},
        {
            "description": 'Keys matching ^x hold {"type":"string"}. Keys matching ^y hold {"type":"null"}.',
            "additionalProperties": {"anyOf": [TEXT, NULL]},
        },
        [" patternProperties"],
    ),
    "open": (
        {"patternProperties": {"^x": TEXT}},
        {"description": 'Keys matching ^x hold {"type":"string"}.', "additionalProperties": True},
        [" patternProperties"],
    ),
    "none": ({"patternProperties": {}, "additionalProperties": False}, {"additionalProperties": False}),
}

STEP = property_names(r"[A-Za-z0-9_.-]{1,64}")

TABLES[STEP] = {
    "optional": (
        {"properties": {"a b": {}, "c": {}}, "required": ["c"]},
        {"properties": {"c": {}}, "required": ["c"]},
        ["/properties/a b properties"],
    ),
    "required": (
        {"properties": {"a/b": {}}, "required": ["a/b"]},
        {"properties": {}, "required": []},
        ["/properties/a~1b properties!"],
    ),
    "below": (
        {"items": {"properties": {"x" * 65: {}}}},
        {"items": {"properties": {}}},
        [f"/items/properties/{'x' * 65} properties"],
    ),
    "fitting": ({"properties": {"a.b-c_D9": {}}},),
}


def test_a_narrower_pattern_takes_fewer_names(apply):
    schema = {"properties": {"a-b": {}, "9a": {}, "_a9": {}}}
    assert apply(property_names(r"[A-Za-z_][A-Za-z0-9_]{0,63}"), schema)[0] == {"properties": {"_a9": {}}}


TABLES[require_all] = {
    "optional": (
        {"properties": {"a": TEXT, "b": NULL, "c": {"type": "integer"}}, "required": ["c"]},
        {
            "properties": {"a": {"type": ["string", "null"]}, "b": NULL, "c": {"type": "integer"}},
            "required": ["a", "b", "c"],
        },
    ),
    "required": ({"properties": {"a": TEXT}, "required": ["a"]},),
    "no such property": ({"properties": {}, "required": ["a"]}, {"properties": {}, "required": []}, [" required!"]),
    "no object": (TEXT,),
}

TABLES[required_properties] = {
    "all are there": ({"properties": {"a": TEXT}, "required": ["a"]},),
    "nothing is required": ({"properties": {"a": TEXT}},),
    "one is missing": (
        {"properties": {"a": TEXT}, "required": ["b", "a"]},
        {"properties": {"a": TEXT, "b": {}}, "required": ["b", "a"]},
    ),
    "no properties": ({"required": ["a"]}, {"required": ["a"], "properties": {"a": {}}}),
    "others have a type": (
        {"required": ["a"], "additionalProperties": TEXT},
        {"required": ["a"], "additionalProperties": TEXT, "properties": {"a": TEXT}},
    ),
    "no others are taken": (
        {"required": ["a"], "additionalProperties": False},
        {"required": ["a"], "additionalProperties": False, "properties": {"a": {}}},
    ),
    "deep inside": (
        {"items": {"anyOf": [{"required": ["a"]}]}},
        {"items": {"anyOf": [{"required": ["a"], "properties": {"a": {}}}]}},
    ),
    "a property of that name": ({"properties": {"required": TEXT}},),
}


def test_each_step_rewrites_as_in_its_table(step, schema, expected, changes, apply):
    assert apply(step, schema) == (expected, changes)
