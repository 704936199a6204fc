"""How an exception of somebody's constructor, validator or converter is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from pegboard.schema.problems import StructureError

_MOST_SHOWN: Final = 200
_WORDED: Final = (ValueError, TypeError, ArithmeticError, AssertionError, AttributeError)


def refused_by(cls: type, error: Exception) -> StructureError:
    """The error for what `cls` raised when it was made.

    The reason is the exception's own first argument where that is a sentence for a caller, as with `ValueError`;
    of other exceptions, whose texts may tell of the inside, only the class is named.
    """
    said: object = error.args[0] if error.args and isinstance(error, _WORDED) else ""
    if isinstance(said, str) and said:
        return StructureError(f"{said[:_MOST_SHOWN]}{'...' if len(said) > _MOST_SHOWN else ''}")
    return StructureError(f"{cls.__name__} refuses it ({type(error).__name__})")


def attribute_at_fault(cls: type[Any], error: Exception, arguments: Mapping[str, Any]) -> str | None:
    """The name of the attribute that an attrs class complains of, or `None` where that can't be told.

    A validator of attrs puts the attribute among its error's arguments; one of somebody's own has it among its
    parameters; and a converter refuses the value again.

    Args:
        cls: The class.
        error: What its constructor raised.
        arguments: What that was given.
    """
    import traceback

    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    for values in (error.args, *(frame.values() for frame in reversed(frames))):
        for value in values:
            if isinstance(value, attrs.Attribute):
                return cast("attrs.Attribute[Any]", value).name
    for each in attrs.fields(cls) if attrs.has(cls) else ():
        if callable(each.converter) and each.alias in arguments:
            try:
                each.converter(arguments[each.alias])
            except type(error):
                return each.name
            except Exception:  # noqa: BLE001, S112  (it wants more than the value: it can't be asked)
                continue
    return None
