"""Installed distributions: where their metadata lies, and the few facts that are read of it."""

from __future__ import annotations

import json

import pytest

from installed import install
from pegboard.plugins.distribution import (
    MetadataError,
    is_editable,
    metadata_folders,
    name_and_version,
    normalised,
)


def never(path: str, why: str) -> None:
    raise AssertionError(path, why)


@pytest.mark.parametrize(
    "name", ["friendly-bard", "Friendly-Bard", "FRIENDLY.BARD", "friendly--bard", "FrIeNdLy-._.-bArD"]
)
def test_names_are_compared_as_pep_503_says(name):
    assert normalised(name) == "friendly-bard"


def test_an_earlier_path_hides_a_later_one(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    mine = install(first, "My_Tools", "1.0")
    install(second, "my.tools", "2.0")
    other = install(second, "other", "2.0")
    found = list(metadata_folders([str(first), str(second)], never))
    assert found == [("my-tools", [str(mine)]), ("other", [str(other)])]


def test_all_kinds_of_metadata_are_found(tmp_path):
    folders = [
        install(tmp_path, "a", "1.0"),
        install(tmp_path, "b", "1.0-py3.11", kind="egg-info"),
        tmp_path / "c_d.egg-info",
        install(tmp_path, "odd-name", "1.0"),
    ]
    folders[2].mkdir()
    assert [name for name, _ in metadata_folders([str(tmp_path)], never)] == ["a", "b", "c-d", "odd-name"]


def test_leftovers_are_passed_over(tmp_path):
    """pip renames what it is about to remove, and leaves it where it is stopped."""
    install(tmp_path, "~emo", "1.0")
    (tmp_path / ".dist-info").mkdir()
    (tmp_path / "demo").mkdir()
    assert list(metadata_folders([str(tmp_path)], never)) == []


def test_what_is_no_folder_is_passed_over(tmp_path):
    (tmp_path / "lib.zip").touch()
    assert list(metadata_folders([str(tmp_path / "none"), str(tmp_path / "lib.zip")], never)) == []


def test_an_empty_path_is_the_current_folder(tmp_path, monkeypatch):
    folder = install(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert list(metadata_folders([""], never)) == [("demo", [str(folder)])]


def test_a_folder_that_cannot_be_listed_is_told_of():
    told = []
    assert list(metadata_folders(["x" * 300], lambda path, why: told.append((path, why)))) == []
    assert told == [("x" * 300, "File name too long")]


@pytest.mark.parametrize("name", ["Name: My.Tools", "NAME:My.Tools  "])
def test_name_and_version_are_read(tmp_path, name):
    folder = install(tmp_path, metadata=f"Metadata-Version: 2.1\r\n{name}\r\nversion: 1.0.post1\r\n\r\nName: other\r\n")
    assert name_and_version(str(folder)) == ("My.Tools", "1.0.post1")


def test_an_eggs_facts_stand_in_another_file(tmp_path):
    assert name_and_version(str(install(tmp_path, kind="egg-info"))) == ("demo", "1.0")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("", "no valid Name"),
        ("Version: 1.0\n", "no valid Name"),
        ("Name:\nVersion: 1.0\n", "no valid Name"),
        ("Name: a b\nVersion: 1.0\n", "no valid Name"),
        (b"Name: a\xff\nVersion: 1.0\n", "no valid Name"),
        ("Name: a\n", "no valid Version"),
        ("Name: a\n\nVersion: 1.0\n", "no valid Version"),
        ("Name: a\nVersion: 1 0\n", "no valid Version"),
        ("Name: a\nVersion: 1\x1b\n", "no valid Version"),
        ("Name: a\nVersion: é\n", "no valid Version"),
    ],
)
def test_a_distribution_has_to_say_what_it_is(tmp_path, metadata, words):
    with pytest.raises(MetadataError, match=words):
        name_and_version(str(install(tmp_path, metadata=metadata)))


def test_a_missing_file_is_named(tmp_path):
    folder = install(tmp_path)
    (folder / "METADATA").unlink()
    with pytest.raises(MetadataError, match="METADATA can't be read: No such file"):
        name_and_version(str(folder))


@pytest.mark.parametrize(
    ("content", "editable"),
    [
        ({"url": "file:///x", "dir_info": {"editable": True}}, True),
        ({"url": "file:///x", "dir_info": {"editable": False}}, False),
        ({"url": "file:///x", "dir_info": {}}, False),
        ({"url": "https://x", "archive_info": {}}, False),
        ([], True),
    ],
)
def test_editable_installs_say_so(tmp_path, content, editable):
    folder = install(tmp_path)
    assert not is_editable(str(folder))
    (folder / "direct_url.json").write_text(json.dumps(content))
    assert is_editable(str(folder)) is editable


def test_what_is_not_understood_is_taken_for_editable(tmp_path):
    folder = install(tmp_path)
    (folder / "direct_url.json").write_text("{")
    assert is_editable(str(folder))
    (folder / "direct_url.json").unlink()
    (folder / "direct_url.json").mkdir()
    assert is_editable(str(folder))
