"""The first load of a plugin, in a child process."""

from __future__ import annotations

import io
import json

import pytest

from pegboard.plugins import discovery
from pegboard.plugins.probe import answer_jobs, probe


def probed(site, seconds: float = 30.0, settings=None):
    """What came of loading everything that the site has, by plugin."""
    return {done.found.name: done for done in probe(discovery.discover().entries, settings or {}, seconds=seconds)}


def test_a_plugin_tells_what_it_brings(site) -> None:
    """Specs, hooks and names; nothing is imported in this process."""
    import sys

    site("good")
    manifest = probed(site)["good"].manifest
    assert [spec.name for spec in manifest.tools] == ["greet_good"]
    assert manifest.hooks == ("pegboard_register_tools",)
    assert (manifest.distribution, manifest.version) == ("dist-good", "1.0")
    assert "good_made_up" not in sys.modules


def test_whatever_a_plugin_does_costs_only_itself(site) -> None:
    """One raises, one exits, one ends its process, one breaks Python's grammar; the last one works."""
    site("a", "raise ValueError('no')")
    site("b", "import sys; sys.exit('bye')")
    site("c", "import os; os._exit(9)")
    site("d", "def (:")
    site("e")
    told = probed(site)
    assert told["a"].cause == "ValueError: no"
    assert told["b"].cause == "SystemExit: bye"
    assert "exit code 9" in told["c"].cause
    assert told["d"].cause.startswith("SyntaxError")
    assert told["e"].manifest is not None


@pytest.mark.slow
def test_a_plugin_that_hangs_is_ended(site) -> None:
    """Its child process is killed; the next plugin gets a new one."""
    site("a", "import threading; threading.Event().wait()")
    site("b")
    told = probed(site, seconds=3)
    assert "longer than 3 s" in told["a"].cause
    assert told["b"].manifest is not None


def test_what_a_plugin_prints_is_no_answer(site) -> None:
    """Its standard output is kept from the answers."""
    site("loud", "print('{}', flush=True)\nimport os\nos.write(1, b'{}\\n')")
    assert probed(site)["loud"].manifest.tools == ()


def test_settings_reach_the_plugin(site) -> None:
    """By its name."""
    code = """
from pegboard import Tool, hookimpl

@hookimpl
def pegboard_register_tools(register, settings):
    register(Tool.from_function(lambda: 1, name=settings["as"]))

@hookimpl
def pegboard_register_commands(group):
    import click
    group.add_command(click.Command("brew"))
"""
    site("a", code)
    manifest = probed(site, settings={"a": {"as": "mine"}})["a"].manifest
    assert manifest.tools[0].name == "mine"
    assert manifest.commands == ("brew",)


def test_progress_is_told_before_each(site) -> None:
    """Number and name."""
    site("a")
    site("b")
    told: list[tuple[int, str]] = []
    list(probe(discovery.discover().entries, {}, progress=lambda number, name: told.append((number, name))))
    assert told == [(0, "a"), (1, "b")]


def test_the_child_answers_a_line_for_a_line(site) -> None:
    """Whatever is raised is an answer."""
    site("a")
    job = {"plugin": "a", "distribution": "d", "version": "1", "module": "a_made_up", "attribute": None, "settings": {}}
    wrong = {**job, "module": "nosuch_module"}
    answers = io.StringIO()
    answer_jobs(io.StringIO(json.dumps(job) + "\n" + json.dumps(wrong) + "\n"), answers)
    first, second = map(json.loads, answers.getvalue().splitlines())
    assert first["manifest"]["tools"][0]["name"] == "greet_a"
    assert second == {"cause": "ModuleNotFoundError: No module named 'nosuch_module'"}


def test_nothing_is_imported_from_the_current_folder(site, tmp_path, monkeypatch) -> None:
    """A folder that somebody else has filled runs no code, whatever its files are called."""
    site("a")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("json", "queue", "pegboard", "pluggy"):
        (hostile / f"{name}.py").write_text("import os; os._exit(3)")
    monkeypatch.chdir(hostile)
    assert probed(site)["a"].manifest is not None


def test_a_plugin_that_reads_standard_input_reads_nothing(site) -> None:
    """The jobs are not its to take."""
    site("a", "import sys; rest = sys.stdin.read(); assert rest == ''")
    site("b")
    told = probed(site)
    assert (told["a"].cause, told["b"].cause) == (None, None)


def test_an_exception_without_a_text_is_contained(site) -> None:
    """Even one whose text ends the process."""
    site("a", "class X(BaseException):\n    def __str__(self):\n        raise SystemExit(9)\nraise X")
    assert probed(site)["a"].cause == "X"
