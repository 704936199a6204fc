from __future__ import annotations

import enum
from types import MappingProxyType

import pytest
from hypothesis import given

from pegboard.errors import PredicateError
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.toolsets.predicate import FLAGS, KEYS, Flag, Matches, _property_names, scalar_text
from pegboard.toolsets.predicates import (
    deferred,
    destructive,
    edit,
    for_agent,
    for_model,
    for_provider,
    for_user,
    from_distribution,
    from_plugin,
    from_toolset,
    has_property,
    idempotent,
    kind,
    long_running,
    named,
    open_world,
    read_only,
    state,
    tagged,
)
from toolsets.predicate_strategies import WORDS, contexts, tools
from toolsets.samples import make_tool


@pytest.mark.parametrize("hint", [None, False])
@pytest.mark.parametrize("flag", [read_only, destructive, idempotent, open_world, edit])
def test_a_hint_counts_only_where_it_says_yes(flag, hint):
    """Unset is unset: neither read-only nor destructive."""
    assert flag(make_tool(hints={flag.word: True}), NOBODY) is True
    assert flag(make_tool(hints={flag.word: hint}), NOBODY) is False


@pytest.mark.parametrize(
    ("flag", "counts"), [(read_only, False), (idempotent, False), (destructive, True), (open_world, True), (edit, True)]
)
def test_an_untrusted_origin_only_adds_caution(flag, counts):
    assert flag(make_tool(hints={flag.word: True}, trusted=False), NOBODY) is counts


def test_a_hint_that_is_not_believed_is_told():
    tool = make_tool(hints={"read_only": True}, trusted=False)
    assert "trusted" in read_only.facts(tool, NOBODY)
    assert read_only.facts(make_tool(hints={"read_only": True}), NOBODY) == ""


def test_flags_of_the_spec():
    assert long_running(make_tool(long_running=True), NOBODY)
    assert not long_running(make_tool(), NOBODY)
    assert deferred(make_tool(deferred=True), NOBODY)
    assert not deferred(make_tool(), NOBODY)


@pytest.mark.parametrize(
    ("predicate", "there", "elsewhere"),
    [
        (named("git_*"), make_tool("git_push"), make_tool("push")),
        (named("push"), make_tool("push"), make_tool("pushy")),
        (tagged("net"), make_tool(tags=["a", "net"]), make_tool(tags=["network"])),
        (tagged("net*"), make_tool(tags=["a", "network"]), make_tool()),
        (kind("freeform"), make_tool(kind="freeform"), make_tool()),
        (kind("f*"), make_tool(kind="freeform"), make_tool(kind="provider")),
        (from_plugin("files"), make_tool(plugin="files"), make_tool()),
        (from_plugin("*"), make_tool(plugin="files"), make_tool()),
        (from_toolset("mcp?"), make_tool(toolset="mcp1"), make_tool(toolset="mcp")),
        (from_distribution("pegboard-*"), make_tool(distribution="pegboard-files"), make_tool()),
        (
            has_property("path"),
            make_tool(input_schema={"type": "object", "properties": {"path": {}}}),
            make_tool(input_schema={"type": "object", "properties": {"p": {"description": "path"}}}),
        ),
        (has_property("p*"), make_tool(input_schema={"type": "object", "properties": {"path": {}}}), make_tool()),
    ],
)
def test_a_value_of_the_tool_matches(predicate, there, elsewhere):
    assert predicate(there, NOBODY) is True
    assert predicate(elsewhere, NOBODY) is False


@pytest.mark.parametrize(
    ("predicate", "key"), [(for_user, "user"), (for_agent, "agent"), (for_model, "model"), (for_provider, "provider")]
)
def test_a_value_of_the_context_matches(predicate, key):
    tool = make_tool()
    assert predicate("a*")(tool, ReadonlyContext(**{key: "alice"})) is True
    assert predicate("alice")(tool, ReadonlyContext(**{key: "bob"})) is False
    assert predicate("*")(tool, NOBODY) is False


class Colour(str, enum.Enum):  # noqa: UP042  StrEnum has another str()
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("pro", "pro"),
        (Colour.RED, "red"),
        (Level.HIGH, "3"),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (3, "3"),
        (1.5, "1.5"),
        ([1], None),
        ({}, None),
        (object(), None),
    ],
)
def test_a_scalar_of_the_state_is_compared_as_text(value, text):
    assert scalar_text(value) == text
    matched = state("plan", "*")(make_tool(), ReadonlyContext(state=MappingProxyType({"plan": value})))
    assert matched is (text is not None)
    if text is not None:
        assert state("plan", text)(make_tool(), ReadonlyContext(state={"plan": value}))


def test_a_missing_key_of_the_state_never_matches():
    assert not state("plan", "*")(make_tool(), NOBODY)
    assert not state("plan", "null")(make_tool(), ReadonlyContext(state={"plans": None}))


@given(tools, contexts)
def test_facts_can_be_told_of_anything(tool, context):
    for key in KEYS:
        assert Matches(key, "*").facts(tool, context).startswith(f"{key}: ")
    for word in WORDS:
        assert state(word, "*").facts(tool, context)


@given(tools)
def test_a_literal_property_means_what_the_schema_says(tool):
    """The quick look at the schema's text never changes the answer."""
    for word in WORDS:
        if "*" not in word and "?" not in word:
            assert has_property(word)(tool, NOBODY) is (word in tool.spec.input_schema["properties"])


@pytest.mark.parametrize("schema", ["true", "[]", '{"properties": []}', "{}"])
def test_a_schema_without_properties_has_none(schema):
    assert _property_names(schema) == ()


def test_an_escaped_property_is_found():
    from pegboard.schema.json import JsonText

    tool = make_tool(input_schema=JsonText('{"type": "object", "properties": {"p\\u0061th": {}}}'))
    assert has_property("path")(tool, NOBODY)


def test_unknown_words_are_refused_with_what_may_have_been_meant():
    with pytest.raises(PredicateError, match="'read_only'"):
        Flag("readonly")
    with pytest.raises(PredicateError, match="'plugin'"):
        Matches("plugins", "x")
    with pytest.raises(PredicateError, match="'function'"):
        kind("functions")
    with pytest.raises(PredicateError, match="freeform"):
        kind("")


def test_every_flag_and_key_has_a_text():
    assert {str(Flag(word)) for word in FLAGS} == set(FLAGS)
    assert {str(Matches(key, "f*")) for key in KEYS} == {f"{key}:f*" for key in KEYS}
