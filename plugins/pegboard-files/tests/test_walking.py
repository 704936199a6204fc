"""The walk: order, limits, and what it counts."""

from __future__ import annotations

import os

import pytest

from pegboard import ToolError
from pegboard_files import walking
from pegboard_files.deadline import Deadline
from pegboard_files.globs import globs
from pegboard_files.name import shown_path
from pegboard_files.root import OpenRoot, Root
from pegboard_files.walking import Walk


@pytest.fixture
def root(top):
    with Root(str(top)).opened() as opened:
        yield opened


def met(walk: Walk, start=(), **options) -> list[str]:
    return [shown_path(entry.parts) for entry in walk.entries(start, **options)]


def test_names_come_in_byte_order_and_directories_where_their_name_stands(write, root):
    write({"b": "", "B": "", "a.txt": "", "a/z": "", "a/é": "", "a-b": "", "é": ""})
    assert met(Walk(root, Deadline(9))) == ["B", "a", "a/z", "a/é", "a-b", "a.txt", "b", "é"]


def test_links_are_met_and_not_followed(top, write, root):
    write({"real/a": ""})
    (top / "link").symlink_to("real")
    (top / "dangling").symlink_to("nowhere")
    (top / "circle").symlink_to(".")
    os.mkfifo(top / "pipe")
    kinds = {shown_path(entry.parts): entry.kind for entry in Walk(root, Deadline(9)).entries(())}
    assert kinds == {
        "circle": "link",
        "dangling": "link",
        "link": "link",
        "pipe": "other",
        "real": "directory",
        "real/a": "file",
    }


def test_what_is_left_out_is_counted(write, root):
    write({".hidden": "", ".dir/a": "", "a.log": "", "b.log": "", ".gitignore": "*.log", "a": ""})
    walk = Walk(root, Deadline(9))
    assert met(walk) == ["a"]
    assert (walk.left_hidden, walk.left_ignored) == (3, 2)


def test_what_git_keeps_for_itself_is_only_met_if_it_is_named(write, root):
    write({".git/config": "", "sub/.git/HEAD": "", "a": ""})
    assert met(Walk(root, Deadline(9), hidden=True, no_ignore=True)) == ["a", "sub"]
    assert met(Walk(root, Deadline(9)), (".git",)) == [".git/config"]


def test_a_shallow_walk_stays_in_one_directory(write, root):
    write({"a/b": "", "c": ""})
    assert met(Walk(root, Deadline(9)), deep=False) == ["a", "c"]


def test_an_excluded_directory_is_met_but_not_entered(write, root):
    write({"src/vendor/a": "", "src/b": ""})
    assert met(Walk(root, Deadline(9), globs=globs([], ["vendor/"])), ("src",)) == ["src/b", "src/vendor"]


def test_a_walk_stops_at_its_deadline(write, root):
    write({"a": "", "b": ""})
    walk = Walk(root, Deadline(0))
    assert met(walk) == []
    assert walk.stopped


def test_a_walk_ends_at_a_depth(write, root, monkeypatch):
    write({"a/b/c/d": ""})
    monkeypatch.setattr(walking, "MAX_DEPTH", 2)
    walk = Walk(root, Deadline(9))
    assert met(walk) == ["a", "a/b", "a/b/c"]
    assert walk.unreadable == 1


def test_a_directory_that_cannot_be_listed_is_counted_and_the_rest_walked(write, root, monkeypatch):
    write({"a/x": "", "b/y": "", "c": ""})
    children = OpenRoot.children

    def refuse(self, parts):
        if parts == ("a",):
            raise PermissionError(13, "no")
        if parts == ("b",):
            raise ToolError("too many")
        return children(self, parts)

    monkeypatch.setattr(OpenRoot, "children", refuse)
    walk = Walk(root, Deadline(9))
    assert met(walk) == ["a", "b", "c"]
    assert walk.unreadable == 2


def test_a_start_that_cannot_be_listed_is_an_error(write, root):
    write({"a": ""})
    with pytest.raises(OSError, match="Not a directory"):
        met(Walk(root, Deadline(9)), ("a",))


def test_a_directory_that_becomes_a_link_during_the_walk_is_not_entered(tmp_path, top, write, root):
    write({"a": "", "b/x": ""})
    walk = Walk(root, Deadline(9))
    entries = walk.entries(())
    assert shown_path(next(entries).parts) == "a"
    (top / "b" / "x").unlink()
    (top / "b").rmdir()
    (top / "b").symlink_to(tmp_path)
    assert [shown_path(entry.parts) for entry in entries] == ["b"]
    assert walk.unreadable == 1
