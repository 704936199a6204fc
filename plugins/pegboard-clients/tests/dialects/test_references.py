from __future__ import annotations

import pytest

from pegboard_clients.dialects.references import (
    MOST_INLINED,
    MOST_LEVELS,
    inline_references,
    isolate_references,
    named_definitions,
)

TEXT = {"type": "string"}


def node(**more):
    """A type made of itself: `Node` in a property `next`."""
    return {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, **more}


AGAIN = {"type": "object", "description": "Of the same form as the Node around it."}
LOOP = {"properties": {"n": {"$ref": "#/$defs/Node", "title": "T"}}, "$defs": {"Node": node()}}

TABLES: dict[object, dict[str, tuple]] = {}
TABLES[inline_references("loosen")] = {
    "a reference": ({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": TEXT}}, {"items": TEXT}),
    "a reference to a reference": (
        {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"$ref": "#/$defs/B"}, "B": TEXT}},
        {"items": TEXT},
    ),
    "notes beside it go before": (
        {"items": {"$ref": "#/$defs/A", "description": "mine"}, "$defs": {"A": {**TEXT, "description": "its"}}},
        {"items": {"type": "string", "description": "mine"}},
    ),
    "rules beside it hold too": (
        {"items": {"$ref": "#/$defs/A", "maxLength": 1, "title": "t"}, "$defs": {"A": {**TEXT, "maxLength": 2}}},
        {"items": {"title": "t", "allOf": [{**TEXT, "maxLength": 2}, {"maxLength": 1}]}},
    ),
    "made of itself": (
        LOOP,
        {"properties": {"n": {"type": "object", "properties": {"next": AGAIN}, "title": "T"}}},
        ["/properties/n/properties/next $ref"],
    ),
    "nothing to inline": (TEXT,),
}


def test_a_cycle_may_be_refused(apply):
    _, changes = apply(inline_references("refuse"), LOOP)
    assert changes == ["/properties/n/properties/next $ref!"]


def test_a_cycle_may_be_kept_and_all_else_written_out(apply):
    kept = {"$ref": "#/$defs/Node", "minProperties": 1}
    schema = {
        "properties": {"n": kept, "l": {"$ref": "#/$defs/L"}, "t": {"$ref": "#/$defs/T"}},
        "$defs": {
            "L": {"items": kept},
            "T": TEXT,
            "Node": node(required=["next"], title="N", not_={"$ref": "#/$defs/T"}),
        },
    }
    expected = {
        "properties": {"n": kept, "l": {"items": kept}, "t": TEXT},
        "$defs": {"Node": node(required=["next"], title="N", not_={"$ref": "#/$defs/T"})},
    }
    assert apply(inline_references("keep"), schema) == (expected, [])


def test_a_cycle_is_kept_below_optional_properties(apply):
    assert apply(inline_references("keep_optional"), LOOP) == (LOOP, [])


def test_a_required_property_of_the_root_is_written_out_once(apply):
    schema, changes = apply(inline_references("keep_optional"), {**LOOP, "required": ["n"]})
    assert schema["properties"]["n"]["properties"] == {"next": {"$ref": "#/$defs/Node"}}
    assert schema["$defs"] == {"Node": node()}
    assert changes == []


def test_a_cycle_of_required_properties_is_loosened(apply):
    schema, changes = apply(
        inline_references("keep_optional"), {**LOOP, "required": ["n"], "$defs": {"Node": node(required=["next"])}}
    )
    assert schema["properties"]["n"]["properties"]["next"] == AGAIN
    assert changes == ["/properties/n/properties/next $ref"]


