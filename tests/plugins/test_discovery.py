"""The plugins of all installed distributions, none of them imported."""

from __future__ import annotations

import importlib.metadata
import os
import sys

import pytest

from installed import OLD, install, write
from pegboard.plugins.discovery import Discovery, discover
from pegboard.plugins.found import FoundPlugin


def causes(discovery: Discovery) -> list[tuple[str | None, str | None, str]]:
    return [(problem.plugin, problem.distribution, problem.cause) for problem in discovery.problems]


def test_plugins_are_found(tmp_path):
    folder = install(tmp_path, "my-tools", "2.1", "[pegboard]\ntools = my_tools:Tools\n")
    install(tmp_path, "unrelated", entry_points="[console_scripts]\nx = y:z")
    install(tmp_path, "plain", entry_points=None)
    found = FoundPlugin("tools", "my_tools", "Tools", "my-tools", "2.1", str(folder))
    assert discover([str(tmp_path)]) == Discovery((found,))
    assert found.root == str(tmp_path)


def test_load_order_is_by_distribution_and_name(tmp_path):
    install(tmp_path, "b", entry_points="[pegboard]\nz = m\nc = m")
    install(tmp_path, "A", entry_points="[pegboard]\nx = m")
    install(tmp_path, "a-a", entry_points="[pegboard]\ny = m")
    assert [entry.name for entry in discover([str(tmp_path)]).entries] == ["x", "y", "c", "z"]


def test_nothing_is_imported(tmp_path, monkeypatch):
    write(tmp_path / "explodes_at_import.py", "raise SystemExit('imported')")
    install(tmp_path, entry_points="[pegboard]\ndemo = explodes_at_import:x", record=None)
    monkeypatch.syspath_prepend(str(tmp_path))
    (entry,) = (entry for entry in discover().entries if entry.name == "demo")
    assert entry.key() is not None
    assert "explodes_at_import" not in sys.modules


def test_sys_path_is_where_it_looks(tmp_path, monkeypatch):
    install(tmp_path, entry_points="[pegboard]\nsurely_only_here = m")
    assert "surely_only_here" not in {entry.name for entry in discover().entries}
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "surely_only_here" in {entry.name for entry in discover().entries}


def test_a_plugin_name_is_taken_once(tmp_path):
    install(tmp_path, "b", entry_points="[pegboard]\ntools = second")
    install(tmp_path, "a", entry_points="[pegboard]\ntools = first")
    discovery = discover([str(tmp_path)])
    assert [entry.module for entry in discovery.entries] == ["first"]
    assert causes(discovery) == [
        ("tools", "b", "plugin name 'tools' is taken by a: uninstall one of the two"),
    ]


def test_a_hidden_distribution_brings_nothing(tmp_path):
    """Not even where the one that hides it has no plugins."""
    install(tmp_path / "first", "demo", "2.0", entry_points=None)
    install(tmp_path / "second", "demo", "1.0")
    assert discover([str(tmp_path / "first"), str(tmp_path / "second")]) == Discovery()


GOOD = "[pegboard]\ngood = good"


@pytest.mark.parametrize(
    ("broken", "whose", "words"),
    [
        ({"metadata": "Name: broken\n"}, None, "its plugins are left out: METADATA has no valid Version"),
        ({"metadata": b"\xff\xfe"}, None, "METADATA has no valid Name"),
        ({"entry_points": b"[pegboard]\nx = \xff"}, None, "its plugins are left out: entry_points.txt isn't UTF-8"),
        ({"entry_points": b"[pegboard]\n" + b"#" * 2**20}, None, "entry_points.txt can't be read: larger than"),
        ({"entry_points": "[pegboard]\nx"}, None, "entry point 'x' isn't 'name = module:attribute'"),
        ({"entry_points": "[pegboard]\nx = a b"}, "x", "entry point 'x' names 'a b'"),
    ],
)
def test_a_broken_distribution_costs_only_itself(tmp_path, broken, whose, words):
    install(tmp_path, "broken", "1.0", **{"entry_points": "[pegboard]\nx = x", **broken})
    install(tmp_path, "good", entry_points=GOOD)
    discovery = discover([str(tmp_path)])
    assert [entry.name for entry in discovery.entries] == ["good"]
    ((plugin, distribution, cause),) = causes(discovery)
    assert (plugin, distribution) == (whose, "broken")
    assert words in cause


