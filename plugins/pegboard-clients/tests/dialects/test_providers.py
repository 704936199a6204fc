from __future__ import annotations

import pytest
from google.genai.types import JSONSchema, Schema

from fake_vendors.rules import dialects as providers
from pegboard_clients.dialects.dialect import Change, Dialect

DIALECTS = {each.name: each for each in vars(providers).values() if isinstance(each, Dialect)}
TEXT, NULL = {"type": "string"}, {"type": "null"}


def tool(*required, **properties):
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def closed(*required, **properties):
    return {**tool(*required, **properties), "additionalProperties": False}


CLOSED = " additionalProperties"
BOUNDED = closed("n", n={"type": "integer", "minimum": 1, "multipleOf": 2}, s={**TEXT, "minLength": 2, "format": "uri"})
NODE = closed(name=TEXT, next={"$ref": "#/$defs/Node"})
TREE = {**closed(tree={"$ref": "#/$defs/Node", "description": "The tree."}), "$defs": {"Node": NODE}}
WRAPPED_TREE = {**TREE, **closed(tree={"anyOf": [{"$ref": "#/$defs/Node"}], "description": "The tree."})}
UNION = closed("u", u={"oneOf": [TEXT, {"const": 3}, NULL]})
ANY_OF = closed("u", u={"anyOf": [TEXT, {"type": "integer", "enum": [3]}, NULL]})
PAIR = closed("p", p={"type": "array", "prefixItems": [TEXT, {"type": "number"}], "minItems": 2, "maxItems": 2})
EITHER = {**tool(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
NEEDS_ONE = {**tool(a=TEXT, b=TEXT), "description": "Needs one of: a; b."}
MAP = closed("m", m={"type": "object", "additionalProperties": {"type": "integer"}})
ANYTHING = closed("x", x={})
ODD_NAME = closed("a", a=TEXT, **{"b c": TEXT})
LONG = "Of the same form as the Node around it."
ITEMS = "Its first items, in this order: string, number."
ONE_OF_THEM = {"type": "array", "items": {"anyOf": [TEXT, {"type": "number"}]}}
LIST = closed("p", p={**ONE_OF_THEM, "minItems": 2, "maxItems": 2, "description": ITEMS})

SAME = [
    *((name, "bounded", BOUNDED) for name in ("plain", "openai", "anthropic", "bedrock")),
    *((name, "tree", TREE) for name in ("openai", "anthropic", "bedrock")),
    *(("openai", "odd name", ODD_NAME), ("bedrock", "odd name", ODD_NAME)),
    *(("gemini", "map", MAP), ("gemini", "anything", ANYTHING)),
]
CASES = {
    **{(name, what): (schema, schema, []) for name, what, schema in SAME},
    # --- bounds and formats ---
    ("openai-strict", "bounded"): (
        BOUNDED,
        closed(
            "n",
            "s",
            n={"type": "integer", "minimum": 1, "multipleOf": 2},
            s={"type": ["string", "null"], "description": "At least 2 characters. Format: uri."},
        ),
        ["/properties/s minLength", "/properties/s format"],
    ),
    ("anthropic-strict", "bounded"): (
        BOUNDED,
        closed(
            "n",
            n={"type": "integer", "description": "At least 1. A multiple of 2."},
            s={**TEXT, "format": "uri", "description": "At least 2 characters."},
        ),
        ["/properties/n minimum", "/properties/n multipleOf", "/properties/s minLength"],
    ),
    ("gemini", "bounded"): (
        BOUNDED,
        closed(
            "n",
            n={"type": "integer", "minimum": 1, "description": "A multiple of 2."},
            s={**TEXT, "format": "uri", "description": "At least 2 characters."},
        ),
        ["/properties/n multipleOf", "/properties/s minLength"],
    ),
    ("gemini-schema", "bounded"): (
        BOUNDED,
        {
            "type": "OBJECT",
            "properties": {
                "n": {"type": "INTEGER", "minimum": 1, "description": "A multiple of 2."},
                "s": {"type": "STRING", "minLength": 2, "description": "Format: uri."},
            },
            "required": ["n"],
        },
        ["/properties/n multipleOf", "/properties/s format"],
    ),
    ("ollama", "bounded"): (
        BOUNDED,
        tool(
            "n",
            n={"type": "integer", "description": "At least 1. A multiple of 2."},
            s={**TEXT, "description": "At least 2 characters. Format: uri."},
        ),
        ["/properties/n minimum", "/properties/n multipleOf", "/properties/s minLength", "/properties/s format"],
    ),
    # --- types made of themselves ---
    ("openai-strict", "tree"): (
        TREE,
        {
            **closed("tree", tree={"anyOf": [{"$ref": "#/$defs/Node"}, NULL], "description": "The tree."}),
            "$defs": {
                "Node": closed(
                    "name", "next", name={"type": ["string", "null"]}, next={"anyOf": [{"$ref": "#/$defs/Node"}, NULL]}
                )
            },
        },
        [],
    ),
    **dict.fromkeys((("gemini", "tree"), ("moonshot", "tree")), (TREE, WRAPPED_TREE, [])),
    ("ollama", "tree"): (
        TREE,
        tool(tree={**tool(name=TEXT, next={"type": "object", "description": LONG}), "description": "The tree."}),
        ["/properties/tree/properties/next $ref"],
    ),
    # --- unions ---
    ("moonshot", "types beside a union"): (
        closed(x={"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, NULL]}),
        closed(x={**tool("a", a=TEXT)}),
        [],
    ),
    ("moonshot", "types"): (closed(x={"type": ["string", "null"]}), closed(x={"anyOf": [TEXT, NULL]}), []),
    **{(name, "pair"): (PAIR, LIST, ["/properties/p prefixItems"]) for name in ("moonshot", "openai-strict")},
    **{(name, "union"): (UNION, ANY_OF, []) for name in ("openai-strict", "anthropic-strict", "gemini")},
    ("gemini-schema", "union"): (
        UNION,
        {
            "type": "OBJECT",
            "properties": {
                "u": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER", "description": "One of: 3."}], "nullable": True}
            },
            "required": ["u"],
        },
        ["/properties/u/anyOf/1 enum"],
    ),
    ("gemini-schema", "openapi"): (
        {"type": "object", "properties": {"n": {"type": "string", "nullable": True}}, "required": ["n"]},
        {"type": "OBJECT", "properties": {"n": {"type": "STRING", "nullable": True}}, "required": ["n"]},
        [],
    ),
    # --- tuples ---
    ("openai", "pair"): (PAIR, closed("p", p={**PAIR["properties"]["p"], "items": {}}), []),
    ("anthropic-strict", "pair"): (
        PAIR,
        closed("p", p={**ONE_OF_THEM, "minItems": 1, "description": f"{ITEMS} At most 2 items. At least 2 items."}),
        ["/properties/p prefixItems", "/properties/p maxItems", "/properties/p minItems"],
    ),
    # --- roots ---
    **{(name, "either"): (EITHER, NEEDS_ONE, [" anyOf"]) for name in ("openai", "anthropic", "bedrock", "gemini")},
    # --- maps and anything ---
    ("ollama", "map"): (
        MAP,
        tool("m", m={"type": "object", "description": 'Other keys hold {"type":"integer"}.'}),
        ["/properties/m additionalProperties"],
    ),
    ("gemini-schema", "map"): (
        MAP,
        {
            "type": "OBJECT",
            "properties": {"m": {"type": "OBJECT", "description": 'Other keys hold {"type":"integer"}.'}},
            "required": ["m"],
        },
        ["/properties/m additionalProperties"],
    ),
    # --- names ---
    ("anthropic", "odd name"): (ODD_NAME, closed("a", a=TEXT), ["/properties/b c properties"]),
    ("gemini", "odd name"): (ODD_NAME, closed("a", a=TEXT), ["/properties/b c properties"]),
    # --- no parameters ---
    ("openai-strict", "nothing"): ({"type": "object"}, {**closed(), "required": []}, [CLOSED]),
    ("anthropic-strict", "nothing"): ({"type": "object"}, closed(), [CLOSED]),
    ("gemini-schema", "nothing"): (closed(), {"type": "OBJECT", "properties": {}}, []),
}


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_each_dialect_rewrites_a_schema(case):
    schema, expected, changes = CASES[case]
    rewritten = DIALECTS[case[0]].rewrite(schema)
    assert rewritten.schema == expected
    assert [f"{each.path} {each.keyword}" for each in rewritten.changes] == changes
    assert not rewritten.refused


REFUSED = {
    "a map": (MAP, "/properties/m"),
    "anything": (ANYTHING, "/properties/x"),
    "an object of any keys": (closed("o", o={"type": "object"}), "/properties/o"),
    "an open tuple of anything": (closed("t", t={"type": "array"}), "/properties/t/items"),
    "values that are objects": (closed("e", e={"enum": [{"a": 1}]}), "/properties/e"),
    "keys by pattern": (
        closed("k", k={"type": "object", "patternProperties": {"^a": TEXT}, "additionalProperties": False}),
        "/properties/k",
    ),
    "no object": ({"type": "string"}, ""),
}


@pytest.mark.parametrize("name", ["openai-strict", "anthropic-strict", "bedrock-strict"])
@pytest.mark.parametrize("case", REFUSED)
def test_schemas_without_a_strict_form_are_refused(name, case):
    schema, path = REFUSED[case]
    rewritten = DIALECTS[name].rewrite(schema)
    assert rewritten.refused
    assert {each.path for each in rewritten.changes if each.refused} == {path}


@pytest.mark.parametrize("name", ["anthropic-strict", "bedrock-strict"])
def test_anthropics_judge_takes_no_recursion(name):
    assert DIALECTS[name].rewrite(TREE).refused


@pytest.mark.parametrize("name", ["anthropic", "anthropic-strict", "bedrock-strict", "gemini", "gemini-schema"])
def test_a_required_property_of_an_odd_name_is_refused(name):
    assert DIALECTS[name].rewrite(closed("b c", **{"b c": TEXT})).refused


def test_gemini_keeps_a_recursion_only_below_optional_properties():
    node = closed("kids", kids={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    rewritten = providers.GEMINI_JSON_SCHEMA.rewrite({**closed(tree={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}})
    kids = rewritten.schema["$defs"]["Node"]["properties"]["kids"]
    assert kids["items"] == {"type": "object", "description": LONG}
    assert [each.path for each in rewritten.changes] == ["/$defs/Node/properties/kids/items"]


SAMPLES = [BOUNDED, TREE, UNION, PAIR, EITHER, MAP, ANYTHING, ODD_NAME, closed(), closed(e={"enum": ["a", None]})]


@pytest.mark.parametrize("schema", SAMPLES, ids=range(len(SAMPLES)))
def test_googles_own_types_take_both_kinds(schema):
    """They forbid keys that they don't know."""
    Schema.model_validate(providers.GEMINI_SCHEMA.rewrite(schema).schema)
    JSONSchema.model_validate(_inner(providers.GEMINI_JSON_SCHEMA.rewrite(schema).schema))


def _inner(schema):
    """Without what the typed form of the SDK leaves out: definitions, references, closed objects' flag."""
    return {key: rule for key, rule in schema.items() if key not in ("$defs", "properties", "additionalProperties")}


def test_bedrock_writes_references_out():
    schema = {**closed(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}}
    assert providers.BEDROCK.rewrite(schema).schema == closed(a=TEXT)


def test_a_dialect_of_ones_own_is_a_row_of_steps():
    def shout(schema):
        return providers.PLAIN.rewrite({**schema, "title": "T"})

    mine = Dialect("mine", (shout, providers.OLLAMA.rewrite))
    assert mine.rewrite({"type": "object"}).schema == {"type": "object", "title": "T"}


def test_equal_changes_are_reported_once():
    def lose(schema):
        return type(providers.PLAIN.rewrite(schema))(schema, (Change("", "x", "gone"),))

    assert Dialect("twice", (lose, lose)).rewrite({}).changes == (Change("", "x", "gone"),)
