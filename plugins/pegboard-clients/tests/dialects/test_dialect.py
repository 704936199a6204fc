from __future__ import annotations

import json

import jsonschema_rs
import pytest

from fake_vendors.rules import dialects as providers
from pegboard_clients.dialects.dialect import (
    MOST_LEVELS,
    MOST_WRITTEN,
    Change,
    Dialect,
    Rewritten,
    deep_copy,
    everywhere,
    size_of,
    step_for,
    without,
)

NESTED = {
    "type": "object",
    "title": "root",
    "properties": {"a": {"title": "a", "items": {"title": "b"}}, "c": {"anyOf": [{"title": "d"}, {}, True]}},
    "enum": [{"title": "data"}],
}


def test_every_schema_is_visited_the_innermost_first_and_data_is_not(apply):
    def visit(schema, place):
        place.lost(schema.get("title", "none"), "seen")
        return schema

    given, seen = apply(everywhere(visit), NESTED)
    assert given is NESTED
    assert seen == [
        "/properties/a/items b",
        "/properties/a a",
        "/properties/c/anyOf/0 d",
        "/properties/c/anyOf/1 none",
        "/properties/c none",
        " root",
    ]


def test_a_visit_sees_the_parts_as_they_have_become_and_what_was_given_stays(apply):
    def visit(schema, _place):
        return without(schema, ("title",)) | {"size": len(str(schema))} if "title" in schema else schema

    new, _ = apply(everywhere(visit), NESTED)
    assert list(new) == ["type", "properties", "enum", "size"]
    assert new["properties"] == {
        "a": {"items": {"size": len("{'title': 'b'}")}, "size": len("{'title': 'a', 'items': {'size': 14}}")},
        "c": {"anyOf": [{"size": len("{'title': 'd'}")}, {}, True]},
    }
    assert new["enum"] is NESTED["enum"]
    assert NESTED["properties"]["a"]["items"] == {"title": "b"}


DIALECTS = {name: each for name, each in vars(providers).items() if isinstance(each, Dialect)}
MOST_CHARACTERS = 4_000_000


def root(**properties):
    return {"type": "object", "properties": properties}


def doubling(keyword, levels=40):
    """Definitions that each hold the next twice: 2**40 schemas once written out."""
    definitions = {f"d{at}": keyword({"$ref": f"#/$defs/d{at + 1}"}) for at in range(levels)}
    return {**root(a={"$ref": "#/$defs/d0"}), "$defs": {**definitions, f"d{levels}": {"type": "integer"}}}


