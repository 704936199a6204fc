"""`Method`: the tool of a decorated method, and how it finds its instance."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from attrs import evolve, frozen

from pegboard.tools.handler import Flavour, Handler
from pegboard.tools.signature import is_method
from pegboard.tools.tool import Tool

ATTRIBUTE: Final = "__pegboard_tool__"
"""Where a decorated function carries its `Tool`, or its `Method`."""

_HOOKS: Final = ("preview", "confirms", "checks", "format_validation_error", "process_request")


@frozen(eq=False)
class Method:
    """The tool of a method, waiting for an instance.

    Attributes:
        tool: Its handler's function takes the instance first, so it can't be called as it is.
    """

    tool: Tool

    def bound(self, method: Callable[..., Any], instance: object) -> Tool:
        """The tool of `instance.method`."""
        hooks = {name: _bound_hook(getattr(self.tool, name), instance) for name in _HOOKS}
        return calling(self.tool, method).evolve(**hooks)


def calling(tool: Tool, function: Callable[..., Any]) -> Tool:
    """The same tool with its handler calling `function`: a bound method, or what a later decorator has made of it."""
    assert isinstance(tool.handler, Handler)
    same = getattr(function, "__func__", function) is tool.handler.function
    flavour = tool.handler.flavour if same else Flavour.of(function)
    return tool.evolve(handler=evolve(tool.handler, function=function, flavour=flavour))


def _bound_hook(hook: Any, instance: object) -> Any:
    """A preview, predicate or check that was written as a method beside the tool gets the instance too."""
    return hook.__get__(instance) if inspect.isfunction(hook) and is_method(hook) else hook
