"""Where a demand is made of a form's parts, and the demands that are made of others: all, any, none, of items."""

from __future__ import annotations

import attrs
from attrs import frozen

from pegboard.tools.forms.among import Among
from pegboard.tools.forms.array import ListForm, SetForm
from pegboard.tools.forms.choice import ChoiceForm
from pegboard.tools.forms.constraint import ConstrainedForm, Constraint
from pegboard.tools.forms.demand import Bound, Demand, Length, Match, Multiple, NothingLeftError
from pegboard.tools.forms.form import Form
from pegboard.tools.forms.mapping import MappingForm, key_form
from pegboard.tools.forms.named import AliasForm, NotedForm
from pegboard.tools.forms.scalar import NULL
from pegboard.tools.forms.union import UnionForm
from pegboard.typing import JsonSchema


def constrained(form: Form, demand: Demand, *, spares_null: bool) -> Form | None:
    """The form of the values that meet a demand, or `None` where it says nothing of them.

    A demand on a union is made of each member that it says something of; the others stay as they are.

    Args:
        form: Of the values.
        demand: What is asked.
        spares_null: Whether null as a member of a union passes, as with `Annotated`; a validator of attrs is asked
            of it like of any value.

    Raises:
        NothingLeftError: No value meets it.
    """
    if isinstance(form, NotedForm):
        inner = constrained(form.form, demand, spares_null=spares_null)
        return None if inner is None else attrs.evolve(form, form=inner)
    if isinstance(form, AliasForm):
        return constrained(form.form, demand, spares_null=spares_null) if form.is_read() else None
    if isinstance(demand, Every):
        return _every(form, demand, spares_null=spares_null)
    if isinstance(demand, Spared):
        return constrained(form, demand.demand, spares_null=True)
    if isinstance(form, UnionForm):
        return _members(form, demand, spares_null=spares_null)
    return demand.on(form)


def _every(form: Form, demand: Every, *, spares_null: bool) -> Form | None:
    found: Form | None = None
    for each in demand.demands:
        found = constrained(found or form, each, spares_null=spares_null) or found
    return found


def _members(form: UnionForm, demand: Demand, *, spares_null: bool) -> Form | None:
    members: list[Form] = []
    for member in form.members:
        if spares_null and member is NULL:
            members.append(member)
            continue
        try:
            members.append(constrained(member, demand, spares_null=spares_null) or member)
        except NothingLeftError:
            continue
    if not members:
        raise NothingLeftError
    if len(members) == len(form.members) and all(map(_is, members, form.members)):
        return None
    return members[0] if len(members) == 1 else UnionForm(tuple(members))


def _is(one: Form, other: Form) -> bool:
    return one is other


@frozen
class Unknown(Demand):
    """A demand that only Python knows: its owner asks it."""

    def on(self, form: Form) -> Form | None:  # noqa: ARG002  (every demand's signature)
        """Says nothing."""
        return None


@frozen
class Every(Demand):
    """All of several demands (`and_`).

    Attributes:
        demands: One after the other.
    """

    demands: tuple[Demand, ...]


@frozen
class Spared(Demand):
    """A demand from which null is spared (`optional`).

    Attributes:
        demand: Of the rest.
    """

    demand: Demand


@frozen
class Either(Demand):
    """At least one of several demands (`or_`).

    Attributes:
        demands: Tried in order.
    """

    demands: tuple[Demand, ...]

    def on(self, form: Form) -> Form | None:
        """The union of what meets each."""
        found: list[Form] = []
        for each in self.demands:
            try:
                member = constrained(form, each, spares_null=False)
            except NothingLeftError:
                continue
            if member is None or member is form:
                return member
            found.append(member)
        if not found:
            raise NothingLeftError
        return found[0] if len(found) == 1 else UnionForm(tuple(found))


@frozen
class Neither(Demand):
    """The opposite of a demand (`not_`).

    Attributes:
        demand: What must not be met; of a value that it can't be asked of it isn't met.
    """

    demand: Demand

    def on(self, form: Form) -> Form | None:
        """What the schema of the demand refuses."""
        if not isinstance(self.demand, Among | Bound | Length | Match | Multiple):
            return None
        try:
            met = self.demand.on(form)
        except NothingLeftError:
            return form
        if met is form:
            raise NothingLeftError
        return None if met is None else self._opposite(form, met)

    def _opposite(self, form: Form, met: Form) -> Form | None:
        if isinstance(form, ChoiceForm) and isinstance(met, ChoiceForm):
            met_keys = {each.key for each in met.choices}
            left = [each for each in form.choices if each.key not in met_keys]
            if not left:
                raise NothingLeftError
            return ChoiceForm.of(left)
        if isinstance(met, ChoiceForm):
            return ConstrainedForm.of(form, _not({"enum": [each.json for each in met.choices]}, self.demand))
        if isinstance(met, ConstrainedForm) and (keywords := met.constraints[-1].keywords):
            return ConstrainedForm.of(form, _not(keywords, self.demand))
        return None


def _not(keywords: JsonSchema, demand: Demand) -> Constraint:
    return Constraint("must be another value", lambda value: not demand.accepts(value), {"not": keywords})


@frozen
class Items(Demand):
    """Demands on the items of an array, and on the array (`deep_iterable`).

    Attributes:
        items: Of each item.
        whole: Of the array, or `None`.
    """

    items: Demand
    whole: Demand | None

    def on(self, form: Form) -> Form | None:
        """With other items."""
        if isinstance(form, ConstrainedForm):
            return _inside(form, self)
        if form is NULL:
            raise NothingLeftError
        if not isinstance(form, ListForm | SetForm):
            return None
        item = _if_any_left(form.item, self.items)
        return _with_whole(attrs.evolve(form, item=item), self.whole)


@frozen
class Entries(Demand):
    """Demands on the keys and values of a mapping, and on the mapping (`deep_mapping`).

    Attributes:
        keys: Of each key, or `None`.
        values: Of each value, or `None`.
        whole: Of the mapping, or `None`.
    """

    keys: Demand | None
    values: Demand | None
    whole: Demand | None

    def on(self, form: Form) -> Form | None:
        """With other keys and values."""
        if isinstance(form, ConstrainedForm):
            return _inside(form, self)
        if form is NULL:
            raise NothingLeftError
        if not isinstance(form, MappingForm):
            return None
        key = _if_any_left(form.key, self.keys)
        item = _if_any_left(form.item, self.values)
        keys = key_form(key) or form.keys
        return _with_whole(attrs.evolve(form, key=key, keys=keys, item=item), self.whole)


def _if_any_left(form: Form, demand: Demand | None) -> Form:
    """What meets the demand; where nothing would, the form as it is: an empty array or object is still fine."""
    if demand is None:
        return form
    try:
        return constrained(form, demand, spares_null=False) or form
    except NothingLeftError:
        return form


def _with_whole(form: Form, demand: Demand | None) -> Form:
    return form if demand is None else constrained(form, demand, spares_null=False) or form


def _inside(form: ConstrainedForm, demand: Items | Entries) -> Form | None:
    inner = demand.on(form.form)
    if isinstance(inner, ConstrainedForm):
        return ConstrainedForm(inner.form, (*form.constraints, *inner.constraints))
    return None if inner is None else ConstrainedForm(inner, form.constraints)
