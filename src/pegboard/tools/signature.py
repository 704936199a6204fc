"""Signatures of functions: parameters, resolved annotations, output types; their names and docstrings."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from keyword import iskeyword
from typing import Any, Final, cast, get_args, get_origin

from attrs import Factory, field

from pegboard.callbacks import CallableKind
from pegboard.errors import DefinitionError
from pegboard.json import JsonText, json_text
from pegboard.schema.docstrings import Docstring, parse_docstring
from pegboard.schema.fields import MISSING, declaration_of, default_in, enclosing_locals, metadata_of
from pegboard.tools.content import CONTENT_TYPES, ToolResult
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.services import UNIONS, injected_kind, is_kind
from pegboard.typing import frozen


def resolve_type(annotation: Any, function: Callable[..., Any], *, tool: str, parameter: str) -> Any:
    """An annotation with every name in it resolved, in the scope where `function` was defined."""
    if _is_resolved(annotation):
        return annotation
    try:
        return _evaluate(annotation, innermost(function))
    except NameError as error:
        what = f"names {error.name or str(error)!r}, which isn't defined at run time"
        hint = "Import it outside `if TYPE_CHECKING:`, or define it before the function."
    except (SyntaxError, TypeError, AttributeError) as error:
        what, hint = f"can't be evaluated ({error})", "Write a type."
        if "unhashable" in str(error):
            hint = "`|` doesn't take Annotated[X, {...}]: name it first, X = TypeAliasType('X', Annotated[...])."
    what = f"its type {annotation!r} {what}" if isinstance(annotation, str) else f"its type {annotation} {what}"
    raise DefinitionError(what, tool=tool, parameter=parameter, annotation=annotation, hint=hint)


def _is_resolved(annotation: Any) -> bool:
    """Whether no name in `annotation` is left as a string."""
    if type(annotation) is type:
        return True
    origin = get_origin(annotation)
    if origin is typing.Literal or isinstance(annotation, (str, typing.ForwardRef)):
        return origin is typing.Literal
    # A list has the parameters of a Callable.
    parts = cast("Sequence[Any]", annotation if isinstance(annotation, list) else get_args(annotation))
    return all(map(_is_resolved, parts[:1] if origin is typing.Annotated else parts))


def _evaluate(annotation: Any, function: Any) -> Any:
    scope: dict[str, Any] = getattr(function, "__globals__", {})
    names: dict[str, Any] = {each.__name__: each for each in getattr(function, "__type_params__", ())}
    if code := getattr(function, "__code__", None):
        names = {**enclosing_locals(code.co_qualname, scope.get("__name__", "")), **names}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # not assigned yet
                names[name] = cell.cell_contents
    # get_type_hints is the public way to evaluate names nested in a type; it accepts any annotated object.
    carrier = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(carrier, globalns=scope, localns=names, include_extras=True)["it"]


def inspect_signature(function: Callable[..., Any]) -> inspect.Signature:
    """`inspect.signature`, which leaves names that it can't resolve, as it always does before Python 3.14."""
    if sys.version_info < (3, 14):
        return inspect.signature(function)
    import annotationlib  # pragma: no cover  (Python 3.14)

    return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)  # pragma: no cover


def innermost(function: Any) -> Any:
    """The plain function within partials, wrappers, bound methods and callable objects."""
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


EMPTY: Final = inspect.Parameter.empty  # the default of a parameter without one
OMITTED: Final = object()  # the default of a parameter that isn't passed when it is left out; no schema shows it
ParameterKind = inspect._ParameterKind  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (the public alias is untyped)
STARRED: Final = (ParameterKind.VAR_POSITIONAL, ParameterKind.VAR_KEYWORD)
POSITIONAL: Final = (ParameterKind.POSITIONAL_ONLY, ParameterKind.POSITIONAL_OR_KEYWORD)


def _key_of(parameter: Parameter) -> str:
    for each in metadata_of(parameter.annotation):
        for alias in (getattr(each, "validation_alias", None), getattr(each, "alias", None)):
            if isinstance(alias, str):
                return alias
    name = parameter.name.removesuffix("_")
    return name if iskeyword(name) else parameter.name


