from __future__ import annotations

import json
import time
from random import Random

import pytest
from hypothesis import given, strategies as st

from pegboard.schema import validator_of
from pegboard_lock import compare_arguments
from schema_pairs import (
    CROSSED,
    NARROWER,
    TEXT,
    WHOLE,
    one,
    properties,
    random_object,
    random_value,
    with_changes,
)


def _takes(schema, text):
    return validator_of(json.dumps(schema)).accepts(json.loads(text))


_MEMBERS = tuple(f"v{number}" for number in range(200))


def _alternative(name, part):
    return properties(("kind",), kind={"const": name}, value=part)


def _draft_7(part, pattern, other):
    own = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"t": {**TEXT, "pattern": pattern}}}
    return {**properties(("a", "n"), a=part, n=other), **own}


def _tree(leaf):
    return properties(leaf=leaf, parts={"type": "array", "items": {"$ref": "#/$defs/t"}})


def _endless():
    """A schema that no finite value fits, with very many ways to try."""
    parts = {name: {"$ref": "#/$defs/t"} for name in "abcdefghij"}
    return {**one({"$ref": "#/$defs/t"}), "$defs": {"t": properties(tuple(parts), **parts)}}


def _deep_arrays():
    """A schema whose smallest value has a thousand million items."""
    part = WHOLE
    for _ in range(3):
        part = {"type": "array", "items": part, "minItems": 1000}
    return one(part)


def test_there_are_sixty_pairs():
    assert len(NARROWER) + len(CROSSED) == 60


@pytest.mark.parametrize("name", NARROWER)
def test_a_schema_that_takes_less_is_narrowed_and_read_the_other_way_widened(name):
    wide, narrow = NARROWER[name]
    narrowed, widened = compare_arguments(wide, narrow), compare_arguments(narrow, wide)
    assert (narrowed.kind, widened.kind) == ("narrowed", "widened")
    assert narrowed.only_new is widened.only_old is None
    for value in (narrowed.only_old, widened.only_new):
        assert _takes(wide, value)
        assert not _takes(narrow, value)


@pytest.mark.parametrize("name", CROSSED)
def test_schemas_that_each_take_something_else_are_incompatible_both_ways(name):
    one_way, other_way = CROSSED[name]
    for old, new in ((one_way, other_way), (other_way, one_way)):
        change = compare_arguments(old, new)
        assert change.kind == "incompatible"
        assert _takes(old, change.only_old)
        assert not _takes(new, change.only_old)
        assert _takes(new, change.only_new)
        assert not _takes(old, change.only_new)


def test_notes_are_no_change():
    old = properties(a={**TEXT, "description": "old", "default": "x"}, description=TEXT)
    new = properties(a={**TEXT, "description": "new", "examples": ["y"]}, description=TEXT)
    assert compare_arguments(old, {**new, "title": "T"}) is None


def test_a_change_that_no_value_shows_is_incompatible():
    for old, new in (({"format": "date"}, {"format": "uuid"}), ({}, {"format": "uuid"})):
        change = compare_arguments(one({**TEXT, **old}), one({**TEXT, **new}))
        assert (change.kind, str(change)) == ("incompatible", "no value was found that shows how it differs")


