"""Files of a skill: nothing leads out of its folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from pegboard_skills import SkillError
from pegboard_skills.folder import MOST_LISTED, list_files, read_file

INSIDE, OUTSIDE = b"inside", b"secret"
PARTS = ["..", ".", "", "in", "out", "to_in", "a.txt", "b.txt", "l.txt", "pdf", "secret.txt", "pdf2", "\\..", "C:"]


@pytest.fixture
def tree(tmp_path):
    make_tree(tmp_path)
    return tmp_path / "pdf"


def make_tree(root: Path):
    (root / "pdf/in").mkdir(parents=True)
    (root / "pdf2").mkdir()
    for name in ("pdf/a.txt", "pdf/in/b.txt"):
        (root / name).write_bytes(INSIDE)
    for name in ("secret.txt", "pdf2/secret.txt"):
        (root / name).write_bytes(OUTSIDE)
    (root / "pdf/l.txt").symlink_to("../secret.txt")
    (root / "pdf/out").symlink_to("..")
    (root / "pdf/to_in").symlink_to("in")


@pytest.fixture(params=["by descriptors", "by paths"])
def way(request, monkeypatch):
    """As on Linux and macOS, and as on Windows."""
    if request.param == "by paths":
        monkeypatch.setattr(os, "supports_dir_fd", set())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "in/b.txt", "in//b.txt"])
def test_a_file_is_read(tree, path):
    """By its path below the folder."""
    assert read_file(tree, path, 100) == INSIDE


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../secret.txt", "isn't a path below"),
        ("in/../../secret.txt", "isn't a path below"),
        ("/etc/passwd", "isn't a path below"),
        ("a.txt\0", "isn't a path below"),
        ("", "is the skill's folder"),
        ("./", "is the skill's folder"),
        ("l.txt", "is a link, which isn't followed"),
        ("out/secret.txt", "link, which isn't followed"),
        ("to_in/b.txt", "link, which isn't followed"),
        ("missing.txt", "doesn't exist"),
        ("missing/b.txt", "doesn't exist"),
        ("in", "isn't a file"),
        ("x" * 300, "doesn't exist"),
        ("\ud800", "doesn't exist"),
    ],
)
def test_what_leads_elsewhere_is_refused(tree, path, reason):
    """Links, too, even within the folder: one that leads out could be swapped in."""
    with pytest.raises(SkillError, match=reason):
        read_file(tree, path, 100)


@pytest.mark.usefixtures("way")
def test_what_is_no_folder_or_file_is_refused(tree):
    """A pipe doesn't block, and a file isn't searched."""
    os.mkfifo(tree / "pipe")
    with pytest.raises(SkillError, match="isn't a file"):
        read_file(tree, "pipe", 100)
    with pytest.raises(SkillError, match=r"isn't in a folder|doesn't exist"):
        read_file(tree, "a.txt/b.txt", 100)


def test_a_large_file_is_refused(tree):
    """Only as much as the limit is read."""
    assert read_file(tree, "a.txt", len(INSIDE)) == INSIDE
    with pytest.raises(SkillError, match=re.escape("'a.txt' is too large: over 5 bytes")):
        read_file(tree, "a.txt", len(INSIDE) - 1)


def test_the_folder_may_be_a_link(tree):
    """It is where the user has put it."""
    (tree.parent / "linked").symlink_to(tree)
    assert read_file(tree.parent / "linked", "in/b.txt", 100) == INSIDE


def test_a_file_that_may_not_be_read_is_named(tree, monkeypatch):
    """With the reason of the system."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "supports_dir_fd", {refuse})
    with pytest.raises(SkillError, match=re.escape("'a.txt' can't be read: Permission denied")):
        read_file(tree, "a.txt", 100)


def test_on_windows_its_separators_are_refused(tree, monkeypatch):
    """A backslash separates there, and a colon names a drive or a stream."""
    monkeypatch.setattr(os, "sep", "\\")
    for path in ("in\\b.txt", "C:a.txt"):
        with pytest.raises(SkillError, match="isn't a path below"):
            read_file(tree, path, 100)


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("/".join))
def test_no_path_leads_out(path):
    """Whatever it is made of, the content is that of a file inside, or there is an error."""
    with TemporaryDirectory() as root:
        make_tree(Path(root))
        try:
            content = read_file(Path(root, "pdf"), path, 100)
        except SkillError:
            return
    assert content == INSIDE


def test_files_are_listed(tree):
    """Sorted by folder; hidden ones aren't, and links are apart."""
    (tree / ".git").mkdir()
    for name in (".git/config", ".hidden", "in/c.py"):
        (tree / name).touch()
    (tree / "__pycache__").mkdir()
    (tree / "__pycache__/c.pyc").touch()
    files = list_files(tree)
    assert (files.sizes, files.is_whole) == ({"a.txt": 6, "in/b.txt": 6, "in/c.py": 0}, True)
    assert files.skipped == ("l.txt", "out", "to_in")


def test_only_so_many_files_are_listed(tree):
    """The first ones; the listing says that there are more."""
    for number in range(MOST_LISTED + 100):
        (tree / f"{number:03}").touch()
    files = list_files(tree)
    assert (len(files.sizes), files.is_whole, next(iter(files.sizes))) == (MOST_LISTED, False, "000")


def test_a_file_that_vanishes_is_left_out(tree, monkeypatch):
    """As is one that may not be examined."""
    own = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda path: own(path / "gone" if path.name == "a.txt" else path))
    assert list_files(tree).sizes == {"in/b.txt": 6}
