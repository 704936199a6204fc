"""Tools of raw JSON Schemas, as foreign servers send them: `raw_<what>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard import Tool, ToolSpec

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}


def closed(required: Any = None, /, **properties: Any) -> dict[str, Any]:
    """The schema of an object of these keys, all required where nothing else is said."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def with_defs(schema: Mapping[str, Any], **definitions: Any) -> dict[str, Any]:
    return {**schema, "$defs": definitions}


def deep(levels: int) -> dict[str, Any]:
    """Objects in each other, this many."""
    schema: dict[str, Any] = closed(leaf=TEXT)
    for _ in range(levels - 1):
        schema = closed(inner=schema)
    return schema


def value(schema: Any) -> dict[str, Any]:
    return closed(value=schema)


NODE = {"type": "object", "properties": {"value": INTEGER, "next": {"$ref": "#/$defs/Node"}}, "required": ["value"]}
LONG = "It does much, and every sentence of this says so once more. " * 25

RAW: Mapping[str, Any] = {
    # the root
    "bare_object": {"type": "object"},
    "no_properties": {"type": "object", "properties": {}},
    "closed_and_empty": {"type": "object", "properties": {}, "additionalProperties": False},
    "open_object": {"type": "object", "properties": {"a": TEXT}},
    "typed_rest": {"type": "object", "properties": {"a": TEXT}, "additionalProperties": INTEGER},
    "annotated_root": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/tool",
        "$comment": "From elsewhere.",
        "title": "Arguments",
        "description": "What it takes.",
        **closed(a=TEXT),
    },
    "root_any_of": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "root_one_of": {"type": "object", "oneOf": [closed(a=TEXT), closed(b=INTEGER)]},
    "root_all_of": {
        "type": "object",
        "allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": INTEGER}}],
    },
    "root_not": {"type": "object", "properties": {"a": TEXT}, "not": {"required": ["b"]}},
    "root_enum": {"type": "object", "properties": {"a": INTEGER}, "enum": [{"a": 1}, {"a": 2}]},
    "root_ref_with_type": {"type": "object", "$ref": "#/$defs/Args", "$defs": {"Args": closed(a=TEXT)}},
    "root_recursion": {
        "type": "object",
        "properties": {"value": INTEGER, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["value"],
    },
    # references
    "reference": with_defs(closed(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/A"}), A=closed(x=INTEGER)),
    "reference_with_words": with_defs(
        closed(a={"$ref": "#/$defs/A", "description": "The first.", "default": "x"}), A=TEXT
    ),
    "reference_in_a_row": with_defs(
        closed(a={"$ref": "#/$defs/A"}), A={"$ref": "#/$defs/B"}, B={"$ref": "#/$defs/C"}, C=TEXT
    ),
    "definitions": {**closed(a={"$ref": "#/definitions/A"}), "definitions": {"A": TEXT}},
    "reference_by_place": closed(a=closed(x=INTEGER), b={"$ref": "#/properties/a"}),
    "reference_escaped": with_defs(closed(a={"$ref": "#/$defs/a~1b%20c"}), **{"a/b c": TEXT}),
    "anchor": with_defs(closed(a={"$ref": "#here"}), A={"$anchor": "here", **closed(x=TEXT)}),
    "linked_list": with_defs(value({"$ref": "#/$defs/Node"}), Node=NODE),
    "tree": with_defs(
        value({"$ref": "#/$defs/Tree"}),
        Tree=closed(name=TEXT, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}}),
    ),
    "mutual": with_defs(
        value({"$ref": "#/$defs/A"}),
        A=closed((), b={"$ref": "#/$defs/B"}),
        B=closed((), a={"$ref": "#/$defs/A"}, more={"type": "array", "items": {"$ref": "#/$defs/B"}}),
    ),
    "nullable_cycle": with_defs(
        value({"$ref": "#/$defs/Callback"}),
        Callback=closed(next={"anyOf": [{"$ref": "#/$defs/Callback"}, {"type": "null"}]}),
    ),
    "unused_definitions": with_defs(closed(a=TEXT), A=closed(x=INTEGER), B={"$ref": "#/$defs/A"}),
    # choices
    "any_of": value({"anyOf": [TEXT, INTEGER, closed(x=INTEGER)]}),
    "one_of": value({"oneOf": [closed(kind={"const": "a"}, x=INTEGER), closed(kind={"const": "b"}, y=TEXT)]}),
    "one_of_with_discriminator": value(
        {
            "oneOf": [closed(kind={"const": "a"}), closed(kind={"const": "b"})],
            "discriminator": {"propertyName": "kind"},
        }
    ),
    "one_of_constants": value({"oneOf": [{"const": "a", "title": "The first"}, {"const": "b", "title": "The second"}]}),
    "any_of_beside_type": value(
        {
            "type": "object",
            "properties": {"x": INTEGER, "y": INTEGER},
            "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
        }
    ),
    "any_of_with_words": value({"anyOf": [TEXT, {"type": "null"}], "description": "A text, or none.", "default": None}),
    "any_of_one": value({"anyOf": [TEXT]}),
    "any_of_enums": value({"anyOf": [{"enum": ["a", "b"]}, {"type": "integer", "enum": [1, 2]}]}),
    "all_of": value(
        {"allOf": [{"type": "object", "properties": {"x": INTEGER}, "required": ["x"]}, {"properties": {"y": TEXT}}]}
    ),
    "all_of_reference": with_defs(
        value({"allOf": [{"$ref": "#/$defs/A"}], "description": "As pydantic once wrote it."}), A=closed(x=INTEGER)
    ),
    "not": value({"type": "string", "not": {"enum": ["no"]}}),
    "if_then_else": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "x": INTEGER, "y": TEXT},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["x"]},
        "else": {"required": ["y"]},
    },
    "dependent": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT, "c": TEXT},
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"c": {"required": ["a"]}},
    },
    # values
    "const": value({"const": "only"}),
    "const_object": value({"const": {"a": [1, 2]}}),
    "const_null": value({"const": None}),
    "enum_of_numbers": value({"type": "integer", "enum": [1, 2, 3]}),
    "enum_of_all": value({"enum": ["a", 1, 2.5, True, None]}),
    "enum_with_null": value({"type": ["string", "null"], "enum": ["a", "b", None]}),
    "enum_of_objects": value({"enum": [{"a": 1}, {"a": 2}]}),
    "enum_huge": value({"type": "string", "enum": [f"value-{number:04}" for number in range(1_200)]}),
    "enum_empty_text": value({"type": "string", "enum": ["", "a"]}),
    "type_list": value({"type": ["string", "integer", "null"]}),
    "type_list_of_containers": value({"type": ["array", "object"], "items": INTEGER, "properties": {"x": INTEGER}}),
    "type_list_of_one": value({"type": ["string"]}),
    "null": value({"type": "null"}),
    "untyped": value({}),
    "untyped_with_words": value({"description": "Anything at all."}),
    "boolean_schema": {"type": "object", "properties": {"a": True, "b": TEXT}, "required": ["a"]},
    "never": {"type": "object", "properties": {"a": TEXT, "b": False}},
    "formats": closed(
        a={"type": "string", "format": "date-time"},
        b={"type": "string", "format": "uri"},
        c={"type": "string", "format": "ipv4"},
        d={"type": "string", "format": "regex"},
        e={"type": "string", "format": "hostname"},
        f={"type": "string", "format": "x-own"},
        g={"type": "integer", "format": "int64"},
        h={"type": "number", "format": "double"},
    ),
    "numbers": closed(
        a={"type": "integer", "minimum": 0, "maximum": 100},
        b={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        c={"type": "integer", "multipleOf": 5},
    ),
    "lengths": closed(
        a={"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z]+$"},
        b={"type": "array", "items": TEXT, "minItems": 2, "maxItems": 4, "uniqueItems": True},
        c={"type": "object", "minProperties": 1, "maxProperties": 3, "additionalProperties": INTEGER},
    ),
    "contents": closed(a={"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}),
    "defaults": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "array", "items": INTEGER, "default": []},
            "c": {"type": ["object", "null"], "default": None},
        },
    },
    "examples_inside": closed(a={"type": "string", "examples": ["one", "two"], "deprecated": True, "readOnly": False}),
    # arrays and maps
    "array_without_items": value({"type": "array"}),
    "array_of_anything": value({"type": "array", "items": {}}),
    "array_of_arrays": value(
        {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": INTEGER}}}
    ),
    "items_true": value({"type": "array", "items": True}),
    "prefix_items": value({"type": "array", "prefixItems": [TEXT, INTEGER], "items": False, "minItems": 2}),
    "prefix_items_open": value({"type": "array", "prefixItems": [TEXT], "items": INTEGER}),
    "prefix_items_alone": value({"type": "array", "prefixItems": [TEXT, TEXT]}),
    "contains": value(
        {"type": "array", "items": INTEGER, "contains": {"const": 7}, "minContains": 1, "maxContains": 2}
    ),
    "unevaluated": value({"type": "object", "properties": {"x": INTEGER}, "unevaluatedProperties": False}),
    "pattern_properties": value({"type": "object", "patternProperties": {"^x-": TEXT}, "additionalProperties": False}),
    "property_names": value(
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": INTEGER}
    ),
    "map_of_maps": value({"type": "object", "additionalProperties": {"type": "object", "additionalProperties": TEXT}}),
    "free_object": value({"type": "object"}),
    "required_but_unknown": {"type": "object", "properties": {"a": TEXT}, "required": ["a", "b"]},
    "required_alone": {"type": "object", "required": ["a"]},
    # older drafts
    "draft_7_tuple": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **value({"type": "array", "items": [TEXT, INTEGER], "additionalItems": False}),
    },
    "draft_7_dependencies": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": TEXT, "b": {"$ref": "#/definitions/B", "description": "Passed over in draft 7."}},
        "dependencies": {"a": ["b"]},
        "definitions": {"B": INTEGER},
    },
    "draft_4_bounds": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **value({"type": "number", "minimum": 0, "exclusiveMinimum": True}),
    },
    # size
    "hundred_parameters": closed(
        [f"p{number:02}" for number in range(50)],
        **{f"p{number:02}": {"type": "integer", "description": f"Number {number}."} for number in range(100)},
    ),
    "ten_levels": deep(10),
    "thirteen_levels": deep(13),
    "thirty_optional": closed((), **{f"o{number:02}": TEXT for number in range(30)}),
    "twenty_unions": closed(**{f"u{number:02}": {"anyOf": [TEXT, INTEGER]} for number in range(20)}),
    "long_description_inside": closed(a={"type": "string", "description": LONG}),
    # names
    "non_ascii_names": closed(straße=TEXT, 名前=TEXT, prénom=TEXT),
    "names_with_spaces": closed(**{"first name": TEXT, " ": INTEGER}),
    "names_with_dots": closed(**{"a.b": TEXT, "a/b": TEXT, "a~b": TEXT}),
    "names_with_dollars": closed(**{"$filter": TEXT, "$ref": TEXT, "@type": TEXT}),
    "names_of_keywords": closed(type=TEXT, properties=INTEGER, required=TEXT, enum=TEXT, anyOf=TEXT),
    "names_of_python": closed(**{"class": TEXT, "__class__": TEXT, "self": INTEGER, "get": TEXT}),
    "names_of_javascript": closed(constructor=TEXT, __proto__=TEXT, toString=INTEGER),
    "names_with_digits": closed(**{"1st": TEXT, "2": TEXT, "-": INTEGER}),
    "name_empty": closed(**{"": TEXT}),
    "name_of_64": closed(**{"n" * 64: TEXT}),
    "name_of_100": closed(**{"n" * 100: TEXT}),
    "names_that_meet": closed(**{"a b": TEXT, "a_b": TEXT, "a.b": INTEGER}),
    "inner_names": value(closed(**{"größe in m": {"type": "number"}, "x-y": TEXT})),
}
"""What follows `raw_` in the name -> the input schema."""