@frozen
class Parameter:
    """One parameter of a tool's function."""

    name: str  # as in the function
    # its type, with every name in it resolved; `Any` if it has none; `ToolContext` itself for the context, however it
    # was annotated
    annotation: Any
    default: Any  # `EMPTY`: it is required; `OMITTED`: it is optional, but has no default to pass
    kind: ParameterKind  # as in `inspect.Parameter`
    service: Any = None  # the type of the service that fills it, or `None`
    # makes the default that pydantic's `Field(...)` declares: the function itself doesn't apply it
    make_default: Callable[[], Any] | None = None

    # its name for the model: an `alias` in `Annotated`, else its name, without a trailing `_` (`from_`)
    key: str = field(default=Factory(_key_of, takes_self=True), init=False)


def _visible(signature: Signature) -> tuple[Parameter, ...]:
    return tuple(each for each in signature.parameters if each.service is None and each.annotation is not ToolContext)


@frozen
class Signature:
    """Signature of a tool's function: parameters and return type."""

    # in the function's order; those that a `functools.partial` has bound are left out
    parameters: tuple[Parameter, ...]
    returns: Any  # the resolved return type; `EMPTY` without one
    reserved: frozenset[str] = frozenset()  # names that `**kwargs` can't take: bound and hidden parameters

    # the parameters that the model may fill; the others get services or the context
    visible: tuple[Parameter, ...] = field(default=Factory(_visible, takes_self=True), init=False)


def signature_of(function: Callable[..., Any], *, tool: str, method: bool = False) -> Signature:
    """Reads the signature of any callable except a class; follows wrappers made with `functools.wraps`.

    `method`: the first parameter is an unbound instance or class. Raises `DefinitionError` if it has no readable
    signature, a type can't be resolved, or two parameters take the context.
    """
    try:
        raw = inspect_signature(function)
    except (TypeError, ValueError, NameError) as error:
        hint = "Wrap it in a function with typed parameters."
        raise DefinitionError(f"its signature can't be read ({error})", tool=tool, hint=hint) from None
    if not method and _lacks_instance(function, raw):
        what, hint = "it is a method without its instance, which no model can give.", "Take it from an instance."
        raise DefinitionError(what, tool=tool, parameter=next(iter(raw.parameters), ""), hint=hint)
    _, bound = without_partials(function)
    written = [each for each in raw.parameters.values() if each.name not in bound][method:]  # without self
    if written and hasattr(function, "dispatch") and hasattr(function, "registry"):  # of functools.singledispatch
        written[0] = written[0].replace(kind=ParameterKind.POSITIONAL_ONLY)
    _check_wrappers(function, written, tool, method=method)
    parameters = tuple(_parameter(each, function, tool) for each in written)
    if (returns := raw.return_annotation) is not EMPTY:
        returns = resolve_type(returns, function, tool=tool, parameter="return")
    signature = Signature(parameters, returns)
    if len(contexts := [each.name for each in parameters if each.annotation is ToolContext]) > 1:
        what = "a second parameter takes the context"
        raise DefinitionError(what, tool=tool, parameter=contexts[1], hint="Keep one of them.")
    keys = [each.key for each in signature.visible]
    if twice := next((key for key in keys if keys.count(key) > 1), ""):
        raise DefinitionError("two parameters have this name in JSON", tool=tool, parameter=twice)
    if not written or written[-1].kind is not ParameterKind.VAR_KEYWORD:
        return signature
    every = inspect_signature(innermost(function)).parameters.values()
    reserved = {each.name for each in every if each.kind not in STARRED} - {each.name for each in signature.visible}
    *others, rest = parameters
    return Signature((*others, *_unpack(rest, tool)), signature.returns, frozenset(reserved))


