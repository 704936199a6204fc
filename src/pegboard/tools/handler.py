"""`Handler`: the code that runs a tool; binding of validated JSON to the parameters of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import Factory, field, frozen

from pegboard.callbacks import Flavour
from pegboard.errors import DefinitionError, FatalToolError, MissingServiceError, ToolError
from pegboard.schema.converter import JsonRecord
from pegboard.schema.json import MOST_PROBLEMS, JsonText, StructureError, json_text
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.signature import EMPTY, STARRED, Kind, Parameter, Signature
from pegboard.tools.spec import Concurrency
from pegboard.typing import JsonSchema

if TYPE_CHECKING:
    from pegboard.schema.conversion import StructureHook

Binder: TypeAlias = Callable[[ToolContext, Mapping[str, Any]], tuple[Sequence[Any], Mapping[str, Any]]]
"""Turns arguments that the schema has found valid into `(args, kwargs)` of the function."""


@frozen
class Preview(JsonRecord):
    """Preview of a call for the person who confirms it.

    Attributes:
        summary: One line.
        details: Everything else, such as a diff; may be empty.
    """

    summary: str
    details: str = ""


Previewer: TypeAlias = Callable[..., "Preview | str | None"]
"""Gets the validated arguments, and the request's context as `context` if it asks for it; a plain text is the summary.
"""


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether it has a parameter called `context`."""
    try:
        return "context" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some that are written in C
        return False


Confirmer: TypeAlias = Callable[..., bool]
"""Gets the validated arguments, and the `context` as a `Previewer` does; whether this call has to be confirmed."""

Sharer: TypeAlias = Callable[[Mapping[str, Any]], "Concurrency | Literal['shared', 'exclusive']"]
"""Gets the validated arguments; how this call shares."""

WorkDir: TypeAlias = Callable[[Mapping[str, Any], ReadonlyContext], "str | None"]
"""Gets the validated arguments and the request's context; gives the folder that relative paths in them start from."""

PermissionValues: TypeAlias = Callable[[Mapping[str, Any], ReadonlyContext], Mapping[str, Any]]
"""Gets the validated arguments and the request's context; gives what rules look at, by name: texts or lists of them."""

Checker: TypeAlias = Callable[[Mapping[str, Any]], "Iterable[str] | None"]
"""Gets the validated arguments; gives `"path: reason"` for each thing that is wrong with them."""

ErrorWriter: TypeAlias = Callable[[Sequence[str]], str]
"""Gets the problems (`"path: reason"`); gives the text that the model reads."""


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
        wraps_result: Whether the structured result is `{"result": value}`, because its type is no object's.
        injects: The parameters that services fill: these are opened before each call and closed after it.
    """

    function: Callable[..., Any]
    make_binder: Callable[[], Binder]
    flavour: Flavour = field(default=Factory(lambda self: Flavour.of(self.function), takes_self=True))
    blocking: bool = True
    wraps_result: bool = False
    injects: tuple[Parameter, ...] = ()


def own_problems(check: Checker, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """What a tool's own check finds wrong, at most 20 things of as many as it gives; a text by itself is one."""
    found = check(arguments)
    return (found,) if isinstance(found, str) else tuple(f"{each}" for each in islice(found or (), MOST_PROBLEMS))


def takes_fields(options: Mapping[str, Any], parameters: Sequence[Parameter], tool: str) -> bool:
    """Whether the arguments are the fields of the one parameter that there is, and it is of a class with fields.

    Raises:
        DefinitionError: `flatten=True` asks for that, and there is no such parameter.
    """
    if (flatten := options.get("flatten")) is False:
        return False
    fits = len(parameters) == 1 and _has_fields(parameters[0], options.get("input_schema") or {}, tool)
    if flatten and not fits:
        there = ", ".join(f"{each.name}: {inspect.formatannotation(each.annotation)}" for each in parameters) or "none"
        what = "flatten=True needs one parameter, required and of a class with fields, such as a dataclass; there is"
        raise DefinitionError(f"{what} {there}.", tool=tool, hint="Leave flatten out, or give it such a parameter.")
    return fits


def _has_fields(one: Parameter, given: JsonSchema, tool: str) -> bool:
    from pegboard.schema.adapters import OBJECTS, ForeignAdapter, RecordAdapter, bare
    from pegboard.schema.types import adapter_of

    if one.default is not EMPTY or one.kind in STARRED or one.key in given.get("properties", {}):
        return False
    try:
        adapter = bare(adapter_of(one.annotation, tool=tool, path=one.name))
    except DefinitionError:  # is raised where its schema is made
        return False
    return isinstance(adapter, RecordAdapter) or (isinstance(adapter, ForeignAdapter) and adapter.kinds() == OBJECTS)


