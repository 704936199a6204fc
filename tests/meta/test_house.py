"""The metrics of the code are counted correctly, and one call is within its limits."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

HOUSE = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "house.py"))


@pytest.mark.slow
def test_one_warm_call_enters_and_loads_no_more_than_its_limits_allow() -> None:
    """For a tool that does nothing, and for a realistic one with rules."""
    found, limit_of = HOUSE["figures_of_a_call"](), HOUSE["limit_of"]
    assert found.keys() == HOUSE["LIMITS"]["one call"].keys()
    assert {name: value for name, value in found.items() if value > limit_of("one call", name).most} == {}


@pytest.mark.slow
def test_plugins_need_no_more_of_the_core_than_the_limits_allow() -> None:
    """Nor do the core's tests, or a file a higher layer."""
    found, limits = HOUSE["figures_of_the_interface"](), HOUSE["LIMITS"]["interface"]
    assert found.keys() == limits.keys()
    assert {name: value for name, value in found.items() if not limits[name].least <= value <= limits[name].most} == {}


@pytest.fixture
def figures(tmp_path):
    """The metrics of a package of these files."""

    def of(**texts: str) -> dict[str, float]:
        for name, text in texts.items():
            path = tmp_path / "made" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return HOUSE["figures_of"](tmp_path / "made")

    return of


@pytest.mark.parametrize(
    "back",
    [
        "import made.one",
        "from made import one",
        "from made.one import f",
        "if TYPE_CHECKING:\n    from made.one import f",
        "def g():\n    from made.one import f",
        "def g():\n    import_module('made.one').f()",
        "def g():\n    importlib.import_module('made.one').f()",
    ],
)
def test_an_import_cycle_is_found_anywhere_in_a_module(figures, back: str) -> None:
    """At the top, for type checkers, within a function, by a string."""
    found = figures(one="from made.two import g", two="from made.three import h", three=back, four="import made.one")
    assert (found["import cycles"], found["files in cycles"]) == (1, 3)


def test_one_way_imports_are_not_a_cycle(figures) -> None:
    """Also transitive ones."""
    found = figures(one="import made.two\nimport made.three", two="import made.three", three="import os")
    assert (found["import cycles"], found["files in cycles"]) == (0, 0)


def test_sizes_and_repeated_names_are_counted(figures) -> None:
    """Packages, commands and private classes don't count as repeated names."""
    given = {
        "__init__": '"""Made."""\n',
        "one": "class A: ...\n" * 8,
        "sub/one": "class B: ...\nclass _C: ...\n",
        "sub/__init__": "",
        "sub/two": "class B: ...\nclass _C: ...\n" * 10,
        "commands/two": "\n" * 4,
    }
    assert figures(**given) == {
        "files": 6,
        "lines": 1 + 8 + 2 + 20 + 4,
        "median file": 14,
        "longest file": 20,
        "largest folder": 3,
        "file names twice": 1,
        "class names twice": 2,
        "import cycles": 0,
        "files in cycles": 0,
    }
