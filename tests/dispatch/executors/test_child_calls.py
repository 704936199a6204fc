"""The child's side, run in this process: a thread speaks for the parent."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import resource
import signal
import socket
import threading
import types

import pytest

from dispatch.executors.isolated_tools import tool_named
from dispatch.executors.watching import PATIENCE
from pegboard.dispatch.executors import child_calls, child_main, child_memory
from pegboard.dispatch.executors.answering import AnswerMessage
from pegboard.dispatch.executors.child_calls import ChildCalls
from pegboard.dispatch.executors.child_host import ChildHost
from pegboard.dispatch.executors.child_line import ChildLine, Ended, MessageTooLongError
from pegboard.dispatch.executors.child_memory import MemoryLimit
from pegboard.dispatch.executors.child_services import ChildServices
from pegboard.dispatch.executors.frames import Frames, framed
from pegboard.dispatch.executors.luggage import errand_for
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.unpacking import StaleCodeError
from pegboard.tools.context import ToolContext
from pegboard.tools.stores import Artifacts, Memory

MOST = 100_000


class Parent:
    """The other end of the line."""

    def __init__(self):
        self.link, other = socket.socketpair()
        self.line = ChildLine(other, MOST)
        self.frames = Frames(MOST)

    def send(self, *messages):
        for message in messages:
            self.link.sendall(framed(pickle.dumps(message)))

    def hang_up(self):
        self.link.shutdown(socket.SHUT_WR)

    def heard(self):
        self.line.link.close()
        said = b""
        while piece := self.link.recv(65_536):
            said += piece
        return [json.loads(body) for body in self.frames.feed(said)]


@pytest.fixture
def parent():
    made = Parent()
    yield made
    made.link.close()
    made.line.link.close()


def errand(tool, *, listens=False, **arguments):
    request = ExecutionRequest(tool=tool, arguments=arguments, memory_limit=arguments.pop("memory_limit", None))
    return errand_for(tool_named(tool), request, ToolContext(), listens=listens).sent(with_parcel=True)


@pytest.fixture
def done(parent):
    """Runs errands and gives what was said of each."""

    def done(*errands):
        parent.send(*errands)
        parent.hang_up()
        ChildCalls(parent.line).serve()
        return [message["done"] for message in parent.heard()]

    return done


def test_errands_are_run_one_after_the_other_until_the_parent_hangs_up(done):
    said = done(errand("add", a=1), errand("add_later", a=2), errand("count_up", to=3), errand("count_up_later", to=2))
    assert [each["output"] for each in said] == ['{"result": 3}', '{"result": 4}', "3", "[0, 1]"]


def test_a_plain_function_that_gives_a_coroutine_is_awaited(done):
    assert done(errand("loose", number=7))[0]["output"] == "7"


def test_an_answer_that_comes_too_late_is_passed_over(done):
    assert done(AnswerMessage(1, "late"), errand("add", a=1))[0]["output"] == '{"result": 3}'


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (("long_text", {"length": MOST + 1}), "limit"),
        (("long_text", {"length": MOST - 5}), "limit"),
        (("no_number", {}), "invalid_output"),
        (("fail", {"how": "value"}), "tool_failure"),
    ],
)
def test_what_the_parent_would_refuse_is_refused_here(done, call, kind):
    name, arguments = call
    said = done(errand(name, **arguments))[0]
    assert (said["kind"], said["is_error"]) == (kind, True)


def test_too_many_values_are_refused_here(done, monkeypatch):
    monkeypatch.setattr(
        child_calls, "json_faults", lambda facts: ("too many",) if facts.get("structured_content") else ()
    )
    said = done(errand("add", a=1))[0]
    assert said["error"] == "add ran, but its result was refused: too many. Calling it again may not help."


def test_a_fatal_error_is_said_beside_the_answer(parent):
    parent.send(errand("fail", how="fatal"))
    parent.hang_up()
    ChildCalls(parent.line).serve()
    assert parent.heard()[0]["fatal"] == "all is lost"


def test_a_call_that_ran_out_of_memory_is_the_last_of_its_process(parent, monkeypatch):
    class ExitedError(Exception):
        pass

    def leave(code):
        raise ExitedError(code)

    monkeypatch.setattr(child_calls.os, "_exit", leave)
    monkeypatch.setattr(child_memory.resource, "setrlimit", lambda *_: None)
    parent.send(errand("fail", how="memory", memory_limit=1 << 27))
    with pytest.raises(ExitedError):
        ChildCalls(parent.line).serve()
    said = parent.heard()[0]["done"]
    assert said["kind"] == "crashed"
    assert said["error"] == "fail needed more memory than it may have (128 MiB) and was ended. Ask it for less."


def test_the_end_of_the_process_ends_a_call_without_an_answer(parent, monkeypatch):
    def end(*_):
        raise Ended

    monkeypatch.setattr(ChildCalls, "_value", end)
    parent.send(errand("add", a=1))
    with pytest.raises(Ended):
        ChildCalls(parent.line).serve()
    assert parent.heard() == []


def test_standard_output_that_is_gone_is_no_fault(done, monkeypatch):
    monkeypatch.setattr(child_calls.sys, "stdout", None)
    assert done(errand("add", a=1))[0]["output"] == '{"result": 3}'


def test_a_module_that_asks_for_the_end_ends_the_process(parent, monkeypatch):
    def end(_):
        raise Ended

    monkeypatch.setattr(child_calls, "unpacked", end)
    parent.send(errand("add", a=1))
    with pytest.raises(Ended):
        ChildCalls(parent.line).serve()


# What it tells and asks -----------------------------------------------------------------------------------------------

ENTRY = {"text": "likes tea", "user": "ann", "metadata": {}}
ANSWERS = {
    "ask": None,
    "request_confirmation": {"hint": "sure?", "confirmed": True},
    "call": {"content": [{"type": "text", "text": "called"}]},
    "memory.add": ENTRY,
    "memory.search": [ENTRY],
    "artifacts.save": 1,
    "artifacts.load": {"type": "text", "text": "hello"},
    "artifacts.list": ["a.txt"],
    "artifacts.delete": None,
}


@pytest.fixture
def talk(parent):
    """Runs one errand, its questions answered by a thread; gives everything that was said."""

    def talk(sent):
        said = []

        def answer():
            while piece := parent.link.recv(65_536):
                for body in parent.frames.feed(piece):
                    message = json.loads(body)
                    said.append(message)
                    if "ask" in message:
                        parent.send(AnswerMessage(message["ask"], ANSWERS[message["what"]]))
                    if "done" in message:
                        parent.hang_up()

        thread = threading.Thread(target=answer)
        thread.start()
        parent.send(sent)
        ChildCalls(parent.line).serve()
        parent.line.link.close()
        thread.join(PATIENCE)
        return said

    return talk


@pytest.mark.parametrize(
    ("tool", "arguments", "asked"),
    [
        ("ask", {"permission": "edit"}, ["ask"]),
        ("ask_plainly", {"permission": "edit"}, ["ask"]),
        ("confirm", {"hint": "sure?"}, ["request_confirmation"]),
        ("call_twice", {"name": "echo"}, ["call", "call"]),
        (
            "remember",
            {},
            [
                "memory.add",
                "memory.search",
                "artifacts.save",
                "artifacts.load",
                "artifacts.list",
                "artifacts.delete",
                "artifacts.list",
            ],
        ),
    ],
)
def test_each_question_is_asked_once_and_its_answer_used(talk, tool, arguments, asked):
    *questions, last = talk(errand(tool, **arguments))
    assert [question["what"] for question in questions] == asked
    assert "kind" not in last["done"]


def test_what_a_tool_tells_is_said_at_once_and_noted_in_the_answer(talk):
    *told, last = talk(errand("tell", listens=True))
    assert [next(iter(message["tell"])) for message in told] == [
        "progress",
        "progress",
        "title",
        "partial",
        "content",
        "partial",
        "partial",
        "partial",
        "partial",
    ]
    assert (last["done"]["title"], last["done"]["metadata"]["place"]) == ("Heading", "here")


def test_tasks_that_are_left_behind_are_ended(talk, tmp_path):
    talk(errand("leave_a_task", file=str(tmp_path / "task")))
    assert (tmp_path / "task").read_text() == "cancelled"


def test_what_fails_to_load_costs_the_call(talk, monkeypatch):
    monkeypatch.setattr(child_calls, "unpacked", lambda _: 1 / 0)
    (last,) = talk(errand("add", a=1))
    assert last["done"]["error"] == "add can't be run: what brings it failed to load in its process."


def test_other_code_is_said_to_be_stale(parent, monkeypatch):
    def refuse(_):
        raise StaleCodeError("new")

    monkeypatch.setattr(child_calls, "unpacked", refuse)
    parent.send(errand("add", a=1))
    parent.hang_up()
    ChildCalls(parent.line).serve()
    assert parent.heard() == [{"stale": "new"}]


# Memory ---------------------------------------------------------------------------------------------------------------


def test_a_memory_limit_is_set_and_taken_back(monkeypatch):
    free, kept = resource.getrlimit(child_memory.LIMITED), []
    monkeypatch.setattr(child_memory.resource, "setrlimit", lambda _, limits: kept.append(limits))
    with MemoryLimit().kept_to(1 << 30):
        assert kept == [(1 << 30, free[1])]
    assert kept[1:] == [free]


def test_a_limit_that_the_process_has_already_is_never_widened(monkeypatch):
    kept = []
    monkeypatch.setattr(child_memory.resource, "getrlimit", lambda _: (1 << 28, 1 << 29))
    monkeypatch.setattr(child_memory.resource, "setrlimit", lambda _, limits: kept.append(limits))
    with MemoryLimit().kept_to(1 << 30):
        assert kept == [(1 << 28, 1 << 29)]


# The line -------------------------------------------------------------------------------------------------------------


def test_several_messages_at_once_are_heard_one_by_one(parent):
    parent.send(1, 2, 3)
    assert [parent.line.hear() for _ in range(3)] == [1, 2, 3]


def test_what_is_there_is_heard_at_once_and_nothing_is_waited_for(parent):
    assert parent.line.heard_now() == []
    parent.send(1, 2)
    assert parent.line.heard_now() == [1, 2]
    parent.hang_up()
    assert parent.line.heard_now() == [None]


def test_a_message_that_is_too_long_is_not_sent(parent):
    with pytest.raises(MessageTooLongError, match="bytes"):
        parent.line.say({"text": "x" * MOST})
    assert parent.heard() == []


def test_lone_surrogates_become_question_marks(parent):
    parent.line.say({"text": "\ud800"})
    assert parent.heard() == [{"text": "?"}]


# Its host -------------------------------------------------------------------------------------------------------------


def test_where_the_parent_hangs_up_a_question_ends_the_process(parent):
    parent.hang_up()
    with pytest.raises(Ended):
        asyncio.run(ChildHost(parent.line).question("ask"))


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(parent):
    host = ChildHost(parent.line)

    async def ask_twice():
        first = asyncio.ensure_future(host.question("call"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(host.question("call"))
        await asyncio.sleep(0)
        first.cancel()
        parent.send(AnswerMessage(1, "one"), AnswerMessage(2, "two"))
        return await second

    assert asyncio.run(ask_twice()) == "two"


def test_an_answer_and_a_cancellation_at_the_same_time_are_no_fault(parent):
    host = ChildHost(parent.line)

    async def both():
        task = asyncio.ensure_future(host.question("call"))
        await asyncio.sleep(0)
        future = host._waiting[1]
        parent.send(AnswerMessage(1, "one"))
        host._deliver()
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(both())


def test_its_services_are_those_of_the_parent(parent):
    services = ChildServices(ChildHost(parent.line))
    assert set(services) == {Memory, Artifacts}
    assert len(services) == 2
    assert Memory in services


def test_a_coroutine_for_the_background_is_closed(parent):
    """Or Python would complain that nobody has awaited it."""

    async def work():
        raise AssertionError("never")

    host = ChildHost(parent.line)
    with pytest.raises(LookupError, match="executor='thread'"):
        host.background(ToolContext(), work())
    with pytest.raises(LookupError, match="executor='thread'"):
        host.background(ToolContext(), print)


# The program ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run_program(parent, monkeypatch):
    """Runs the child's program on this end of the line; what is only for a process of its own is left out."""
    monkeypatch.setattr(child_main, "die_with", lambda _: None)
    monkeypatch.setattr(child_main, "_watch_forks", lambda _: None)
    monkeypatch.setattr(child_main, "socket", types.SimpleNamespace(socket=lambda fileno: parent.line.link))
    monkeypatch.setattr(child_main.sys, "argv", ["-c", "0", "0", str(MOST), "path"])
    before = signal.getsignal(signal.SIGTERM)
    yield child_main.main
    signal.signal(signal.SIGTERM, before)


def test_the_program_says_that_it_is_ready_and_serves(parent, run_program):
    parent.send(errand("add", a=1))
    parent.hang_up()
    run_program()
    ready, said = parent.heard()
    assert ready == {"ready": os.getpid()}
    assert said["done"]["output"] == '{"result": 3}'


def test_the_signal_to_end_ends_it(parent, run_program, monkeypatch):
    monkeypatch.setattr(ChildCalls, "serve", lambda _: signal.raise_signal(signal.SIGTERM))
    run_program()
    assert parent.heard() == [{"ready": os.getpid()}]


def test_a_line_that_breaks_ends_it(parent, run_program):
    parent.link.close()
    run_program()
