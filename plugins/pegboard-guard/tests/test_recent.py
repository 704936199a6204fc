from __future__ import annotations

from pegboard_guard.recent import Recent


def test_a_value_is_made_once_and_kept():
    kept = Recent(list)
    kept.of("a").append(1)
    assert kept.of("a") == [1]
    assert kept.known("a") == [1]


def test_looking_makes_nothing():
    kept = Recent(list)
    assert kept.known("a") is None
    assert len(kept) == 0


def test_the_one_left_alone_the_longest_is_forgotten_first():
    kept = Recent(list, most=2)
    for key in ("first", "second", "first", "third"):
        kept.of(key).append(key)
    assert kept.known("second") is None
    assert kept.known("first") == ["first", "first"]
    assert len(kept) == 2
