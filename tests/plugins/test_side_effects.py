"""Side effects of loading a plugin, which are undone or reported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pegboard
from installed import GREETER


@pytest.fixture(params=["live", "a first load", "the cache"])
def loaded(site, request):
    """Loads a plugin with this code; returns its problems, which a call that imports it doesn't change."""

    def loaded(code: str) -> list[str]:
        site("one", code + GREETER.format(name="greet"))
        if request.param == "the cache":
            pegboard.load()
        registry = pegboard.load(live=request.param == "live")
        problems = registry.problems()
        assert registry.call_sync("greet").text == "hello you"
        assert registry.problems() == problems
        return [problem.cause for problem in problems if problem.plugin == "one"]

    return loaded


def test_a_plugin_without_side_effects_has_no_problems(loaded) -> None:
    assert loaded("import json, logging, os, threading, time") == []


def test_the_working_folder_and_the_umask_are_restored(loaded) -> None:
    here, mask = Path.cwd(), os.umask(0o027)
    try:
        assert loaded("import os; os.chdir('/'); os.umask(0)") == [
            "while it was loaded, it changed the working folder, which was restored",
            "while it was loaded, it changed the umask, which was restored",
        ]
    finally:
        assert os.umask(mask) == 0o027
    assert Path.cwd() == here


def test_a_changed_environment_is_reported_by_its_names(loaded, monkeypatch) -> None:
    monkeypatch.setenv("GONE", "secret")
    monkeypatch.setenv("NEW", "x")
    monkeypatch.delenv("NEW")
    causes = loaded("import os; os.environ['NEW'] = 'secret'; del os.environ['GONE']")
    assert causes == ["while it was loaded, it changed the environment: GONE, NEW"]


def test_replaced_functions_of_the_standard_library_are_reported(loaded, monkeypatch) -> None:
    monkeypatch.setattr(time, "sleep", time.sleep)
    (cause,) = loaded("import time; time.sleep = lambda seconds: None")
    assert cause == "while it was loaded, it replaced functions of the standard library: time.sleep"


def test_output_while_loading_is_truncated_and_later_output_isnt(loaded, capsys) -> None:
    flood = "import sys\nout = sys.stdout\nfor _ in range(1000): print('x' * 10_000)\n"
    assert loaded(flood) == ["while it was loaded, it printed more than 10,000 characters, which were truncated"]
    assert len(capsys.readouterr().out) == 10_000
    sys.modules["one_made_up"].out.write("y" * 20_000)
    assert capsys.readouterr().out == "y" * 20_000


def test_output_of_other_threads_isnt_truncated(site, capsys) -> None:
    code = (
        "import threading\nother = threading.Thread(target=print, args=('x' * 20_000,))\nother.start(); other.join()\n"
    )
    site("one", code)
    assert pegboard.load(live=True).problems() == ()
    assert capsys.readouterr().out == "x" * 20_000 + "\n"


def test_of_plugins_loaded_concurrently_one_is_watched(site) -> None:
    """A change can't be attributed to one of two."""
    inner = "import os, pegboard\nfrom pegboard.testing import watch_side_effects\nnotes = []\n"
    site("one", f"{inner}with watch_side_effects(notes): os.environ['MINE'] = '1'\n" + GREETER.format(name="greet"))
    problems = pegboard.load(live=True).problems()
    del os.environ["MINE"]
    assert [problem.cause for problem in problems] == ["while it was loaded, it changed the environment: MINE"]
    assert sys.modules["one_made_up"].notes == []


@pytest.mark.parametrize("live", [False, True])
def test_a_keyboard_interrupt_of_a_plugin_costs_only_itself(site, live) -> None:
    site("one", "raise KeyboardInterrupt('mine')")
    site("two")
    registry = pegboard.load(live=live)
    assert {plugin.name: plugin.status for plugin in registry.plugins()}["one"] == "quarantined"
    assert "KeyboardInterrupt: mine" in registry.problems()[0].cause
    assert registry.call_sync("greet_two").text == "hello you"


@pytest.mark.slow
def test_a_plugin_that_forks_leaves_one_process(site) -> None:
    """The forked copy ends, and runs none of the host's code."""
    site("one", "import os\nos.fork()\n" + GREETER.format(name="greet"))
    code = "import pegboard; print(pegboard.load(live=True).call_sync('greet').text, flush=True)"
    environ = {**os.environ, "PYTHONPATH": str(site.folder), "PEGBOARD_BLOCK": "files,guard,processes"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "hello you\n"


def test_an_interrupt_by_the_user_is_raised(site, monkeypatch) -> None:
    def interrupted(self, timeout=None) -> None:
        raise KeyboardInterrupt

    site("late")  # its thread keeps running
    monkeypatch.setattr("threading.Thread.join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pegboard.load(live=True)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    "code",
    ["import signal\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)", "import asyncio\nasyncio.get_event_loop()"],
)
def test_what_only_the_main_thread_can_do_is_refused_with_advice(site, code, live):
    """In a child process and here."""
    site("needy", code)
    (problem,) = pegboard.load(live=live).problems()
    assert "plugins are loaded in a thread" in problem.cause
    assert "when a tool runs" in problem.cause
