"""What importing a plugin's module loads."""

from __future__ import annotations

from pegboard.testing import budget
from pegboard.testing.budget import check_budget
from pegboard.testing.notebook import Notebook
from pegboard.testing.subject import Subject


def measured(module: str | None, **options) -> Notebook:
    notebook = Notebook("demo")
    check_budget(Subject("demo", None, module=module), notebook, **options)
    return notebook


def test_a_light_module_passes(site) -> None:
    notebook = measured(site("light", "import json"))
    assert notebook.findings == notebook.notes == []


def test_a_heavy_module_is_named_with_the_way_out(site) -> None:
    (finding,) = measured(site("heavy", "import jsonschema")).findings
    assert "loads 'jsonschema'" in finding
    assert "import it inside the function" in finding


def test_the_author_says_what_is_heavy(site) -> None:
    module = site("heavy", "import jsonschema, wsgiref.util")
    assert measured(module, heavy=()).findings == []
    assert "'wsgiref'" in measured(module, heavy=iter(["wsgiref"])).findings[0]


def test_what_pegboard_itself_loads_isnt_counted(site) -> None:
    """Defining a tool on attrs classes loads what it takes, at no cost of the plugin's."""
    code = """
import attrs
from pegboard import tool

@attrs.define
class A:
    n: int

@tool
def f(a: A) -> A:
    'Does.'
"""
    assert measured(site("typed", code)).findings == []


def test_a_ceiling_on_modules_holds(site) -> None:
    module = site("many", "import wsgiref.util, wsgiref.headers")
    assert measured(module, most_modules=200).findings == []
    assert "modules, more than 2" in measured(module, most_modules=2).findings[0]


def test_a_module_that_prints_is_measured_all_the_same(site) -> None:
    assert "'jsonschema'" in measured(site("loud", "print('hello', end='')\nimport jsonschema")).findings[0]


def test_a_module_that_ends_the_process_is_noted(site) -> None:
    (note,) = measured(site("ending", "import os; os._exit(3)")).notes
    assert "the process ended while it was imported" in note


def test_a_module_that_takes_too_long_is_noted(site, monkeypatch) -> None:
    monkeypatch.setattr(budget, "_SECONDS", 0.0)
    (note,) = measured(site("slow", "")).notes
    assert "it took longer than 0 s" in note


def test_nothing_is_imported_where_nothing_is_asked(monkeypatch) -> None:
    monkeypatch.setattr(budget, "_imported", None)
    assert measured("json", heavy=()).notes == measured(None).notes == []
