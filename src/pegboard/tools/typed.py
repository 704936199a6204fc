"""`TypedTool`, a tool as a class; the tools of objects and modules."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any, ClassVar, Final, Generic, TypeVar, Unpack

from pegboard.callbacks import CallableKind
from pegboard.errors import DefinitionError, did_you_mean, suggest
from pegboard.json import JsonText, StructureError, problem
from pegboard.schema.docstrings import parse_docstring
from pegboard.schema.fields import bindings_of
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.handler import Binder, Handler, binder_of, input_schema_of, schema_as_text
from pegboard.tools.options import CommonOptions, check_options
from pegboard.tools.signature import Parameter, Signature, inspect_signature, read_default, resolve_type, snake_case
from pegboard.tools.spec import NO_INPUT
from pegboard.tools.tool import ATTRIBUTE, Method, Tool, check_schemas, make_tool, with_function
from pegboard.typing import JsonSchema

Input = TypeVar("Input")
Output = TypeVar("Output")

# Options that may be methods that take the input, and what they give for arguments that can't be structured; so may
# `check`, which gives the problem
_ON_INPUT: Final[Mapping[str, Any]] = {
    "preview": None,
    "requires_confirmation": True,
    "read_only": False,
    "destructive": True,
    "concurrency": "exclusive",
}
_EMPTY: Final = inspect.Parameter.empty
_NEAR: Final = 0.85  # of 1; a misspelt option is at least as near: `read_onyl`, `readonly`, `preveiw`


class TypedTool(Generic[Input, Output]):
    """A tool as a class: subclass it with the types of its input and output, and write `call`.

        class Weather(TypedTool[Place, Forecast]):
            "Tell tomorrow's weather."

            read_only = True

            async def call(self, context: ToolContext, place: Place) -> Forecast: ...

    The fields of the input (an attrs class, a dataclass, a TypedDict) are the arguments; any other type is a single
    argument, named as the parameter of `call`. Class attributes set the `CommonOptions` and an `input_schema`;
    `preview(self, input)`, `check(self, input)` and `requires_confirmation(self, input)` can be methods, which get the
    same input as `call`.

    Attributes:
        name: By default the class's name in snake case.
        description: By default the class's docstring up to its sections.
    """

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""

    def call(
        self,
        context: ToolContext,
        input: Input,  # noqa: A002  (as the class's type variable)
        /,
    ) -> Output | Awaitable[Output] | Iterator[Any] | AsyncIterator[Any]:
        """Runs the tool: plain, async, or a generator whose items are partial results."""
        raise NotImplementedError

    def as_tool(self, **options: Unpack[CommonOptions]) -> Tool:
        """The tool that runs this instance.

        Args:
            options: As `@tool` takes them; they override those of the class.

        Raises:
            DefinitionError: The types are missing, or a type or option is invalid.
            SchemaError: The class's own schema is invalid.
            InvalidNameError: The name isn't accepted by every provider.
        """
        name = self.name or snake_case(type(self).__name__)
        takes, gives = (resolve_type(one, self.call, tool=name, parameter="input") for one in _types(type(self), name))
        make_binder, input_schema = _read_input(self, takes, name)
        _check_names(type(self), name)
        given = check_options({**_options(self, make_binder), **options}, tool=name)
        bases = type(self).__mro__
        documented = (base.__doc__ for base in bases[: bases.index(TypedTool)] if base.__doc__ is not None)
        description = parse_docstring(next(documented, "")).description
        facts = {"name": name, "description": description, "input_schema": input_schema}
        return make_tool(facts, given, partial(Handler, self.call, make_binder, CallableKind.of(self.call)), gives)


def _is_typed_class(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, TypedTool)


def _read_input(tool: TypedTool[Any, Any], takes: Any, name: str) -> tuple[Callable[[], Binder], JsonText]:
    """The factory of the binder for `call`, which makes it once, and the input schema: its own, or the type's."""
    from pegboard.schema.types import schema_of

    parameters = list(inspect_signature(tool.call).parameters)
    if len(parameters) != 2 or type(tool).call is vars(TypedTool)["call"]:
        hint = "Write call(self, context, input)."
        raise DefinitionError("it has no method `call` that takes a context and an input", tool=name, hint=hint)
    own: JsonSchema | None = getattr(tool, "input_schema", None)
    if takes in (None, type(None)):
        text = NO_INPUT if own is None else schema_as_text(own, name, "input_schema")
        return (lambda: lambda context, _: ((context, None), {})), text
    if read_default(takes, _EMPTY, parameters[1], name)[2] is not None:
        hint = "Remove it, or give it to a field of a class."
        raise DefinitionError("its input can't have a default", tool=name, parameter=parameters[1], hint=hint)
    kind = inspect.Parameter.POSITIONAL_ONLY
    context, one = Parameter(parameters[0], ToolContext, _EMPTY, kind), Parameter(parameters[1], takes, _EMPTY, kind)
    of_fields = schema_of(takes, tool=name).get("type") == "object"
    text = input_schema_of({"input_schema": own}, [one], {}, name, of_fields=of_fields)
    signature = Signature((context, one), _EMPTY)
    return cache(partial(binder_of, signature, strict=own is not None, of_fields=of_fields)), text


def _pass_input_to(method: Callable[..., Any], name: str, make_binder: Callable[[], Binder]) -> Callable[..., Any]:
    """An option as a function of the arguments, which passes them to the method, structured."""
    with_context = "context" in inspect_signature(method).parameters

    def call_method(arguments: Mapping[str, Any], context: ReadonlyContext | None = None) -> Any:
        try:
            (_, structured), _ = make_binder()(ToolContext(), arguments)
        except StructureError as error:
            return (problem(error.path, error.reason),) if name == "check" else _ON_INPUT[name]
        return method(structured, context=context) if with_context else method(structured)

    return call_method