def test_entry_points_that_cannot_be_read_are_reported(tmp_path):
    (install(tmp_path, "odd", entry_points=None) / "entry_points.txt").mkdir()
    install(tmp_path, "good", entry_points=GOOD)
    discovery = discover([str(tmp_path)])
    assert [entry.name for entry in discovery.entries] == ["good"]
    cause = "entry_points.txt can't be read: Is a directory; whether it has plugins isn't known"
    assert causes(discovery) == [(None, "odd", cause)]


def test_a_path_that_cannot_be_listed_is_reported(tmp_path):
    install(tmp_path, "good", entry_points=GOOD)
    discovery = discover(["x" * 300, str(tmp_path)])
    assert [entry.name for entry in discovery.entries] == ["good"]
    ((plugin, distribution, cause),) = causes(discovery)
    assert (plugin, distribution) == (None, None)
    assert "which is on sys.path, can't be listed: File name too long" in cause


@pytest.mark.parametrize("latest", ["1.0", "2.0"])
def test_of_a_distribution_installed_twice_the_one_written_last_counts(tmp_path, latest):
    for version in ("1.0", "2.0"):
        folder = install(tmp_path, "demo", version)
        os.utime(folder, (OLD, OLD + (version == latest)))
    discovery = discover([str(tmp_path)])
    assert [entry.version for entry in discovery.entries] == [latest]
    cause = (
        f"is installed twice (demo-1.0.dist-info, demo-2.0.dist-info); demo-{latest}.dist-info counts: install it again"
    )
    assert causes(discovery) == [(None, "demo", cause)]


def test_a_distribution_installed_twice_may_have_lost_its_plugins(tmp_path):
    os.utime(install(tmp_path, "demo", "1.0"), (OLD, OLD))
    install(tmp_path, "demo", "2.0", entry_points=None)
    discovery = discover([str(tmp_path)])
    assert discovery.entries == ()
    assert len(discovery.problems) == 1


def test_twice_installed_without_plugins_is_not_ours(tmp_path):
    install(tmp_path, "demo", "1.0", entry_points=None)
    install(tmp_path, "demo", "2.0", entry_points=None)
    assert discover([str(tmp_path)]) == Discovery()


def test_a_single_file_as_metadata_has_no_plugins(tmp_path):
    """As distutils wrote them."""
    write(tmp_path / "old-1.0.egg-info", "Name: old\nVersion: 1.0\n")
    assert discover([str(tmp_path)]) == Discovery()


def test_editable_installs_are_known(tmp_path):
    install(tmp_path, editable=True)
    assert [entry.editable for entry in discover([str(tmp_path)]).entries] == [True]


def test_it_finds_what_importlib_metadata_finds(tmp_path):
    for number in range(5):
        install(
            tmp_path, f"dist_{number}", entry_points=f"[pegboard]\np{number} = m{number}.sub:attribute\n[x]\na = b\n"
        )
    install(tmp_path, "legacy", "1.0-py3.11", entry_points="[pegboard]\nlegacy = legacy\n", kind="egg-info")
    standard = {
        (point.name, point.module, point.attr or None, dist.name, dist.version)
        for dist in importlib.metadata.distributions(path=[str(tmp_path)])
        for point in dist.entry_points
        if point.group == "pegboard"
    }
    ours = discover([str(tmp_path)]).entries
    assert {(one.name, one.module, one.attribute, one.distribution, one.version) for one in ours} == standard
    assert len(ours) == 6


@pytest.mark.parametrize(
    "damaged", [b"[pegboard\nx = y\n", b"\xff\xfe[\x00p\x00e\x00g\x00", b"[console_scripts]\nx = \xff\n"]
)
def test_entry_points_that_are_damaged_are_reported(tmp_path, damaged):
    """They may have named plugins: nobody can tell."""
    install(tmp_path, "broken", "1.0", damaged)
    install(tmp_path, "whole", "1.0", "[console_scripts]\nx = y:z\n")
    found = discover([str(tmp_path)])
    assert found.entries == ()
    assert [problem.distribution for problem in found.problems] == ["broken"]
