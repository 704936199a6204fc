from __future__ import annotations

import pytest

from pegboard.dispatch.grapheme import boundary_after, boundary_before

WHOLE = ["e\u0301", "\r\n", "👩\u200d🚀", "🇩🇪", "👍🏽", "❤\ufe0f", "नि", "\u1112\u1161\u11ab", "가\u11a8"]


@pytest.mark.parametrize("character", WHOLE)
def test_a_character_of_several_code_points_is_not_torn(character):
    text = f"a{character}b"
    for place in range(2, 1 + len(character)):
        assert boundary_before(text, place) == 1
        assert boundary_after(text, place) == 1 + len(character)


@pytest.mark.parametrize("character", WHOLE)
def test_beside_it_the_text_may_be_cut(character):
    text = f"a{character}b"
    for place in (0, 1, 1 + len(character), len(text)):
        assert boundary_before(text, place) == boundary_after(text, place) == place


def test_flags_are_told_apart():
    """Letters of flags pair up from the left."""
    text = "🇩🇪🇫🇷🇮🇹"
    assert [boundary_before(text, place) for place in range(7)] == [0, 0, 2, 2, 4, 4, 6]


def test_ordinary_letters_may_be_parted():
    assert [boundary_before("aé漢b", place) for place in range(5)] == [0, 1, 2, 3, 4]


def test_a_pile_of_marks_without_end_is_torn():
    """Looking for its beginning would take for ever."""
    text = "a" + "\u0301" * 1_000
    assert boundary_before(text, 500) == 500
    assert boundary_after(text, 500) == 500


def test_a_pile_of_marks_at_either_end_belongs_to_it():
    text = "\u0301" * 10
    assert boundary_before(text, 5) == 0
    assert boundary_after(text, 5) == 10
