from __future__ import annotations

import json

import pytest
from hypothesis import given

from pegboard.errors import SchemaError
from pegboard.schema.references import References, compiled
from pegboard.schema.validator import (
    LIGHT_RULES,
    MOST_LISTED,
    MOST_STEPS,
    Load,
    Loads,
    Validator,
    check_schema,
    loads_of,
)
from schema_strategies import SCHEMAS, VALUES

URL = r"^https?://([a-z0-9-]+\.)+[a-z]{2,63}(/.*)?$"
LONG = "ab" * 450_000
MANY = [1] * 20_000
TOO_LONG = "(root): its texts are too long to be compared with the patterns of its schema; shorten them"


def load(schema):
    return Loads(References(schema)).of(schema)


def doubling(levels):
    """A schema that applies another 2 ** levels times to each item."""
    twice = {f"a{index}": {"allOf": [{"$ref": f"#/$defs/a{index + 1}"}] * 2} for index in range(levels)}
    return {"items": {"$ref": "#/$defs/a0"}, "$defs": {**twice, f"a{levels}": {"type": "integer"}}}


def test_schemas_of_different_members_do_not_add_up():
    properties = {f"p{index}": {"type": "string"} for index in range(500)}
    assert load({"properties": properties}) == Load(1, 0)
    assert load({"prefixItems": [{}] * 500}) == Load(1, 0)


def test_what_one_value_meets_adds_up():
    assert load({"anyOf": [{"type": "string"}] * 9}).rules == 10
    assert load({"items": {"allOf": [{"items": {}}] * 9}}).rules == 10
    assert load({"properties": {"a": {}}, "additionalProperties": {}, "propertyNames": {}}).rules == 3
    assert load(doubling(10)).rules > 2**10


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": list(range(100))},
        {"allOf": [{"const": index} for index in range(5)]},
        {"multipleOf": 0.01},
        {"dependentRequired": {f"p{index}": ["z"] for index in range(100)}},
        {"dependencies": {f"p{index}": ["z"] for index in range(100)}},
        {"patternProperties": {f"p{index}": {} for index in range(60)}},
        {"allOf": [{"properties": {"a": {}}}] * 30, "unevaluatedProperties": {"anyOf": [{}] * 20}},
        {"allOf": [{"$ref": "#/$defs/a"}] * 60, "$defs": {"a": {}}},
    ],
)
def test_schemas_that_may_take_long_are_known(schema):
    assert loads_of(json.dumps(schema)) is not None
    assert not load(schema).is_light()


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"enum": [f"w{index}" for index in range(500)], "$comment": "$ref"},
        {"properties": {"a": {"enum": ["x", "y"]}, "b": {"const": "c"}}},
        {"properties": {"children": {"items": {"$ref": "#"}}, "id": {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}$"}}},
        {"items": {"properties": {f"p{index}": {"anyOf": [{"pattern": "^a"}, {}]} for index in range(300)}}},
    ],
)
def test_ordinary_schemas_cost_nothing_more(schema):
    """The acceptance is then the validator's own function, without any check before it."""
    judge = Validator(json.dumps(schema))
    assert judge.loads is None
    assert judge.accepts.__name__ == "is_valid"


@pytest.mark.parametrize(
    "pattern", ["a[ab]{300}d", "a[ab]{2000}d", "|".join(f"a{'[ab]' * count}d" for count in range(30))]
)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (lambda rule: rule, LONG),
        (lambda rule: {"items": rule}, [LONG[:9000]] * 100),
        (lambda rule: {"prefixItems": [{}, {"not": rule}]}, ["", LONG]),
        (lambda rule: {"properties": {"a": {"additionalProperties": rule}}}, {"a": {"b": LONG}}),
        (lambda rule: {"propertyNames": rule}, {LONG: 1}),
        (lambda rule: {"patternProperties": {rule["pattern"]: {}}}, {LONG: 1}),
        (lambda rule: {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [rule]}}}, LONG),
    ],
)
def test_a_heavy_pattern_is_not_compared_with_long_texts(pattern, schema, value):
    judge = Validator(schema({"pattern": pattern}))
    assert not judge.accepts(value)
    assert judge.problems(value) == (TOO_LONG,)


