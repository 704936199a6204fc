"""Changes of files: all or nothing, with errors, kills and other writers at any moment."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pegboard import ToolError
from pegboard_files import writing
from pegboard_files.root import Deadline, open_root, resolve
from pegboard_files.writing import MAX_EDITED, Change, SeenFiles, commit, read_state


@pytest.fixture
def opened(top):
    with open_root(str(top)) as root:
        yield root


def change(root, path: str, data: bytes | None) -> Change:
    return Change(read_state(root, resolve(root, path, create=True)), data)


def put(root, **files: bytes | None) -> None:
    commit([change(root, path, data) for path, data in files.items()], Deadline(30))


def tree(top: Path) -> dict[str, bytes]:
    """The files below a folder with their contents, and the links with their targets."""
    return {
        str(path.relative_to(top)): os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in top.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def remove_link(root, path: str) -> Change:
    return Change(read_state(root, resolve(root, path, follow=False), follow=False), None)


def test_files_are_made_replaced_and_removed_together(top, write, opened):
    write({"a": "1", "b": "2"})
    put(opened, a=b"new", b=None, c=b"made")
    assert tree(top) == {"a": b"new", "c": b"made"}


def test_directories_that_are_needed_are_made(top, opened):
    put(opened, **{"x/y/z.txt": b"1", "x/y/w.txt": b"2"})
    assert tree(top) == {"x/y/z.txt": b"1", "x/y/w.txt": b"2"}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o4755])
def test_rights_of_a_file_stay(top, write, opened, mode):
    write({"a": "1"})
    (top / "a").chmod(mode)
    put(opened, a=b"2")
    assert stat.S_IMODE((top / "a").stat().st_mode) == mode


def test_set_id_bits_are_dropped_when_the_owner_cannot_be_kept(top, write, opened, monkeypatch):
    write({"a": "1"})
    (top / "a").chmod(0o6755)
    replaced, real = change(opened, "a", b"2"), os.fstat
    inode = (top / "a").stat().st_ino

    def fstat(fd):
        status = real(fd)
        return os.stat_result([*status[:4], 4321, *status[5:]]) if status.st_ino == inode else status

    def refuse(*args):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(writing.os, "fstat", fstat)
    monkeypatch.setattr(writing.os, "fchown", refuse)
    commit([replaced], Deadline(30))
    assert stat.S_IMODE((top / "a").stat().st_mode) == 0o755


def test_extended_attributes_of_a_file_stay(top, write, opened):
    write({"a": "1"})
    try:
        os.setxattr(top / "a", "user.note", b"kept")
    except (OSError, AttributeError):
        return  # a system or a file system without them
    put(opened, a=b"2")
    assert os.getxattr(top / "a", "user.note") == b"kept"


def test_a_new_file_has_the_rights_that_the_user_gives_new_files(top, opened):
    put(opened, a=b"1")
    (top / "by_hand").write_text("")
    assert (top / "a").stat().st_mode == (top / "by_hand").stat().st_mode


def test_another_name_of_a_file_keeps_what_it_was(tmp_path, top, opened):
    """So nothing outside of the root is changed by way of a hard link."""
    os.link(tmp_path / "secret.txt", top / "a")
    put(opened, a=b"mine")
    assert (tmp_path / "secret.txt").read_text() == "secret\n"


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/post-commit", ".GIT/x"])
def test_files_in_git_directories_are_not_changed(opened, path):
    with pytest.raises(ToolError, match="managed by git"):
        change(opened, path, b"")


def test_a_directory_cannot_be_changed(write, opened):
    write({"sub/a": "1"})
    for path in (".", "sub"):
        with pytest.raises(ToolError, match="is a directory"):
            change(opened, path, b"")


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
def test_a_read_only_file_is_refused(top, write, opened, mode):
    write({"a": "1"})
    (top / "a").chmod(mode)
    with pytest.raises(ToolError, match="is read-only"):
        change(opened, "a", b"2")


def test_a_huge_file_is_refused_without_being_read(top, opened):
    with (top / "a").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ToolError, match=f"more than {MAX_EDITED:,} bytes can't be edited"):
        change(opened, "a", b"")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../x", "outside of the working folder"),
        ("/etc/x", "outside of the working folder"),
        ("new/../../x", "goes through a directory that doesn't exist"),
        ("a\0b", "NUL"),
        ("new\nline", "unprintable characters"),
        ("\u202etxt", "unprintable characters"),
        ("out/x", "outside of the working folder"),
        ("dangling", "outside of the working folder"),
        ("x" * 300, "File name too long"),
    ],
)
def test_no_file_is_made_where_none_may_be(tmp_path, top, opened, path, why):
    (top / "out").symlink_to(tmp_path)
    (top / "dangling").symlink_to("../made.txt")
    with pytest.raises(ToolError, match=why):
        change(opened, path, b"")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["home", "secret.txt", "top"]


def test_a_link_below_the_root_is_followed_and_stays(top, write, opened):
    write({"real/a": "1"})
    (top / "way").symlink_to("real/a")
    (top / "new").symlink_to("real/b")
    put(opened, way=b"2", new=b"3")
    assert (top / "way").is_symlink()
    assert (top / "real" / "a").read_bytes() == b"2"
    assert (top / "real" / "b").read_bytes() == b"3"


# Between reading and writing -----------------------------------------------------------------------------------------


def swap_for_link(top: Path) -> None:
    (top / "sub" / "a").unlink()
    (top / "sub" / "a").symlink_to("../../secret.txt")


def swap_folder_for_link(top: Path) -> None:
    (top / "sub").rename(top / "old")
    (top / "sub").symlink_to(top.parent)


@pytest.mark.parametrize(
    "happens",
    [
        lambda top: (top / "sub" / "a").write_text("another program's"),
        lambda top: (top / "sub" / "a").unlink(),
        lambda top: (top / "sub" / "made").write_text("another program's"),
        swap_for_link,
        swap_folder_for_link,
    ],
)
def test_what_changes_between_reading_and_writing_is_not_overwritten(tmp_path, top, write, opened, happens):
    write({"sub/a": "1", "b": "2"})
    changes = [change(opened, path, b"mine") for path in ("b", "sub/a", "sub/made")]
    happens(top)
    before = tree(top)
    opened.close()
    with pytest.raises(ToolError):
        commit(changes, Deadline(30))
    assert tree(top) == before
    assert (tmp_path / "secret.txt").read_text() == "secret\n"


def test_a_file_that_is_made_in_the_last_moment_is_not_overwritten(top, opened, monkeypatch):
    made = change(opened, "a", b"mine")
    link = os.link

    def late(*args, **kwargs):
        (top / "a").write_text("another program's")
        return link(*args, **kwargs)

    monkeypatch.setattr(writing.os, "link", late)
    with pytest.raises(ToolError, match=r"File exists\. Nothing was changed"):
        commit([made], Deadline(30))
    assert tree(top) == {"a": b"another program's"}


def test_a_swap_at_any_moment_never_writes_outside(tmp_path, top, write):
    """The attacker acts before any of the system calls that take a directory."""
    names = ("open", "stat", "link", "replace", "unlink", "mkdir", "rename")
    reals = {name: getattr(os, name) for name in names}
    for moment in range(40):
        write({"sub/a": "1"})
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "a").write_text("theirs")
        calls = 0

        def swapping(real, moment=moment):
            def run(*args, **kwargs):
                nonlocal calls
                calls += 1
                if calls == moment + 1:
                    (top / "sub").rename(top / "old")
                    (top / "sub").symlink_to(tmp_path / "other")
                return real(*args, **kwargs)

            return run

        with pytest.MonkeyPatch.context() as patch, open_root(str(top)) as root:
            for name, real in reals.items():
                patch.setattr(writing.os, name, swapping(real))
            with contextlib.suppress(ToolError, OSError):
                put(root, **{"sub/a": b"mine", "sub/b": b"mine"})
        assert tree(tmp_path / "other") == {"a": b"theirs"}
        for each in ("sub", "old"):
            if (top / each).is_symlink():
                (top / each).unlink()
            elif (top / each).exists():
                assert {key: data for key, data in tree(top / each).items() if not key.startswith(".pegboard")} in (
                    {"a": b"1"},
                    {"a": b"mine", "b": b"mine"},
                )
                shutil.rmtree(top / each)
        shutil.rmtree(tmp_path / "other")


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_without_hard_links_copies_are_the_backups(top, write, opened, monkeypatch, fails):
    """As on FAT, and on many network file systems."""
    write({"a": "1", "b": "2"})
    (top / "a").chmod(0o640)
    (top / "link").symlink_to("nowhere")
    before = tree(top)
    changes = [change(opened, path, data) for path, data in {"a": b"x", "b": None, "c": b"z"}.items()]
    changes.insert(0, remove_link(opened, "link"))
    real = os.unlink

    def refuse(*args, **kwargs):
        raise OSError(errno.EPERM, "Operation not permitted")

    def unlink(path, **kwargs):
        return refuse() if fails and path == "b" else real(path, **kwargs)

    monkeypatch.setattr(writing.os, "link", refuse)
    monkeypatch.setattr(writing.os, "unlink", unlink)
    with pytest.raises(ToolError, match="Nothing was changed") if fails else contextlib.nullcontext():
        commit(changes, Deadline(30))
    assert tree(top) == (before if fails else {"a": b"x", "c": b"z"})
    assert (top / "a").stat().st_mode & 0o777 == 0o640


CALLS = ("fsync", "replace", "link", "unlink", "mkdir", "fchmod")


@pytest.mark.parametrize("when", [(call, moment) for call in CALLS for moment in range(4)])
def test_an_error_at_any_moment_leaves_everything_as_it_was(top, write, opened, monkeypatch, when):
    """Such as a full disk, or a quota."""
    call, moment = when
    write({"a": "1", "b": "2", "c": "3"})
    (top / "link").symlink_to("b")
    before = tree(top)
    changes = [change(opened, path, data) for path, data in {"a": b"x", "b": None, "c": b"z", "new/d": b"w"}.items()]
    changes.insert(1, remove_link(opened, "link"))
    real, calls = getattr(os, call), 0

    def fail(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == moment + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(writing.os, call, fail)
    try:
        commit(changes, Deadline(30))
    except ToolError as error:
        assert error.text.endswith("No space left on device. Nothing was changed.")  # noqa: PT017
        assert tree(top) == before
        assert sorted(path.name for path in top.iterdir()) == ["a", "b", "c", "link"]
    else:  # the call was made less often, or only in the cleanup
        assert tree(top) == {"a": b"x", "c": b"z", "new/d": b"w"}


def test_an_error_names_the_backup_of_a_file_that_cannot_be_restored(top, write, opened, monkeypatch):
    write({"a": "1", "b": "2"})
    changes = [change(opened, path, b"x") for path in ("a", "b")]
    real, calls = os.replace, 0

    def fail(*args, **kwargs):
        nonlocal calls
        calls += "src_dir_fd" in kwargs  # the journal is put in place by os.replace, too
        if calls > 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(*args, **kwargs)

    monkeypatch.setattr(writing.os, "replace", fail)
    with pytest.raises(ToolError, match=r"couldn't be restored: a \(its old content is in \.pegboard-") as caught:
        commit(changes, Deadline(30))
    (left,) = top.glob(".pegboard-*")
    assert left.read_text() == "1"
    assert left.name in caught.value.text


def test_a_file_system_without_hard_links_takes_new_files(top, opened, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(writing.os, "link", refuse)
    put(opened, a=b"1")
    assert tree(top) == {"a": b"1"}


def test_no_descriptor_is_left_open(top, write, opened):
    before = {*Path("/dev/fd").iterdir()}
    for number in range(3):
        write({"a": "1", "b": "2"})
        put(opened, a=b"2", b=None, **{f"x/{number}": b"3"})
        with pytest.raises(ToolError):
            change(opened, "../x", b"")
    opened.close()
    assert {*Path("/dev/fd").iterdir()} <= before


# Concurrent writers ---------------------------------------------------------------------------------------------------


def test_concurrent_writers_lose_no_change(top, write):
    """Every thread adds one line to two files; where it was overtaken it reads again."""
    write({"a": "", "b": ""})

    def add(number: int) -> None:
        line = f"{number}\n".encode()
        while True:
            with open_root(str(top)) as root:
                states = [read_state(root, (name,)) for name in ("a", "b")]
                try:
                    commit([Change(state, state.data + line) for state in states], Deadline(30))
                except ToolError as error:
                    assert "changed by another program" in error.text  # noqa: PT017
                else:
                    return

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (top / "a").read_text() == (top / "b").read_text()
    assert sorted(map(int, (top / "a").read_text().split())) == list(range(8))


def test_a_lock_that_is_never_released_is_not_waited_for_beyond_the_time_limit(top, write, opened):
    import fcntl

    write({"a": "1"})
    fd = os.open(top, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(ToolError, match="Waiting for another program that is writing took longer than 0 seconds"):
            commit([change(opened, "a", b"2")], Deadline(0))
    finally:
        os.close(fd)
    assert tree(top) == {"a": b"1"}


def test_the_oldest_of_very_many_seen_files_are_forgotten(monkeypatch):
    monkeypatch.setattr(writing, "MAX_SEEN", 2)
    seen = SeenFiles()
    for number in range(4):
        seen.note("me", f"/{number}", (1, 1, 1, number))
    assert [place for _, place in seen._seen] == ["/2", "/3"]


# kill -9 --------------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from pegboard_files import writing
from pegboard_files.root import Deadline, open_root, resolve
from pegboard_files.writing import Change, commit, read_state, recover

top = Path(sys.argv[1])
old = {"a": b"1", "b": b"2", "sub/e": b"5"}
wanted = {"a": b"x" * 100_000, "b": None, "c": b"z", "sub/d": b"w", "sub/e": b"v"}
new = {name: data for name, data in wanted.items() if data is not None}
ends = set()

def dying(real, moment, calls):
    def run(*args, **kwargs):
        calls.append(real)
        if len(calls) == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return run

def change_all(moment):
    calls = []
    with open_root(str(top)) as root:
        changes = [Change(read_state(root, resolve(root, name, create=True)), data) for name, data in wanted.items()]
        for name in ("open", "fsync", "replace", "link", "unlink", "stat", "fchmod"):
            setattr(writing.os, name, dying(getattr(os, name), moment, calls))
        commit(changes, Deadline(30))

for moment in range(1, 200):
    for path in sorted(top.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (top / "sub").mkdir()
    for name, data in old.items():
        (top / name).write_bytes(data)
    if not (child := os.fork()):
        change_all(moment)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    recover()
    left = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
    there = {name: data for name, data in left.items() if ".pegboard-" not in name}
    assert there in (old, new), (moment, {name: data[:9] for name, data in there.items()})
    ends.add((there == new, status))
    if status == 0:
        break
assert ends == {(False, -9), (True, -9), (True, 0)}, ends
assert not any(".pegboard-" in name for name in left), left
assert not list(writing._journal_folder().iterdir())
"""


