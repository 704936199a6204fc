"""Which pegboard this is."""

from __future__ import annotations

import importlib.metadata
import os

import pytest

from installed import OLD, write
from pegboard.plugins import own


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A pegboard of its own, not installed."""
    os.utime(write(tmp_path / "site/pegboard/tools/spec.py"), (OLD, OLD))
    monkeypatch.setattr(own, "_PACKAGE", tmp_path / "site/pegboard")
    monkeypatch.setattr("sys.path", [str(tmp_path / "none"), str(tmp_path / "other"), ""])
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site/pegboard"


def test_the_version_is_the_installed_one():
    assert own.own_version() == importlib.metadata.version("pegboard")


def test_a_regular_install_is_known_by_its_metadata(package):
    metadata = write(package.parent / "pegboard-1.2.dist-info/METADATA")
    assert own.own_version() == "1.2"
    assert own.own_files() == (str(metadata),)


def test_an_editable_install_is_known_by_its_code_too(package, tmp_path):
    metadata = write(tmp_path / "other/pegboard-1.2.dist-info/METADATA")
    assert own.own_version() == "1.2"
    assert own.own_files() == (str(package / "tools/spec.py"), str(metadata))


def test_without_an_install_there_is_only_the_code(package):
    assert own.own_version() == "0+unknown"
    assert own.own_files() == (str(package / "tools/spec.py"),)


def test_a_plugins_metadata_is_not_ours(package):
    write(package.parent / "pegboard_files-3.dist-info/METADATA")
    write(package.parent / "pegboard-notes.txt")
    assert own.own_version() == "0+unknown"


def test_the_key_follows_the_code(package):
    before = own.own_key()
    assert before == own.own_key()
    os.utime(package / "tools/spec.py", (OLD, OLD + 1))
    assert own.own_key() != before
