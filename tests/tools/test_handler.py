from __future__ import annotations

import functools

import pytest

from pegboard.callbacks import Flavour
from pegboard.schema.json import StructureError
from pegboard.tools.handler import Handler


def plain(): ...


async def coroutine(): ...


def generator():
    yield


async def async_generator():
    yield


class Callable:
    def __init__(self, func=None):
        self.func = func

    async def __call__(self): ...

    def method(self): ...

    @staticmethod
    async def static(): ...

    @classmethod
    def of_class(cls):
        yield


@pytest.mark.parametrize(
    ("function", "flavour"),
    [
        (plain, Flavour.PLAIN),
        (coroutine, Flavour.ASYNC),
        (generator, Flavour.GENERATOR),
        (async_generator, Flavour.ASYNC_GENERATOR),
        (len, Flavour.PLAIN),
        (int, Flavour.PLAIN),
        (functools.partial(functools.partial(coroutine)), Flavour.ASYNC),
        (functools.partial(async_generator), Flavour.ASYNC_GENERATOR),
        (functools.lru_cache(plain), Flavour.PLAIN),
        (Callable(), Flavour.ASYNC),
        (Callable(func=generator), Flavour.ASYNC),
        (functools.partial(Callable()), Flavour.ASYNC),
        (Callable().method, Flavour.PLAIN),
        (Callable().static, Flavour.ASYNC),
        (Callable.of_class, Flavour.GENERATOR),
    ],
)
def test_the_flavour_is_what_calling_gives(function, flavour):
    assert Flavour.of(function) is flavour


def test_a_handler_settles_its_flavour():
    assert Handler(coroutine, lambda: None).flavour is Flavour.ASYNC


def test_a_handler_says_nothing_of_results_by_default():
    handler = Handler(plain, lambda: None)
    assert handler.make_unstructure() is None
    assert handler.blocking
    assert not handler.wraps_result


def test_an_error_is_seen_from_further_out():
    error = StructureError("is no date", ("day",)).below("when", 0)
    assert (error.path, error.reason) == (("when", 0, "day"), "is no date")
    assert str(error) == "when[0].day: is no date"
    assert str(StructureError("is no date")) == "(root): is no date"