def test_a_part_that_takes_less_hides_no_other_that_may_take_more():
    """The pattern takes a text more, which no sample is; alone the maximum would be a narrowing."""
    old = properties(("a", "n"), a={**TEXT, "pattern": "^[a-z]+$"}, n={**WHOLE, "maximum": 9})
    new = properties(("a", "n"), a={**TEXT, "pattern": "^([a-z]+|[0-9]{7}!)$"}, n={**WHOLE, "maximum": 5})
    assert compare_arguments(old, new).kind == "incompatible"
    assert compare_arguments(one(old), one(new)).kind == "incompatible"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            one({**TEXT, "pattern": "^b"}),
            one({**TEXT, "pattern": "^[0-9]{7}!$"}),
            id="no value is found that the new one takes",
        ),
        pytest.param(
            properties(("a", "n"), a={**TEXT, "pattern": "^[0-9]{7}!$"}, n=WHOLE),
            properties(("n",), a={**TEXT, "pattern": "^[0-9]{7}!$"}, n={**WHOLE, "maximum": 5}),
            id="one that was required isn't, and no value is found with it",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {**TEXT, "minLength": 2}, "n": WHOLE}, "required": ["n"]},
            {"type": "object", "properties": {"n": {**WHOLE, "maximum": 5}}, "required": ["n"]},
            id="one is no longer checked, and another is more",
        ),
        pytest.param(
            one({"anyOf": [{**TEXT, "pattern": "^[a-z]+$"}, WHOLE]}),
            one({"anyOf": [{**TEXT, "pattern": "^([a-z]+|[0-9]{7}!)$"}, {**WHOLE, "maximum": 5}]}),
            id="of two alternatives one takes more",
        ),
        pytest.param(
            properties(("a",), a={"enum": [*_MEMBERS]}, n={**WHOLE, "maximum": 9}),
            properties(("a",), a={"enum": [*_MEMBERS, "zz"]}, n={**WHOLE, "maximum": 5}),
            id="one of many members of an enum is new",
        ),
        pytest.param(
            {**properties(**{name: {**WHOLE, "maximum": 9} for name in "abcdefgh"}), "maxProperties": 3},
            {**properties(**{name: {**WHOLE, "maximum": 5} for name in "abcdefgh"}), "maxProperties": 8},
            id="more properties at once, each with less",
        ),
        pytest.param(
            one({**TEXT, "maxLength": 50, "not": {"pattern": "^[0-9]{7}!$"}}),
            one({**TEXT, "maxLength": 20}),
            id="what was refused isn't, and it is shorter",
        ),
        pytest.param(
            one({"oneOf": [_alternative("a", TEXT), _alternative("b", WHOLE)]}),
            one({"oneOf": [_alternative("a", {**TEXT, "maxLength": 3}), _alternative("c", WHOLE)]}),
            id="of two alternatives one is another",
        ),
        pytest.param(
            one({"oneOf": [WHOLE, {"type": "number"}]}),
            one({"oneOf": [WHOLE]}),
            id="a value fitted two alternatives",
        ),
        pytest.param(
            {**properties(a=WHOLE, b=TEXT), "if": {"required": ["a"]}, "then": {"required": ["b"]}},
            properties(a={**WHOLE, "maximum": 5}, b=TEXT),
            id="a condition is gone",
        ),
        pytest.param(
            _draft_7({"$ref": "#/definitions/t"}, "^[a-z]+$", {**WHOLE, "maximum": 9}),
            _draft_7({"$ref": "#/definitions/t", "not": {}}, "^([a-z]+|[0-9]{7}!)$", {**WHOLE, "maximum": 5}),
            id="a keyword that its draft ignores beside a reference",
        ),
        pytest.param(
            _draft_7({"type": "array", "items": {"$ref": "#/definitions/t"}}, "^[a-z]+$", {**WHOLE, "maximum": 9}),
            _draft_7({"type": "array", "prefixItems": [False]}, "^[a-z]+$", {**WHOLE, "maximum": 5}),
            id="a keyword that its draft doesn't have",
        ),
    ],
)
def test_what_may_take_more_is_never_narrowed(old, new):
    assert compare_arguments(old, new).kind != "narrowed"
    assert compare_arguments(new, old).kind != "widened"


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        pytest.param(one({"enum": [*_MEMBERS]}), one({"enum": [*_MEMBERS][:150]}), id="an enum of many loses some"),
        pytest.param(
            {**properties(a={"$ref": "#/$defs/n"}, b=TEXT), "$defs": {"n": WHOLE}},
            {**properties(a={"$ref": "#/$defs/n"}, b=TEXT), "$defs": {"n": {**WHOLE, "maximum": 5}}},
            id="an optional property behind a reference",
        ),
        pytest.param(
            {**properties(t={"$ref": "#/$defs/t"}), "$defs": {"t": _tree(WHOLE)}},
            {**properties(t={"$ref": "#/$defs/t"}), "$defs": {"t": _tree({**WHOLE, "maximum": 5})}},
            id="in a recursive schema",
        ),
        pytest.param(
            one({"oneOf": [_alternative("a", TEXT), _alternative("b", WHOLE), _alternative("c", WHOLE)]}),
            one({"oneOf": [_alternative("a", TEXT), _alternative("b", WHOLE)]}),
            id="an alternative with a name of its own",
        ),
        pytest.param(
            one({"type": ["string", "null"], "maxLength": 9}),
            one({"anyOf": [{**TEXT, "maxLength": 3}, {"type": "null"}]}),
            id="written in another way",
        ),
        pytest.param(one(WHOLE), one({**WHOLE, "exclusiveMinimum": 2}), id="more than"),
        pytest.param(one({"multipleOf": 0.5}), one({"multipleOf": 1.5}), id="multiples of a fraction"),
        pytest.param(
            {"type": "object", "patternProperties": {"^x": TEXT}},
            {"type": "object", "patternProperties": {"^x": {**TEXT, "maxLength": 2}}, "additionalProperties": False},
            id="properties by their names",
        ),
        pytest.param(
            {"type": "object", "propertyNames": {"maxLength": 5}},
            {"type": "object", "propertyNames": {"maxLength": 3}},
            id="shorter names",
        ),
        pytest.param({"type": "object", "maxProperties": 6}, {"type": "object", "maxProperties": 5}, id="fewer"),
        pytest.param(
            one({"type": "array", "contains": {"type": "number"}, "maxContains": 3}),
            one({"type": "array", "contains": {"type": "number"}, "maxContains": 2, "minContains": 2}),
            id="more and less of a kind",
        ),
        pytest.param(
            {**properties(a=WHOLE, b=TEXT), "if": {"required": ["a"]}, "then": {"properties": {"b": {"maxLength": 5}}}},
            {**properties(a=WHOLE, b=TEXT), "if": {"required": ["a"]}, "then": {"properties": {"b": {"maxLength": 3}}}},
            id="under a condition",
        ),
        pytest.param(one({"not": {"type": "null"}}), one(TEXT), id="what is refused is of another type"),
        pytest.param(
            properties(is_open=True, a={**TEXT, "not": {"maxLength": 1}}),
            properties(is_open=True, a={**TEXT, "not": {"maxLength": 3}}),
            id="more is refused",
        ),
    ],
)
def test_what_keywords_prove_to_take_less_is_narrowed(wide, narrow):
    assert compare_arguments(wide, narrow).kind == "narrowed"
    assert compare_arguments(narrow, wide).kind == "widened"


