"""Where a plugin's code lies, found out without importing any of it."""

from __future__ import annotations

import sys

import pytest

from installed import write
from pegboard.plugins.sources import place_of, source_paths


def test_a_module(tmp_path):
    file = write(tmp_path / "lone_tools.py", "raise SystemExit")
    assert place_of("lone_tools", str(tmp_path)) == file
    assert "lone_tools" not in sys.modules


def test_a_package(tmp_path):
    write(tmp_path / "whole_tools/__init__.py", "raise SystemExit")
    write(tmp_path / "whole_tools/sub/plugin.py")
    assert place_of("whole_tools.sub.plugin", str(tmp_path)) == tmp_path / "whole_tools"
    assert "whole_tools" not in sys.modules


def test_a_package_on_sys_path_comes_first(tmp_path, monkeypatch):
    write(tmp_path / "a/both_tools.py")
    write(tmp_path / "b/both_tools.py")
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    assert place_of("both_tools", str(tmp_path / "a")) == tmp_path / "b/both_tools.py"


def test_inside_a_namespace_package(tmp_path, monkeypatch):
    """Several distributions share the outer one; only what is inside is the plugin's."""
    write(tmp_path / "a/shared_tools/deep/one/__init__.py")
    write(tmp_path / "b/shared_tools/deep/two.py")
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    assert place_of("shared_tools.deep.one.plugin", "/") == tmp_path / "a/shared_tools/deep/one"
    assert place_of("shared_tools.deep.two", "/") == tmp_path / "b/shared_tools/deep/two.py"
    assert place_of("shared_tools.deep.three", "/") is None
    assert place_of("shared_tools", "/") is None


@pytest.mark.parametrize("module", ["surely_not_installed", "sys", "", "x.y"])
def test_what_has_no_place(module):
    assert place_of(module, "/nowhere") is None
    assert source_paths(module, "/nowhere") is None


def test_a_finder_that_fails_costs_only_the_answer(monkeypatch):
    class Broken:
        def find_spec(self, *_):
            raise RuntimeError("broken finder")

    monkeypatch.setattr(sys, "meta_path", [Broken()])
    assert place_of("surely_not_installed", "/") is None


def test_links_to_folders_are_not_entered(tmp_path):
    """They could lead in a circle."""
    write(tmp_path / "linked_tools/__init__.py")
    (tmp_path / "linked_tools/again").symlink_to(tmp_path / "linked_tools")
    package = tmp_path / "linked_tools"
    assert source_paths("linked_tools", str(tmp_path)) == tuple(
        map(str, (package, package / "__init__.py", package / "again"))
    )


def test_a_module_is_its_own_source(tmp_path):
    file = write(tmp_path / "lone_too.py")
    assert source_paths("lone_too", str(tmp_path)) == (str(file),)
