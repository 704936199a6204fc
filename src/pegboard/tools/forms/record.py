"""The form of objects with known keys: attrs classes, dataclasses, named tuples, `TypedDict`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.schema.problems import StructureError
from pegboard.tools.forms.form import OBJECTS, OWN_DEPTH, Form, Hook, Kinds, Writer, mismatch
from pegboard.tools.forms.named import NamedForm
from pegboard.tools.forms.refusal import attribute_at_fault, refused_by
from pegboard.typing import JsonMapping, JsonSchema

_MOST_KNOWN: Final = 20


@frozen(eq=False)
class Member:
    """One field of a record.

    Attributes:
        key: Its key in JSON: what the constructor calls it.
        attribute: Where the value stands on an instance; `None` where it can't be read back (`InitVar`).
        form: Of the value.
        required: Whether it must be given.
        by_keyword: Whether the constructor takes it by keyword only.
        notes: What the schema says of it beside: description, default.
    """

    key: str
    attribute: str | None
    form: Form
    required: bool
    by_keyword: bool
    notes: JsonMapping


@define(eq=False)
class RecordForm(NamedForm):
    """An object with known keys. Other keys are refused.

    Attributes:
        cls: The class, or `dict` for a `TypedDict`.
        notes: What the schema says of it beside.
        hashes: Whether instances can stand in a set.
        members: Its fields; set once they are read.
        is_generic: Whether instances of different forms share the class.
    """

    cls: type[Any]
    notes: JsonMapping
    hashes: bool
    is_generic: bool
    members: tuple[Member, ...] = field(init=False)

    def wanted(self) -> str:
        """An object."""
        return "an object"

    def kinds(self) -> Kinds:
        """Objects."""
        return OBJECTS

    def converts(self) -> bool:
        """Makes an instance."""
        return self.cls is not dict

    def writes(self) -> bool:
        """Reads an instance."""
        return self.cls is not dict

    def is_hashable(self) -> bool:
        """As the class is."""
        return self.hashes

    def parts(self) -> Sequence[Form]:
        """The fields'."""
        return [each.form for each in self.members]

    def schema(self, writer: Writer) -> JsonSchema:
        """An object with the fields as properties and no others."""
        properties = {each.key: {**writer.write(each.form), **each.notes} for each in self.members}
        required = [each.key for each in self.members if each.required]
        schema: JsonSchema = {**self.notes, "type": "object", "properties": properties}
        if required:
            schema["required"] = required
        return {**schema, "additionalProperties": False}

    def make_structure(self) -> Hook:
        """Structures the fields, then makes an instance."""
        return _Structuring(self).hook()

    def make_unstructure(self) -> Hook:
        """Reads the fields, unstructures each."""
        if self.cls is dict:
            return _unstructure_mapping({each.key: each.form.unstructure() for each in self.members})
        readable = [each for each in self.members if each.attribute is not None]
        return _unstructure_instance(
            [each.key for each in readable],
            [each.attribute or "" for each in readable],
            [each.form.unstructure() for each in readable],
        )

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """Instances of the class; where the class doesn't say enough, by what is in them too."""
        if not isinstance(value, self.cls):
            return False
        if self.cls is dict:
            return self._owns_mapping(value, depth)
        if depth == 0 or not self.is_generic:
            return True
        readable = ((each.form, each.attribute) for each in self.members if each.attribute is not None)
        return all(form.owns(getattr(value, attribute), depth - 1) for form, attribute in readable)

    def _owns_mapping(self, value: Mapping[str, Any], depth: int) -> bool:
        known = {each.key: each for each in self.members}
        return (
            value.keys() <= known.keys()
            and all(each.key in value for each in self.members if each.required)
            and (depth == 0 or all(known[key].form.owns(item, depth - 1) for key, item in value.items()))
        )


class _Structuring:
    """What structuring a record needs to know, settled once."""

    def __init__(self, form: RecordForm) -> None:
        self.cls = form.cls
        self.members = {each.key: (each, each.form.structure()) for each in form.members}
        self.keys = tuple(self.members)
        self.in_order = form.cls is not dict and not any(each.by_keyword for each in form.members)

    def hook(self) -> Hook:
        """Takes an object: in one go where it has as many keys as there are fields, else key by key."""
        cls, count, in_order, some = self.cls, len(self.keys), self.in_order, self.some
        steps = tuple((key, hook) for key, (_, hook) in self.members.items())

        def structure_record(value: Any) -> Any:
            if type(value) not in OBJECTS:
                raise mismatch(value, "an object")
            if not in_order or len(value) != count:
                return some(value)
            key = ""
            done: list[Any] = []
            try:
                for key, hook in steps:
                    done.append(hook(value[key]))
            except StructureError as error:
                raise error.below(key) from error.__cause__
            except KeyError:
                return some(value)
            try:
                return cls(*done)
            except Exception as error:
                raise self.refusal(error, dict(zip(self.keys, done, strict=True))) from error

        return structure_record

    def some(self, value: dict[str, Any]) -> Any:
        """Takes an object key by key."""
        for key in value:
            if key not in self.members:
                raise StructureError(_unknown_key(self.keys), (key,))
        arguments: dict[str, Any] = {}
        for key, (member, hook) in self.members.items():
            if key in value:
                arguments[key] = _below(key, hook, value[key])
            elif member.required:
                raise StructureError("required, missing", (key,))
        try:
            return self.cls(**arguments)
        except Exception as error:
            raise self.refusal(error, arguments) from error

    def refusal(self, error: Exception, arguments: Mapping[str, Any]) -> StructureError:
        """The error for what the constructor raised, at the field that it complains of if that can be told."""
        name = attribute_at_fault(self.cls, error, arguments)
        path = [each.key for each, _ in self.members.values() if name is not None and each.attribute == name]
        return refused_by(self.cls, error).below(*path)


def _below(key: str, hook: Hook, item: Any) -> Any:
    try:
        return hook(item)
    except StructureError as error:
        raise error.below(key) from error.__cause__


def _unknown_key(known: Sequence[str]) -> str:
    if not known:
        return "unknown key (none is known here)"
    more = f" and {len(known) - _MOST_KNOWN} more" if len(known) > _MOST_KNOWN else ""
    return f"unknown key (known: {', '.join(known[:_MOST_KNOWN])}{more})"


def _unstructure_mapping(hooks: Mapping[str, Hook | None]) -> Hook:
    def unstructure_mapping(value: Any) -> dict[str, Any]:
        return {key: hook(item) if (hook := hooks[key]) else item for key, item in value.items()}

    return unstructure_mapping


def _unstructure_instance(keys: Sequence[str], attributes: Sequence[str], hooks: Sequence[Hook | None]) -> Hook:
    read: Callable[[Any], Sequence[Any]]
    if len(attributes) > 1:
        read = attrgetter(*attributes)
    else:
        read = lambda value: [getattr(value, name) for name in attributes]  # noqa: E731
    if not any(hooks):
        return lambda value: dict(zip(keys, read(value), strict=True))

    def unstructure_instance(value: Any) -> dict[str, Any]:
        return {key: hook(item) if hook else item for key, hook, item in zip(keys, hooks, read(value), strict=True)}

    return unstructure_instance
