from __future__ import annotations

import asyncio
import functools

import pytest
from hypothesis import given, strategies as st

from pegboard.callbacks import Callback, ChainError, by_name, first_answer, pipe, quick, settle


def links(*functions, owner="the host"):
    return tuple(Callback(function, owner) for function in functions)


def answer_of(*functions, arguments=()):
    return asyncio.run(first_answer(links(*functions), *arguments))


async def slowly(value):
    await asyncio.sleep(0)
    return value


def test_settle_awaits_only_what_has_to_be_awaited():
    assert asyncio.run(settle(slowly(1))) == 1
    assert asyncio.run(settle(2)) == 2


@given(st.lists(st.one_of(st.none(), st.integers(), st.just(""), st.just([]), st.booleans())))
def test_the_first_answer_that_is_not_none_ends_the_chain(answers):
    """Emptiness is an answer; only `None` means go on. Plain and async members mix."""
    asked = []

    def member(place, answer):
        def plain():
            asked.append(place)
            return answer

        async def later():
            return plain()

        return later if place % 2 else plain

    expected = next((answer for answer in answers if answer is not None), None)
    got = answer_of(*(member(place, answer) for place, answer in enumerate(answers)))
    assert got is expected
    stop = next((place for place, answer in enumerate(answers) if answer is not None), len(answers) - 1)
    assert asked == list(range(stop + 1))


def test_an_async_member_that_answers_none_does_not_answer():
    """An un-awaited coroutine isn't `None`; taking it for an answer would end the chain."""
    assert answer_of(lambda: slowly(None), lambda: "second") == "second"


def test_members_get_the_arguments():
    assert answer_of(lambda one, two: (one, two), arguments=(1, 2)) == (1, 2)


def test_a_member_that_raises_is_named_and_ends_the_chain():
    asked = []

    def broken():
        raise ValueError("no good")

    chain = (Callback(broken, "plugin 'guard'"), Callback(lambda: asked.append(1)))
    with pytest.raises(ChainError, match=r"broken of plugin 'guard': ValueError\('no good'\)") as caught:
        asyncio.run(first_answer(chain))
    assert caught.value.callback is chain[0]
    assert isinstance(caught.value.__cause__, ValueError)
    assert asked == []


def test_cancellation_is_no_members_error():
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        answer_of(cancelled)


@given(st.lists(st.integers()))
def test_pipe_hands_the_value_through_each_member_in_order(numbers):
    def appending(number):
        if number % 2:
            return lambda value: slowly([*value, number])
        return lambda value: [*value, number]

    assert asyncio.run(pipe(links(*map(appending, numbers)), [])) == numbers


def test_pipe_keeps_the_value_where_a_member_answers_none():
    chain = links(lambda value: None, lambda value, more: value + more, lambda value, more: slowly(None))
    with pytest.raises(ChainError):
        asyncio.run(pipe(chain, 1, 10))  # the first takes no second argument
    assert asyncio.run(pipe(chain[1:], 1, 10)) == 11


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
def test_a_callback_gets_what_it_asks_for_by_name(function, expected):
    assert by_name(function, NAMES)(1, 2, 3) == expected


def test_a_method_gets_what_it_asks_for_too():
    class Keeper:
        def look(self, tool):
            return self, tool

    keeper = Keeper()
    assert by_name(keeper.look, NAMES)(1, 2, 3) == (keeper, 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda wrong: None,
        lambda tool, wrong: None,
        lambda wrong, **rest: None,
        lambda *, wrong: None,
    ],
)
def test_a_callback_that_asks_for_something_else_is_refused_with_what_there_is(function):
    with pytest.raises(TypeError, match="asks for 'wrong'; there are context, tool, arguments"):
        by_name(function, NAMES)


def test_a_callback_can_not_ask_by_position_only():
    def by_position(context, /):
        return context

    with pytest.raises(TypeError, match="'context' by position"):
        by_name(by_position, NAMES)


def test_what_has_no_signature_is_refused():
    with pytest.raises(TypeError, match="no signature"):
        by_name(dict, NAMES)


def test_a_callback_keeps_its_name_for_the_operator():
    def look(tool):
        raise ValueError

    assert "look of the host" in str(ChainError(Callback(by_name(look, NAMES)), ValueError()))


def test_a_callback_that_takes_everything_in_order_is_called_directly():
    def look(context, tool, arguments):
        return None

    assert by_name(look, NAMES) is look


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

    @quick
    def quick_method(self):
        return None


class Says:
    @quick
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
        (quick(lambda: None), False),
        (Asks().quick_method, False),
        (Says(), False),
        (quick(functools.partial(plain)), False),
    ],
)
def test_only_a_plain_member_that_doesnt_say_that_it_is_quick_may_block(function, blocking):
    assert Callback(function).blocking is blocking


def test_what_is_handed_some_of_the_arguments_is_judged_by_what_it_is():
    async def asks(tool):
        return None

    @quick
    def says(tool):
        return None

    assert [Callback(by_name(each, NAMES)).blocking for each in (asks, says, lambda tool: None)] == [False, False, True]


def test_quick_gives_back_the_function():
    assert quick(plain_too) is plain_too


def plain_too():
    return None


@pytest.mark.parametrize("function", [print, Asks().method])
def test_what_cant_be_marked_has_to_be_wrapped(function):
    with pytest.raises(TypeError, match="can't be marked as quick; wrap it in a function"):
        quick(function)


def test_links_of_one_function_are_equal():
    assert Callback(plain) == Callback(plain, blocking=False)


def test_of_one_thing_a_function_need_not_know_the_name():
    heard = []
    by_name(heard.append, ["event"])("something")
    assert heard == ["something"]
    with pytest.raises(TypeError, match="asks for"):
        by_name(heard.append, ["context", "event"])
