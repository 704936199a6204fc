"""Reads the fields of a class into its form."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pegboard.schema.docstrings import attribute_docs, parse_docstring
from pegboard.tools.forms.annotation import annotation_name
from pegboard.tools.forms.compound import constrained
from pegboard.tools.forms.container import Reading
from pegboard.tools.forms.default import json_default
from pegboard.tools.forms.demand import NothingLeftError
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.generic import Binding, binding_for, bindings_of, is_typed_dict, substituted
from pegboard.tools.forms.member import MISSING, ClassField
from pegboard.tools.forms.named import NotedForm
from pegboard.tools.forms.record import Member, RecordForm
from pegboard.typing import JsonSchema


def unread_record(cls: Any, annotation: Any) -> RecordForm:
    """The form of a class, without its fields yet."""
    return RecordForm(
        name=annotation_name(annotation),
        cls=dict if is_typed_dict(cls) else cls,
        notes=class_notes(cls),
        hashes=cls.__hash__ is not None,
        is_generic=bool(typing.get_args(annotation)),
    )


def read_members(
    reading: Reading, cls: Any, annotation: Any, fields: Sequence[ClassField], path: str
) -> tuple[Member, ...]:
    """The fields with their forms.

    Args:
        reading: Reads their annotations.
        cls: The class.
        annotation: The same, with its arguments if it is generic.
        fields: Of the class.
        path: Where it stands.

    Raises:
        DefinitionError: JSON can't say the type of one.
    """
    bindings, docs = bindings_of(annotation), attribute_docs(cls)
    return tuple(
        _member(reading, each, binding_for(bindings, each.name), docs, f"{path}.{each.key}" if path else each.key)
        for each in fields
    )


def class_notes(cls: Any) -> JsonSchema:
    """The description of a class: the first paragraph of its docstring, but not of one that a decorator has made."""
    text: str | None = cls.__dict__.get("__doc__")
    if not text or text.startswith(f"{cls.__name__}("):
        return {}
    return {"description": parse_docstring(text).summary}


def _member(reading: Reading, given: ClassField, binding: Binding, docs: Mapping[str, str], path: str) -> Member:
    form = reading.read(substituted(given.annotation, binding), path)
    if given.demand is not None:
        # A validator that nothing can meet will refuse everything, as it was written to.
        with contextlib.suppress(NothingLeftError):
            form = constrained(form, given.demand, spares_null=False) or form
    return Member(
        key=given.key,
        attribute=given.name if given.readable else None,
        form=form,
        required=given.required,
        by_keyword=given.by_keyword,
        notes=_notes(given, form, docs),
    )


def _notes(given: ClassField, form: Form, docs: Mapping[str, str]) -> JsonSchema:
    """Description and default. What the field itself says of it goes before the class's docstring."""
    notes: JsonSchema = {}
    described = isinstance(form, NotedForm) and "description" in form.notes
    documented = None if described else docs.get(given.name) or docs.get(given.key)
    if text := given.description or documented:
        notes["description"] = text
    if (default := json_default(given.default, form)) is not MISSING:
        notes["default"] = default
    return notes
