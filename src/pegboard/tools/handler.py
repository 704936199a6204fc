"""`Handler`: the code that runs a tool, perhaps loaded late; binding of arguments to its function's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from attrs import Factory, field

from pegboard.callbacks import CallableKind
from pegboard.errors import DefinitionError, FatalToolError, MissingServiceError, ToolError
from pegboard.json import MOST_PROBLEMS, JsonText, StructureError, json_text
from pegboard.schema.converter import JsonRecord
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.signature import EMPTY, POSITIONAL, STARRED, Parameter, ParameterKind, Signature
from pegboard.tools.spec import Concurrency, schema_text
from pegboard.typing import JsonMapping, JsonObject, JsonSchema, frozen

if TYPE_CHECKING:
    from pegboard.schema.adapters import TypeAdapter
    from pegboard.schema.conversion import StructureHook
    from pegboard.threads import OwnThread

# Validated arguments -> `(args, kwargs)` of the function.
Binder: TypeAlias = Callable[[ToolContext, Mapping[str, Any]], tuple[Sequence[Any], Mapping[str, Any]]]


@frozen
class Preview(JsonRecord):
    """Preview of a call for the person who confirms it.

    Attributes:
        summary: One line.
        details: More text, such as a diff; may be empty.
    """

    summary: str
    details: str = ""


# The functions among a tool's options, which `CommonOptions` describes. "Arguments" are the validated ones.
Previewer: TypeAlias = Callable[..., "Preview | str | None"]  # of the arguments, and perhaps the request's `context`
Confirmer: TypeAlias = Callable[..., bool]  # likewise
Sharer: TypeAlias = Callable[[Mapping[str, Any]], "Concurrency | Literal['shared', 'exclusive']"]
WorkDir: TypeAlias = Callable[[Mapping[str, Any], ReadonlyContext], "str | None"]
RuleValues: TypeAlias = Callable[[Mapping[str, Any], ReadonlyContext], Mapping[str, Any]]  # strings or lists
Preparer: TypeAlias = Callable[[JsonObject], Mapping[str, Any]]  # of a copy of the arguments as the model sent them
Checker: TypeAlias = Callable[[Mapping[str, Any]], "Iterable[str] | None"]  # `"path: reason"` for each problem
ErrorWriter: TypeAlias = Callable[[Sequence[str]], str]  # of such problems; the text for the model


@frozen(eq=False)
class Handler:
    """The code that runs a tool.

    A generator's items are partial results; its result is its return value, or the list of its items if that is
    `None`.

    Attributes:
        function: The function to call.
        flavour: Whether the function is plain, async or a generator.
        blocking: Whether a plain function may block, and so runs off the event loop.
        make_binder: Makes the binder, at the first call.
        wraps_result: Whether the structured result is `{"result": value}`, because its type isn't an object.
        injects: The parameters for services, which are opened before each call and closed after it.
        takes_context: Whether the binder needs the context: for a parameter, or for services.
        thread: The thread in which a plain function or generator runs; `None`: any of the registry's.
    """

    function: Callable[..., Any]
    make_binder: Callable[[], Binder]
    flavour: CallableKind = field(default=Factory(lambda self: CallableKind.of(self.function), takes_self=True))
    blocking: bool = True
    wraps_result: bool = False
    injects: tuple[Parameter, ...] = ()
    takes_context: bool = True
    thread: OwnThread | None = None


def own_problems(check: Checker, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The problems that a tool's own check returns, at most 20; a string is a single one."""
    own = check(arguments)
    return (own,) if isinstance(own, str) else tuple(f"{each}" for each in islice(own or (), MOST_PROBLEMS))


