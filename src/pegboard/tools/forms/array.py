"""The forms of JSON's arrays: lists and their kin, tuples, sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen

from pegboard.schema.json import canonical_json
from pegboard.schema.problems import StructureError, counted
from pegboard.tools.forms.form import ARRAYS, OBJECTS, OWN_DEPTH, Form, Hook, Kinds, Writer, mismatch
from pegboard.tools.forms.json_data import in_order
from pegboard.typing import JsonSchema


def structure_items(hook: Hook, value: Any) -> list[Any]:
    """Each item of an array, structured; an error's path starts with the item's index."""
    if type(value) not in ARRAYS:
        raise mismatch(value, "an array")
    done: list[Any] = []
    try:
        for item in value:
            done.append(hook(item))  # noqa: PERF401  (its length says which item failed)
    except StructureError as error:
        raise error.below(len(done)) from error.__cause__
    return done


@frozen(eq=False)
class ListForm(Form):
    """`list`, and what is as good as one (`Sequence`, `Iterable`, ...); `deque` and tuples of any length.

    Attributes:
        item: Of each item.
        cls: What is made of the list; also what its values are looked up by.
        make: Makes it, or `None` where the list will do.
    """

    item: Form
    cls: type[Any]
    make: Callable[[list[Any]], Any] | None

    def wanted(self) -> str:
        """An array."""
        return "an array"

    def kinds(self) -> Kinds:
        """Arrays."""
        return ARRAYS

    def converts(self) -> bool:
        """Makes anything else than a list."""
        return self.make is not None

    def writes(self) -> bool:
        """Makes a list of anything else."""
        return self.cls is not list

    def is_hashable(self) -> bool:
        """A tuple of hashable items."""
        return self.cls is tuple and self.item.is_hashable()

    def parts(self) -> Sequence[Form]:
        """The item's."""
        return (self.item,)

    def schema(self, writer: Writer) -> JsonSchema:
        """An array of the item's schema."""
        items = writer.write(self.item)
        return {"type": "array", "items": items} if items else {"type": "array"}

    def structure(self) -> Hook:
        """Structures each item."""
        hook, make = self.item.structure(), self.make
        if make is None:
            return lambda value: structure_items(hook, value)
        return lambda value: make(structure_items(hook, value))

    def unstructure(self) -> Hook | None:
        """A list of the items, each unstructured."""
        return _unstructure_items(self.item.unstructure(), copies=self.writes())

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """Instances of the class whose items look right, but never text."""
        if not isinstance(value, self.cls) or isinstance(value, str | bytes):
            return False
        return depth == 0 or all(self.item.owns(item, depth - 1) for item in value)


@frozen(eq=False)
class TupleForm(Form):
    """A tuple of fixed length.

    Attributes:
        items: Of each place.
    """

    items: tuple[Form, ...]

    def wanted(self) -> str:
        """So many items."""
        return f"an array of {counted(len(self.items), 'item')}"

    def kinds(self) -> Kinds:
        """Arrays."""
        return ARRAYS

    def is_hashable(self) -> bool:
        """If all items are."""
        return all(each.is_hashable() for each in self.items)

    def parts(self) -> Sequence[Form]:
        """Of the places."""
        return self.items

    def schema(self, writer: Writer) -> JsonSchema:
        """An array with a schema for each place, and no other items."""
        if not self.items:
            return {"type": "array", "maxItems": 0}
        count = len(self.items)
        places = [writer.write(each) for each in self.items]
        return {"type": "array", "prefixItems": places, "items": False, "minItems": count, "maxItems": count}

    def structure(self) -> Hook:
        """Structures each place."""
        hooks, count, wanted = [each.structure() for each in self.items], len(self.items), self.wanted()

        def structure_tuple(value: Any) -> tuple[Any, ...]:
            if type(value) not in ARRAYS:
                raise mismatch(value, "an array")
            if len(value) != count:
                raise StructureError(f"must be {wanted}, got {len(value)}")
            done: list[Any] = []
            try:
                for hook, item in zip(hooks, value, strict=True):
                    done.append(hook(item))
            except StructureError as error:
                raise error.below(len(done)) from error.__cause__
            return tuple(done)

        return structure_tuple

    def unstructure(self) -> Hook | None:
        """A list of the items, each unstructured."""
        hooks = [each.unstructure() for each in self.items]

        def unstructure_tuple(value: Any) -> list[Any]:
            return [hook(item) if hook else item for hook, item in zip(hooks, value, strict=True)]

        return unstructure_tuple if any(hooks) else list

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """Tuples of the length, whose items look right."""
        if tuple not in type(value).__mro__ or len(value) != len(self.items):
            return False
        return depth == 0 or all(each.owns(item, depth - 1) for each, item in zip(self.items, value, strict=True))


@frozen(eq=False)
class SetForm(Form):
    """`set` and `frozenset`.

    Items that differ as JSON and are equal in Python (`1` and `true`, two spellings of one path) are refused, so
    that nothing is lost unsaid.

    Attributes:
        item: Of each item.
        cls: `set` or `frozenset`.
    """

    item: Form
    cls: type[Any]

    def wanted(self) -> str:
        """An array."""
        return "an array"

    def kinds(self) -> Kinds:
        """Arrays."""
        return ARRAYS

    def is_hashable(self) -> bool:
        """If it is frozen."""
        return self.cls is frozenset

    def parts(self) -> Sequence[Form]:
        """The item's."""
        return (self.item,)

    def schema(self, writer: Writer) -> JsonSchema:
        """An array of the item's schema, each different."""
        items = writer.write(self.item)
        return {"type": "array", **({"items": items} if items else {}), "uniqueItems": True}

    def structure(self) -> Hook:
        """Structures each item."""
        hook, cls = self.item.structure(), self.cls
        # Only arrays and objects can be equal as JSON and made into what isn't equal in Python.
        compares = bool(self.item.kinds() & (ARRAYS | OBJECTS))

        def structure_set(value: Any) -> Any:
            items = structure_items(hook, value)
            try:
                made = cls(items)
            except TypeError as error:
                raise StructureError("must be an array of hashable items") from error
            if len(made) != len(items) or (compares and _has_equals(value)):
                raise StructureError("must not hold the same item twice")
            return made

        return structure_set

    def unstructure(self) -> Hook | None:
        """A list of the items, each unstructured, in order."""
        hook = self.item.unstructure()
        if hook is None:
            return lambda value: in_order(list(value))
        return lambda value: in_order([hook(item) for item in value])

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:
        """Sets of either kind whose items look right."""
        if type(value) not in (set, frozenset):
            return False
        return depth == 0 or all(self.item.owns(item, depth - 1) for item in value)


def _has_equals(items: Sequence[Any]) -> bool:
    return len({canonical_json(item) for item in items}) != len(items)


def _unstructure_items(hook: Hook | None, *, copies: bool) -> Hook | None:
    if hook is not None:
        return lambda value: [hook(item) for item in value]
    return _as_list if copies else None


def _as_list(value: Iterable[Any]) -> list[Any]:
    return list(value)
