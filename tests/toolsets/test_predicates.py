from __future__ import annotations

import copy
import enum
import functools
import json
import pickle
from types import MappingProxyType

import pytest
from hypothesis import example, given, strategies as st

from pegboard import ReadonlyContext
from pegboard.errors import PredicateError
from pegboard.tools import EMPTY_CONTEXT
from pegboard.toolsets.expression import predicate_from_json
from pegboard.toolsets.predicates import (
    FLAGS,
    KEYS,
    MAX_DEPTH,
    RESERVED,
    Custom,
    Flag,
    Matches,
    all_of,
    any_of,
    check_predicate_name,
    deferred,
    destructive,
    edit,
    everything,
    idempotent,
    long_running,
    matcher,
    nothing,
    open_world,
    read_only,
    scalar_text,
    written,
)
from toolsets.predicate_strategies import CUSTOM, WORDS, contexts, predicates, tools
from toolsets.samples import make_tool


@given(predicates, predicates, tools, contexts)
def test_operators_combine_answers(p, q, tool, context):
    of_p, of_q = p(tool, context), q(tool, context)
    assert (p & q)(tool, context) is (of_p and of_q)
    assert (p | q)(tool, context) is (of_p or of_q)
    assert (~p)(tool, context) is (not of_p)


@given(predicates, tools, contexts)
def test_the_deciding_part_has_the_same_answer(predicate, tool, context):
    assert predicate.deciding(tool, context)(tool, context) is predicate(tool, context)


@given(predicates, predicates, predicates)
def test_nesting_of_one_kind_is_flat(p, q, r):
    assert (p & q) & r == p & (q & r)
    assert (p | q) | r == p | (q | r)
    assert ~~p == p


@given(predicates)
def test_equal_predicates_hash_alike_and_survive_copies(predicate):
    assert hash(predicate) == hash(copy.deepcopy(predicate))
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_a_predicate_is_neither_true_nor_false():
    """`p and q` would silently be `q`."""
    with pytest.raises(TypeError, match="&"):
        _ = read_only and edit


@pytest.mark.parametrize("join", [lambda p: p & True, lambda p: p | "edit", lambda p: None & p])
def test_only_predicates_join(join):
    with pytest.raises(TypeError):
        join(read_only)


def test_all_of_nothing_is_everything_and_any_of_nothing_is_nothing():
    assert (all_of(), any_of()) == (everything, nothing)
    assert (all_of(edit), any_of(edit)) == (edit, edit)


def test_nesting_has_a_limit():
    deep = read_only
    while deep.depth < MAX_DEPTH:
        deep = (deep & edit) if deep.depth % 2 else (deep | edit)
    with pytest.raises(PredicateError, match="64"):
        _ = ~deep


@pytest.mark.parametrize("hint", [None, False])
@pytest.mark.parametrize("flag", [read_only, destructive, idempotent, open_world, edit])
def test_a_hint_counts_only_where_it_is_true(flag, hint):
    """Unset is unset: neither read-only nor destructive."""
    assert flag(make_tool(hints={flag.word: True}), EMPTY_CONTEXT) is True
    assert flag(make_tool(hints={flag.word: hint}), EMPTY_CONTEXT) is False


@pytest.mark.parametrize(
    ("flag", "counts"), [(read_only, False), (idempotent, False), (destructive, True), (open_world, True), (edit, True)]
)
def test_an_untrusted_origin_only_adds_caution(flag, counts):
    assert flag(make_tool(hints={flag.word: True}, trusted=False), EMPTY_CONTEXT) is counts


def test_the_facts_tell_that_a_hint_is_untrusted():
    tool = make_tool(hints={"read_only": True}, trusted=False)
    assert "trusted" in read_only.facts(tool, EMPTY_CONTEXT)
    assert read_only.facts(make_tool(hints={"read_only": True}), EMPTY_CONTEXT) == ""


def test_flags_of_the_spec():
    assert long_running(make_tool(long_running=True), EMPTY_CONTEXT)
    assert not long_running(make_tool(), EMPTY_CONTEXT)
    assert deferred(make_tool(deferred=True), EMPTY_CONTEXT)
    assert not deferred(make_tool(), EMPTY_CONTEXT)