@pytest.mark.slow
def test_an_unfinished_change_of_a_killed_process_is_rolled_back(top, home):
    """It is killed before each of its system calls, in turn."""
    ran = subprocess.run([sys.executable, "-c", KILLED, str(top)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_an_unfinished_change_of_a_running_writer_is_left_alone(top, write, opened, monkeypatch):
    write({"a": "1", "b": "2"})
    changes = [change(opened, path, b"x") for path in ("a", "b")]
    real, journals = os.replace, []

    def recover_first(*args, **kwargs):
        if not journals and "a" in args:
            journals.extend(writing._journal_folder().iterdir())
            writing.recover()
        return real(*args, **kwargs)

    monkeypatch.setattr(writing.os, "replace", recover_first)
    commit(changes, Deadline(30))
    assert len(journals) == 1
    assert tree(top) == {"a": b"x", "b": b"x"}
    assert list(writing._journal_folder().iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "[1]", '[{"root": "/nowhere"}]', '{"a": 1}'])
def test_a_damaged_journal_is_ignored(top, write, opened, content):
    folder = writing._journal_folder()
    folder.mkdir(parents=True)
    (folder / "x.json").write_text(content)
    (folder / "x.json").chmod(0o600)
    put(opened, a=b"1")
    assert tree(top) == {"a": b"1"}
