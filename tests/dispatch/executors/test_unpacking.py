from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from dispatch.executors import isolated_tools
from dispatch.executors.calling import execute
from dispatch.executors.isolated_tools import tool_named
from pegboard.dispatch.executors import unpacking
from pegboard.dispatch.executors.luggage import Home, errand_for, parcel_of
from pegboard.dispatch.executors.processes import ChildProcesses
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.unpacking import StaleCodeError, bound, unpacked
from pegboard.tools.context import ToolContext
from pegboard.tools.typed import as_tools

GREET = """
from pegboard import tool

@tool
def greet(name: str) -> str:
    "Greets."
    return f"{word} {{name}}"
"""

PROGRAM = (
    """
import asyncio
from pegboard.dispatch.executors.processes import ChildProcesses
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.tools.typed import as_tools
"""
    + GREET.format(word="hello")
    + """
async def main():
    pool = ChildProcesses(tools=as_tools(greet))
    response = await pool.execute(ExecutionRequest(tool="greet", arguments={"name": "Ann"}))
    await pool.aclose()
    print(response.output or response)

if __name__ == "__main__":
    asyncio.run(main())
"""
)


@pytest.fixture
def fresh():
    made = []

    def fresh():
        made.append(ChildProcesses(grace=0.2))
        return made[-1]

    yield fresh
    for pool in made:
        asyncio.run(pool.aclose())


@pytest.fixture
def plain_file(tmp_path):
    """Loads a module from a file that no name leads to, as `registry --functions` does; gives its tool."""
    file = tmp_path / "greetings.py"

    def load(source):
        file.write_text(source)
        importlib.invalidate_caches()
        spec = importlib.util.spec_from_file_location("plain_file_of_a_test", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        exec(compile(source, file, "exec"), vars(module))
        return as_tools(module.greet)[0]

    yield load
    sys.modules.pop("plain_file_of_a_test", None)


def run(pool, tool):
    return asyncio.run(execute(pool, tool, name="Ann"))


# From wherever the parent has it --------------------------------------------------------------------------------------


def test_a_function_of_a_plain_file_is_found_by_the_file(fresh, plain_file):
    assert run(fresh(), plain_file(GREET.format(word="hello"))).output == "hello Ann"


def test_code_that_has_changed_since_is_not_run(fresh, plain_file, tmp_path):
    tool = plain_file(GREET.format(word="hello"))
    (tmp_path / "greetings.py").write_text(GREET.format(word="delete"))
    response = run(fresh(), tool)
    assert (response.kind, response.error) == (
        "tool_failure",
        "greet has changed since it was loaded and was not run.",
    )
    assert "isn't what it was when the parent loaded it; start the program again" in response.detail


def test_a_child_that_has_imported_an_older_version_is_replaced(fresh, plain_file):
    pool = fresh()
    assert run(pool, plain_file(GREET.format(word="hello"))).output == "hello Ann"
    assert run(pool, plain_file(GREET.format(word="good evening"))).output == "good evening Ann"


def test_a_module_that_fails_there_costs_the_call(fresh, plain_file, tmp_path):
    pool, tool = fresh(), plain_file(GREET.format(word="hello"))
    (tmp_path / "greetings.py").write_text("raise SystemExit('broken')")
    response = run(pool, tool)
    assert (response.kind, response.error) == (
        "tool_failure",
        "greet can't be run: what brings it failed to load in its process.",
    )
    assert "SystemExit: broken" in response.detail
    assert asyncio.run(execute(pool, "add", a=1)).structured_content == {"result": 3}


def program(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(unpacking.__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_tool_of_the_main_program_runs_and_the_program_isnt_run_again(tmp_path):
    (tmp_path / "app.py").write_text(PROGRAM)
    done = program(tmp_path, "app.py")
    assert (done.stdout, done.stderr) == ("hello Ann\n", "")


def test_so_does_one_of_a_program_that_is_run_as_a_module(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "cli.py").write_text(PROGRAM)
    done = program(tmp_path, "-m", "app.cli")
    assert (done.stdout, done.stderr) == ("hello Ann\n", "")


def test_what_was_typed_in_says_what_to_do(tmp_path):
    done = program(tmp_path, "-c", PROGRAM)
    assert "it was typed in, and stands in no file. Put it into a module" in done.stdout


def test_asserts_are_left_out_there_where_they_are_here(tmp_path):
    """Code is another one with -O; it would be taken for changed."""
    (tmp_path / "app.py").write_text(PROGRAM.replace('"Greets."', '"Greets."\n    assert not name'))
    assert program(tmp_path, "-O", "app.py").stdout == "hello Ann\n"


# In this process ------------------------------------------------------------------------------------------------------


def test_what_is_unpacked_is_the_tool_with_its_arguments_already_bound():
    tool = tool_named("add")
    again = unpacked(parcel_of(tool))
    assert again.spec == tool.spec
    assert again.handler.function is isolated_tools.add
    assert again.handler.wraps_result
    with pytest.raises(TypeError, match="bound in the parent"):
        again.bind(ToolContext(), {})


def test_the_context_is_put_back_where_it_was():
    context = ToolContext()
    doubled = errand_for(
        isolated_tools.Doubler().as_tool(), ExecutionRequest(tool="doubler", arguments={"number": 4}), context
    )
    assert bound(doubled.bound, context, doubled.context_at, doubled.context_as) == ([context, 4], {})
    asked = errand_for(tool_named("ask"), ExecutionRequest(tool="ask", arguments={"permission": "p"}), context)
    assert bound(asked.bound, context, asked.context_at, asked.context_as) == (
        [],
        {"permission": "p", "context": context},
    )


def test_another_fingerprint_is_stale():
    parcel = evolve(parcel_of(tool_named("add")), fingerprint="sha256:other")
    with pytest.raises(StaleCodeError, match="isn't what it was"):
        unpacked(parcel)


@pytest.fixture
def move_in(monkeypatch):
    """Moves into a home, and out again after the test."""
    monkeypatch.setitem(sys.modules, "__mp_main__", None)

    def move_in(home):
        monkeypatch.setitem(sys.modules, home.name, sys.modules.get(home.name))
        if home.name != "__main__":
            monkeypatch.delitem(sys.modules, home.name)
        unpacking._move_in(home)
        return sys.modules[home.name]

    return move_in


def test_a_module_of_that_name_from_another_file_is_not_taken(move_in, tmp_path):
    (tmp_path / "this.py").write_text("mine = True")
    assert move_in(Home("colorsys", str(tmp_path / "this.py"))).mine


def test_a_module_that_cant_be_imported_nor_loaded_fails(move_in, tmp_path):
    with pytest.raises(ModuleNotFoundError):
        move_in(Home("this_is_no_module", None))
    (tmp_path / "words.txt").write_text("no Python")
    with pytest.raises(ImportError, match=r"words\.txt is no Python module"):
        move_in(Home("this_is_no_module", str(tmp_path / "words.txt")))
    assert "this_is_no_module" not in sys.modules


def test_the_main_program_is_imported_by_its_name_where_it_has_one(move_in):
    assert move_in(Home("__main__", None, "dispatch.executors.isolated_tools")) is isolated_tools
