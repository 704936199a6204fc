"""The form of unions: the first member that takes a value structures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from attrs import frozen

from pegboard.schema.problems import StructureError, listed
from pegboard.tools.forms.attempt import first_of, first_remembered
from pegboard.tools.forms.choice import ChoiceForm
from pegboard.tools.forms.form import (
    ARRAYS,
    OBJECTS,
    OWN_DEPTH,
    TEXTS,
    Form,
    Hook,
    Kinds,
    Writer,
    is_recursive,
    mismatch,
)
from pegboard.tools.forms.json_data import to_json_data
from pegboard.tools.forms.named import bare
from pegboard.tools.forms.record import RecordForm
from pegboard.tools.forms.scalar import NULL
from pegboard.typing import JsonSchema

_CONTAINERS: Final = ARRAYS | OBJECTS


@frozen
class Tag:
    """The field by whose value the members of a union are told apart.

    Attributes:
        key: Its key, the same in all.
        members: Value -> the member that has it.
    """

    key: str
    members: Mapping[str, Form]


@frozen(eq=False)
class UnionForm(Form):
    """`X | Y`, `Optional[X]`.

    JSON is structured by the first member that takes it, in the order in which they are written. Where all
    members that are objects have a field of one key with text literals of their own, that field decides: it has to
    be there, and the errors are those of the member that it names.

    Attributes:
        members: Two or more.
    """

    members: tuple[Form, ...]

    def wanted(self) -> str:
        """What any member wants."""
        return " or ".join(dict.fromkeys(each.wanted() for each in self.members))

    def kinds(self) -> Kinds:
        """Those of all members."""
        return frozenset(kind for each in self.members for kind in each.kinds())

    def converts(self) -> bool:
        """Nothing more than its members."""
        return False

    def writes(self) -> bool:
        """Nothing more than its members."""
        return False

    def is_hashable(self) -> bool:
        """If all members are."""
        return all(each.is_hashable() for each in self.members)

    def parts(self) -> Sequence[Form]:
        """The members."""
        return self.members

    def schema(self, writer: Writer) -> JsonSchema:
        """`anyOf` of the members' schemas; the tag is required in each."""
        tag = self.tag()
        tagged = [] if tag is None else list(tag.members.values())
        schemas: list[JsonSchema] = []
        for member in self.members:
            schema = writer.write(member)
            if tag is not None and any(member is each for each in tagged):
                schema = _requiring(tag.key, schema)
            if schema not in schemas:
                schemas.append(schema)
        return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]

    def tag(self) -> Tag | None:
        """What tells the members that are objects apart, if anything does."""
        objects = [each for each in self.members if each.kinds() & OBJECTS]
        records = [record for each in objects if isinstance(record := bare(each), RecordForm)]
        if len(records) < 2 or len(records) < len(objects):
            return None
        for key in [each.key for each in records[0].members]:
            options = [_options(each, key) for each in records]
            values = [value for each in options for value in each]
            if all(options) and len(set(values)) == len(values):
                pairs = zip(objects, options, strict=True)
                return Tag(key, {value: member for member, each in pairs for value in each})
        return None

    def structure(self) -> Hook:
        """Hands the value to the members that take its kind."""
        hooks = [(each, each.structure()) for each in self.members]
        table: dict[type[Any], Hook] = {}
        recursive = is_recursive(self)
        for kind in self.kinds():
            taking = [hook for form, hook in hooks if kind in form.kinds()]
            table[kind] = first_remembered(taking) if recursive and kind in _CONTAINERS else first_of(taking)
        if (tag := self.tag()) is not None:
            named = {id(form): hook for form, hook in hooks}
            table[dict] = _by_tag(tag.key, {value: named[id(form)] for value, form in tag.members.items()})
        wanted = self.wanted()

        def structure_union(value: Any) -> Any:
            hook = table.get(cast("type[Any]", type(value)))
            if hook is None:
                raise mismatch(value, wanted)
            return hook(value)

        return structure_union

    def unstructure(self) -> Hook | None:
        """By the first member that the value looks to be of; a value of none goes by its own class."""
        hooks = [(each.owns, each.unstructure()) for each in self.members]
        if not any(hook for _, hook in hooks):
            return None
        if len(hooks) == 2 and self.members[1] is NULL:
            return _unless_none(hooks[0][1] or to_json_data)
        exact = self._by_class()

        def unstructure_union(value: Any) -> Any:
            if (hook := exact.get(cast("type[Any]", type(value)))) is not None:
                return hook(value)
            for owns, hook in hooks:
                if owns(value):
                    return value if hook is None else hook(value)
            return to_json_data(value)

        return unstructure_union

    def _by_class(self) -> Mapping[type[Any], Hook]:
        """The ways back for instances of exactly a member's class, so that a base class doesn't take them."""
        records = [form for each in self.members if isinstance(form := bare(each), RecordForm)]
        classes = [each.cls for each in records]
        found: dict[type[Any], Hook] = {}
        for each in records:
            if classes.count(each.cls) == 1 and each.cls is not dict and (hook := each.unstructure()) is not None:
                found[each.cls] = hook
        return found

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """The values of any member."""
        return any(each.owns(value, depth) for each in self.members)


def _unless_none(hook: Hook) -> Hook:
    return lambda value: None if value is None else hook(value)


def _options(record: RecordForm, key: str) -> list[str]:
    """The text literals that a field allows, if it allows nothing else."""
    for member in record.members:
        if member.key == key and isinstance(form := bare(member.form), ChoiceForm) and form.kinds() == TEXTS:
            return [each.json for each in form.choices]
    return []


def _requiring(key: str, schema: JsonSchema) -> JsonSchema:
    required = schema.get("required", ())
    return schema if key in required else {**schema, "required": [*required, key]}


def _by_tag(key: str, hooks: Mapping[str, Hook]) -> Hook:
    wanted = f"must be one of {listed(hooks)}"

    def structure_tagged(value: Any) -> Any:
        if key not in value:
            raise StructureError("required, missing", (key,))
        tag = value[key]
        hook = hooks.get(tag) if type(tag) is str else None
        if hook is None:
            raise StructureError(wanted, (key,))
        return hook(value)

    return structure_tagged