@pytest.mark.parametrize(
    ("predicate", "there", "elsewhere"),
    [
        (Matches("name", "git_*"), make_tool("git_push"), make_tool("push")),
        (Matches("name", "push"), make_tool("push"), make_tool("pushy")),
        (Matches("tag", "net"), make_tool(tags=["a", "net"]), make_tool(tags=["network"])),
        (Matches("tag", "net*"), make_tool(tags=["a", "network"]), make_tool()),
        (Matches("kind", "freeform"), make_tool(kind="freeform"), make_tool()),
        (Matches("kind", "f*"), make_tool(kind="freeform"), make_tool(kind="provider")),
        (Matches("plugin", "files"), make_tool(plugin="files"), make_tool()),
        (Matches("plugin", "*"), make_tool(plugin="files"), make_tool()),
        (Matches("toolset", "mcp?"), make_tool(toolset="mcp1"), make_tool(toolset="mcp")),
        (Matches("distribution", "pegboard-*"), make_tool(distribution="pegboard-files"), make_tool()),
        (Matches("source", "llm-*"), make_tool(source="llm-tools"), make_tool(distribution="llm-tools")),
        (
            Matches("property", "path"),
            make_tool(input_schema={"type": "object", "properties": {"path": {}}}),
            make_tool(input_schema={"type": "object", "properties": {"p": {"description": "path"}}}),
        ),
        (
            Matches("property", "p*"),
            make_tool(input_schema={"type": "object", "properties": {"path": {}}}),
            make_tool(),
        ),
    ],
)
def test_a_value_of_the_tool_matches(predicate, there, elsewhere):
    assert predicate(there, EMPTY_CONTEXT) is True
    assert predicate(elsewhere, EMPTY_CONTEXT) is False


@pytest.mark.parametrize("key", ["user", "agent", "model", "provider"])
def test_a_value_of_the_context_matches(key):
    tool = make_tool()
    assert Matches(key, "a*")(tool, ReadonlyContext(**{key: "alice"})) is True
    assert Matches(key, "alice")(tool, ReadonlyContext(**{key: "bob"})) is False
    assert Matches(key, "*")(tool, EMPTY_CONTEXT) is False


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
        *((each, None) for each in ([1], {}, object())),
    ],
)
def test_a_scalar_of_the_state_is_compared_as_text(value, text):
    assert scalar_text(value) == text
    matched = Matches("state.plan", "*")(make_tool(), ReadonlyContext(state=MappingProxyType({"plan": value})))
    assert matched is (text is not None)
    if text is not None:
        assert Matches("state.plan", text)(make_tool(), ReadonlyContext(state={"plan": value}))


@given(tools, contexts)
def test_every_predicate_has_facts(tool, context):
    for key in KEYS:
        assert Matches(key, "*").facts(tool, context).startswith(f"{key}: ")
    for word in WORDS:
        assert Matches(f"state.{word}", "*").facts(tool, context)


@given(tools)
def test_a_literal_property_matches_the_schema(tool):
    """The shortcut by the schema's text never changes the answer."""
    for word in WORDS:
        if "*" not in word and "?" not in word:
            assert Matches("property", word)(tool, EMPTY_CONTEXT) is (word in tool.spec.input_schema["properties"])


def test_an_escaped_property_is_found():
    from pegboard.json import JsonText

    tool = make_tool(input_schema=JsonText('{"type": "object", "properties": {"p\\u0061th": {}}}'))
    assert Matches("property", "path")(tool, EMPTY_CONTEXT)


def test_unknown_words_are_refused_with_near_misses():
    with pytest.raises(PredicateError, match="'read_only'"):
        Flag("readonly")
    with pytest.raises(PredicateError, match="'plugin'"):
        Matches("plugins", "x")
    with pytest.raises(PredicateError, match="'function'"):
        Matches("kind", "functions")
    with pytest.raises(PredicateError, match="freeform"):
        Matches("kind", "")


def test_every_flag_and_key_has_a_text():
    assert {str(Flag(word)) for word in FLAGS} == set(FLAGS)
    assert {str(Matches(key, "f*")) for key in KEYS} == {f"{key}:f*" for key in KEYS}


def cheap(tool, context):
    return "cheap" in tool.spec.tags


def test_a_callable_gets_tool_and_context():
    asked = []
    predicate = Custom(lambda tool, context: asked.append((tool.name, context.user)) or True)
    assert predicate(make_tool("a"), ReadonlyContext(user="ann")) is True
    assert asked == [("a", "ann")]


def test_a_predicate_under_a_name_is_that_predicate():
    safe = Custom(read_only, "safe")
    assert safe(make_tool(hints={"read_only": True}), EMPTY_CONTEXT)
    assert not safe(make_tool(), EMPTY_CONTEXT)
    assert str(safe) == "safe"


async def asynchronous(tool, context):
    return False


class Asynchronous:
    async def __call__(self, tool, context):
        return False


@pytest.mark.parametrize("function", [Asynchronous(), functools.partial(asynchronous), lambda *_: (yield), "read_only"])
def test_only_a_plain_callable_is_a_custom_predicate(function):
    with pytest.raises(PredicateError, match="plain function"):
        Custom(function)


