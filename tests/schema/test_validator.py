from __future__ import annotations

import json
import re
import socket
import sys
from subprocess import run
from urllib.parse import quote

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from pegboard.errors import SchemaError
from pegboard.json import short_json
from pegboard.schema import Validator, check_schema, compiled, validator_of
from pegboard.schema.validator import is_pattern, lint_schema
from schema_strategies import SCHEMAS, VALUES

OBJECT = {"type": "object"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "mode": {"enum": ["fast", "exact", "fuzzy"]},
        "filters": {
            "anyOf": [
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": {"type": "string"},
                            "op": {"enum": ["eq", "lt", "gt"]},
                            "value": {"type": "number"},
                        },
                        "required": ["field", "op", "value"],
                        "additionalProperties": False,
                    },
                },
                {"type": "null"},
            ]
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def test_all_problems_are_listed_with_their_paths():
    value = {"limit": 5000, "nosuch": 1, "mode": "sideways", "filters": [{"field": "f", "op": "eq", "value": "NaN?"}]}
    assert Validator(SEARCH).problems(value) == (
        "limit: must be at most 100, got 5000",
        'mode: must be one of "fast", "exact", "fuzzy"',
        'filters[0].value: must be a number, got string "NaN?"',
        "query: required, missing",
        "nosuch: unknown key (known: query, limit, mode, filters)",
    )


def test_schemas_that_differ_in_notes_share_a_validator():
    one = validator_of('{"type": "object", "title": "One", "properties": {"title": {"type": "string"}}}')
    assert one is validator_of('{"type":"object","properties":{"title":{"type":"string","description":"Another"}}}')
    assert one.problems({"title": 1}) == ("title: must be a string, got number 1",)
    assert one is not validator_of('{"type":"object"}')


def test_a_reference_into_a_note_works():
    validator = validator_of('{"properties": {"a": {"$ref": "#/default"}}, "default": {"type": "string"}}')
    assert validator.problems({"a": 1}) == ("a: must be a string, got number 1",)


def test_at_most_twenty_problems_are_listed():
    assert len(Validator({"items": {"type": "string"}}).problems(list(range(100)))) == 20


def test_no_coercion_happens():
    validator = Validator({"properties": {"n": {"type": "integer"}, "f": {"type": "number"}, "b": {"type": "boolean"}}})
    assert validator.accepts({"n": 1.0, "f": 1, "b": True})
    assert not validator.accepts({"n": "1"})
    assert not validator.accepts({"n": True})
    assert not validator.accepts({"b": 1})


def test_format_is_not_asserted():
    assert Validator({"format": "date"}).accepts("no date")


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": object()}, {1: 2}, {"a": "\ud800"}, {"a": 10**5000}, {"a": {"b"}}]
)
def test_python_values_that_are_not_json_are_problems(value):
    assert len(Validator({}).problems(value)) == 1


def test_nesting_that_would_crash_the_process_is_a_problem():
    value = []
    for _ in range(100_000):
        value = [value]
    recursive = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
    (found,) = Validator(recursive).problems(value)
    assert found.endswith("must not be nested more than 64 levels deep")
    while value:
        value = value.pop()


OPEN = {"properties": {"a": {"$ref": "#/$defs/b"}}, "unevaluatedProperties": False, "$defs": {"b": {}}}


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}, "(root): Unevaluated properties are not"),
        (OPEN, {"b": 1}, "(root): Unevaluated properties are not allowed ('b' was unexpected)"),
        ({**OPEN, "properties": {"a": {"$ref": "#"}}}, {"a": {"b": 1}}, "a: Unevaluated properties are not allowed"),
        ({"properties": {"a": {"anyOf": [{}]}}, "unevaluatedProperties": False}, {"b": 1}, "(root): Unevaluated prop"),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "(root): Unevaluated items are not allowed"),
        ({"$schema": DRAFT_7, "prefixItems": 5, "minItems": 1}, [], "(root): must have at least 1 item, got 0"),
        ({"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True}, 1, "(root): must be more than 1, got 1"),
        ({"$schema": DRAFT_4, "type": "integer"}, 1.0, "(root): must be an integer, got number 1.0"),
    ],
)
def test_keywords_without_own_messages_get_those_of_jsonschema_rs(schema, value, message):
    (found,) = Validator(schema).problems(value)
    assert found.startswith(message)


