from __future__ import annotations

import functools
import types

import pytest

from pegboard.errors import DefinitionError
from pegboard.tools.context import ToolContext
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import TypedTool, _tools_of, as_tools, tool_of


@tool
def add(a: int, b: int) -> int:
    return a + b


def plain(a: int) -> int:
    return a


class Base:
    @tool
    def second(self, a: int) -> int:
        return a

    @tool
    def first(self, a: int) -> int:
        return a

    @tool
    def dropped(self, a: int) -> int:
        return a

    def helper(self): ...


class Derived(Base):
    @staticmethod
    @tool
    def third(a: int) -> int:
        return a

    @tool
    def first(self, a: int) -> int:
        """The derived one."""
        return -a

    def dropped(self, a: int) -> int:
        return a


class Echo(TypedTool[str, str]):
    def call(self, context: ToolContext, text: str) -> str:
        return text


class Needy(TypedTool[str, str]):
    def __init__(self, needed: int) -> None: ...

    def call(self, context: ToolContext, text: str) -> str: ...


def names(tools):
    return [each.name for each in tools]


def test_what_carries_no_tool_has_none():
    assert tool_of(plain) is None
    assert tool_of(5) is None
    assert tool_of(Base().helper) is None
    assert tool_of(Base) is None


def test_what_is_or_carries_a_tool_has_one():
    made = Tool(ToolSpec("a"))
    assert tool_of(made) is made
    assert tool_of(add) is tool_of(add)
    assert tool_of(Echo()).name == "echo"


def test_whatever_answers_to_every_name_carries_no_tool():
    class Yes:
        def __getattr__(self, name):
            return lambda: name

        def __call__(self): ...

    assert tool_of(Yes()) is None


def test_a_method_without_an_instance_is_told():
    with pytest.raises(DefinitionError, match=r"tool_of\(instance\.method\)"):
        tool_of(Base.first)


def test_a_method_whose_first_parameter_has_another_name_is_told():
    class Odd:
        @tool
        def method(this, a: int): ...  # noqa: N805  (that is the point)

    with pytest.raises(DefinitionError, match="must be self or cls"):
        tool_of(Odd().method)


def test_the_tools_of_an_object_are_its_decorated_methods_as_written():
    found = _tools_of(Derived())
    assert names(found) == ["second", "first", "third"]
    assert found[1].spec.description == "The derived one."
    assert _tools_of(object()) == []


def test_methods_need_an_instance():
    with pytest.raises(DefinitionError, match="has no instance"):
        _tools_of(Base)


def module(**members):
    made = types.ModuleType("made_up")
    vars(made).update(members)
    return made


def test_the_tools_of_a_module_are_those_that_it_defines():
    inside = types.FunctionType(plain.__code__, {}, "inside")
    inside.__module__ = "made_up.deeper"
    tool(inside)
    made = Tool(ToolSpec("made"))
    found = _tools_of(module(add=add, inside=inside, again=inside, made=made, plain=plain, number=5))
    assert names(found) == ["inside", "made"]


def test_everything_that_is_or_holds_tools_becomes_tools():
    made = Tool(ToolSpec("made"))
    assert as_tools(made) == [made]
    assert as_tools(add) == [tool_of(add)]
    assert names(as_tools(plain)) == ["plain"]
    assert names(as_tools(functools.partial(plain))) == ["plain"]
    assert names(as_tools(Derived().third)) == ["third"]
    assert names(as_tools(Base().first)) == ["first"]
    assert names(as_tools(Base().helper)) == ["helper"]
    assert names(as_tools(Derived())) == ["second", "first", "third"]
    assert names(as_tools(module(made=made))) == ["made"]
    assert names(as_tools(Echo)) == ["echo"]
    assert names(as_tools(Echo())) == ["echo"]


@pytest.mark.parametrize("thing", [5, "text", object(), None, module()])
def test_what_is_no_tool_is_told(thing):
    with pytest.raises(DefinitionError, match="is no tool and holds none"):
        as_tools(thing)


def test_a_class_that_cannot_be_made_without_arguments_is_told():
    with pytest.raises(DefinitionError, match=r"Needy can.t be made without arguments.*Register an instance"):
        as_tools(Needy)


def test_other_classes_are_told():
    with pytest.raises(DefinitionError, match="is a class"):
        as_tools(object)
