"""One private file that several processes change."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from pegboard.dispatch.approval.grants import PrivateFile
from pegboard.errors import PendingError


@pytest.fixture
def file(tmp_path):
    return PrivateFile(tmp_path / "deep" / "approvals.json", 100)


def written(file, data=b"data"):
    with file.locked():
        file.write(data)


def test_it_is_made_at_the_first_write(file):
    assert (file.read(), file.stamp()) == (None, None)
    written(file)
    assert file.read() == b"data"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert {path.name for path in file.path.parent.iterdir()} == {"approvals.json", "approvals.json.lock"}


def test_each_write_changes_its_stamp(file):
    written(file, b"one")
    before = file.stamp()
    written(file, b"two")
    assert file.stamp() != before


def test_a_write_that_fails_leaves_the_old_one(file, monkeypatch):
    written(file)

    def fail(fd):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        written(file, b"new")
    monkeypatch.undo()
    assert file.read() == b"data"
    assert len(list(file.path.parent.iterdir())) == 2


def test_a_folder_that_cant_be_synced_is_no_failure(file, monkeypatch):
    """Some file systems don't take it."""
    sync = os.fsync

    def fail(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError("not here")
        sync(fd)

    monkeypatch.setattr(os, "fsync", fail)
    written(file)
    assert file.read() == b"data"


def test_it_is_bounded(file):
    written(file)
    with pytest.raises(OSError, match="would be larger than 100 bytes"):
        written(file, b"a" * 101)
    file.path.write_bytes(b"a" * 101)
    with pytest.raises(OSError, match="larger than 100 bytes"):
        file.read()


def test_what_others_may_write_isnt_read(file):
    written(file)
    file.path.chmod(0o620)
    with pytest.raises(PermissionError, match="not private"):
        file.read()


def test_links_and_what_is_no_file_arent_read(file):
    written(file)
    file.path.rename(file.path.with_name("elsewhere"))
    file.path.symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        file.read()
    file.path.unlink()
    os.mkfifo(file.path, 0o600)
    with pytest.raises(OSError, match="not a regular file"):
        file.read()


def test_one_changes_it_at_a_time(file):
    """A counter in the file misses no thread's step."""

    def work():
        for _ in range(5):
            with file.locked():
                file.write(str(int(file.read() or b"0") + 1).encode())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read() == b"20"


def test_waiting_for_another_has_a_limit(file):
    too_long = pytest.raises(PendingError, match=r"locked by another process for more than 0\.02 s")
    with file.locked(), too_long, file.locked(0.02):
        pytest.fail("both have it")
    with file.locked():
        pass
