"""The cattrs converter of tools' types, with users' hooks; and strict readers of pegboard's own values.

Models of pydantic and msgspec are recognised by their attributes, so neither library is imported unless one of its
classes is used. JSON Schema validates first, so a model gets only what its own schema accepts.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar, cast

import attrs

from pegboard.errors import check_keys
from pegboard.json import StructureError, json_text, path_text, short_json, unicode_text, whole_numbers
from pegboard.typing import JsonObject, JsonSchema, frozen

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
_MOST_SHOWN: Final = 200
_WITH_MESSAGE: Final = (ValueError, TypeError, ArithmeticError, AssertionError, AttributeError)


@cache
def converter() -> Converter:
    """The cattrs converter of tools' types: register hooks for your own classes, and give their schema in `Annotated`.

    Then `Annotated[Money, {"type": "string", "pattern": "^[0-9]+ EUR$"}]` is a type like any other. Register the hooks
    before the first tool with such a class is defined.
    """
    from cattrs import Converter
    from cattrs.fns import identity

    class MarkingConverter(Converter):
        """Converter that marks the hooks that it generates from a class's fields, and generates none to unstructure."""

        def gen_structure_attrs_fromdict(self, cl: type[Any]) -> Any:
            hook: Any = super().gen_structure_attrs_fromdict(cl)
            hook.is_made_of_fields = True
            return hook

        def gen_unstructure_attrs_fromdict(self, cl: type[Any]) -> Any:  # noqa: ARG002  (as cattrs has it)
            return identity

    return MarkingConverter(forbid_extra_keys=True, detailed_validation=False, use_alias=True)


def has_hook(cls: Any) -> bool:
    """Whether a structure hook was registered for a class or `NewType`; those that cattrs makes itself don't count."""
    hook = _hook_of(cls)
    if isinstance(cls, typing.NewType):
        another = typing.NewType("another", cls.__supertype__)  # pyright: ignore[reportGeneralTypeIssues]  (a value)
        return hook is not None and hook != _hook_of(another)
    return hook is not None and not hasattr(hook, "is_made_of_fields")


def _hook_of(cls: Any) -> Any:
    """The structure hook of a class or `NewType`; `None` without one, or while no hook has been registered."""
    if not converter.cache_info().currsize:
        return None
    try:
        return converter().get_structure_hook(cls, cache_result=False)
    except Exception:  # noqa: BLE001  (it has none, or the class's annotations raise anything when resolved)
        return None


def is_pydantic(cls: Any) -> bool:
    """Whether a class is a pydantic model or dataclass; not a plain subclass of such a dataclass."""
    return isinstance(cls, type) and "__pydantic_validator__" in vars(cls)


def is_msgspec(cls: Any) -> bool:
    """Whether a class is a msgspec struct."""
    return isinstance(cls, type) and hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_config__")


def model_schema(cls: Any, annotation: Any, *, written: bool) -> JsonSchema | None:
    """The schema of a pydantic model or msgspec struct by its own library; `None` for any other class.

    `written`: for output, which may have other keys and types than the input.

    Raises:
        Exception: Any exception of the library, such as for a field without a schema.
    """
    from pegboard.schema.references import inline, without_misfits

    if is_pydantic(cls):
        mode = "serialization" if written else "validation"
        write = getattr(cls, "model_json_schema", None) or _pydantic_adapter(annotation).json_schema
        schema = without_misfits(inline(write(mode=mode, schema_generator=_schema_generator())))
        # Keys that it would ignore, or read as another field's (`validation_alias`), are refused as everywhere.
        config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", {})  # or of a dataclass
        is_open = written or "extra" in config or schema.get("type") != "object"
        return schema if is_open else {"additionalProperties": False, **schema}
    if is_msgspec(cls):
        import msgspec  # already loaded, as it made the class

        if cls is msgspec.Struct:
            raise TypeError("Struct itself has no fields; name a subclass")
        return without_misfits(_without_sentinels(inline(msgspec.json.schema(annotation)), annotation))
    return None


def _without_sentinels(schema: JsonSchema, annotation: Any) -> JsonSchema:
    """A struct's schema without defaults that mark a missing value: members of an enum, in fields of another type."""
    from pegboard.schema.references import schemas

    for cls in {cls for _, part in model_parts(annotation) if is_msgspec(cls := typing.get_origin(part) or part)}:
        keys = dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        sentinels = {keys[name] for name, default in model_defaults(cls) if _is_sentinel(default)}
        for each in list(schemas(schema)) if sentinels else ():
            if str(each.get("title", "")).partition("[")[0] == cls.__name__:
                for key, written in each.get("properties", {}).items():
                    if key in sentinels and "type" in written:
                        written.pop("default", None)
    return schema