def test_without_a_value_that_shows_it_nothing_is_widened():
    """Its keywords prove it, but no sample has such a text."""
    short, long = (one({**TEXT, "pattern": "^[0-9]{7}![0-9]*$", "maxLength": most}) for most in (19, 20))
    assert compare_arguments(long, short).kind == compare_arguments(short, long).kind == "incompatible"


def test_what_stands_in_a_pattern_is_tried():
    old, new = ({**TEXT, "pattern": each} for each in ("^[b-z]+$", "^([c-z]+|rm -rf /)$"))
    change = compare_arguments(one(old), one(new))
    assert "rm -rf /" in change.only_new


def test_a_schema_that_cant_be_used_is_incompatible():
    for bad in ({"type": "objekt"}, {"$ref": "#/nowhere"}, {"properties": {"a": 1}}):
        change = compare_arguments(one(TEXT), bad)
        assert change.kind == "incompatible"


def test_the_search_ends_at_its_deadline():
    change = compare_arguments(one(TEXT), one({**TEXT, "pattern": "^never$"}), deadline=time.monotonic() - 1)
    assert change.kind == "incompatible"


@pytest.mark.parametrize("deep", [_endless(), _deep_arrays()], ids=["no value is finite", "arrays of arrays"])
def test_the_search_ends_at_its_deadline_also_while_samples_are_sought(deep):
    started = time.process_time()
    change = compare_arguments(deep, {**deep, "minProperties": 1}, deadline=time.monotonic() + 0.3)
    assert change.kind == "incompatible"
    assert time.process_time() - started < 3


