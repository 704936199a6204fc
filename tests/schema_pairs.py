"""Pairs of schemas, of which the second takes less than the first (`NARROWER`), or something else (`CROSSED`).

And random ones, with values that fit about as often as not.
"""

from __future__ import annotations

from random import Random
from typing import Any


def properties(required: tuple[str, ...] = (), *, is_open: bool = False, **schemas: Any) -> dict[str, Any]:
    """The schema of an object."""
    own: dict[str, Any] = {"type": "object", "properties": schemas, "required": [*required]}
    return own if is_open else {**own, "additionalProperties": False}


def one(schema: Any) -> dict[str, Any]:
    """The schema of an object with one required property, `a`."""
    return properties(("a",), a=schema)


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}

NARROWER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a property is required": (properties(a=TEXT), properties(("a",), a=TEXT)),
    "one of two is required": (properties(("a",), a=TEXT, b=WHOLE), properties(("a", "b"), a=TEXT, b=WHOLE)),
    "an optional property is gone": (properties(a=TEXT, b=TEXT), properties(a=TEXT)),
    "others are refused": (properties(a=TEXT, is_open=True), properties(a=TEXT)),
    "others are texts": (properties(is_open=True), {**properties(is_open=True), "additionalProperties": TEXT}),
    "an unchecked property is typed": (properties(is_open=True), properties(a=TEXT, is_open=True)),
    "one type fewer": (one({"type": ["string", "null"]}), one(TEXT)),
    "a number becomes whole": (one({"type": "number"}), one(WHOLE)),
    "any value becomes a text": (one({}), one(TEXT)),
    "an enum loses a member": (one({"enum": ["a", "b", "c"]}), one({"enum": ["a", "b"]})),
    "a text becomes an enum": (one(TEXT), one({"type": "string", "enum": ["a", "b"]})),
    "an enum becomes a const": (one({"enum": ["a", "b"]}), one({"const": "a"})),
    "a minimum": (one(WHOLE), one({**WHOLE, "minimum": 1})),
    "a higher minimum": (one({**WHOLE, "minimum": 0}), one({**WHOLE, "minimum": 1})),
    "a lower maximum": (one({**WHOLE, "maximum": 100}), one({**WHOLE, "maximum": 99})),
    "an exclusive maximum": (
        one({"type": "number", "maximum": 10}),
        one({"type": "number", "exclusiveMaximum": 10}),
    ),
    "multiples": (one({**WHOLE, "multipleOf": 2}), one({**WHOLE, "multipleOf": 4})),
    "a longest text": (one(TEXT), one({**TEXT, "maxLength": 10})),
    "a shorter text": (one({**TEXT, "maxLength": 20}), one({**TEXT, "maxLength": 19})),
    "no empty text": (one(TEXT), one({**TEXT, "minLength": 1})),
    "a pattern": (one(TEXT), one({**TEXT, "pattern": "^[a-z]+$"})),
    "a stricter pattern": (one({**TEXT, "pattern": "^[a-z]+$"}), one({**TEXT, "pattern": "^[a-z]{1,6}$"})),
    "an item of a kind": (one({"type": "array"}), one({"type": "array", "contains": WHOLE})),
    "fewer items": (one({"type": "array", "items": TEXT}), one({"type": "array", "items": TEXT, "maxItems": 2})),
    "one item at least": (one({"type": "array"}), one({"type": "array", "minItems": 1})),
    "typed items": (one({"type": "array"}), one({"type": "array", "items": TEXT})),
    "distinct items": (
        one({"type": "array", "items": TEXT}),
        one({"type": "array", "items": TEXT, "uniqueItems": True}),
    ),
    "an alternative less": (one({"anyOf": [TEXT, WHOLE, {"type": "null"}]}), one({"anyOf": [TEXT, WHOLE]})),
    "one more condition": (one(WHOLE), one({"allOf": [WHOLE, {"minimum": 5}]})),
    "not zero": (one(WHOLE), one({**WHOLE, "not": {"const": 0}})),
    "within an object": (one(properties(b=WHOLE)), one(properties(("b",), b=WHOLE))),
    "within items": (
        one({"type": "array", "items": properties(b=TEXT)}),
        one({"type": "array", "items": properties(b={**TEXT, "maxLength": 3})}),
    ),
    "three levels down": (
        one(properties(b=properties(c={"enum": [1, 2, 3]}))),
        one(properties(b=properties(c={"enum": [1, 2]}))),
    ),
    "behind a reference": (
        {**one({"$ref": "#/$defs/n"}), "$defs": {"n": WHOLE}},
        {**one({"$ref": "#/$defs/n"}), "$defs": {"n": {**WHOLE, "minimum": 0}}},
    ),
    "one that needs another": (
        properties(a=TEXT, b=TEXT),
        {**properties(a=TEXT, b=TEXT), "dependentRequired": {"a": ["b"]}},
    ),
    "a property at least": (properties(a=TEXT, b=TEXT), {**properties(a=TEXT, b=TEXT), "minProperties": 1}),
    "a property at most": (properties(a=TEXT, b=TEXT), {**properties(a=TEXT, b=TEXT), "maxProperties": 1}),
    "names of others": (
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "additionalProperties": TEXT, "propertyNames": {"pattern": "^[a-z]+$"}},
    ),
    "a tuple's second": (
        one({"type": "array", "prefixItems": [TEXT, {}]}),
        one({"type": "array", "prefixItems": [TEXT, WHOLE]}),
    ),
    "if, then": (
        properties(a=WHOLE, b=TEXT),
        {**properties(a=WHOLE, b=TEXT), "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    ),
}
"""Each with what the second takes less; read from right to left, they are wider."""

CROSSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another type": (one(TEXT), one(WHOLE)),
    "a renamed property": (one(TEXT), properties(("b",), b=TEXT)),
    "another member of an enum": (one({"enum": ["a", "b"]}), one({"enum": ["a", "c"]})),
    "shifted bounds": (one({**WHOLE, "minimum": 0, "maximum": 10}), one({**WHOLE, "minimum": 5, "maximum": 15})),
    "longer and never empty": (one({**TEXT, "maxLength": 5}), one({**TEXT, "minLength": 1, "maxLength": 9})),
    "one more and one required": (properties(a=TEXT), properties(("a",), a=TEXT, b=TEXT)),
    "one less and one optional": (properties(("a",), a=TEXT, b=TEXT), properties(a=TEXT)),
    "two changes in different places": (
        properties(a={**WHOLE, "minimum": 0}, b={**WHOLE, "minimum": 1}),
        properties(a={**WHOLE, "minimum": 1}, b={**WHOLE, "minimum": 0}),
    ),
    "other multiples": (one({**WHOLE, "multipleOf": 2}), one({**WHOLE, "multipleOf": 3})),
    "other alternatives": (one({"anyOf": [TEXT, {"type": "null"}]}), one({"anyOf": [TEXT, WHOLE]})),
    "an open object with a typed property": (properties(a=TEXT), properties(a={**TEXT, "maxLength": 3}, is_open=True)),
    "a list instead of one": (one(TEXT), one({"type": "array", "items": TEXT})),
    "another item": (one({"type": "array", "items": TEXT}), one({"type": "array", "items": WHOLE})),
    "another const": (one({"const": 1}), one({"const": 2})),
    "another pattern": (one({**TEXT, "pattern": "^[a-z]+$"}), one({**TEXT, "pattern": "^[0-9]+$"})),
    "none of the other": (one({**WHOLE, "not": {"const": 1}}), one({**WHOLE, "not": {"const": 2}})),
    "other names of others": (
        {"type": "object", "patternProperties": {"^a": TEXT}, "additionalProperties": False},
        {"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False},
    ),
    "two types for two": (one({"type": ["string", "null"]}), one({"type": ["integer", "null"]})),
    "a wider member of a narrower object": (
        one(properties(b={**WHOLE, "maximum": 5})),
        one(properties(("b",), b={**WHOLE, "maximum": 9})),
    ),
    "another reference": (
        {**one({"$ref": "#/$defs/x"}), "$defs": {"x": TEXT}},
        {**one({"$ref": "#/$defs/x"}), "$defs": {"x": WHOLE}},
    ),
}
"""Pairs each of which takes something that the other doesn't."""

_LEAVES: list[dict[str, Any]] = [
    {},
    *({"type": each} for each in ("integer", "number", "string", "boolean", ["string", "null"], ["integer", "null"])),
    *({"enum": each} for each in (["x", 1, None], ["x", 1], ["x", "y"], [True])),
    *({**WHOLE, "minimum": low, "maximum": high} for low, high in ((2, 4), (1, 4), (2, 9))),
    *({**WHOLE, "multipleOf": each} for each in (2, 3)),
    *({**TEXT, **each} for each in ({"minLength": 2}, {"maxLength": 2}, {"minLength": 1, "maxLength": 3})),
    *({**TEXT, "pattern": each} for each in ("^x", "^[xy]", "x$", "^[a-c]+$", "^([a-c]+|zz)$")),
    *({"type": "array", **each} for each in ({"items": TEXT}, {"items": WHOLE, "minItems": 1}, {"maxItems": 1})),
    {"type": "array", "uniqueItems": True},
    *({"type": "array", **each} for each in ({"prefixItems": [TEXT], "items": WHOLE}, {"contains": WHOLE})),
    *(
        {"type": "object", **each}
        for each in ({"patternProperties": {"^b": TEXT}}, {"propertyNames": {"maxLength": 1}})
    ),
    {"if": TEXT, "then": {"minLength": 2}, "else": {"not": {"enum": [1, None]}}},
]
_VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, 3, 4, 5, 6, 9, 10, -1, 1.5, 4.5),
    *("", "x", "y", "xy", "ax", "abc", "zz", "zzz", "ab"),
    *([], [1], ["x"], ["x", "x"], [1, 2], {}, {"b": 1}, {"b": "x"}, {"b": None}),
]


