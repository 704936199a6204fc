"""Rules on what is over: closed tools, repeated calls, ended turns; and required calls with a condition."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import (
    ChangeArguments,
    Deny,
    ModelRequest,
    ReadonlyContext,
    ToolCall,
    ToolError,
    ToolRegistry,
    TurnLimits,
    hookimpl,
    register_plugin,
    run_turn,
    tool,
)
from pegboard.testing import ScriptedModel
from pegboard_guard import Distinct, EndsTurn, Guard, NotAfter, OrderRules, Required

TURN = ReadonlyContext(session="s", invocation="i1")
CONTEXTS = {"turn2": ReadonlyContext(session="s", invocation="i2"), "other": ReadonlyContext(session="o"), "": None}


def named(name):
    async def function(text: str = "") -> str:
        """Does something; fails where the text says so."""
        if text == "fail":
            raise ToolError("It failed.")
        return name

    return tool(function, name=name)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def make_registry(*rules, clock=None):
    registry = ToolRegistry()
    registry.register(*(named(name) for name in ("edit", "test", "search", "submit", "mail")))
    guard = OrderRules(*rules, clock=clock or Clock())
    assert register_plugin(registry, guard, "order").status == "loaded"
    return registry, guard


def play(rules, script):
    """Calls tools one after the other; returns the text of the last result.

    `edit` has to run, `edit!` has to be denied, `edit:x` has the text `x`, `edit-` is denied by another callback; `+30`
    lets 30 seconds pass, and `@turn2` names the context of the following calls.
    """
    clock, context, result = Clock(), TURN, None
    registry, _ = make_registry(*rules, clock=clock)
    for step in script.split():
        name, _, text = step.rstrip("!-").partition(":")
        if step.startswith("@"):
            context = CONTEXTS[step[1:]]
        elif step.startswith("+"):
            clock.now += float(step)
        elif step.endswith("-"):
            with registry.add_callback("before_tool", lambda: Deny("no")):
                registry.call_sync(name, {"text": text}, context)
        else:
            result = registry.call_sync(name, {"text": text}, context)
            assert result.kind == ("denied" if step.endswith("!") else "tool_failure" if text == "fail" else None), step
    return result and result.text


@pytest.mark.parametrize(
    ("rule", "script"),
    [
        # Closed once a tool ran, also if it failed; not if it didn't run.
        (NotAfter("search", "submit"), "search submit search! edit submit @turn2 search! @other search"),
        (NotAfter("search", "submit", within="turn"), "submit search! @turn2 search"),
        (NotAfter("search", "submit"), "submit:fail search!"),
        (NotAfter("search", "submit"), "submit- search"),
        (NotAfter("search", "submit"), "submit submit- search!"),
        (NotAfter("*", "submit"), "edit submit edit! submit!"),
        (NotAfter("s*", ["test", "mail"]), "search mail submit!"),
        (NotAfter("search", "submit", within="turn"), "@ submit search"),
        # No equal call: of the same tool with the same arguments, unless it failed, or in a window.
        (Distinct("mail"), "mail:a mail:a! mail:b edit:a edit:a @turn2 mail:a! @other mail:a"),
        (Distinct("mail", within="turn"), "mail:a mail:a! @turn2 mail:a"),
        (Distinct("mail", seconds=60), "mail:a +59 mail:a! +1 mail:a mail:a!"),
        (Distinct("mail"), "mail:fail mail:fail mail:a"),
        (Distinct("mail"), "mail:a- mail:a mail:a!"),
        (Distinct("*"), "mail:a edit:a mail:a!"),
        (Distinct("mail", within="turn"), "@ mail:a mail:a"),
    ],
)
def test_calls_are_denied(rule, script):
    """By what was called before."""
    play([rule], script)


def test_the_reasons_say_what_to_do():
    """In short sentences."""
    assert play([NotAfter("search", "submit")], "submit search!") == (
        "search was denied: it can't be called any more in this session, as submit was called. Continue without it."
    )
    again = "the same call was made before. Use its result, or change the arguments; don't repeat it"
    assert play([Distinct("mail")], "mail mail!") == f"mail was denied: {again} in this session."
    assert play([Distinct("mail", seconds=60)], "mail +9.5 mail!") == f"mail was denied: {again} in the next 51 s."


def test_a_call_whose_arguments_cant_be_compared_runs(monkeypatch):
    """As it does for the doom loop."""
    monkeypatch.setattr("pegboard_guard.rules.digest_or_none", lambda _value: None)
    play([Distinct("mail")], "mail mail")


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ("", ()),
        ("search", ()),
        ("edit", ("test",)),
        ("edit test", ()),
        *((each, ("test",)) for each in ("test edit", "edit test edit", "edit test:fail", "edit:fail")),
        ("edit-", ()),
        ("edit @turn2", ()),
    ],
)
def test_a_required_call_may_have_a_condition(script, missing):
    """It has to follow the last call that makes it necessary."""
    registry, guard = make_registry(Required("test", when="edit"))
    context = TURN
    for step in script.split():
        name, _, text = step.rstrip("-").partition(":")
        if step.startswith("@"):
            context = CONTEXTS[step[1:]]
        elif step.endswith("-"):
            with registry.add_callback("before_tool", lambda: Deny("no")):
                registry.call_sync(name, {"text": text}, context)
        else:
            registry.call_sync(name, {"text": text}, context)
    assert guard.missing(context) == missing


async def test_a_required_call_has_to_start_after_what_makes_it_necessary_has_ended():
    """One that runs beside it may not have seen what it did."""
    registry, guard = make_registry(Required("check", when="change"))
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def change() -> None:
        """Changes something, once it is being checked."""
        await started.wait()

    @tool
    async def check(wait: bool = False) -> None:
        """Checks it."""
        started.set()
        if wait:
            await ended.wait()

    registry.register(change, check)
    checking = asyncio.ensure_future(registry.call("check", {"wait": True}, TURN))
    await registry.call("change", {}, TURN)
    ended.set()
    await checking
    assert guard.missing(TURN) == ("check",)
    await registry.call("check", {}, TURN)
    assert guard.missing(TURN) == ()


class Shortens:
    """A plugin that changes arguments; that of the tests above comes first."""

    @hookimpl
    def pegboard_before_tool(self, arguments):
        return ChangeArguments({"text": arguments["text"][:1]})


def test_calls_are_compared_by_the_arguments_that_plugins_have_changed():
    """Whatever the model has written."""
    registry, _ = make_registry(Distinct("mail"))
    register_plugin(registry, Shortens(), "shortens")
    kinds = [registry.call_sync("mail", {"text": text}, TURN).kind for text in ("ab", "ac", "bc")]
    assert kinds == [None, "denied", None]


def test_a_call_that_a_failed_callback_stopped_closes_nothing_and_may_be_repeated():
    """It didn't run."""
    registry, _ = make_registry(NotAfter("search", "mail"), Distinct("mail"))

    def fail():
        raise OSError

    with registry.add_callback("before_tool", fail):
        assert registry.call_sync("mail", {"text": "a"}, TURN).kind == "callback_failure"
    assert [registry.call_sync(name, {"text": "a"}, TURN).kind for name in ("search", "mail", "search")] == [
        None,
        None,
        "denied",
    ]


