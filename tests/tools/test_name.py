from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pegboard.errors import InvalidNameError
from pegboard.tools.spec import MAX_LENGTH, check_name, is_valid_name, mapped_name

VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)


@pytest.mark.parametrize("name", ["a", "_", "read_file", "get", "constructor", "__class__", "x-1", "a" * MAX_LENGTH])
def test_ordinary_names_are_valid(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "a.b", "größe", "a" * 65, "a\n", "٣", "a\u0000"])
def test_what_some_provider_refuses_is_no_name(name):
    with pytest.raises(InvalidNameError) as caught:
        check_name(name)
    assert caught.value.name == name
    assert "name=" in str(caught.value)


@given(st.text(max_size=70))
def test_validity_is_the_written_rule(name):
    assert is_valid_name(name) == bool(VALID.fullmatch(name))


@given(st.text())
def test_every_foreign_name_gets_a_valid_one(foreign):
    assert is_valid_name(mapped_name(foreign))


@given(st.lists(st.text(alphabet="ab_-. ", max_size=6), unique=True))
def test_two_foreign_names_get_two_names(foreign):
    assert len({mapped_name(each) for each in foreign}) == len(foreign)


def test_a_name_that_is_valid_stays():
    assert mapped_name("read_file") == "read_file"


def test_a_mapped_name_stays_readable():
    assert re.fullmatch(r"files_read_text_[0-9a-f]{10}", mapped_name("files.read text"))
    assert mapped_name("1st").startswith("_1st_")


def test_a_name_that_looks_like_a_mapped_one_cannot_take_its_place():
    mapped = mapped_name("files.read")
    assert mapped_name(mapped) != mapped


def test_long_names_that_differ_at_the_end_stay_apart():
    assert mapped_name("a" * 100 + "b") != mapped_name("a" * 100 + "c")
