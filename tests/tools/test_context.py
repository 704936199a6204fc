from __future__ import annotations

import asyncio
import copy
import datetime as dt
import threading
import time

import attrs
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pegboard.errors import CallStoppedError
from pegboard.tools.call import REMOVED, Actions, Confirmation
from pegboard.tools.content import TextContent, ToolResult
from pegboard.tools.context import DisplayUpdate, PendingActions, Progress, ReadonlyContext, State, ToolContext


@pytest.mark.parametrize("name", [each.name for each in attrs.fields(ReadonlyContext)])
def test_a_running_call_knows_all_that_its_request_does(name):
    value = {"a": 1} if name in ("state", "extra") else name
    assert getattr(ToolContext(ReadonlyContext(**{name: value})), name) == value


def test_progress_and_partial_results_reach_whoever_listens():
    heard = []
    context = ToolContext(listener=heard.append)
    context.report(1, 3, "reading")
    context.emit("part")
    assert heard == [Progress(1, 3, "reading"), "part"]


def test_changes_of_state_become_a_delta_and_the_hosts_own_stays():
    state = {"a": [1], "b": 2}
    context = ToolContext(ReadonlyContext(state=state))
    context.state["a"].append(2)
    context.state["c"] = 3
    del context.state["b"]
    assert context.actions.actions == Actions({"a": [1, 2], "b": REMOVED, "c": 3})
    assert state == {"a": [1], "b": 2}


def test_toolsets_can_look_at_the_state_and_change_nothing_of_it():
    """They get the host's own context."""
    state = {"a": [1, {"b": 2}]}
    context = ReadonlyContext(state=state)
    for change in (lambda: context.state.update(c=1), lambda: context.state.__setitem__("a", 1)):
        with pytest.raises((AttributeError, TypeError)):
            change()
    context.state["a"][1]["b"] = 3
    context.state["a"].append(4)
    assert (context.state, state) == ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]})
    state["c"] = 5
    assert ([*context.state], len(context.state), "c" in attrs.evolve(context).state) == (["a", "c"], 2, True)
    assert repr(context.state) == repr(state)
    with pytest.raises(TypeError):
        ReadonlyContext().extra["a"] = 1


def test_a_call_that_says_nothing_keeps_nothing():
    context = ToolContext(listener=lambda said: None)
    context.report(1)
    context.emit("part")
    assert (context.internals.pending_actions, context.internals.container) == (None, None)


def test_actions_are_one_however_many_threads_ask_first():
    context, barrier, found = ToolContext(), threading.Barrier(8), []

    def work(number):
        barrier.wait()
        context.state[f"key {number}"] = number
        found.append(context.actions)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    assert len(context.state) == 8


def test_what_is_told_to_people_travels_and_stays():
    heard = []
    context = ToolContext(listener=heard.append)
    context.metadata("Reading", path="a.txt")
    context.metadata(lines=3)
    assert heard == [DisplayUpdate("Reading", {"path": "a.txt"}), DisplayUpdate(None, {"lines": 3})]
    assert (context.actions.title, context.actions.facts) == ("Reading", {"path": "a.txt", "lines": 3})
    ToolContext().metadata("nobody listens")


# A context made by hand ---------------------------------------------------------------------------------------------


def test_a_bare_context_lets_everything_pass():
    context = ToolContext()
    assert asyncio.run(context.ask("edit", ["a.txt"])) is None
    assert asyncio.run(context.request_confirmation("Really?", {"a": 1})) == Confirmation(
        "Really?", confirmed=True, payload={"a": 1}
    )


def test_a_bare_context_answers_as_the_test_says():
    answer = Confirmation(confirmed=False, feedback="not now")
    assert asyncio.run(ToolContext(confirmation=answer).request_confirmation("Really?")) is answer


def test_a_bare_context_has_no_other_tools_and_says_how_to_get_them():
    with pytest.raises(LookupError, match=r"knows no tool 'add'.*ToolContext\(host=\.\.\.\)"):
        asyncio.run(ToolContext().call("add", {"a": 1}))


