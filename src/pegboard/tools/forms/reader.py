"""Reads annotations into forms."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar, Union

from attrs import define, field

from pegboard.errors import DefinitionError
from pegboard.tools.forms.alias import alias_value, is_alias, is_made_of_itself, is_nothing_else
from pegboard.tools.forms.annotation import annotation_key, annotation_name, annotation_text, marker_text
from pegboard.tools.forms.compound import constrained
from pegboard.tools.forms.container import read_container
from pegboard.tools.forms.demand import Demand, NothingLeftError
from pegboard.tools.forms.foreign import ForeignForm, is_known
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.generic import unbound
from pegboard.tools.forms.listed import enum_form, literal_form
from pegboard.tools.forms.member import fields_of
from pegboard.tools.forms.metadata import read_metadata
from pegboard.tools.forms.named import AliasForm, NotedForm
from pegboard.tools.forms.record_reading import class_notes, read_members, unread_record
from pegboard.tools.forms.scalar import ANY, NULL, SCALARS, TEXT, DerivedForm
from pegboard.tools.forms.textual import TextualForm, notation_of
from pegboard.tools.forms.union import UnionForm
from pegboard.typing import JsonSchema

_HINT: Final = "Pass input_schema=..., or use an attrs class, a dataclass or a TypedDict instead."
_HINTS: Final[Mapping[str, str]] = {
    "complex": "Pass input_schema=..., or use two floats or text instead.",
    "Callable": "Pass input_schema=..., or use the name of what is called (Literal or an enum) instead.",
    "Iterator": "Pass input_schema=..., or use a list instead.",
    "Generator": "Pass input_schema=..., or use a list instead.",
    "defaultdict": "Pass input_schema=..., or use a dict instead.",
    "Counter": "Pass input_schema=..., or use dict[str, int] instead.",
}
_UNWRAPPED: Final = ("Final", "ClassVar", "Required", "NotRequired", "ReadOnly")
_MOST_KNOWN: Final = 4096
_known: Final[dict[Hashable, tuple[Any, Form]]] = {}


def form_of(annotation: Any, *, tool: str = "", path: str = "") -> Form:
    """The form of a resolved annotation; worked out once, whoever asks.

    Args:
        annotation: As `typing.get_type_hints(..., include_extras=True)` gives it.
        tool: The tool's name, for the error.
        path: The parameter, for the error.

    Raises:
        DefinitionError: JSON can't say it, with the path of the part at fault.
    """
    key = annotation_key(annotation)
    known = _known.get(key)
    if known is not None:
        return known[1]
    reader = Reader(tool)
    form = reader.read(annotation, path)
    if len(_known) >= _MOST_KNOWN:  # functions that make tools may make annotations without end
        _known.clear()
    _known.update(reader.records)
    _known[key] = (annotation, form)  # which keeps the annotation alive, so that ids in the key stay its own
    return form


@define
class Reader:
    """Reads one annotation and all that it is made of.

    Attributes:
        tool: For errors.
        records: The forms of classes that were read, complete or being read, by the key of their annotations.
    """

    tool: str
    records: dict[Hashable, tuple[Any, Form]] = field(factory=dict[Hashable, tuple[Any, Form]], init=False)
    _aliases: dict[Hashable, AliasForm] = field(factory=dict[Hashable, AliasForm], init=False)
    _owner: Any = field(default=None, init=False)

    def refuse(self, annotation: Any, path: str, why: str, hint: str = _HINT) -> NoReturn:
        """Says what can't be said in JSON.

        Raises:
            DefinitionError: Always.
        """
        raise DefinitionError(f"{why}.", tool=self.tool, parameter=path, annotation=annotation, hint=hint)

    def read(self, annotation: Any, path: str) -> Form:
        """The form of an annotation, in the context of what is being read.

        Raises:
            DefinitionError: JSON can't say it.
        """
        origin = typing.get_origin(annotation)
        if origin is None:
            return self._single(annotation, path)
        if origin is Annotated:
            return self._annotated(annotation, path)
        if origin is Union or origin is types.UnionType:
            return self._union(annotation, path)
        if origin is Literal:
            return literal_form(self, annotation, path)
        if getattr(origin, "_name", "") in _UNWRAPPED:
            return self.read(typing.get_args(annotation)[0], path)
        return self._alias(origin, annotation, path) if is_alias(origin) else self._class(origin, annotation, path)

    def _single(self, annotation: Any, path: str) -> Form:
        """What has no arguments: a class, or a name that stands for a type."""
        if annotation is None:
            return NULL
        if annotation is Any:
            return ANY
        if isinstance(annotation, type):
            return self._class(annotation, annotation, path)
        if is_alias(annotation):
            return self._alias(annotation, annotation, path)
        return self._stand_in(annotation, path)

    def _stand_in(self, annotation: Any, path: str) -> Form:
        if isinstance(annotation, TypeVar):
            return self.read(unbound(annotation), path)
        if isinstance(annotation, typing.NewType):
            return self.read(annotation.__supertype__, path)
        name = getattr(annotation, "_name", "")
        if name == "Self" and self._owner is not None:
            return self.read(self._owner, path)
        if name in ("LiteralString", "Final"):
            return TEXT if name == "LiteralString" else ANY
        if isinstance(annotation, str | typing.ForwardRef):
            self.refuse(
                annotation,
                path,
                f"{annotation!r} isn't resolved",
                "Define what it names at module level; a type made of itself needs TypeAliasType (`type X = ...`).",
            )
        return self.refuse(annotation, path, f"{annotation!r} has no JSON Schema")

    def _annotated(self, annotation: Any, path: str) -> Form:
        try:
            metadata = read_metadata(annotation.__metadata__)
        except ValueError as error:
            self.refuse(annotation, path, str(error), "Correct the pattern.")
        form = self._noted(annotation.__origin__, metadata.notes, path)
        for marker, demand in metadata.demands:
            form = self._demanded(form, demand, marker, annotation, path)
        return NotedForm(form, metadata.notes) if metadata.notes else form

    def _noted(self, inner: Any, notes: JsonSchema, path: str) -> Form:
        """The form of what is annotated; with a schema beside it, it may be a class that the converter knows."""
        if notes.keys() <= {"description"}:
            return self.read(inner, path)
        self._check_notes(notes, path)
        try:
            return self.read(inner, path)
        except DefinitionError:
            if isinstance(inner, type) and is_known(inner):
                return ForeignForm(inner, notes)
            raise

    def _check_notes(self, notes: JsonSchema, path: str) -> None:
        from pegboard.schema.validator import check_schema

        check_schema(notes, tool=self.tool, what=f"the mapping beside {path or 'the type'}")

    def _demanded(self, form: Form, demand: Demand, marker: object, annotation: Any, path: str) -> Form:
        try:
            found = constrained(form, demand, spares_null=True)
        except NothingLeftError:
            return self.refuse(annotation, path, f"{marker_text(marker)} leaves no value", "Take it away, or widen it.")
        if found is None:
            why = f"{marker_text(marker)} can't be asked of a value that must be {form.wanted()}"
            return self.refuse(annotation, path, why, "Take it away, or correct the type.")
        return found

    def _union(self, annotation: Any, path: str) -> Form:
        members = dict.fromkeys(self.read(each, path) for each in typing.get_args(annotation))
        return UnionForm(tuple(members)) if len(members) > 1 else next(iter(members))

    def _class(self, cls: Any, annotation: Any, path: str) -> Form:
        """The form of a class; `annotation` is the same, with its arguments if it is generic."""
        if cls is object:
            return ANY
        if (scalar := SCALARS.get(cls)) is not None:
            return scalar
        if (container := read_container(self, cls, annotation, path)) is not None:
            return container
        if (notation := notation_of(cls)) is not None and typing.get_args(annotation) != (bytes,):
            return TextualForm(cls, notation)
        if isinstance(cls, enum.EnumMeta):
            form, notes = enum_form(self, cls, path), class_notes(cls)
            return NotedForm(form, notes) if notes else form
        return self._record(cls, annotation, path) or self._derived(cls, annotation, path)

    def _derived(self, cls: Any, annotation: Any, path: str) -> Form:
        for base in (str, int, float):
            if issubclass(cls, base):
                return DerivedForm(SCALARS[base], cls)
        text = annotation_text(annotation)
        return self.refuse(annotation, path, f"{text} has no JSON Schema", _HINTS.get(text.partition("[")[0], _HINT))

    def _record(self, cls: Any, annotation: Any, path: str) -> Form | None:
        key = annotation_key(annotation)
        known = self.records.get(key) or _known.get(key)
        if known is not None:
            return known[1]
        try:
            fields = fields_of(cls)
        except Exception as error:  # noqa: BLE001  (what annotations hold may raise anything when resolved)
            self.refuse(annotation, path, f"the fields of {cls.__qualname__} can't be read: {error}", _FIELDS_HINT)
        if fields is None:
            return None
        if inspect.isabstract(cls):
            self.refuse(
                annotation, path, f"{cls.__qualname__} is abstract", "Use a union of the classes that are meant."
            )
        form = unread_record(cls, annotation)
        self.records[key] = (annotation, form)
        outer, self._owner = self._owner, annotation
        form.members = read_members(self, cls, annotation, fields, path)
        self._owner = outer
        return form

    def _alias(self, alias: Any, annotation: Any, path: str) -> Form:
        key = annotation_key(annotation)
        if (known := self._aliases.get(key)) is not None:
            return known
        try:
            value = alias_value(alias, typing.get_args(annotation))
        except NameError as error:
            self.refuse(annotation, path, f"{alias.__name__} can't be resolved: {error}", "Define it at module level.")
        form = self._aliases[key] = AliasForm(annotation_name(annotation))
        form.form = self.read(value, path)
        if is_nothing_else(form):
            self.refuse(annotation, path, f"{alias.__name__} stands for itself without end", "Take it out of it.")
        if is_made_of_itself(form):
            return form
        del self._aliases[key]
        return form.form


_FIELDS_HINT: Final = (
    "Its annotations must resolve at run time (what they name is imported, and at module level), and its constructor "
    "must take its fields; or pass input_schema=..."
)
