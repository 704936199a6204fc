"""What is too heavy for the event loop: `is_heavy` tells at a glance; the rest works in steps, in a thread."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from operator import attrgetter
from typing import Any, Final, TypeAlias, cast

from pegboard.dispatch.json_writer import write_json
from pegboard.schema.json import MAX_DEPTH
from pegboard.tools.content import TextContent

MOST_LIGHT: Final = 5_000
"""Values that are shaped on the event loop: some milliseconds."""

MOST_VALUES: Final = 1_000_000
"""Values that a result may hold, each counted as often as it is reached: shared parts can make a small one endless."""

_CHARACTERS: Final = 6  # as a power of two: 64 characters weigh as much as a value
_MOST_CHARACTERS: Final = MOST_LIGHT << _CHARACTERS
_TOO_HEAVY: Final = -1
_RUN: Final = 1_000
_SLICE: Final = 1 << 20
_FEW: Final = 100
_SHORT: Final = 1_000
_MOST_KNOWN: Final = 1_024
_MOST_REMEMBERED: Final = 100_000
_BARE: Final = frozenset({int, float, bool, complex, type(None)})
_BYTES: Final = frozenset({bytes, bytearray})
_COLLECTIONS: Final = frozenset({list, tuple, set, frozenset, deque})
_type: Callable[[Any], type[Any]] = type


class TooManyValuesError(Exception):
    """A value holds more than `MOST_VALUES`."""


def is_heavy(value: Any) -> bool:
    """Whether turning a value into a result may take long, or run code that nobody knows.

    Looks at no more than 5,000 values. What most are, small and holding none that holds others, is seen at once.
    """
    kind = _type(value)
    if kind in _BARE:
        return False
    if kind is str:
        return len(value) > _MOST_CHARACTERS
    try:
        if kind is dict and len(value) < _FEW:
            members: Any = [*value, *value.values()]
        elif kind in _known:
            members = _known[kind](value)
        else:
            return _left(value, kind, MOST_LIGHT, 0) < 0
        for member in members:
            inner = _type(member)
            if inner not in _BARE and (inner is not str or len(member) > _SHORT):
                return _left(value, kind, MOST_LIGHT, 0) < 0
    except Exception:  # noqa: BLE001  (an attribute that can't be had, say; whoever writes the value will tell)
        return True
    return False


def _left(value: Any, kind: type[Any], left: int, depth: int) -> int:
    """How many values may still follow this one; negative where it is too much."""
    members = _listed(value, kind)
    if members is None or len(members) > left or depth > MAX_DEPTH:
        return _TOO_HEAVY
    left -= len(members)
    for member in members:
        inner = _type(member)
        if inner is str:
            left -= len(member) >> _CHARACTERS
        elif inner not in _BARE:
            left = _left(member, inner, left, depth + 1)
        if left < 0:
            return left
    return left


def _listed(value: Any, kind: type[Any]) -> Any:
    """What a value holds, a long `bytes` as if it were many; `None` for too many, and for a class that nobody knows."""
    if kind is dict:
        return [*value, *value.values()] if len(value) <= MOST_LIGHT else None
    if kind in _COLLECTIONS:
        return value
    if kind in _BYTES:
        return range(len(value) >> _CHARACTERS)
    read = _known[kind] if kind in _known else _reader_of(kind)
    return None if read is None else read(value)


_Reader: TypeAlias = Callable[[Any], tuple[Any, ...]]
_known: Final[dict[type[Any], _Reader]] = {}


def _reader_of(kind: type[Any]) -> _Reader | None:
    """Gives what is written of an instance: nothing further of a number, `None` for a class that nobody knows."""
    from pegboard.tools.forms.json_data import written_names
    from pegboard.tools.forms.textual import text_writer

    written = written_names(kind)
    if written:
        names = [name for name, _ in written]
        read: _Reader = attrgetter(names[0], *names)  # one name alone would give no tuple
    elif written is not None or issubclass(kind, enum.Enum | int | float) or text_writer(kind) is not None:
        read = _nothing
    else:
        return None
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[kind] = read
    return read


def _nothing(_value: Any) -> tuple[Any, ...]:
    return ()


# In a thread ----------------------------------------------------------------------------------------------------------


def check_number(value: Any) -> None:
    """Counts the values in a value.

    Raises:
        TooManyValuesError: There are more than a million, or they never end.
    """
    _number(value, (), {})


def _number(value: Any, above: tuple[int, ...], known: dict[int, int]) -> int:
    """How many values a value holds; of what it holds twice, counted once."""
    place = id(value)
    if place in known:
        return known[place]
    if len(above) > MAX_DEPTH or place in above:
        return 0  # whoever writes it will refuse it
    within = (*above, place)
    number = 0
    for member in _members(value):
        kind = _type(member)
        number += 1 if kind is str or kind in _BARE else 1 + _number(member, within, known)
        if number > MOST_VALUES:
            raise TooManyValuesError
    if len(known) < _MOST_REMEMBERED:
        known[place] = number
    return number


def _members(value: Any) -> Iterable[Any]:
    """What `to_json_data` will find in a value."""
    if isinstance(value, str | bytes | bytearray | enum.Enum):
        return ()
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).values()
    if isinstance(value, AbstractSet | Sequence | deque):
        return cast("Iterable[Any]", value)
    kind = _type(value)
    read = _reader_of(kind)
    return () if read is None else read(value)


def write_heavy(data: Any) -> str:
    """As `write_json`, in steps none of which holds up the other threads for long."""
    return "".join(_written(data))


def _written(data: Any) -> Iterator[str]:
    if not is_heavy(data):
        yield write_json(data)
    elif type(data) is str:
        yield '"'
        for start in range(0, len(data), _SLICE):
            yield write_json(data[start : start + _SLICE])[1:-1]
        yield '"'
    elif isinstance(data, dict):
        yield from _written_object(cast("dict[Any, Any]", data))
    elif isinstance(data, list | tuple):
        yield from _written_array(cast("Sequence[Any]", data))
    else:
        yield write_json(data)


def _written_object(data: dict[Any, Any]) -> Iterator[str]:
    yield "{"
    between = ""
    for key, value in data.items():
        yield f"{between}{write_json({key: None})[1:-5]}"  # between the brace and `null}`
        yield from _written(value)
        between = ", "
    yield "}"


def _written_array(data: Sequence[Any]) -> Iterator[str]:
    yield "["
    between = ""
    for start in range(0, len(data), _RUN):
        run = data[start : start + _RUN]
        for part in (write_json(run)[1:-1],) if not is_heavy(run) else map(write_heavy, run):
            yield between
            yield part
            between = ", "
    yield "]"


def copied(data: bytes | bytearray) -> bytes:
    """The same bytes, which nobody can change."""
    if isinstance(data, bytes) or len(data) <= _SLICE:
        return bytes(data)
    import io

    buffer = io.BytesIO()
    for start in range(0, len(data), _SLICE):
        buffer.write(data[start : start + _SLICE])
    return buffer.getvalue()


def sayable(data: Any) -> Any:
    """JSON data with the lone surrogates in its texts replaced, as `TextContent` does it."""
    if isinstance(data, str):
        return TextContent(data).text
    if isinstance(data, dict):
        return {sayable(key): sayable(value) for key, value in cast("dict[Any, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [sayable(item) for item in cast("Sequence[Any]", data)]
    return data


__all__ = ["TooManyValuesError", "check_number", "copied", "is_heavy", "sayable", "write_heavy"]