def test_a_bare_context_remembers_and_keeps_files_as_long_as_it_lives():
    context = ToolContext()
    context.wait(context.memory.add("the cat sat"))
    context.wait(context.artifacts.save("a.txt", "text"))
    assert len(context.wait(context.memory.search("cat"))) == 1
    assert context.wait(context.artifacts.load("a.txt")) == TextContent("text")


def test_a_bare_context_goes_on_in_the_running_loop():
    done = []

    async def work(name, event):
        await asyncio.sleep(0)
        done.append(name)
        event.set()

    async def run():
        first, second = asyncio.Event(), asyncio.Event()
        assert ToolContext().background(work("later", first)) == "background"
        ToolContext().background(lambda: work("made later", second))
        ToolContext().background(lambda: done.append("at once"))
        assert done == ["at once"]
        await first.wait()
        await second.wait()

    asyncio.run(run())
    assert sorted(done) == ["at once", "later", "made later"]


def test_without_a_loop_a_bare_context_does_it_at_once():
    done = []

    async def work():
        done.append("done")

    ToolContext().background(work())
    assert done == ["done"]


# A context of a host's ----------------------------------------------------------------------------------------------


class Host:
    """Keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def ask(self, context, permission, patterns, always, metadata):
        self.asked.append((context.call_id, permission, patterns, always, metadata))

    def allows(self, context, permission, subject):
        self.asked.append((context.call_id, permission, subject))
        return False

    async def request_confirmation(self, context, hint, payload):
        self.asked.append((context.call_id, hint, payload))
        return Confirmation(hint, confirmed=True)

    async def call(self, context, name, arguments):
        self.asked.append((context.call_id, name, arguments))
        return ToolResult("called")

    def background(self, context, work):
        self.asked.append((context.call_id, work))
        return "1"


def test_what_a_call_asks_for_goes_to_its_host():
    host = Host()
    context = ToolContext(call_id="c", host=host)
    asyncio.run(context.ask("edit", ["a"], metadata={"diff": "x"}))
    asyncio.run(context.ask("edit", ["a"], always=["*"]))
    assert not context.allows("read", "a.env")
    assert ToolContext().allows("read", "a.env")
    assert asyncio.run(context.request_confirmation("Really?", 1)).confirmed
    assert asyncio.run(context.call("add", {"a": 1})).text == "called"
    assert asyncio.run(context.call("none")).text == "called"
    assert context.background(print) == "1"
    assert host.asked == [
        ("c", "edit", ["a"], (), {"diff": "x"}),
        ("c", "edit", ["a"], ["*"], {}),
        ("c", "read", "a.env"),
        ("c", "Really?", 1),
        ("c", "add", {"a": 1}),
        ("c", "none", {}),
        ("c", print),
    ]


def test_an_answer_that_came_later_is_not_asked_for_again():
    host = Host()
    context = ToolContext(host=host, confirmation=Confirmation("First?", confirmed=True, payload=5))
    assert asyncio.run(context.request_confirmation("First?")).payload == 5
    assert host.asked == []
    asyncio.run(context.request_confirmation("Second?"))
    assert host.asked == [("", "Second?", None)]


# Time ---------------------------------------------------------------------------------------------------------------


def test_a_call_without_a_limit_has_all_the_time():
    context = ToolContext()
    assert (context.remaining, context.deadline, context.cancelled) == (None, None, False)
    context.check()


def test_a_call_knows_what_is_left():
    context = ToolContext(deadline=time.monotonic() + 100)
    assert 90 < context.remaining <= 100
    context.check()


async def nothing():
    """Never awaited in the tests that pass it: a warning would fail them."""


@pytest.mark.parametrize(
    ("facts", "kind", "text"),
    [
        ({"cancelled": True}, "aborted", "the call was cancelled"),
        ({"deadline": 1.0}, "timeout", "the call's time limit has passed"),
        ({"deadline": 1.0, "cancelled": True}, "timeout", "the call's time limit has passed"),
    ],
)
def test_a_call_that_is_over_is_told_so(facts, kind, text):
    context = ToolContext(**facts)
    for check in (context.check, lambda: context.wait(nothing())):
        with pytest.raises(CallStoppedError, match=text) as caught:
            check()
        assert caught.value.kind == kind


KEYS = st.sampled_from(["a", "b", "user:c", "temp:d"])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner, max_size=2),
    max_leaves=6,
)


class StateAgreesWithACopy(RuleBasedStateMachine):
    """Whatever is done, the state reads as a deep copy would, and the session's own stays as it was."""

    @initialize(base=st.dictionaries(KEYS, JSON, max_size=4))
    def start(self, base):
        self.base, self.before = base, copy.deepcopy(base)
        self.plain, self.state = copy.deepcopy(base), State(base)

    @rule(key=KEYS, value=JSON)
    def write(self, key, value):
        self.plain[key], self.state[key] = copy.deepcopy(value), copy.deepcopy(value)

    @rule(key=KEYS)
    def delete(self, key):
        if key in self.plain:
            del self.plain[key], self.state[key]
        else:
            with pytest.raises(KeyError):
                del self.state[key]

    @rule(key=KEYS, value=JSON)
    def change_in_place(self, key, value):
        for each in (self.plain, self.state):
            found = each.get(key)
            if isinstance(found, list):
                found.append(value)
            elif isinstance(found, dict):
                found["k"] = value

    @rule(key=KEYS, value=JSON)
    def change_deep_inside(self, key, value):
        for each in (self.plain, self.state):
            found = each.get(key)
            if isinstance(found, list) and found and isinstance(found[0], list):
                found[0].insert(0, value)

    @rule(key=KEYS, value=JSON)
    def ask_for_a_default(self, key, value):
        assert self.plain.setdefault(key, copy.deepcopy(value)) == self.state.setdefault(key, copy.deepcopy(value))

    @rule(key=KEYS)
    def pop(self, key):
        assert self.plain.pop(key, None) == self.state.pop(key, None)

    @rule()
    def clear(self):
        self.plain.clear()
        self.state.clear()

    @invariant()
    def reads_the_same(self):
        assert self.state == self.plain
        assert len(self.state) == len(self.plain)
        assert set(self.state) == set(self.plain)
        assert all((key in self.state) == (key in self.plain) for key in ("a", "b", "user:c", "temp:d"))

    @invariant()
    def the_base_stays(self):
        assert self.base == self.before

    @invariant()
    def the_delta_makes_the_same_of_the_base(self):
        again = copy.deepcopy(self.before)
        Actions(self.state.delta).apply_to(again)
        lasting = {key: value for key, value in self.plain.items() if not key.startswith("temp:")}
        assert {key: value for key, value in again.items() if not key.startswith("temp:")} == lasting
        assert not self.state.faults