def expression(levels):
    value = {"odd": 1}
    for _ in range(levels):
        value = {"op": "d", "left": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"pattern": "^(a+)+$"}}, "unevaluatedProperties": False}, {"a": "a" * 40, "b": 1}),
        ({"items": {"unevaluatedProperties": False, "properties": {"a": {}}}}, [{"b": 1}] * 2_000),
        (
            {
                "$ref": "#/$defs/e",
                "$defs": {
                    "e": {
                        "oneOf": [
                            {"properties": {"op": {"minLength": length}, "left": {"$ref": "#/$defs/e"}}}
                            for length in range(1, 5)
                        ],
                        "unevaluatedProperties": False,
                    }
                },
            },
            expression(40),
        ),
    ],
)
def test_jsonschema_rs_does_not_list_errors_where_it_might_take_long(schema, value):
    assert len(Validator(schema).problems(value)) >= 1


def test_a_value_too_large_to_search_is_refused_without_a_path():
    value = [str(index) for index in range(200_000)]
    assert Validator(
        {"items": {"type": "string"}, "maxProperties": 5, "not": {"contains": {"const": "199999"}}}
    ).problems(value) == ("(root): doesn't fit the schema",)


def test_keywords_cannot_hide_behind_escapes():
    """The reference would make the validator's own list of errors endless, or be fetched."""
    hidden = r'{"type": "object", "\u0024ref": "https://a.example/x"}'
    with pytest.raises(SchemaError, match="points to nothing in it"):
        check_schema(hidden, tool="t")
    assert '"$ref":"#"' in Validator(r'{"properties": {"a": {"\u0024ref": "#"}}}').schema


@pytest.mark.parametrize("schema", [{"type": "strin"}, {"$ref": "#/$defs/gone"}, {"pattern": "("}, '{"type": ', "[]"])
def test_an_unusable_schema_is_refused(schema):
    with pytest.raises(SchemaError):
        Validator(schema)


@given(SCHEMAS, VALUES)
def test_the_second_opinion_agrees(schema, value):
    validator = Validator(schema)
    assert validator.accepts(value) == Draft202012Validator(schema).is_valid(value)
    assert validator.accepts(value) == (validator.problems(value) == ())


@pytest.mark.parametrize(
    "schema",
    [
        OBJECT,
        SEARCH,
        json.dumps(SEARCH),
        {**OBJECT, "properties": {"next": {"$ref": "#"}}},
        {**OBJECT, "properties": {"a": {"$ref": "#a"}}, "$defs": {"x": {"$anchor": "a", "pattern": "^a+$"}}},
        {**OBJECT, "$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{}]}}},
        {**OBJECT, "properties": {f"p{index}": {"type": "string"} for index in range(200)}},
        {**OBJECT, "$id": "https://a.example/s.json", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}},
        {**OBJECT, "properties": {"$ref": {"type": "string"}}},
    ],
)
def test_ordinary_schemas_pass(schema):
    check_schema(schema, tool="t")


ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def test_a_pattern_beyond_linear_time_is_validated_by_a_bounded_engine():
    schema = {**OBJECT, "properties": {"a": {"pattern": ZOD_EMAIL}, "b": {"pattern": r"^(?:(?=a)(a|aa))+$"}}}
    check_schema(schema, tool="t")
    validator = Validator(schema)

    assert validator.accepts({"a": "ann@example.org", "b": "aa"})
    assert validator.problems({"a": "a..b@example.org"}) == (
        f'a: must match the pattern {short_json(ZOD_EMAIL)}, got "a..b@example.org"',
    )
    assert not validator.accepts({"b": "a" * 5_000 + "c"})  # would take 2^5000 steps without a bound


SKIPPED = {
    **OBJECT,
    "properties": {"a": {"type": "string", "pattern": "(y"}, "b": {"pattern": "^b$"}},
    "patternProperties": {"(z": {"type": "integer"}, "^i": {"type": "integer"}},
    "additionalProperties": False,
}


def test_a_pattern_that_no_engine_can_run_may_be_skipped_with_a_warning(caplog):
    for _ in range(2):
        check_schema(SKIPPED, tool="foreign", skip_patterns=True)
    validator = validator_of(json.dumps(SKIPPED))

    assert [record.getMessage() for record in caplog.records] == [
        f"tool 'foreign': no engine here can run the pattern {pattern!r}; arguments are not checked against it"
        for pattern in ("(z", "(y")
    ]
    assert validator.accepts({"a": "q", "b": "b", "xz": 1, "i": 2})
    assert validator.problems({"a": 1, "b": "c", "i": "x"}) == (
        "a: must be a string, got number 1",
        'b: must match the pattern "^b$", got "c"',
        'i: must be an integer, got string "x"',
    )


