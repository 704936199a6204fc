"""The command as a process: on a terminal, into closed pipes, interrupted; and its imports."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from terminal import Terminal

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "pegboard"]
STYLE = re.compile(r"\x1b\[[0-9;]*m")
MANY = 2000
BLOCKED = "blocks the event loop"  # a warning that a busy machine also causes

FUNCTIONS = '''
import threading
from pathlib import Path

def wait(started: str) -> str:
    """Create a file, then wait forever."""
    Path(started).write_text("")
    threading.Event().wait()
    return "never"

async def wait_async(started: str) -> str:
    """The same, in the loop."""
    import asyncio
    Path(started).write_text("")
    await asyncio.Event().wait()
    return "never"

async def leave() -> str:
    """Leave a thread behind that sleeps for longer than the test waits."""
    import asyncio, time
    await asyncio.to_thread(time.sleep, 600)
    return "never"

def nasty() -> str:
    """Answer with what moves the cursor."""
    return "a\\x1b[2Jb\\u202ec"

def refuse() -> str:
    """Fail."""
    raise ValueError("no")
'''


NOISY = """
import os
import subprocess
import sys

from pegboard import Tool, hookimpl, tool
from pegboard import ToolSpec

STDOUT = sys.stdout
print("at import")


def shout(what):
    print(what + " by print")
    STDOUT.write(what + " by reference\\n")
    sys.__stdout__.write(what + " past us\\n")
    os.write(1, (what + " by descriptor\\n").encode())
    subprocess.run(["echo", what + " by a child"], check=True)
    subprocess.run(["echo", what + " by a child with stdout"], stdout=sys.stdout, check=True)


@tool
def noisy() -> str:
    "Make noise."
    shout("tool")
    return "quiet"


@tool
async def noisy_async() -> str:
    "Make noise."
    shout("tool")
    return "quiet"


class Toolset:
    name = "set"

    async def tools(self, context):
        shout("toolset")
        return [Tool(ToolSpec("live"))]


@hookimpl
def pegboard_register_tools(register):
    shout("hook")
    register(noisy)
    register(noisy_async)


@hookimpl
def pegboard_register_toolsets(register):
    register(Toolset())
