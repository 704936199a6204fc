from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from dispatch.executors import isolated_tools
from dispatch.executors.isolated_tools import tool_named
from pegboard.dispatch.executors.luggage import Home, UnsendableError, errand_for, fingerprint, parcel_of
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.tools.context import ToolContext
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import as_tools


def named(**arguments):
    return lambda: arguments


def one(a):
    return a in {"x", "y", ("z", 1)}


def test_a_parcel_is_packed_once_a_tool():
    add = tool_named("add")
    assert parcel_of(add) is parcel_of(add)
    assert parcel_of(add.evolve()).key != parcel_of(add).key


def test_a_parcel_names_the_module_and_its_file():
    (home,) = parcel_of(tool_named("add")).homes
    assert home == Home("dispatch.executors.isolated_tools", isolated_tools.__file__)


def test_the_context_stays_behind_and_its_place_is_noted():
    context = ToolContext()
    asked = errand_for(tool_named("ask"), ExecutionRequest(tool="ask", arguments={"permission": "p"}), context)
    assert (asked.context_at, asked.context_as) == ((), ("context",))
    doubled = errand_for(
        isolated_tools.Doubler().as_tool(), ExecutionRequest(tool="d", arguments={"number": 1}), context
    )
    assert (doubled.context_at, doubled.context_as) == ((0,), ())


def test_an_argument_that_cant_be_sent_is_refused_and_says_what_to_do():
    add = tool_named("add")
    made = add.evolve(handler=evolve(add.handler, make_binder=lambda: lambda *_: ((), {"a": lambda: 1})))
    with pytest.raises(UnsendableError, match=r"an argument of add can't be sent to a child process: .*'thread'"):
        errand_for(made, ExecutionRequest(tool="add"), ToolContext())


def test_fingerprints_tell_code_apart_and_nothing_else():
    assert fingerprint(named()) == fingerprint(named())
    assert fingerprint(named()) != fingerprint(one)
    assert fingerprint(len) == fingerprint(max)  # nothing is known of code in C


def test_a_fingerprint_knows_the_spec_that_a_function_carries():
    @tool
    def work() -> str:
        """Works."""
        return "done"

    first = work
    bare = fingerprint(work)
    work.__pegboard_tool__ = work.__pegboard_tool__.with_spec(description="Works otherwise.")
    assert fingerprint(first) != bare


def test_a_fingerprint_of_a_method_knows_its_tool():
    (method,) = as_tools(isolated_tools.Counter(1))
    assert fingerprint(method.handler.function) == fingerprint(isolated_tools.Counter.from_start)


def test_a_fingerprint_is_the_same_in_every_process():
    """Sets are written in another order there."""
    lines = [
        "import sys",
        "sys.path[:] = sys.argv[1:]",
        "from dispatch.executors import test_luggage as here",
        "print(here.fingerprint(here.one))",
    ]
    said = {
        subprocess.run(
            [sys.executable, "-c", "; ".join(lines), *filter(None, sys.path), str(Path(__file__).parents[2])],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert said == {fingerprint(one)}


def test_a_tool_of_the_main_program_is_found_by_its_file_or_its_name(monkeypatch):
    main = sys.modules["__main__"]
    made = Tool.from_function(named(), name="made")
    function = made.handler.function
    monkeypatch.setattr(main, "typed_in", function, raising=False)
    function.__module__, function.__qualname__ = "__main__", "typed_in"
    monkeypatch.setattr(main, "__file__", "/app/app.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    assert parcel_of(made.evolve()).homes == (Home("__main__", "/app/app.py"),)
    monkeypatch.setattr(main, "__spec__", type("Spec", (), {"name": "app.cli"}))
    assert parcel_of(made.evolve()).homes == (Home("__main__", "/app/app.py", "app.cli"),)
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.delattr(main, "__file__")
    with pytest.raises(UnsendableError, match="it was typed in, and stands in no file"):
        parcel_of(made.evolve())
