"""`TypedTool`: a tool as a class, its input and its output as types."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar, get_args, get_origin

from attrs import define, field

from pegboard.errors import DefinitionError
from pegboard.schema.docstrings import parse_docstring
from pegboard.schema.json import JsonText, json_text
from pegboard.schema.problems import StructureError, problem
from pegboard.tools.context import ToolContext
from pegboard.tools.definition import checked_schema, handler_of, made_tool, snake_case
from pegboard.tools.handler import Binder, Flavour
from pegboard.tools.options import CommonOptions, checked_options
from pegboard.tools.output import Returned
from pegboard.tools.scope import Scope, lenient
from pegboard.tools.spec import NO_INPUT
from pegboard.tools.tool import Tool
from pegboard.typing import JsonSchema

Input = TypeVar("Input")
Output = TypeVar("Output")

_ON_INPUT: Final[Mapping[str, Callable[[StructureError], Any]]] = {
    "preview": lambda _error: None,
    "check": lambda error: (problem(error.path, error.reason),),
    "requires_confirmation": lambda _error: True,
}
"""What gets the input as `call` does, where it is a method, and what stands for its answer where there is none."""

_NONE: Final = type(None)


class TypedTool(Generic[Input, Output]):
    """A tool as a class: subclass it with the types of its input and output, and write `call`.

        class Weather(TypedTool[Place, Forecast]):
            "Tell tomorrow's weather."

            read_only = True

            async def call(self, context: ToolContext, place: Place) -> Forecast: ...

    The fields of the input (an attrs class, a dataclass, a TypedDict) are the arguments; any other type is the one
    argument, named as the parameter of `call`. All of `CommonOptions` and an `input_schema` may stand as class
    attributes; `preview(self, input)`, `check(self, input)` and `requires_confirmation(self, input)` as methods,
    which get the input as `call` does.

    Attributes:
        name: By default the class's name in snake case.
        description: By default what the class's docstring says before its sections.
    """

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""

    def call(
        self,
        context: ToolContext,
        input: Input,  # noqa: A002  (the word that the class is made of)
        /,
    ) -> Output | Awaitable[Output] | Iterator[Any] | AsyncIterator[Any]:
        """Runs the tool: plain, async, or a generator whose items are partial results."""
        raise NotImplementedError

    def as_tool(self) -> Tool:
        """The tool that runs this instance.

        Raises:
            DefinitionError: The types are missing, or something can't be expressed.
            SchemaError: An own schema is refused.
            InvalidNameError: The name isn't one that every provider takes.
        """
        name = self.name or snake_case(type(self).__name__)
        scope = Scope(self.call, name)
        takes, gives = (scope.resolve(each, "input") for each in _types(type(self), name))
        taking, input_schema = _taking(self, takes, name)
        options = checked_options(_options(self, taking), tool=name)
        returned = Returned(Flavour.of(self.call), gives)
        handler, output_schema = handler_of(self.call, returned, taking.make_binder, options=options, tool=name)
        facts = {
            "name": name,
            "description": parse_docstring(_written(type(self)).get("__doc__", "")).description,
            "input_schema": input_schema,
            "output_schema": output_schema,
        }
        return made_tool(facts, handler, options)


def is_typed_class(thing: object) -> bool:
    """Whether `thing` is a subclass of `TypedTool`, not an instance."""
    return isinstance(thing, type) and issubclass(thing, TypedTool)


@define(eq=False)
class _Taking:
    """How arguments become the input.

    Attributes:
        annotation: The type of the input.
        argument: The name of the one argument; `None` where the arguments are the input's fields.
        strict: Whether the type judges too, because the schema is another than its own.
    """

    annotation: Any
    argument: str | None
    strict: bool
    _structure: Callable[[Any], Any] | None = field(default=None, init=False)

    def structured(self, arguments: Mapping[str, Any]) -> Any:
        """The input that judged arguments make.

        Raises:
            StructureError: They don't fit the type after all.
        """
        if self._structure is None:
            self._structure = self._made()
        if self.argument is None:
            return self._structure(arguments)
        if self.argument not in arguments:
            raise StructureError("required, missing", (self.argument,))
        try:
            return self._structure(arguments[self.argument])
        except StructureError as error:
            raise error.below(self.argument) from None

    def _made(self) -> Callable[[Any], Any]:
        from pegboard.schema.structure import strict_structurer, structurer

        if self.annotation is _NONE:
            return lambda _: None
        structure = strict_structurer(self.annotation) if self.strict else structurer(self.annotation)
        return structure or (lambda value: value)

    def make_binder(self) -> Binder:
        """The way from arguments to `call(context, input)`."""
        return lambda context, arguments: ((context, self.structured(arguments)), {})

    def given_to(
        self, method: Callable[[Any], Any], otherwise: Callable[[StructureError], Any]
    ) -> Callable[[Mapping[str, Any]], Any]:
        """A method on the input as a function of the arguments; `otherwise` answers where they make no input."""

        def given(arguments: Mapping[str, Any]) -> Any:
            try:
                structured = self.structured(arguments)
            except StructureError as error:
                return otherwise(error)
            return method(structured)

        return given


def _taking(tool: TypedTool[Any, Any], takes: Any, name: str) -> tuple[_Taking, JsonText]:
    """How the arguments become the input, and their schema: the tool's own, else what the type gives."""
    from pegboard.schema.types import Property, object_schema, schema_of

    parameter = _parameter(tool, name)
    own: JsonSchema | None = getattr(tool, "input_schema", None)
    argument = None
    if takes is None or takes is _NONE:
        takes, schema = _NONE, json.loads(NO_INPUT)
    elif (schema := schema_of(takes, tool=name)).get("type") != "object":
        argument, schema = parameter, object_schema([Property(parameter, takes)], tool=name)
    text = json_text(schema) if own is None else checked_schema(own, name, "input_schema")
    return _Taking(takes, argument, strict=own is not None), text


