"""The first load of a plugin, in a child process."""

from __future__ import annotations

import fcntl
import sys

import pytest

from installed import GREETER
from pegboard.plugins import discovery
from pegboard.plugins.probe import probe


def probed(site, seconds: float):
    """What came of loading everything that the site has, by plugin."""
    return {found.name: known for found, known in probe(discovery.discover().entries, {}, seconds=seconds)}


SETTLED = """
from pegboard import Tool, hookimpl

@hookimpl
def pegboard_register_tools(register, settings):
    register(Tool.from_function(lambda: 1, name=settings["as"]))

@hookimpl
def pegboard_register_commands(group):
    import click
    group.add_command(click.Command("brew"))
"""


def test_each_is_loaded_in_a_child_of_its_own_and_costs_only_itself(site, tmp_path, monkeypatch) -> None:
    """Whatever a plugin raises, prints, reads or ends; nothing is imported in this process, or from its folder."""
    site("a", "raise ValueError('no')")
    site("b", "import sys; sys.exit('bye')")
    site("c", "import os; os._exit(9)")
    site("d", "def (:")
    site("e", "class X(BaseException):\n    def __str__(self):\n        raise SystemExit(9)\nraise X")
    site("f", "import signal; signal.signal(signal.SIGTERM, signal.SIG_DFL)")
    site("loud", "print('{}', flush=True)\nimport os\nos.write(1, b'{}\\n')")
    site("reader", "import sys; rest = sys.stdin.read(); assert rest == ''")
    site("settled", SETTLED)
    site("zgood")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("json", "queue", "pegboard", "pluggy"):
        (hostile / f"{name}.py").write_text("import os; os._exit(3)")
    monkeypatch.chdir(hostile)
    progress: list[tuple[int, int, str]] = []
    entries = discovery.discover().entries
    settings = {"settled": {"as": "mine"}}
    found = list(probe(entries, settings, progress=lambda *facts: progress.append(facts)))
    assert progress == [(number, len(entries), entry.name) for number, entry in enumerate(entries)]
    by_name = {found.name: known for found, known in found}
    causes = {name: known for name, known in by_name.items() if isinstance(known, str)}
    assert [causes[name] for name in "abe"] == ["ValueError: no", "SystemExit: bye", "X"]
    assert causes["c"] == "ended the process (exit code 9) while it was loaded"
    assert causes["d"].startswith("SyntaxError")
    assert causes["f"].startswith("ValueError: signal only works in main thread")  # as where a call loads it
    assert sorted(causes) == ["a", "b", "c", "d", "e", "f"]
    assert by_name["loud"].tools == ()
    assert [spec.name for spec in by_name["settled"].tools] == ["mine"]
    assert by_name["settled"].commands.keys() == {"brew"}
    manifest = by_name["zgood"]
    assert [spec.name for spec in manifest.tools] == ["greet_zgood"]
    assert manifest.hooks == ("pegboard_register_tools",)
    assert (manifest.distribution, manifest.version) == ("dist-zgood", "1.0")
    assert "zgood_made_up" not in sys.modules


@pytest.mark.slow
def test_a_plugin_that_hangs_is_ended(site) -> None:
    """Its child process is killed."""
    site("a", "import threading; threading.Event().wait()")
    site("b")
    told = probed(site, seconds=3)
    assert told["a"] == "took longer than 3 s while it was loaded"
    assert not isinstance(told["b"], str)


ASKED = """
from pegboard import Tool, ToolsetBase, hookimpl

class Ends(ToolsetBase):
    name = "ends"
    publishes = ()

    async def tools(self, context):
        {code}

@hookimpl
def pegboard_register_toolsets(register):
    register(Ends())

@hookimpl
def pegboard_register_tools(register):
    register(Tool.from_function(lambda: 1, name="stays"))

@hookimpl
def pegboard_before_tool(tool):
    return None
"""


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(3)",
        pytest.param("import time; time.sleep(1000)", marks=pytest.mark.slow),
    ],
    ids=["ends the process", "holds it up"],
)
def test_a_plugin_whose_toolset_doesnt_answer_keeps_what_else_it_brings(site, code) -> None:
    """Its callbacks first of all: a guard that fails to list tools still guards."""
    site("a", ASKED.format(code=code))
    manifest = probed(site, seconds=8)["a"]
    assert [spec.name for spec in manifest.tools] == ["stays"]
    assert "pegboard_before_tool" in manifest.hooks
    assert manifest.published.failed
    assert manifest.faults == ("its toolsets ended the process, or didn't answer, when asked for what they publish",)


FORKS = """
import os, sys
{before}
pid = os.fork()
if pid == 0:
    os.environ["COPY"] = "1"
"""


@pytest.mark.parametrize(
    "code",
    [
        FORKS.format(before=""),
        FORKS.format(before="") + "    import threading; threading.Event().wait()\n",
        "import multiprocessing\nmanager = multiprocessing.Manager()\n",
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n",
        "import threading\nthreading.Thread(target=threading.Event().wait).start()\n",
    ],
    ids=["copies itself", "leaves a copy behind", "starts a manager", "starts a process", "starts a thread"],
)
def test_what_a_plugin_starts_while_it_is_imported_isnt_waited_for(site, code) -> None:
    """Nor does its copy answer for it, or for the next plugin."""
    site("a", code + GREETER.format(name="greet_a"))
    site("b")
    done = probed(site, seconds=60)
    assert {name: [spec.name for spec in each.tools] for name, each in done.items()} == {
        "a": ["greet_a"],
        "b": ["greet_b"],
    }


@pytest.mark.parametrize(
    "session", ["", "    os.setsid()\n    if os.fork(): os._exit(0)\n"], ids=["its own", "another"]
)
def test_nothing_that_a_plugin_has_started_is_left(site, tmp_path, session) -> None:
    """Nor what has left the child's session, and has another parent by now."""
    lock = tmp_path / "lock"
    lock.touch()
    code = f"""
import fcntl, os, time
held = open({str(lock)!r})
fcntl.flock(held, fcntl.LOCK_EX)
if os.fork() == 0:
{session}    time.sleep(1000)
"""
    site("a", code)
    probed(site, seconds=60)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # whatever held it has ended


def test_memory_is_bounded(site) -> None:
    site("a", "much = bytearray(5 << 30)")
    assert probed(site, seconds=60)["a"] == "MemoryError"


def test_without_a_temporary_folder_each_plugin_fails_by_itself(site, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    site("a")
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert "can't be loaded in a child process: [Errno 28] No space left" in probed(site, seconds=60)["a"]