def takes_fields(options: Mapping[str, Any], parameters: Sequence[Parameter], tool: str) -> bool:
    """Whether the arguments are the fields of the only parameter, whose type is a class with fields.

    Raises `DefinitionError` if `flatten=True` requires that, and there is no such parameter.
    """
    if (flatten := options.get("flatten")) is False:
        return False
    fits = len(parameters) == 1 and _has_fields(parameters[0], options.get("input_schema") or {}, tool)
    if flatten and not fits:
        there = ", ".join(f"{each.name}: {inspect.formatannotation(each.annotation)}" for each in parameters) or "none"
        what = "flatten=True needs a single required parameter of a class with fields, such as a dataclass; there is"
        raise DefinitionError(f"{what} {there}", tool=tool, hint="Leave flatten out, or give it such a parameter.")
    return fits


def _has_fields(one: Parameter, given: JsonSchema, tool: str) -> bool:
    from pegboard.schema.adapters import OBJECTS, ForeignAdapter, RecordAdapter, bare
    from pegboard.schema.types import adapter_of

    if one.default is not EMPTY or one.kind in STARRED or one.key in given.get("properties", {}):
        return False
    try:
        adapter = bare(adapter_of(one.annotation, tool=tool, path=one.name))
    except DefinitionError:  # raised later, with its schema
        return False
    return isinstance(adapter, RecordAdapter) or (isinstance(adapter, ForeignAdapter) and adapter.kinds() == OBJECTS)


def input_schema_of(
    options: JsonMapping, parameters: Sequence[Parameter], described: Mapping[str, str], tool: str, *, of_fields: bool
) -> JsonText:
    """The given schema, checked against the parameters that the model may fill, or else derived from them.

    `described` has the docstring's descriptions; a text in `Annotated` takes precedence. Raises `DefinitionError` if a
    type has no schema, or the given schema allows arguments that the function doesn't take.
    """
    from pegboard.schema.adapters import root_schema
    from pegboard.schema.types import adapter_of

    given = options.get("input_schema")
    if given is None:
        try:
            return json_text(
                root_schema(adapter_of(parameters[0].annotation, tool=tool, path=parameters[0].name))
                if of_fields
                else _derive(parameters, described, tool)
            )
        except ValueError as error:  # a number with too many digits for Python, deep in a default
            raise DefinitionError(f"its schema can't be written as JSON: {error}", tool=tool) from None
    text = schema_as_text(given, tool, "input_schema")
    if not of_fields:
        _check_parameters_fit(given, parameters, tool)
    for each in parameters:  # a type without a schema is one that JSON can't be converted to
        adapter_of(each.annotation, tool=tool, path=each.name)
    return text


def _derive(parameters: Sequence[Parameter], described: Mapping[str, str], tool: str) -> JsonSchema:
    """The schema derived from the parameters; valid by construction."""
    from pegboard.schema.constraints import notes_of
    from pegboard.schema.fields import MISSING, metadata_of
    from pegboard.schema.types import Property, object_schema

    properties: list[Property] = []
    additional: Any = MISSING
    for each in parameters:
        if each.kind is ParameterKind.VAR_KEYWORD:
            additional = each.annotation
            continue
        description = described.get(each.name) or described.get(each.key)
        if "description" in notes_of(metadata_of(each.annotation)):
            description = None  # a text in `Annotated` takes precedence
        if each.kind is ParameterKind.VAR_POSITIONAL:
            properties.append(Property(each.key, list[each.annotation], description, []))
        else:
            default = MISSING if each.default is EMPTY else each.default
            properties.append(Property(each.key, each.annotation, description, default))
    return object_schema(properties, tool=tool, additional=additional)


def _check_parameters_fit(schema: JsonSchema, parameters: Sequence[Parameter], tool: str) -> None:
    """Refuses a given schema that allows arguments that the function doesn't take."""
    names = {each.key for each in parameters if each.kind is not ParameterKind.VAR_KEYWORD}
    for name in schema.get("properties", {}):
        if name not in names and len(names) == len(parameters):  # it has no **kwargs
            hint = "Add it or **kwargs to the function, or remove it from input_schema."
            raise DefinitionError("the function has no such parameter", tool=tool, parameter=name, hint=hint)
    for each in parameters:
        if each.default is EMPTY and each.kind not in STARRED and each.key not in schema.get("required", ()):
            hint = "Require it, or give the parameter a default."
            raise DefinitionError("input_schema must require it", tool=tool, parameter=each.name, hint=hint)