def test_a_tool_may_require_itself_by_a_pattern():
    """Its own call makes it necessary and meets it."""
    registry, guard = make_registry(Required("test", when="*"))
    registry.call_sync("test", {}, TURN)
    assert guard.missing(TURN) == ()
    registry.call_sync("edit", {}, TURN)
    assert guard.missing(TURN) == ("test",)


async def test_a_call_ends_the_turn():
    """Once it has succeeded; the model isn't called again, nor is the turn continued."""
    registry, guard = make_registry(EndsTurn("submit"), Required("test"))
    steps = [ToolCall("submit", {"text": "fail"}, "1"), [ToolCall("submit", {}, "2"), ToolCall("edit", {}, "3")]]
    with ScriptedModel(steps) as model:
        outcome = await run_turn(model, "Go on.", registry, TURN)
    assert (outcome.ended, outcome.response.text) == ("answered", "submit succeeded, which ends the turn.")
    assert outcome.calls == 3
    assert guard.missing(TURN) == ("test",)
    with ScriptedModel(["Hello.", "Still no test."]) as model:
        outcome = await run_turn(model, "Hi.", registry, CONTEXTS["turn2"], limits=TurnLimits(continuations=1))
    assert outcome.response.text == "Still no test."


async def test_a_turn_whose_output_has_a_type_is_cut_off():
    """It has no output of that type, unless it was given with the call."""
    for output, ended in ((None, "cut_off"), (3, "answered")):
        registry, _ = make_registry(EndsTurn("submit"))
        given = [ToolCall("final_result", {"result": output})] if output else []
        with ScriptedModel([[ToolCall("submit", {}), *given]]) as model:
            outcome = await run_turn(model, "Submit.", registry, TURN, output_type=int)
        assert (outcome.ended, outcome.output) == (ended, output)


