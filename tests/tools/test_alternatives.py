from __future__ import annotations

from pegboard.tools.alternatives import Alternative, mismatch, nearest
from pegboard.tools.judge import Judge


def test_of_many_alternatives_twenty_are_named():
    (found,) = nearest([Alternative({}, [mismatch(f"kind {index}", 1)]) for index in range(500)], 1)
    assert found.reason.startswith("must be kind 0 or kind 1 or ")
    assert found.reason.endswith(" or kind 19 or 480 others, got number 1")


def test_twenty_alternatives_are_all_named():
    (found,) = nearest([Alternative({}, [mismatch(f"kind {index}", 1)]) for index in range(20)], 1)
    assert found.reason.endswith(" or kind 18 or kind 19, got number 1")


def test_a_long_list_of_tags_is_cut_and_counted():
    members = [{"properties": {"k": {"enum": [f"{one}-{two}" for two in range(30)]}}} for one in range(30)]
    (found,) = Judge({"anyOf": members}).problems({"k": "no"})
    assert found.startswith('k: must be one of "0-0", "0-1"')
    assert found.endswith(" and 880 more")
