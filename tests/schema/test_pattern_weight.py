from __future__ import annotations

import pytest

from pegboard.schema.validator import LIGHT_PLACES, pattern_weight


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[ab]*$",
        r"^\d{4}-\d{2}-\d{2}$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        "^[a-zA-Z_][a-zA-Z0-9_]{0,63}$",
        "^.{1,1000}$",
        r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$",
        "^[a-z0-9]+(?:-[a-z0-9]+)*$",
        "a" * LIGHT_PLACES,
    ],
)
def test_ordinary_patterns_cost_one_step_a_character(pattern):
    assert pattern_weight(pattern) == 1


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        ("a[ab]{300}d", 302),
        ("a" * (LIGHT_PLACES + 1), LIGHT_PLACES + 1),
        ("(a{10}){10}", 100),
        ("((?:ab{2}){3}){4}", 36),
        ("[ab]{5}{6}", 30),
        ("a[ab]{20,}", 22),
        ("a{10,30}?b", 31),
        (r"\p{L}{20}\x{41}\}", 22),
        ("a{0000000000000300}", 300),
        ("^[ab]*a[ab]{30}$", 32),
        ("(?P<year>a{7}|b{7})", 14),
        (r"[\]]{20}", 20),
    ],
)
def test_repetitions_by_number_count_as_often_as_they_repeat(pattern, places):
    assert pattern_weight(pattern) == places


def test_a_quantifier_hides_neither_in_a_comment_nor_behind_a_bracket():
    assert pattern_weight("(?x) [ab] { 3 #\n 00}") >= 300
    assert pattern_weight("[]a[ab]{300}d]") >= 300
    assert pattern_weight("a{0}" * 20 + ")") == 20
    assert pattern_weight(")a{300}") == 300
