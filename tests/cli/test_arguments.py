"""`key=value` words become arguments, typed by the schema."""

from __future__ import annotations

import json

import click
import pytest
from hypothesis import given, strategies as st

from pegboard.cli.arguments import ALL_TYPES, SchemaType, convert_text, read_arguments, read_words

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "mode": {"enum": ["fast", 2, True, None]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        "filter": {
            "type": "object",
            "properties": {"op": {"type": "string"}, "value": {"type": "integer"}, "deep": {"$ref": "#/$defs/deep"}},
        },
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
        "a.b": {"type": "integer"},
        "any": {},
    },
    "$defs": {"deep": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
    "additionalProperties": False,
}


def read(*words: str, base=None):
    return read_arguments(words, SCHEMA, base)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=5", "5"),
        ("text=null", "null"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=@@home", "@home"),
        ("text=[1]", "[1]"),
        ("count=5", 5),
        ("count=-0", 0),
        ("count=1.0", 1.0),
        ("count=1.5", 1.5),
        ("count=05", "05"),
        ("count=+5", "+5"),
        ("count=five", "five"),
        ("count=" + "9" * 5000, "9" * 5000),
        ("ratio=1e3", 1000.0),
        ("ratio=1e999", "1e999"),
        ("ratio=NaN", "NaN"),
        ("flag=true", True),
        ("flag=false", False),
        ("flag=True", "True"),
        ("flag=null", "null"),
        ("maybe=null", None),
        ("maybe=x", "x"),
        ("either=5", 5),
        ("either=x", "x"),
        ("mode=fast", "fast"),
        ("mode=2", 2),
        ("mode=true", True),
        ("mode=null", None),
        ("mode=slow", "slow"),
        ("any=5", 5),
        ("any=true", True),
        ("any={'a'}", "{'a'}"),
        ('any={"a":1}', {"a": 1}),
        ("any=x", "x"),
    ],
)
def test_a_text_is_read_by_the_schema(word, value):
    name = word.partition("=")[0]
    found = read(word)[name]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a","b"]'], {"tags": ["a", "b"]}),
        (["tags=[a"], {"tags": ["[a"]}),
        (["tags:=[]"], {"tags": []}),
        (["sizes=1", "sizes=x"], {"sizes": [1, "x"]}),
        (["sizes=1", "sizes:=2"], {"sizes": [1, 2]}),
        (["pair=1", "pair=2"], {"pair": [1, "2"]}),
        (["any=1", "any=x"], {"any": [1, "x"]}),
        (["filter.op=eq", "filter.value=3"], {"filter": {"op": "eq", "value": 3}}),
        (["filter.deep.on=true"], {"filter": {"deep": {"on": True}}}),
        (["filter.value=3", 'filter={"op":"eq"}'], {"filter": {"op": "eq", "value": 3}}),
        (["limits.cpu=2"], {"limits": {"cpu": 2}}),
        (["limits.cpu.user=2"], {"limits": {"cpu.user": 2}}),
        (["a.b=2"], {"a.b": 2}),
        (["unknown=2"], {"unknown": "2"}),
        (["unknown.part=2"], {"unknown.part": "2"}),
        (["text.=x"], {"text.": "x"}),
        (["count:=2.5"], {"count": 2.5}),
        (["text:=null"], {"text": None}),
    ],
)
def test_arrays_objects_and_json(words, arguments):
    assert read(*words) == arguments


def test_words_are_put_over_given_arguments():
    base = {"text": "a", "filter": {"op": "eq"}}
    assert read("text=b", "filter.value=1", base=base) == {"text": "b", "filter": {"op": "eq", "value": 1}}
    assert base == {"text": "a", "filter": {"op": "eq"}}


def test_a_file_is_read(tmp_path):
    (tmp_path / "text").write_text("from a file\n")
    (tmp_path / "json").write_text('{"op": "eq"}\n')
    assert read(f"text=@{tmp_path}/text") == {"text": "from a file\n"}
    assert read(f"filter:=@{tmp_path}/json") == {"filter": {"op": "eq"}}
    assert read(f"filter=@{tmp_path}/json") == {"filter": {"op": "eq"}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x"], "'x' is not an argument: write text=x"),
        (["=x"], "no key"),
        ([":=1"], "no key"),
        (["count:={"], "count:= needs valid JSON"),
        (["count:=NaN"], "count:= needs valid JSON: expected value"),
        (["count:=1e999"], "must be a finite number"),
        (['any:={"a":1,"a":2}'], 'duplicate key "a"'),
        (["any:=" + "[" * 100_000], "count:= needs valid JSON".replace("count", "any")),
        (["count=1", "count=2"], "count is given 2 times but takes one value"),
        (["filter:=3", "filter.op=x"], "filter.op sets a part of 'filter'"),
        (["text=@missing"], "No such file or directory; for a text that begins with '@', write text=@@missing"),
    ],
)
def test_invalid_words(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.ClickException) as caught:
        read(*words)
    assert message in str(caught.value)


