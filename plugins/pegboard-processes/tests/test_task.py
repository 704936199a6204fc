from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys

import isolated_tools
import pytest
from isolated_tools import tool_named
from running import PATIENCE, execute, skip_time, timed_out, written

from pegboard import tool_of
from pegboard_processes import task as module
from pegboard_processes.task import ModuleRef, payload_of

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
from pegboard import ToolRegistry, tool_of
from pegboard_processes import ChildProcesses
"""
    + GREET.format(word="hello")
    + """
async def main():
    async with ToolRegistry() as registry:
        registry.add("executors", "process", ChildProcesses())
        registry.register(greet)
        result = await registry.call("greet", {"name": "Ann"})
    print(result.detail or result.text)

if __name__ == "__main__":
    asyncio.run(main())
"""
).replace("@tool\n", "@tool(executor='process')\n")


@pytest.fixture
def plain_file(tmp_path):
    """Loads a module that can't be imported from its file, as `registry --functions` does; returns its tool."""
    file = tmp_path / "greetings.py"

    def load(source):
        file.write_text(source)
        importlib.invalidate_caches()
        spec = importlib.util.spec_from_file_location("plain_file_of_a_test", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        exec(compile(source, file, "exec"), vars(module))
        return tool_of(module.greet)

    yield load
    sys.modules.pop("plain_file_of_a_test", None)


def run(pool, tool):
    return asyncio.run(execute(pool, tool, name="Ann"))


# Finding the function in the child ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_function_of_a_file_that_cant_be_imported_is_loaded_from_it(fresh, plain_file):
    assert run(fresh(), plain_file(GREET.format(word="hello"))).output == "hello Ann"


def test_code_that_has_changed_is_not_run(fresh, plain_file, tmp_path):
    tool = plain_file(GREET.format(word="hello"))
    (tmp_path / "greetings.py").write_text(GREET.format(word="delete"))
    response = run(fresh(), tool)
    assert (response.kind, response.error) == (
        "not_executed",
        "greet was not run: it is defined in another way where it would run. Continue without it.",
    )
    assert "has changed since the parent loaded it; start the program again" in response.detail


@pytest.mark.slow
def test_a_child_that_has_imported_an_older_version_is_replaced(fresh, plain_file):
    pool = fresh()
    assert run(pool, plain_file(GREET.format(word="hello"))).output == "hello Ann"
    assert run(pool, plain_file(GREET.format(word="good evening"))).output == "good evening Ann"


@pytest.mark.slow
def test_a_module_that_fails_in_the_child_fails_the_call(fresh, plain_file, tmp_path):
    pool, tool = fresh(), plain_file(GREET.format(word="hello"))
    (tmp_path / "greetings.py").write_text("raise SystemExit('broken')")
    response = run(pool, tool)
    assert (response.kind, response.error) == (
        "tool_failure",
        "greet was not run: its module failed to load in its process.",
    )
    assert "SystemExit: broken" in response.detail
    assert asyncio.run(execute(pool, "add", a=1)).structured_content == {"result": 3}


def program(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["app/cli.py"], ["-m", "app.cli"]], ids=["a file", "a module"])
def test_a_tool_of_the_main_program_runs_without_running_the_program_again(tmp_path, arguments):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "cli.py").write_text(PROGRAM)
    done = program(tmp_path, *arguments)
    assert (done.stdout, done.stderr) == ("hello Ann\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("run", ["asyncio.run(main())", "asyncio.run(asyncio.to_thread(asyncio.run, main()))"])
def test_a_program_that_would_run_again_in_the_child_is_refused_at_once(tmp_path, run):
    """Importing its file calls the tool again; unchecked, each child would start another child."""
    (tmp_path / "app.py").write_text(PROGRAM.replace('if __name__ == "__main__":\n    asyncio.run(main())', run))
    done = program(tmp_path, "app.py")
    assert done.stdout.startswith("greet was not run: its process would have run the whole program again.")
    assert '`if __name__ == "__main__":`' in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_program_that_never_finishes_importing_in_the_child_times_out(tmp_path):
    """Such as a server that its own file starts."""
    text = PROGRAM.replace("ChildProcesses()", "ChildProcesses(import_timeout=1.5)")
    text = text.replace("result.detail or result.text", "result.text")
    endless = "import sys, time\nif __name__ == '__mp_main__':\n    time.sleep(60)\nasyncio.run(main())"
    (tmp_path / "app.py").write_text(text.replace('if __name__ == "__main__":\n    asyncio.run(main())', endless))
    done = program(tmp_path, "app.py")
    assert done.stdout.startswith("greet was not run: importing its module took longer than 1.5 s.")
    assert '`if __name__ == "__main__":`' in done.stdout


SLOW = """
import os, time
from pathlib import Path
folder = Path({folder!r})
if os.getpid() != {parent}:
    with (folder / "begun").open("a") as file:
        file.write("x")
    while not (folder / "go").exists():
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_the_limit_of_a_call_begins_after_the_import_which_is_kept(fresh, plain_file, tmp_path):
    pool, begun = fresh(import_timeout=10 * PATIENCE), tmp_path / "begun"
    tool = plain_file(SLOW.format(folder=f"{tmp_path}", parent=os.getpid()) + GREET.format(word="hello"))

    async def main():
        response = asyncio.ensure_future(execute(pool, tool, name="Ann"))
        await asyncio.to_thread(written, begun)
        skip_time()
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        return [(await response).output, (await execute(pool, tool, name="Bob")).output]

    assert asyncio.run(main()) == ["hello Ann", "hello Bob"]
    assert begun.read_text() == "x"


@pytest.mark.slow
def test_an_import_that_takes_too_long_is_ended_and_named(fresh, plain_file, tmp_path):
    tool = plain_file(SLOW.format(folder=f"{tmp_path}", parent=os.getpid()) + GREET.format(word="hello"))
    response = timed_out(fresh(import_timeout=5), tool, tmp_path / "begun", name="Ann")
    assert (response.kind, "importing its module took longer than 5 s" in response.error) == ("timeout", True)
    assert "import_timeout" in response.error


@pytest.mark.slow
def test_code_without_a_file_is_refused(tmp_path):
    done = program(tmp_path, "-c", PROGRAM)
    assert "it was typed in and isn't in a file. Put it into a module" in done.stdout


@pytest.mark.slow
def test_the_option_o_applies_to_children_too(tmp_path):
    """Without it, the code would differ and be refused as changed."""
    (tmp_path / "app.py").write_text(PROGRAM.replace('"Greets."', '"Greets."\n    assert not name'))
    assert program(tmp_path, "-O", "app.py").stdout == "hello Ann\n"


# Payloads and modules -------------------------------------------------------------------------------------------------


def test_the_payload_of_a_tool_is_cached():
    add = tool_named("add")
    assert payload_of(add) is payload_of(add)
    assert payload_of(add.evolve()).key != payload_of(add).key
    assert payload_of(add).modules == (ModuleRef("isolated_tools", isolated_tools.__file__),)


@pytest.mark.slow
def test_code_with_a_set_has_the_same_fingerprint_in_every_process(fresh):
    """Its order differs."""
    for _ in range(3):
        assert asyncio.run(execute(fresh(), "contains", a="x")).output == '{"result": true}'


def test_a_fingerprint_depends_on_the_functions_spec():
    bare = module._fingerprint(isolated_tools.add)
    changed = isolated_tools.made_inside()
    before = module._fingerprint(changed)
    changed.__pegboard_tool__ = changed.__pegboard_tool__.with_spec(description="Works otherwise.")
    assert len({bare, before, module._fingerprint(changed)}) == 3


@pytest.fixture
def provide(monkeypatch):
    """Provides a module, and removes it after the test."""
    monkeypatch.setitem(sys.modules, "__mp_main__", None)

    def provide(ref):
        monkeypatch.setitem(sys.modules, ref.name, sys.modules.get(ref.name))
        if ref.name != "__main__":
            monkeypatch.delitem(sys.modules, ref.name)
        module._provide(ref)
        return sys.modules[ref.name]

    return provide


def test_a_module_of_the_same_name_from_another_file_is_not_used(provide, tmp_path):
    (tmp_path / "this.py").write_text("mine = True")
    assert provide(ModuleRef("colorsys", str(tmp_path / "this.py"))).mine


def test_a_module_that_can_neither_be_imported_nor_loaded_fails(provide, tmp_path):
    with pytest.raises(ModuleNotFoundError):
        provide(ModuleRef("this_is_no_module", None))
    (tmp_path / "words.txt").write_text("no Python")
    with pytest.raises(ImportError, match=r"words\.txt is not a Python module"):
        provide(ModuleRef("this_is_no_module", str(tmp_path / "words.txt")))
    assert "this_is_no_module" not in sys.modules
