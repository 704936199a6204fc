"""`Handler`: the code that runs a tool, and how judged arguments become its Python arguments."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import Factory, field, frozen

from pegboard.tools.context import ToolContext

if TYPE_CHECKING:
    from pegboard.tools.injection import Injection
    from pegboard.tools.tool import Tool

Binder: TypeAlias = Callable[[ToolContext, Mapping[str, Any]], tuple[Sequence[Any], Mapping[str, Any]]]
"""Turns arguments that the schema has judged valid into `(args, kwargs)` of the function."""

Unstructure: TypeAlias = Callable[[Any], Any]
"""Turns what the function gave back into JSON data."""


class Flavour(enum.Enum):
    """What calling a handler's function gives."""

    PLAIN = "plain"
    ASYNC = "async"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Flavour:
        """Settled once, at definition; callable objects are judged by their `__call__`."""
        while isinstance(function, functools.partial):
            function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not inspect.isroutine(function) and not isinstance(function, type):
            function = type(function).__call__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if inspect.iscoroutinefunction(function):
            return cls.ASYNC
        if inspect.isasyncgenfunction(function):
            return cls.ASYNC_GENERATOR
        return cls.GENERATOR if inspect.isgeneratorfunction(function) else cls.PLAIN


def _as_they_are() -> None:
    return None


@frozen(eq=False)
class Handler:
    """The code that runs a tool.

    A generator's items are partial results; its result is what it returns, or the list of its items where it
    returns nothing.

    Attributes:
        function: What is called.
        flavour: What calling it gives.
        blocking: Whether a plain function may block, and so runs off the event loop.
        make_binder: Makes the binder, at the first call.
        make_unstructure: Makes the way back to JSON, at the first call; `None` where the value is JSON already
            or its type says nothing.
        wraps_result: Whether the structured result is `{"result": value}`, because its type is no object's.
        injects: The parameters that services fill: these are opened before each call and closed after it.
    """

    function: Callable[..., Any]
    make_binder: Callable[[], Binder]
    flavour: Flavour = field(default=Factory(lambda self: Flavour.of(self.function), takes_self=True))
    blocking: bool = True
    make_unstructure: Callable[[], Unstructure | None] = _as_they_are
    wraps_result: bool = False
    injects: tuple[Injection, ...] = ()


@frozen(eq=False)
class LateHandler:
    """A handler that is found at the first call: listing and filtering import none of its plugin's code.

    Attributes:
        load: Gives the tool with its handler. May take long (it imports a plugin): called off the event loop.
            Raises `PluginError` where the plugin fails, `StaleSpecError` where its code says something else.
    """

    load: Callable[[], Tool]
