"""Artifacts in a folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

from pegboard import FileContent, ImageContent, TextContent
from pegboard.errors import ArtifactError
from pegboard_memory import DirectoryArtifacts

TEXT = TextContent("text \u20ac")


@pytest.fixture
def artifacts(tmp_path):
    return DirectoryArtifacts(tmp_path / "artifacts")


def saved(artifacts, name, content=TEXT, **scope):
    return asyncio.run(artifacts.save(name, content, **scope))


def loaded(artifacts, name, version=None, **scope):
    return asyncio.run(artifacts.load(name, version, **scope))


def names(artifacts, **scope):
    return asyncio.run(artifacts.list(**scope))


@pytest.mark.parametrize("content", [TEXT, ImageContent(b"\0\xff", "image/png"), FileContent("a.bin", b"\0", "x/y")])
def test_versions_are_kept_as_they_are(artifacts, content):
    assert [saved(artifacts, "a/b.txt", each) for each in (TEXT, content)] == [1, 2]
    assert loaded(artifacts, "a/b.txt", 1) == TEXT
    assert loaded(artifacts, "a/b.txt") == loaded(artifacts, "a/b.txt", 2) == content
    assert artifacts.folder.stat().st_mode & 0o777 == 0o700  # private to the owner


def test_users_and_conversations_never_meet(artifacts):
    saved(artifacts, "a", user="ann", session="s")
    saved(artifacts, "user:b", user="ann", session="s")
    assert names(artifacts, user="ann", session="s") == ("a", "user:b")
    assert names(artifacts, user="ann", session="t") == ("user:b",)
    assert names(artifacts, user="bob", session="s") == names(artifacts) == ()
    with pytest.raises(ArtifactError, match="There is no artifact 'a'"):
        loaded(artifacts, "a", user="ann", session="t")


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "..", "a\0", "", "c:a", "user:../a"])
def test_a_name_with_a_path_is_refused(artifacts, name):
    for act in (saved, loaded, lambda *each: asyncio.run(artifacts.delete(each[1]))):
        with pytest.raises(ArtifactError, match="is not a valid name"):
            act(artifacts, name)
    assert not artifacts.folder.exists()


def test_long_names_and_odd_scopes_are_stored(artifacts):
    name, scope = "\u20ac" * 80, {"user": "../../x" * 100, "session": "\ud800/\0"}
    assert saved(artifacts, name, **scope) == 1
    assert saved(artifacts, "charts/2026.csv", **scope) == 1
    assert names(artifacts, **scope) == ("charts/2026.csv", name)
    assert {path.name for path in artifacts.folder.parent.iterdir()} == {"artifacts"}


def test_a_missing_version_is_an_error(artifacts):
    saved(artifacts, "a")
    with pytest.raises(ArtifactError, match="There is no version 2 of artifact 'a'"):
        loaded(artifacts, "a", 2)
    asyncio.run(artifacts.delete("a"))
    asyncio.run(artifacts.delete("a"))
    assert names(artifacts) == ()
    assert list(artifacts.folder.glob("gone-*")) == []
    with pytest.raises(ArtifactError, match="There is no artifact 'a'"):
        loaded(artifacts, "a")


def test_a_large_damaged_or_unreachable_artifact_is_an_error(artifacts):
    small = DirectoryArtifacts(artifacts.folder, most_bytes=100)
    with pytest.raises(ArtifactError, match="too large"):
        saved(small, "a", TextContent("x" * 200))
    saved(artifacts, "a")
    (version,) = artifacts.folder.glob("*/*/1.json")
    for damage in ("[{", "[]", "7", "[7]", "[{}]", '[{"type": "text"}]'):
        version.write_text(damage)
        with pytest.raises(ArtifactError, match="version 1, is damaged"):
            loaded(artifacts, "a")
    version.unlink()
    version.mkdir()
    with pytest.raises(ArtifactError, match="can't be read or written"):
        loaded(artifacts, "a")
    blocked = artifacts.folder.parent / "file"
    blocked.write_text("")
    with pytest.raises(ArtifactError, match="can't be read or written"):
        saved(DirectoryArtifacts(blocked), "a")


def test_many_at_once_get_a_version_each(artifacts):
    async def many():
        return await asyncio.gather(*(artifacts.save("a", TextContent(f"{number}")) for number in range(20)))

    versions = asyncio.run(many())
    assert sorted(versions) == list(range(1, 21))
    assert [loaded(artifacts, "a", version).text for version in versions] == [f"{number}" for number in range(20)]


def test_unfinished_files_of_a_killed_program_are_deleted(artifacts):
    saved(artifacts, "a")
    (place,) = artifacts.folder.glob("*/*")
    old, new = place / "draft-old", place / "draft-new"
    for draft in (old, new):
        draft.write_text("[{")
    os.utime(old, (time.time() - 7_200,) * 2)
    assert saved(artifacts, "a") == 2
    assert (old.exists(), new.exists(), loaded(artifacts, "a")) == (False, True, TEXT)


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
        version = saved(artifacts, "a")
        assert version > latest
        for each in range(1, version):
            assert loaded(artifacts, "a", each) == TextContent("x" * 200_000) or loaded(artifacts, "a", each) == TEXT