def test_large_schemas_are_compared_in_bounded_time():
    many = {f"p{n}": {**WHOLE, "maximum": n} for n in range(300)}
    started = time.process_time()
    change = compare_arguments(properties(**many), properties(**{**many, "p299": {**WHOLE, "maximum": 3}}))
    assert change.kind in ("narrowed", "incompatible")
    assert time.process_time() - started < 5


_PATTERNS = (
    *("^[a-z]+$", "^[a-y]+$", "^[a-z]{1,3}$", "^[a-z]{2}$", r"^[\w-]*$", "^[a-c]?$", "^[0-9a-f-]+$", r"^[\d]{2,}$"),
    *("^([a-y]+|zz)$", "^([a-w]+|[0-9]{7}!)$", "^a", "z$", "a|b", "^[^a]+$", "^[a-z]+", "^$"),
)
_FORMATS = ("date", "email", "uuid", "ipv4", "nonsense")
_TEXTS = (
    *("", "a", "b", "z", "zz", "ab", "abc", "abcd", "-", "A", "é", "a\n", "\n", "12", "0123456!", "1234567!", "x" * 9),
    *("2026-01-31", "2026-02-31", "a@b.org", "127.0.0.1", "12345678-1234-4234-8234-123456789abc"),
)
_SOME = (*_TEXTS, None, True, False, *range(-2, 12), 0.5, 5.5, [], ["a"], ["zz", 3], {}, {"b": "a"}, {"c": 3})
_NUMBERS = st.integers(-1, 10)
_BOUNDS = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBERS),
    "multipleOf": st.sampled_from((1, 2, 3, 4, 0.5)),
}
_OF_TEXTS = {
    "pattern": st.sampled_from(_PATTERNS),
    "format": st.sampled_from(_FORMATS),
    **dict.fromkeys(("minLength", "maxLength"), st.integers(0, 4)),
}
_LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(("integer", "number", ["integer", "null"]))}, optional=_BOUNDS),
    st.fixed_dictionaries({"type": st.just("string")}, optional=_OF_TEXTS),
    st.fixed_dictionaries({}, optional=_OF_TEXTS | _BOUNDS),
    st.builds(lambda members: {"enum": members}, st.lists(st.sampled_from(_SOME), min_size=1, unique_by=json.dumps)),
)


def _objects(parts):
    return st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from("abc"), parts)},
        optional={
            "type": st.just("object"),
            "required": st.sets(st.sampled_from("abc")).map(sorted),
            "additionalProperties": st.booleans() | parts,
        },
    )


_PARTS = st.recursive(
    _LEAVES,
    lambda parts: (
        st.builds(
            lambda key, several: {key: several},
            st.sampled_from(("anyOf", "allOf", "oneOf")),
            st.lists(parts, min_size=1, max_size=3),
        )
        | st.builds(lambda part: {"not": part}, parts)
        | st.builds(lambda part: {"type": "array", "items": part}, parts)
        | _objects(parts)
    ),
    max_leaves=4,
)


@st.composite
def _pairs(draw):
    """Two schemas, the second often the first with one change."""
    one_part, other = draw(_PARTS), draw(_PARTS)
    mixed = (
        {**one_part, **other} if draw(st.booleans()) else draw(st.sampled_from((other, {"anyOf": [one_part, other]})))
    )
    schemas = one(one_part), one(mixed)
    if draw(st.booleans()):
        schemas = tuple({**each, "additionalProperties": draw(st.booleans() | _LEAVES)} for each in schemas)
    return schemas if draw(st.booleans()) else schemas[::-1]


_OBJECTS = (
    *({"a": each} for each in _SOME),
    *({"a": {name: each}} for name in "abc" for each in _SOME),
    *({"a": [each]} for each in _SOME),
    *({"a": each, "b": other} for each in _SOME for other in (1, "a", "zz", None)),
)


