from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard import parse_predicate
from pegboard.errors import ExpressionError, PredicateError
from pegboard.tools import EMPTY_CONTEXT
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.predicates import Custom, Matches, destructive, edit, everything, idempotent, nothing, read_only
from toolsets.predicate_strategies import CUSTOM, any_text, predicates
from toolsets.samples import make_tool


@given(predicates)
def test_a_predicates_text_parses_to_an_equal_predicate(predicate):
    assert parse_predicate(str(predicate), CUSTOM) == predicate


@given(any_text, any_text)
def test_any_string_survives_as_a_value(key, value):
    for predicate in (Matches(name, value) for name in (f"state.{key}:{value}", "name", "property", f"state.{key}")):
        assert parse_predicate(str(predicate)) == predicate


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        (
            "read_only and not tag:network and name:git_*",
            read_only & ~Matches("tag", "network") & Matches("name", "git_*"),
        ),
        ("edit or read_only and destructive", edit | (read_only & destructive)),
        ("not edit and read_only", ~edit & read_only),
        ("not (edit and read_only)", ~(edit & read_only)),
        ("not not edit", edit),
        ("((edit))", edit),
        ("(edit)or(read_only)", edit | read_only),
        ("not(edit)", ~edit),
        ("  edit\n\tand  idempotent ", edit & idempotent),
        ("tag:a:b", Matches("tag", "a:b")),
        ("tag:and or tag:or", Matches("tag", "and") | Matches("tag", "or")),
        (r"tag:back\slash", Matches("tag", "back\\slash")),
        ("tag:a,b", Matches("tag", "a,b")),
        ('name:"a b"', Matches("name", "a b")),
        ("name:'a \"b\" c'", Matches("name", 'a "b" c')),
        (r'name:"a \"b\" \\ \u00e9"', Matches("name", 'a "b" \\ é')),
        ("name:''", Matches("name", "")),
        ("kind:freeform", Matches("kind", "freeform")),
        ("state.plan:pro", Matches("state.plan", "pro")),
        ("state.a.b:*", Matches("state.a.b", "*")),
        ('state."a:b c":x', Matches("state.a:b c", "x")),
        ("state.'a b':x", Matches("state.a b", "x")),
        ("name:*", everything),
        ("not name:*", nothing),
        ("long_name and has-user", Custom(CUSTOM["long_name"], "long_name") & Custom(CUSTOM["has-user"], "has-user")),
    ],
)
def test_texts_parse(text, predicate):
    assert parse_predicate(text, CUSTOM) == predicate


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "the predicate is empty"),
        (" \n ", 0, "the predicate is empty"),
        ("readonly", 0, "no predicate 'readonly'. Did you mean 'read_only'"),
        ("zzz", 0, "There are read_only, destructive"),
        ("long_nam", 0, "Did you mean 'long_name'"),
        ("AND", 0, "Did you mean 'and'"),
        ("plugins:x", 0, "no key 'plugins'. Did you mean 'plugin'"),
        ("zzz:x", 0, "There are name, tag"),
        ("state:x", 0, "state.KEY"),
        ("state", 0, "state.KEY:VALUE"),
        ("tag", 0, "tag:VALUE"),
        ("kind:functions", 0, "Did you mean 'function'"),
        ("edit and kind:tool", 9, "no kind 'tool'"),
        ("edit read_only", 5, "expected 'and' or 'or'"),
        ("edit AND read_only", 5, "Did you mean 'and'"),
        ("edit & read_only", 5, "Did you mean 'and'"),
        ("edit || read_only", 5, "Did you mean 'or'"),
        ("! edit", 0, "Did you mean 'not'"),
        ("edit (read_only)", 5, "expected 'and' or 'or'"),
        ("edit and", 8, "found the end"),
        ("not", 3, "found the end"),
        ("or edit", 0, "found 'or'"),
        ("edit and or", 9, "found 'or'"),
        ("()", 1, "found ')'"),
        ("(edit", 0, "isn't closed"),
        ("(edit edit)", 6, "expected 'and' or 'or'"),
        ("edit)", 4, "there is no '('"),
        ("name: x", 5, "no value after 'name:'"),
        ("name:", 5, "no value after 'name:'"),
        (":x", 0, "found ':'"),
        ('"edit"', 0, "found '\"'"),
        ("name:'a", 5, "quote isn't closed"),
        ('name:"a', 5, "quote isn't closed"),
        (r'name:"\x"', 5, "JSON string"),
        ("name:a'b'", 6, "quoted as a whole"),
        ("name:'a'b", 8, "quoted as a whole"),
        ('edit"x"', 4, "quoted as a whole"),
        ("state.'a'", 6, "quoted as a whole"),
        ("<custom>", 0, "isn't registered"),
    ],
)
def test_a_syntax_error_has_its_position(text, position, reason):
    with pytest.raises(ExpressionError) as caught:
        parse_predicate(text, CUSTOM)
    assert reason in str(caught.value)
    assert (caught.value.text, caught.value.position) == (text, position)


@pytest.mark.parametrize("text", ["(" * 65 + "edit" + ")" * 65, "not " * 65 + "edit", "(" * 60_000, "not " * 16_000])
def test_depth_is_bounded(text):
    with pytest.raises(ExpressionError, match="64 levels"):
        parse_predicate(text)


@pytest.mark.parametrize("text", ["nosuch" + " " * 60_000, '"' + r"\"" * 30_000, 'name:"' + r"\"" * 30_000], ids=len)
def test_parsing_takes_linear_time(text):
    """Quadratic time would be minutes."""
    with pytest.raises(ExpressionError):
        parse_predicate(text)


def test_length_is_bounded():
    with pytest.raises(ExpressionError, match="65,536") as caught:
        parse_predicate("edit or " * 10_000)
    assert len(caught.value.text) < 100


@given(st.text(st.sampled_from("abAND and or not ()\"'\\:.*edit name state"), max_size=20))
def test_anything_is_read_or_refused(text):
    try:
        predicate = parse_predicate(text)
    except ExpressionError as fault:
        position = fault.position
    else:
        position = 0
        assert parse_predicate(str(predicate)) == predicate
    assert 0 <= position <= len(text)


def test_as_predicate_takes_predicates_texts_and_functions():
    def short(tool, context):
        return len(tool.name) < 3

    assert as_predicate(edit) is edit
    assert as_predicate("edit") == edit
    assert as_predicate("short", {"short": short}) == Custom(short, "short")
    assert as_predicate(short)(make_tool("ab"), EMPTY_CONTEXT)
    with pytest.raises(PredicateError):
        as_predicate(3)
