from __future__ import annotations

import json

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from fake_vendors.rules import dialects as providers
from pegboard.schema import schemas, without_added_nulls
from pegboard_clients.dialects.dialect import Dialect
from pegboard_clients.dialects.keywords import counts_of
from schema_strategies import SCHEMAS, VALUES

DIALECTS = {name: each for name, each in vars(providers).items() if isinstance(each, Dialect)}
STRICT = [name for name in DIALECTS if name.endswith("STRICT")]
LOOSE = [name for name in DIALECTS if not name.endswith("STRICT") and name != "PLAIN"]
SAYING_JSON_SCHEMA = [name for name in DIALECTS if name != "GEMINI_SCHEMA"]
NAMES = ("a", "b", "c")

REFERENCES = st.sampled_from(
    [
        {"$ref": "#/$defs/Leaf"},
        {"$ref": "#/$defs/Leaf", "description": "noted"},
        {"$ref": "#/$defs/Node"},
        {"$ref": "#/$defs/Node", "required": ["b"]},
        {"$ref": "#/properties/a"},
        {"allOf": [{"$ref": "#/$defs/Node"}, {"properties": {"b": {"type": "string"}}}]},
        {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
        {"$ref": "#"},
    ]
)


def bigger(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    kinds = ["string", "integer", "object", "array", "null", "boolean", "number"]
    return st.one_of(
        several.map(lambda parts: {"type": "array", "prefixItems": parts}),
        several.map(lambda parts: {"type": "array", "prefixItems": parts, "items": False}),
        st.tuples(several, inner).map(lambda both: {"anyOf": both[0], **both[1]}),
        st.tuples(several, inner).map(lambda both: {"allOf": both[0], **both[1]}),
        st.tuples(st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True), inner).map(
            lambda both: {**both[1], "type": both[0]}
        ),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3).map(
            lambda parts: {"type": "object", "properties": parts, "additionalProperties": False}
        ),
        inner.map(lambda part: {"type": "object", "unevaluatedProperties": False, "allOf": [part]}),
    )


PARTS = st.recursive(SCHEMAS | REFERENCES, bigger, max_leaves=4)
SMALL = st.recursive(SCHEMAS | REFERENCES, bigger, max_leaves=3)  # where each is rewritten by all dialects


@st.composite
def roots(draw, parts=PARTS):
    """A tool's input schema, with definitions that may be made of themselves."""
    properties = draw(st.dictionaries(st.sampled_from(NAMES), parts, min_size=1, max_size=3))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, **properties}}
    if draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(sorted(schema["properties"])), unique=True, max_size=2))
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    if draw(st.integers(0, 3)) == 0:
        schema[draw(st.sampled_from(["allOf", "anyOf", "oneOf"]))] = [draw(parts), draw(parts)]
    node = {"type": "object", "properties": {"a": {"$ref": "#/$defs/Node"}, "b": draw(SCHEMAS)}}
    schema["$defs"] = {"Leaf": draw(SCHEMAS), "Node": node}
    return (
        schema
        if usable(schema)
        else {**schema, "properties": {"a": {"type": "integer"}}, "allOf": []} | {"allOf": [{}]}
    )


def usable(schema):
    """Whether a schema ends: `#/properties/a` may lead to itself."""
    from pegboard.errors import SchemaError
    from pegboard.schema import check_schema

    try:
        check_schema(schema, tool="t")
    except SchemaError:
        return False
    return True


def arguments(draw, schema):
    names = sorted(schema["properties"])
    return {name: draw(VALUES) for name in names if draw(st.integers(0, 4))}


def accepts(schema, value):
    return jsonschema_rs.validator_for(json.dumps(schema)).is_valid(value)


