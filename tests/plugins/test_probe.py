"""The first load of a plugin, in a child process."""

from __future__ import annotations

import fcntl
import os
import select
import sys
from itertools import count

import pytest

from installed import GREETER, SECONDS
from pegboard.plugins import discovery
from pegboard.programs import RunningProgram, tree
from pegboard.testing import probe_plugins


def probed(site, seconds: float):
    """The results of loading everything that the site has, by plugin."""
    return {found.name: known for found, known in probe_plugins(discovery.discover().entries, {}, seconds=seconds)}


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


@pytest.mark.slow
def test_each_plugin_is_loaded_in_its_own_child_process(site, tmp_path, monkeypatch) -> None:
    """Whatever a plugin raises, prints, reads or exits; nothing is imported in this process, or from its folder."""
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
    killed, kill = [], os.killpg
    monkeypatch.setattr(os, "killpg", lambda pid, number: killed.append(pid) or kill(pid, number))
    found = list(probe_plugins(entries, settings, seconds=SECONDS, progress=lambda *facts: progress.append(facts)))
    assert len(killed) == len({*killed}) == len(entries)  # not twice: the number may be another process's by then
    assert progress == [(number, len(entries), entry.name) for number, entry in enumerate(entries)]
    by_name = {found.name: known for found, known in found}
    causes = {name: manifest.failure for name, manifest in by_name.items() if manifest.failure}
    assert [causes[name] for name in "abe"] == ["ValueError: no", "SystemExit: bye", "X"]
    assert causes["c"] == "ended the process (exit code 9) while it was loaded"
    assert causes["d"].startswith("SyntaxError")
    assert causes["f"].startswith("ValueError: signal only works in main thread")  # as when a call loads it
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
def test_a_hanging_plugin_is_killed(site) -> None:
    """Its child process is killed."""
    site("a", "import threading; threading.Event().wait()")
    assert probed(site, seconds=3)["a"].failure == "took longer than 3 s while it was loaded"


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


@pytest.mark.parametrize("code", ["os._exit(3)", "time.sleep(1000)"], ids=["ends the process", "hangs"])
def test_a_plugin_whose_toolset_doesnt_answer_keeps_what_else_it_brings(site, tmp_path, monkeypatch, code) -> None:
    """Its callbacks above all: a guard that fails to list tools still guards."""
    os.mkfifo(tmp_path / "asked")
    asked = os.open(tmp_path / "asked", os.O_RDWR)

    def join(program, seconds, real=RunningProgram.join):
        assert select.select([asked], [], [], SECONDS)[0]
        if "sleep" in code:
            program.end()  # as at the limit, once the toolset was asked
        real(program, seconds)

    monkeypatch.setattr(RunningProgram, "join", join)
    site("a", ASKED.format(code=f"import os, time; open({str(tmp_path / 'asked')!r}, 'w').write('x'); {code}"))
    manifest = probed(site, SECONDS)["a"]
    os.close(asked)
    assert [spec.name for spec in manifest.tools] == ["stays"]
    assert "pegboard_before_tool" in manifest.hooks
    assert manifest.published.failed
    assert manifest.faults == ("its toolsets ended the process, or didn't answer, when asked for what they publish",)


@pytest.mark.slow
def test_a_toolset_that_is_too_slow_for_a_listing_says_what_waits_longer(site) -> None:
    site("a", ASKED.format(code="import asyncio; await asyncio.Event().wait()"))
    manifest = probed(site, SECONDS)["a"]
    assert manifest.faults == ("toolset 'ends': TimeoutError: no answer within 5 s (--live waits longer)",)
    assert manifest.published.failed


FORKS = """
import os, sys
{before}
pid = os.fork()
if pid == 0:
    os.environ["COPY"] = "1"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        FORKS.format(before=""),
        FORKS.format(before="") + "    import threading; threading.Event().wait()\n",
        "import multiprocessing\nmanager = multiprocessing.Manager()\n",
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n",
        "import threading\nthreading.Thread(target=threading.Event().wait).start()\n",
    ],
    ids=["forks", "leaves a fork behind", "starts a manager", "starts a process", "starts a thread"],
)
def test_processes_and_threads_that_a_plugin_starts_dont_block(site, code) -> None:
    """Nor does a forked copy answer for it, or for the next plugin."""
    site("a", code + GREETER.format(name="greet_a"))
    site("b")
    done = probed(site, seconds=SECONDS)
    assert {name: [spec.name for spec in each.tools] for name, each in done.items()} == {
        "a": ["greet_a"],
        "b": ["greet_b"],
    }


@pytest.mark.parametrize(
    "session", ["", "    os.setsid()\n    if os.fork(): os._exit(0)\n"], ids=["its own", "another"]
)
def test_processes_that_a_plugin_has_started_are_killed(site, tmp_path, monkeypatch, session) -> None:
    """Also one that has left the child's session, has another parent, and forked while it was looked for."""
    looks, real = count(), tree._find_marked
    monkeypatch.setattr(tree, "_find_marked", lambda *of: [] if next(looks) == 1 else real(*of))
    lock = tmp_path / "lock"
    lock.touch()
    code = f"""
import fcntl, os, time
held = open({str(lock)!r})
fcntl.flock(held, fcntl.LOCK_EX)
ready, done = os.pipe()
if os.fork() == 0:
{session}    os.write(done, b"x")
    time.sleep(1000)
os.read(ready, 1)
"""
    site("a", code)
    probed(site, seconds=SECONDS)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # its holder has ended


def test_memory_is_bounded(site) -> None:
    site("a", "much = bytearray(5 << 30)")
    assert probed(site, seconds=SECONDS)["a"].failure == "MemoryError"


def test_without_a_process_each_plugin_fails_by_itself(site, monkeypatch) -> None:
    site("a")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "can't be loaded in a child process: [Errno 2] No such file" in probed(site, seconds=SECONDS)["a"].failure
