"""`Signature`: the parameters of a function as a tool sees them, with their types worked out."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, get_args, get_origin

from attrs import frozen

from pegboard.errors import DefinitionError
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.injection import Injection, injected_kind
from pegboard.tools.scope import Scope, innermost, lenient
from pegboard.tools.service_kind import is_kind

EMPTY: Final = inspect.Parameter.empty
"""The default of a parameter without one."""

OMITTED: Final = object()
"""The default of a parameter that may be left out and then isn't passed; no schema shows it, as JSON can't say it."""

Kind = inspect._ParameterKind  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (the public alias is untyped)
STARRED: Final = (Kind.VAR_POSITIONAL, Kind.VAR_KEYWORD)
_UNIONS: Final = (typing.Union, types.UnionType)
_SELVES: Final = ("self", "cls")


@frozen
class Parameter:
    """One parameter.

    Attributes:
        name: As in the function.
        annotation: Its type, with every name in it worked out; `Any` where there is none; `ToolContext` itself
            for the context, however it was written.
        default: Its default, `EMPTY` without one, `OMITTED` where it may be left out all the same.
        kind: As in `inspect.Parameter`.
        service: The type of the service that fills it, or `None`.
    """

    name: str
    annotation: Any
    default: Any
    kind: Kind
    service: Any = None

    @property
    def is_context(self) -> bool:
        """Whether it gets the context."""
        return self.annotation is ToolContext

    @property
    def is_hidden(self) -> bool:
        """Whether the board fills it, and so the model doesn't see it."""
        return self.annotation is ToolContext or self.service is not None

    @property
    def is_positional(self) -> bool:
        """Whether it may stand before `*args`."""
        return self.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD)


@frozen
class Signature:
    """The parameters that a call of a tool fills, and what it gives back.

    Attributes:
        parameters: In the function's order; those that a `functools.partial` has bound are left out.
        returns: The return type, worked out; `EMPTY` without one.
        taken: Names that `**kwargs` can't take: parameters that are bound or hidden.
    """

    parameters: tuple[Parameter, ...]
    returns: Any
    taken: frozenset[str] = frozenset()

    @property
    def visible(self) -> tuple[Parameter, ...]:
        """What the model may fill."""
        return tuple(each for each in self.parameters if not each.is_hidden)

    @property
    def injects(self) -> tuple[Injection, ...]:
        """What services fill."""
        return tuple(
            Injection(each.name, each.service, each.default is not EMPTY)
            for each in self.parameters
            if each.service is not None
        )


def signature_of(function: Callable[..., Any], *, tool: str, method: bool = False) -> Signature:
    """Reads a function's signature; wrappers made with `functools.wraps` are seen through.

    Args:
        function: Any callable but a class.
        tool: The tool's name, for errors.
        method: Whether the first parameter is an instance or class that isn't bound yet.

    Raises:
        DefinitionError: It has no readable signature, a type names what isn't there, or two parameters take the
            context.
    """
    try:
        raw = inspect.signature(function, **lenient())
    except (TypeError, ValueError, NameError) as error:
        hint = "Wrap it in a function with typed parameters."
        raise DefinitionError(f"its signature can't be read ({error})", tool=tool, hint=hint) from None
    scope = Scope(function, tool)
    bound = _bound_names(function)
    written = [each for each in raw.parameters.values() if each.name not in bound][method:]
    parameters = tuple(_parameter(each, scope) for each in written)
    _check_context([each for each in parameters if each.is_context], tool)
    returns = EMPTY if raw.return_annotation is EMPTY else scope.resolve(raw.return_annotation, "return")
    if not parameters or parameters[-1].kind is not Kind.VAR_KEYWORD:
        return Signature(parameters, returns)
    return Signature(tuple(_unpacked(parameters, tool)), returns, _taken(function, parameters))


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is written in a class body and its first parameter waits for an instance or class."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or not code.co_argcount or code.co_varnames[0] not in _SELVES:
        return False
    around = function.__qualname__.rpartition(".")[0]
    if not around or around.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function, **lenient()).parameters.values()))
    return first.annotation is EMPTY


