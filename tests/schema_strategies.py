"""JSON Schemas, and JSON values near enough to them to fit about as often as not."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from("abc")
LEAVES = st.sampled_from(
    [
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"enum": ["x", 1, None]},
        {"const": True},
        {"minimum": 2, "maximum": 4},
        {"type": "string", "minLength": 2},
        {"type": "array", "minItems": 1, "uniqueItems": True},
        {"multipleOf": 2},
        {"pattern": "^x"},
        True,
        False,
    ]
)


def groups(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={
                "type": st.just("object"),
                "required": st.lists(NAMES, unique=True, max_size=2),
                "additionalProperties": inner,
                "patternProperties": st.dictionaries(st.just("^[bc]"), inner, max_size=1),
                "dependentRequired": st.just({"a": ["b"]}),
            },
        ),
        st.fixed_dictionaries(
            {"items": inner}, optional={"prefixItems": several, "contains": inner, "type": st.just("array")}
        ),
        several.map(lambda parts: {"anyOf": parts}),
        several.map(lambda parts: {"oneOf": parts}),
        several.map(lambda parts: {"allOf": parts}),
        inner.map(lambda part: {"not": part}),
        st.tuples(inner, inner, inner).map(lambda parts: dict(zip(("if", "then", "else"), parts, strict=True))),
    )


SCHEMAS = st.recursive(LEAVES, groups, max_leaves=8).filter(lambda schema: isinstance(schema, dict))
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, 2, 3, 4.5, "", "x", "xy", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