def from_gemini(schema):
    """The JSON Schema that a schema of the older kind means."""
    if isinstance(schema, list):
        return [from_gemini(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: each for key, each in schema.items() if key not in ("nullable", "properties")}
    new = {key: each if key in ("required", "enum", "default") else from_gemini(each) for key, each in plain.items()}
    if isinstance(new.get("type"), str):
        new["type"] = new["type"].lower()
    if "properties" in schema:
        new["properties"] = {name: from_gemini(part) for name, part in schema["properties"].items()}
    return {"anyOf": [new, {"type": "null"}]} if schema.get("nullable") else new


@pytest.mark.parametrize("name", LOOSE)
@given(data=st.data())
def test_what_a_schema_takes_its_looser_form_takes(name, data):
    schema = data.draw(roots())
    rewritten = DIALECTS[name].rewrite(schema)
    value = arguments(data.draw, schema)
    folded = any(change.path == "" and change.keyword in ("anyOf", "oneOf") for change in rewritten.changes)
    told_by_type = any(change.keyword == "type" for change in rewritten.changes)
    if rewritten.refused or folded or told_by_type:
        return
    own = from_gemini(rewritten.schema) if name == "GEMINI_SCHEMA" else rewritten.schema
    if accepts(schema, value):
        assert accepts(own, value)


@pytest.mark.parametrize("name", STRICT)
@given(data=st.data())
def test_what_a_strict_form_takes_the_schema_takes_without_the_added_nulls(name, data):
    schema = data.draw(roots())
    rewritten = DIALECTS[name].rewrite(schema)
    lost = [
        change for change in rewritten.changes if "closed" not in change.what and "assumed to be" not in change.what
    ]
    names = rewritten.schema["properties"]
    value = {
        each: data.draw(VALUES)
        for each in names
        if each in rewritten.schema.get("required", ()) or data.draw(st.booleans())
    }
    if not lost and accepts(rewritten.schema, value):
        assert accepts(schema, without_added_nulls(value, schema))


@given(schema=roots(SMALL))
def test_rewritten_schemas_are_valid_objects(schema):
    for name in SAYING_JSON_SCHEMA:
        rewritten = DIALECTS[name].rewrite(schema).schema
        assert jsonschema_rs.meta.is_valid(rewritten), name
        assert rewritten["type"] == "object", name
        accepts(rewritten, {})


@pytest.mark.slow
@given(schema=roots(SMALL))
def test_a_step_that_is_skipped_would_have_changed_and_lost_nothing(schema):
    for name, dialect in DIALECTS.items():
        always = Dialect(name, tuple(lambda given, step=step: step(given) for step in dialect.steps))
        skipping, running = dialect.rewrite(schema), always.rewrite(schema)
        assert json.dumps(skipping.schema) == json.dumps(running.schema), name
        assert skipping.changes == running.changes, name


@pytest.mark.slow
@given(schema=roots(SMALL))
def test_a_schema_is_left_as_it_is_and_gives_the_same_text_each_time(schema):
    before = json.dumps(schema)
    for name, dialect in DIALECTS.items():
        first, second = (json.dumps(dialect.rewrite(schema).schema) for _ in range(2))
        assert first == second, name
        assert json.dumps(schema) == before, name


@given(schema=roots(SMALL))
def test_rewriting_again_loses_nothing_more_and_soon_changes_nothing(schema):
    """A reference that was kept for its recursion is inlined, if a later step has taken that recursion away."""
    for name in SAYING_JSON_SCHEMA:
        once = DIALECTS[name].rewrite(schema)
        if not once.refused:
            again = DIALECTS[name].rewrite(once.schema)
            assert again.changes == (), name
            assert DIALECTS[name].rewrite(again.schema) == again, name


@given(schema=roots())
def test_moonshot_gets_types_within_unions_and_references_alone(schema):
    for part in schemas(providers.MOONSHOT.rewrite(schema).schema):
        assert not ("anyOf" in part and part.keys() & {"type", "oneOf", "allOf", "properties", "enum"})
        assert "$ref" not in part or part.keys() == {"$ref"}
        assert not isinstance(part.get("items"), list)


KEYWORDS = (
    *("$ref", "$defs", "type", "properties", "required", "items", "prefixItems", "anyOf", "allOf", "oneOf", "not"),
    *("if", "then", "enum", "const", "minimum", "contains", "additionalProperties", "patternProperties"),
    *("dependentSchemas", "dependencies", "description", "format", "a"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "object", "#", "#/$defs/a", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=20,
)


@given(schema=st.dictionaries(st.sampled_from(["properties", "$defs", "anyOf", "$ref", "items", "allOf"]), JSON))
def test_no_schema_raises(schema):
    for name, dialect in DIALECTS.items():
        rewritten = dialect.rewrite(schema)
        if name not in ("PLAIN", "GEMINI_SCHEMA"):
            assert jsonschema_rs.meta.is_valid(rewritten.schema), name
            counts_of(rewritten.schema)
