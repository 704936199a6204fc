"""What `import pegboard` shows is what there is."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import pegboard
from pegboard.plugins import hookspecs

FACE = Path(pegboard.__file__).with_suffix(".py")


def constants_first(name: str) -> tuple[bool, str]:
    """The order that ruff keeps `__all__` in."""
    return not name.isupper(), name


def test_all_is_sorted_and_complete() -> None:
    """`__all__`, the names found at first use and the names that checkers see are the same."""
    seen = [
        alias.asname or alias.name
        for node in ast.walk(ast.parse(FACE.read_text()))
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]
    assert sorted(pegboard._HOME) == sorted(seen)
    assert list(pegboard.__all__) == sorted(pegboard._HOME, key=constants_first)
    assert set(pegboard.__all__) <= set(dir(pegboard))


@pytest.mark.parametrize("name", sorted(pegboard._HOME))
def test_every_public_name_is_found_and_documented(name: str) -> None:
    """Each name is what its home says, and has a docstring where it can have one."""
    thing = getattr(pegboard, name)
    assert thing is getattr(import_module(f"pegboard.{pegboard._HOME[name]}"), name)
    assert not callable(thing) or thing.__doc__


def test_unknown_names_are_refused() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        pegboard.nosuch  # noqa: B018


HOOKS = [hook for name, hook in vars(hookspecs).items() if name.startswith("pegboard_")]

NOTHING = ("None", "None | Awaitable[None]")
"""What hooks give back that nobody looks at; the second may be async, too."""


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_every_hook_says_what_it_is_for(hook: object) -> None:
    """Its docstring tells when it is called, since when, each argument, and what may be returned."""
    text = inspect.getdoc(hook)
    assert "Since " in text
    names = hook.__code__.co_varnames[: hook.__code__.co_argcount]
    assert all(f"\n    {name}: " in text for name in names)
    if hook.__annotations__["return"] not in NOTHING:
        assert "Returns:" in text
    assert set(hook.__annotations__) == {*names, "return"}