def names_in_docstring(function: Callable[..., Any], parameters: Sequence[Parameter]) -> frozenset[str]:
    """The names that its docstring may describe: of its parameters, also bound ones, and the names for the model."""
    code = getattr(innermost(function), "__code__", None)
    own = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    shown = (each for each in parameters if each.kind is not ParameterKind.VAR_KEYWORD)
    return frozenset((*own, *(name for each in shown for name in (each.name, each.key))))


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class body, and its first parameter is an unbound instance or class."""
    function = inspect.unwrap(function)
    code, scope = getattr(function, "__code__", None), getattr(function, "__qualname__", "").rpartition(".")[0]
    if code is None or not scope or scope.endswith("<locals>"):
        return False
    is_first = code.co_argcount > 0 and code.co_varnames[0] in ("self", "cls")
    return is_first and next(iter(inspect_signature(function).parameters.values())).annotation is EMPTY


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether it has a parameter called `context`."""
    try:
        return "context" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False


def _lacks_instance(function: Any, raw: inspect.Signature) -> bool:
    """Whether the first parameter is still the `self` or `cls` of a method in a class body."""
    first = next(iter(raw.parameters.values()), None)
    if first is None or first.name not in ("self", "cls"):
        return False
    inner = innermost(function)
    is_partial = first.annotation is EMPTY and getattr(inner, "__module__", "") == "functools"  # of partialmethod
    return is_partial or inspect.ismethoddescriptor(inner) or (first.annotation is EMPTY and is_method(inner))


def _check_wrappers(function: Any, written: Sequence[inspect.Parameter], tool: str, *, method: bool) -> None:
    """Raises `DefinitionError` if a wrapper (`functools.wraps`, or a `__signature__`) can't be called as it shows."""
    if inspect.isfunction(function) and not vars(function):
        return
    by_position = any(each.kind in (ParameterKind.POSITIONAL_ONLY, ParameterKind.VAR_POSITIONAL) for each in written)
    args: list[Any] = [None] * method
    kwargs: dict[str, Any] = {}
    for each in written:
        if each.kind is ParameterKind.VAR_POSITIONAL or (by_position and each.kind in POSITIONAL):
            args.append(None)
        else:
            kwargs[each.name] = None
    while True:
        if isinstance(function, functools.partial):
            args, kwargs, function = [*function.args, *args], {**function.keywords, **kwargs}, function.func
        elif inspect.ismethod(function):
            args, function = [None, *args], function.__func__
        elif not {"__wrapped__", "__signature__"} & (own := getattr(function, "__dict__", {})).keys():
            return
        else:
            is_object = not inspect.isfunction(function)  # whose class is a decorator
            code = type(function).__call__ if is_object else function
            if inspect.isfunction(code):
                _check_binds(code, [None, *args] if is_object else args, kwargs, tool)
            if "__signature__" in own:  # what it wraps may have another one
                return
            function = own["__wrapped__"]


def _check_binds(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tool: str) -> None:
    plain = types.FunctionType(function.__code__, {}, None, function.__defaults__, function.__closure__)
    plain.__kwdefaults__ = function.__kwdefaults__
    try:
        inspect.signature(plain).bind(*args, **kwargs)
    except TypeError as error:
        what = f"its wrapper {function.__code__.co_qualname} doesn't take what its signature shows ({error})"
        hint = "Let the wrapper take all of it, or don't use functools.wraps and annotate the wrapper."
        raise DefinitionError(what, tool=tool, hint=hint) from None


def _parameter(written: inspect.Parameter, function: Callable[..., Any], tool: str) -> Parameter:
    annotation = written.annotation
    annotation = Any if annotation is EMPTY else resolve_type(annotation, function, tool=tool, parameter=written.name)
    annotation, default, make_default = read_default(annotation, written.default, written.name, tool)
    service, what, hint = injected_kind(annotation), "", ""
    if _is_context(annotation):
        annotation = ToolContext
    elif _is_context_class(annotation):
        what = "the model would have to fill it: the registry passes only ToolContext itself"
        hint = "Annotate it ToolContext; the request is its `request`."
    elif service is not None and (not is_kind(service) or _is_context_class(service)):
        what = f"a service is found by its class or protocol, and {service} is neither"
        hint = "Write Injected[SomeClass]."
    if not what and written.kind in STARRED and (service or make_default or annotation is ToolContext):
        subject = "a service" if service else "what has a default" if make_default else "the context"
        what, hint = f"{subject} can't be *args or **kwargs.", "Give it a parameter of its own."
    if what:
        raise DefinitionError(what, tool=tool, parameter=written.name, annotation=annotation, hint=hint)
    return Parameter(written.name, annotation, default, written.kind, service, make_default)