def input_schema_of(
    options: Mapping[str, Any],
    parameters: Sequence[Parameter],
    described: Mapping[str, str],
    tool: str,
    *,
    of_fields: bool = False,
) -> JsonText:
    """The given schema, held against the parameters that the model may fill, else what they give.

    `described` has their descriptions by the docstring; a text in `Annotated` wins. Raises `DefinitionError` where a
    type can't be expressed, or the given schema lets through what the function can't take.
    """
    given = options.get("input_schema")
    if given is None:
        from pegboard.schema.types import schema_of

        try:
            return json_text(
                schema_of(parameters[0].annotation, tool=tool, path=parameters[0].name)
                if of_fields
                else _derived(parameters, described, tool)
            )
        except ValueError as error:  # a number of more digits than Python writes, deep in a default
            raise DefinitionError(f"its schema can't be written as JSON: {error}.", tool=tool) from None
    text = checked_schema(given, tool, "input_schema")
    if not of_fields:
        _check_drift(given, parameters, tool)
    _check_types(parameters, tool)
    return text


def _derived(parameters: Sequence[Parameter], described: Mapping[str, str], tool: str) -> JsonSchema:
    """The schema of what the model may fill; it is right by construction and needs no check."""
    from pegboard.schema.constraints import notes_of
    from pegboard.schema.fields import MISSING
    from pegboard.schema.types import Property, object_schema

    properties: list[Property] = []
    additional: Any = MISSING
    for each in parameters:
        if each.kind is Kind.VAR_KEYWORD:
            additional = each.annotation
            continue
        description = described.get(each.name) or described.get(each.key)
        if "description" in notes_of(getattr(each.annotation, "__metadata__", ())):
            description = None  # a text in `Annotated` wins over the docstring's
        if each.kind is Kind.VAR_POSITIONAL:
            properties.append(Property(each.key, list[each.annotation], description, []))
        else:
            default = MISSING if each.default is EMPTY else each.default
            properties.append(Property(each.key, each.annotation, description, default))
    return object_schema(properties, tool=tool, additional=additional)


def _check_types(parameters: Sequence[Parameter], tool: str) -> None:
    """Refuses types that no JSON becomes: a schema is about what a call may carry, not how it becomes a value."""
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
    """Refuses an override that lets a call through that the function can't take."""
    names = {each.key for each in parameters if each.kind is not Kind.VAR_KEYWORD}
    is_open = any(each.kind is Kind.VAR_KEYWORD for each in parameters)
    for name in schema.get("properties", {}):
        if name not in names and not is_open:
            hint = "Give the function such a parameter, or **kwargs."
            raise DefinitionError("input_schema has it, the function doesn't.", tool=tool, parameter=name, hint=hint)
    for each in parameters:
        if each.default is EMPTY and each.kind not in STARRED and each.key not in schema.get("required", ()):
            hint = "Require it in input_schema, or give it a default."
            raise DefinitionError("the function needs it.", tool=tool, parameter=each.name, hint=hint)