def test_a_light_pattern_applied_a_thousand_times_is_heavy():
    judge = Validator({"allOf": [{"$ref": "#/$defs/p"}] * 1000, "$defs": {"p": {"pattern": "[ab]$"}}})
    assert judge.problems(LONG) == (TOO_LONG,)
    assert judge.accepts("ab")


def test_a_long_text_may_stand_beside_a_heavy_pattern():
    judge = Validator({"properties": {"content": {}, "url": {"pattern": URL}}, "required": ["url"]})
    value = {"content": LONG, "url": "https://a.example/b"}
    assert judge.accepts(value)
    assert judge.problems(value) == ()
    assert judge.problems({**value, "url": "a"}) == (f'url: must match the pattern {json.dumps(URL)}, got "a"',)


def test_finding_where_the_texts_stand_is_bounded_too():
    judge = Validator({"properties": {"url": {"pattern": URL}, "numbers": {"items": {}}}})
    assert judge.problems({"content": LONG, "numbers": MANY * 2}) == (TOO_LONG,)
    assert judge.problems({"content": LONG, "others": MANY * 2}) == ()


def test_finding_where_the_texts_stand_ends_for_a_schema_without_end():
    """Such a one is refused at registration."""
    endless = {"allOf": [{"$ref": "#"}], "pattern": URL}
    assert f"(root): {Loads(References(endless)).excess({chr(97): LONG})}" == TOO_LONG


@pytest.mark.parametrize(
    "schema",
    [
        doubling(13),
        {"items": {"oneOf": [{"const": index} for index in range(1000)]}},
        {"items": {"enum": list(range(1000))}},
        {"contains": {"allOf": [{"minimum": -index} for index in range(1000)]}},
    ],
)
def test_too_many_values_for_the_rules_are_refused(schema):
    judge = Validator(schema)
    most = MOST_STEPS // load(schema).rules
    refused = f"(root): holds more values and keys than its schema can judge at once; send at most {most:,}"
    assert not judge.accepts(MANY)
    assert judge.problems(MANY) == (refused,)
    assert judge.accepts([1])


def test_keys_count_as_values():
    judge = Validator({"patternProperties": {f"p{index}": {} for index in range(64)}})
    most = MOST_STEPS // judge.loads.of(judge.loads.references.root).rules
    value = {str(index): 1 for index in range(most // 2 + 1)}
    assert not judge.accepts(value)
    del value["0"], value["1"]
    assert judge.accepts(value)


def test_keys_that_are_no_text_are_left_to_the_validator():
    judge = Validator({"pattern": URL})
    assert judge.problems({1: 2}) == ("(root): keys must be strings, got one of type int",)
    with pytest.raises(ValueError, match="str"):
        judge.accepts({1: 2})


def test_a_schema_that_could_judge_next_to_nothing_is_refused():
    lists = {"enum": list(range(5000))}
    schema = {"type": "object", "allOf": [{"$ref": "#/$defs/a"}] * 200, "$defs": {"a": lists}}
    with pytest.raises(SchemaError, match="too many rules"):
        check_schema(schema, tool="t")


def test_looking_for_the_problem_in_long_lists_ends():
    judge = Validator({"items": {"enum": list(range(10_000))}})
    assert judge.problems([9_999] * 5 + ["x"])[0].startswith("[5]: must be one of 0, 1, 2")
    assert judge.problems([*range(9_900, 9_950), "x"]) == ("(root): doesn't fit the schema",)


def test_the_validators_own_words_are_for_small_values():
    judge = Validator({"items": {"unevaluatedProperties": False, "properties": {"a": {}}}})
    assert "'b'" in judge.problems([{"b": 1}])[0]
    assert judge.problems([{"b": 1}] * MOST_LISTED) == ("(root): doesn't fit the schema",)


@given(SCHEMAS, VALUES)
def test_nothing_changes_for_what_is_small(schema, value):
    """Neither by the schemas that are light nor by the others."""
    text = json.dumps(schema)
    assert Validator(schema).accepts(value) == compiled(text).is_valid(value)
    assert Loads(References(schema)).excess(value) is None
    if loads_of(text) is None:
        assert load(schema).rules <= LIGHT_RULES