def _check_law(old, new):
    """A change that is called narrowed takes no value that the old schema refuses, and the other way round."""
    takes_old, takes_new = (validator_of(json.dumps(each)).accepts for each in (old, new))
    both = [(takes_old(value), takes_new(value), value) for value in _OBJECTS]
    only_old, only_new = ([each[2] for each in both if each[:2] == way] for way in ((True, False), (False, True)))
    change = compare_arguments(old, new)
    kind = "same" if change is None else change.kind
    assert not (kind in ("same", "narrowed") and only_new), (kind, only_new)
    assert not (kind in ("same", "widened") and only_old), (kind, only_old)
    back = compare_arguments(new, old)
    mirror = {"widened": "narrowed", "narrowed": "widened", "incompatible": "incompatible", "same": "same"}
    assert mirror[kind] == ("same" if back is None else back.kind)


@given(_pairs())
def test_no_widening_is_called_narrowed_and_no_narrowing_widened(pair):
    _check_law(*pair)


@pytest.mark.parametrize("new", _PATTERNS)
def test_no_pattern_that_takes_another_text_is_narrowed(new):
    for old in _PATTERNS:
        _check_law(*(one({**TEXT, "pattern": each}) for each in (old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("^[a-z]+$", "^(?:[a-w]+|[0-9]{7}!)$"),
        ("^[a-z]+$", "^([a-y]|zz)*$"),
        ("^[b-z]+", "^[b-y]+"),
        ("^[a-z]+$", "^[a-y]+$|^[0-9]{9}-[0-9]{7}$"),
        ("^[a-z]+$", "^[a-yé]+$"),
        ("^[ -z]+$", "^[a-z]+$"),
        ("^[a-z]{2,1}$", "^[a-z]+$"),
    ],
)
def test_a_pattern_that_is_more_than_a_class_and_a_quantifier_is_incompatible(old, new):
    for pair in ((old, new), (new, old)):
        assert compare_arguments(*(one({**TEXT, "pattern": each}) for each in pair)).kind == "incompatible"


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"pattern": "^[A-Za-z0-9_.-]{1,64}$"}, {"pattern": "^[a-z0-9_-]{1,32}$"}),
        ({"pattern": r"^[\w-]+$"}, {"pattern": r"^[\d]+$"}),
        ({"pattern": "^[a-z]*$"}, {"pattern": "^[a-z]?$"}),
        ({"pattern": "^[a-z]{2,}$"}, {"pattern": "^[a-z]{3}$"}),
        ({"pattern": "^[a-z]{2,9}$"}, {"pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4}),
    ],
)
def test_patterns_of_a_class_and_a_quantifier_are_compared(wide, narrow):
    pair = one(TEXT | wide), one(TEXT | narrow)
    assert (compare_arguments(*pair).kind, compare_arguments(*pair[::-1]).kind) == ("narrowed", "widened")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 16))])
def test_no_random_pair_is_narrowed_if_a_value_is_only_in_the_new_one(seed):
    """By the same numbers each time; what `compare_arguments` tries isn't known here."""
    random = Random(seed)
    for _ in range(20):
        old = random_object(random)
        new = with_changes(random, old)
        takes_old, takes_new = (validator_of(json.dumps(each)).accepts for each in (old, new))
        values = [random_value(random, (*old["properties"], *new["properties"])) for _ in range(4_000)]
        only_old = [value for value in values if takes_old(value) and not takes_new(value)]
        only_new = [value for value in values if takes_new(value) and not takes_old(value)]
        change = compare_arguments(old, new)
        kind = "same" if change is None else change.kind
        assert not (kind == "same" and (only_old or only_new)), (old, new)
        assert not (kind == "narrowed" and only_new), (old, new, only_new[0])
        assert not (kind == "widened" and change.only_old), (old, new)


@given(st.sets(st.integers(0, 20), min_size=1), st.sets(st.integers(0, 20), min_size=1))
def test_enums_are_compared_as_sets(old, new):
    change = compare_arguments(*(one({"enum": sorted(each)}) for each in (old, new)))
    if old == new:
        assert change is None
    elif new < old:
        assert change.kind == "narrowed"
    elif old < new:
        assert change.kind == "widened"
    else:
        assert change.kind == "incompatible"