def binder_of(signature: Signature, *, strict: bool = False, of_fields: bool = False) -> Binder:
    """The binder for a signature; arguments whose types are JSON's own are passed unchanged.

    `strict`: validate by the types, too, because the schema isn't derived from them. `of_fields`: as `takes_fields`.
    """
    from pegboard.schema.conversion import same, straight_binder, strict_hook, structure_hook  # at the first call
    from pegboard.schema.types import adapter_of

    structures: dict[str, StructureHook] = {}
    adapters: dict[str, TypeAdapter] = {}
    rest: StructureHook | None = None
    for each in signature.visible:
        adapter = adapter_of(list[each.annotation] if each.kind is ParameterKind.VAR_POSITIONAL else each.annotation)
        adapters[each.key] = adapter
        structure = strict_hook(adapter) if strict else structure_hook(adapter)
        if structure is not same and each.kind is ParameterKind.VAR_KEYWORD:
            rest = structure
        elif structure is not same:
            structures[each.key] = structure
    bind = _binder(signature, structures, rest)
    if structures and not strict and all(map(_is_by_name, signature.parameters)):
        bind = straight_binder(adapters, bind, _context_of(signature)) or bind
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
    """The binder of a function with one parameter, which gets this argument, or (`None`) all of them as a mapping."""
    bind, (one,) = _binder(signature, {}, None), signature.visible
    return lambda context, arguments: bind(context, {one.name: arguments if argument is None else arguments[argument]})


