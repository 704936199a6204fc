"""Listing snapshots: their key, their validity and their content."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from installed import OLD, write
from pegboard.plugins import snapshot
from pegboard.plugins.cache import Stamps, write_snapshot
from pegboard.plugins.snapshot import Snapshot, SnapshotPlace, open_snapshot, snapshot_place

SECTIONS = {b"plain": "alpha\tdemo\té\n".encode(), b"more": b"", b"version": b"registry 1"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def watched(tmp_path):
    file = write(tmp_path / "watched")
    os.utime(file, (OLD, OLD))
    return file


@pytest.fixture
def stamps(watched) -> Stamps:
    stamps = Stamps()
    stamps.add(str(watched))
    return stamps


@pytest.fixture
def place() -> SnapshotPlace:
    place = snapshot_place()
    assert place is not None
    return place


@pytest.fixture
def written(place, stamps):
    assert write_snapshot(place, SECTIONS, stamps)
    return place


@contextmanager
def opened(place: SnapshotPlace) -> Iterator[Snapshot]:
    """The open snapshot, which has to be valid."""
    snapshot = open_snapshot(place)
    assert snapshot is not None
    with closing(snapshot):
        yield snapshot


def test_what_is_written_is_read(written):
    with opened(written) as snapshot:
        assert {name: snapshot.section(name) for name in SECTIONS} == SECTIONS
        assert {name: b"".join(snapshot.pieces(name)) for name in SECTIONS} == SECTIONS


def test_a_large_section_is_read_in_pieces(place, stamps):
    """Of which the first is given only once all have been checked."""
    large = bytes(range(256)) * 1000
    assert write_snapshot(place, {b"plain": b"x", b"large": large, b"more": b"y"}, stamps)
    with opened(place) as snapshot:
        pieces = list(snapshot.pieces(b"large"))
        assert len(pieces) > 1
        assert b"".join(pieces) == large
    file = Path(place[1])
    file.write_bytes(_flipped(file.read_bytes(), -2))
    with opened(place) as snapshot, pytest.raises(ValueError, match="damaged"):
        snapshot.pieces(b"large")


def test_one_of_an_older_format_is_read_as_absent(written):
    file = Path(written[1])
    file.write_bytes(file.read_bytes().replace(snapshot.MAGIC, b"pegboard snapshot 4\n"))
    assert open_snapshot(written) is None


def test_a_change_makes_it_stale(written, watched):
    os.utime(watched, (OLD, OLD + 1))
    assert open_snapshot(written) is None


def test_a_reader_keeps_what_it_has_opened(written, stamps):
    with opened(written) as snapshot:
        write_snapshot(written, {}, stamps)
        assert snapshot.section(b"version") == b"registry 1"


def test_another_environment_of_the_same_file_name_and_a_file_of_others_are_refused(written):
    assert open_snapshot((written[0] + b"x", written[1])) is None
    Path(written[1]).chmod(0o644)
    assert open_snapshot(written) is None


def _flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "damaged",
    [
        *(lambda data, position=position: _flipped(data, position) for position in (0, 25, 60, 100)),
        *(lambda data, length=length: data[:length] for length in (0, 10, 30, 100)),
        *(
            lambda _, head=head: snapshot.MAGIC + head + b"\n" + b"x" * 200
            for head in (b"00000000 99999999999", b"00000000 -1", b"zz 3", b"1", b"8cdc1683 1", b"f8e1180f 2")
        ),
    ],
)
def test_a_damaged_head_is_refused(written, damaged):
    file = Path(written[1])
    file.write_bytes(damaged(file.read_bytes()))
    assert open_snapshot(written) is None


@pytest.mark.parametrize(
    ("damaged", "section"),
    [(lambda data: _flipped(data, data.index(b"alpha")), b"plain"), (lambda data: data[:-3], b"version")],
    ids=["changed", "cut short"],
)
def test_a_damaged_body_raises(written, damaged, section):
    file = Path(written[1])
    file.write_bytes(damaged(file.read_bytes()))
    with opened(written) as snapshot:
        for read in (snapshot.section, snapshot.pieces):
            with pytest.raises(ValueError, match="damaged"):
                read(section)


# The key


def key(**environ: str) -> bytes:
    place = snapshot_place({**os.environ, **environ})
    assert place is not None
    return place[0]


@pytest.mark.parametrize("name", ["PEGBOARD_BLOCK", "PEGBOARD_ANYTHING", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_the_key_depends_on_variables(name):
    assert key(**{name: "/elsewhere"}) != key()


def test_the_key_doesnt_depend_on_other_variables():
    assert key(LANG="x", TERM="y") == key()


@pytest.mark.parametrize(
    "change",
    [
        lambda patch, _: patch.setattr(sys, "path", [*sys.path, "/more"]),
        lambda patch, _: patch.setattr(sys, "prefix", "/other/venv"),
        lambda _, folder: write(folder / "pegboard.toml"),
    ],
    ids=["sys.path", "interpreter", "project"],
)
def test_the_key_depends_on_paths_interpreter_and_project(monkeypatch, tmp_path, change):
    before = key()
    change(monkeypatch, tmp_path)
    assert key() != before


def test_the_key_depends_on_the_current_folder_if_it_is_on_the_path(monkeypatch, tmp_path):
    (tmp_path / "sub").mkdir()
    monkeypatch.setattr(sys, "path", ["/absolute"])
    before = key()
    monkeypatch.chdir(tmp_path / "sub")
    assert key() == before
    monkeypatch.setattr(sys, "path", [""])
    inside = key()
    monkeypatch.chdir(tmp_path)
    assert key() != inside


def test_no_environment_without_a_cache_folder_or_a_current_folder(tmp_path, monkeypatch):
    assert snapshot_place({"HOME": "relative"}) is None
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert snapshot_place() is None


# Which pegboard this is ----------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Another pegboard, not installed."""
    os.utime(write(tmp_path / "site/pegboard/tools/spec.py"), (OLD, OLD))
    monkeypatch.setattr(snapshot, "_PACKAGE", str(tmp_path / "site/pegboard"))
    monkeypatch.setattr("sys.path", [str(tmp_path / "none"), str(tmp_path / "other"), ""])
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site/pegboard"


def test_the_version_is_the_installed_one():
    assert snapshot.own_version() == importlib.metadata.version("pegboard")


def test_a_regular_install_is_known_by_its_metadata(package):
    metadata = write(package.parent / "pegboard-1.2.dist-info/METADATA")
    assert snapshot.own_version() == "1.2"
    assert snapshot.own_files() == (str(metadata),)


def test_an_editable_install_is_known_by_its_code_too(package, tmp_path):
    metadata = write(tmp_path / "other/pegboard-1.2.dist-info/METADATA")
    assert snapshot.own_version() == "1.2"
    assert snapshot.own_files() == (str(package / "tools/spec.py"), str(metadata))


def test_without_an_install_there_is_only_the_code(package):
    """A plugin's metadata doesn't count."""
    write(package.parent / "pegboard_files-3.dist-info/METADATA")
    write(package.parent / "pegboard-notes.txt")
    assert snapshot.own_version() == "0+unknown"
    assert snapshot.own_files() == (str(package / "tools/spec.py"),)


def test_the_key_follows_the_code(package):
    before = snapshot.own_key()
    assert before == snapshot.own_key()
    os.utime(package / "tools/spec.py", (OLD, OLD + 1))
    assert snapshot.own_key() != before