def _parameter(written: inspect.Parameter, scope: Scope) -> Parameter:
    annotation = Any if written.annotation is EMPTY else scope.resolve(written.annotation, written.name)
    if _is_context(annotation):
        annotation = ToolContext
    elif _is_kind_of_context(annotation):
        what = f"it would be the model's to fill: only {ToolContext.__name__} itself is given by the board."
        hint = "Annotate it ToolContext; what the request says is in its `request`."
        raise DefinitionError(what, tool=scope.tool, parameter=written.name, annotation=annotation, hint=hint)
    service = None if type(annotation) is type else injected_kind(annotation)
    if service is not None:
        _check_injected(written, service, annotation, scope.tool)
    return Parameter(written.name, annotation, written.default, written.kind, service)


def _check_injected(written: inspect.Parameter, service: Any, annotation: Any, tool: str) -> None:
    if not is_kind(service) or _is_kind_of_context(service):
        what = f"a service is found by its class or protocol, and {service} is neither."
        hint = "Write Injected[SomeClass]."
    elif written.kind in STARRED:
        what, hint = "a service can't be starred.", "Give it a parameter of its own."
    else:
        return
    raise DefinitionError(what, tool=tool, parameter=written.name, annotation=annotation, hint=hint)


def _is_context(annotation: Any) -> bool:
    """`ToolContext`, alone, in `Annotated`, or in a union with None."""
    if annotation is ToolContext or type(annotation) is type:
        return annotation is ToolContext
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        return _is_context(get_args(annotation)[0])
    return origin in _UNIONS and any(_is_context(each) for each in get_args(annotation))


def _is_kind_of_context(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, (ReadonlyContext, ToolContext))


def _check_context(found: Sequence[Parameter], tool: str) -> None:
    if len(found) > 1:
        hint = "Keep one of them."
        raise DefinitionError("a second parameter takes the context.", tool=tool, parameter=found[1].name, hint=hint)
    for each in found:
        if each.kind in STARRED:
            hint = "Give it a parameter of its own."
            raise DefinitionError("the context can't be starred.", tool=tool, parameter=each.name, hint=hint)


def _unpacked(parameters: tuple[Parameter, ...], tool: str) -> Iterator[Parameter]:
    """`**kwargs: Unpack[SomeTypedDict]` as the keyword parameters that it stands for."""
    for each in parameters:
        # typing_extensions has an Unpack of its own in Python 3.11.
        if each.kind is Kind.VAR_KEYWORD and getattr(get_origin(each.annotation), "_name", "") == "Unpack":
            yield from _keys(each, tool)
        else:
            yield each


def _keys(starred: Parameter, tool: str) -> Iterator[Parameter]:
    from pegboard.schema.fields import fields_of

    fields = fields_of(get_args(starred.annotation)[0])
    if fields is None:
        what = f"its type {starred.annotation} unpacks no TypedDict."
        raise DefinitionError(what, tool=tool, parameter=starred.name, annotation=starred.annotation)
    for each in fields:
        yield Parameter(each.key, each.annotation, EMPTY if each.required else OMITTED, Kind.KEYWORD_ONLY)


def _bound_names(function: Any) -> frozenset[str]:
    """The keywords that a `functools.partial`, or several, have fixed: they may be secrets, so nobody sees them."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return frozenset(names)


def _taken(function: Callable[..., Any], parameters: tuple[Parameter, ...]) -> frozenset[str]:
    """Names of parameters that the function has and the model can't fill."""
    every = inspect.signature(innermost(function), **lenient()).parameters.values()
    written = {each.name for each in every if each.kind not in STARRED}
    return frozenset(written - {each.name for each in parameters if not each.is_hidden})


__all__ = ["EMPTY", "OMITTED", "STARRED", "Kind", "Parameter", "Signature", "is_method", "signature_of"]
