from __future__ import annotations

import re

from hypothesis import given, strategies as st

from pegboard.wire.ids import SentIds
from pegboard_openai._openai import REFUSED_IN_IDS as REFUSED_BY_OPENAI

REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
ANY_ID = st.text(max_size=8) | st.sampled_from(["call_1", "call_1_2", "a" * 50, "a" * 40, "\ud800", ""])


def test_an_id_that_the_provider_takes_stays_as_it_is():
    ids = SentIds(REFUSED, 64)

    assert ids.call("toolu_1") == "toolu_1"
    assert ids.result("toolu_1") == "toolu_1"


def test_an_id_that_it_does_not_take_is_mapped_the_same_for_call_and_result():
    ids = SentIds(REFUSED, 64)

    mapped = ids.call("fc|1")

    assert re.fullmatch(r"fc_1_[0-9a-f]{10}", mapped)
    assert ids.result("fc|1") == mapped


def test_ids_that_look_alike_once_mapped_stay_apart():
    ids = SentIds(REFUSED, 64)

    assert len({ids.call(own) for own in ("a b", "a.b", "a_b", "", "x" * 65, "x" * 66)}) == 6


def test_an_id_that_comes_again_in_a_later_turn_gets_a_number():
    ids = SentIds(REFUSED, 64)
    ids.call("call_0")
    ids.turn()

    assert ids.call("call_0") == "call_0_2"
    assert ids.result("call_0") == "call_0_2"


def test_results_answer_calls_of_one_id_in_their_order():
    ids = SentIds(REFUSED, 64)
    made = [ids.call("a"), ids.call("a")]

    assert [ids.result("a"), ids.result("a")] == made


def test_a_result_of_no_open_call_has_no_id():
    ids = SentIds(REFUSED, 64)
    ids.call("a")
    ids.turn()

    assert ids.result("a") is None
    assert ids.result("b") is None


def test_a_number_that_another_has_is_passed_over():
    ids = SentIds(REFUSED, 64)

    assert [ids.call(own) for own in ("a", "a_2", "a", "a_2")] == ["a", "a_2", "a_3", "a_2_2"]


def test_a_number_finds_room_in_a_long_id():
    ids = SentIds(REFUSED, 8)

    assert [ids.call("a" * 8) for _ in range(3)] == ["a" * 8, "aaaaaa_2", "aaaaaa_3"]


def test_ids_that_hold_what_utf8_cant_say_are_mapped():
    ids = SentIds(REFUSED_BY_OPENAI, 40)

    assert re.fullmatch(r"a__[0-9a-f]{10}", ids.call("a\ud800"))
    assert ids.call("a|b") == "a|b"


@given(st.lists(st.text(max_size=70), max_size=30))
def test_every_call_has_an_id_of_its_own_that_the_provider_takes(own):
    ids = SentIds(REFUSED, 64)

    made = [ids.call(each) for each in own]

    assert len(set(made)) == len(own)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in made)
    assert [ids.result(each) for each in own] == made


@given(st.lists(ANY_ID, max_size=20), st.integers(30, 64))
def test_a_longer_conversation_begins_with_the_same_ids(own, most):
    ids, shorter = SentIds(REFUSED_BY_OPENAI, most), SentIds(REFUSED_BY_OPENAI, most)
    made = [ids.call(each) for each in own]

    assert len(set(made)) == len(made)
    assert all(0 < len(each) <= most for each in made)
    assert [shorter.call(each) for each in own[:3]] == made[:3]
    assert sorted((ids.result(each) for each in own), key=made.index) == made


def test_twenty_thousand_calls_of_one_id_cost_no_square():
    ids = SentIds(REFUSED, 64)

    assert len({ids.call("call_0") for _ in range(20_000)}) == 20_000