@pytest.mark.parametrize(("data", "message"), [(b"\xff\xfe", "isn't UTF-8"), (b"four", "larger than 3 bytes")])
def test_a_file_that_is_not_text_or_too_large(tmp_path, monkeypatch, data, message):
    monkeypatch.setattr("pegboard.cli.arguments.MOST_FILE_BYTES", 3)
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(click.ClickException, match=message):
        read(f"text=@{tmp_path}/file")


def test_state_words_are_flat_and_untyped():
    assert read_words(["tier=gold", "n=5", "m:=5", "a.b=c", "tier=free"]) == {
        "tier": "free",
        "n": "5",
        "m": 5,
        "a.b": "c",
    }
    with pytest.raises(click.ClickException):
        read_words(["tier"])


# Laws --------------------------------------------------------------------------------------------------------------

_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_TYPED = (
    st.tuples(st.just("string"), st.text())
    | st.tuples(st.just("integer"), st.integers())
    | st.tuples(st.just("number"), _NUMBERS)
    | st.tuples(st.just("boolean"), st.booleans())
    | st.tuples(st.just("null"), st.none())
    | st.tuples(st.just("array"), st.lists(st.text() | _NUMBERS))
    | st.tuples(st.just("object"), st.dictionaries(st.text(), st.text() | _NUMBERS))
)


@given(_TYPED)
def test_json_of_a_value_is_read_back_as_the_value(case):
    kind, value = case
    text = value if isinstance(value, str) else json.dumps(value)
    assert convert_text(text, SchemaType({"type": kind}, {})) == value


@given(st.text(), st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]))
def test_any_text_is_read_without_an_error(text, kind):
    value = convert_text(text, SchemaType({"type": kind}, {}))
    assert value == text or type(value) is not str


@given(st.lists(st.sampled_from(["a", "b", "filter.op", "x.y"]), max_size=6), st.text(max_size=8))
def test_every_word_of_free_keys_lands_under_its_key(keys, text):
    words = [f"{key}:={json.dumps(text)}" for key in dict.fromkeys(keys)]
    arguments = read_arguments(words, {"type": "object"})
    for key in keys:
        value = arguments
        for part in key.split("."):
            value = value[part]
        assert value == text


# What a schema hints of a value --------------------------------------------------------------------------------------


def hint(schema) -> SchemaType:
    return SchemaType(schema, schema)


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["integer", "null", 3]}, {"integer", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"const": 1}, {"enum": ["a", None]}]}, {"integer", "string", "null"}),
        ({"properties": {}}, {"object"}),
        ({"items": True}, {"array"}),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}}, {"number"}),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}, set()),
        ({"$ref": "http://elsewhere"}, set()),
        ({"$ref": "#/nowhere"}, set()),
        ({"$ref": "#/a~1b/c~0d", "a/b": {"c~d": {"type": "boolean"}}}, {"boolean"}),
        ({"anyOf": [{"anyOf": [{"type": "string"}] * 50}] * 50}, {"string"}),  # a tangle ends
        ({"$ref": "#/anyOf/1", "anyOf": [{"type": "null"}, {"type": "string"}]}, {"null", "string"}),
        ({}, ALL_TYPES),
        (True, ALL_TYPES),
        (False, set()),
        (3, set()),
    ],
)
def test_the_types_that_a_schema_allows(schema, types):
    assert hint(schema).types == types


def test_the_values_that_are_named():
    assert hint({"anyOf": [{"enum": [1, "a"]}, {"const": None}, {"type": "string"}]}).members == (1, "a", None)


def test_the_first_definition_of_a_property_counts():
    schema = {
        "anyOf": [
            {"properties": {"a": {"type": "string"}, "b": True}, "required": ["a"]},
            {"properties": {"a": {"type": "null"}}, "required": ["c", 3]},
        ]
    }
    assert {name: below.types for name, below in hint(schema).properties.items()} == {"a": {"string"}, "b": ALL_TYPES}
    assert hint(schema).required == {"a", "c"}


def test_a_property_that_is_not_named():
    assert hint({"additionalProperties": {"type": "integer"}}).child("x").types == {"integer"}
    assert hint({"type": "object"}).child("x").is_open
    assert hint({"type": "string"}).child("x").types == set()
    assert hint({"type": "object", "additionalProperties": False}).child("x").types == set()


def test_items_by_index():
    schema = {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    assert hint(schema).item(0).types == {"string"}
    assert hint(schema).item(1).types == {"integer"}
    assert hint({"type": "array"}).item(0).is_open
    assert hint({"type": "string"}).item(0).types == set()


def test_the_outer_keyword_overrides_inner_ones():
    assert hint({"description": "outer", "anyOf": [{"description": "inner"}]}).keywords.get("description") == "outer"
    assert hint({"anyOf": [{"description": "inner"}]}).keywords.get("description") == "inner"
    assert hint({}).keywords.get("description") is None
