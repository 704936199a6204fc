"""The user's cache: manifests of loaded plugins, stamps, and bounds."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
import time
from pathlib import Path
from types import MappingProxyType

import attrs
import pytest

from installed import OLD, install, write
from pegboard import ToolSpec
from pegboard.plugins.cache import (
    CachedManifests,
    Stamps,
    cache_folder,
    prune,
    write_snapshot,
)
from pegboard.plugins.manifest import PluginManifest
from pegboard.plugins.snapshot import SnapshotPlace, is_fresh, own_files, snapshot_place
from pegboard.testing import FoundPlugin, discover

MANIFEST = PluginManifest("demo", "demo", "1.0", tools=(ToolSpec("a", "Does é."),), faults=("one refused",))


@pytest.fixture
def found(tmp_path) -> FoundPlugin:
    install(tmp_path / "site")
    return discover([str(tmp_path / "site")]).entries[0]


@pytest.fixture
def cache(tmp_path) -> CachedManifests:
    return CachedManifests(tmp_path / "cache/manifests")


def files(cache: CachedManifests) -> list[Path]:
    return sorted(cache.folder.iterdir())


def test_a_stored_manifest_is_read_back(cache, found):
    assert cache.get(found, {}) is None
    assert cache.put(found, {}, MANIFEST)
    assert cache.get(found, {}) == MANIFEST
    assert CachedManifests(cache.folder).get(found, {}) == MANIFEST
    cache.forget(found, {})
    cache.forget(found, {})
    assert cache.get(found, {}) is None


def test_settings_are_part_of_the_key(cache, found):
    cache.put(found, {"root": "/a"}, MANIFEST)
    assert [cache.get(found, settings) for settings in ({}, {"root": "/b"})] == [None, None]
    assert cache.get(found, MappingProxyType({"root": "/a"})) == MANIFEST


def test_the_plugins_code_and_name_are_part_of_the_key(cache, found):
    cache.put(found, {}, MANIFEST)
    assert cache.get(attrs.evolve(found, name="de/mo"), {}) is None
    for fact in ("module", "attribute", "distribution", "version"):
        assert cache.get(attrs.evolve(found, **{fact: "other"}), {}) is None
    assert cache.get(attrs.evolve(found, trusted=False), {}) == MANIFEST
    write(Path(found.location) / "RECORD", "other")
    assert cache.get(found, {}) is None
    assert cache.put(attrs.evolve(found, name="../../x"), {}, MANIFEST)
    assert all(path.parent == cache.folder for path in files(cache))


@pytest.mark.parametrize(
    "change",
    [
        lambda package: os.utime(package / "data/words.json", (OLD, OLD + 1)),
        lambda package: write(package / "more.py"),
        lambda package: (package / "data/words.json").unlink(),
        lambda package: package.rename(package.with_name("gone")),
    ],
)
def test_without_a_record_a_change_of_sources_invalidates_the_cache(cache, tmp_path, change):
    install(tmp_path / "site", record=None)
    package = tmp_path / "site/demo_tools"
    write(package / "__init__.py")
    write(package / "data/words.json")
    (found,) = discover([str(tmp_path / "site")]).entries
    cache.put(found, {}, MANIFEST)
    assert cache.get(found, {}) == MANIFEST
    change(package)
    assert cache.get(found, {}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sys.prefix", "/x"),
        ("sys.platform", "plan9"),
        ("sys.version_info", (3, 99, 0)),
        ("pegboard.plugins.cache.own_key", lambda: "another"),
    ],
)
def test_the_interpreter_is_part_of_the_key(cache, found, monkeypatch, name, value):
    """And pegboard itself."""
    cache.put(found, {}, MANIFEST)
    monkeypatch.setattr(name, value)
    assert CachedManifests(cache.folder).get(found, {}) is None


def test_a_damaged_entry_is_ignored_and_replaced(cache, found):
    cache.put(found, {}, MANIFEST)
    (file,) = files(cache)
    file.write_bytes(file.read_bytes().replace(b"tools", b"tool_"))
    assert cache.get(found, {}) is None
    cache.put(found, {}, MANIFEST)
    assert cache.get(found, {}) == MANIFEST


def test_a_plugin_that_cant_be_found_isnt_cached(cache, tmp_path):
    install(tmp_path / "site", record=None, entry_points="[pegboard]\ndemo = surely_not_installed")
    (found,) = discover([str(tmp_path / "site")]).entries
    assert not cache.put(found, {}, MANIFEST)
    assert cache.get(found, {}) is None
    cache.forget(found, {})


def test_a_manifest_that_cant_be_stored_doesnt_raise(cache, found, tmp_path, monkeypatch):
    """Settings without a text, a folder that can't be written, a huge manifest."""
    assert not cache.put(found, {"x": object()}, MANIFEST)
    (tmp_path / "file").touch()
    nowhere = CachedManifests(tmp_path / "file/manifests")
    assert (nowhere.put(found, {}, MANIFEST), nowhere.get(found, {})) == (False, None)
    monkeypatch.setattr("pegboard.plugins.cache._MOST_MANIFEST_BYTES", 100)
    assert not cache.put(found, {}, MANIFEST)