def test_skipping_patterns_has_a_bound():
    many = {f"p{index}": {"pattern": f"({index}"} for index in range(65)}
    with pytest.raises(SchemaError, match="can be run here"):
        check_schema({**SKIPPED, "$defs": many}, tool="t", skip_patterns=True)


@pytest.mark.parametrize("name", ["Node[int]", "a b", "ä", "A<B, C>", "a%b", "a%5Bb", "a~b", "a#b", 'a"b', "a/b"])
@pytest.mark.parametrize("spell", [str, quote, lambda name: quote(name, safe="")])
def test_references_are_resolved_in_any_spelling(name, spell):
    reference = "#/$defs/" + spell(name.replace("~", "~0").replace("/", "~1"))
    node = {"type": "object", "properties": {"next": {"$ref": reference}, "size": {"type": "integer"}}}
    schema = {**OBJECT, "properties": {"node": {"$ref": reference}}, "$defs": {name: node}}
    check_schema(schema, tool="t")

    validator = Validator(schema)
    assert validator.accepts({"node": {"next": {"size": 1}}})
    assert validator.problems({"node": {"next": {"size": "1"}}}) == (
        'node.next.size: must be an integer, got string "1"',
    )


def bomb(length):
    """Each definition refers to the next twice."""
    definitions = {
        f"a{index}": {"properties": {name: {"$ref": f"#/$defs/a{index + 1}"} for name in "xy"}}
        for index in range(length)
    }
    return {**OBJECT, "$ref": "#/$defs/a0", "$defs": {**definitions, f"a{length}": {}}}


LONG_ENUM = {"enum": list(range(5000))}


def deep(levels):
    schema = OBJECT
    for _ in range(levels):
        schema = {**OBJECT, "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        *((each, "its root must be a JSON object") for each in (True, [], "true", {}, {"type": ["object", "null"]})),
        ("{", "it isn't JSON"),
        ({**OBJECT, "default": float("nan")}, "it isn't JSON"),
        ({**OBJECT, "default": {1, 2}}, "it isn't JSON"),
        ({**OBJECT, "properties": {"a": {"type": "strin"}}}, 'properties.a.type: "strin" is not valid'),
        ({**OBJECT, "properties": {"a": {"pattern": "(y"}}}, '"(y" is not a "regex" that can be run here'),
        ({**OBJECT, "patternProperties": {"(": {}}}, ' is not a "regex" that can be run here'),
        ({**OBJECT, "properties": {"a": {"$ref": "https://a.example/x"}}}, "points to nothing in it"),
        ({**OBJECT, "properties": {"a": {"$ref": "#/$defs/gone"}}}, "points to nothing in it"),
        ({**OBJECT, "$ref": "#"}, "applies itself"),
        (bomb(30), "more than 100000 schemas"),
        ({**OBJECT, "allOf": [{"$ref": "#/$defs/a"}] * 200, "$defs": {"a": LONG_ENUM}}, "more than 100000 schemas"),
        (deep(60), "more than 100 levels"),
        ({**OBJECT, "properties": {f"p{index}": {"pattern": "a"} for index in range(65)}}, "more than 64 patterns"),
        ({**OBJECT, "description": "x" * 600_000}, "characters"),
        ({**OBJECT, "$schema": "https://a.example/dialect"}, "Unknown meta-schema"),
        ({**OBJECT, "properties": {"a": {"$id": "https://a.example/x", "$ref": "#"}}}, 'inner "$id"'),
    ],
)
def test_unusable_or_too_costly_schemas_are_refused(schema, reason):
    with pytest.raises(SchemaError) as caught:
        check_schema(schema, tool="t")
    assert reason in str(caught.value)
    assert caught.value.tool == "t"


def test_cyclic_and_too_deep_python_values_are_refused_as_schemas():
    cyclic = {**OBJECT}
    cyclic["not"] = cyclic
    with pytest.raises(SchemaError, match="isn't JSON"):
        check_schema(cyclic, tool="t")
    with pytest.raises(SchemaError, match="levels deep"):
        check_schema(deep(100_000), tool="t")
    with pytest.raises(SchemaError, match="levels deep"):
        check_schema('{"type": "object", "default": ' + "[" * 200_000 + "]" * 200_000 + "}", tool="t")


def test_other_schemas_may_have_any_root():
    check_schema({"type": "string"}, tool="t", what="schema")
    check_schema("true", tool="t", what="schema")
    with pytest.raises(SchemaError, match="output_schema is refused"):
        check_schema({"type": "string"}, tool="t", what="output_schema")