def _check_names(cls: type, tool: str) -> None:
    """Refuses an attribute whose name is nearly an option's, as it would have no effect."""
    known = CommonOptions.__optional_keys__ | {"input_schema"}
    below = [base for base in cls.__mro__ if _is_typed_class(base) and base is not TypedTool]
    for name in sorted({name for base in below for name in vars(base)} - known - vars(TypedTool).keys()):
        if not name.startswith("_") and (near := suggest(name, known, cutoff=_NEAR)):
            hint = "Correct it, or give an attribute of your own another name."
            raise DefinitionError(f"unknown option {name!r}.{did_you_mean(near)}", tool=tool, hint=hint)


def _options(tool: TypedTool[Any, Any], make_binder: Callable[[], Binder]) -> dict[str, Any]:
    """The options set by attributes and methods."""
    options: dict[str, Any] = {}
    for name in CommonOptions.__optional_keys__:
        value = getattr(tool, name, "")
        if callable(value) and (name in _ON_INPUT or name == "check"):
            options[name] = _pass_input_to(value, name, make_binder)
        elif value != "":
            options[name] = value
    return options


def _types(cls: type[TypedTool[Any, Any]], tool: str) -> Sequence[Any]:
    """The input and output types of a class, perhaps by generic classes in between."""
    base: Any = TypedTool
    types = (*bindings_of(cls)[base].values(),)
    if not types or base[types].__parameters__:
        hint = f"Write class {cls.__name__}(TypedTool[SomeInput, SomeOutput])."
        raise DefinitionError("its input and output types aren't given", tool=tool, hint=hint)
    return types


def tool_of(thing: object) -> Tool | None:
    """The tool that `thing` is or has; `None` if there is none.

    Args:
        thing: A `Tool`, a decorated function, the method of an instance (whose tool then runs on that instance),
            or an instance of `TypedTool`.

    Raises:
        DefinitionError: A decorated method without an instance.
    """
    if isinstance(thing, Tool):
        return thing
    if isinstance(thing, TypedTool):
        return thing.as_tool()
    if (carried := _tool_on(thing)) is None:
        return None
    if isinstance(carried, Method):
        if not inspect.ismethod(thing):
            hint = "Take it from an instance: tool_of(instance.method)."
            raise DefinitionError("it is a method and has no instance", tool=carried.tool.name, hint=hint)
        return carried.bind(thing, thing.__self__)
    if inspect.ismethod(thing):
        hint = "Name it so; then the tool can tell the instance from its arguments."
        raise DefinitionError("the first parameter of a method must be self or cls", tool=carried.name, hint=hint)
    assert isinstance(carried.handler, Handler)
    # A decorator above @tool that uses functools.wraps carries the tool too: what it made is what runs.
    return carried if carried.handler.function is thing else with_function(carried, thing)  # pyright: ignore[reportArgumentType]


def _tools_of(owner: object) -> list[Tool]:
    """The tools of all decorated methods of an object, or of the decorated functions and tools of a module.

    In the order of definition, methods of base classes first; a method that a subclass overrides without decorating it
    isn't a tool. Functions that a module imports are left out.
    """
    if isinstance(owner, ModuleType):
        things = [each for each in list(vars(owner).values()) if _is_of_module(each, owner)]
    else:
        cls = owner if isinstance(owner, type) else type(owner)
        names = {name: None for base in reversed(cls.__mro__) for name in vars(base)}
        things = [getattr(owner, name) for name in names if _tool_on(inspect.getattr_static(cls, name, None))]
    return list(dict.fromkeys(filter(None, map(tool_of, things))))


def _is_of_module(thing: Any, module: ModuleType) -> bool:
    is_function = isinstance(_tool_on(thing), Tool) and f"{thing.__module__}.".startswith(f"{module.__name__}.")
    return is_function or isinstance(thing, Tool)


def tools_from(thing: Any, *, foreign: bool = False) -> list[Tool]:
    """The tools of any registrable object, at least one.

    Args:
        thing: A `Tool`; a function, decorated or not; a callable; a `TypedTool` (instance, or a class that is made
            without arguments); a module or an object with decorated functions or methods.
        foreign: Whether it isn't the host's own, so that patterns that no engine can run are skipped.

    Raises:
        DefinitionError: It is none of these, or its definition is invalid.
        SchemaError: A tool made by hand has a schema that is invalid, or whose cost is unbounded.
        InvalidNameError: A name isn't accepted by every provider.
    """
    if isinstance(thing, Tool):
        check_schemas(thing, foreign=foreign)  # a spec made by hand wasn't checked before
        return [thing]
    if _is_typed_class(thing):
        try:
            thing = thing()
        except TypeError as error:
            hint = "Register an instance."
            raise DefinitionError(f"{thing.__name__} can't be made without arguments ({error})", hint=hint) from None
    if (one := tool_of(thing)) is not None:
        return [one]
    if not inspect.isroutine(thing) and (tools := _tools_of(thing)):
        return tools
    if callable(thing):
        return [Tool.from_function(thing)]
    hint = "Decorate its functions or methods with @tool."
    raise DefinitionError(f"{thing!r:.100} isn't a tool and contains none", hint=hint)


def _tool_on(thing: object) -> Tool | Method | None:
    """The tool that `@tool` stored on a function, or on the function of a static or class method."""
    function: Any = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not callable(function) or isinstance(function, type):
        return None
    carried: Any = getattr(function, ATTRIBUTE, None)
    return carried if isinstance(carried, Tool | Method) else None
