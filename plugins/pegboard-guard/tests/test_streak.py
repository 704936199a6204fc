from __future__ import annotations

import threading

from hypothesis import given, strategies as st

from pegboard_guard.streak import Streaks

calls = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")))


@given(calls)
def test_it_counts_what_each_session_does_in_a_row(made):
    streaks = Streaks()
    for place, (session, call) in enumerate(made):
        own = [said for who, said in made[: place + 1] if who == session]
        expected = 0
        while expected < len(own) and own[-1 - expected] == call:
            expected += 1
        assert streaks.count(session, call) == expected


def test_the_session_that_has_been_silent_the_longest_is_forgotten():
    streaks = Streaks(most=2)
    for session in ("first", "second", "first", "third"):
        streaks.count(session, "call")
    assert streaks.count("first", "call") == 3
    assert streaks.count("second", "call") == 1


def test_threads_lose_no_call():
    streaks = Streaks()

    def call():
        for _ in range(200):
            streaks.count("session", "call")

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert streaks.count("session", "call") == 801
