"""Files: bounded reads, atomic and private writes, locations."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS

from pegboard.files import (
    known_user_folder,
    open_private,
    os_error_text,
    project_file,
    read_bounded,
    read_private,
    user_folder,
    write_atomic,
    write_private,
)


def mode(path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def names(folder) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_of_exactly_the_limit_is_read_and_a_larger_one_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    assert read_bounded(str(tmp_path / "f"), 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes") as caught:
        read_bounded(str(tmp_path / "f"), 4)
    assert (caught.value.errno, os_error_text(caught.value)) == (errno.EFBIG, "larger than 4 bytes")


def test_a_pipe_doesnt_block_and_a_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_bounded(str(tmp_path / "pipe"), 10) == b""
    with pytest.raises(IsADirectoryError):
        read_bounded(str(tmp_path), 10)


def test_a_private_file_is_written_whole_and_read_back(tmp_path):
    file = str(tmp_path / "deep/folder/f")
    write_private(file, b"one ", b"two")
    assert read_private(file, 100) == b"one two"
    assert mode(file) == 0o600
    assert mode(tmp_path / "deep/folder") == 0o700
    assert names(tmp_path / "deep/folder") == ["f"]


def test_an_open_folder_is_closed_to_others(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    write_private(str(folder / "private"), b"")
    assert mode(folder) == 0o700


def test_another_users_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="another user's folder"):
        write_private(str(tmp_path / "private"), b"")


def test_permissions_are_left_alone_on_windows(tmp_path, monkeypatch):
    """Windows has no such modes."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    (folder / "f").touch(mode=0o644)
    monkeypatch.setattr(os, "name", "nt")
    write_private(str(folder / "private"), b"")
    os.close(open_private(str(folder / "f")))
    monkeypatch.undo()
    assert mode(folder) == 0o755


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_have_access_to_is_refused(tmp_path, rights):
    (tmp_path / "f").touch()
    (tmp_path / "f").chmod(rights)
    with pytest.raises(PermissionError, match="not private"):
        open_private(str(tmp_path / "f"))


def test_a_link_a_folder_and_another_users_file_are_refused(tmp_path, monkeypatch):
    write_atomic(str(tmp_path / "f"), b"", mode=0o600)
    (tmp_path / "link").symlink_to(tmp_path / "f")
    (tmp_path / "d").mkdir(mode=0o700)
    for name, why in (("link", "link"), ("d", "not a regular file")):
        with pytest.raises(OSError, match=why):
            open_private(str(tmp_path / name))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="not private"):
        open_private(str(tmp_path / "f"))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    file = str(tmp_path / "f")
    write_atomic(file, b"old")
    with pytest.raises(TypeError):
        write_atomic(file, b"new", None)  # pyright: ignore[reportArgumentType]
    assert read_bounded(file, 10) == b"old"
    assert names(tmp_path) == ["f"]


def test_a_reason_without_a_number_is_the_text():
    assert os_error_text(OSError("odd")) == "odd"


# Locations, without platformdirs and equal to its own ----------------------------------------------------------------

KINDS = ["cache", "config", "state"]
EXPECTED = {kind: getattr(platformdirs, f"user_{kind}_dir") for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("home", [None, "/home/a"])
@pytest.mark.parametrize("xdg", [None, "", "relative/cache", "/var/tmp/my cache", "/var/tmp/slash/"])
def test_folders_equal_those_of_platformdirs(monkeypatch, kind, home, xdg):
    """Without HOME, those of the user account."""
    for name, value in (("HOME", home), (f"XDG_{kind.upper()}_HOME", xdg)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert known_user_folder(kind) == EXPECTED[kind]("pegboard", appauthor=False)


@pytest.mark.parametrize("kind", KINDS)
def test_folders_of_macos_equal_those_of_platformdirs(monkeypatch, kind):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", "/Users/a")
    monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
    assert known_user_folder(kind) == getattr(MacOS("pegboard", appauthor=False), f"user_{kind}_dir")


@pytest.mark.parametrize("platform", ["win32", "freebsd14", "ios", "android"])
def test_other_systems_use_platformdirs(monkeypatch, platform):
    if platform == "android":
        monkeypatch.setattr(sys, "getandroidapilevel", lambda: 30, raising=False)
    else:
        monkeypatch.setattr(sys, "platform", platform)
    assert known_user_folder("cache", {"HOME": "/home/a"}) is None
    assert platform == "android" or user_folder("cache") == EXPECTED["cache"]("pegboard", appauthor=False)


def test_a_known_folder_needs_no_platformdirs(monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    assert user_folder("config") == known_user_folder("config")


@pytest.mark.parametrize(
    ("home", "cache"),
    [("", None), ("relative", None), ("/home/a/", "/home/a/.cache/pegboard"), ("/", "/.cache/pegboard")],
)
def test_a_relative_home_is_ignored_and_a_trailing_slash_removed(monkeypatch, home, cache):
    monkeypatch.setattr(sys, "platform", "linux")
    assert known_user_folder("cache", {"HOME": home}) == cache


def make_project(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pegboard.toml"
    file.touch()
    return str(file)


def test_the_nearest_project_file_is_found(tmp_path):
    far, near = make_project(tmp_path / "a"), make_project(tmp_path / "a/b")
    (tmp_path / "a/b/c").mkdir()
    assert project_file(str(tmp_path / "a/b/c"), {"HOME": "/nowhere"}) == near
    assert project_file(str(tmp_path / "a"), {"HOME": "/nowhere"}) == far


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_the_search_ends_at_the_root_of_a_checkout(tmp_path, kind):
    """A worktree's `.git` is a file."""
    make_project(tmp_path)
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    assert project_file(str(root / "src"), {"HOME": "/nowhere"}) is not None
    (root / ".git").mkdir() if kind == "folder" else (root / ".git").touch()
    assert project_file(str(root / "src"), {"HOME": "/nowhere"}) is None


def test_the_root_of_a_checkout_is_searched(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "pegboard.toml").mkdir()  # not a file
    assert project_file(str(tmp_path), {}) is None
    (tmp_path / "pegboard.toml").rmdir()
    file = make_project(tmp_path)
    assert project_file(str(tmp_path), {}) == file


@pytest.mark.parametrize("named", ["home", "link"])
def test_the_search_ends_at_home(tmp_path, named):
    """Also by a link to it."""
    make_project(tmp_path)
    (tmp_path / "home/work").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert project_file(str(tmp_path / "home/work"), {"HOME": str(tmp_path / named)}) is None


def test_the_search_ends_at_the_root_of_the_file_system():
    assert project_file("/", {"HOME": ""}) is None
