"""Order of calls."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from pegboard import (
    Deny,
    ReadonlyContext,
    StaticToolset,
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
from pegboard_guard.rules import MOST

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


def make_registry(*rules, clock=None):
    registry = ToolRegistry()
    registry.register(
        *(named(name) for name in ("log_in", "test", "deploy", "deploy_all", "search_web", "search_docs"))
    )
    registry.register(named("broken", fails=True))
    registry.register(StaticToolset("again", [named("deploy"), named("search_docs")]).prefixed("my"))
    clock = clock or Clock()

    @tool
    async def slow() -> None:
        """Takes a minute."""
        clock.now += 60

    registry.register(slow)
    guard = OrderRules(*rules, clock=clock)
    assert register_plugin(registry, guard, "order").status == "loaded"
    return registry


def kinds(registry, *names, context=TURN):
    return [registry.call_sync(name, {}, context).kind for name in names]


CONTEXTS = {
    "turn2": NEXT,
    "other": ReadonlyContext(session="other"),
    "message": ReadonlyContext(message="m"),
    "nothing": None,
    "ann": ReadonlyContext(user="ann"),
    "bob": ReadonlyContext(user="bob"),
    "bob_here": ReadonlyContext(user="bob", session="s", invocation="i1"),
}
KINDS = {"!": "denied", "~": "tool_failure", "?": "unknown_tool"}


def play(rules, script):
    """Makes the calls of a script, such as `deploy! test +30 turn2: deploy`, and returns the text of the last one.

    After a name `!` is a call that is denied, `~` one that fails, `?` one of an unknown tool, and `-` one that another
    callback denies; `+30` lets 30 seconds pass, and `turn2:` names the context of the following calls.
    """
    clock, context, result = Clock(), TURN, None
    registry = make_registry(*rules, clock=clock)
    for step in script.split():
        if step.endswith(":"):
            context = CONTEXTS[step[:-1]]
        elif step.startswith("+"):
            clock.now += float(step)
        elif step.endswith("-"):
            with registry.add_callback("before_tool", lambda: Deny("no")):
                kinds(registry, step[:-1], context=context)
        else:
            result = registry.call_sync(step.rstrip("!~?"), {}, context)
            assert result.kind == KINDS.get(step[-1]), step
    return result.text


AFTER, TURNS_AFTER = ComesAfter("deploy", "test"), ComesAfter("deploy", "test", within="turn")


@pytest.mark.parametrize(
    ("rules", "script"),
    [
        # What comes after another waits for its success, in the session or the turn.
        ([ComesAfter("deploy*", "test")], "deploy! deploy_all! log_in test deploy deploy_all"),
        ([ComesBefore("test", "deploy*")], "deploy! deploy_all! log_in test deploy deploy_all"),
        ([ComesAfter("deploy", "broken"), ComesAfter("broken", "log_in")], "broken! deploy! log_in broken~ deploy!"),
        ([AFTER], "test deploy turn2: deploy other: deploy!"),
        ([AFTER], "tset? deploy!"),
        ([TURNS_AFTER], "test deploy turn2: deploy!"),
        ([TURNS_AFTER], "message: test deploy!"),
        ([AFTER], "ann: test bob: deploy! ann: deploy"),
        ([AFTER], "test bob_here: deploy!"),
        ([TURNS_AFTER], "test bob_here: deploy!"),
        ([TURNS_AFTER], "ann: test bob: deploy!"),
        ([ComesAfter("*", "log_in")], "test! log_in test"),
        ([ComesAfter("deploy", "search_*")], "deploy! search_docs deploy"),
        # Of a group the first that ran is the only one.
        ([Exclusive("search_*")], "search_web search_docs! search_web test turn2: search_docs search_web!"),
        ([Exclusive("search_*")], "search_web- search_docs search_web!"),
        ([Exclusive(["broken", "test"])], "broken~ test!"),
        # A pause in seconds, from a call's end, or in calls of other tools that ran.
        ([Cooldown("search_*", seconds=30)], "search_web search_docs test +30 search_web search_web! search_docs"),
        ([Cooldown("slow", seconds=30)], "slow slow! +30 slow"),
        ([Cooldown("deploy", calls=2)], "test deploy deploy! test deploy! log_in deploy deploy!"),
        ([Cooldown("deploy", seconds=10, calls=2)], "deploy +10 deploy! test test deploy test test deploy!"),
        ([Cooldown("deploy", calls=1)], "deploy- deploy test- deploy! test deploy"),
        ([Cooldown("deploy", calls=1)], "deploy deploy! other: deploy"),
        # No other name gets round any of them, and each counts as the tool itself.
        ([AFTER], "my_deploy! test my_deploy"),
        ([Exclusive("search_*")], "my_search_docs search_web! search_docs"),
        ([Cooldown("deploy", seconds=30)], "deploy my_deploy! +30 my_deploy deploy!"),
        ([ComesAfter("test", "deploy")], "test! my_deploy test"),
        # A required call isn't held back by that.
        ([Required("test")], "deploy test"),
    ],
)
def test_calls_start_in_the_order_that_rules_say(rules, script):
    play(rules, script)


NEEDS = ComesAfter("deploy", ["test", "log_in"], within="session")


@pytest.mark.parametrize(
    ("rules", "script", "text"),
    [
        ([NEEDS], "deploy!", "test and log_in must succeed first in this session. Call test, wait for its"),
        ([NEEDS], "test deploy!", "log_in must succeed first in this session. Call log_in, wait for its"),
        ([Exclusive("search_*")], "search_web search_docs!", "only one of search_* can be used in a turn, and"),
        ([Exclusive("search_*")], "search_web search_docs!", "Continue with search_web; search_docs can be called in"),
        ([Exclusive("search_*", "session")], "search_web turn2: search_docs!", "can be called in another session."),
        (
            [Cooldown("test", 30)],
            "test +10.5 test!",
            "it was called too soon after its last call. Call it again in 20 s.",
        ),
        ([Cooldown("test", calls=2)], "test log_in test!", "Call it again after 1 call of other tools."),
        ([Cooldown("test", 10, 2)], "test test!", "again in 10 s and after 2 calls of other tools."),
        ([Cooldown("test", 10, 2)], "test log_in log_in test!", "again in 10 s."),
        ([ComesAfter("search_docs", "test"), Exclusive("search_*")], "search_web search_docs!", "test must succ"),
        ([ComesAfter("search_docs", "test"), Exclusive("search_*")], "search_web search_docs!", "can be used in a"),
    ],
)
def test_the_refusal_names_all_that_is_broken_and_what_to_do(rules, script, text):
    assert text in play(rules, script)


@pytest.mark.parametrize(
    ("rule", "names", "outcome"),
    [
        (AFTER, ("deploy", "test"), ["denied", None]),
        (Exclusive("search_*"), ("search_web", "search_docs"), [None, "denied"]),
    ],
)
def test_concurrent_calls_do_not_count_as_consecutive(rule, names, outcome):
    registry = make_registry(rule)

    async def main():
        return await asyncio.gather(*(registry.call(name, {}, TURN) for name in names))

    assert [result.kind for result in asyncio.run(main())] == outcome


def test_without_a_turn_an_exclusive_group_lets_all_through_and_warns_once(caplog):
    play([Exclusive("search_*")], "nothing: search_web search_docs search_web")
    (record,) = (each for each in caplog.records if each.name == "pegboard.guard")
    assert record.getMessage().startswith("the exclusive group search_* counts by turns")


async def test_a_call_that_ends_late_leaves_a_later_choice():
    registry, begun, goes_on = make_registry(Exclusive("search_*")), asyncio.Event(), asyncio.Event()

    async def deny(context):
        if context.message == "late":
            begun.set()
            await goes_on.wait()
            return Deny("no")
        return None

    with registry.add_callback("before_tool", deny):
        late = asyncio.ensure_future(registry.call("search_web", {}, evolve(TURN, message="late")))
        await begun.wait()
        for number in range(MOST):  # drops the choice
            await registry.call("search_web", {}, ReadonlyContext(invocation=str(number)))
        await registry.call("search_web", {}, TURN)
        goes_on.set()
        await late
    assert (await registry.call("search_docs", {}, TURN)).kind == "denied"


# Before the turn ends -------------------------------------------------------------------------------------------------


def test_what_a_turn_still_lacks():
    """A failed call doesn't count."""
    rules = OrderRules(Required(["test", "search_*"]), Required("log_in", within="session"), Required(["test", "fail"]))
    registry = ToolRegistry()
    registry.register(*(named(name) for name in ("test", "search_web", "log_in")), named("fail", fails=True))
    register_plugin(registry, rules, "order")
    assert rules.missing(TURN) == ("test", "search_*", "log_in", "fail")
    kinds(registry, "search_web", "log_in", "fail")
    assert rules.missing(TURN) == ("test", "fail")
    assert rules.missing(NEXT) == ("test", "search_*", "fail")
    kinds(registry, "test")
    assert rules.missing(TURN) == ("fail",)