def test_storing_deletes_old_files(cache, found):
    cache.put(found, {}, MANIFEST)
    old = write(cache.folder / "old")
    os.utime(old, (OLD, OLD))
    cache.put(found, {}, MANIFEST)
    assert not old.exists()
    assert cache.get(found, {}) == MANIFEST


def test_a_failure_is_cached_for_an_hour_while_sys_path_is_unchanged(cache, found, tmp_path, monkeypatch):
    """Also with paths on `sys.path` that aren't strings, and a working folder that is gone."""
    monkeypatch.setattr("sys.path", ["", tmp_path / "site", b"/x"])
    monkeypatch.chdir(write(tmp_path / "gone/file").parent)
    shutil.rmtree(tmp_path / "gone")
    failed = PluginManifest("demo", "demo", "1.0", hooks=("pegboard_guards_calls",), failure="it failed")
    assert (cache.put(found, {}, failed), cache.get(found, {})) == (True, failed)
    later = time.time() + 3_601
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: later)
        assert cache.get(found, {}) is None
    sys.path.append("/what/was/missing")
    assert cache.get(found, {}) is None


def test_the_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pegboard"
    assert CachedManifests().folder == tmp_path / "pegboard/manifests"


# Settings


@pytest.mark.parametrize(
    "other",
    [{"a": 2}, {"a": "1"}, {"a": True}, {"a": dt.date(2026, 1, 1)}, {"a": [1]}, {}, {"a": object()}, {1: 1, "b": 2}],
)
def test_equal_settings_have_one_entry_and_others_another(cache, found, other):
    cache.put(found, {"a": 1, "b": [{"c": 2}]}, MANIFEST)
    assert cache.get(found, MappingProxyType({"b": ({"c": 2},), "a": 1})) == MANIFEST
    cache.put(found, {"a": 1}, MANIFEST)
    assert cache.get(found, other) is None


# Bounds


def aged(path: Path, seconds: float, size: int = 0) -> Path:
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - seconds,) * 2)
    return path


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ({"a": (1, 0), "b": (2, 0), "c": (3, 0), "d": (4, 0)}, "abc"),  # so many
        ({"a": (1, 6), "b": (9, 6)}, "a"),  # so many bytes
        ({"a": (89 * 86400, 0), "b": (91 * 86400, 0)}, "a"),  # too old
    ],
)
def test_prune_deletes_the_oldest(tmp_path, monkeypatch, written, left):
    monkeypatch.setattr("pegboard.plugins.cache._MOST_BYTES", 10)
    for name, (seconds, size) in written.items():
        aged(tmp_path / name, seconds, size)
    (tmp_path / "folder").mkdir()
    prune(tmp_path, most=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*left, "folder"]


def test_prune_ignores_missing_folders_and_files_that_cant_be_deleted(tmp_path, monkeypatch):
    prune(tmp_path / "none", most=1)
    aged(tmp_path / "old", 91 * 86400)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    prune(tmp_path, most=3)
    assert (tmp_path / "old").exists()


# When no snapshot is written
SECTIONS = {b"plain": b"text"}


@pytest.fixture
def place(tmp_path) -> SnapshotPlace:
    return b"key", str(tmp_path / "cache/snapshots/x")