def test_an_awaitable_answer_raises():
    """A coroutine is always true: it would let every tool in."""
    with pytest.raises(TypeError, match="await"):
        Custom(lambda *arguments: asynchronous(*arguments))(make_tool(), EMPTY_CONTEXT)  # noqa: PLW0108  hides what it is


def test_a_callable_without_a_name_has_neither_text_nor_json():
    assert str(Custom(cheap)) == "<custom>"
    with pytest.raises(PredicateError, match="register"):
        Custom(cheap).to_json()


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reserved_word_cant_name_a_predicate(name):
    with pytest.raises(PredicateError, match="reserved"):
        Custom(cheap, name)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "1a", "state.x", "é", "(", "x" * 65])
def test_a_name_is_a_bare_word(name):
    with pytest.raises(PredicateError, match="1 to 64"):
        check_predicate_name(name)


def matches_slowly(pattern, value):
    """Reference implementation with backtracking."""
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(matches_slowly(pattern[1:], value[start:]) for start in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and matches_slowly(pattern[1:], value[1:])


@given(st.text("ab*?.[", max_size=7), st.text("ab*?.[\n", max_size=7))
@example("a*b*b", "abb")
@example("*ab*ba*", "abba")
@example("*ab*ba*", "aba")
@example("*?b*", "ab")
@example("a*a", "a")
def test_patterns_match_like_a_reference_implementation(pattern, value):
    assert bool(matcher(pattern)(value)) is matches_slowly(pattern, value)


@pytest.mark.parametrize("pattern", ["*" + "a*" * 30 + "b", "?*" * 30 + "b", "*a?" * 30 + "*b"])
def test_many_stars_take_bounded_time(pattern):
    """A backtracking matcher would take exponential time."""
    assert not matcher(pattern)("a" * 3000)


@pytest.mark.parametrize(
    ("pattern", "value"), [("[ab]", "a"), ("a.c", "abc"), ("A", "a"), ("a", "a\n"), ("a*a", "a"), ("{a,b}", "a")]
)
def test_only_star_and_question_mark_are_special(pattern, value):
    assert not matcher(pattern)(value)


@given(st.text())
def test_a_written_value_is_bare_or_a_json_string(value):
    text = written(value)
    assert text == value or json.loads(text) == value


@given(predicates)
def test_json_reads_back_to_an_equal_predicate(predicate):
    text = json.dumps(predicate.to_json())
    assert predicate_from_json(json.loads(text), CUSTOM) == predicate


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((each, r"^\$: expected an object") for each in (None, [], {}, {"is": "edit", "name": "a"})),
        ({"nam": "a"}, r"^\$: unknown key 'nam'. Did you mean 'name'"),
        ({1: "a"}, r"^\$: unknown key '1'"),
        ({"and": []}, r"^\$.and: expected a list"),
        ({"or": {}}, r"^\$.or: expected a list"),
        ({"and": [{"is": "edit"}, {"not": {"is": "edits"}}]}, r"^\$.and\[1\].not.is: there is no flag 'edits'"),
        ({"name": 1}, r"^\$.name: expected a string, found int"),
        ({"kind": "tool"}, r"^\$.kind: there is no kind"),
        ({"state": "a"}, r"^\$.state: expected"),
        ({"state": {"key": "a"}}, r"^\$.state: expected"),
        ({"state": {"key": "a", "pattern": None}}, r"^\$.state: expected a string"),
        ({"custom": "long_nam"}, r"^\$.custom: no predicate is registered as 'long_nam'. Did you mean 'long_name'"),
    ],
)
def test_invalid_json_is_refused_with_its_place(data, reason):
    with pytest.raises(PredicateError, match=reason):
        predicate_from_json(data, CUSTOM)


def nested(levels):
    data = {"is": "edit"}
    for _ in range(levels - 1):
        data = {"not": data}
    return data


def test_depth_is_bounded():
    assert str(predicate_from_json(nested(64))) == "not edit"
    for levels in (65, 50_000):
        with pytest.raises(PredicateError, match="64 levels"):
            predicate_from_json(nested(levels))


def test_characters_are_bounded():
    with pytest.raises(PredicateError, match="65,536"):
        predicate_from_json({"or": [{"name": "x" * 40_000}] * 2})


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(("edit", "a*"))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("and", "or", "not", "is", "name", "state", "custom", "x")), inner, max_size=2),
    ),
    max_leaves=6,
)


@given(json_values)
def test_anything_is_read_or_refused(data):
    try:
        predicate = predicate_from_json(data, CUSTOM)
    except PredicateError:
        return
    assert predicate_from_json(predicate.to_json(), CUSTOM) == predicate


def test_its_repr_shows_its_text():
    assert repr(read_only & ~Matches("tag", "a b")) == '<Predicate read_only and not tag:"a b">'
