from __future__ import annotations

import asyncio
import threading
import time

import attrs
import pytest

from pegboard import (
    REMOVED,
    Actions,
    Confirmation,
    Progress,
    ReadonlyContext,
    TextContent,
    ToolContext,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.errors import CallStoppedError
from pegboard.tools import DisplayUpdate


@pytest.mark.parametrize("name", [each.name for each in attrs.fields(ReadonlyContext)])
def test_a_running_call_has_the_attributes_of_its_request(name):
    value = {"a": 1} if name in ("state", "extra", "values") else name
    assert getattr(ToolContext(ReadonlyContext(**{name: value})), name) == value


def test_progress_and_partial_results_reach_the_listener():
    received = []
    context = ToolContext(listener=received.append)
    context.report(1, 3, "reading")
    context.emit("part")
    assert received == [Progress(1, 3, "reading"), "part"]


def test_changes_of_state_become_a_delta_and_the_hosts_state_is_unchanged():
    state = {"a": [1], "b": 2}
    context = ToolContext(ReadonlyContext(state=state))
    context.state["a"].append(2)
    context.state["c"] = 3
    del context.state["b"]
    assert context.actions.actions == Actions({"a": [1, 2], "b": REMOVED, "c": 3})
    assert state == {"a": [1], "b": 2}


def test_toolsets_can_read_the_state_but_not_change_it():
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


def test_actions_and_services_are_created_lazily():
    for context in (ToolContext(), ToolContext(listener=lambda update: None)):
        context.report(1)
        context.emit("part")
        assert (context.internals.pending_actions, context.internals.container) == (None, None)


def test_threads_share_one_actions_object():
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


def test_display_metadata_is_emitted_and_stored():
    received = []
    context = ToolContext(listener=received.append)
    context.metadata("Reading", path="a.txt")
    context.metadata(lines=3)
    assert received == [DisplayUpdate("Reading", {"path": "a.txt"}), DisplayUpdate(None, {"lines": 3})]
    assert (context.actions.title, context.actions.facts) == ("Reading", {"path": "a.txt", "lines": 3})
    ToolContext().metadata("without a listener")


def test_a_bare_context_allows_everything():
    context = ToolContext()
    assert asyncio.run(context.ask("edit", ["a.txt"])) is None
    assert asyncio.run(context.request_confirmation("Really?", {"a": 1})) == Confirmation(
        "Really?", confirmed=True, payload={"a": 1}
    )
    answer = Confirmation(confirmed=False, feedback="not now")
    assert asyncio.run(ToolContext(confirmation=answer).request_confirmation("Really?")) is answer
    assert context.allows("read", "a.env")
    assert context.allowed_names("read", "src", ["a", "b"]) == ("a", "b")
    assert context.inherited() == {}
    with pytest.raises(LookupError, match="can't be suspended"):
        context.suspend("Go on?")


def test_a_bare_context_has_no_other_tools():
    with pytest.raises(LookupError, match=r"has no tool 'add'.*ToolContext\(host=\.\.\.\)"):
        asyncio.run(ToolContext().call("add", {"a": 1}))


def test_a_bare_context_has_memory_and_artifacts():
    context = ToolContext()
    context.wait(context.memory.add("the cat sat"))
    context.wait(context.artifacts.save("a.txt", "text"))
    assert len(context.wait(context.memory.search("cat"))) == 1
    assert context.wait(context.artifacts.load("a.txt")) == TextContent("text")


async def test_a_bare_context_runs_background_work_in_the_running_loop():
    done = []

    async def work(name, event):
        await asyncio.sleep(0)
        done.append(name)
        event.set()

    first, second = asyncio.Event(), asyncio.Event()
    assert ToolContext().background(work("later", first)) == "background"
    ToolContext().background(lambda: work("made later", second))
    ToolContext().background(lambda: done.append("at once"))
    assert done == ["at once"]
    await first.wait()
    await second.wait()
    assert sorted(done) == ["at once", "later", "made later"]


def test_without_a_loop_a_bare_context_runs_background_work_at_once():
    done = []

    async def work():
        done.append("done")

    ToolContext().background(work())
    assert done == ["done"]


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


def test_requests_of_a_call_go_to_its_host():
    host = Host()
    context = ToolContext(call_id="c", host=host)
    asyncio.run(context.ask("edit", ["a"], metadata={"diff": "x"}))
    asyncio.run(context.ask("edit", ["a"], always=["*"]))
    assert not context.allows("read", "a.env")
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


def test_a_question_with_an_answer_is_not_asked_again():
    host = Host()
    context = ToolContext(host=host, confirmation=Confirmation("First?", confirmed=True, payload=5))
    assert asyncio.run(context.request_confirmation("First?")).payload == 5
    assert host.asked == []
    asyncio.run(context.request_confirmation("Second?"))
    assert host.asked == [("", "Second?", None)]


async def test_a_call_knows_whether_its_tool_has_begun():
    registry, begun = ToolRegistry(), []

    @tool
    async def look(context: ToolContext) -> None:
        begun.append(context.has_started)

    registry.register(look)
    for stage in ("before_tool", "after_tool"):
        registry.add_callback(stage, lambda context: begun.append(context.has_started))
    await registry.call("look")
    assert begun == [False, True, True]
    assert ToolContext().has_started


def test_a_call_knows_the_time_left():
    context = ToolContext()
    assert (context.remaining, context.deadline, context.cancelled) == (None, None, False)
    context.check()
    context.deadline = time.monotonic() + 100
    assert 0 < context.remaining <= 100
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
def test_a_stopped_call_raises(facts, kind, text):
    context = ToolContext(**facts)
    for check in (context.check, lambda: context.wait(nothing())):
        with pytest.raises(CallStoppedError, match=text) as caught:
            check()
        assert caught.value.kind == kind
