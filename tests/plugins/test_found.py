"""What a distribution's metadata says of one plugin, and when its code may have changed."""

from __future__ import annotations

import os

import pytest

from installed import OLD, install, write
from pegboard.plugins.discovery import discover
from pegboard.plugins.found import FoundPlugin
from pegboard.plugins.sources import MOST_SOURCES


@pytest.fixture
def found(tmp_path) -> FoundPlugin:
    install(tmp_path, record="demo_tools.py,sha256=abc,10\n")
    return discover([str(tmp_path)]).entries[0]


@pytest.fixture
def loose(tmp_path) -> FoundPlugin:
    """Without RECORD, so its sources are looked at."""
    install(tmp_path, record=None)
    os.utime(write(tmp_path / "demo_tools/__init__.py"), (OLD, OLD))
    os.utime(write(tmp_path / "demo_tools/data/words.json"), (OLD, OLD))
    write(tmp_path / "demo_tools/__pycache__/x.pyc")
    write(tmp_path / "demo_tools/.cache/y")
    return discover([str(tmp_path)]).entries[0]


def test_the_key_follows_record(found, tmp_path):
    before = found.key()
    assert before == found.key()
    (tmp_path / "demo-1.0.dist-info/RECORD").write_text("demo_tools.py,sha256=abd,10\n")
    assert found.key() != before


@pytest.mark.parametrize("fact", ["name", "module", "attribute", "distribution", "version"])
def test_the_key_follows_every_fact(found, fact):
    import attrs

    assert attrs.evolve(found, **{fact: "other"}).key() != found.key()


def test_sources_are_files_and_folders(loose, tmp_path):
    package = tmp_path / "demo_tools"
    assert loose.sources() == tuple(
        map(str, (package, package / "__init__.py", package / "data", package / "data/words.json"))
    )


def test_the_key_follows_the_times_of_sources(loose, tmp_path):
    before = loose.key()
    assert before == loose.key()
    os.utime(tmp_path / "demo_tools/data/words.json", (OLD, OLD + 1))
    assert loose.key() != before


def test_the_key_follows_new_sources(loose, tmp_path):
    before = loose.key()
    write(tmp_path / "demo_tools/more.py")
    assert loose.key() != before


def test_an_editable_install_is_known_by_its_sources(tmp_path, monkeypatch):
    install(tmp_path / "site", editable=True)
    write(tmp_path / "src/demo_tools.py")
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    (entry,) = discover([str(tmp_path / "site")]).entries
    assert entry.record() is None
    assert entry.sources() == (str(tmp_path / "src/demo_tools.py"),)


def test_an_empty_record_says_nothing(tmp_path):
    install(tmp_path, record=b"")
    assert discover([str(tmp_path)]).entries[0].record() is None


def test_sources_that_cannot_be_found_give_no_key(tmp_path):
    install(tmp_path, record=None, entry_points="[pegboard]\ndemo = surely.not.installed")
    (entry,) = discover([str(tmp_path)]).entries
    assert entry.sources() is None
    assert entry.key() is None


def test_too_many_sources_give_no_key(loose, tmp_path):
    for number in range(MOST_SOURCES):
        (tmp_path / f"demo_tools/data/{number}").touch()
    assert loose.sources() is None
    assert loose.key() is None