def _part(random: Random, level: int = 0) -> dict[str, Any]:
    kind = random.random()
    if level == 2 or kind > 0.4:
        return dict(random.choice(_LEAVES))
    if kind < 0.3:
        several = [_part(random, level + 1) for _ in range(2)]
        return {"not": several[0]} if kind < 0.05 else {random.choice(("anyOf", "allOf", "oneOf")): several}
    inner = {"type": "object", "properties": {"b": _part(random, level + 1)}}
    return {**inner, "required": ["b"] * random.randint(0, 1), "additionalProperties": random.random() < 0.5}


def random_object(random: Random) -> dict[str, Any]:
    """A schema of an object with up to three properties."""
    names = "acd"[: random.randint(1, 3)]
    required = [name for name in names if random.random() < 0.5]
    return properties((*required,), is_open=random.random() < 0.3, **{name: _part(random) for name in names})


def with_changes(random: Random, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with one to three changes: another property, other required ones, or open instead of closed."""
    own, required, is_open = dict(schema["properties"]), schema["required"], "additionalProperties" not in schema
    for _ in range(random.randint(1, 3)):
        change = random.random()
        if change < 0.6:
            own[random.choice([*own])] = _part(random)
        elif change < 0.75:
            required = [name for name in own if random.random() < 0.5]
        elif change < 0.85:
            is_open = not is_open
        elif change < 0.93:
            own["e"] = _part(random)
        elif len(own) > 1:
            del own[random.choice([*own])]
    return properties(tuple(name for name in required if name in own), is_open=is_open, **own)


def random_value(random: Random, names: tuple[str, ...]) -> dict[str, Any]:
    """An object with some of these properties, or one more."""
    return {name: random.choice(_VALUES) for name in (*names, "zz") if random.random() < 0.7}