def test_a_string_with_a_dollar_is_not_a_schema():
    with pytest.raises(SchemaError, match='is not of types "boolean", "object"'):
        check_schema('"$ref"', tool="t", what="schema")


def test_nothing_is_ever_fetched():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)  # noqa: FBT003
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        inner = {"$id": "https://a.example/x", "$schema": url}
        for schema in ({"$ref": url}, {"$schema": url}, {"properties": {"a": inner}, "$ref": url}):
            with pytest.raises(SchemaError):
                check_schema({**OBJECT, **schema}, tool="t")
            with pytest.raises(SchemaError):
                Validator(schema)
        check_schema({**OBJECT, "properties": {"a": inner}}, tool="t")
        assert Validator({"properties": {"a": inner}}).accepts({})
        with pytest.raises(BlockingIOError):
            server.accept()


LINEAR = ["", "a+", r"^(?P<month>Jan|Feb)\s+\d{1,2}$", r"(?i)select .{1,500}"]
NOT_LINEAR = ["(", "(?=a)", r"(a)\1"]


@pytest.mark.parametrize("text", [*LINEAR, *NOT_LINEAR])
def test_a_pattern_must_run_in_linear_time(text):
    assert is_pattern(text) == (text in LINEAR)


HEAVY = """
import json, resource, sys, time
from pegboard.errors import SchemaError
from pegboard.schema import Validator, check_schema

def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform == "darwin" else 1024)

check_schema({"type": "object", "properties": {"a": {"pattern": "x(?=y)"}}}, tool="t")
before, started = memory(), time.process_time()
schema = {"type": "object", "properties": {"a": {"pattern": sys.argv[1]}}}
try:
    check_schema(schema, tool="t")
except SchemaError as error:
    assert "can be run here" in str(error), error
else:
    validator = Validator(schema)
    for text in ("a" * 900_000, "ab" * 450_000, "a" * 500 + "c"):
        assert validator.accepts({"a": text}) or validator.problems({"a": text})
print(json.dumps({"MiB": (memory() - before) // 1024, "seconds": time.process_time() - started}))
"""


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1,100}){1,100}){1,100}",
        "^((.{1,100}){1,100}){1,100}$",
        "(((a{1000}){1000}){1000}){1000}",
        "(?=a)(((a{1000}){1000}){1000}){1000}",
        "a[ab]{5000}d",
        r"(?:(?=a)(a|aa|\w+))+$",
    ],
)
def test_a_heavy_pattern_is_refused_or_runs_in_bounded_memory_and_time(pattern):
    """Which of both is up to the engine; a mebibyte a compiled pattern and 200 ms a value are promised."""
    found = run([sys.executable, "-c", HEAVY, pattern], check=True, capture_output=True, text=True)
    used = json.loads(found.stdout)
    assert used["MiB"] < 64, used
    assert used["seconds"] < 10, used


@pytest.mark.parametrize(("text", "runs"), [("(?R)x", False), ("a(?iR:x)", False), (r"\(?R", True), ("(?i)R", True)])
def test_a_recursive_pattern_is_not_taken_for_a_flag(text, runs):
    schema = json.dumps({"pattern": text, "description": "(?R)"})
    if runs:
        compiled(schema)
    else:
        with pytest.raises(ValueError, match="recurses by"):
            compiled(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "patternProperties": 5}, 'patternProperties: 5 is not of type "object"'),
        ({"type": "object", "description": "\ud800"}, "description: must not hold lone surrogates"),
        ({"type": "object", "properties": {"\udfff": {}}}, "properties: keys must not hold lone surrogates"),
        ({"type": "object", "properties": {"a": {"pattern": "\ud800"}}}, "properties.a.pattern: must not hold lone"),
    ],
)
def test_malformed_schemas_are_refused_with_a_reason(schema, reason):
    for written in (schema, json.dumps(schema)):
        with pytest.raises(SchemaError, match=re.escape(reason)):
            check_schema(written, tool="t")


# --- cost ---

URL = r"^https?://([a-z0-9-]+\.)+[a-z]{2,63}(/.*)?$"
LONG = "ab" * 450_000
MANY = [1] * 100_000


