"""The one cattrs converter, and the classes that others know how to make: with hooks in it, or models of their own.

The models of pydantic and msgspec are known by what they have; neither library is imported before one of its classes
is met. JSON Schema validates first, so a model gets only what its own schema takes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from attrs import define, field, frozen

from pegboard.schema.adapters import ALL_KINDS, OBJECTS, Kinds, SchemaWriter, TypeAdapter
from pegboard.schema.problems import StructureError
from pegboard.schema.references import inlined
from pegboard.typing import JsonMapping, JsonSchema

if TYPE_CHECKING:
    from cattrs import Converter

_MOST_SHOWN: Final = 200
_MOST_EXACT: Final = 2**53
_WORDED: Final = (ValueError, TypeError, ArithmeticError, AssertionError, AttributeError)


@cache
def converter() -> Converter:
    """The one cattrs converter: register hooks in it for classes of your own, and write their schema in `Annotated`.

    `Annotated[Money, {"type": "string", "pattern": "^[0-9]+ EUR$"}]` then is a type like others. Register them before
    the first tool with such a class is defined.
    """
    from cattrs import Converter

    return Converter(forbid_extra_keys=True, detailed_validation=False, use_alias=True)


def has_hook(cls: type[Any]) -> bool:
    """Whether a hook that makes `cls` is registered."""
    from cattrs.errors import StructureHandlerNotFoundError

    try:
        converter().get_structure_hook(cls, cache_result=False)
    except StructureHandlerNotFoundError:
        return False
    return True


def is_pydantic(cls: Any) -> bool:
    """Whether a class is a pydantic model."""
    return isinstance(cls, type) and hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_json_schema")


def is_msgspec(cls: Any) -> bool:
    """Whether a class is a msgspec struct."""
    return isinstance(cls, type) and hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_config__")


def model_schema(cls: Any, annotation: Any) -> JsonSchema | None:
    """The schema that a pydantic model or msgspec struct gives for itself; `None` for any other class.

    Args:
        cls: The class.
        annotation: The same, perhaps with arguments.

    Raises:
        Exception: Whatever the model raises, one of whose fields has no schema, say.
    """
    if is_pydantic(cls):
        return inlined(cls.model_json_schema())
    if is_msgspec(cls):
        import msgspec  # is loaded: it has made the class

        return inlined(msgspec.json.schema(annotation))
    return None


def model_writer(cls: type[Any]) -> Callable[[Any], Any] | None:
    """What writes a pydantic model or msgspec struct as JSON data, so that it can be read back; else `None`."""
    if is_pydantic(cls):
        return lambda value: value.model_dump(mode="json", by_alias=True, round_trip=True)
    if is_msgspec(cls):
        import msgspec  # is loaded: it has made the class

        return msgspec.to_builtins
    return None


def foreign_reader(cls: type[Any], annotation: Any) -> Callable[[Any], Any]:
    """What makes an instance of a class of others: a model by itself, any other by its hook in the converter.

    Args:
        cls: The class.
        annotation: The same, perhaps with arguments.

    Returns:
        JSON data -> instance; raises `StructureError`, whatever the model or hook raises.
    """
    read: Callable[[Any], Any]
    if is_pydantic(cls):
        read = cls.model_validate  # pyright: ignore[reportAttributeAccessIssue]
    elif is_msgspec(cls):
        read = partial(_read_struct, annotation)
    else:
        hook = converter().get_structure_hook(cls)
        read = lambda value: hook(value, cls)  # noqa: E731

    def read_foreign(value: Any) -> Any:
        try:
            return read(value)
        except StructureError:
            raise
        except Exception as error:
            raise _refused_by_model(error) or refused_by(cls, error) from error

    return read_foreign


def _read_struct(annotation: Any, value: Any) -> Any:
    from msgspec import ValidationError, convert  # is loaded: it has made the class

    try:
        return convert(value, annotation)
    except ValidationError:  # perhaps of 1.0, which is an integer in JSON Schema
        return convert(_whole(value), annotation)


def _whole(value: Any) -> Any:
    """JSON data with whole numbers as integers, as far as floats are exact."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in cast("Sequence[Any]", value)]
    return int(value) if type(value) is float and value.is_integer() and abs(value) <= _MOST_EXACT else value


def _refused_by_model(error: Exception) -> StructureError | None:
    """The first error of pydantic, with its path, or the text of msgspec's; `None` for the errors of others."""
    module = type(error).__module__.partition(".")[0]
    if module == "msgspec":
        return StructureError(str(error)[:_MOST_SHOWN])
    if module != "pydantic_core" or not callable(errors := getattr(error, "errors", None)):
        return None
    first = cast("Sequence[Mapping[str, Any]]", errors(include_url=False, include_input=False))[0]
    return StructureError(str(first["msg"])[:_MOST_SHOWN], first["loc"])


