from __future__ import annotations

import asyncio

import pytest

from pegboard.toolsets.toolset import Toolset, _close, close_all, is_toolset, name_of, speaking
from pegboard.toolsets.toolsets import StaticToolset
from toolsets.samples import Closing, PlainToolset, make_tool


class Nameless:
    name = None

    async def tools(self, context):
        return []


class Unnamed:
    @property
    def name(self):
        raise RuntimeError("no name today")


@pytest.mark.parametrize("thing", [PlainToolset(), StaticToolset("s", [])])
def test_what_has_a_name_and_tools_is_a_toolset(thing):
    assert is_toolset(thing)
    assert isinstance(thing, Toolset)


@pytest.mark.parametrize("thing", [make_tool(), PlainToolset, Nameless(), "name", None, print])
def test_what_has_not_is_none(thing):
    assert not is_toolset(thing)


def test_a_name_that_cannot_be_had_is_the_classs():
    assert (name_of(PlainToolset("a")), name_of(Nameless()), name_of(Unnamed())) == ("a", "Nameless", "Unnamed")


def test_closing_takes_plain_and_async_and_none():
    for toolset in (PlainToolset(), Closing()):
        asyncio.run(_close(toolset))
        assert toolset.closed == 1
    asyncio.run(_close(Nameless()))


def test_one_that_fails_to_close_keeps_no_other_from_closing():
    error = OSError("stuck")
    toolsets = [Closing(), Closing(error), PlainToolset()]
    assert asyncio.run(close_all(toolsets)) == (error,)
    assert [toolset.closed for toolset in toolsets] == [1, 1, 1]


class Speaking(PlainToolset):
    def __init__(self, given, *inner):
        super().__init__()
        self.instructions = given
        self.inner_toolsets = inner


class Unwilling(PlainToolset):
    @property
    def instructions(self):
        raise RuntimeError("not today")


def test_those_speak_that_have_instructions_or_else_those_inside():
    a, b, unwilling = Speaking("a"), Speaking(["b"]), Unwilling()
    assert list(speaking(PlainToolset())) == []
    assert list(speaking(Speaking(None, a, PlainToolset(), Speaking(None, b), unwilling))) == [a, b, unwilling]
    outer = Speaking("outer", a)
    assert list(speaking(outer)) == [outer]