def _parameter(tool: TypedTool[Any, Any], name: str) -> str:
    """What `call` names its input."""
    parameters = list(inspect.signature(tool.call, **lenient()).parameters)
    if len(parameters) != 2 or "call" not in _written(type(tool)):
        hint = "Write call(self, context, input)."
        raise DefinitionError("it has no call that takes a context and an input.", tool=name, hint=hint)
    return parameters[1]


def _options(tool: TypedTool[Any, Any], taking: _Taking) -> dict[str, Any]:
    """The options that stand as attributes and methods."""
    found: dict[str, Any] = {}
    for name in CommonOptions.__optional_keys__:
        value = getattr(tool, name, "")
        if name in _ON_INPUT and callable(value):
            found[name] = taking.given_to(value, _ON_INPUT[name])
        elif value != "":
            found[name] = value
    return found


def _written(cls: type) -> Mapping[str, Any]:
    """What stands in a class and its bases below `TypedTool`, the nearest first, save for empty docstrings."""
    below = reversed(cls.__mro__[: cls.__mro__.index(TypedTool)])
    return {name: value for base in below for name, value in vars(base).items() if (name, value) != ("__doc__", None)}


def _types(cls: type[TypedTool[Any, Any]], tool: str) -> tuple[Any, Any]:
    """The input and output types of a class, through any generic classes between.

    Raises:
        DefinitionError: They aren't given.
    """
    found = _arguments(cls)
    if found is None or any(getattr(each, "__parameters__", ()) or isinstance(each, TypeVar) for each in found):
        hint = f"Write class {cls.__name__}(TypedTool[SomeInput, SomeOutput])."
        raise DefinitionError("its input and output types aren't given.", tool=tool, hint=hint)
    return found


def _arguments(cls: Any) -> tuple[Any, Any] | None:
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin: Any = get_origin(base) or base
        if origin is TypedTool:
            return get_args(base) or None
        if is_typed_class(origin) and (inner := _arguments(origin)):
            given: dict[Any, Any] = dict(zip(origin.__parameters__, get_args(base), strict=False))
            return _substituted(inner[0], given), _substituted(inner[1], given)
    return None


def _substituted(annotation: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return given.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) or not parameters:
        return annotation
    return annotation[tuple(given.get(each, each) for each in parameters)]
