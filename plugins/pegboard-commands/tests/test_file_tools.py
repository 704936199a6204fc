"""Python files in folders as tools, which are reloaded when they change."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from pegboard import ReadonlyContext, ToolRegistry
from pegboard.toolsets import identity_of
from pegboard_commands import FileToolset, file_tools

DICE = '''
def default(sides: int = 6) -> str:
    """Rolls."""
    return f"one of {sides}"
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tools").mkdir()
    return tmp_path


@pytest.fixture
def toolset(folder):
    return FileToolset([str(folder)])


def put(folder, name, source):
    """Writes a file so that its time of modification changes."""
    path = folder / "tools" / name
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(source)
    if path.stat().st_mtime_ns <= before:
        os.utime(path, ns=(before + 1, before + 1))
    return path


def offered(toolset):
    offer = asyncio.run(toolset.tools(ReadonlyContext()))
    return {tool.name: tool for tool in offer}, [problem.cause for problem in offer.problems]


def called(toolset, name, arguments=None):
    registry = ToolRegistry()
    registry.register(toolset)
    return registry.call_sync(name, arguments or {})


def test_tools_are_named_after_their_file(folder, toolset):
    put(folder, "dice.py", DICE)
    put(
        folder,
        "net.py",
        "from pegboard import tool\nfrom os.path import join\n"
        "@tool\ndef net() -> str:\n    return 'net'\n"
        "@tool\ndef get() -> str:\n    return 'get'\n"
        "@tool(name='own')\ndef named() -> str:\n    return 'own'\n"
        "def helper() -> str:\n    return 'no tool'\n",
    )
    (folder / "tool").mkdir()
    (folder / "tool" / "one.py").write_text("async def one() -> str:\n    return 'one'\n")
    put(folder, "_hidden.py", DICE)
    tools, problems = offered(toolset)
    assert (sorted(tools), problems) == (["dice", "net", "net_get", "one", "own"], [])
    assert called(toolset, "dice", {"sides": 4}).text == "one of 4"
    assert called(toolset, "net_get").text == "get"


def test_files_are_added_changed_and_removed(folder, toolset):
    assert offered(toolset)[0] == {}
    path = put(folder, "dice.py", DICE)
    before = offered(toolset)[0]["dice"]
    assert offered(toolset)[0]["dice"] is before
    put(folder, "dice.py", DICE.replace("one of", "1 of"))
    assert offered(toolset)[0]["dice"] is not before
    assert called(toolset, "dice").text == "1 of 6"
    path.unlink()
    assert offered(toolset) == ({}, [])


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def default(:\n", "SyntaxError"),
        ("\n\n1 / 0\n", "ZeroDivisionError: division by zero, line 3"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("import nosuch_module\n", "No module named 'nosuch_module'"),
        ("x = 1\n", "it has no tools"),
        ("def default(a: object()) -> str:\n    return ''\n", "tool 'default': 'a'"),
    ],
)
def test_a_broken_file_is_left_out_and_reported_with_the_line(folder, toolset, source, wrong):
    put(folder, "dice.py", DICE)
    path = put(folder, "broken.py", source)
    tools, problems = offered(toolset)
    assert list(tools) == ["dice"]
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: ")
    assert wrong in problems[0]
    put(folder, "broken.py", DICE)
    assert sorted(offered(toolset)[0]) == ["broken", "dice"]


@pytest.fixture
def gate():
    """A module by which files report that they run, and wait."""
    sys.modules["commands_test_gate"] = gate = type(sys)("commands_test_gate")
    gate.runs, gate.event, gate.both = [], threading.Event(), threading.Barrier(2)
    yield gate
    gate.event.set()
    del sys.modules["commands_test_gate"]


SLOW = f"import commands_test_gate as gate\ngate.runs.append(1)\ngate.event.wait(60)\n{DICE}"


def test_the_tools_of_a_slow_file_are_added_once_it_has_ended(folder, toolset, gate, monkeypatch):
    monkeypatch.setattr(file_tools, "LOAD_SECONDS", 0.1)
    put(folder, "dice.py", DICE)
    while "dice" not in offered(toolset)[0]:
        os.sched_yield()
    slow = put(folder, "slow.py", SLOW)
    for _ in range(2):
        tools, problems = offered(toolset)
        assert (list(tools), len(problems)) == (["dice"], 1)
        assert problems[0].startswith(f"{slow}: it is still loading")
        assert problems[0].endswith("have its functions import what takes long")
    gate.event.set()
    while "slow" not in offered(toolset)[0]:
        os.sched_yield()
    assert (gate.runs, called(toolset, "slow").text) == ([1], "one of 6")


def test_files_are_run_in_parallel(folder, toolset, gate):
    for name in ("a.py", "b.py"):
        put(folder, name, f"import commands_test_gate as gate\ngate.both.wait(60)\n{DICE}")
    assert (sorted(offered(toolset)[0]), offered(toolset)[1]) == (["a", "b"], [])


def test_of_two_files_with_one_tool_the_first_counts(folder, toolset):
    put(folder, "a.py", DICE.replace("def default", "def a"))
    put(folder, "b.py", "from pegboard import tool\n@tool(name='a')\ndef x() -> str:\n    return 'b'\n")
    tools, (problem,) = offered(toolset)
    assert (list(tools), "another file also has a tool 'a'" in problem) == (["a"], True)


def test_the_module_of_a_removed_file_is_removed(folder, toolset):
    path = put(folder, "passing.py", DICE)
    for is_there in (True, False):
        offered(toolset)
        assert any(name.startswith("pegboard_commands_file_passing_") for name in sys.modules) is is_there
        path.unlink(missing_ok=True)


def test_relative_folders_are_refused(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for relative in (".", "tools", ""):
        with pytest.raises(ValueError, match="isn't an absolute path"):
            FileToolset([relative])


def test_a_missing_folder_is_a_problem(tmp_path):
    assert "is not a folder" in offered(FileToolset([str(tmp_path / "nosuch")]))[1][0]


def test_it_publishes_the_files_and_their_folders(folder, toolset):
    path = put(folder, "dice.py", DICE)
    assert {str(path), str(folder), str(folder / "tools")} <= {*toolset.publishes}


def test_it_says_where_its_code_is(folder, toolset):
    assert identity_of(toolset) == {"code": [str(folder / "tools")]}


@pytest.mark.parametrize("watches", [True, False])
def test_changes_are_announced_as_they_happen(folder, watches, monkeypatch):
    monkeypatch.setattr(file_tools, "_LOOK_MS", 50)
    toolset, changed = FileToolset([str(folder)], watches=watches), threading.Event()
    registry = ToolRegistry()
    registry.register(toolset)
    offered(toolset)
    with registry.contributions.on_change(changed.set):
        if not watches:
            toolset.watch()
        put(folder, "dice.py", DICE)
        assert changed.wait(60)
        changed.clear()
        (folder / "tools" / "dice.py").unlink()
        assert changed.wait(60)
        changed.clear()
        (folder / "tool").mkdir()
        (folder / "tool" / "late.py").write_text(DICE)
        assert changed.wait(60)
    assert list(offered(toolset)[0]) == ["late"]
    toolset.close()
    for thread in threading.enumerate():
        if thread.name == file_tools.NAME:
            thread.join(60)
            assert not thread.is_alive()
