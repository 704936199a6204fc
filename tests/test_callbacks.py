from __future__ import annotations

import functools

import pytest

from pegboard.callbacks import Callback, ChainError, accept_keywords, nonblocking

NAMES = ("context", "tool", "arguments")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: (), ()),
        (lambda arguments: (arguments,), (3,)),
        (lambda arguments, context: (arguments, context), (3, 1)),
        (lambda context, tool, arguments: (context, tool, arguments), (1, 2, 3)),
        (lambda *, tool: (tool,), (2,)),
        (lambda tool, mine="own": (tool, mine), (2, "own")),
        (lambda **all_of_them: tuple(all_of_them.items()), (("context", 1), ("tool", 2), ("arguments", 3))),
        (lambda tool, **rest: (tool, *sorted(rest)), (2, "arguments", "context")),
        (lambda *rest: rest, ()),
    ],
)
def test_a_callback_gets_the_arguments_it_takes_by_name(function, expected):
    assert accept_keywords(function, NAMES)(1, 2, 3) == expected


@pytest.mark.parametrize(
    "function",
    [
        lambda wrong: None,
        lambda tool, wrong: None,
        lambda wrong, **rest: None,
        lambda *, wrong: None,
    ],
)
def test_a_callback_that_takes_an_unknown_argument_is_refused_with_the_known_ones(function):
    with pytest.raises(TypeError, match="has a parameter 'wrong'; it may have context, tool, arguments"):
        accept_keywords(function, NAMES)


def test_a_positional_only_parameter_is_refused():
    def by_position(context, /):
        return context

    with pytest.raises(TypeError, match="'context' by position"):
        accept_keywords(by_position, NAMES)


def test_a_function_without_a_signature_is_refused():
    with pytest.raises(TypeError, match="no signature"):
        accept_keywords(dict, NAMES)


def test_a_callback_keeps_its_name_for_the_operator():
    def look(tool):
        raise ValueError

    assert "look of the host" in str(ChainError(Callback(accept_keywords(look, NAMES)), ValueError()))


def test_a_callback_that_takes_everything_in_order_is_called_directly():
    def look(context, tool, arguments):
        return None

    assert accept_keywords(look, NAMES) is look


# Where a member is called ---------------------------------------------------------------------------------------------


async def waits():
    return None


def plain():
    return None


class Asks:
    async def __call__(self):
        return None

    async def method(self):
        return None

    @nonblocking
    def quick_method(self):
        return None


class Quick:
    @nonblocking
    def __call__(self):
        return None


@pytest.mark.parametrize(
    ("function", "blocking"),
    [
        (plain, True),
        (lambda: None, True),
        (print, True),
        (functools.partial(plain), True),
        (Asks, True),
        (waits, False),
        (functools.partial(waits), False),
        (Asks(), False),
        (Asks().method, False),
        (nonblocking(lambda: None), False),
        (Asks().quick_method, False),
        (Quick(), False),
        (nonblocking(functools.partial(plain)), False),
    ],
)
def test_only_a_plain_callback_that_isnt_marked_quick_may_block(function, blocking):
    assert Callback(function).blocking is blocking


def test_by_name_keeps_whether_a_callback_may_block():
    async def asks(tool):
        return None

    @nonblocking
    def at_once(tool):
        return None

    functions = (asks, at_once, lambda tool: None)
    assert [Callback(accept_keywords(each, NAMES)).blocking for each in functions] == [False, False, True]


@pytest.mark.parametrize("function", [print, Asks().method])
def test_a_callable_that_cant_be_marked_quick_is_refused(function):
    with pytest.raises(TypeError, match="can't be marked; wrap it in a function"):
        nonblocking(function)


def test_callbacks_of_one_function_are_equal():
    assert Callback(plain) == Callback(plain, blocking=False)


def test_a_single_argument_is_passed_by_position_to_a_builtin():
    events = []
    accept_keywords(events.append, ["event"])("something")
    assert events == ["something"]
    with pytest.raises(TypeError, match="has a parameter"):
        accept_keywords(events.append, ["context", "event"])