def test_without_a_turn_nothing_is_missing():
    assert OrderRules(Required("test")).missing(ReadonlyContext(session="s")) == ()


def test_a_turn_goes_on_with_a_message_about_missing_calls():
    registry = make_registry(Required("test"))
    with ScriptedModel(["Done.", ToolCall("test", {}, "t"), "Tested."]) as model:
        outcome = asyncio.run(run_turn(model, "Build it.", registry))
    assert [message.text for message in outcome.messages if message.role != "tool"] == [
        "Build it.",
        "Done.",
        "Before you finish, call test.",
        "",
        "Tested.",
    ]


def test_a_result_from_another_callback_counts_as_the_tools():
    registry = make_registry(ComesAfter("deploy", "test"))
    with registry.add_callback("before_tool", lambda: ToolResult("cached")):
        kinds(registry, "test")
    assert kinds(registry, "deploy") == [None]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Cooldown("x"), "a cooldown of x needs seconds, or calls, or both"),
        (lambda: Cooldown("x", seconds=-1), "seconds must be a number of seconds from 0 on, got -1"),
        (lambda: ComesAfter("x", "y", within="day"), "within must be one of 'turn', 'session', got a string"),
        (lambda: Exclusive([]), "tools must name something"),
    ],
)
def test_wrong_settings_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
