"""A strict walk over a vendor's typed definitions: `faults(value, annotation)`.

pydantic's `TypeAdapter` passes unknown keys of a `TypedDict` and never looks into an `Iterable`; this looks at
everything. A value is JSON as Python holds it, so a sequence is a list, an object a dict, and a boolean no number.
"""

from __future__ import annotations

import collections.abc
import enum
import io
import json
import os
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, NotRequired, Required, TypeVar, Union, get_args, get_origin

import pydantic
import typing_extensions
from typing_extensions import ReadOnly, TypeAliasType

Faults = list[str]

_QUALIFIERS: Final = (Required, NotRequired, ReadOnly, typing.Required, typing.NotRequired)
_UNIONS: Final = (Union, types.UnionType)
_LISTS: Final = (list, collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection)
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_ALIASES: Final = tuple({TypeAliasType, getattr(typing, "TypeAliasType", TypeAliasType)})
_NEVER_JSON: Final = (io.IOBase, typing.IO, os.PathLike)
"""What an SDK also takes, and no JSON can be."""


def faults(value: Any, annotation: Any, where: str = "") -> Faults:
    """What is wrong with a value of a type, as `"path: reason"`; empty where it fits.

    Args:
        value: JSON, as Python holds it; `bytes` where the type says bytes.
        annotation: A `TypedDict`, a pydantic model, or anything made of these and of the forms that `typing` has.
        where: The path so far.

    Raises:
        TypeError: A form of annotation that this walk doesn't know: nothing passes unseen.
    """
    bare = _bare(annotation)
    origin = get_origin(bare) or bare
    for is_one, judge in _FORMS:
        if is_one(origin):
            return judge(value, bare, where)
    raise TypeError(f"{where or 'the root'}: the walk knows no annotation like {annotation!r}")


def _bare(annotation: Any) -> Any:
    """The type itself, without what an alias, a new type, a variable or a qualifier puts round it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin in _QUALIFIERS:
        return _bare(arguments[0])
    if isinstance(origin, _ALIASES):
        return _bare(origin.__value__[arguments])
    if isinstance(annotation, _ALIASES):
        return _bare(annotation.__value__)
    if isinstance(annotation, TypeVar):
        return _bare(annotation.__bound__ or object)
    return _bare(annotation.__supertype__) if hasattr(annotation, "__supertype__") else annotation


_SCALARS: Final[Mapping[Any, tuple[str, Callable[[Any], bool]]]] = {
    str: ("a text", lambda value: type(value) is str),
    int: ("an integer", lambda value: type(value) is int),
    float: ("a number", lambda value: type(value) in (int, float)),
    bool: ("a boolean", lambda value: type(value) is bool),
    bytes: ("bytes", lambda value: type(value) is bytes),
    None: ("null", lambda value: value is None),
    type(None): ("null", lambda value: value is None),
}


def _unlike(value: Any, wanted: str, where: str) -> str:
    return f"{where or '.'}: expected {wanted}, found {type(value).__name__} {value!r:.60}"


def _of_scalar(value: Any, cls: Any, where: str) -> Faults:
    wanted, fits = _SCALARS[cls]
    return [] if fits(value) else [_unlike(value, wanted, where)]


def _of_none(value: Any, cls: Any, where: str) -> Faults:
    return [_unlike(value, cls.__name__, where)]


def _of_json(value: Any, _annotation: Any, where: str) -> Faults:
    """Of what may be any JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        return [f"{where or '.'}: no JSON ({error})"]
    return []


def _of_enum(value: Any, cls: Any, where: str) -> Faults:
    return _of_literal(value, Literal[tuple(member.value for member in cls)], where)


def _of_literal(value: Any, annotation: Any, where: str) -> Faults:
    options = get_args(annotation)
    if any(type(value) is type(option) and value == option for option in options):
        return []
    return [_unlike(value, f"one of {', '.join(map(repr, options))}", where)]


def _of_list(value: Any, annotation: Any, where: str) -> Faults:
    if type(value) is not list:
        return [_unlike(value, "a list", where)]
    (item,) = get_args(annotation) or (object,)
    return [fault for place, each in enumerate(value) for fault in faults(each, item, f"{where}[{place}]")]


def _of_mapping(value: Any, annotation: Any, where: str) -> Faults:
    if type(value) is not dict:
        return [_unlike(value, "an object", where)]
    of_key, of_value = get_args(annotation) or (str, object)
    found: Faults = []
    for key, each in value.items():
        found += [f"{where}: its key {fault.partition(': ')[2]}" for fault in faults(key, of_key)]
        found += faults(each, of_value, f"{where}.{key}")
    return found