def read_default(annotation: Any, default: Any, name: str, tool: str) -> tuple[Any, Any, Callable[[], Any] | None]:
    """The annotation, default and `make_default` of a `Parameter`, also where pydantic's `Field(...)` declares them."""
    try:
        if declared := declaration_of(default):
            if declared != "pydantic.Field":
                raise ValueError(f"its default is {declared}(...), which declares a field of a class")  # noqa: TRY301
            annotation, default = typing.Annotated[annotation, default], EMPTY
        declared, make = default_in(annotation)
    except ValueError as error:
        is_name = "validation_alias" in str(error)
        hint = "Write one name." if is_name else "Write the default itself, or pydantic.Field(...) with it."
        raise DefinitionError(str(error), tool=tool, parameter=name, hint=hint) from None
    if make is None or default is not EMPTY:
        return annotation, default, None
    return annotation, OMITTED if declared is MISSING else declared, make


def _is_context(annotation: Any) -> bool:
    """`ToolContext`, alone, in `Annotated`, or in a union with None."""
    if type(annotation) is type:
        return annotation is ToolContext
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        return _is_context(annotation.__origin__)
    return origin in UNIONS and any(map(_is_context, get_args(annotation)))


def _is_context_class(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, (ReadonlyContext, ToolContext))


def _unpack(rest: Parameter, tool: str) -> Sequence[Parameter]:
    """The parameter `**kwargs`, or the keyword parameters that `**kwargs: Unpack[SomeTypedDict]` stands for."""
    # typing_extensions has its own Unpack in Python 3.11.
    if getattr(get_origin(rest.annotation), "_name", "") != "Unpack":
        return (rest,)
    from pegboard.schema.fields import fields_of

    if (fields := fields_of(get_args(rest.annotation)[0])) is None:
        what = f"its type {rest.annotation} isn't Unpack of a TypedDict"
        raise DefinitionError(what, tool=tool, parameter=rest.name, annotation=rest.annotation)
    parameters: list[Parameter] = []
    for each in fields:
        annotation, default, make = read_default(each.annotation, EMPTY, each.key, tool)
        default = OMITTED if default is EMPTY and not each.required else default
        parameters.append(Parameter(each.key, annotation, default, ParameterKind.KEYWORD_ONLY, make_default=make))
    return parameters


