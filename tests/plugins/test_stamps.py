"""Everything that a listing rests on, and how it was when the listing was made."""

from __future__ import annotations

import os
import sys

import pytest

from installed import OLD, install, write
from pegboard.plugins.discovery import discover
from pegboard.plugins.own import own_files
from pegboard.plugins.snapshot import is_fresh
from pegboard.plugins.stamps import Stamps


def paths(stamps: Stamps) -> list[str]:
    return [os.fsdecode(path) for path in list(stamps.fields())[::2]]


def test_the_environment_is_sys_path_and_pegboard(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/usr/lib/x", "relative"])
    assert paths(Stamps.of_environment()) == [str(tmp_path), "/usr/lib/x", str(tmp_path / "relative"), *own_files()]


def test_stamps_hold_until_something_changes(tmp_path):
    file = write(tmp_path / "f")
    os.utime(file, (OLD, OLD))
    stamps = Stamps()
    stamps.add(str(file), str(tmp_path / "missing"))
    assert is_fresh(list(stamps.fields()))
    os.utime(file, (OLD, OLD + 1))
    assert not is_fresh(list(stamps.fields()))


@pytest.mark.parametrize("change", ["grows", "goes", "comes"])
def test_what_comes_or_goes_or_grows_is_seen(tmp_path, change):
    file, missing = write(tmp_path / "f"), tmp_path / "missing"
    stamps = Stamps()
    stamps.add(str(file), str(missing))
    if change == "grows":
        file.write_text("more")
        os.utime(file, (OLD, OLD))
    elif change == "goes":
        file.unlink()
    else:
        missing.touch()
    assert not is_fresh(list(stamps.fields()))


def test_the_first_stamp_of_a_path_is_kept(tmp_path):
    file = write(tmp_path / "f")
    stamps = Stamps()
    stamps.add(str(file))
    first = list(stamps.fields())
    file.write_text("more")
    stamps.add(str(file))
    assert list(stamps.fields()) == first


def test_a_change_meanwhile_is_not_settled(tmp_path):
    old = write(tmp_path / "old")
    os.utime(old, (OLD, OLD))
    stamps = Stamps()
    stamps.add(str(old), str(tmp_path / "missing"))
    assert stamps.settled
    stamps.add(str(write(tmp_path / "new")))
    assert not stamps.settled


def test_a_time_in_the_future_is_a_wrong_clock(tmp_path):
    os.utime(write(tmp_path / "f"), (OLD * 2, OLD * 2))
    stamps = Stamps()
    stamps.add(str(tmp_path / "f"))
    assert stamps.settled


def test_of_an_installed_plugin_the_metadata_and_the_manifest_count(tmp_path):
    folder = install(tmp_path, record="demo_tools/pegboard-manifest.json,,\n")
    stamps = Stamps()
    stamps.add_plugin(discover([str(tmp_path)]).entries[0])
    assert paths(stamps) == [
        str(folder / "entry_points.txt"),
        str(folder / "METADATA"),
        str(folder / "RECORD"),
        str(tmp_path / "demo_tools/pegboard-manifest.json"),
    ]
    assert stamps.complete


def test_where_the_metadata_says_nothing_of_the_code_it_counts_too(tmp_path):
    folder = install(tmp_path, record=None, kind="egg-info")
    code = write(tmp_path / "demo_tools.py")
    stamps = Stamps()
    stamps.add_plugin(discover([str(tmp_path)]).entries[0])
    assert paths(stamps) == [*(str(folder / name) for name in ("entry_points.txt", "PKG-INFO", "RECORD")), str(code)]
    assert stamps.complete


def test_code_that_cannot_be_found_cannot_be_watched(tmp_path):
    install(tmp_path, record=None)
    stamps = Stamps()
    stamps.add_plugin(discover([str(tmp_path)]).entries[0])
    assert not stamps.complete
