"""Everything that is a tool or holds tools, as tools: `tool_of`, `tools_of`, `as_tools`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pegboard.errors import DefinitionError
from pegboard.schema.validator import check_schema
from pegboard.tools.function import tool_from_function
from pegboard.tools.handler import Handler
from pegboard.tools.method import ATTRIBUTE, Method, calling
from pegboard.tools.tool import Tool
from pegboard.tools.typed import TypedTool, is_typed_class


def tool_of(thing: object) -> Tool | None:
    """The tool that `thing` is or carries; `None` where it carries none.

    Args:
        thing: A `Tool`, a decorated function, the method of an instance (whose tool then runs on that instance),
            or an instance of `TypedTool`.

    Raises:
        DefinitionError: A decorated method without an instance.
    """
    if isinstance(thing, Tool):
        return thing
    if isinstance(thing, TypedTool):
        return thing.as_tool()
    carried = _carried(thing)
    if isinstance(carried, Method):
        return _of_method(thing, carried)
    if carried is None:
        return None
    if inspect.ismethod(thing):
        hint = "Name it so; then the tool can tell the instance from its arguments."
        raise DefinitionError("the first parameter of a method must be self or cls.", tool=carried.name, hint=hint)
    assert isinstance(carried.handler, Handler)
    # A decorator above @tool that uses functools.wraps carries the tool too: what it made is what runs.
    return carried if carried.handler.function is thing else calling(carried, thing)  # pyright: ignore[reportArgumentType]


def tools_of(owner: object) -> list[Tool]:
    """The tools of all decorated methods of an object, or decorated functions and tools of a module, as written.

    Methods come in the order of their definition, those of base classes first; one that a subclass overrides
    without decorating it is no tool. Of a module, what it imports from elsewhere is left out.

    Raises:
        DefinitionError: `owner` is a class with decorated methods that need an instance.
    """
    if isinstance(owner, ModuleType):
        return list(dict.fromkeys(_of_module(owner)))
    cls = owner if isinstance(owner, type) else type(owner)
    names = {name: None for base in reversed(cls.__mro__) for name in vars(base)}
    decorated = [name for name in names if _carried(inspect.getattr_static(cls, name, None)) is not None]
    found = (tool_of(getattr(owner, name)) for name in decorated)
    return [each for each in found if each is not None]


def as_tools(thing: Any) -> list[Tool]:
    """Whatever is or holds tools, as tools, at least one.

    Args:
        thing: A `Tool`; a function, decorated or not; a callable; a `TypedTool` (instance, or a class that is made
            without arguments); a module or an object with decorated functions or methods.

    Raises:
        DefinitionError: It is none of these, or can't be expressed.
        SchemaError: A tool that was put together by hand has a schema that is invalid, or whose cost is unbounded.
        InvalidNameError: A name isn't one that every provider takes.
    """
    if isinstance(thing, Tool):
        return [_checked(thing)]
    if is_typed_class(thing):
        return [_made(thing).as_tool()]
    one = tool_of(thing)
    if one is not None:
        return [one]
    if not inspect.isroutine(thing) and (found := tools_of(thing)):
        return found
    if callable(thing):
        return [tool_from_function(thing)]
    hint = "Decorate its functions or methods with @tool."
    raise DefinitionError(f"{thing!r:.100} is no tool and holds none.", hint=hint)


def _checked(tool: Tool) -> Tool:
    """The tool, its schemas found to be sound: nobody has looked at them where its spec was made by hand."""
    check_schema(tool.spec.input_schema_text, tool=tool.name)
    if tool.spec.output_schema_text is not None:
        check_schema(tool.spec.output_schema_text, tool=tool.name, what="output_schema")
    return tool


def _carried(thing: object) -> Tool | Method | None:
    """What `@tool` left on a function, or on the function in a static or class method."""
    function: Any = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not callable(function) or isinstance(function, type):
        return None
    carried: Any = getattr(function, ATTRIBUTE, None)
    return carried if isinstance(carried, Tool | Method) else None


def _of_method(thing: object, carried: Method) -> Tool:
    if not inspect.ismethod(thing):
        hint = "Take it from an instance: tool_of(instance.method)."
        raise DefinitionError("it is a method and has no instance.", tool=carried.tool.name, hint=hint)
    return carried.bound(thing, thing.__self__)


def _of_module(module: ModuleType) -> Iterator[Tool]:
    inside = f"{module.__name__}."
    for value in list(vars(module).values()):
        if isinstance(value, Tool):
            yield value
        elif isinstance(_carried(value), Tool) and f"{value.__module__}.".startswith(inside):
            found = tool_of(value)
            assert found is not None
            yield found


def _made(cls: type[TypedTool[Any, Any]]) -> TypedTool[Any, Any]:
    try:
        return cls()
    except TypeError as error:
        hint = "Register an instance."
        raise DefinitionError(f"{cls.__name__} can't be made without arguments ({error}).", hint=hint) from None