def model_parts(annotation: Any, model: Any = None, seen: set[Any] | None = None) -> Iterator[tuple[Any, Any]]:
    """A type and its parts, and those of the fields of models in it, each with the model of the field, or `None`."""
    seen = set() if seen is None else seen
    yield model, annotation
    for each in typing.get_args(annotation):
        yield from model_parts(each, model, seen)
    cls: Any = typing.get_origin(annotation) or annotation
    fields: list[Any] = []
    if is_pydantic(cls) and cls not in seen:
        given = getattr(cls, "__pydantic_fields__", {}).values()
        fields = [Annotated[(each.annotation, *each.metadata)] if each.metadata else each.annotation for each in given]
    elif is_msgspec(cls) and cls not in seen:
        from pegboard.schema.fields import resolved_hints

        fields = list(resolved_hints(cls).values())
    seen |= {cls} if fields else set()
    for each in fields:
        yield from model_parts(each, cls, seen)


def _is_sentinel(default: object) -> bool:
    """Whether a default is the member of an enum that isn't a text or number, as those that mark a missing value."""
    return isinstance(default, Enum) and not isinstance(default, str | int | float)


def model_defaults(cls: Any) -> Iterator[tuple[str, Any]]:
    """The defaults of a model's fields that were given as values, by name; none for any other class."""
    if is_pydantic(cls):
        for name, each in getattr(cls, "__pydantic_fields__", {}).items():
            yield name, each.default
    elif is_msgspec(cls):
        yield from zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False)


def _pydantic_adapter(annotation: Any) -> Any:
    from pydantic import TypeAdapter  # already loaded, as a rule: it made the class or the validator

    return TypeAdapter(annotation)


@cache
def _schema_generator() -> type[Any]:
    from pydantic.json_schema import GenerateJsonSchema  # already loaded, as it made the class

    class SchemaGenerator(GenerateJsonSchema):
        """Pydantic's generator, but a serializer without a return annotation may write anything.

        Integer keys have one spelling, so that no two are the same integer. The member of an enum is no default of
        another type.
        """

        def dict_schema(self, schema: Any) -> Any:
            written = super().dict_schema(schema)
            is_of_integers = self.mode == "validation" and schema.get("keys_schema", {}).get("type") == "int"
            return {**written, "propertyNames": {"pattern": "^(0|-?[1-9][0-9]*)$"}} if is_of_integers else written

        def default_schema(self, schema: Any) -> Any:
            written, default = super().default_schema(schema), schema.get("default")
            marks = _is_sentinel(default) and "type" in written
            return {k: v for k, v in written.items() if k != "default"} if marks else written

        def ser_schema(self, schema: Any) -> Any:
            is_of_pydantic = str(getattr(schema.get("function"), "__module__", "")).startswith("pydantic.")
            found = super().ser_schema(schema)
            return {} if found is None and "function" in schema and not is_of_pydantic else found

    return SchemaGenerator


def foreign_writer(cls: type[Any]) -> Callable[[Any], Any] | None:
    """The serializer of a model, or the unstructure hook registered for a class; else `None`."""
    if is_pydantic(cls):
        return lambda value: value.__pydantic_serializer__.to_python(value, mode="json", by_alias=True)
    if is_msgspec(cls):
        import msgspec  # already loaded, as it made the class

        return msgspec.to_builtins
    if not converter.cache_info().currsize:
        return None
    from cattrs.fns import identity  # already loaded, as the converter exists

    hook = converter().get_unstructure_hook(cls)
    return None if hook is identity else hook


def foreign_reader(cls: type[Any], annotation: Any) -> Callable[[Any], Any]:
    """What makes an instance of JSON data, by a model or a structure hook; each exception is a `StructureError`."""
    if is_pydantic(cls):
        return reporting(partial(_read_model, _pydantic_adapter(annotation)), cls.__name__)
    if is_msgspec(cls):
        return reporting(partial(_read_struct, annotation), cls.__name__)
    hook = converter().get_structure_hook(cls)
    read: Callable[[Any], Any] = lambda value: hook(value, cls)  # noqa: E731
    return reporting(read, cls.__name__)


