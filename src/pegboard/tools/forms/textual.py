"""The forms of types that JSON writes as text: dates and times, UUIDs, decimals, paths, bytes, patterns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, cast

from attrs import frozen

from pegboard.schema.problems import StructureError, shown
from pegboard.tools.forms import temporal
from pegboard.tools.forms.form import OWN_DEPTH, TEXTS, Form, Hook, Kinds, Writer, mismatch
from pegboard.typing import JsonSchema

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DECIMAL: Final = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_DECIMAL_PATTERN: Final = re.compile(_DECIMAL)


@frozen
class Notation:
    """How values of a class are written as text.

    Attributes:
        wanted: What a text must be.
        schema: What JSON Schema can say of it, beside that it is a string.
        read: Class and text -> value; raises `ValueError` or `ArithmeticError` for a text that is none.
        write: Value -> text; raises `ValueError` for a value that has none.
    """

    wanted: str
    schema: JsonSchema
    read: Callable[[Any, str], Any]
    write: Callable[[Any], str]


@frozen(eq=False)
class TextualForm(Form):
    """A type that JSON writes as text, which the schema can't judge in full.

    Attributes:
        cls: The class of the values.
        notation: How they are written.
    """

    cls: type[Any]
    notation: Notation

    def wanted(self) -> str:
        """What the text must be."""
        return self.notation.wanted

    def kinds(self) -> Kinds:
        """Text."""
        return TEXTS

    def is_hashable(self) -> bool:
        """As the class is."""
        return issubclass(self.cls, Hashable)

    def schema(self, writer: Writer) -> JsonSchema:  # noqa: ARG002  (every form's signature)
        """A string, with its format."""
        return {"type": "string", **self.notation.schema}

    def structure(self) -> Hook:
        """Reads the text; what can't be read is refused."""
        cls, read, wanted = self.cls, self.notation.read, self.notation.wanted

        def structure_text(value: Any) -> Any:
            if type(value) is not str:
                raise mismatch(value, "a string")
            try:
                return read(cls, value)
            except Exception as error:  # `re` raises `RecursionError` and more, `decimal` its own kinds
                raise StructureError(f"must be {wanted}, got {shown(value)}") from error

        return structure_text

    def unstructure(self) -> Hook | None:
        """Writes the text."""
        return self.notation.write

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """Instances of the class that are written this way: a datetime is no date here."""
        return isinstance(value, self.cls) and _nearest_notation(cast("type[Any]", type(value))) is self.notation


def notation_of(cls: type[Any]) -> Notation | None:
    """How values of exactly this class are written, or `None` where they aren't written as text."""
    return _NOTATIONS.get((cls.__module__.partition(".")[0], cls.__qualname__))


def text_writer(cls: type[Any]) -> Callable[[Any], str] | None:
    """How values of a class or of one derived from it become text, or `None` where they don't."""
    notation = _nearest_notation(cls)
    return notation and notation.write


def _nearest_notation(cls: type[Any]) -> Notation | None:
    return next(filter(None, map(notation_of, cls.__mro__)), None)


def _read_uuid(cls: Any, text: str) -> Any:
    if _UUID.fullmatch(text) is None:
        raise ValueError("not written as RFC 9562 has it")
    return cls(text)


def _write_uuid(value: Any) -> str:
    from uuid import UUID

    return UUID.__str__(value)  # unlike `str`, not of anything else


def _read_decimal(cls: Any, text: str) -> Any:
    if _DECIMAL_PATTERN.fullmatch(text) is None:
        raise ValueError("not written as a JSON number is")
    return cls(text)


def _write_decimal(value: Any) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no JSON number")
    return str(value)


def _read_path(cls: Any, text: str) -> Any:
    return cls(text)


def _read_bytes(cls: Any, text: str) -> Any:
    import base64

    return cls(base64.b64decode(text, validate=True))


def _write_bytes(value: Any) -> str:
    import base64

    return base64.b64encode(value).decode("ascii")


def _read_pattern(_cls: Any, text: str) -> re.Pattern[str]:
    return re.compile(text)


def _write_pattern(value: Any) -> str:
    if not isinstance(value.pattern, str):
        raise ValueError("a pattern of bytes has no text")  # noqa: TRY004  (the value is wrong, not its type)
    return value.pattern


_PATH: Final = Notation("a path", {}, _read_path, os.fspath)
_BYTES: Final = Notation("base64", {"contentEncoding": "base64"}, _read_bytes, _write_bytes)

# By name, so that none of these modules is imported by us: whoever has such a class has imported its module.
_NOTATIONS: Final[Mapping[tuple[str, str], Notation]] = {
    ("datetime", "datetime"): Notation(
        "a date and time such as 2024-02-29T13:30:00Z",
        {"format": "date-time"},
        temporal.read_datetime,
        temporal.write_iso,
    ),
    ("datetime", "date"): Notation(
        "a date such as 2024-02-29", {"format": "date"}, temporal.read_date, temporal.write_date
    ),
    ("datetime", "time"): Notation(
        "a time such as 13:30:00", {"format": "time"}, temporal.read_time, temporal.write_iso
    ),
    ("datetime", "timedelta"): Notation(
        "a duration such as P1DT2H30M", {"format": "duration"}, temporal.read_duration, temporal.write_duration
    ),
    ("uuid", "UUID"): Notation("a UUID", {"format": "uuid"}, _read_uuid, _write_uuid),
    ("decimal", "Decimal"): Notation(
        "a decimal number such as 12.50 in a string", {"pattern": f"^{_DECIMAL}$"}, _read_decimal, _write_decimal
    ),
    **{("builtins", name): _BYTES for name in ("bytes", "bytearray", "memoryview")},
    ("re", "Pattern"): Notation("a regular expression", {"format": "regex"}, _read_pattern, _write_pattern),
    **{("pathlib", name): _PATH for name in ("PurePath", "PurePosixPath", "PureWindowsPath")},
    **{("pathlib", name): _PATH for name in ("Path", "PosixPath", "WindowsPath")},
}
