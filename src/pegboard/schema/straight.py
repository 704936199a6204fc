"""Straight code for structuring: one expression for a whole type, for data that its schema has accepted.

Where the expression raises, the type's usual hook is called instead, which finds the place and words the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from keyword import iskeyword
from typing import Any, Final

from pegboard.schema.adapters import NULL, ArrayAdapter, RecordAdapter, ScalarAdapter, TypeAdapter, UnionAdapter

_MOST: Final = 64  # parts that one expression may have


class _Expression:
    """Writer of the expression of one type.

    Attributes:
        names: The objects that the expression refers to, by name.
        saves_calls: Whether it enters fewer functions than the usual hook.
    """

    def __init__(self, hook_of: Callable[[TypeAdapter], Any], same: Callable[..., Any]) -> None:
        self.names: dict[str, Any] = {}
        self.saves_calls = False
        self._hook_of, self._same = hook_of, same
        self._above: list[TypeAdapter] = []
        self._parts = 0

    def text(self, adapter: TypeAdapter, value: str) -> str:
        """The expression for one value, which is itself an expression."""
        self._parts += 1
        text = None
        if self._parts <= _MOST and adapter not in self._above:  # a recursive type calls its own hook
            self._above.append(adapter)
            text = self._expression(adapter, value)
            self._above.pop()
        if text is not None:
            return text
        hook = self._hook_of(adapter)
        return value if hook is self._same else f"{self._named(hook)}({value})"

    def _expression(self, adapter: TypeAdapter, value: str) -> str | None:
        if isinstance(adapter, ScalarAdapter) and adapter.cls is None and adapter.type in ("integer", "number"):
            return f"{'int' if adapter.type == 'integer' else 'float'}({value})"
        if isinstance(adapter, RecordAdapter) and _is_straight(adapter):
            self.saves_calls = True
            members = [f"{each.key}={self.text(each.adapter, f'{value}[{each.key!r}]')}" for each in adapter.members]
            return f"{self._named(adapter.cls)}({', '.join(members)})"
        if isinstance(adapter, ArrayAdapter) and adapter.cls is not tuple and not adapter.unique:
            item = f"i{len(self._above)}"
            text = self.text(adapter.item, item)
            return value if text == item else f"[{text} for {item} in {value}]"
        if isinstance(adapter, UnionAdapter) and len(adapter.members) == 2 and NULL in adapter.members:
            (other,) = (each for each in adapter.members if each is not NULL)
            text = self.text(other, value)
            self.saves_calls |= text != value
            return value if text == value else f"(None if {value} is None else {text})"
        return None

    def _named(self, value: Any) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name


def _is_straight(adapter: RecordAdapter) -> bool:
    """Whether it is a class whose constructor takes exactly these members, by their keys."""
    return adapter.cls is not dict and all(
        each.required and each.key.isidentifier() and not iskeyword(each.key) for each in adapter.members
    )


def straight_hook(
    adapter: TypeAdapter,
    make: Callable[[Any], Callable[[Any], Any]],
    hook_of: Callable[[TypeAdapter], Any],
    same: Callable[..., Any],
) -> Callable[[Any], Any]:
    """The hook of `adapter`: one expression if that can be written and saves calls, else its usual hook.

    Args:
        adapter: The adapter.
        make: Makes its usual hook.
        hook_of: Returns the hook of another adapter.
        same: The identity hook.
    """
    if not isinstance(adapter, RecordAdapter | ArrayAdapter | UnionAdapter):
        return make(adapter)
    expression = _Expression(hook_of, same)
    text = expression.text(adapter, "v")
    if not expression.saves_calls:
        return make(adapter)
    quick = eval(f"lambda v: {text}", expression.names)  # noqa: S307  made of names and quoted keys only
    usual = cache(lambda: make(adapter))

    def structure_straight(value: Any) -> Any:
        try:
            return quick(value)
        except Exception:  # noqa: BLE001  the usual hook words it
            return usual()(value)

    return structure_straight