"""
WAYS = ("print", "reference", "descriptor", "a child", "a child with stdout")


@pytest.fixture
def environ(site) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(site.root)}


@pytest.fixture
def noisy(site, environ) -> dict[str, str]:
    """With a plugin whose import, hooks and tools print in every way there is."""
    site.add("noisy", NOISY)
    return environ


@pytest.fixture
def functions(tmp_path) -> str:
    (tmp_path / "fns.py").write_text(FUNCTIONS)
    return str(tmp_path / "fns.py")


def on_terminal(argv: list[str], environ: dict[str, str], *, columns: int = 60) -> tuple[int, str]:
    """Runs it on a new terminal; returns the exit code and all output."""
    at = Terminal(argv, {**environ, "COLUMNS": str(columns)})
    return at.end(), at.shown


class TestTerminal:
    def test_a_table_as_wide_as_it(self, environ):
        code, shown = on_terminal(["list"], environ, columns=30)
        lines = [STYLE.sub("", line).split("\r")[-1] for line in shown.splitlines()]
        assert code == 0
        assert shown.count("\x1b[1m") == 1
        assert lines == [
            "TOOL         PLUGIN  SUMMARY",
            "count_words  demo    Count the",
            "                     words of",
            "                     a text.",
            "wipe         demo    Remove a",
            "                     file.",
            "2 tools",
        ]

    @pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_colour_can_be_disabled(self, environ, variable):
        assert "\x1b" not in on_terminal(["list"], {**environ, **variable})[1]

    def test_an_error_is_red(self, environ, functions):
        code, shown = on_terminal(["call", "refuse", "--functions", functions], environ)
        assert code == 1
        assert "\x1b[31merror (tool_failure): refuse failed: ValueError.\x1b[0m" in shown

    def test_escape_sequences_of_a_tool_are_escaped(self, environ, functions):
        _, shown = on_terminal(["call", "nasty", "--functions", functions], environ)
        assert shown.rpartition("\r")[2] == "a\\u{1b}[2Jb\\u{202e}c\n"


class TestPipe:
    def test_forced_colour_is_for_errors_too(self, environ):
        ran = subprocess.run(
            [*COMMAND, "show", "x"], env={**environ, "FORCE_COLOR": "1"}, capture_output=True, check=False
        )
        assert ran.returncode == 2
        assert ran.stderr.startswith(b"\x1b[31merror: ")

    @pytest.mark.parametrize("argv", [["list"], ["list", "--json"], ["list", "--table"]])
    def test_a_reader_that_closes_the_pipe_ends_it_quietly(self, site, environ, argv):
        path = site.root / "demo_tools" / "pegboard-manifest.json"
        manifest = json.loads(path.read_text())
        tools = manifest["plugins"]["demo"]["tools"]
        tools += [{**tools[0], "name": f"tool_{number:04}"} for number in range(MANY)]  # more than a pipe holds
        path.write_text(json.dumps(manifest))
        process = subprocess.Popen([*COMMAND, *argv], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 0


class TestPrints:
    """What plugins and tools print goes to standard error: standard output is the command's own."""

    def run(self, environ, *argv, **streams):
        streams = streams or {"stdout": subprocess.PIPE}
        return subprocess.run([*COMMAND, *argv], env=environ, stderr=subprocess.PIPE, text=True, check=False, **streams)

    @pytest.mark.parametrize("name", ["noisy", "noisy_async"])
    def test_a_call_as_json_is_json(self, noisy, name):
        ran = self.run(noisy, "call", name, "--json")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["content"][0]["text"]
        assert "at import" in ran.stderr
        assert "tool past us" in ran.stderr
        assert [way for way in WAYS for by in ("tool", "hook") if f"{by} by {way}\n" not in ran.stderr] == []

    def test_a_live_list_as_json_is_json(self, noisy):
        ran = self.run(noisy, "list", "--live", "--json")
        assert {tool["name"] for tool in json.loads(ran.stdout)["tools"]} >= {"live", "noisy", "noisy_async"}
        assert "toolset by a child\n" in ran.stderr

    def test_functions_of_a_file_too(self, noisy, tmp_path):
        (tmp_path / "fns.py").write_text("print('loud')\n\ndef f() -> str:\n    print('louder')\n    return 'x'\n")
        ran = self.run(noisy, "call", "f", "--functions", str(tmp_path / "fns.py"))
        printed = [line for line in ran.stderr.splitlines() if BLOCKED not in line]
        assert (ran.stdout, printed) == ("x\n", ["loud", "louder"])

    def test_a_call_as_json_is_json_with_standard_error_closed(self, noisy):
        line = f"'{sys.executable}' -m pegboard call noisy --json 2>&-"
        ran = subprocess.run(["sh", "-c", line], env=noisy, stdout=subprocess.PIPE, text=True, check=False)
        assert json.loads(ran.stdout)["isError"] is False

    def test_a_closed_pipe_is_not_an_error(self, noisy):
        ours, its = os.pipe()
        os.close(ours)
        ran = self.run(noisy, "call", "noisy", "--json", stdout=its)
        os.close(its)
        assert ran.returncode == 0
        assert "Traceback" not in ran.stderr

    def test_a_full_or_closed_output_is_a_one_line_error(self, noisy):
        """Warm and cold."""
        self.run(noisy, "list")  # the next one may be warm
        for argv in (["list"], ["list", "--table"], ["call", "noisy", "--json"], ["--help"]):
            with Path("/dev/full").open("w") as full:
                ran = self.run(noisy, *argv, stdout=full)
            assert ran.returncode == 1
            assert ran.stderr.endswith("error: can't write to standard output: No space left on device\n")
            assert "Traceback" not in ran.stderr
        for words in ("list", "call noisy --json"):
            line = f"'{sys.executable}' -m pegboard {words} >&-"
            ran = subprocess.run(["sh", "-c", line], env=noisy, stderr=subprocess.PIPE, text=True, check=False)
            assert ran.returncode == 1
            assert ran.stderr == "error: standard output is closed; to discard it, redirect it to /dev/null\n"


