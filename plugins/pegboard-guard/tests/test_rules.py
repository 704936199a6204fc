"""Rules on calls: names, scopes, what is remembered, and limits."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given, strategies as st

from pegboard import Deny, ReadonlyContext, ToolRegistry, ToolResult, register_plugin, tool
from pegboard_guard import CallLimits, Limit
from pegboard_guard.rules import Call, LimitTracker, Names, Recent, course_of, listed, scope_of, streak_of


def test_a_name_matches_one_of_the_patterns():
    tools = Names(["web_*", "mai?"])
    assert [name in tools for name in ("web_read", "web_", "mail", "mails", "web", "mail")] == [
        *(True, True, True, False, False),
        True,
    ]


def test_a_list_reads_as_one_says_it():
    assert (listed("a"), listed("ab"), listed("abc", "and")) == ("a", "a or b", "a, b and c")
    assert str(Names(["a", "b"])) == "a or b"


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


EMPTY_CONTEXT = ReadonlyContext()


@pytest.mark.parametrize("per", ["session", "user", "registry"])
def test_calls_that_name_nothing_count_together(per):
    assert scope_of(EMPTY_CONTEXT, per) == scope_of(ReadonlyContext(agent="x"), per) is not None


def test_a_turn_is_an_invocation_or_else_a_message_of_the_models():
    assert scope_of(EMPTY_CONTEXT, "turn") is None
    turn = scope_of(ReadonlyContext(session="s", invocation="i", message="m1"), "turn")
    assert turn == scope_of(ReadonlyContext(session="s", invocation="i", message="m2"), "turn")
    assert turn != scope_of(ReadonlyContext(session="other", invocation="i"), "turn")
    assert (
        scope_of(ReadonlyContext(message="m1"), "turn") != scope_of(ReadonlyContext(message="m2"), "turn") is not None
    )


def test_a_message_is_no_course_of_a_turn():
    """What came first came in an earlier message."""
    assert course_of(ReadonlyContext(message="m"), "turn") is None
    assert course_of(ReadonlyContext(invocation="i"), "turn") is not None
    assert course_of(EMPTY_CONTEXT, "session") is not None


def test_a_row_is_the_sessions_or_else_the_turns():
    assert streak_of(EMPTY_CONTEXT) is None
    assert streak_of(ReadonlyContext(session="s", invocation="i")) == streak_of(ReadonlyContext(session="s"))
    assert streak_of(ReadonlyContext(invocation="i")) is not None


@tool
async def web_search(about: str = "") -> str:
    """Search."""
    return about


@tool
async def web_read() -> str:
    """Read."""
    return "read"


@tool
async def note() -> str:
    """Note."""
    return "noted"


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def board(*limits, clock=None):
    registry = ToolRegistry()
    registry.register(web_search, web_read, note)
    guard = CallLimits(*limits, clock=clock or Clock())
    assert register_plugin(registry, guard, "limits").status == "loaded"
    return registry


def at(**facts):
    return ReadonlyContext(**facts)


def kinds(registry, names, context=None):
    return [registry.call_sync(name, {}, context).kind for name in names]


def denial(registry, name, context=None):
    result = registry.call_sync(name, {}, context)
    assert result.kind == "denied"
    return result.text


# What is counted together ---------------------------------------------------------------------------------------------


def test_so_many_calls_and_no_more():
    registry = board(Limit(2, "web_*"))
    assert kinds(registry, ["web_search", "web_read", "note", "web_search", "web_read", "note"]) == [
        None,
        None,
        None,
        "denied",
        "denied",
        None,
    ]


def test_each_tool_for_itself():
    registry = board(Limit(1, "web_*", each=True))
    assert kinds(registry, ["web_search", "web_read", "web_search", "web_read"]) == [None, None, "denied", "denied"]


@pytest.mark.parametrize("per", ["session", "user", "turn"])
def test_what_is_counted_apart(per):
    registry = board(Limit(1, per=per))
    field = {"turn": "invocation"}.get(per, per)
    for name in ("a", "b"):
        assert kinds(registry, ["note", "note"], at(**{field: name})) == [None, "denied"]


def test_a_registrys_calls_count_all_together():
    registry = board(Limit(2, per="registry"))
    assert [kinds(registry, ["note"], at(session=name, user=name))[0] for name in "abc"] == [None, None, "denied"]


def test_calls_without_a_session_are_one_session():
    assert kinds(board(Limit(1)), ["note", "note"]) == [None, "denied"]


def test_a_batch_is_a_turn_where_the_host_names_no_other():
    registry = board(Limit(1, per="turn"))
    assert kinds(registry, ["note", "note"], at(message="m1")) == [None, "denied"]
    assert kinds(registry, ["note"], at(message="m2")) == [None]


def test_where_no_turn_is_named_a_turns_limit_lets_all_through_and_the_operator_is_told_once(caplog):
    registry = board(Limit(1, "no*", per="turn"))
    assert kinds(registry, ["note"] * 4) == [None] * 4
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "the limit of 1 calls of no* counts by turns, and a call came that names none"
    )


def test_all_limits_have_to_be_kept_and_a_refused_call_takes_from_none():
    registry = board(Limit(3), Limit(1, "web_*"))
    assert kinds(registry, ["web_search", "web_search", "web_search", "note", "note", "note"]) == [
        None,
        "denied",
        "denied",
        None,
        None,
        "denied",
    ]


# Time -----------------------------------------------------------------------------------------------------------------


def test_so_many_calls_within_a_time_that_slides_on():
    clock = Clock()
    registry = board(Limit(2, "web_*", seconds=10), clock=clock)
    for now, expected in [(100, None), (104, None), (109.9, "denied"), (110, None), (113.9, "denied"), (114, None)]:
        clock.now = now
        assert kinds(registry, ["web_search"]) == [expected], now


@given(st.lists(st.floats(0, 5), max_size=40), st.integers(1, 5), st.floats(0.5, 10))
def test_no_time_holds_more_than_there_may_be(pauses, calls, seconds):
    """And none is refused without need."""
    tracker = LimitTracker(Limit(calls, seconds=seconds))
    now, let_through = 0.0, []
    for pause in pauses:
        now += pause
        call = Call("note", ReadonlyContext(), now)
        within = [when for when in let_through if now - when < seconds]
        refused = tracker.refusal(call) is not None
        assert refused == (len(within) >= calls)
        if not refused:
            tracker.begin(call)
            let_through.append(now)


# What the model reads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (
            Limit(1, "web_*", per="turn"),
            (
                "1 call of web_* may be made in one turn, and that is used up. "
                "It may be called again in the next turn, once the user has spoken; until then, go on without it."
            ),
        ),
        (
            Limit(1, ["web_search", "web_read"]),
            (
                "1 call of web_search or web_read may be made in one session, and that is used up. "
                "It may be called no more in this session; go on without it."
            ),
        ),
        (
            Limit(1, "web_*", per="user", each=True),
            (
                "1 call of web_search may be made for one user, and that is used up. "
                "It may be called no more for this user; go on without it."
            ),
        ),
        (
            Limit(1, per="registry"),
            "1 call may be made, and that is used up. It may be called no more; go on without it.",
        ),
        (
            Limit(1, per="session", seconds=60),
            (
                "1 call may be made in one session within 60 s, and that is used up. It may be called again in 60 s; "
                "until then, go on without it."
            ),
        ),
    ],
)
def test_the_refusal_tells_when_it_may_be_made_again(limit, text):
    registry = board(limit)
    context = at(session="s", invocation="i", user="u")
    registry.call_sync("web_search", {}, context)
    assert denial(registry, "web_search", context) == f"web_search was denied: {text}"


def test_the_time_to_wait_is_rounded_up():
    clock = Clock()
    registry = board(Limit(2, seconds=60), clock=clock)
    kinds(registry, ["note", "note"])
    clock.now += 59.2
    assert "2 calls may be made in one session within 60 s" in denial(registry, "note")
    assert "again in 1 s;" in denial(registry, "note")


# Calls that didn't run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [None, 60])
@pytest.mark.parametrize(
    "answer", [Deny("no"), ToolResult.error("rejected", "no"), ToolResult.error("confirmation_required", "wait")]
)
def test_a_call_that_did_not_run_gives_back_what_it_took(seconds, answer):
    registry = board(Limit(1, seconds=seconds))
    with registry.add_callback("before_tool", lambda: answer):
        assert registry.call_sync("note").is_error
    assert kinds(registry, ["note", "note"]) == [None, "denied"]


def test_a_call_that_failed_has_used_it():
    @tool
    async def fail() -> None:
        """Fail."""
        raise OSError

    registry = board(Limit(1))
    registry.register(fail)
    assert kinds(registry, ["fail", "note"]) == ["tool_failure", "denied"]


def test_what_is_given_back_after_it_was_forgotten_does_nothing():
    clock = Clock()
    tracker = LimitTracker(Limit(1, seconds=1))
    call = Call("note", ReadonlyContext(), 0.0)
    token = tracker.begin(call)
    assert tracker.refusal(Call("note", ReadonlyContext(), 5.0)) is None
    denied = ToolResult.error("denied", "no")
    tracker.end(call, token, denied)
    tracker.end(call, ("never seen", clock()), denied)


# Bounds ---------------------------------------------------------------------------------------------------------------


def test_memory_is_bounded():
    for limit, most in ((Limit(1), 1000), (Limit(100_000, seconds=60), 10), (Limit(2000, seconds=60), 500)):
        tracker = LimitTracker(limit)
        for session in range(most + 5):
            tracker.begin(Call("note", at(session=str(session)), 0.0))
        assert len(tracker._tallies) == most


def test_calls_at_once_are_counted():
    registry = board(Limit(3))

    async def main():
        return await asyncio.gather(*(registry.call("note") for _ in range(10)))

    assert [result.kind for result in asyncio.run(main())].count(None) == 3


def test_threads_count_together():
    registry = board(Limit(50))
    went = []
    threads = [threading.Thread(target=lambda: went.extend(kinds(registry, ["note"] * 20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert went.count(None) == 50


def test_two_guards_on_one_board_keep_their_books_apart():
    registry = board(Limit(2))
    register_plugin(registry, CallLimits(Limit(1, "web_*")), "more")
    assert kinds(registry, ["web_read", "web_read", "note", "note"]) == [None, "denied", None, "denied"]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"calls": 0}, ValueError, "calls must be from 1 to 100000, got 0"),
        ({"calls": 1.5}, TypeError, "calls must be a whole number, got 1.5"),
        ({"per": "day"}, ValueError, "per must be one of 'turn', 'session', 'user', 'registry', got 'day'"),
        ({"seconds": 0}, ValueError, "seconds must be a number of seconds from 0.001 on, got 0"),
        ({"seconds": float("nan")}, ValueError, "seconds must be a number"),
        ({"seconds": "60"}, TypeError, "seconds must be a number of seconds, got '60'"),
        ({"tools": []}, ValueError, "tools must name something"),
        ({"tools": [1]}, TypeError, "tools must be a text or a list of texts"),
        ({"each": "yes"}, TypeError, "each must be true or false, got 'yes'"),
    ],
)
def test_wrong_settings_are_refused(settings, error, text):
    with pytest.raises(error, match=text):
        Limit(**{"calls": 1, **settings})