def _of_model(value: Any, model: type[pydantic.BaseModel], where: str) -> Faults:
    """By pydantic, as JSON (so that base64 and enums are read), strictly, with unknown keys refused at every level."""
    found = _of_json(value, model, where)
    if found:
        return found
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            model.model_validate_json(json.dumps(value), strict=True, extra="forbid")
        except pydantic.ValidationError as error:
            return [
                f"{where}{''.join(f'.{part}' for part in each['loc'])}: {each['msg']}, found {each['input']!r:.60}"
                for each in error.errors()
            ]
    return [f"{where or '.'}: {each.message}" for each in warned]  # google-genai takes unknown members of enums so


# --- typed dicts ---


@cache
def _fields(cls: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The keys of a `TypedDict` with their types, those of its bases too, and which of them are required."""
    hints = typing_extensions.get_type_hints(cls, include_extras=True)
    return hints, frozenset(key for key, hint in hints.items() if _is_required(hint, key in cls.__required_keys__))


def _is_required(hint: Any, total: bool) -> bool:
    """Whether a key is; where annotations are texts, the class itself knows only whether it was `total`."""
    origin = get_origin(hint)
    if origin in (Required, typing.Required):
        return True
    if origin in (NotRequired, typing.NotRequired):
        return False
    return _is_required(get_args(hint)[0], total) if origin in (Annotated, ReadOnly) else total


def _is_open(cls: Any) -> bool:
    """Whether the SDK itself says that a `TypedDict` takes other keys."""
    return getattr(cls, "__pydantic_config__", {}).get("extra") == "allow"


def _of_typed_dict(value: Any, cls: Any, where: str) -> Faults:
    if type(value) is not dict:
        return [_unlike(value, f"an object ({cls.__name__})", where)]
    fields, required = _fields(cls)
    found = [f"{where or '.'}: {key!r} is missing ({cls.__name__})" for key in fields if key in required - value.keys()]
    for key, each in value.items():
        if key in fields:
            found += faults(each, fields[key], f"{where}.{key}")
        elif not _is_open(cls):
            found.append(f"{where or '.'}: unknown key {key!r} ({cls.__name__})")
    return found


# --- unions ---


def _of_union(value: Any, annotation: Any, where: str) -> Faults:
    """None where one member takes it; else those of the member that it is nearest to."""
    members = get_args(annotation)
    tried = [(faults(value, member, where), member) for member in members]
    if not all(found for found, _ in tried):
        return []
    near = [(found, member) for found, member in tried if _is_near(value, member)]
    if not near:
        return [_unlike(value, " or ".join(map(_called, members)), where)]
    return min(near, key=lambda each: (-_marks(value, each[1]), len(each[0])))[0]


def _is_near(value: Any, member: Any) -> bool:
    """Whether a value is at least of the form of a member."""
    bare = _bare(member)
    origin = get_origin(bare) or bare
    if origin in _UNIONS:
        return any(_is_near(value, each) for each in get_args(bare))
    wanted = next((form for form, is_one in ((list, _is_list), (dict, _is_object)) if is_one(origin)), None)
    return type(value) is wanted


def _marks(value: Any, member: Any) -> int:
    """How well the keys that tell members apart (literals, such as `type`) are as a member wants them."""
    cls = get_origin(_bare(member)) or _bare(member)
    if not isinstance(value, dict) or not typing_extensions.is_typeddict(cls):
        return 0
    fields, required = _fields(cls)
    tags = [key for key in value.keys() & fields.keys() if _is_tag(fields[key])]
    wrong = sum(bool(faults(value[key], fields[key])) for key in tags)
    return 2 * (len(tags) - 2 * wrong) - len(required - value.keys())


def _is_tag(annotation: Any) -> bool:
    bare = _bare(annotation)
    if get_origin(bare) in _UNIONS:
        return all(map(_is_tag, get_args(bare)))
    return get_origin(bare) is Literal or bare in (None, type(None))


def _called(member: Any) -> str:
    return getattr(member, "__name__", None) or str(member)


# --- forms ---


def _is_list(origin: Any) -> bool:
    return origin in _LISTS or getattr(origin, "__name__", "") == "SequenceNotStr"


def _is_mapping(origin: Any) -> bool:
    return origin in _MAPPINGS


def _is_model(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, pydantic.BaseModel)


def _is_object(origin: Any) -> bool:
    return _is_mapping(origin) or typing_extensions.is_typeddict(origin) or _is_model(origin)


_FORMS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, str], Faults]], ...]] = (
    (lambda origin: origin in _UNIONS, _of_union),
    (lambda origin: origin is Literal, _of_literal),
    (lambda origin: origin is Any or origin is object, _of_json),
    (typing_extensions.is_typeddict, _of_typed_dict),
    (_is_list, _of_list),
    (_is_mapping, _of_mapping),
    (lambda origin: origin in _SCALARS, _of_scalar),
    (lambda origin: origin in _NEVER_JSON, _of_none),
    (lambda origin: isinstance(origin, type) and issubclass(origin, enum.Enum), _of_enum),
    (_is_model, _of_model),
)