def without_partials(function: Any) -> tuple[Any, set[str]]:
    """The function within partials, and the keywords that these bind: they may be secrets, so they are hidden."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return function, names  # pyright: ignore[reportUnknownVariableType]


_FLAVOURS: Final = (
    ((abc.Awaitable, abc.Coroutine), CallableKind.ASYNC),
    ((abc.AsyncIterator, abc.AsyncGenerator, abc.AsyncIterable), CallableKind.ASYNC_GENERATOR),
    ((abc.Iterator, abc.Generator), CallableKind.GENERATOR),
)
_LISTS: Final = (list, tuple, abc.Sequence, abc.Iterable)
_NONE: Final = type(None)
_READY: Final = (ToolResult, *CONTENT_TYPES)  # a result, or a part of one, already
# types without structured results: text and bytes become content
_UNSTRUCTURED: Final = (EMPTY, Any, object, _NONE, str, bytes, bytearray, typing.NoReturn, typing.Never, *_READY)


def read_return(function: Callable[..., Any], returns: Any) -> tuple[CallableKind, Any]:
    """The flavour of `function`, annotated to return `returns`, and the type of its result.

    The flavour is that of its code, else of its return type: a plain function may return a coroutine. The type is that
    of the awaited value, of a generator's return value, or of the list of its items; `EMPTY` if there is none.
    """
    parts: tuple[Any, ...] = get_args(returns)
    origin = get_origin(returns) or returns
    annotated = next((each for kinds, each in _FLAVOURS if origin in kinds), None)
    flavour = CallableKind.of(function)
    if flavour is CallableKind.PLAIN and annotated is not None:
        flavour = annotated
    if flavour is CallableKind.ASYNC and annotated is CallableKind.ASYNC:
        return flavour, parts[-1] if parts else EMPTY
    if flavour is CallableKind.GENERATOR and len(parts) > 2 and parts[2] not in (None, _NONE):
        return flavour, parts[2]
    if flavour not in (CallableKind.GENERATOR, CallableKind.ASYNC_GENERATOR):
        return flavour, returns
    item = parts[0] if parts else Any  # also `str`: a list of texts is data
    return flavour, EMPTY if item in (Any, object, _NONE) or _is_ready(item) else list[item]


def output_of(annotation: Any, *, tool: str) -> tuple[JsonText | None, bool]:
    """The JSON Schema of the structured result of a type, always an object's; and whether it wraps the value.

    MCP requires an object: a value of any other type is wrapped as `{"result": value}`. Raises `DefinitionError` if the
    type has no JSON Schema.
    """
    if (structured := _part_with_structure(annotation)) is EMPTY:
        return None, False
    from pegboard.schema.adapters import SchemaWriter, root_schema
    from pegboard.schema.types import Property, adapter_of, object_schema

    try:
        schema = root_schema(adapter_of(structured), SchemaWriter(written=True))
        if is_wrapped := schema.get("type") != "object":
            schema = object_schema([Property("result", structured)], written=True)
        return json_text(schema), is_wrapped
    except DefinitionError as error:
        path = ".".join(part for part in ("return", error.parameter) if part)
        hint = "Annotate the type that it really returns, or pass output_schema=None."
        what, part = error.message, error.annotation
        raise DefinitionError(what, tool=tool, parameter=path, annotation=part, hint=hint) from None


def _part_with_structure(annotation: Any) -> Any:
    """The part of a type that is a structured result; `EMPTY` if there is none."""
    origin = get_origin(annotation)
    parts: tuple[Any, ...] = get_args(annotation)
    if annotation is None or annotation in _UNSTRUCTURED or isinstance(annotation, typing.TypeVar):
        return EMPTY
    if origin is typing.Annotated:
        return EMPTY if _part_with_structure(parts[0]) is EMPTY else annotation
    if origin in UNIONS:
        members = [each for each in parts if each not in _READY]
        if all(_part_with_structure(each) is EMPTY for each in members):
            return EMPTY
        return typing.Union[tuple(members)]  # noqa: UP007  (made of a list)
    if origin in _LISTS and any(_is_ready(each) for each in parts):
        return EMPTY
    return annotation


def _is_ready(annotation: Any) -> bool:
    """Whether items of this type are, or may be, content already."""
    members = get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)
    return any(each in _READY for each in members)


def name_of(function: Any) -> str:
    """The name of the function within partials, or of a callable object's class; a lambda has none."""
    function, _ = without_partials(function)
    name = getattr(function, "__name__", None) or snake_case(type(function).__name__)
    if name == "<lambda>":
        raise DefinitionError("a lambda has no name", hint="Pass name=...")
    return name


def snake_case(name: str) -> str:
    """`ReadFile` as `read_file`, `HTTPGet` as `http_get`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def docstring_of(function: Any, names: Collection[str] | None = None) -> Docstring:
    """The docstring of the function within partials; of a callable object, that of `__call__` or its class.

    Its section about parameters describes those with these `names`, if given; its rest is text.
    """
    function, _ = without_partials(function)
    text = function.__doc__
    if not inspect.isroutine(function):
        text = type(function).__call__.__doc__ or text
    return parse_docstring(text, names) if text else Docstring()
