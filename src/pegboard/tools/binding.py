"""Binding of arguments: from validated JSON to the parameters of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from attrs import frozen

from pegboard.errors import DefinitionError
from pegboard.schema.json import JsonText, json_text
from pegboard.schema.problems import StructureError
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Binder
from pegboard.tools.injection import Injection, filled
from pegboard.tools.options import checked_schema
from pegboard.tools.signature import EMPTY, OMITTED, STARRED, Kind, Parameter, Signature
from pegboard.typing import JsonSchema


def input_schema_of(
    options: Mapping[str, Any], parameters: Sequence[Parameter], described: Mapping[str, str], tool: str
) -> JsonText:
    """The given schema, held against the parameters, else what they give.

    Args:
        options: Of the tool.
        parameters: What the model may fill.
        described: Their descriptions by the docstring; a text in `Annotated` wins.
        tool: The tool's name, for errors.

    Raises:
        DefinitionError: A type can't be expressed, or the given schema lets through what the function can't take.
        SchemaError: The given schema is refused.
    """
    given = options.get("input_schema")
    if given is None:
        try:
            return json_text(_derived(parameters, described, tool))
        except ValueError as error:  # a number of more digits than Python writes, deep in a default
            raise DefinitionError(f"its schema can't be written as JSON: {error}.", tool=tool) from None
    text = checked_schema(given, tool, "input_schema")
    _check_drift(given, parameters, tool)
    _check_types(parameters, tool)
    return text


def _derived(parameters: Sequence[Parameter], described: Mapping[str, str], tool: str) -> JsonSchema:
    """The schema of what the model may fill; it is right by construction and needs no check."""
    from pegboard.schema.fields import MISSING
    from pegboard.schema.types import Property, object_schema

    properties: list[Property] = []
    additional: Any = MISSING
    for each in parameters:
        if each.kind is Kind.VAR_KEYWORD:
            additional = each.annotation
            continue
        description = described.get(each.name)
        if description and _is_described(each.annotation):
            description = None
        if each.kind is Kind.VAR_POSITIONAL:
            properties.append(Property(each.name, list[each.annotation], description, []))
        else:
            default = MISSING if each.default is EMPTY else each.default
            properties.append(Property(each.name, each.annotation, description, default))
    return object_schema(properties, tool=tool, additional=additional)


def _is_described(annotation: Any) -> bool:
    """Whether a text stands in `Annotated`, which wins over the docstring's."""
    return get_origin(annotation) is Annotated and any(map(_describes, get_args(annotation)[1:]))


def _describes(marker: Any) -> bool:
    if isinstance(marker, Mapping):
        return "description" in marker
    texts = (marker, getattr(marker, "documentation", None), getattr(marker, "description", None))
    return any(isinstance(each, str) for each in texts)


def _check_types(parameters: Sequence[Parameter], tool: str) -> None:
    """Refuses types that nobody can make of JSON: a schema says what a call may carry, not how it becomes a value.

    Raises:
        DefinitionError: A parameter of such a type.
    """
    from pegboard.schema.types import schema_of

    for each in parameters:
        try:
            schema_of(each.annotation, tool=tool, path=each.name)
        except DefinitionError as error:
            raise DefinitionError(
                f"{error.message.rstrip('.')}, so no argument becomes one.",
                tool=tool,
                parameter=error.parameter,
                annotation=error.annotation,
                hint="Annotate what JSON carries and convert it in the function, "
                "or make the tool with Tool.from_schema, whose handler takes a mapping.",
            ) from None


def _check_drift(schema: JsonSchema, parameters: Sequence[Parameter], tool: str) -> None:
    """Refuses an override that lets a call through that the function can't take.

    Raises:
        DefinitionError: A property without a parameter, or a parameter that a call may leave out but must not.
    """
    names = {each.name for each in parameters if each.kind is not Kind.VAR_KEYWORD}
    is_open = any(each.kind is Kind.VAR_KEYWORD for each in parameters)
    for name in schema.get("properties", {}):
        if name not in names and not is_open:
            hint = "Give the function such a parameter, or **kwargs."
            raise DefinitionError("input_schema has it, the function doesn't.", tool=tool, parameter=name, hint=hint)
    for each in parameters:
        if each.default is EMPTY and each.kind not in STARRED and each.name not in schema.get("required", ()):
            hint = "Require it in input_schema, or give it a default."
            raise DefinitionError("the function needs it.", tool=tool, parameter=each.name, hint=hint)


_Bound: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
_Structure: TypeAlias = Callable[[Any], Any]


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
    context: str | None, structures: Mapping[str, _Structure], rest: _Rest | None, taken: frozenset[str]
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


def _structures(signature: Signature, structure_of: Callable[[Any], _Structure | None]) -> dict[str, _Structure]:
    """What has to be structured, by name; `*args` as the list that they come in."""
    found: dict[str, _Structure] = {}
    for each in signature.visible:
        if each.kind is not Kind.VAR_KEYWORD:
            annotation = list[each.annotation] if each.kind is Kind.VAR_POSITIONAL else each.annotation
            structure = structure_of(annotation)
            if structure is not None:
                found[each.name] = structure
    return found


def _rest(parameters: Sequence[Parameter], structure_of: Callable[[Any], _Structure | None]) -> _Rest | None:
    named = frozenset(each.name for each in parameters if not each.is_hidden and each.kind is not Kind.VAR_KEYWORD)
    for each in parameters:
        if each.kind is Kind.VAR_KEYWORD:
            return _Rest(named, structure_of(each.annotation))
    return None


def _structured(structure: _Structure, value: Any, name: str) -> Any:
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
    structure: _Structure | None

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


def _straight(_context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
    return (), arguments


@frozen
class _WithContext:
    context: str

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
        return (), {**arguments, self.context: context}


@frozen
class _Keywords:
    """Everything is passed by name."""

    context: str | None
    structures: Sequence[tuple[str, _Structure]]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
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
    structures: Mapping[str, _Structure]
    rest: _Rest
    taken: frozenset[str]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
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

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
        args, kwargs = self.binder(context, arguments)
        return args, {**kwargs, **filled(self.injects, context)}


@frozen
class _Positional:
    """Some can't be passed by name, so all that may stand before them are passed by position, defaults too."""

    parameters: Sequence[Parameter]
    structures: Mapping[str, _Structure]
    rest: _Rest | None
    taken: frozenset[str]
    injects: tuple[Injection, ...]

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
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

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> _Bound:
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
