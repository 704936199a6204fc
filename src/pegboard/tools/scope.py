"""`Scope`: where the names in a function's annotations are looked up."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin

from pegboard.errors import DefinitionError


class Scope:
    """Where the names in a function's annotations are looked up: where it was written.

    Args:
        function: Any callable.
        tool: The tool's name, for errors.
    """

    def __init__(self, function: Callable[..., Any], tool: str) -> None:
        self._function = function
        self.tool = tool

    def resolve(self, annotation: Any, parameter: str) -> Any:
        """`annotation` with every name in it worked out.

        Raises:
            DefinitionError: A name isn't there, or the text is no type.
        """
        if _is_settled(annotation):
            return annotation
        try:
            return _evaluated(annotation, innermost(self._function))
        except NameError as error:
            name = error.name or str(error)
            raise DefinitionError(
                f"its type {_written(annotation)} names {name!r}, which isn't there at run time",
                tool=self.tool,
                parameter=parameter,
                annotation=annotation,
                hint="Import it outside `if TYPE_CHECKING:`, or define it before the function.",
            ) from None
        except (SyntaxError, TypeError, AttributeError) as error:
            raise DefinitionError(
                f"its type {_written(annotation)} can't be worked out ({error})",
                tool=self.tool,
                parameter=parameter,
                annotation=annotation,
                hint="Write a type.",
            ) from None


def _written(annotation: Any) -> str:
    return repr(annotation) if isinstance(annotation, str) else str(annotation)


def _is_settled(annotation: Any) -> bool:
    """Whether no name in `annotation` is still a string."""
    if type(annotation) is type:
        return True
    try:
        return _is_settled_type(annotation)
    except TypeError:  # not hashable
        return _is_settled_type.__wrapped__(annotation)


@lru_cache(maxsize=1024)
def _is_settled_type(annotation: Any) -> bool:
    if isinstance(annotation, str | typing.ForwardRef):
        return False
    origin = get_origin(annotation)
    if origin is None or origin is typing.Literal:
        return True
    if origin is typing.Annotated:
        return _is_settled(get_args(annotation)[0])
    return all(
        _is_settled(each) if not isinstance(each, list) else all(map(_is_settled, each))  # pyright: ignore[reportUnknownArgumentType]
        for each in get_args(annotation)
    )


def _evaluated(annotation: Any, function: Any) -> Any:
    around: Mapping[str, Any] = _locals_around(function) if "." in getattr(function, "__qualname__", "") else {}
    names = {**around, **_closure(function)}
    # get_type_hints is the public way to evaluate names nested anywhere in a type; it takes anything annotated.
    carrier = types.SimpleNamespace(__annotations__={"it": annotation})
    scope = getattr(function, "__globals__", {})
    return typing.get_type_hints(carrier, globalns=scope, localns=names, include_extras=True)["it"]


def _closure(function: Any) -> Mapping[str, Any]:
    """The variables of surrounding functions that `function` uses, and its type parameters."""
    names: dict[str, Any] = {each.__name__: each for each in getattr(function, "__type_params__", ())}
    code = getattr(function, "__code__", None)
    for name, cell in zip(code.co_freevars if code else (), getattr(function, "__closure__", None) or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _locals_around(function: Any) -> Mapping[str, Any]:
    """The variables of the functions and class bodies that `function` is written in, where they are still running.

    With types as text, a type defined in the same function is no variable of the closure; a decorator sees it only
    by looking at who is running. Only the surroundings that the function is written in are looked at.
    """
    names: dict[str, Any] = {}
    code: Any = getattr(function, "__code__", None)
    frame = inspect.currentframe()
    while frame is not None:
        if _holds(frame.f_code, code):
            code = frame.f_code
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _holds(around: types.CodeType, code: Any) -> bool:
    """Whether `code` was written inside `around`, at any depth."""
    written = [each for each in around.co_consts if isinstance(each, types.CodeType)]
    return any(each is code or _holds(each, code) for each in written)


def lenient() -> dict[str, Any]:
    """What makes `inspect.signature` leave names alone that it can't work out; before Python 3.14 it always does."""
    if sys.version_info < (3, 14):
        return {}
    import annotationlib  # pragma: no cover  (Python 3.14)

    return {"annotation_format": annotationlib.Format.FORWARDREF}  # pragma: no cover  (Python 3.14)


def innermost(function: Any) -> Any:
    """The plain function behind partials, wrappers, bound methods and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif not inspect.isroutine(function):  # pyright: ignore[reportUnknownArgumentType]
            function = type(function).__call__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        else:
            return function  # pyright: ignore[reportUnknownVariableType]