def _binder(signature: Signature, structures: Mapping[str, StructureHook], rest: StructureHook | None) -> Binder:
    """The binder by hooks: passes everything by name, or if a parameter requires it, what it can by position.

    `structures` has the hooks of the arguments by key, and `rest` the hook of the values of `**kwargs`.
    """
    injects = [each for each in signature.parameters if each.service is not None]
    defaults = {each.name: each.make_default for each in signature.parameters if each.make_default}
    names = {each.key: each.name for each in signature.visible if each.kind is not ParameterKind.VAR_KEYWORD}
    takes_rest = len(names) < len(signature.visible)
    reserved = signature.reserved.union(names.values())  # bound, hidden and renamed ones
    its_context = _context_of(signature)
    takes = [each for each in signature.parameters if each.kind in (*POSITIONAL, ParameterKind.VAR_POSITIONAL)]
    positional = takes if any(each.kind is not ParameterKind.POSITIONAL_OR_KEYWORD for each in takes) else []
    renamed = {key: name for key, name in names.items() if key != name}
    if not (structures or takes_rest or injects or its_context or positional or renamed or defaults):
        return lambda _context, arguments: ((), arguments)

    def bind(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        values, name = dict(arguments), ""
        if takes_rest and (unknown := (values.keys() - names.keys()) & reserved):
            raise StructureError("unknown key", (min(unknown),))
        hooks = structures if rest is None else {**dict.fromkeys(values.keys() - names.keys(), rest), **structures}
        try:
            for name, structure in hooks.items():
                if name in values:
                    values[name] = structure(values[name])
        except Exception as error:  # noqa: BLE001  (handled there)
            from pegboard.schema.conversion import as_structure_error  # already loaded, as its hooks are

            raise as_structure_error(error, name) from None
        if renamed or defaults:
            values = {renamed.get(key, key): value for key, value in values.items()}
            values |= {name: make() for name, make in defaults.items() if name not in values}
        if injects:
            values |= {each.name: None for each in injects if each.default is EMPTY}  # as in a context for a check
            values |= {each.name: context.service(each.service) for each in injects if context.provides(each.service)}
        if its_context is not None:
            values[its_context] = context
        return (_positional_args(positional, values) if positional else ()), values

    return bind


def _context_of(signature: Signature) -> str | None:
    return next((each.name for each in signature.parameters if each.annotation is ToolContext), None)


def _is_by_name(one: Parameter) -> bool:
    """Whether a parameter gets the argument of its name, or the context."""
    is_other = one.kind in (ParameterKind.POSITIONAL_ONLY, *STARRED) or one.service is not None or one.make_default
    return one.key == one.name and not is_other


def _positional_args(positional: Sequence[Parameter], values: dict[str, Any]) -> list[Any]:
    args: list[Any] = []
    for each in positional:
        is_starred = each.kind is ParameterKind.VAR_POSITIONAL
        args += values.pop(each.name, ()) if is_starred else [values.pop(each.name, each.default)]
    return args


async def open_services(injects: Sequence[Parameter], context: ToolContext) -> None:
    """Opens the services for a tool's parameters, before binding; `CallInternals.close_services` closes them.

    If one isn't provided or can't be opened, the `ToolError` is for the model, and its `__cause__` for the operator.
    """
    for each in injects:
        try:
            if context.provides(each.service) or each.default is EMPTY:
                await context.use(each.service)
        except MissingServiceError as error:
            text = f"{context.tool} isn't set up here, so it can't run. Continue without it, or tell the user."
            raise ToolError(text) from error
        except (ToolError, FatalToolError):
            raise
        except Exception as error:
            text = f"{context.tool} can't run now: a service that it needs can't be opened."
            raise ToolError(text, hint="Continue without it, or tell the user.") from error


def schema_as_text(schema: JsonSchema, tool: str, what: str, *, skip_patterns: bool = False) -> JsonText:
    """A given schema as text, checked; raises `SchemaError`. `what` names it, such as `"input_schema"`."""
    from pegboard.schema.validator import check_schema

    written: JsonSchema | JsonText = schema
    with suppress(TypeError, ValueError, RecursionError):  # the check reports it
        written = schema_text(schema)
    check_schema(written, tool=tool, what=what, skip_patterns=skip_patterns)
    return json_text(written)


_Tool: TypeAlias = Any  # A `Tool`; its module imports this one


@frozen(eq=False)
class LazyHandler:
    """Lazy handler, loaded at the first call: listing and filtering import no code of its plugin.

    `load` returns the tool with its handler, the handler alone, or a coroutine of either. It is called off the event
    loop, and raises `PluginError` if a plugin fails, `StaleSpecError` if the code declares another spec.
    """

    load: Callable[[], _Tool | Handler | Coroutine[Any, Any, _Tool | Handler]]
    _completed: WeakKeyDictionary[_Tool, _Tool] = field(factory=WeakKeyDictionary[Any, Any], init=False, repr=False)

    def complete(self, tool: _Tool, loaded: _Tool | Handler) -> _Tool:
        """The tool with what `load` returned; cached, so that its compiled validators are reused."""
        if not isinstance(loaded, Handler):
            return loaded
        if tool not in self._completed:
            self._completed[tool] = tool.evolve(handler=loaded)
        return self._completed[tool]

    def with_change(self, tool: _Tool, change: Callable[[_Tool], _Tool]) -> LazyHandler:
        """The lazy handler of the tool after a change, which is made to the tool once it is loaded."""

        async def later(loading: Coroutine[Any, Any, _Tool | Handler]) -> _Tool:
            return change(self.complete(tool, await loading))

        def load() -> _Tool | Coroutine[Any, Any, _Tool]:
            loaded = self.load()
            return later(loaded) if isinstance(loaded, Coroutine) else change(self.complete(tool, loaded))  # pyright: ignore[reportUnknownArgumentType]

        return LazyHandler(load)
