from __future__ import annotations

import pytest

from pegboard.schema.problems import counted, kind_shown, listed, problem, shown


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "(root): bad"),
        (("limit",), "limit: bad"),
        (("filters", 0, "value"), "filters[0].value: bad"),
        ((3, "a"), "[3].a: bad"),
        (("odd key", "a.b"), '["odd key"]["a.b"]: bad'),
        (("a", "class"), "a.class: bad"),
    ],
)
def test_a_problem_is_its_path_and_reason(path, text):
    assert problem(path, "bad") == text


def test_a_long_name_in_a_path_is_cut_short():
    assert len(problem(("k" * 1000,), "bad")) < 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ("zwölf", '"zwölf"'),
        ("a\n\x00b", '"a\\n\\u0000b"'),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ([1], "an array"),
        ((1,), "an array"),
        ({"a": 1}, "an object"),
    ],
)
def test_values_are_shown_as_json(value, text):
    assert shown(value) == text


@pytest.mark.parametrize("value", ["x" * 1000, 10**200])
def test_long_values_are_cut_short(value):
    assert len(shown(value)) < 70
    assert "..." in shown(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [("25", 'string "25"'), (5, "number 5"), (False, "boolean false"), (None, "null"), ([], "an array")],
)
def test_the_kind_stands_before_the_value(value, text):
    assert kind_shown(value) == text


def test_long_lists_of_options_tell_how_many_more_there_are():
    assert listed([1, "a", None]) == '1, "a", null'
    assert listed(range(25)).endswith("18, 19 and 5 more")


def test_counts_agree_with_their_noun():
    assert counted(1, "item") == "1 item"
    assert counted(0, "item") == "0 items"
