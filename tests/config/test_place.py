"""Where files are, said without platformdirs and still as platformdirs says it."""

from __future__ import annotations

import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS

from pegboard.config.place import home_folder, known_user_folder, project_file, user_folder

KINDS = ["cache", "config", "state"]
SAID = {kind: getattr(platformdirs, f"user_{kind}_dir") for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("xdg", [None, "", "relative/cache", "/var/tmp/my cache", "/var/tmp/slash/"])
def test_folders_equal_those_of_platformdirs(monkeypatch, kind, xdg):
    monkeypatch.setenv("HOME", "/home/somebody")
    if xdg is None:
        monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
    else:
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", xdg)
    assert known_user_folder(kind) == SAID[kind]("pegboard", appauthor=False)


@pytest.mark.parametrize("kind", KINDS)
def test_folders_without_home_are_the_accounts(monkeypatch, kind):
    monkeypatch.delenv("HOME")
    monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
    assert known_user_folder(kind) == SAID[kind]("pegboard", appauthor=False)


@pytest.mark.parametrize("kind", KINDS)
def test_folders_of_macos_equal_those_of_platformdirs(monkeypatch, kind):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", "/Users/a")
    monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
    assert known_user_folder(kind) == getattr(MacOS("pegboard", appauthor=False), f"user_{kind}_dir")


@pytest.mark.parametrize("platform", ["win32", "freebsd14", "ios"])
def test_on_other_systems_platformdirs_is_asked(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    assert known_user_folder("cache", {"HOME": "/home/a"}) is None
    assert user_folder("cache") == SAID["cache"]("pegboard", appauthor=False)


def test_on_android_platformdirs_is_asked(monkeypatch):
    monkeypatch.setattr(sys, "getandroidapilevel", lambda: 30, raising=False)
    assert known_user_folder("cache", {"HOME": "/home/a"}) is None


def test_a_known_folder_needs_no_platformdirs(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert user_folder("config") == known_user_folder("config")


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_relative_home_is_no_home(home):
    assert home_folder({"HOME": home}) is None
    assert known_user_folder("cache", {"HOME": home}) is None


def test_home_has_no_slash_at_its_end():
    assert home_folder({"HOME": "/home/a/"}) == "/home/a"
    assert home_folder({"HOME": "/"}) == "/"


def made(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pegboard.toml"
    file.touch()
    return str(file)


def test_the_nearest_project_file_is_found(tmp_path):
    far, near = made(tmp_path / "a"), made(tmp_path / "a/b")
    (tmp_path / "a/b/c").mkdir()
    assert project_file(str(tmp_path / "a/b/c"), {"HOME": "/nowhere"}) == near
    assert project_file(str(tmp_path / "a"), {"HOME": "/nowhere"}) == far


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_the_search_ends_at_the_root_of_a_checkout(tmp_path, kind):
    """A worktree's `.git` is a file."""
    made(tmp_path)
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    assert project_file(str(root / "src"), {"HOME": "/nowhere"}) is not None
    (root / ".git").mkdir() if kind == "folder" else (root / ".git").touch()
    assert project_file(str(root / "src"), {"HOME": "/nowhere"}) is None


def test_the_root_of_a_checkout_is_looked_at(tmp_path):
    (tmp_path / ".git").mkdir()
    assert project_file(str(tmp_path), {}) is None
    file = made(tmp_path)
    assert project_file(str(tmp_path), {}) == file


def test_the_search_ends_at_home(tmp_path):
    made(tmp_path)
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    assert project_file(str(home / "work"), {"HOME": str(home)}) is None


def test_the_search_ends_at_a_home_that_is_a_link(tmp_path):
    made(tmp_path)
    (tmp_path / "home/work").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert project_file(str(tmp_path / "home/work"), {"HOME": str(tmp_path / "link")}) is None


def test_the_search_ends_at_the_root_of_the_file_system():
    assert project_file("/", {"HOME": ""}) is None


def test_a_folder_of_that_name_is_no_file(tmp_path):
    (tmp_path / "pegboard.toml").mkdir()
    (tmp_path / ".git").mkdir()
    assert project_file(str(tmp_path), {}) is None
