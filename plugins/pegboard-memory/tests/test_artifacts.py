"""Artifacts in a folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pegboard import FileContent, ImageContent, TextContent
from pegboard.errors import ArtifactError
from pegboard_memory import DirectoryArtifacts

TEXT = TextContent("text \u20ac")


@pytest.fixture
def artifacts(tmp_path):
    return DirectoryArtifacts(tmp_path / "artifacts")


def save(artifacts, name, content=TEXT, **scope):
    return asyncio.run(artifacts.save(name, content, **scope))


def load(artifacts, name, version=None, **scope):
    return asyncio.run(artifacts.load(name, version, **scope))


def list_names(artifacts, **scope):
    return asyncio.run(artifacts.list(**scope))


@pytest.mark.parametrize("content", [TEXT, ImageContent(b"\0\xff", "image/png"), FileContent("a.bin", b"\0", "x/y")])
def test_versions_are_kept_as_they_are(artifacts, content):
    assert [save(artifacts, "a/b.txt", each) for each in (TEXT, content)] == [1, 2]
    assert load(artifacts, "a/b.txt", 1) == TEXT
    assert load(artifacts, "a/b.txt") == load(artifacts, "a/b.txt", 2) == content
    assert artifacts.folder.stat().st_mode & 0o777 == 0o700  # private to the owner


def test_users_and_conversations_are_isolated(artifacts):
    save(artifacts, "a", user="ann", session="s")
    save(artifacts, "user:b", user="ann", session="s")
    assert list_names(artifacts, user="ann", session="s") == ("a", "user:b")
    assert list_names(artifacts, user="ann", session="t") == ("user:b",)
    assert list_names(artifacts, user="bob", session="s") == list_names(artifacts) == ()
    with pytest.raises(ArtifactError, match="There is no artifact 'a'"):
        load(artifacts, "a", user="ann", session="t")


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "..", "a\0", "", "c:a", "user:../a"])
def test_a_name_with_a_path_is_refused(artifacts, name):
    for act in (save, load, lambda *each: asyncio.run(artifacts.delete(each[1]))):
        with pytest.raises(ArtifactError, match="is not a valid name"):
            act(artifacts, name)
    assert not artifacts.folder.exists()


def test_long_names_and_odd_scopes_are_stored(artifacts):
    name, scope = "\u20ac" * 80, {"user": "../../x" * 100, "session": "\ud800/\0"}
    assert save(artifacts, name, **scope) == 1
    assert save(artifacts, "charts/2026.csv", **scope) == 1
    assert list_names(artifacts, **scope) == ("charts/2026.csv", name)
    assert {path.name for path in artifacts.folder.parent.iterdir()} == {"artifacts"}


def test_saving_beside_deleting_stores_a_version(artifacts):
    async def save_and_delete():
        for _ in range(50):
            *versions, _ = await asyncio.gather(*(artifacts.save("a", TEXT) for _ in range(4)), artifacts.delete("a"))
            assert all(version >= 1 for version in versions)

    asyncio.run(save_and_delete())


def test_saving_is_tried_again_where_the_folder_is_deleted_while_it_is_made(artifacts, monkeypatch):
    save(artifacts, "a")
    is_dir = Path.is_dir

    def is_gone(path):
        if path == artifacts.folder:
            return is_dir(path)
        monkeypatch.undo()
        asyncio.run(artifacts.delete("a"))
        return False

    monkeypatch.setattr(Path, "is_dir", is_gone)
    assert save(artifacts, "a") == 1
    assert list_names(artifacts) == ("a",)


def test_a_missing_version_is_an_error(artifacts):
    save(artifacts, "a")
    with pytest.raises(ArtifactError, match="There is no version 2 of artifact 'a'"):
        load(artifacts, "a", 2)
    asyncio.run(artifacts.delete("a"))
    asyncio.run(artifacts.delete("a"))
    assert list_names(artifacts) == ()
    assert list(artifacts.folder.glob("gone-*")) == []
    with pytest.raises(ArtifactError, match="There is no artifact 'a'"):
        load(artifacts, "a")


def test_a_large_damaged_or_unreachable_artifact_is_an_error(artifacts):
    small = DirectoryArtifacts(artifacts.folder, most_bytes=100)
    with pytest.raises(ArtifactError, match="too large"):
        save(small, "a", TextContent("x" * 200))
    save(artifacts, "a")
    (version,) = artifacts.folder.glob("*/*/1.json")
    for damage in ("[{", "[]", "7", "[7]", "[{}]", '[{"type": "text"}]'):
        version.write_text(damage)
        with pytest.raises(ArtifactError, match="version 1, is damaged"):
            load(artifacts, "a")
    version.unlink()
    version.mkdir()
    with pytest.raises(ArtifactError, match="can't be read or written"):
        load(artifacts, "a")
    blocked = artifacts.folder.parent / "file"
    blocked.write_text("")
    with pytest.raises(ArtifactError, match="can't be read or written"):
        save(DirectoryArtifacts(blocked), "a")


def test_concurrent_saves_get_a_version_each(artifacts):
    async def many():
        return await asyncio.gather(*(artifacts.save("a", TextContent(f"{number}")) for number in range(20)))

    versions = asyncio.run(many())
    assert sorted(versions) == list(range(1, 21))
    assert [load(artifacts, "a", version).text for version in versions] == [f"{number}" for number in range(20)]


def test_unfinished_files_of_a_killed_program_are_deleted(artifacts):
    save(artifacts, "a")
    (place,) = artifacts.folder.glob("*/*")
    old, new = place / "draft-old", place / "draft-new"
    for draft in (old, new):
        draft.write_text("[{")
    os.utime(old, (time.time() - 7_200,) * 2)
    assert save(artifacts, "a") == 2
    assert (old.exists(), new.exists(), load(artifacts, "a")) == (False, True, TEXT)


WRITES = """
import asyncio, sys
from pegboard import TextContent
from pegboard_memory import DirectoryArtifacts
artifacts = DirectoryArtifacts(sys.argv[1])
while True:
    version = asyncio.run(artifacts.save("a", TextContent("x" * 200_000)))
    print(version, flush=True)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_whole_versions(artifacts):
    latest = 0
    for saves in (1, 2, 3):
        command = [sys.executable, "-c", WRITES, str(artifacts.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(saves):
                latest = int(process.stdout.readline())
            os.kill(process.pid, 9)
        version = save(artifacts, "a")
        assert version > latest
        for each in range(1, version):
            assert load(artifacts, "a", each) == TextContent("x" * 200_000) or load(artifacts, "a", each) == TEXT