def nested(wrap, levels):
    schema = {"type": "integer"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


EVERYONE = [{"$ref": f"#/$defs/t{at}"} for at in range(12)]

HOSTILE = {
    "doubled in properties": doubling(lambda ref: root(a=ref, b=ref)),
    "doubled in allOf": doubling(lambda ref: {"allOf": [ref, {"minimum": 1}, ref]}),
    "doubled in anyOf": doubling(lambda ref: {"anyOf": [ref, ref], "minimum": 1}),
    "deep objects": root(a=nested(lambda part: root(a=part), 62)),
    "deep unions": root(a=nested(lambda part: {"anyOf": [part, {"type": "null"}], "title": "x"}, 60)),
    "deep unions with rules": root(a=nested(lambda part: {"anyOf": [part, root(b={})], "required": ["b"]}, 30)),
    "a long chain": {
        **root(a={"$ref": "#/$defs/c0"}),
        "$defs": {f"c{at}": root(a={"$ref": f"#/$defs/c{at + 1}"}) for at in range(1_000)} | {"c1000": {}},
    },
    "wide": root(**{f"p{at}": {"type": "string", "minLength": at} for at in range(700)}),
    "everyone of everyone": {
        **root(a=EVERYONE[0]),
        "$defs": {f"t{at}": {"anyOf": [*EVERYONE, root(**{f"p{at}": {}})]} for at in range(12)},
    },
    "itself in place": {**root(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "itself by allOf": {**root(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, {}]}}},
    "the root by allOf": {**root(a={}), "allOf": [{"$ref": "#"}]},
    "merged with itself below": {
        **root(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": root(x={"allOf": [{"$ref": "#/$defs/A"}, {"required": ["x"]}]})},
    },
    "a union of itself": {
        **root(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": root(x={"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "required": ["x"]})},
    },
    "two recursions at once": {
        **root(a={"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}),
        "$defs": {
            "A": root(x={"$ref": "#/$defs/A"}, y={"$ref": "#/$defs/B"}),
            "B": root(x={"$ref": "#/$defs/B"}, y={"$ref": "#/$defs/A"}),
        },
    },
    "a large enum often": {
        **root(**{f"p{at}": {"$ref": "#/$defs/E"} for at in range(150)}),
        "$defs": {"E": {"enum": [f"value {at}" for at in range(1_000)]}},
    },
    "booleans in unions and allOf": {
        **root(a={"allOf": [True, {"anyOf": [True, False, {"type": "string"}]}, {"minLength": 1}]}),
        "anyOf": [{"type": "object"}],
        "allOf": [{"anyOf": [True, root(a={})]}, True],
    },
    "pointers to everything": root(
        **{f"p{at}": {"type": "array", "items": {"$ref": f"#/properties/p{at + 1}"}} for at in range(150)}, p150={}
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_schemas_end_and_stay_small(case, name):
    rewritten = DIALECTS[name].rewrite(HOSTILE[case])
    assert len(json.dumps(rewritten.schema)) < MOST_CHARACTERS
    if name != "GEMINI_SCHEMA":
        assert jsonschema_rs.meta.is_valid(rewritten.schema)


def test_a_schema_nested_too_deep_is_refused():
    rewritten = providers.PLAIN.rewrite(root(a=nested(lambda part: root(a=part), MOST_LEVELS)))
    assert rewritten.refused
    assert rewritten.schema == {"type": "object"}
    assert "levels deep" in rewritten.changes[0].what


def test_a_schema_within_itself_is_refused():
    cyclic = root()
    cyclic["properties"]["self"] = cyclic
    assert providers.OPENAI.rewrite(cyclic).refused


@pytest.mark.slow
def test_parts_shared_without_end_are_refused():
    shared = {}
    for _ in range(60):
        shared = {"a": shared, "b": shared}
    assert "values" in providers.PLAIN.rewrite(shared).changes[0].what


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**5_000, object(), {1: 2}, b""], ids=range(6))
def test_values_that_arent_json_are_refused(value):
    assert deep_copy({"enum": [value]})[1] is not None
    assert providers.GEMINI_SCHEMA.rewrite({"enum": [value]}).refused


def test_a_copy_shares_nothing():
    inner = {"type": "integer"}
    given = {"anyOf": [inner, inner], "enum": (1, 2.5, None, True, "x")}
    copy, fault = deep_copy(given)
    assert (copy, fault) == ({"anyOf": [inner, inner], "enum": [1, 2.5, None, True, "x"]}, None)
    assert copy["anyOf"][0] is not inner
    assert copy["anyOf"][0] is not copy["anyOf"][1]


def test_a_step_that_makes_too_much_gives_an_outline():
    huge = {"enum": list(range(MOST_WRITTEN))}
    dialect = Dialect("large", (lambda schema: Rewritten({**schema, "x": huge}, (Change("/a", "x", "y"),)),))
    given = {**root(a={"type": "object", "title": "A", "properties": {"b": {}}}, t=True), "required": ["a"]}
    outlined = dialect.rewrite(given)
    assert outlined.schema == {**root(a={"type": "object", "title": "A"}), "required": ["a"]}
    assert [change.path for change in outlined.changes] == ["/a", ""]


def test_size_counts_shared_values_each_time():
    shared = [1, 2]
    assert size_of({"a": shared, "b": shared}) == 7


@pytest.mark.parametrize("schema", [{"type": "object"}, {"properties": {"title": {"type": "string"}}}])
def test_a_step_with_keywords_sees_no_schema_without_one_of_them(schema):
    """A property of that name is no keyword."""
    seen = []

    @step_for("title")
    @everywhere
    def watch(part, _place):
        seen.append(part)
        return {key: value for key, value in part.items() if key != "title"}

    dialect = Dialect("watched", (watch,))
    assert dialect.rewrite(schema).schema == schema
    assert seen == []
    assert dialect.rewrite({**schema, "items": {"title": "x"}}).schema == {**schema, "items": {}}
