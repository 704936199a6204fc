"""The public names of `pegboard`."""

from __future__ import annotations

import inspect
import re
import runpy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

import pytest

import pegboard
from pegboard.plugins import hookspecs
from pegboard.plugins.imports import PUBLIC


def test_all_and_dir_have_every_public_name() -> None:
    """Constants first, as ruff sorts `__all__`."""
    assert list(pegboard.__all__) == sorted(pegboard._MODULES, key=lambda name: (not name.isupper(), name))
    assert set(pegboard.__all__) <= set(dir(pegboard))


def test_type_checkers_see_every_public_name() -> None:
    """Run `python scripts/public_types.py` if this fails."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "public_types.py"))
    stubs = script["public_types"]()
    assert {path: path.read_text(encoding="utf-8") for path in stubs} == stubs


PACKAGES = ["pegboard", *(f"pegboard.{name}" for name in ("cli", "request", "schema", "tools", "toolsets"))]
NAMES = [(package, name) for package in PACKAGES for name in import_module(package)._MODULES]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_public_name_is_found_and_documented(package: str, name: str) -> None:
    """Each name is the object of its module, with a docstring if it can have one, and no module has its name."""
    module = import_module(package)
    thing = getattr(module, name)
    assert thing is getattr(import_module(f"{package}.{module._MODULES[name]}"), name)
    assert find_spec(f"{package}.{name}") is None
    assert thing.__doc__ or not (inspect.isclass(thing) or getattr(thing, "__qualname__", None) == name)


def test_the_architecture_page_lists_the_public_modules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## What is public")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"`(pegboard[\w.]*)`", table)) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_no_public_name_is_one_of_a_module_that_is_not_public(name: str) -> None:
    """`from MODULE import NAME` means one of the two."""
    module = import_module(name)
    below = {each.name for each in iter_modules(getattr(module, "__path__", ())) if f"{name}.{each.name}" not in PUBLIC}
    assert below & {*getattr(module, "__all__", ()), *getattr(module, "_MODULES", ())} == set()


VERSIONS = Path(__file__).parents[2] / "docs" / "explanation" / "versions.md"
TABLES = re.findall(r"^\| `pegboard.*", VERSIONS.read_text(encoding="utf-8"), re.MULTILINE)
ROWS = [re.findall(r"`([\w.]+)`", row) for row in TABLES]
MOVED = [(old, new, name) for old, new, *names in ROWS for name in names or [""]]


@pytest.mark.parametrize(("old", "new", "name"), MOVED)
def test_the_page_on_versions_says_where_each_name_is_now(old: str, new: str, name: str) -> None:
    """A row with names has modules before them; one without has two names, or two modules."""
    module, name = (new, name) if name or new in PUBLIC else new.rsplit(".", 1)
    assert module in PUBLIC
    assert not name or hasattr(import_module(module), name)
    moved = old if old == "pegboard" else old.removeprefix("pegboard.")
    assert moved not in pegboard.__all__
    assert old != "pegboard" or name not in pegboard.__all__


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        pegboard.nosuch  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'NoSuch'"):
        pegboard.NoSuch  # noqa: B018


LEFT = [(name, new, name) for old, new, name in MOVED if old == "pegboard"]
LEFT += [("Placed", "pegboard", "Position"), ("only", "pegboard", "when"), ("quick", "pegboard", "nonblocking")]


@pytest.mark.parametrize(("old", "module", "name"), LEFT)
def test_a_name_that_left_is_found_with_a_warning_that_says_where_it_is(old: str, module: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"from {module} import {name};") as caught:
        assert getattr(pegboard, old) is getattr(import_module(module), name)
    assert caught[0].filename == __file__


HOOKS = [hook for name, hook in vars(hookspecs).items() if name.startswith("pegboard_")]

NOTHING = ("None", "Awaitable[None] | None")
"""Return annotations of hooks without a result; the second allows async hooks."""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_is_documented(hook: object) -> None:
    """Its docstring has the version, each argument but those that several hooks take, and the return value."""
    text = inspect.getdoc(hook)
    assert "Since " in text
    names = hook.__code__.co_varnames[: hook.__code__.co_argcount]
    of_several = {name for name in names if f"`{name}` " in hookspecs.__doc__}
    assert all(re.search(rf"^    {name}: |`{name}\b", text, re.MULTILINE) for name in {*names} - of_several)
    if hook.__annotations__["return"] not in NOTHING:
        assert "Returns:" in text
    assert set(hook.__annotations__) == {*names, "return"}