def doubling(levels):
    """A schema that applies another 2 ** levels times to each item."""
    twice = {f"a{index}": {"allOf": [{"$ref": f"#/$defs/a{index + 1}"}] * 2} for index in range(levels)}
    return {"items": {"$ref": "#/$defs/a0"}, "$defs": {**twice, f"a{levels}": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"enum": ["x", "y"], "$comment": "$ref"},
        {"properties": {"a": {"enum": ["x", "y"]}, "b": {"const": "c"}}},
        {"properties": {"children": {"items": {"$ref": "#"}}, "id": {"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}$"}}},
        {"items": {"properties": {f"p{index}": {"type": "string"} for index in range(40)}}},
    ],
)
def test_ordinary_schemas_have_no_bounds(schema):
    """The acceptance is then the validator's own function, without any check before it."""
    validator = Validator(json.dumps(schema))
    assert validator.bounds is None
    assert validator.accepts.__name__ == "is_valid"


@pytest.mark.parametrize(
    ("schema", "large", "small"),
    [
        ({"pattern": "a[ab]{300}d"}, LONG, "a" * 301 + "d"),
        ({"pattern": "|".join(f"a{'[ab]' * count}d" for count in range(30))}, LONG, "ad"),
        ({"items": {"pattern": "a[ab]{300}d"}}, [LONG[:9000]] * 100, []),
        ({"propertyNames": {"pattern": "a[ab]{300}d"}}, {LONG: 1}, {}),
        ({"patternProperties": {"a[ab]{300}d": {}}}, {LONG: 1}, {"b": 1}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"pattern": "a[ab]{300}d"}]}}}, LONG, "a" * 301 + "d"),
        ({"allOf": [{"pattern": f"[ab]{{{index}}}c?$"} for index in range(1, 60)]}, LONG, "ab" * 40),
        (doubling(13), MANY, [1]),
        ({"items": {"oneOf": [{"const": index} for index in range(1000)]}}, MANY, [1]),
        ({"items": {"enum": list(range(1000))}}, MANY, [1]),
        ({"contains": {"allOf": [{"minimum": -index} for index in range(1000)]}}, MANY, [1]),
    ],
)
def test_values_that_would_take_too_long_are_refused_before_validation(schema, large, small):
    validator = Validator(schema)
    values, characters = validator.bounds
    refused = f"(root): too large for its schema; send at most {values:,} values and {characters:,} characters"
    assert not validator.accepts(large)
    assert validator.problems(large) == (refused,)
    assert validator.accepts(small)
    assert validator.problems(small) == ()


def test_a_long_text_is_allowed_next_to_a_costly_pattern():
    validator = Validator({"properties": {"content": {}, "url": {"pattern": URL}}, "required": ["url"]})
    value = {"content": LONG[:50_000], "url": "https://a.example/b"}
    assert validator.problems(value) == ()
    assert validator.problems({**value, "url": "a"}) == (f'url: must match the pattern {json.dumps(URL)}, got "a"',)


@pytest.mark.parametrize("pattern", ["^a", "^[a-z]{1,64}$", r"^\d{4}-\d{2}-\d{2}$", r"^\S+$", r"^.{1,1000}$", "a+b"])
def test_most_patterns_are_light(pattern):
    assert Validator({"pattern": pattern}).bounds is None


def test_an_endless_schema_is_bounded_too():
    """Such a one is refused at registration."""
    assert Validator({"allOf": [{"$ref": "#"}], "pattern": URL}).bounds[1] < 200_000


def test_the_place_in_a_long_enum_does_not_matter():
    validator = Validator({"items": {"enum": list(range(10_000))}})
    assert validator.problems([*range(9_900, 9_950), "x"])[0].startswith("[50]: must be one of 0, 1, 2")


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"requierd": ["a"]}, ["(root): unknown keyword 'requierd'; did you mean 'required'?"]),
        ({"items": {"maxlength": 3}}, ["items: unknown keyword 'maxlength'; did you mean 'maxLength'?"]),
        ({"properties": {"requierd": {"type": "string"}}, "x-order": 1, "example": 1, "nullable": True}, []),
        ({"enum": [{"requierd": 1}], "default": {"requierd": 1}}, []),
        (
            {"properties": {"a": {"$ref": "#/$defs/A", "default": 0}}, "$defs": {"A": {"minimum": 1}}},
            ["properties.a.default: doesn't fit its own schema: must be at least 1, got 0"],
        ),
        (
            {"anyOf": [{"default": [1], "items": {"type": "string"}}]},
            ["anyOf[0].default[0]: doesn't fit its own schema: must be a string, got number 1"],
        ),
        ({"type": "string", "default": "a"}, []),
        ({"minimum": "x", "default": 1, "minItems": None}, []),
    ],
)
def test_misspelt_keywords_and_defaults_that_do_not_fit_are_found(schema, found):
    assert list(lint_schema(schema)) == found
