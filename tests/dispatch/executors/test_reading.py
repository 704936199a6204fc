from __future__ import annotations

import pytest

from pegboard.dispatch.executors.reading import NOTHING, NUMBER, TEXT, WHOLE, read

TYPES = {"name": TEXT, "count": WHOLE, "size": NUMBER + NOTHING}


def test_known_facts_are_read_and_others_passed_over():
    assert read({"name": "a", "size": None, "more": 1}, TYPES, "name") == {"name": "a", "size": None}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "expected an object, found list"),
        ({}, "name: missing"),
        ({"name": 1}, "name: expected a text, found int"),
        ({"name": "a", "count": True}, "count: expected a whole number, found bool"),
        ({"name": "a", "size": "1"}, "size: expected a whole number or a number or null, found str"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(data, problem):
    with pytest.raises(ValueError, match=f"^{problem}$"):
        read(data, TYPES, "name")