StateAgreesWithACopy.TestCase.settings = settings(stateful_step_count=15)
test_the_state_agrees_with_a_copy = StateAgreesWithACopy.TestCase


def test_a_key_that_was_set_is_in_the_delta_even_with_the_same_value():
    """So that of parallel calls the last one's word stands."""
    state = State({"a": 1})
    state["a"] = 1
    assert state.delta == {"a": 1}


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), ("1", 1), (None, 0)])
def test_what_json_tells_apart_is_a_change(before, after):
    state = State({"a": [before], "b": {"c": before}})
    state["a"][0] = after
    state["b"]["c"] = after
    assert state.delta == {"a": [after], "b": {"c": after}}


def test_temporary_keys_end_with_the_call():
    state = State({"temp:old": [1]})
    state["temp:new"] = 1
    state["temp:old"].append(2)
    assert (state["temp:new"], state["temp:old"]) == (1, [1, 2])
    assert state.delta == {}


def test_what_the_host_changes_meanwhile_is_no_change_of_the_calls():
    base = {"a": [1]}
    state = State(base)
    assert state["a"] == [1]
    base["a"].append(2)
    assert state.delta == {}


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("cart", {"items": [1, dt.date(2026, 1, 2)]}, r"state.cart.items\[1\]: must be JSON .* got a Python date"),
        ("user:x", float("nan"), r'state\["user:x"\]: must be a finite number'),
        ("a", {1: 2}, "state.a: keys must be strings"),
        (1, 2, "state: keys must be strings, got one of type int"),
        ("\ud800", 2, "state: keys must not hold lone surrogates"),
    ],
)
def test_what_is_no_json_is_refused_where_it_is_written(key, value, place):
    state = State({})
    with pytest.raises(ValueError, match=place):
        state[key] = value
    assert state.delta == {}


