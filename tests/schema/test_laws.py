"""The law between schema and structuring: what one takes the other takes, and values come back as they were."""

from __future__ import annotations

import math
from typing import Any

import attrs
import jsonschema
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pegboard import schema_of
from pegboard.json import StructureError, json_text
from pegboard.schema import compiled, schemas
from pegboard.schema.structure import strict_structurer
from pegboard.schema.types import Property, object_schema
from pegboard.tools import json_or_text
from strategies import EACH_KIND, NAMES, VALIDATED, TypeCase, json_values, mutated, type_cases

wide = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])

few = settings(wide, max_examples=12)


def taken(schema: Any, value: Any) -> bool:
    return compiled(json_text(schema)).is_valid(value)


def structured(annotation: Any, value: Any) -> tuple[bool, Any]:
    try:
        return True, strict_structurer(annotation)(value)
    except StructureError as error:
        return False, error


def near(case: TypeCase) -> st.SearchStrategy[Any]:
    """JSON of the type, JSON with one thing wrong, and any JSON."""
    right = case.values.map(json_or_text)
    return right.flatmap(mutated) | right | json_values()


def check_round_trip(case: TypeCase, value: Any) -> None:
    """What is written is taken, and comes back as it was."""
    as_json = json_or_text(value)

    assert taken(schema_of(case.annotation), as_json)
    accepted, back = structured(case.annotation, as_json)
    assert accepted, back
    assert back == value or not case.faithful


def check_same_taken(case: TypeCase, value: Any) -> None:
    """Structuring takes exactly what the schema takes; what no schema can judge it refuses at its path."""
    schema = schema_of(case.annotation)
    accepted, found = structured(case.annotation, value)

    assert accepted == taken(schema, value) or (not case.structural and not accepted)
    assert taken(schema, value) == jsonschema.Draft202012Validator(schema).is_valid(value)
    if not accepted:
        at_fault = value
        for step in found.path[:-1]:  # the last may be a key that is missing
            at_fault = at_fault[step]
        assert found.reason


@given(st.lists(type_cases(leaves=3), min_size=1, max_size=4))
@settings(few)
def test_a_schema_depends_neither_on_those_written_before_nor_on_what_became_of_them(cases):
    beside = object_schema([Property(f"p{at}", case.annotation) for at, case in enumerate(cases)])
    backwards = object_schema([Property(f"p{at}", case.annotation) for at, case in enumerate(reversed(cases))])
    alone = [schema_of(case.annotation) for case in cases]

    for schema in (beside, backwards, *alone):
        assert compiled(json_text(schema))  # every reference has a target
    texts = [json_text(schema) for schema in alone]
    for part in [part for schema in alone for part in schemas(schema)]:
        part.clear()
    assert [json_text(schema_of(case.annotation)) for case in cases] == texts


@pytest.mark.parametrize("case", EACH_KIND, ids=str)
def test_each_kind_of_type_round_trips(case):
    given(case.values)(settings(few)(lambda value: check_round_trip(case, value)))()


@pytest.mark.parametrize("case", EACH_KIND, ids=str)
def test_each_kind_of_type_is_structured_if_its_schema_accepts(case):
    given(near(case))(settings(few)(lambda value: check_same_taken(case, value)))()


@wide
@given(st.data(), type_cases())
def test_composed_types_round_trip(data, case: TypeCase):
    check_round_trip(case, data.draw(case.values))


@wide
@given(st.data(), type_cases())
def test_composed_types_are_structured_if_their_schema_accepts(data, case: TypeCase):
    check_same_taken(case, data.draw(near(case)))


@wide
@given(type_cases())
def test_schemas_are_valid(case: TypeCase):
    assert jsonschema_rs.meta.is_valid(schema_of(case.annotation))


@wide
@given(st.data(), st.dictionaries(NAMES, type_cases(textual=False, leaves=2), max_size=3))
def test_an_object_is_accepted_if_its_properties_are(data, cases: dict[str, TypeCase]):
    optional = data.draw(st.sets(st.sampled_from(sorted(cases)))) if cases else set()
    schema = object_schema(
        [
            Property(name, case.annotation, **({"default": math.nan} if name in optional else {}))
            for name, case in cases.items()
        ]
    )
    value = data.draw(
        st.fixed_dictionaries(
            {name: near(case) for name, case in cases.items() if name not in optional},
            optional={name: near(case) for name, case in cases.items() if name in optional} | {"other": st.just(1)},
        )
    )

    fits = all(name in cases and taken(schema_of(cases[name].annotation), item) for name, item in value.items())

    assert jsonschema_rs.meta.is_valid(schema)
    assert taken(schema, value) == fits


@pytest.mark.parametrize(("annotation", "validator"), VALIDATED)
def test_a_validator_and_its_schema_accept_the_same(annotation, validator):
    cls = attrs.make_class("Made", {"x": attrs.field(type=annotation, validator=validator)})
    short = st.integers(-6, 12) | st.sampled_from(["a", "b", "c", "bb", "abc", "red", 0.5, 1.0, 2.5, True, None])
    items = short | st.lists(short, max_size=3) | st.dictionaries(st.sampled_from(["", "k", "l", "m"]), short)

    @settings(wide)
    @given(items)
    def same(item):
        accepted, _ = structured(cls, {"x": item})
        assert accepted == taken(schema_of(cls), {"x": item})

    same()