@pytest.mark.parametrize("tool", ["wait", "wait_async"])
def test_ctrl_c_ends_a_call_that_would_never_end(environ, functions, tmp_path, tool):
    started = tmp_path / "started"
    os.mkfifo(started)
    process = subprocess.Popen(
        [*COMMAND, "call", tool, f"started={started}", "--functions", functions],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    opened = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
    watch = select.poll()
    watch.register(opened, select.POLLHUP | select.POLLIN)
    assert watch.poll(60_000), "the tool has not started"
    os.close(opened)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert f"\nerror (aborted): {tool} was aborted after ".encode() in b"\n" + err


def test_a_thread_that_a_tool_leaves_behind_does_not_block_the_exit(environ, functions):
    process = subprocess.Popen(
        [*COMMAND, "call", "leave", "--timeout", "0.3", "--functions", functions],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out) == (1, b"")
    assert b"\nerror (timeout): leave " in b"\n" + err


def test_a_command_that_ran_no_tool_ends_without_a_last_collection(environ):
    script = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))"
    argv = [sys.executable, "-c", f"{script}; import pegboard.__main__; pegboard.__main__.run()", "--version"]
    assert subprocess.run(argv, env=environ, capture_output=True, check=True).stdout.endswith(b"\nTrue\n")


HEAVY = ("asyncio", "attr", "cattrs", "jsonschema", "jsonschema_rs", "pluggy", "importlib_metadata", "demo_tools")
PROBE = f"""
import sys
from pegboard.__main__ import main
codes = {{main(line.split("|")) for line in sys.argv[1:]}}
print("LOADED", *codes, *(name for name in {HEAVY!r} if name in sys.modules))
"""


def loaded(environ: dict[str, str], *lines: list[str]) -> set[str]:
    """What running these command lines in one process has loaded of `HEAVY`."""
    argv = map("|".join, lines)
    ran = subprocess.run([sys.executable, "-c", PROBE, *argv], env=environ, capture_output=True, text=True, check=True)
    line = next(line for line in ran.stdout.splitlines() if line.startswith("LOADED"))
    assert line.split()[1] == "0", ran.stderr
    return set(line.split()[2:])


def test_listing_imports_no_plugin_and_nothing_heavy(environ):
    lines = (
        ["list", "--where", "read_only and name:c*"],
        ["list", "--table"],
        ["show", "wipe"],
        ["explain", "wipe", "--where", "read_only"],
        ["plugins"],
    )
    assert loaded(environ, *lines) <= {"attr", "importlib_metadata"}


def test_a_call_imports_the_plugin_that_owns_the_tool(environ, functions):
    assert "demo_tools" in loaded(environ, ["call", "count_words", "text=x"])
    assert "demo_tools" not in loaded(environ, ["call", "nasty", "--functions", functions])


def test_the_help_loads_click_and_little_else(environ, site):
    """Once a list has left behind what plugins' commands are called."""
    for file in Path(site.root).rglob("*"):
        os.utime(file, (1_600_000_000, 1_600_000_000))
    os.utime(site.root, (1_600_000_000, 1_600_000_000))
    loaded(environ, ["list"])
    assert loaded(environ, ["--help"]) == set()


SCRIPTS = [[str(Path(sys.executable).with_name(name))] for name in ("registry", "pegboard")]


@pytest.mark.parametrize("command", [[sys.executable, "-m", "pegboard"], *SCRIPTS])
def test_metadata_in_the_current_folder_is_not_an_installed_plugin(command, tmp_path):
    folder = tmp_path / "lying-0.5.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: lying\nVersion: 0.5\n")
    (folder / "entry_points.txt").write_text("[pegboard]\nlying = lying\n")
    (tmp_path / "lying.py").write_text("raise SystemExit(9)\n")
    done = subprocess.run([*command, "plugins", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "lying" not in done.stdout
