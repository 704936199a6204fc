"""Order of calls, and rules that contradict each other."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    Deny,
    ReadonlyContext,
    ToolCall,
    ToolError,
    ToolRegistry,
    ToolResult,
    register_plugin,
    run_turn,
    tool,
)
from pegboard.testing import ScriptedModel
from pegboard_guard import ComesAfter, ComesBefore, Cooldown, Exclusive, OrderRules, Required
from pegboard_guard.rules import Call

TURN = ReadonlyContext(session="s", invocation="i1")
NEXT = ReadonlyContext(session="s", invocation="i2")


def named(name, *, fails=False):
    async def function() -> str:
        """Does something."""
        if fails:
            raise ToolError("It failed.")
        return name

    return tool(function, name=name)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def board(*rules, clock=None):
    registry = ToolRegistry()
    registry.register(
        *(named(name) for name in ("log_in", "test", "deploy", "deploy_all", "search_web", "search_docs"))
    )
    registry.register(named("broken", fails=True))
    guard = OrderRules(*rules, clock=clock or Clock())
    assert register_plugin(registry, guard, "order").status == "loaded"
    return registry


def kinds(registry, *names, context=TURN):
    return [registry.call_sync(name, {}, context).kind for name in names]


def denial(registry, name, context=TURN):
    result = registry.call_sync(name, {}, context)
    assert result.kind == "denied"
    return result.text.removeprefix(f"{name} was denied: ")


# Before and after -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [ComesAfter("deploy*", "test"), ComesBefore("test", "deploy*")])
def test_a_tool_that_comes_after_another_waits_for_its_success(rule):
    registry = board(rule)
    assert kinds(registry, "deploy", "deploy_all", "log_in", "test", "deploy", "deploy_all") == [
        "denied",
        "denied",
        None,
        None,
        None,
        None,
    ]


def test_the_refusal_says_what_to_call():
    registry = board(ComesAfter("deploy", ["test", "log_in"], within="session"))
    assert denial(registry, "deploy") == (
        "it may be called only after test and log_in succeeded in this session. "
        "Call test first, and wait for its result."
    )
    kinds(registry, "test")
    assert denial(registry, "deploy").startswith("it may be called only after log_in succeeded")


def test_a_call_that_failed_or_was_denied_does_not_count():
    registry = board(ComesAfter("deploy", "broken"), ComesAfter("broken", "log_in"))
    assert kinds(registry, "broken", "deploy", "log_in", "broken", "deploy") == [
        "denied",
        "denied",
        None,
        "tool_failure",
        "denied",
    ]


def test_a_call_beside_it_is_too_late():
    registry = board(ComesAfter("deploy", "test"))

    async def main():
        return await asyncio.gather(*(registry.call(name, {}, TURN) for name in ("deploy", "test")))

    assert [result.kind for result in asyncio.run(main())] == ["denied", None]


def test_a_session_remembers_and_a_turn_does_not():
    for within, expected in (("session", None), ("turn", "denied")):
        registry = board(ComesAfter("deploy", "test", within=within))
        kinds(registry, "test")
        assert kinds(registry, "deploy") == [None]
        assert kinds(registry, "deploy", context=NEXT) == [expected]


def test_sessions_are_told_apart():
    registry = board(ComesAfter("deploy", "test"))
    kinds(registry, "test")
    assert kinds(registry, "deploy", context=ReadonlyContext(session="other")) == ["denied"]


def test_where_no_turn_is_named_nothing_shows_that_it_succeeded():
    registry = board(ComesAfter("deploy", "test", within="turn"))
    assert kinds(registry, "test", "deploy", context=ReadonlyContext(message="m")) == [None, "denied"]


def test_one_that_is_itself_waited_for_is_not_held():
    registry = board(ComesAfter("*", "log_in"))
    assert kinds(registry, "test", "log_in", "test") == ["denied", None, None]


def test_a_pattern_is_met_by_any_that_matches():
    registry = board(ComesAfter("deploy", "search_*"))
    assert kinds(registry, "deploy", "search_docs", "deploy") == ["denied", None, None]


# Exclusive groups -----------------------------------------------------------------------------------------------------


def test_of_a_group_the_first_is_the_only_one_in_the_turn():
    registry = board(Exclusive("search_*"))
    assert kinds(registry, "search_web", "search_docs", "search_web", "test") == [None, "denied", None, None]
    assert kinds(registry, "search_docs", "search_web", context=NEXT) == [None, "denied"]


def test_or_in_the_session():
    registry = board(Exclusive(["search_web", "search_docs"], within="session"))
    kinds(registry, "search_web")
    assert denial(registry, "search_docs", NEXT) == (
        "of search_web or search_docs only one may be used in a session, and it was search_web. "
        "Go on with search_web; search_docs may be called in another session."
    )


def test_the_refusal_names_the_one_that_was_used():
    registry = board(Exclusive("search_*"))
    kinds(registry, "search_web")
    assert denial(registry, "search_docs") == (
        "of search_* only one may be used in a turn, and it was search_web. "
        "Go on with search_web; search_docs may be called in the next turn."
    )


def test_of_two_at_once_one_runs():
    registry = board(Exclusive("search_*"))

    async def main():
        return await asyncio.gather(*(registry.call(name, {}, TURN) for name in ("search_web", "search_docs")))

    assert [result.kind for result in asyncio.run(main())] == [None, "denied"]


def test_one_that_did_not_run_leaves_the_choice_open():
    registry = board(Exclusive("search_*"))
    with registry.add_callback("before_tool", lambda: Deny("no")):
        kinds(registry, "search_web")
    assert kinds(registry, "search_docs", "search_web") == [None, "denied"]


def test_one_that_ran_and_failed_has_made_it():
    registry = board(Exclusive(["broken", "test"]))
    assert kinds(registry, "broken", "test") == ["tool_failure", "denied"]


def test_where_no_turn_is_named_a_group_of_a_turn_lets_all_through_and_the_operator_is_told_once(caplog):
    registry = board(Exclusive("search_*"))
    assert kinds(registry, "search_web", "search_docs", "search_web", context=None) == [None] * 3
    (record,) = caplog.records
    assert record.getMessage().startswith("the exclusive group search_* counts by turns")


# Pauses ---------------------------------------------------------------------------------------------------------------


def test_a_pause_in_seconds():
    clock = Clock()
    registry = board(Cooldown("search_*", seconds=30), clock=clock)
    assert kinds(registry, "search_web", "search_docs", "test") == [None, None, None]
    clock.now += 10.5
    assert denial(registry, "search_web") == "it needs a pause between two calls. It may be called again in 20 s."
    clock.now += 19.5
    assert kinds(registry, "search_web", "search_web", "search_docs") == [None, "denied", None]


def test_the_pause_begins_at_the_end_of_the_call():
    clock = Clock()
    registry = board(Cooldown("slow", seconds=30), clock=clock)

    @tool
    async def slow() -> None:
        """Take a minute."""
        clock.now += 60

    registry.register(slow)
    assert kinds(registry, "slow", "slow") == [None, "denied"]
    clock.now += 30
    assert kinds(registry, "slow") == [None]


def test_a_pause_in_calls_of_other_tools():
    registry = board(Cooldown("deploy", calls=2))
    assert kinds(registry, "test", "deploy", "deploy", "test") == [None, None, "denied", None]
    assert denial(registry, "deploy") == (
        "it needs a pause between two calls. It may be called again after 1 call of other tools."
    )
    assert kinds(registry, "log_in", "deploy", "deploy") == [None, None, "denied"]


def test_both():
    clock = Clock()
    registry = board(Cooldown("deploy", seconds=10, calls=2), clock=clock)
    kinds(registry, "deploy")
    assert denial(registry, "deploy").endswith("again in 10 s and after 2 calls of other tools.")
    kinds(registry, "test", "test")
    assert denial(registry, "deploy").endswith("again in 10 s.")
    clock.now += 10
    assert kinds(registry, "deploy") == [None]


def test_calls_that_did_not_run_are_no_calls():
    registry = board(Cooldown("deploy", calls=1))
    with registry.add_callback("before_tool", lambda: Deny("no")):
        kinds(registry, "deploy")
    kinds(registry, "deploy")
    with registry.add_callback("before_tool", lambda: Deny("no")):
        kinds(registry, "test")
    assert kinds(registry, "deploy", "test", "deploy") == ["denied", None, None]


def test_sessions_pause_apart():
    registry = board(Cooldown("deploy", calls=1))
    assert kinds(registry, "deploy", "deploy") == [None, "denied"]
    assert kinds(registry, "deploy", context=ReadonlyContext(session="other")) == [None]


# Before the turn ends -------------------------------------------------------------------------------------------------


def test_what_a_turn_still_lacks():
    rules = OrderRules(Required(["test", "search_*"]), Required("log_in", within="session"), Required("test"))
    registry = ToolRegistry()
    registry.register(*(named(name) for name in ("test", "search_web", "log_in")))
    register_plugin(registry, rules, "order")
    assert rules.missing(TURN) == ("test", "search_*", "log_in")
    kinds(registry, "search_web", "log_in")
    assert rules.missing(TURN) == ("test",)
    assert rules.missing(NEXT) == ("test", "search_*")
    kinds(registry, "test")
    assert rules.missing(TURN) == ()


def test_a_call_that_failed_does_not_count_as_made():
    rules = OrderRules(Required("broken"))
    registry = ToolRegistry()
    registry.register(named("broken", fails=True))
    register_plugin(registry, rules, "order")
    kinds(registry, "broken")
    assert rules.missing(TURN) == ("broken",)


def test_where_no_turn_is_named_nothing_is_known_to_be_missing():
    assert OrderRules(Required("test")).missing(ReadonlyContext(session="s")) == ()


def test_a_turn_that_lacks_something_goes_on_with_a_message():
    rules = OrderRules(Required(["test", "log_in"]))
    message = "Before you finish, call test and log_in."
    assert rules.reminder(TURN) == message
    assert rules.pegboard_on_stop(TURN) == message


def test_a_model_is_told_what_is_missing_and_its_turn_goes_on():
    registry = board(Required("test"))
    with ScriptedModel(["Done.", ToolCall("test", {}, "t"), "Tested."]) as model:
        outcome = asyncio.run(run_turn(model, "Build it.", registry))
    assert [message.text for message in outcome.messages if message.role != "tool"] == [
        "Build it.",
        "Done.",
        "Before you finish, call test.",
        "",
        "Tested.",
    ]


def test_a_turn_that_lacks_nothing_ends():
    assert OrderRules(Cooldown("x", calls=1)).pegboard_on_stop(TURN) is None
    assert OrderRules().reminder(TURN) is None


def test_a_required_call_is_never_held_back_by_that():
    assert kinds(board(Required("test")), "deploy", "test") == [None, None]


# All of them ----------------------------------------------------------------------------------------------------------


def test_a_call_is_told_of_all_that_it_breaks():
    registry = board(ComesAfter("search_docs", "test"), Exclusive("search_*"))
    kinds(registry, "search_web")
    text = denial(registry, "search_docs")
    assert "only after test succeeded" in text
    assert "only one may be used" in text


def test_an_answer_from_another_callback_counts_as_the_tools():
    registry = board(ComesAfter("deploy", "test"))
    with registry.add_callback("before_tool", lambda: ToolResult("kept")):
        kinds(registry, "test")
    assert kinds(registry, "deploy") == [None]


def test_unknown_tools_are_nobodys():
    registry = board(ComesAfter("deploy", "test"))
    assert kinds(registry, "tset", "deploy") == ["unknown_tool", "denied"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Cooldown("x"), "a cooldown of x needs seconds, or calls, or both"),
        (lambda: Cooldown("x", seconds=-1), "seconds must be a number of seconds from 0 on, got -1"),
        (lambda: ComesAfter("x", "y", within="day"), "within must be one of 'turn', 'session', got 'day'"),
        (lambda: Exclusive([]), "tools must name something"),
    ],
)
def test_wrong_settings_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([ComesAfter("a", "b"), ComesAfter("b", "a")], "a waits for b, b waits for a"),
        ([ComesBefore("a", "b"), ComesBefore("b", "a")], "b waits for a, a waits for b"),
        (
            [ComesAfter("a", "b"), ComesAfter("b", "c"), ComesAfter("c", "a")],
            "a waits for b, b waits for c, c waits for a",
        ),
        ([ComesAfter("x", "a"), ComesAfter("a", "b"), ComesAfter("b", "a")], "a waits for b, b waits for a"),
        ([ComesAfter("a_*", "b"), ComesAfter("b", "a_1")], "b waits for a_1, a_1 waits for b"),
        ([ComesAfter("a_*", "b_*"), ComesAfter("b_*", "a_*")], "a_* waits for b_*, b_* waits for a_*"),
        ([ComesAfter("*", "a"), ComesAfter("a", "b")], "a waits for b, b waits for a"),
        ([ComesAfter("a", "b", within="turn"), ComesAfter("b", "a", within="session")], "a waits for b, b waits for a"),
    ],
)
def test_a_circle_is_refused_and_shown(rules, text):
    with pytest.raises(ValueError, match="contradict each other") as caught:
        OrderRules(*rules)
    assert text.replace("*", "*") in str(caught.value)
    assert str(caught.value).endswith("Take one of them out")


@pytest.mark.parametrize(
    "rule", [ComesAfter("a", "a"), ComesAfter("a_*", "a_*"), ComesAfter("a_1", "a_*"), ComesAfter("a", "*")]
)
def test_a_tool_that_waits_for_itself_is_refused(rule):
    with pytest.raises(ValueError, match="those are the same tools"):
        OrderRules(rule)


@pytest.mark.parametrize(
    "rules",
    [
        [ComesAfter("a", "b"), ComesAfter("b", "c"), ComesAfter("a", "c")],
        [ComesAfter("*", "log_in")],
        [ComesAfter("deploy*", "test*"), ComesAfter("test_all", "build")],
        [ComesAfter("a", "b_*"), ComesAfter("b_1", "a")],  # another b_ may come first
        [ComesAfter("a_*", "a_1")],
    ],
)
def test_what_can_be_kept_is_taken(rules):
    OrderRules(*rules)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([Exclusive(["a", "b"]), ComesAfter("b", "a", within="turn")], "b needs b and a, but of a or b only one"),
        ([Exclusive(["a", "c"]), ComesAfter("b", ["a", "c"], within="turn")], "b needs b, a and c, but of a or c"),
        ([Exclusive(["a", "c"]), ComesAfter("c", "b", "turn"), ComesAfter("b", "a", "turn")], "c needs c, b and a"),
        ([Exclusive(["a", "b"], within="session"), ComesAfter("b", "a")], "only one may be used in a session"),
        ([Exclusive("a_*"), Required(["a_1", "a_2"])], "the turn needs a_1 and a_2, but of a_* only one"),
        (
            [Exclusive(["a", "b"]), Required("c"), Required("b"), ComesAfter("c", "a", "turn")],
            "the turn needs c, b and a",
        ),
    ],
)
def test_what_an_exclusive_group_makes_impossible_is_refused(rules, text):
    with pytest.raises(ValueError, match="contradict each other") as caught:
        OrderRules(*rules)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        [Exclusive(["a", "b"]), ComesAfter("b", "a")],  # in an earlier turn
        [Exclusive(["a", "b"]), Required("a")],
        [Exclusive(["a", "b"]), Required("a"), Required("b", within="session")],
        [Exclusive(["a", "b"]), ComesAfter("b", ["a*"], within="turn"), ComesAfter("x", "ab")],
    ],
)
def test_what_an_exclusive_group_leaves_possible_is_taken(rules):
    OrderRules(*rules)


names = st.sampled_from("abcd")


@given(st.lists(st.tuples(names, names).filter(lambda pair: pair[0] != pair[1]), max_size=8))
def test_rules_are_refused_exactly_where_some_tool_could_never_be_called(pairs):
    """Held against what the trackers let through, called in any order for as long as anything new can be called."""
    rules = [ComesAfter(one, other) for one, other in pairs]
    trackers = [rule.tracker() for rule in rules]

    called = set()
    for _ in range(4):
        for name in "abcd":
            call = Call(name, ReadonlyContext(), 0.0)
            if all(tracker.refusal(call) is None for tracker in trackers):
                called.add(name)
                for tracker in trackers:
                    tracker.end(call, None, ToolResult())
    if called == set("abcd"):
        OrderRules(*rules)
    else:
        with pytest.raises(ValueError, match="contradict"):
            OrderRules(*rules)
