"""The form of mappings, and how their keys are written: JSON's keys are text."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import frozen

from pegboard.schema.problems import StructureError
from pegboard.tools.forms.choice import ChoiceForm
from pegboard.tools.forms.constraint import ConstrainedForm, with_keywords
from pegboard.tools.forms.form import OBJECTS, OWN_DEPTH, Form, Hook, Kinds, Writer, mismatch
from pegboard.tools.forms.named import NotedForm
from pegboard.tools.forms.scalar import INTEGER, TEXT, DerivedForm
from pegboard.tools.forms.textual import TextualForm
from pegboard.typing import JsonSchema

_INTEGER: Final = r"^(?:0|-?[1-9][0-9]*)$"
_INTEGER_PATTERN: Final = re.compile(r"0|-?[1-9][0-9]*")


@frozen(eq=False)
class KeyForm:
    """How a mapping's keys are written.

    Attributes:
        schema: Of a key, which is always a string; `{}` where any will do.
        read: Text -> key, or `None` where every text is the key.
        write: Key -> text, or `None` where the key is text.
        converts: Whether `read` gives anything else than the text, or checks what the schema doesn't say.
    """

    schema: JsonSchema
    read: Hook | None
    write: Hook | None
    converts: bool


@frozen(eq=False)
class MappingForm(Form):
    """`dict` and its abstract kin.

    Attributes:
        key: Of the keys.
        keys: How those are written.
        item: Of the values.
        make: Makes the mapping of a dict, or `None` where a dict will do.
        cls: What its values are looked up by.
    """

    key: Form
    keys: KeyForm
    item: Form
    make: Callable[[dict[Any, Any]], Any] | None
    cls: type[Any]

    def wanted(self) -> str:
        """An object."""
        return "an object"

    def kinds(self) -> Kinds:
        """Objects."""
        return OBJECTS

    def is_hashable(self) -> bool:
        """Never."""
        return False

    def converts(self) -> bool:
        """Reads keys, or makes anything else than a dict."""
        return self.keys.converts or self.make is not None

    def writes(self) -> bool:
        """Writes keys, or makes a dict of anything else."""
        return self.keys.write is not None or self.cls is not dict

    def parts(self) -> Sequence[Form]:
        """The values'."""
        return (self.item,)

    def schema(self, writer: Writer) -> JsonSchema:
        """An object whose properties are all of one schema."""
        schema: JsonSchema = {"type": "object", "additionalProperties": writer.write(self.item) or True}
        return {**schema, "propertyNames": dict(self.keys.schema)} if self.keys.schema else schema

    def structure(self) -> Hook:
        """Structures each key and value."""
        read, hook, make = self.keys.read, self.item.structure(), self.make

        def structure_mapping(value: Any) -> Any:
            if type(value) not in OBJECTS:
                raise mismatch(value, "an object")
            done: dict[Any, Any] = {}
            name: Any = ""
            try:
                for name, item in value.items():
                    done[name if read is None else _key(read, name)] = hook(item)
            except StructureError as error:
                raise error.below(name) from error.__cause__
            if len(done) != len(value):
                raise StructureError("must not hold two keys that mean the same")
            return done if make is None else make(done)

        return structure_mapping

    def unstructure(self) -> Hook | None:
        """A dict of each key and value, unstructured."""
        write, hook = self.keys.write, self.item.unstructure()
        if write is None and hook is None:
            return dict if self.writes() else None

        def unstructure_mapping(value: Any) -> dict[str, Any]:
            return {(write(key) if write else key): (hook(item) if hook else item) for key, item in value.items()}

        return unstructure_mapping

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """Instances of the class whose keys and values look right."""
        if not isinstance(value, self.cls):
            return False
        return depth == 0 or all(self.key.owns(key) and self.item.owns(item, depth - 1) for key, item in value.items())


def key_form(form: Form) -> KeyForm | None:  # noqa: PLR0911  (one for each kind of form)
    """How keys of this form are written, or `None` where they have no text."""
    if isinstance(form, NotedForm):
        return key_form(form.form)
    if form is TEXT:
        return KeyForm({}, None, None, converts=False)
    if form is INTEGER:
        return KeyForm({"pattern": _INTEGER}, _read_integer, str, converts=True)
    if isinstance(form, ChoiceForm):
        return _key_of_choice(form)
    if isinstance(form, TextualForm):
        return KeyForm(form.notation.schema, form.structure(), form.unstructure(), converts=True)
    if isinstance(form, DerivedForm) and form.scalar is TEXT:
        return KeyForm({}, form.structure(), form.unstructure(), converts=True)
    if isinstance(form, ConstrainedForm):
        return _key_constrained(form)
    return None


def _key_of_choice(form: ChoiceForm) -> KeyForm | None:
    """Text and integers can be keys; an integer is written in digits."""
    texts = {str(each.json): each.value for each in form.choices if type(each.json) in (str, int)}
    if len(texts) < len(form.choices):
        return None

    def read(text: str) -> Any:
        if text in texts:
            return texts[text]
        raise StructureError(f"must be {form.wanted()}")

    return KeyForm({"enum": list(texts)}, read, _write_choice, converts=form.converts())


def _key_constrained(form: ConstrainedForm) -> KeyForm | None:
    """With the demands: on text the schema can say them, on what the text is read as it can't."""
    inner = key_form(form.form)
    if inner is None:
        return None
    schema = inner.schema
    if form.form is TEXT:
        schema = with_keywords(schema, (each.keywords for each in form.constraints))

    def read(text: str) -> Any:
        key = text if inner.read is None else inner.read(text)
        for each in form.constraints:
            each.check(key)
        return key

    converts = inner.converts or form.form is not TEXT or form.converts()
    return KeyForm(schema, read, inner.write, converts=converts)


def _key(read: Hook, name: Any) -> Any:
    try:
        return read(name)
    except StructureError as error:
        raise StructureError(f"the key {error.reason}") from error.__cause__


def _write_choice(key: Any) -> str:
    return str(key.value if isinstance(key, enum.Enum) else key)


def _read_integer(text: str) -> int:
    if _INTEGER_PATTERN.fullmatch(text) is None:
        raise StructureError("must be an integer in digits")
    try:
        return int(text)
    except ValueError:
        raise StructureError("must have fewer digits") from None