def binder_of(signature: Signature, *, strict: bool = False, of_fields: bool = False) -> Binder:
    """The binder for a signature: arguments that are JSON already are handed on as they are.

    `strict`: the types validate too, because the schema is another than theirs. `of_fields`: as `takes_fields` says.
    """
    from pegboard.schema.conversion import same, structure_hook  # these are loaded at the first call
    from pegboard.schema.structure import strict_structurer
    from pegboard.schema.types import adapter_of

    def structure_of(annotation: Any) -> StructureHook:
        if not strict:
            return structure_hook(adapter_of(annotation))
        structure = strict_structurer(annotation)
        return lambda value, _: structure(value)

    structures: dict[str, StructureHook] = {}
    rest: StructureHook | None = None
    for each in signature.visible:
        structure = structure_of(list[each.annotation] if each.kind is Kind.VAR_POSITIONAL else each.annotation)
        if structure is same:
            continue
        if each.kind is Kind.VAR_KEYWORD:
            rest = structure
        else:
            structures[each.key] = structure
    bind = _binder(signature, structures, rest)
    if not of_fields:
        return bind
    key = signature.visible[0].key

    def bind_fields(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        try:
            return bind(context, {key: arguments})
        except StructureError as error:
            raise StructureError(error.reason, error.path[1:]) from None

    return bind_fields


def binder_of_one(signature: Signature, argument: str | None = None) -> Binder:
    """The binder of a function that takes one argument, or (`None`) all arguments as a mapping."""
    binder = _binder(signature, {}, None)
    (one,) = signature.visible
    return lambda context, arguments: binder(
        context, {one.name: arguments if argument is None else arguments[argument]}
    )


def _binder(signature: Signature, structures: Mapping[str, StructureHook], rest: StructureHook | None) -> Binder:
    """Passes everything by name; where a parameter can't be, all that may stand before it are passed by position.

    `structures` has what structures an argument, by its key, and `rest` what structures the values of `**kwargs`.
    """
    injects, rest_of = signature.injects, _rest_of(signature)
    its_context = next((each.name for each in signature.parameters if each.is_context), None)
    takes = [each for each in signature.parameters if each.is_positional or each.kind is Kind.VAR_POSITIONAL]
    positional = takes if any(each.kind in (Kind.POSITIONAL_ONLY, Kind.VAR_POSITIONAL) for each in takes) else []
    names = {each.key: each.name for each in signature.visible if each.key != each.name}
    if not (structures or rest_of or injects or its_context or positional or names):
        return lambda _context, arguments: ((), arguments)

    def bind(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        values, hooks, name = dict(arguments), structures, ""
        if rest_of is not None:
            others = rest_of(values)
            hooks = structures if rest is None else {**dict.fromkeys(others, rest), **structures}
        try:
            for name, structure in hooks.items():
                if name in values:
                    values[name] = structure(values[name], None)
        except Exception as error:  # noqa: BLE001  (handled there)
            from pegboard.schema.conversion import refusal  # loaded by now, as its hooks are

            raise refusal(error, name) from None
        if names:
            values = {names.get(key, key): value for key, value in values.items()}
        if injects:
            values.update(filled(injects, context))
        if its_context is not None:
            values[its_context] = context
        return (_taken_out(positional, values) if positional else ()), values

    return bind


def _rest_of(signature: Signature) -> Callable[[Mapping[str, Any]], set[str]] | None:
    """The names that `**kwargs` takes, none of which may be bound or hidden; `None` without `**kwargs`."""
    bound = [each for each in signature.visible if each.kind is not Kind.VAR_KEYWORD]
    if len(bound) == len(signature.visible):
        return None

    named, reserved = {each.key for each in bound}, signature.taken.union(each.name for each in bound)

    def rest_of(values: Mapping[str, Any]) -> set[str]:
        names = values.keys() - named
        if taken := names.intersection(reserved):
            raise StructureError("unknown key", (min(taken),))
        return names

    return rest_of


def _taken_out(positional: Sequence[Parameter], values: dict[str, Any]) -> list[Any]:
    args: list[Any] = []
    for each in positional:
        if each.is_positional:
            args.append(values.pop(each.name, each.default))
        else:
            args.extend(values.pop(each.name, ()))
    return args


async def opened(injects: Sequence[Parameter], context: ToolContext) -> None:
    """Opens what the parameters of a tool need, so that binding finds it; `close_services` closes it.

    Where one isn't provided or can't be opened, a `ToolError` has the model learn that the tool isn't set up, and the
    operator what to provide (from `__cause__`).
    """
    for each in injects:
        try:
            if context.provides(each.service) or not each.is_optional:
                await context.use(each.service)
        except MissingServiceError as error:
            text = f"{context.tool} isn't set up here, so it can't run. Do without it, or say so."
            raise ToolError(text) from error
        except (ToolError, FatalToolError):
            raise
        except Exception as error:
            text = f"{context.tool} can't run now: something that it needs can't be opened."
            raise ToolError(text) from error


def filled(injects: Sequence[Parameter], context: ToolContext) -> dict[str, Any]:
    """What the parameters get, by name, once it is `opened`.

    Where it isn't provided: `None`, as in a context that was made for a check; nothing for one with a default.
    """
    values: dict[str, Any] = {}
    for each in injects:
        if context.provides(each.service):
            values[each.name] = context.service(each.service)
        elif not each.is_optional:
            values[each.name] = None
    return values


def checked_schema(schema: JsonSchema, tool: str, what: str, *, skip_patterns: bool = False) -> JsonText:
    """A given schema as text; raises `SchemaError` where it is refused. `what` names it, such as `"input_schema"`."""
    from pegboard.schema.validator import check_schema

    check_schema(schema, tool=tool, what=what, skip_patterns=skip_patterns)
    return json_text(schema)
