"""JSON Schema from types: of one type, and of the object that a list of parameters makes.

What a type says of JSON stands in `pegboard.tools.forms`: there its schema and how its values are structured are
written side by side, so that they can't drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from pegboard.schema.json import is_short
from pegboard.tools.forms.default import json_default
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.member import MISSING
from pegboard.tools.forms.reader import form_of
from pegboard.tools.forms.writer import SchemaWriter
from pegboard.typing import JsonSchema


@frozen
class Property:
    """One parameter.

    Attributes:
        name: Its key in the arguments.
        annotation: Its type, resolved.
        description: For the model; it goes before what the type says of itself.
        default: What it is if it isn't given; `MISSING` makes it required.
    """

    name: str
    annotation: Any
    description: str | None = None
    default: Any = MISSING


@frozen(eq=False)
class _Written:
    """A form's schema, with the definitions that it refers to."""

    schema: JsonSchema
    definitions: Mapping[str, JsonSchema]


_written: Final[dict[Form, _Written]] = {}
_MOST_WRITTEN: Final = 4096


def schema_of(annotation: object, *, tool: str = "", path: str = "") -> JsonSchema:
    """The JSON Schema (draft 2020-12) of one type.

    References are inlined but for types that are made of themselves: those stand in `$defs` at the root, and the
    root itself is written out. What is nested in the schema is shared with others of the type: don't change it.

    Args:
        annotation: As `typing.get_type_hints(..., include_extras=True)` gives it.
        tool: The tool's name, for the error.
        path: The parameter, for the error.

    Raises:
        DefinitionError: JSON can't say the type; names the tool, the path of the part at fault, its annotation and
            what to do instead.
    """
    form = form_of(annotation, tool=tool, path=path)
    written = _write(form)
    schema = dict(written.schema)
    if reference := schema.pop("$ref", None):  # the root of an input schema has to be an object, not a reference
        schema = {**written.definitions[reference.rpartition("/")[2]], **schema}
    return {**schema, "$defs": dict(written.definitions)} if written.definitions else schema


def object_schema(properties: Sequence[Property], *, tool: str = "", additional: object = MISSING) -> JsonSchema:
    """The schema of an object with these properties, in their order.

    A default is written where JSON can say it in 10,000 characters and the type takes it; without that, the property
    is optional all the same.

    Args:
        properties: The parameters.
        tool: The tool's name, for the error.
        additional: The type of other keys' values (`**kwargs`); without it there are no other keys.

    Raises:
        DefinitionError: As `schema_of`.
    """
    merged = _Merged()
    written = {each.name: _property(each, merged, tool) for each in properties}
    schema: JsonSchema = {"type": "object", "properties": written}
    if required := [each.name for each in properties if each.default is MISSING]:
        schema["required"] = required
    schema["additionalProperties"] = (
        False if additional is MISSING else merged.add(form_of(additional, tool=tool, path="**")) or True
    )
    if merged.writer.definitions:
        schema["$defs"] = merged.writer.definitions
    return schema


def _property(given: Property, merged: _Merged, tool: str) -> JsonSchema:
    form = form_of(given.annotation, tool=tool, path=given.name)
    schema = merged.add(form)
    more: JsonSchema = {}
    if given.description:
        more["description"] = given.description
    if given.default is not MISSING and is_short(default := json_default(given.default, form)):
        more["default"] = default
    return {**schema, **more} if more else schema


class _Merged:
    """Schemas of several types under one root, whose definitions are gathered."""

    def __init__(self) -> None:
        self.writer = SchemaWriter()

    def add(self, form: Form) -> JsonSchema:
        """The schema of a form; the one worked out before, unless its definitions have to be named anew."""
        written = _write(form)
        return self.writer.write(form) if written.definitions else written.schema


def _write(form: Form) -> _Written:
    known = _written.get(form)
    if known is None:
        writer = SchemaWriter()
        schema = writer.write(form)
        known = _Written(schema, writer.definitions)
        if len(_written) >= _MOST_WRITTEN:
            _written.clear()
        _written[form] = known
    return known
