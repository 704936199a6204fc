"""How judged arguments become the Python arguments of a function, compiled at the first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from pegboard.schema.problems import StructureError
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Binder
from pegboard.tools.injection import Injection, filled
from pegboard.tools.signature import EMPTY, OMITTED, Kind, Parameter, Signature

Bound: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
Structure: TypeAlias = Callable[[Any], Any]


def binder_of(signature: Signature, *, strict: bool = False) -> Binder:
    """The fastest binder for a signature: arguments that are JSON already are handed on as they are.

    Args:
        signature: Of the function.
        strict: Whether the types judge too, because the schema is another than theirs.
    """
    from pegboard.schema.structure import strict_structurer, structurer

    parameters = signature.parameters
    structure_of = strict_structurer if strict else structurer
    structures = _structures(signature, structure_of)
    rest = _rest(parameters, structure_of)
    injects = signature.injects
    if any(each.kind in (Kind.POSITIONAL_ONLY, Kind.VAR_POSITIONAL) for each in parameters):
        return _Positional(parameters, structures, rest, signature.taken, injects)
    context = next((each.name for each in parameters if each.is_context), None)
    binder = _by_name(context, structures, rest, signature.taken)
    return _Injecting(binder, injects) if injects else binder


def _by_name(
    context: str | None, structures: Mapping[str, Structure], rest: _Rest | None, taken: frozenset[str]
) -> Binder:
    if rest is not None:
        return _Open(context, structures, rest, taken)
    if structures:
        return _Keywords(context, tuple(structures.items()))
    return _straight if context is None else _WithContext(context)


def binder_of_one(parameters: tuple[Parameter, ...], name: str | None = None) -> Binder:
    """The binder of a function that takes one thing, and perhaps the context.

    Args:
        parameters: Of the function, one of them visible.
        name: Of the one argument that it gets; `None` for all arguments as a mapping.
    """
    return _One(parameters, name, Signature(parameters, EMPTY).injects)


def _structures(signature: Signature, structure_of: Callable[[Any], Structure | None]) -> dict[str, Structure]:
    """What has to be structured, by name; `*args` as the list that they come in."""
    found: dict[str, Structure] = {}
    for each in signature.visible:
        if each.kind is not Kind.VAR_KEYWORD:
            annotation = list[each.annotation] if each.kind is Kind.VAR_POSITIONAL else each.annotation
            structure = structure_of(annotation)
            if structure is not None:
                found[each.name] = structure
    return found


def _rest(parameters: Sequence[Parameter], structure_of: Callable[[Any], Structure | None]) -> _Rest | None:
    named = frozenset(each.name for each in parameters if not each.is_hidden and each.kind is not Kind.VAR_KEYWORD)
    for each in parameters:
        if each.kind is Kind.VAR_KEYWORD:
            return _Rest(named, structure_of(each.annotation))
    return None


def _structured(structure: Structure, value: Any, name: str) -> Any:
    try:
        return structure(value)
    except StructureError as error:
        raise error.below(name) from None


@frozen
class _Rest:
    """What `**kwargs` takes.

    Attributes:
        named: The names of the other parameters that the model may fill.
        structure: Structures each value, or `None`.
    """

    named: frozenset[str]
    structure: Structure | None

    def fill(self, values: dict[str, Any], taken: frozenset[str]) -> None:
        """Structures the values that no parameter is named for, in place.

        Raises:
            StructureError: A name that the function has bound or hidden, or a value that isn't of the type.
        """
        for name in values.keys() - self.named:
            if name in taken:
                raise StructureError("unknown key", (name,))
            if self.structure is not None:
                values[name] = _structured(self.structure, values[name], name)


def _straight(_context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
    return (), arguments


@frozen
class _WithContext:
    context: str

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
        return (), {**arguments, self.context: context}


@frozen
class _Keywords:
    """Everything is passed by name."""

    context: str | None
    structures: Sequence[tuple[str, Structure]]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
        values = dict(arguments)
        for name, structure in self.structures:
            if name in values:
                try:
                    values[name] = structure(values[name])
                except StructureError as error:
                    raise error.below(name) from None
        if self.context is not None:
            values[self.context] = context
        return (), values


@frozen
class _Open:
    """Everything is passed by name, and there is `**kwargs`."""

    context: str | None
    structures: Mapping[str, Structure]
    rest: _Rest
    taken: frozenset[str]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
        values = dict(arguments)
        self.rest.fill(values, self.taken)
        for name in self.structures.keys() & values.keys():
            values[name] = _structured(self.structures[name], values[name], name)
        if self.context is not None:
            values[self.context] = context
        return (), values


@frozen
class _Injecting:
    """Services too are passed by name."""

    binder: Binder
    injects: tuple[Injection, ...]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
        args, kwargs = self.binder(context, arguments)
        return args, {**kwargs, **filled(self.injects, context)}


@frozen
class _Positional:
    """Some can't be passed by name, so all that may stand before them are passed by position, defaults too."""

    parameters: Sequence[Parameter]
    structures: Mapping[str, Structure]
    rest: _Rest | None
    taken: frozenset[str]
    injects: tuple[Injection, ...]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
        values = dict(arguments)
        if self.rest is not None:
            self.rest.fill(values, self.taken)
        values.update(filled(self.injects, context))
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in self.parameters:
            self._place(each, context, values, args, kwargs)
        return args, kwargs | values

    def _place(
        self,
        parameter: Parameter,
        context: ToolContext,
        values: dict[str, Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> None:
        """Moves one parameter's value out of `values` to where it is passed; `**kwargs` stays for the end."""
        if parameter.kind is Kind.VAR_KEYWORD:
            return
        if parameter.is_context:
            value: Any = context
        elif parameter.name in values:
            value = values.pop(parameter.name)
            if structure := self.structures.get(parameter.name):
                value = _structured(structure, value, parameter.name)
        else:
            value = parameter.default
        if parameter.is_positional:
            args.append(value)
        elif parameter.kind is Kind.KEYWORD_ONLY:
            if value is not OMITTED:
                kwargs[parameter.name] = value
        elif value is not parameter.default:  # *args, if given
            args.extend(value)


@frozen
class _One:
    """One thing, and perhaps the context and services, in the function's order."""

    parameters: tuple[Parameter, ...]
    name: str | None
    injects: tuple[Injection, ...]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> Bound:
        given = arguments if self.name is None else arguments[self.name]
        services = filled(self.injects, context)
        values = [(each, self._value(each, context, services, given)) for each in self.parameters]
        return (
            [value for each, value in values if each.is_positional],
            {each.name: value for each, value in values if not each.is_positional},
        )

    @staticmethod
    def _value(parameter: Parameter, context: ToolContext, services: Mapping[str, Any], given: Any) -> Any:
        if parameter.is_context:
            return context
        return given if parameter.service is None else services.get(parameter.name, parameter.default)
