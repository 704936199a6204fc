"""Guards of several registries that count together, as those of several processes do."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from pegboard import (
    ReadonlyContext,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    TurnOutcome,
    hookimpl,
    register_plugin,
    run_turn,
    tool,
)
from pegboard.testing import ScriptedModel
from pegboard_guard import Counters, Guard, Journal, JournalSink, encode, time_text

ANN = ReadonlyContext(user="ann", session="s1", invocation="i1")
BOB = ReadonlyContext(user="bob", session="s1", invocation="i1")


class Shared:
    """Counters as a database has them: JSON texts, and a clock of its own."""

    def __init__(self):
        self.rows, self.now, self.updates = {}, 1000.0, 0

    async def update(self, keys, change):
        await asyncio.sleep(0)
        self.updates += 1
        for _ in range(2):  # as after a serialization failure
            known = {key: json.loads(self.rows[key]) for key in keys if key in self.rows}
            new = change(self.now, known)
        assert all(len(key) <= 300 and key in keys for key in new)
        self.rows.update({key: json.dumps(value) for key, value in new.items() if value is not None})


@tool
async def look(at: str = "") -> str:
    return at


@tool
async def save(at: str = "") -> str:
    return at


@pytest.fixture
def shared():
    return Shared()


@pytest.fixture
def registries(shared):
    """Two registries with the same settings and counters."""

    def registries(**settings):
        made = ToolRegistry(), ToolRegistry()
        for registry in made:
            registry.register(look, save)
            assert register_plugin(registry, Guard({"doom_loop": 0, **settings}), "guard").status == "loaded"
            registry.provide(Counters, shared)
        return made

    return registries


def kinds(*calls, context=ANN):
    """The kinds of the results of calls: pairs of a registry and a tool's name."""
    return [registry.call_sync(name, {}, context).kind for registry, name in calls]


def test_a_limit_is_for_all_processes_and_for_each_session(registries):
    one, other = registries(limits=[{"calls": 2}])
    assert kinds((one, "look"), (other, "save"), (one, "look"), (other, "look")) == [None, None, "denied", "denied"]
    assert kinds((other, "look"), context=BOB) == [None]


def test_a_limit_with_a_window_goes_by_the_clock_of_the_counters(registries, shared):
    one, other = registries(limits=[{"calls": 1, "seconds": 60}])
    assert kinds((one, "look"), (other, "look")) == [None, "denied"]
    shared.now += 59
    assert "Call it again in 1 s" in other.call_sync("look", {}, ANN).text
    shared.now += 1
    assert kinds((other, "look"), (one, "look")) == [None, "denied"]


def test_a_call_that_did_not_run_does_not_count(registries):
    one, other = registries(
        limits=[{"calls": 1}, {"calls": 1, "seconds": 60}], order={"cooldown": [{"tools": "look", "calls": 1}]}
    )

    class Denies:
        @hookimpl
        def pegboard_before_tool(self):
            return ToolResult.error("rejected", "no")

    handle = register_plugin(one, Denies(), "denies")
    assert handle.status == "loaded"
    assert kinds((one, "look"), (other, "look"), (other, "save")) == ["rejected", None, "denied"]


def test_the_order_of_calls_is_that_of_all_processes(registries):
    one, other = registries(order={"after": [{"tools": "save", "after": "look"}]})
    assert kinds((other, "save"), (one, "look"), (other, "save")) == ["denied", None, None]
    assert kinds((one, "save"), context=BOB) == ["denied"]


def test_a_pause_lasts_in_all_processes(registries, shared):
    one, other = registries(order={"cooldown": [{"tools": "look", "seconds": 60}]})
    assert kinds((one, "look"), (other, "look"), (other, "save")) == [None, "denied", None]
    shared.now += 60
    assert kinds((other, "look"), (one, "look")) == [None, "denied"]


def test_a_pause_may_be_of_calls(registries):
    one, other = registries(order={"cooldown": [{"tools": "look", "calls": 1}]})
    assert kinds((one, "look"), (other, "look"), (one, "save"), (other, "look")) == [None, "denied", None, None]


def test_a_choice_binds_all_processes_in_its_turn(registries):
    one, other = registries(order={"exclusive": [{"tools": ["look", "save"]}]})
    assert kinds((one, "look"), (other, "save"), (other, "look")) == [None, "denied", None]
    assert "look was used" in other.call_sync("save", {}, ANN).text
    assert kinds((other, "save"), context=ReadonlyContext(user="ann", session="s1", invocation="i2")) == [None]


async def test_what_a_turn_lacks_may_have_been_called_in_another_process(registries):
    one, other = registries(order={"required": [{"tools": "save", "within": "session"}]})

    async def reminder(registry):
        (stop,) = registry.contributions.catalogue.callbacks("on_stop")
        return await stop.function(ANN, TurnOutcome(()))

    await other.call("look", {}, ANN)
    assert await reminder(other) == "Before you finish, call save."
    await one.call("save", {}, ANN)
    assert await reminder(other) is None


def test_repeated_calls_are_counted_over_all_processes(registries):
    one, other = registries(doom_loop=3, doom_loop_action="deny")
    assert kinds((one, "look"), (other, "look"), (one, "look")) == [None, None, "denied"]
    assert kinds((other, "save"), (one, "look")) == [None, None]


def test_rules_that_differ_are_counted_apart(registries, shared):
    one, _ = registries(limits=[{"calls": 1}])
    other, _ = registries(limits=[{"calls": 2}])
    assert kinds((one, "look"), (other, "look"), (other, "look"), (other, "look")) == [None, None, None, "denied"]