async def test_an_output_of_a_type_ends_no_turn_that_lacks_a_required_call():
    """However the model gives it: by a call here."""
    registry, _ = make_registry(Required("test"))
    outputs = [ToolCall("final_result", {"result": number}) for number in (1, 2)]
    with ScriptedModel([outputs[0], ToolCall("test", {}), outputs[1]]) as model:
        outcome = await run_turn(model, "Test.", registry, TURN, output_type=int)
    assert (outcome.ended, outcome.output, outcome.rounds) == ("answered", 2, 3)


async def test_an_agent_belongs_to_the_turn_of_its_caller():
    """Its calls count there, and its own end isn't the end of the turn."""
    registry, guard = make_registry(Required("test", when="edit"), EndsTurn("submit"))
    agents = ReadonlyContext(session="s/helper", invocation="agents", root=TURN)
    with ScriptedModel([ToolCall("edit", {}), "Edited."]) as model:
        assert (await run_turn(model, "Edit.", registry, agents)).rounds == 2
    assert guard.missing(TURN) == ("test",)
    with ScriptedModel([ToolCall("submit", {})]) as model:
        assert (await run_turn(model, "Submit.", registry, agents)).text == "submit succeeded, which ends the turn."
    assert await guard.find_end(TURN) == "submit"


async def test_the_turn_of_another_agent_goes_on():
    """Such as one that is kept beyond the turn of its caller; but not that of a caller of the agent."""
    registry, _ = make_registry(EndsTurn("submit"))

    async def rounds(branch, *steps):
        context = ReadonlyContext(session=f"s/{branch}", invocation=f"of {branch}", root=TURN, branch=branch)
        with ScriptedModel(steps) as model:
            return (await run_turn(model, "Go on.", registry, context)).rounds

    assert await rounds("planner.writer", ToolCall("submit", {})) == 2
    assert await rounds("keeper", ToolCall("edit", {}), "Edited.") == 2
    assert await rounds("planner") == 1
    with ScriptedModel([]) as model:
        assert (await run_turn(model, "Go on.", registry, TURN)).text == "submit succeeded, which ends the turn."


@pytest.mark.parametrize("are_together", [True, False])
async def test_a_call_that_ends_the_turn_comes_before_what_would_continue_it(are_together):
    """Neither a required call nor a model that finds the answer incomplete keeps the turn going."""
    no = ToolCall("final_result", {"result": {"allowed": False, "reason": "More."}})
    judge, rules = ScriptedModel([no] * 9), [EndsTurn("submit"), Required("test")]
    registry, _ = make_registry(*([] if are_together else rules))
    registry.add("models", "judges", lambda _name: judge)
    gate = {"model": "judges/x", "end": "Thorough."}
    order = {"ends_turn": [{"tools": "submit"}], "required": [{"tools": "test"}]}
    register_plugin(registry, Guard({"gate": gate, "order": order} if are_together else {"gate": gate}), "guard")
    with ScriptedModel([ToolCall("submit", {})]) as model:
        outcome = await run_turn(model, "Submit.", registry, TURN, limits=TurnLimits(continuations=50))
    assert (outcome.ended, outcome.text) == ("answered", "submit succeeded, which ends the turn.")
    assert len(judge.requests) == (0 if are_together else 1)  # alone, the gate doesn't know of the rule


async def test_outside_of_a_turn_nothing_ends():
    """A call without an invocation belongs to no turn."""
    registry, guard = make_registry(EndsTurn("submit"))
    await registry.call("submit", {})
    assert await guard.pegboard_before_model(ReadonlyContext(), ModelRequest()) is None