def test_unreliable_snapshots_arent_written(place, tmp_path, monkeypatch):
    """Not settled, not complete, too large, or in a folder that can't be written."""
    fresh, unwatched = Stamps(), Stamps()
    fresh.add(str(write(tmp_path / "new")))
    unwatched.complete = False
    assert not write_snapshot(place, SECTIONS, fresh)
    assert not write_snapshot(place, SECTIONS, unwatched)
    (tmp_path / "cache").touch()
    assert not write_snapshot(place, SECTIONS, Stamps())
    (tmp_path / "cache").unlink()
    monkeypatch.setattr("pegboard.plugins.cache._MOST_SNAPSHOT_BYTES", 1)
    assert not write_snapshot(place, SECTIONS, Stamps())


def test_the_number_of_snapshots_is_bounded(place, monkeypatch, tmp_path):
    monkeypatch.setattr("pegboard.plugins.cache._MOST_SNAPSHOTS", 2)
    for number in range(4):
        assert write_snapshot((b"", str(tmp_path / f"s/{number}")), SECTIONS, Stamps())
        os.utime(tmp_path / f"s/{number}", (time.time() - 100 + number,) * 2)
    assert len(list((tmp_path / "s").iterdir())) == 2


def test_the_environment_names_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = snapshot_place()
    assert place is not None
    assert Path(place[1]).parent == tmp_path / "pegboard/snapshots"


# Stamps of everything that a listing depends on ----------------------------------------------------------------------


def paths(stamps: Stamps) -> list[str]:
    return [os.fsdecode(path) for path in stamps.by_path]


def test_the_environment_is_sys_path_and_pegboard(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/usr/lib/x", "relative"])
    assert paths(Stamps.of_environment()) == [str(tmp_path), "/usr/lib/x", str(tmp_path / "relative"), *own_files()]


@pytest.mark.parametrize(
    "change",
    [
        lambda file, _: os.utime(file, (OLD, OLD + 1)),
        lambda file, _: (file.write_text("more"), os.utime(file, (OLD, OLD))),
        lambda file, _: file.unlink(),
        lambda _, missing: missing.touch(),
    ],
)
def test_stamps_hold_until_something_changes(tmp_path, change):
    file, missing = write(tmp_path / "f"), tmp_path / "missing"
    os.utime(file, (OLD, OLD))
    stamps = Stamps()
    stamps.add(str(file), str(missing))
    assert is_fresh(stamps.by_path)
    change(file, missing)
    assert not is_fresh(stamps.by_path)


def test_the_first_stamp_of_a_path_stays(tmp_path):
    file = write(tmp_path / "f")
    stamps = Stamps()
    stamps.add(str(file))
    first = dict(stamps.by_path)
    file.write_text("more")
    stamps.add(str(file))
    assert stamps.by_path == first


def test_stamps_with_a_recent_change_arent_settled(tmp_path):
    """But a time in the future is a wrong clock."""
    stamps = Stamps()
    for name, time_ in (("old", OLD), ("future", OLD * 2)):
        os.utime(write(tmp_path / name), (time_, time_))
        stamps.add(str(tmp_path / name))
    stamps.add(str(tmp_path / "missing"))
    assert stamps.settled
    stamps.add(str(write(tmp_path / "new")))
    assert not stamps.settled


def test_stamps_of_an_installed_plugin_are_its_record_and_manifest(tmp_path):
    """Its listing takes a `stat` for each: an installer that changes anything rewrites RECORD."""
    folder = install(tmp_path, record="demo_tools/pegboard-manifest.json,,\n")
    stamps = Stamps()
    stamps.add_plugin(discover([str(tmp_path)]).entries[0])
    assert paths(stamps) == [str(folder / "RECORD"), str(tmp_path / "demo_tools/pegboard-manifest.json")]
    assert stamps.complete


@pytest.mark.parametrize("code", ["demo_tools.py", "elsewhere.py"])
def test_stamps_of_a_plugin_without_record_include_its_code(tmp_path, code):
    """Code that can't be found leaves the stamps incomplete."""
    folder = install(tmp_path, record=None, kind="egg-info")
    file, found = write(tmp_path / code), code == "demo_tools.py"
    stamps = Stamps()
    stamps.add_plugin(discover([str(tmp_path)]).entries[0])
    metadata = [str(folder / name) for name in ("RECORD", "entry_points.txt", "PKG-INFO")]
    assert paths(stamps) == [*metadata, *([str(file)] if found else [])]
    assert stamps.complete is found