def reporting(read: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`read`, with each exception that isn't a `StructureError` made one; `name` is the type's."""

    def read_foreign(*data: Any) -> Any:
        try:
            return read(*data)
        except StructureError:
            raise
        except Exception as error:
            raise constructor_error(name, error) from error

    return read_foreign


def pydantic_reader(annotation: Any, *, structured: bool) -> Callable[[Any, Any], Any]:
    """The `read` of a `ReaderAdapter` by pydantic, from the JSON data or the structured value.

    Raises:
        ImportError: pydantic isn't installed.
        Exception: Any exception of pydantic, which doesn't know the type.
    """
    adapter = _pydantic_adapter(annotation)
    return lambda value, made: adapter.validate_python(made) if structured else _read_model(adapter, value)


def _read_model(adapter: Any, value: Any) -> Any:
    from pydantic import ValidationError  # already loaded, as it made the class

    try:
        return adapter.validate_python(value)
    except ValidationError:  # perhaps for a strict field, which takes a date as text only from JSON
        return adapter.validate_json(json_text(whole_numbers(value)))


def _read_struct(annotation: Any, value: Any) -> Any:
    from msgspec import ValidationError, convert  # already loaded, as it made the class

    try:
        return convert(value, annotation, str_keys=True)
    except ValidationError:  # perhaps for 1.0, which is an integer in JSON Schema
        return convert(whole_numbers(value), annotation, str_keys=True)


def constructor_error(name: str, error: Exception) -> StructureError:
    """The error for an exception that the constructor of the class `name` raised.

    The reason is the exception's first argument where that is a message for the caller, as with `ValueError`; other
    exceptions, whose messages may show internals, are named by class only. Of pydantic's errors, the first is used.
    """
    module, path = type(error).__module__.partition(".")[0], ()
    text: object = ""
    if module == "pydantic_core" and callable(errors := getattr(error, "errors", None)):
        first = cast("Sequence[Mapping[str, Any]]", errors(include_url=False, include_input=False))[0]
        text, path = first["msg"], first["loc"]
    elif error.args and (module == "msgspec" or isinstance(error, _WITH_MESSAGE)):
        text = error.args[0]
    if isinstance(text, str) and text:
        return StructureError(f"{text[:_MOST_SHOWN]}{'...' if len(text) > _MOST_SHOWN else ''}", path)
    return StructureError(f"{name} refused the value ({type(error).__name__})")


# Our own values as JSON data, which isn't trusted: a field's key is `json_key(...)` in its metadata, else its name, in
# camelCase for a `JsonRecord`. A missing or null value takes the default, other keys are ignored, nothing is coerced.


@frozen
class Allowed:
    """Metadata in `Annotated`: restricts a field to some values of its type.

    Attributes:
        wanted: A description for errors, such as `"a number of seconds above 0"`.
        fits: Whether a value, already of the type, is allowed.
    """

    wanted: str
    fits: Callable[[Any], bool]


Count: TypeAlias = Annotated[int, Allowed("0 or above", lambda number: number >= 0)]
"""A whole number, 0 or above."""

_KEY: Final = "pegboard_json"
_ALWAYS: Final = "pegboard_always"
ALWAYS: Final[Mapping[str, bool]] = {_ALWAYS: True}
"""Metadata for a field that is written even if it is empty."""

_WANTED: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    dict: "an object",
}


class UnreadError(ValueError):
    """Data that can't be read. The message follows the path: `.name: missing`, `: must be a string`."""


def json_key(key: str) -> dict[str, str]:
    """Metadata for a field whose key in JSON isn't its name; `""` excludes the field from JSON."""
    return {_KEY: key}


class JsonRecord:
    """Base of pegboard's own values that hosts, files and other processes exchange as JSON, with one convention.

    The keys are the attributes' names in camelCase, after the `type` of a class that has one. Empty values (`None`,
    `False`, an empty list or object) are left out. Names in snake_case are read as well: 0.1 wrote them.
    """

    __slots__ = ()

    def to_json(self) -> JsonObject:
        """Its attributes by name in camelCase, after its `type` if it has one; empty values are left out."""
        kind = type(self)
        data: JsonObject = {"type": self.type} if hasattr(kind, "type") else {}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  a ClassVar
        for name, key, default, always in _written_fields(kind):
            value = getattr(self, name)
            # A text, a number and true are written even if they are the default: a reader needn't know that.
            is_said = value != default or (isinstance(value, str | int | float) and value is not False)
            if always or (is_said and value is not None):
                data[key] = _write(value, self.write_data)
        return data

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Reads what `to_json` writes, from an untrusted source; other keys are ignored.

        Raises:
            ValueError: Something is missing or of the wrong type; the message has its path.
        """
        return read_record(cls, data, re.findall("[A-Z][a-z]*", cls.__name__)[-1].lower())

    def evolve(self, **changes: Any) -> Self:
        """A copy with some attributes changed."""
        return attrs.evolve(self, **changes)

    def to_part(self) -> JsonObject:
        """Its JSON data within another value."""
        return self.to_json()

    @staticmethod
    def write_data(value: Any) -> Any:
        """The JSON data of a value that isn't of pegboard's own classes: unchanged, as it came as JSON data."""
        return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


def _write(value: Any, write_data: Callable[[Any], Any]) -> Any:
    if isinstance(value, str):
        return unicode_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        from pegboard.schema.text_types import write_base64

        return write_base64(value)
    if isinstance(value, tuple):
        return [_write(each, write_data) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, JsonRecord):
        return value.to_part()
    return value.to_json() if hasattr(value, "to_json") else write_data(value)


@cache
def _written_fields(cls: type[Any]) -> list[tuple[str, str, Any, bool]]:
    """The fields that are written: name, key, default, and whether always."""
    fields: list[tuple[str, str, Any, bool]] = []
    for each in attrs.fields(cls):
        if key := json_name(cls, each):
            default = each.default
            default = default.factory() if isinstance(default, attrs.Factory) else default  # pyright: ignore[reportArgumentType, reportUnknownMemberType, reportUnknownVariableType]  a class
            fields.append((each.name, key, default, _ALWAYS in each.metadata))
    return fields


def known_keys(cls: type[Any]) -> frozenset[str]:
    """The keys that a record is read from, including those of older versions."""
    return frozenset(key for each in attrs.fields(cls) if (own := json_name(cls, each)) for key in (own, each.name))


def json_name(cls: type[Any], each: attrs.Attribute[Any]) -> str:
    """The key of a field in JSON; `""` where it has none."""
    own: str | None = each.metadata.get(_KEY)
    if own is not None or not issubclass(cls, JsonRecord):
        return each.name if own is None else own
    first, *others = each.name.split("_")
    return first + "".join(map(str.title, others))


def read_record(cls: type[T], data: object, what: str) -> T:
    """A value of one of pegboard's own attrs classes; `what` names the whole in errors.

    It is read by its fields, even if `read_by` has registered another reader for the class, which may use this one.

    Raises:
        ValueError: The data is wrong, as `"path: reason"`.
    """
    try:
        return _read_fields(data, cls) if attrs.has(cls) else _reader(cls)(data)
    except Exception as error:  # noqa: BLE001  (readers and constructors may raise anything)
        text = _text_after_path(error)
        raise ValueError(f"{what if text[0] == ':' else ''}{text}".lstrip(".")) from None


def read_table(cls: type[T], table: object, place: str) -> T:
    """A table of settings as a value of an attrs class, read strictly: an unknown key is an error.

    Args:
        cls: The class. `Allowed` restricts the types of its fields, and `json_key` gives another key.
        table: The table as parsed from the file.
        place: Its path in the file, for errors, such as `plugins.files`.

    Raises:
        ValueError: It isn't a table, a key is unknown or missing, or a value isn't allowed: `"place.key: reason"`.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{place}: must be a table, got {type(table).__name__}".lstrip(": "))  # noqa: TRY004  as below
    given = cast("Mapping[str, Any]", table)
    keys = [key for each in attrs.fields(cast("Any", cls)) if each.init and (key := json_name(cls, each))]
    check_keys(given, keys, place)
    try:
        return read_record(cls, given, "")
    except ValueError as error:
        raise ValueError(f"{place}{'' if str(error)[0] == ':' else '.'}{error}".lstrip(":. ")) from None


def read_by(kind: Any, read: Callable[[Mapping[str, Any]], Any]) -> None:
    """Registers a reader for fields of a type: an object's data -> value; raises `ValueError`: `"path: reason"`."""
    _readers[kind] = read


_readers: Final[dict[Any, Callable[[Mapping[str, Any]], Any]]] = {}


def tagged(*several: type[Any]) -> Callable[[Any], Any]:
    """A reader for one of several classes, selected by the `"type"` in the data."""
    classes: Mapping[str, type[Any]] = {each.type: each for each in several}

    def read_tagged(data: Mapping[str, Any]) -> Any:
        if data.get("type") is None:
            raise UnreadError(".type: missing")
        kind = _read_part("type", lambda kind: _one_of(kind, classes), data["type"])
        return _reader(classes[kind])(data)

    return read_tagged


def _read_fields(data: Any, cls: Any) -> Any:
    """A value of an attrs class by its fields."""
    given, values = _object(data), dict[str, Any]()
    for argument, key, old_key, read, is_required in _read_keys(cls):
        item = given.get(key)
        if item is None and old_key:
            item = given.get(old_key)
        if item is not None:
            values[argument] = _read_part(key, read, item)
        elif is_required:
            raise UnreadError(f"{_step_text(key)}: missing")
    return cls(**values)


@cache
def _read_keys(cls: Any) -> list[tuple[str, str, str, Callable[[Any], Any], bool]]:
    """The fields that are read: parameter of the constructor, key, key of older versions, reader, whether required."""
    return [
        (
            each.alias or each.name,
            key,
            each.name if issubclass(cls, JsonRecord) and key != each.name else "",
            _reader(each.type),
            each.default is attrs.NOTHING,
        )
        for each in attrs.fields(attrs.resolve_types(cls))
        if each.init and (key := json_name(cls, each))
    ]


def _reader(kind: Any) -> Callable[[Any], Any]:
    """The reader for values of a type: JSON data -> value; its errors have the path."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if read := _readers.get(kind):
        return partial(_read_registered, read)
    if origin is Annotated:
        return partial(_read_restricted, _reader(kind.__origin__), kind.__metadata__)
    if type(None) in arguments:  # null was left out before
        return _reader(typing.Union[tuple(each for each in arguments if each is not type(None))])  # noqa: UP007  (values)
    if origin in (tuple, Sequence):
        return partial(_read_items, _reader(arguments[0]))
    if origin is Literal:
        return lambda data: _one_of(data, arguments)
    read = _PLAIN.get(kind) or _PLAIN.get(origin) or partial(_read_text, kind)
    return partial(_read_fields, cls=kind) if attrs.has(kind) else read


def _read_registered(read: Callable[[Mapping[str, Any]], Any], data: Any) -> Any:
    try:
        return read(_object(data))
    except UnreadError:
        raise
    except ValueError as error:
        raise UnreadError(f".{error}") from None


def _read_restricted(read: Callable[[Any], Any], notes: Sequence[Any], data: Any) -> Any:
    value = read(data)
    for rule in notes:
        if isinstance(rule, Allowed) and not rule.fits(value):
            raise UnreadError(f": must be {rule.wanted}, got {short_json(value)}")
    return value


def _read_items(read: Callable[[Any], Any], data: Any) -> tuple[Any, ...]:
    return tuple(_read_part(index, read, item) for index, item in enumerate(_array(data)))


def _read_part(step: str | int, read: Callable[[Any], Any], data: Any) -> Any:
    try:
        return read(data)
    except Exception as error:  # noqa: BLE001  (readers and constructors may raise anything)
        raise UnreadError(f"{_step_text(step)}{_text_after_path(error)}") from None


def _step_text(step: str | int) -> str:
    text = path_text((step,))
    return text if text[0] == "[" else f".{text}"


def _text_after_path(error: Exception) -> str:
    return str(error) if isinstance(error, UnreadError) else f": {error}"


def _exactly(kind: type, data: Any) -> Any:
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise UnreadError(f": must be {_WANTED[kind]}, got {type(data).__name__}")
    return data


def _read_text(cls: type[Any], data: Any) -> Any:
    from pegboard.schema.text_types import notation_of

    if (notation := notation_of(cls)) is None:
        raise UnreadError(": can't be read from JSON")
    text = _exactly(str, data)
    try:
        return notation.read(cls, text)
    except ValueError:
        raise UnreadError(f": not {notation.wanted}") from None


def _instance(classes: Any, wanted: str, data: Any) -> Any:
    if not isinstance(data, classes):
        raise UnreadError(f": must be {wanted}, got {type(data).__name__}")
    return data


_object: Final[Callable[[Any], Mapping[str, Any]]] = partial(_instance, Mapping, "an object")
_array: Final[Callable[[Any], Sequence[Any]]] = partial(_instance, (list, tuple), "an array")
_text_or_object: Final = partial(_instance, (str, Mapping), "a string or an object")


def _one_of(data: Any, options: Collection[str]) -> str:
    if _exactly(str, data) not in options:
        raise UnreadError(f": must be one of {', '.join(options)}, got {data!r:.80}")
    return data


_PLAIN: Final[Mapping[Any, Callable[[Any], Any]]] = {
    **{kind: partial(_exactly, kind) for kind in _WANTED},
    Mapping: partial(_exactly, dict),
    str | Mapping[str, Any]: _text_or_object,
    str | bytes | Mapping[str, Any]: _text_or_object,
    Any: lambda data: data,
}
