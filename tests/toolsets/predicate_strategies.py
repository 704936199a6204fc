"""Predicates, tools and contexts, generated."""

from __future__ import annotations

from hypothesis import strategies as st

from pegboard import ReadonlyContext
from pegboard.toolsets.predicates import FLAGS, KEYS, Custom, Flag, Matches, all_of, any_of
from toolsets.samples import make_tool

WORDS = ("a", "b", "ab", "git_push", "x y", "", 'q"uote', "back\\slash", "(", "é", "and", "*", "\n", "a:b")
TOOL_NAMES = ("a", "b", "ab", "git_push")

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
"""Any unicode string, lone surrogates too."""

patterns = st.one_of(st.sampled_from(WORDS), any_text, st.text("ab*?", max_size=6))


def long_name(tool, context):
    return len(tool.name) > 1


def has_user(tool, context):
    return context.user is not None


CUSTOM = {"long_name": long_name, "has-user": has_user}

leaves = st.one_of(
    st.sampled_from(sorted(FLAGS)).map(Flag),
    st.builds(Matches, st.sampled_from(sorted(set(KEYS) - {"kind"})), patterns),
    st.builds(Matches, st.just("kind"), st.sampled_from(("function", "freeform", "*", "f*"))),
    st.builds(Matches, st.one_of(st.sampled_from(WORDS), any_text).map("state.{}".format), patterns),
    st.sampled_from(sorted(CUSTOM)).map(lambda name: Custom(CUSTOM[name], name)),
)


def _joined(predicates):
    return st.one_of(
        st.lists(predicates, max_size=3).map(lambda members: all_of(*members)),
        st.lists(predicates, max_size=3).map(lambda members: any_of(*members)),
        predicates.map(lambda member: ~member),
    )


predicates = st.recursive(leaves, _joined, max_leaves=8)

hints = st.dictionaries(
    st.sampled_from(("read_only", "destructive", "idempotent", "open_world", "edit")),
    st.sampled_from((None, True, False)),
)
optional_words = st.sampled_from((None, *WORDS))

tools = st.builds(
    make_tool,
    st.sampled_from(TOOL_NAMES),
    plugin=optional_words,
    distribution=optional_words,
    toolset=optional_words,
    trusted=st.booleans(),
    source=st.sampled_from((None, "a", "ab", "a-b")),
    hints=hints,
    tags=st.lists(st.sampled_from(WORDS), max_size=3),
    kind=st.sampled_from(("function", "freeform", "provider")),
    long_running=st.booleans(),
    deferred=st.booleans(),
    input_schema=st.lists(st.sampled_from(WORDS), max_size=3).map(
        lambda names: {"type": "object", "properties": {name: {} for name in names}}
    ),
)

scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(WORDS), st.just([1]))
contexts = st.builds(
    ReadonlyContext,
    user=optional_words,
    agent=optional_words,
    model=optional_words,
    provider=optional_words,
    state=st.dictionaries(st.sampled_from(WORDS), scalars, max_size=3),
)