UNREGISTERED: Mapping[str, Any] = {
    "no_type": {"properties": {"a": TEXT}, "required": ["a"]},
    "nothing_said": {},
    "root_any_of_without_type": {"anyOf": [closed(a=TEXT), closed(b=INTEGER)]},
    "root_ref": {"$ref": "#/$defs/Args", "$defs": {"Args": closed(a=TEXT)}},
    "root_of_all_types": {"type": ["object", "null"], "properties": {"a": TEXT}},
    "look_around": closed((), code={"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]+$"}),
    "not_well_formed": {"type": "object", "properties": {"a": {"type": "text", "minLength": -1}}, "required": "a"},
    "reference_to_elsewhere": closed((), a={"$ref": "https://example.com/schemas/a.json"}),
    "reference_to_nothing": closed((), a={"$ref": "#/$defs/Missing"}, b=TEXT),
}
"""The same of schemas that no board takes: a host may hand an exporter a spec that it has made by itself."""


def _made(what: str, schema: Any) -> Tool:
    return Tool.from_schema(f"raw_{what}", schema, description=_said(what))


def _said(what: str) -> str:
    return f"Takes what a foreign schema says: {what}."


TOOLS: tuple[Tool, ...] = (
    *(_made(what, schema) for what, schema in RAW.items()),
    *(Tool(ToolSpec(f"raw_{what}", _said(what), input_schema=schema)) for what, schema in UNREGISTERED.items()),
)
