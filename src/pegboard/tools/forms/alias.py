"""Reads what a type alias stands for."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

from pegboard.tools.forms.form import Form, WrappedForm, reach
from pegboard.tools.forms.generic import substituted
from pegboard.tools.forms.named import AliasForm
from pegboard.tools.forms.union import UnionForm


def is_alias(annotation: Any) -> bool:
    """Whether it is a `TypeAliasType`, of `typing` or of `typing_extensions`, which isn't imported for the question."""
    return type(annotation).__name__ == "TypeAliasType"


def alias_value(alias: Any, arguments: tuple[Any, ...]) -> Any:
    """What an alias stands for with these arguments; names that are still text are resolved where it was made.

    Raises:
        NameError: A name isn't defined.
    """
    holder = types.SimpleNamespace(__annotations__={"value": alias.__value__})
    names = dict(vars(sys.modules.get(alias.__module__, typing)))
    known = {each.__name__: each for each in (*alias.__type_params__, alias)}
    value = typing.get_type_hints(holder, names, known, include_extras=True)["value"]
    return substituted(value, dict(zip(alias.__type_params__, arguments, strict=False)))


def is_made_of_itself(form: AliasForm) -> bool:
    """Whether an alias that has been read is found again in what it stands for."""
    return any(each is form for each in reach(form.form))


def is_nothing_else(form: AliasForm) -> bool:
    """Whether an alias stands for itself, perhaps among others: there is no end to such a type."""
    return any(each is form for each in _in_place(form.form))


def _in_place(form: Form) -> Iterator[Form]:
    """`form` and the forms of the same value, as against those of its items and fields."""
    seen: set[int] = set()
    waiting = [form]
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        if isinstance(here, UnionForm | WrappedForm):
            waiting.extend(here.parts())
