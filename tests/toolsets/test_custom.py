from __future__ import annotations

import functools

import pytest

from pegboard.errors import PredicateError
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.toolsets.predicate import RESERVED, Custom, check_predicate_name
from pegboard.toolsets.predicates import custom, read_only
from toolsets.samples import make_tool


def cheap(tool, context):
    return "cheap" in tool.spec.tags


def test_a_callable_gets_tool_and_context():
    asked = []
    predicate = custom(lambda tool, context: asked.append((tool.name, context.user)) or True)
    assert predicate(make_tool("a"), ReadonlyContext(user="ann")) is True
    assert asked == [("a", "ann")]


@pytest.mark.parametrize(("answer", "meaning"), [(1, True), (0, False), ("", False), ([1], True), (None, False)])
def test_any_answer_is_taken_for_its_truth(answer, meaning):
    assert custom(lambda tool, context: answer)(make_tool(), NOBODY) is meaning


def test_a_predicate_under_a_name_is_that_predicate():
    safe = custom(read_only, "safe")
    assert safe(make_tool(hints={"read_only": True}), NOBODY)
    assert not safe(make_tool(), NOBODY)
    assert str(safe) == "safe"


async def asynchronous(tool, context):
    return False


class Asynchronous:
    async def __call__(self, tool, context):
        return False


@pytest.mark.parametrize("function", [asynchronous, Asynchronous(), functools.partial(asynchronous), None, "read_only"])
def test_what_is_no_plain_callable_is_refused(function):
    with pytest.raises(PredicateError, match="plain function"):
        custom(function)


def test_something_to_await_is_no_answer():
    """A coroutine is always true: it would let every tool in."""
    with pytest.raises(TypeError, match="await"):
        custom(lambda *arguments: asynchronous(*arguments))(make_tool(), NOBODY)  # noqa: PLW0108  hides what it is


def test_a_callable_without_a_name_has_neither_text_nor_json():
    assert str(custom(cheap)) == "<custom>"
    with pytest.raises(PredicateError, match="register"):
        custom(cheap).to_json()


def test_equality_goes_by_function_and_name():
    assert custom(cheap, "cheap") == Custom(cheap, "cheap")
    assert custom(cheap, "cheap") != custom(cheap)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_word_that_means_something_is_no_name(name):
    with pytest.raises(PredicateError, match="already"):
        custom(cheap, name)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "1a", "state.x", "é", "(", "x" * 65])
def test_a_name_is_a_bare_word(name):
    with pytest.raises(PredicateError, match="1 to 64"):
        check_predicate_name(name)


def test_a_good_name_is_given_back():
    assert check_predicate_name("long-name_2") == "long-name_2"
