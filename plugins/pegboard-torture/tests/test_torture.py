"""`registry torture`: each fault, survived and not."""

from __future__ import annotations

import pytest

from pegboard.testing import discover
from pegboard_torture.torture import FAULTS, GROUPS, Tried, torture
from testing import conftest as of_plugins

site = of_plugins.site
pytestmark = pytest.mark.slow  # a process for each fault

GOOD = """
from pegboard import ToolError, hookimpl, tool

@tool(read_only=True, examples=[{"who": "Ada"}])
async def greet(who: str, often: int = 1) -> str:
    '''Greets.'''
    if often > 1000:
        raise ToolError("too often")
    return f"hello {who} " * often

@tool(read_only=True)
def double(numbers: list[float]) -> list[float]:
    '''Doubles.'''
    return [number * 2 for number in numbers]

@tool(destructive=True)
def empty() -> str:
    '''Empties the folder.'''
    open("emptied", "w").close()
    return "emptied"

@hookimpl
def pegboard_register_tools(register):
    register(greet, ) or register(double) or register(empty)
"""


def tool_of(body: str, *, before: str = "", signature: str = "who: str = 'Ada'", options: str = "") -> str:
    """A plugin with one tool."""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return f"""
import asyncio, os, subprocess, sys, threading, time
from pegboard import ToolContext, ToolResult, hookimpl, tool
from pegboard.errors import FatalToolError
{before}
@tool(read_only=True{options})
async def bad({signature}) -> str:
    '''A tool.'''
{indented}

@hookimpl
def pegboard_register_tools(register):
    register(bad)
"""


@pytest.fixture
def tried(site, tmp_path, monkeypatch):
    """Tries faults on a plugin with this code; returns the outcomes by name."""
    monkeypatch.chdir(tmp_path)

    def tried(code: str, **options: object) -> dict[str, Tried]:
        module = site("one", code)
        plugins = [found for found in discover().entries if found.module == module]
        return {each.fault: each for each in torture(plugins, {}, seconds=600, **options)}

    return tried


def test_a_well_behaved_plugin_survives_all_and_only_tools_that_are_read_only_are_called(tried) -> None:
    found = tried(GOOD)
    assert {fault: each.causes for fault, each in found.items() if not each.survived} == {}
    assert [*found] == [*FAULTS]
    assert {each.group for each in found.values()} == {*GROUPS}
    assert found["hostile texts"].calls > 50
    assert found["hostile texts"].not_called == ("empty",)


def test_others_are_called_on_request(tried) -> None:
    found = tried(GOOD, include_mutating=True, groups=["results"])
    assert all(each.survived and not each.not_called for each in found.values())


def test_faults_that_need_tools_are_left_out_where_there_are_none(tried) -> None:
    assert {each.group for each in tried("X = 1").values()} == {"import", "registration"}


def test_a_plugin_that_doesnt_load_is_tried_no_further(tried) -> None:
    ((fault, each),) = tried("raise ValueError('no')").items()
    assert (fault, each.causes) == ("loads", ("ValueError: no",))


SIDE_EFFECTS = """
import os, signal, socket, subprocess, sys, threading, time
try:
    socket.create_connection(("192.0.2.1", 80))
except OSError:
    pass
print("hi")
os.chdir("/")
os.environ["X"] = "1"
time.sleep = lambda seconds: None
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=threading.Event().wait, name="mine", daemon=True).start()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
open(__file__ + ".mine", "w").close()
"""
BAD = {  # group -> the plugin's code, and parts of the causes by fault
    "import": [
        ('open("mine", "w").close()', {"read only folder": ["OSError: [Errno 30] Read-only file system"]}),
        ("import sys\nsys.stdin.fileno()", {"hostile environment": ["AttributeError: 'NoneType'"]}),
        ("import os\nos.environ['HOME']", {"hostile environment": ["KeyError: 'HOME'"]}),
        (
            SIDE_EFFECTS,
            {
                "side effects": [
                    *("it changed the working folder", "it printed 'hi", "it handles SIGTERM", "environment: X"),
                    *("library: time.sleep", "it started a thread (mine)", "it uses the network: 192.0.2.1"),
                    *("it writes outside of the temporary folder", "it leaves a process behind, which was ended"),
                ],
                "hostile environment": ["it changes the working folder", "it leaves a thread behind (mine)"],
            },
        ),
    ],
    "registration": [
        (
            tool_of("return who", before="names = []").replace(
                "    register(bad)",
                "    names.append(1)\n    from pegboard import Tool\n"
                "    register(Tool.from_function(lambda: 1, name=f'tool_{len(names)}'))",
            ),
            {"twice": ["it adds or removes tools"], "two registries": ["a second registry gets something else"]},
        ),
    ],
    "arguments": [
        (
            tool_of("open(who)\nreturn who", signature="who: str"),
            {"allowed values": ["bad({'who': '"], "hostile texts": ["its result is an error of kind tool_failure"]},
        ),
        (tool_of("raise FatalToolError(who)"), {"allowed values": ["a call ends the turn"]}),
        (tool_of("os._exit(3)"), {"hostile texts": ["ended the process (exit code 3) while these were called: bad"]}),
        (
            tool_of(
                "threading.Thread(target=wait, daemon=True).start()\nreturn who", before="def wait(): time.sleep(900)"
            ),
            {"allowed values": ["it leaves a thread behind (Thread (wait)), at ", ".py:5 in wait"]},
        ),
        (
            tool_of("try: return open(who).read()\nexcept (OSError, ValueError): return ''").replace(
                "register(bad)",
                "from pegboard import Tool\n"
                "    register(Tool.from_function(bad, read_only=True, work_dir=lambda _, context: context.work_dir))",
            ),
            {"hostile texts": ["it reads a file outside of its working folder"]},
        ),
    ],
    "cancellation": [
        (
            tool_of("try: await asyncio.sleep(0.3)\nfinally: os.chdir('/')\nreturn who"),
            {"cancelled at moments": ["it changes the working folder"]},
        ),
    ],
    "limits": [
        (
            tool_of("time.sleep(900)\nreturn who").replace("async def", "def"),
            {"time limit": ["it leaves a thread behind (pegboard-tool), at "]},
        ),
        (tool_of("x = bytearray(600 << 20)\nreturn who"), {"little memory": ["bad({'who': "]}),
    ],
    "results": [
        (
            tool_of("return object()", options=", output_schema={'type': 'object'}"),
            {"one by one": ["kind invalid_output"]},
        ),
        (
            tool_of(
                "global busy\nif busy: raise ValueError\nbusy = True\nawait asyncio.sleep(0)\nbusy = False\nreturn who",
                before="busy = False",
            ),
            {"same calls at once": ["20 times at once, fails only sometimes"]},
        ),
    ],
    "names": [
        (
            tool_of("assert context.tool == 'bad'\nreturn who", signature="context: ToolContext, who: str = 'Ada'"),
            {"renamed": ["tool_failure"]},
        ),
    ],
}


@pytest.mark.parametrize(
    ("group", "code", "causes"),
    [(group, code, causes) for group, cases in BAD.items() for code, causes in cases],
)
def test_a_plugin_that_doesnt_survive_is_found_out(tried, group, code, causes) -> None:
    found = tried(code, groups=[group])
    for fault, parts in causes.items():
        text = "; ".join(found[fault].causes)
        assert [part for part in parts if part not in text] == [], found