@pytest.mark.parametrize(
    ("definition", "loose"),
    [
        ({"type": "array", "items": {"$ref": "#/$defs/A"}}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"], "items": {"$ref": "#/$defs/A"}}, {"type": ["array", "null"], "items": {}}),
        ({"items": {"$ref": "#/$defs/A"}}, {}),
        (
            {"anyOf": [{"const": 1}, {"enum": ["x", None]}, {"type": "array", "items": {"$ref": "#/$defs/A"}}]},
            {"type": ["integer", "string", "null", "array"], "items": {}},
        ),
        ({"anyOf": [{"minimum": 1}, {"type": "array", "items": {"$ref": "#/$defs/A"}}]}, {}),
        ({"anyOf": [{"$ref": "#/$defs/A"}]}, {}),
    ],
)
def test_the_replacement_for_a_cycle_allows_all_its_types(definition, loose, apply):
    schema, _ = apply(inline_references(), {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": definition}})
    again = {**loose, "description": "Of the same form as the A around it."}
    assert again in _parts(schema)


def _parts(value):
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(item)


def test_more_than_the_most_is_loosened(apply):
    leaf = {"type": "object", "properties": {f"p{at}": {} for at in range(100)}, "title": "L"}
    many = {f"r{at}": {"$ref": "#/$defs/L"} for at in range(MOST_INLINED // 50)}
    schema, changes = apply(inline_references(), {"properties": many, "$defs": {"L": leaf}})
    assert schema["properties"]["r0"] == leaf
    assert schema["properties"]["r39"] == {"type": "object", "title": "L"}
    assert "/properties/r39 $ref" in changes


def test_deeper_than_the_deepest_is_loosened(apply):
    chain = {f"c{at}": {"type": "array", "items": {"$ref": f"#/$defs/c{at + 1}"}} for at in range(MOST_LEVELS)}
    schema = {"items": {"$ref": "#/$defs/c0"}, "$defs": {**chain, f"c{MOST_LEVELS}": TEXT}}
    _, changes = apply(inline_references(), schema)
    assert len(changes) == 1
    assert changes[0].endswith("/items $ref")


TABLES[named_definitions] = {
    "nothing to name": ({"type": "object"},),
    "unused definitions go": ({"$defs": {"A": {}}, "type": "object"}, {"type": "object"}),
    "definitions of draft 7": (
        {"items": {"$ref": "#/definitions/A"}, "definitions": {"A": {"type": "null"}}},
        {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "null"}}},
    ),
    "a pointer elsewhere": (
        {"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a", "title": "t"}}},
        {
            "properties": {"a": {"type": "null"}, "b": {"$ref": "#/$defs/a", "title": "t"}},
            "$defs": {"a": {"type": "null"}},
        },
    ),
    "the root": (
        {"properties": {"a": {"$ref": "#"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/root"}},
            "$defs": {"root": {"properties": {"a": {"$ref": "#/$defs/root"}}}},
        },
    ),
    "an anchor and a dynamic one": (
        {
            "$id": "urn:x",
            "anyOf": [{"$ref": "#one"}, {"$dynamicRef": "#two"}],
            "$defs": {"A": {"$anchor": "one", "type": "null"}, "B": {"$dynamicAnchor": "two", "type": "string"}},
        },
        {
            "anyOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}],
            "$defs": {"one": {"type": "null"}, "two": {"type": "string"}},
        },
    ),
    "names that need escapes": (
        {"items": {"$ref": "#/$defs/Page%5Bint%5D~1x"}, "$defs": {"Page[int]/x": {"type": "null"}}},
        {"items": {"$ref": "#/$defs/Page_5Bint_5D_1x"}, "$defs": {"Page_5Bint_5D_1x": {"type": "null"}}},
    ),
    "the same name twice": (
        {
            "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/definitions/A"}, {"$ref": "#/$defs/A"}],
            "$defs": {"A": {"type": "null"}},
            "definitions": {"A": {"type": "string"}},
        },
        {
            "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A_2"}, {"$ref": "#/$defs/A"}],
            "$defs": {"A_2": {"type": "string"}, "A": {"type": "null"}},
        },
    ),
    "nothing is fetched": ({"$ref": "https://example.com/x", "title": "t"}, {"title": "t"}, [" $ref"]),
    "nowhere": ({"items": {"$ref": "#/$defs/A"}}, {"items": {}}, ["/items $ref"]),
    "no text": ({"items": {"$ref": 3}}, {"items": {}}, ["/items $ref"]),
    "booleans": (
        {"anyOf": [{"$ref": "#/$defs/T"}, {"$ref": "#/$defs/F"}], "$defs": {"T": True, "F": False}},
        {"anyOf": [{}, {"not": {}}]},
    ),
    "data is no schema": ({"items": {"$ref": "#/enum"}, "enum": [1]}, {"items": {}, "enum": [1]}, ["/items $ref"]),
    "values are no schemas": ({"enum": [{"$ref": "#/a"}, [{"$ref": "#/b"}]]},),
}


def test_definitions_end_where_the_schema_is_too_large(monkeypatch, apply):
    """What has a name already keeps it."""
    monkeypatch.setattr("pegboard_clients.dialects.references.MOST_SCHEMAS", 1)
    refs = [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]
    schema, changes = apply(named_definitions, {"anyOf": refs, "$defs": {"A": {}, "B": {}}})
    assert schema == {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}, {}], "$defs": {"A": {}}}
    assert changes == ["/anyOf/2 $ref"]


TABLES[isolate_references] = {
    "with notes": (
        {"items": {"$ref": "#/$defs/A", "description": "d", "default": 1}},
        {"items": {"anyOf": [{"$ref": "#/$defs/A"}], "description": "d", "default": 1}},
    ),
    "alone": ({"items": {"$ref": "#/$defs/A"}},),
    "the root": ({"$ref": "#/$defs/A", "$defs": {}},),
}


def test_each_step_rewrites_as_in_its_table(step, schema, expected, changes, apply):
    assert apply(step, schema) == (expected, changes)
