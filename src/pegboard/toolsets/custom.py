"""Callables as predicates, and the names under which texts know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import field, frozen

from pegboard.errors import PredicateError
from pegboard.tools.name import is_valid_name
from pegboard.toolsets.condition import FLAGS, KEYS, STATE
from pegboard.toolsets.predicate import Predicate, Test
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext
    from pegboard.tools.tool import Tool

PredicateFunction: TypeAlias = "Callable[[Tool, ReadonlyContext], bool]"
"""A custom predicate: plain, not async. Where it raises, the tool is out, whatever stands round it."""

CustomPredicates: TypeAlias = Mapping[str, PredicateFunction]
"""Custom predicates by the names under which texts and JSON know them."""

OPERATORS: Final = ("and", "or", "not")
RESERVED: Final = frozenset({*OPERATORS, *FLAGS, *KEYS, STATE})


def check_predicate_name(name: str) -> str:
    """`name` as it is, where texts can know a custom predicate by it.

    Raises:
        PredicateError: It isn't 1-64 of `[A-Za-z0-9_-]`, a letter or `_` first, or it means something already.
    """
    if name in RESERVED:
        raise PredicateError(f"{name!r} can't name a predicate: the word means something already; choose another")
    if not is_valid_name(name):
        raise PredicateError(
            f"{name!r} can't name a predicate: names are 1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter or '_' first"
        )
    return name


def _check_function(_custom: Any, _attribute: Any, function: object) -> None:
    import inspect

    call = getattr(function, "__call__", None)  # noqa: B004  what it is, not whether it is there
    if call is None or inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise PredicateError(f"{function!r} can't be a predicate: it has to be a plain function of (tool, context)")


def _check_name(_custom: Any, _attribute: Any, name: str | None) -> None:
    if name is not None:
        check_predicate_name(name)


@frozen(repr=False)
class Custom(Predicate):
    """A callable's answer.

    Attributes:
        function: Takes the tool and the context; plain.
        name: What texts and JSON know it by, or `None` where it is not registered.
    """

    function: PredicateFunction = field(validator=_check_function)
    name: str | None = field(default=None, validator=_check_name)

    def bound(self, context: ReadonlyContext) -> Test:
        """Asks the callable tool by tool; one that is a predicate itself is bound."""
        function = self.function
        if isinstance(function, Predicate):
            return function.bound(context)
        return lambda tool: _settled(function(tool, context))

    def to_json(self) -> JsonObject:
        """The name under `custom`; a callable without one has no JSON."""
        if self.name is None:
            raise PredicateError("a callable can't be written as JSON: register it under a name")
        return {"custom": self.name}

    def __str__(self) -> str:
        return self.name or "<custom>"


def _settled(answer: Any) -> bool:
    """The answer as a boolean; a coroutine, which would always be true, is none."""
    if hasattr(answer, "__await__"):
        getattr(answer, "close", bool)()
        raise TypeError("the predicate gave something to await, not a boolean")
    return bool(answer)