def refused_by(cls: type, error: Exception) -> StructureError:
    """The error for what `cls` raised when it was made.

    The reason is the exception's own first argument where that is a sentence for a caller, as with `ValueError`;
    of other exceptions, whose texts may show the inside, only the class is named.
    """
    text: object = error.args[0] if error.args and isinstance(error, _WORDED) else ""
    if isinstance(text, str) and text:
        return StructureError(f"{text[:_MOST_SHOWN]}{'...' if len(text) > _MOST_SHOWN else ''}")
    return StructureError(f"{cls.__name__} refuses it ({type(error).__name__})")


@frozen(eq=False)
class ForeignAdapter(TypeAdapter):
    """A class that others know how to make: by hooks of cattrs with a schema beside, or a pydantic or msgspec model.

    Attributes:
        annotation: The class, perhaps with arguments.
        cls: The class.
        given: Its schema.
    """

    annotation: Any
    cls: type[Any]
    given: JsonMapping

    def kinds(self) -> Kinds:
        """Objects, if its schema says so; else any."""
        return OBJECTS if self.given.get("type") == "object" else ALL_KINDS

    def is_hashable(self) -> bool:
        """As the class is."""
        return issubclass(self.cls, Hashable)

    def schema(self, writer: SchemaWriter) -> JsonSchema:
        """As it was given; what it defines beside is named anew among the definitions."""
        definitions: JsonMapping = self.given.get("$defs", {})
        if not definitions:
            return dict(self.given)
        names = {name: writer.reserve(name) for name in definitions}
        written = cast("JsonSchema", _renamed({**self.given, "$defs": {}}, names))
        del written["$defs"]
        writer.definitions.update({names[name]: _renamed(each, names) for name, each in definitions.items()})
        return written


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema whose references lead to definitions of other names."""
    if isinstance(schema, list):
        return [_renamed(each, names) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _renamed(each, names) for key, each in cast("dict[str, Any]", schema).items()}
    name = str(renamed.get("$ref", "")).removeprefix("#/$defs/")
    return {**renamed, "$ref": f"#/$defs/{names[name]}"} if name in names else renamed


# Hooks of type adapters -----------------------------------------------------------------------------------------------

StructureHook: TypeAlias = Callable[[Any, Any], Any]
"""As cattrs has them: JSON data and its type -> value."""

UnstructureHook: TypeAlias = Callable[[Any], Any]
"""As cattrs has them: value -> JSON data."""

_H = TypeVar("_H", StructureHook, UnstructureHook)
_MOST_KNOWN: Final = 4096
_MAKING: Final = RLock()


def same(value: Any, _type: Any = None) -> Any:
    """The hook that does nothing, either way; what is made of nothing else is `same` again."""
    return value


@define
class Hooks(Generic[_H]):
    """The hooks of type adapters in one direction, each made once.

    Attributes:
        makers: By the class of the adapter.
    """

    makers: Mapping[type[TypeAdapter], Callable[[Any], _H]]
    _known: dict[TypeAdapter, _H] = field(factory=dict[TypeAdapter, _H], init=False)
    _late: dict[TypeAdapter, _H] = field(factory=dict[TypeAdapter, _H], init=False)

    def __call__(self, adapter: TypeAdapter) -> _H:
        """The hook of an adapter; of one that is being made, one that looks for it when called."""
        known = self._known.get(adapter)
        if known is not None:
            return known
        with _MAKING:
            known = self._known.get(adapter) or self._late.get(adapter)
            if known is None:
                self._late[adapter] = cast("Any", partial(self._later, adapter))
                try:
                    known = self.makers[type(adapter)](adapter)
                finally:
                    del self._late[adapter]
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[adapter] = known
            return known

    def _later(self, adapter: TypeAdapter, *given: Any) -> Any:
        return cast("Any", self(adapter))(*given)


@frozen
class HookField:
    """A field of a class, as far as cattrs looks at an attribute of attrs: its type is an adapter."""

    name: str
    alias: str
    type: TypeAdapter
    default: Any
    converter: Any = None
    init: bool = True
    kw_only: bool = True


def in_code(cls: Any) -> Any:
    """The class for the code that cattrs makes, in which its name has to be an identifier."""
    if cls.__name__.isidentifier():
        return cls
    stand_in: Any = partial(cls)
    stand_in.__name__ = stand_in.__qualname__ = "record"
    return stand_in


def type_variables(cls: Any) -> dict[str, Any]:
    """The type variables of a class, for cattrs, which asks for them; the adapters have them in already."""
    return {each.__name__: Any for each in getattr(cls, "__parameters__", ())}
