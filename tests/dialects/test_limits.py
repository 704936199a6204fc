from __future__ import annotations

import attrs
import pytest

from pegboard.dialects.keywords import Counts, Within, counts_of, limited
from pegboard_anthropic.anthropic import ANTHROPIC_STRICT
from pegboard_openai._openai import OPENAI_STRICT


def tool(**properties):
    return {"type": "object", "properties": properties}


def test_everything_is_counted():
    schema = {
        **tool(
            ab={"type": ["string", "null"], "enum": ["xyz", None]},
            c=tool(d={"const": "w"}, e={"$ref": "#/$defs/Node"}),
            f={"anyOf": [{"type": "integer"}, {"type": "null"}]},
        ),
        "required": ["ab", "c"],
        "$defs": {"Node": tool(next={"$ref": "#/$defs/Node"}), "Other": {"type": "null"}},
    }
    assert counts_of(schema) == Counts(properties=6, levels=3, enum_values=3, characters=23, optional=4, unions=2)


@pytest.mark.parametrize(
    ("limits", "schema", "what"),
    [
        (Counts(properties=1), tool(a={}, b={}), "2 properties"),
        (Counts(levels=1), tool(a=tool()), "2 levels"),
        (Counts(enum_values=1), {"enum": [1, 2]}, "2 values"),
        (Counts(characters=2), tool(abc={}), "3 characters"),
        (Counts(optional=0), tool(a={}), "1 optional"),
        (Counts(unions=0), tool(a={"anyOf": []}), "1 properties of several"),
    ],
)
def test_each_limit_refuses(limits, schema, what):
    rewritten = Within(limits)(schema)
    assert rewritten.refused
    assert rewritten.schema is schema
    assert [change.what.startswith(what) for change in rewritten.changes] == [True]


def test_at_the_limit_nothing_is_refused():
    assert not Within(Counts(properties=2, levels=1, optional=2))(tool(a={}, b={})).changes


def test_openai_takes_ten_levels():
    schema = tool(x={"type": "string"})
    for _ in range(9):
        schema = tool(a=schema)
    assert not OPENAI_STRICT.rewrite(schema).refused
    assert OPENAI_STRICT.rewrite(tool(a=schema)).refused


def test_anthropic_takes_24_optional_parameters():
    schema = tool(**{f"p{at}": {"type": "string"} for at in range(24)})
    assert not ANTHROPIC_STRICT.rewrite(schema).refused
    schema["properties"]["more"] = {"type": "string"}
    assert ANTHROPIC_STRICT.rewrite(schema).refused


def test_a_host_may_have_other_limits():
    mine = attrs.evolve(OPENAI_STRICT, steps=limited(OPENAI_STRICT.steps, Counts(properties=1)))
    assert mine.rewrite(tool(a={"type": "string"}, b={"type": "string"})).refused
    assert len(mine.steps) == len(OPENAI_STRICT.steps)
