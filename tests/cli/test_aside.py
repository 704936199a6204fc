"""What plugins and tools print goes to standard error: standard output is the command's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.cli.aside import aside

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "pegboard"]
NOISY = """
import os
import subprocess
import sys

from pegboard import Tool, hookimpl, tool
from pegboard.tools.spec import ToolSpec

KEPT = sys.stdout
print("at import")


def shout(what):
    print(what + " by print")
    KEPT.write(what + " by what was kept\\n")
    sys.__stdout__.write(what + " past us\\n")
    os.write(1, (what + " by descriptor\\n").encode())
    subprocess.run(["echo", what + " by a child"], check=True)
    subprocess.run(["echo", what + " by a child told where"], stdout=sys.stdout, check=True)


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
WAYS = ("print", "what was kept", "descriptor", "a child", "a child told where")


@pytest.fixture
def environ(empty_site):
    empty_site.add("noisy", NOISY)
    return {**os.environ, "PYTHONPATH": str(empty_site.root)}


def run(environ, *argv):
    return subprocess.run([*COMMAND, *argv], env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["noisy", "noisy_async"])
def test_a_call_as_json_is_json(environ, name):
    ran = run(environ, "call", name, "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["content"][0]["text"]
    assert "at import" in ran.stderr
    for way in (*WAYS,):
        assert f"tool by {way}\n" in ran.stderr
        assert f"hook by {way}\n" in ran.stderr
    assert "tool past us" in ran.stderr


def test_a_live_list_as_json_is_json(environ):
    ran = run(environ, "list", "--live", "--json")
    assert [tool["name"] for tool in json.loads(ran.stdout)["tools"]] == ["live", "noisy", "noisy_async"]
    assert "toolset by a child\n" in ran.stderr


def test_functions_of_a_file_too(environ, tmp_path):
    (tmp_path / "fns.py").write_text("print('loud')\n\ndef f() -> str:\n    print('louder')\n    return 'x'\n")
    ran = run(environ, "call", "f", "--functions", str(tmp_path / "fns.py"))
    assert (ran.stdout, ran.stderr) == ("x\n", "loud\nlouder\n")


def test_with_standard_error_closed_it_still_is(environ):
    line = f"'{sys.executable}' -m pegboard call noisy --json 2>&-"
    ran = subprocess.run(["sh", "-c", line], env=environ, stdout=subprocess.PIPE, text=True, check=False)
    assert json.loads(ran.stdout)["isError"] is False


def test_a_reader_that_has_gone_stays_quiet(environ):
    ours, its = os.pipe()
    os.close(ours)
    ran = subprocess.run(
        [*COMMAND, "call", "noisy", "--json"], env=environ, stdout=its, stderr=subprocess.PIPE, check=False
    )
    os.close(its)
    assert ran.returncode == 0
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize("argv", [["list"], ["list", "--json"], ["call", "noisy", "--json"], ["--help"]])
def test_an_output_that_takes_nothing_is_one_line(environ, argv):
    run(environ, "list")  # the next one may be warm
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*COMMAND, *argv], env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr.endswith("error: can't write to standard output: No space left on device\n")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("argv", ["list", "call noisy --json"])
def test_a_closed_output_is_one_line(environ, argv):
    run(environ, "list")
    line = f"'{sys.executable}' -m pegboard {argv} >&-"
    ran = subprocess.run(["sh", "-c", line], env=environ, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "error: standard output is closed; to be rid of it, send it to /dev/null\n"


def test_it_is_put_back_whatever_happens(capsys):
    real = sys.stdout

    def fail() -> None:
        with aside(), aside():
            sys.stdout.write("aside\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert sys.stdout is real
    sys.stdout.write("ours\n")
    assert capsys.readouterr() == ("ours\n", "aside\n")
