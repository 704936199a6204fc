"""`SchemaWriter`: forms as JSON Schema, with what is made of itself aside, in `$defs`."""

from __future__ import annotations

from attrs import define, field

from pegboard.tools.forms.form import Form, is_recursive
from pegboard.tools.forms.named import NamedForm
from pegboard.typing import JsonSchema


@define
class SchemaWriter:
    """Writes schemas that share their definitions.

    Attributes:
        definitions: Name -> schema, of the forms that are made of themselves.
        names: Form -> its name there.
    """

    definitions: dict[str, JsonSchema] = field(factory=dict[str, JsonSchema])
    names: dict[Form, str] = field(factory=dict[Form, str])

    def write(self, form: Form) -> JsonSchema:
        """The schema to stand for `form`: a reference where it is made of itself, else its own."""
        if isinstance(form, NamedForm) and (form in self.names or is_recursive(form)):
            return {"$ref": f"#/$defs/{self._name(form)}"}
        return form.schema(self)

    def _name(self, form: NamedForm) -> str:
        if (known := self.names.get(form)) is not None:
            return known
        name = self._free(form.name)
        self.names[form] = name
        self.definitions[name] = {}  # its place, before those of its parts
        self.definitions[name] = form.schema(self)
        return name

    def _free(self, name: str) -> str:
        taken = set(self.names.values())
        number = 2
        free = name
        while free in taken:
            free = f"{name}_{number}"
            number += 1
        return free
