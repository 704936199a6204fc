from __future__ import annotations

import pytest

from pegboard.errors import DefinitionError
from pegboard.schema.problems import StructureError
from pegboard.toolsets.wrappers import Reshape
from toolsets.samples import object_schema

SCHEMA = object_schema(
    required=["q", "limit"],
    q={"type": "string", "description": "Query."},
    limit={"type": "integer"},
    deep=True,
    lang={"enum": ["en", "de"]},
)


def test_each_argument_is_shown_as_asked():
    reshape = Reshape(
        rename={"q": "query", "deep": "thorough"},
        hide={"lang": "en"},
        default={"limit": 5, "deep": False},
        retype={"q": {"type": "string", "maxLength": 9}},
        describe={"q": "What to look for."},
    )
    assert reshape.shown(SCHEMA) == object_schema(
        required=["query"],
        query={"type": "string", "maxLength": 9, "description": "What to look for."},
        limit={"type": "integer", "default": 5},
        thorough={"default": False},
    )
    assert list(reshape.shown(SCHEMA)["properties"]) == ["query", "limit", "thorough"]


def test_nothing_asked_changes_nothing():
    assert Reshape().shown(SCHEMA) == SCHEMA
    assert Reshape().given({"q": 1}) == {"q": 1}


def test_required_disappears_with_the_last():
    assert "required" not in Reshape(hide={"q": "x"}, default={"limit": 1}).shown(SCHEMA)


def test_a_hidden_value_never_reaches_the_schema():
    schema = {**SCHEMA, "examples": [{"q": "s3cret"}], "default": {"q": "s3cret"}}
    assert "s3cret" not in str(Reshape(hide={"q": "s3cret"}).shown(schema))


def test_arguments_are_turned_back():
    reshape = Reshape(rename={"q": "query"}, hide={"lang": ["en"]}, default={"limit": 5})
    assert reshape.given({"query": "a"}) == {"q": "a", "limit": 5, "lang": ["en"]}
    assert reshape.given({"query": "a", "limit": 7}) == {"q": "a", "limit": 7, "lang": ["en"]}
    assert reshape.shown_arguments({"q": "a", "limit": 7, "lang": ["en"]}) == {"query": "a", "limit": 7}


def test_two_arguments_can_swap_their_names():
    reshape = Reshape(rename={"q": "lang", "lang": "q"})
    assert reshape.given({"q": "en", "lang": "text"}) == {"lang": "en", "q": "text"}


def test_a_value_is_fresh_for_every_call():
    reshape = Reshape(hide={"lang": ["en"]}, default={"deep": {}})
    first = reshape.given({})
    first["lang"].append("de")
    first["deep"]["x"] = 1
    assert reshape.given({}) == {"lang": ["en"], "deep": {}}


@pytest.mark.parametrize("name", ["q", "lang"])
def test_a_name_that_the_model_cannot_know_is_refused(name):
    """Where a schema takes more arguments than it names, the hidden ones can't be reached by their own names."""
    reshape = Reshape(rename={"q": "query"}, hide={"lang": "en"})
    with pytest.raises(StructureError) as caught:
        reshape.given({"query": "a", name: "x"})
    assert caught.value.path == (name,)


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"hide": {"a": 1}, "rename": {"a": "b"}}, "hidden"),
        ({"hide": {"a": 1}, "default": {"a": 1}}, "hidden"),
        ({"hide": {"a": 1}, "retype": {"a": {}}}, "hidden"),
        ({"hide": {"a": 1}, "describe": {"a": "x"}}, "hidden"),
        ({"rename": {"a": "c", "b": "c"}}, "same name"),
        ({"retype": {"a": {"type": "text"}}}, "the schema for 'a'"),
    ],
)
def test_a_reshape_that_contradicts_itself_is_refused(wishes, reason):
    with pytest.raises(DefinitionError, match=reason):
        Reshape(**wishes)


def test_a_value_that_json_cannot_say_is_refused():
    with pytest.raises(TypeError):
        Reshape(hide={"a": object()})


@pytest.mark.parametrize(
    ("wishes", "schema", "reason"),
    [
        ({"rename": {"limits": "x"}}, SCHEMA, "no such argument. Did you mean 'limit'"),
        ({"hide": {"zzz": 1}}, {"type": "object"}, "There are none"),
        ({"rename": {"q": "limit"}}, SCHEMA, "two arguments would be called 'limit'"),
        ({"rename": {"q": "x"}}, {**SCHEMA, "dependentRequired": {"q": ["limit"]}}, "'dependentRequired' at its root"),
        ({"rename": {"q": "x"}}, {**SCHEMA, "allOf": []}, "'allOf' at its root"),
        ({"rename": {"q": "x"}}, {**SCHEMA, "not": {"$ref": "#"}}, "'not' at its root"),
        ({"rename": {"q": "x"}}, object_schema(q={"$ref": "#"}), "reference '#'"),
        (
            {"rename": {"q": "x"}},
            object_schema(q={"items": [{"$ref": "#/properties/y"}]}),
            "reference '#/properties/y'",
        ),
    ],
)
def test_a_schema_that_cannot_be_reshaped_safely_is_refused(wishes, schema, reason):
    with pytest.raises(DefinitionError, match=reason):
        Reshape(**wishes).shown(schema)


def test_references_to_definitions_and_extensions_stay():
    schema = {**object_schema(q={"$ref": "#/$defs/Q"}), "$defs": {"Q": {"type": "string"}}, "x-order": 1}
    shown = Reshape(rename={"q": "x"}).shown(schema)
    assert (shown["properties"], shown["$defs"], shown["x-order"]) == ({"x": {"$ref": "#/$defs/Q"}}, schema["$defs"], 1)


def test_a_hidden_value_that_does_not_fit_is_not_told():
    """It may be a secret."""
    with pytest.raises(DefinitionError, match="'limit': the value that it is hidden with doesn't fit") as caught:
        Reshape(hide={"limit": "s3cret"}).shown(SCHEMA)
    assert "s3cret" not in str(caught.value)


def test_a_default_that_does_not_fit_is_told():
    with pytest.raises(DefinitionError) as caught:
        Reshape(default={"limit": "no"}).shown(SCHEMA)
    assert str(caught.value) == """'limit': its default doesn't fit: (root): must be an integer, got string "no\""""


@pytest.mark.parametrize(("value", "fits"), [("a", True), (5, False)])
def test_values_are_judged_with_the_definitions_of_the_root(value, fits):
    schema = {**object_schema(q={"$ref": "#/$defs/Q"}), "$defs": {"Q": {"type": "string"}}}
    if fits:
        assert Reshape(hide={"q": value}).shown(schema)["properties"] == {}
    else:
        with pytest.raises(DefinitionError, match="hidden with"):
            Reshape(hide={"q": value}).shown(schema)
