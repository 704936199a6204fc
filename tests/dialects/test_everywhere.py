from __future__ import annotations

from pegboard.dialects.dialect import everywhere, without

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