def test_a_cycle_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="must not contain itself"):
        State({})["a"] = loop


def test_what_became_no_json_in_place_is_left_out_and_told():
    state = State({"a": [1], "b": [2]})
    state["a"].append(object())
    state["b"].append(3)
    state["c"] = [4]
    state["c"].append({5})
    assert state.delta == {"b": [2, 3]}
    assert [fault.split(" (")[0] for fault in state.faults] == [
        "state.a[1]: must be JSON",
        "state.c[1]: must be JSON",
    ]


def test_objects_of_the_host_are_handed_out_as_they_are():
    thing = object()
    state = State({"thing": thing, "in": [thing], "pair": (thing, [1]), "set": {1}})
    assert state["thing"] is thing
    assert state["in"][0] is thing
    assert state["pair"] == (thing, [1])
    assert state["pair"][1] is not State({"pair": (thing, [1])})["pair"][1]
    assert state["set"] == {1}
    assert (state.delta, state.faults) == ({}, ())
    state["set"].add(2)
    assert "set" in state.faults[0]


def test_a_call_inside_a_call_sees_the_outer_ones_changes():
    outer = State({"a": [1]})
    outer["a"].append(2)
    inner = State(outer)
    inner["a"].append(3)
    assert (outer["a"], inner.delta) == ([1, 2], {"a": [1, 2, 3]})


def test_what_a_call_inside_has_asked_for_is_taken_over():
    said = PendingActions({"a": 1, "b": 1})
    said.saved("f", 3)
    said.transfer_to = "planner"
    said.add(
        Actions(
            {"a": REMOVED, "c": [2], "never": REMOVED},
            {"f": 2, "g": 1},
            "writer",
            escalate=True,
            skip_summarization=True,
        )
    )
    said.add(Actions())
    assert said.actions == Actions(
        {"a": REMOVED, "c": [2]}, {"f": 3, "g": 1}, "writer", escalate=True, skip_summarization=True
    )


def test_the_delta_is_changed_in_the_state_only():
    said = PendingActions({})
    with pytest.raises(TypeError, match="does not support item assignment"):
        said.state_delta["a"] = 1
    said.state["a"] = 1
    assert said.state_delta == {"a": 1}


@pytest.mark.parametrize(
    ("name", "value"), [("transfer_to", 1), ("escalate", "yes"), ("skip_summarization", None), ("title", 1)]
)
def test_what_the_host_could_not_understand_is_refused(name, value):
    with pytest.raises(TypeError, match=name):
        setattr(PendingActions({}), name, value)


def test_later_facts_win_and_a_heading_stays_until_there_is_another():
    said = PendingActions({})
    said.show("first", {"a": 1, "b": 1})
    said.show(None, {"b": 2})
    assert (said.title, said.facts) == ("first", {"a": 1, "b": 2})
    said.show("second", {})
    assert said.title == "second"


def test_nobody_needs_to_listen():
    ToolContext().report(1)
    ToolContext().emit("part")


def test_a_state_shows_itself():
    assert repr(State({"a": 1})) == "State({'a': 1})"
