"""Files: read with a bound, written whole or not at all, private where they have to be."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pegboard.config.file import (
    make_private_folder,
    open_private,
    read_bounded,
    read_private,
    reason,
    write_private,
    write_whole,
)


def mode(path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def names(folder) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_of_exactly_the_limit_is_read(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    assert read_bounded(str(tmp_path / "f"), 5) == b"12345"


def test_a_larger_file_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"123456")
    with pytest.raises(OSError, match="larger than 5 bytes") as caught:
        read_bounded(str(tmp_path / "f"), 5)
    assert caught.value.errno == errno.EFBIG
    assert reason(caught.value) == "larger than 5 bytes"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_bounded(str(tmp_path / "pipe"), 10) == b""


def test_a_folder_is_refused(tmp_path):
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
    make_private_folder(str(folder))
    assert mode(folder) == 0o700


def test_another_users_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="another user's folder"):
        make_private_folder(str(tmp_path))


def test_rights_are_left_alone_where_there_are_none(tmp_path, monkeypatch):
    """Windows keeps no such modes."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    (folder / "f").touch(mode=0o644)
    monkeypatch.setattr(os, "name", "nt")
    make_private_folder(str(folder))
    os.close(open_private(str(folder / "f")))
    monkeypatch.undo()
    assert mode(folder) == 0o755


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_have_rights_on_is_not_believed(tmp_path, rights):
    (tmp_path / "f").touch()
    (tmp_path / "f").chmod(rights)
    with pytest.raises(PermissionError, match="not private"):
        open_private(str(tmp_path / "f"))


def test_another_users_file_is_not_believed(tmp_path, monkeypatch):
    write_whole(str(tmp_path / "f"), b"", mode=0o600)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="not private"):
        open_private(str(tmp_path / "f"))


def test_a_link_is_not_followed(tmp_path):
    write_whole(str(tmp_path / "f"), b"", mode=0o600)
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with pytest.raises(OSError, match="link"):
        open_private(str(tmp_path / "link"))


def test_a_private_folder_is_no_file(tmp_path):
    (tmp_path / "d").mkdir(mode=0o700)
    with pytest.raises(OSError, match="not a regular file"):
        open_private(str(tmp_path / "d"))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    file = str(tmp_path / "f")
    write_whole(file, b"old")
    with pytest.raises(TypeError):
        write_whole(file, b"new", None)  # pyright: ignore[reportArgumentType]
    assert read_bounded(file, 10) == b"old"
    assert names(tmp_path) == ["f"]


def test_a_reason_without_a_number_is_the_text():
    assert reason(OSError("odd")) == "odd"
