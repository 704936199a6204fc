"""The first load of a plugin, in a child process."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pegboard.plugins import discovery
from pegboard.plugins.probe import answer_jobs, probe


def probed(site, seconds: float):
    """What came of loading everything that the site has, by plugin."""
    return {done.found.name: done for done in probe(discovery.discover().entries, {}, seconds=seconds)}


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


def test_one_child_loads_them_all_and_each_costs_only_itself(site, tmp_path, monkeypatch) -> None:
    """Whatever a plugin raises, prints, reads or ends; nothing is imported in this process, or from its folder."""
    site("a", "raise ValueError('no')")
    site("b", "import sys; sys.exit('bye')")
    site("c", "import os; os._exit(9)")
    site("d", "def (:")
    site("e", "class X(BaseException):\n    def __str__(self):\n        raise SystemExit(9)\nraise X")
    site("loud", "print('{}', flush=True)\nimport os\nos.write(1, b'{}\\n')")
    site("reader", "import sys; rest = sys.stdin.read(); assert rest == ''")
    site("settled", SETTLED)
    site("zgood")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("json", "queue", "pegboard", "pluggy"):
        (hostile / f"{name}.py").write_text("import os; os._exit(3)")
    monkeypatch.chdir(hostile)
    progress: list[tuple[int, str]] = []
    entries = discovery.discover().entries
    settings = {"settled": {"as": "mine"}}
    found = list(probe(entries, settings, progress=lambda number, name: progress.append((number, name))))
    assert progress == [(number, entry.name) for number, entry in enumerate(entries)]
    by_name = {done.found.name: done for done in found}
    causes = {name: done.cause for name, done in by_name.items() if done.cause is not None}
    assert [causes[name] for name in "abe"] == ["ValueError: no", "SystemExit: bye", "X"]
    assert "exit code 9" in causes["c"]
    assert causes["d"].startswith("SyntaxError")
    assert sorted(causes) == ["a", "b", "c", "d", "e"]
    assert by_name["loud"].manifest.tools == ()
    assert [spec.name for spec in by_name["settled"].manifest.tools] == ["mine"]
    assert by_name["settled"].manifest.commands == ("brew",)
    manifest = by_name["zgood"].manifest
    assert [spec.name for spec in manifest.tools] == ["greet_zgood"]
    assert manifest.hooks == ("pegboard_register_tools",)
    assert (manifest.distribution, manifest.version) == ("dist-zgood", "1.0")
    assert "zgood_made_up" not in sys.modules


@pytest.mark.slow
def test_a_plugin_that_hangs_is_ended(site) -> None:
    """Its child process is killed; the next plugin gets a new one."""
    site("a", "import threading; threading.Event().wait()")
    site("b")
    told = probed(site, seconds=3)
    assert "longer than 3 s" in told["a"].cause
    assert told["b"].manifest is not None


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