def test_counters_that_fail_let_no_call_start_and_lose_no_result(registries, shared, monkeypatch, caplog):
    one, _ = registries(limits=[{"calls": 5}], doom_loop=3)
    update = shared.update

    async def fail(keys, change):
        raise ConnectionError("no server")

    async def fail_later(keys, change):
        monkeypatch.setattr(shared, "update", fail)
        await update(keys, change)

    monkeypatch.setattr(shared, "update", fail)
    assert one.call_sync("look", {"at": "a"}, ANN).is_error
    monkeypatch.setattr(shared, "update", update)
    only_limits, _ = registries(limits=[{"calls": 5}])
    monkeypatch.setattr(shared, "update", fail_later)
    caplog.clear()
    assert only_limits.call_sync("look", {"at": "a"}, ANN).text == "a"
    assert [each.getMessage() for each in caplog.records if each.exc_info] == ["counting a call failed"]


def test_without_counters_each_registry_counts_for_itself():
    one, other = ToolRegistry(), ToolRegistry()
    for registry in (one, other):
        registry.register(look)
        register_plugin(registry, Guard({"limits": [{"calls": 1}]}), "guard")
    assert kinds((one, "look"), (other, "look"), (one, "look")) == [None, None, "denied"]


# The journal ----------------------------------------------------------------------------------------------------------


class Sink:
    """A sink that chains its lines, as a table of a database would."""

    def __init__(self):
        self.lines, self.hash, self.fails = [], None, False

    def append(self, records):
        if self.fails:
            raise ConnectionError("no server")
        for facts in records:
            given = {} if self.hash is None else {"previous": self.hash}
            line, self.hash = encode(len(self.lines) + 1, time_text(5.0), facts, **given)
            self.lines.append(json.loads(line))

    def key(self):
        return b"k" * 32

    def close(self):
        self.is_closed = True


def journalled(sink, **settings):
    registry = ToolRegistry()
    registry.register(look)
    guard = Guard({"doom_loop": 0, "journal": settings})
    register_plugin(registry, guard, "guard")
    if sink is not None:
        registry.provide(JournalSink, sink)
    return registry, guard.journal


def test_a_journal_without_a_file_goes_to_the_sink_of_the_host():
    sink = Sink()
    (one, journal), (other, _) = journalled(sink, starts=True), journalled(sink)
    one.call_sync("look", {"at": "a"}, ToolContext(ANN, "c1"))
    other.call_sync("look", {"at": "a"}, ToolContext(ANN, "c2"))
    assert [(each["n"], each["kind"], each["call"]) for each in sink.lines] == [
        (1, "start", "c1"),
        (2, "call", "c1"),
        (3, "call", "c2"),
    ]
    assert [each["prev"] for each in sink.lines[1:]] == [each["hash"] for each in sink.lines[:-1]]
    assert sink.lines[0]["at"] == "1970-01-01T00:00:05.000000Z"
    assert len({each["digest"] for each in sink.lines}) == 1
    assert journal.close()
    assert sink.is_closed


def test_records_that_a_sink_does_not_take_are_counted(caplog):
    sink = Sink()
    registry, _ = journalled(sink)
    sink.fails = True
    assert registry.call_sync("look", {"at": "a"}, ANN).text == "a"
    sink.fails = False
    registry.call_sync("look", {"at": "b"}, ANN)
    assert [each["kind"] for each in sink.lines] == ["lost", "call"]
    assert "ConnectionError: no server" in caplog.text


def test_a_journal_that_has_neither_file_nor_sink_warns_and_affects_no_call(caplog):
    registry, journal = journalled(None)
    with caplog.at_level(logging.WARNING):
        assert registry.call_sync("look", {"at": "a"}, ANN).text == "a"
    assert "it has no file, and the host provides no JournalSink" in caplog.text
    assert journal.close()


async def test_a_sink_may_be_made_by_a_factory():
    sink, registry, journal = Sink(), ToolRegistry(), Journal(fsync="never")
    registry.register(look)
    registry.provide(JournalSink, lambda: sink, scope="registry")
    register_plugin(registry, journal, "journal")
    await registry.call("look", {"at": "a"}, ANN)
    assert await asyncio.to_thread(journal.close)
    assert [each["kind"] for each in sink.lines] == ["call"]


def test_what_is_closed_or_was_called_is_so_in_all_processes(registries):
    one, other = registries(order={"not_after": [{"tools": "look", "after": "save"}]})
    assert kinds((one, "look"), (other, "save"), (one, "look")) == [None, None, "denied"]
    assert kinds((one, "look"), context=BOB) == [None]
    one, other = registries(order={"distinct": [{"tools": "look"}]})
    assert kinds((one, "look"), (other, "look"), (other, "save"), (one, "save")) == [None, "denied", None, None]


async def test_a_call_ends_its_turn(registries):
    one, _ = registries(order={"ends_turn": [{"tools": "save"}], "required": [{"tools": "look"}]})
    with ScriptedModel([ToolCall("save", {}, "1")]) as model:
        outcome = await run_turn(model, "Go.", one, ANN)
    assert outcome.response.text == "save succeeded, which ends the turn."


async def test_a_turn_may_go_on_in_another_process(registries, shared, monkeypatch):
    """There it knows what was called; if that can't be read, it goes on and ends as if nothing was."""
    order = {"ends_turn": [{"tools": "save"}], "required": [{"tools": "look"}]}

    async def run(registry, *steps):
        with ScriptedModel(steps) as model:
            return (await run_turn(model, "Go.", registry, ANN)).text

    one, other = registries(order=order)
    await one.call("look", {}, ANN)
    assert await run(other, "Done.") == "Done."
    await one.call("save", {}, ANN)
    assert await run(other) == "save succeeded, which ends the turn."

    async def fail(keys, change):
        raise ConnectionError("no server")

    monkeypatch.setattr(shared, "update", fail)
    assert await run(other, "Done.") == "Done."
