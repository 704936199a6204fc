"""The root: names, path resolution, and attempts to leave it."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pegboard import ToolError
from pegboard.text import printable
from pegboard_files import root as module
from pegboard_files.root import MAX_LINKS, open_root, path_label, resolve


def test_the_root_is_a_dot():
    assert path_label(()) == "."
    assert path_label(("a", "b\tc")) == "a/b\\tc"


@pytest.fixture
def opened(top):
    with open_root(str(top)) as root:
        yield root


def content(root, path: str) -> bytes:
    with root.open_file(resolve(root, path)) as file:
        return file.read()


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("", ()),
        (".", ()),
        ("a/b.txt", ("a", "b.txt")),
        ("./a//b.txt/", ("a", "b.txt")),
        ("a/../a/./b.txt", ("a", "b.txt")),
        ("a/..", ()),
    ],
)
def test_a_path_becomes_its_parts(write, opened, path, parts):
    write({"a/b.txt": "x"})
    assert resolve(opened, path) == parts


def test_an_absolute_path_below_the_root_is_taken(top, write, opened):
    write({"a/b.txt": "x"})
    assert resolve(opened, f"{top}/a/b.txt") == ("a", "b.txt")
    assert resolve(opened, str(top)) == ()


def test_an_absolute_path_by_way_of_a_link_to_the_root_is_taken(tmp_path, top, write):
    write({"a.txt": "x"})
    (tmp_path / "alias").symlink_to(top)
    with open_root(str(tmp_path / "alias")) as root:
        assert resolve(root, f"{tmp_path}/alias/a.txt") == ("a.txt",)
        assert resolve(root, f"{top}/a.txt") == ("a.txt",)


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../secret.txt", "a/../../secret.txt", "a/b/../../../secret.txt", "/etc/passwd", "/", "//etc/passwd"),
        *("{top}2/x", "{top}/../secret.txt", "{TOP}/../secret.txt", "link/secret.txt"),
    ],
)
def test_a_path_that_leads_out_is_refused(tmp_path, top, write, opened, path):
    write({"a/b/c.txt": "x"})
    (tmp_path / "top2").mkdir()
    (top / "link").symlink_to(tmp_path)
    with pytest.raises(ToolError, match="outside of the working folder"):
        resolve(opened, path.format(top=top, TOP=str(top).upper()))


@pytest.mark.parametrize("target", ["../secret.txt", "/etc/passwd", "../..", "sub/../../secret.txt", "chain2"])
def test_a_link_that_leads_out_is_refused(top, opened, target):
    (top / "sub").mkdir()
    (top / "chain2").symlink_to("sub/chain3")
    (top / "sub" / "chain3").symlink_to("../../secret.txt")
    (top / "link").symlink_to(target)
    with pytest.raises(ToolError, match="outside"):
        resolve(opened, "link")


def test_links_below_the_root_are_followed_one_by_one(top, write, opened):
    write({"real/deep/file.txt": "here"})
    (top / "to_dir").symlink_to("real/deep")
    (top / "real" / "up").symlink_to("..")
    (top / "absolute").symlink_to(top / "to_dir")
    assert resolve(opened, "to_dir/../deep/file.txt") == ("real", "deep", "file.txt")
    assert resolve(opened, "real/up/absolute/file.txt") == ("real", "deep", "file.txt")
    assert content(opened, "absolute/file.txt") == b"here"


def test_a_circle_of_links_ends(top, opened):
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    with pytest.raises(ToolError, match="too many links"):
        resolve(opened, "a")


def test_as_many_links_as_the_system_follows_are_followed(top, write, opened):
    write({"l0": "end"})
    for n in range(1, MAX_LINKS + 1):
        (top / f"l{n}").symlink_to(f"l{n - 1}")
    assert content(opened, f"l{MAX_LINKS}") == b"end"


def test_a_file_that_becomes_a_link_after_it_was_looked_at_is_not_opened(top, write, opened):
    write({"a.txt": "x"})
    parts = resolve(opened, "a.txt")
    (top / "a.txt").unlink()
    (top / "a.txt").symlink_to("../secret.txt")
    with pytest.raises(ToolError, match="not a regular file"):
        opened.open_file(parts)


def test_a_file_that_becomes_a_link_right_before_it_is_opened_is_not_followed(top, write, opened, monkeypatch):
    write({"a.txt": "x"})
    status = opened.status(("a.txt",))
    (top / "a.txt").unlink()
    (top / "a.txt").symlink_to("../secret.txt")
    monkeypatch.setattr(module.OpenRoot, "status", lambda self, parts: status)
    with pytest.raises(ToolError, match="changed while"), module.as_tool_error("a.txt"):
        opened.open_file(("a.txt",))


def test_a_file_that_becomes_a_pipe_right_before_it_is_opened_is_not_waited_for(top, write, opened, monkeypatch):
    write({"a.txt": "x"})
    status = opened.status(("a.txt",))
    (top / "a.txt").unlink()
    os.mkfifo(top / "a.txt")
    monkeypatch.setattr(module.OpenRoot, "status", lambda self, parts: status)
    with pytest.raises(ToolError, match="not a regular file"):
        opened.open_file(("a.txt",))


@pytest.mark.parametrize("become", [lambda path: path.symlink_to("../secret.txt"), os.mkfifo, Path.mkdir])
def test_a_small_file_that_becomes_something_else_after_it_was_listed_is_not_read(top, write, opened, become):
    write({"a.txt": "x"})
    assert opened.children(()) == [("a.txt", "file")]
    (top / "a.txt").unlink()
    become(top / "a.txt")
    with (
        pytest.raises(ToolError, match=r"changed while|not a regular file|is a directory"),
        module.as_tool_error("a.txt"),
    ):
        opened.read_small(("a.txt",), 100)


def test_a_small_file_is_read_as_a_whole_or_not_at_all(write, opened, monkeypatch):
    write({"a.txt": "x" * 100, "b.txt": "x" * 101})
    assert opened.read_small(("a.txt",), 100) == b"x" * 100
    assert opened.read_small(("b.txt",), 100) is None
    monkeypatch.setattr(module.os, "read", lambda fd, size: b"x" * size)
    assert opened.read_small(("a.txt",), 100) is None, "it grew while it was read"


def test_a_directory_that_becomes_a_link_is_not_entered(tmp_path, top, write, opened):
    write({"sub/a.txt": "x"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("secret")
    parts = resolve(opened, "sub/a.txt")
    opened.close()
    (top / "sub").rename(top / "old")
    (top / "sub").symlink_to(tmp_path / "other")
    with pytest.raises(ToolError, match="changed while"), module.as_tool_error("sub/a.txt"):
        opened.open_file(parts)


def test_a_link_swapped_in_at_any_moment_never_gives_the_secret(tmp_path, top, write):
    """The attacker acts between any two steps of the system calls that the tools make."""
    write({"sub/a.txt": "mine\n"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("secret\n")
    real_open, real_stat = os.open, os.stat
    for moment in range(8):
        calls = 0

        def swap(moment=moment):
            nonlocal calls
            calls += 1
            if calls == moment + 1:
                (top / "sub").rename(top / "old")
                (top / "sub").symlink_to(tmp_path / "other")

        def swapping(real):
            def run(path, *args, dir_fd=None, **kwargs):
                if dir_fd is not None:
                    swap()
                return real(path, *args, dir_fd=dir_fd, **kwargs)

            return run

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.os, "open", swapping(real_open))
            patch.setattr(module.os, "stat", swapping(real_stat))
            with open_root(str(top)) as root:
                try:
                    got = content(root, "sub/a.txt")
                except (ToolError, OSError):
                    got = b""
        assert b"secret" not in got
        if (top / "old").exists():
            (top / "sub").unlink()
            (top / "old").rename(top / "sub")


COMPONENTS = st.sampled_from(["a", "b", "up", "out", "loop", "abs", "..", ".", "", "c.txt", "secret.txt"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(COMPONENTS, max_size=7), st.booleans())
def test_whatever_path_is_asked_for_it_stays_below_the_root(tmp_path, top, components, absolute):
    """Property: what `resolve` gives is what the system itself finds, below the root; else it raises."""
    if not (top / "a").exists():
        (top / "a" / "b").mkdir(parents=True)
        (top / "a" / "c.txt").write_text("mine")
        (top / "up").symlink_to("a/b/..")
        (top / "a" / "out").symlink_to("../..")
        (top / "a" / "abs").symlink_to(top)
        (top / "loop").symlink_to("loop")
    asked = "/".join([str(top)] * absolute + components)
    with open_root(str(top)) as root:
        try:
            parts = resolve(root, asked)
        except ToolError:
            return
    found = top.joinpath(*parts)
    assert not {"..", ".", ""} & set(parts)
    assert found.resolve() == found
    # The system refuses "file/..", which `resolve` accepts, so only existing paths are compared.
    theirs = Path(f"{top}/{asked.removeprefix(str(top))}")
    if theirs.exists():
        assert theirs.resolve() == found


def test_a_missing_file_is_named_with_its_near_misses(write, opened):
    write({"src/main.py": "", "src/domain.py": "", "src/other.rs": ""})
    with pytest.raises(ToolError) as caught:
        resolve(opened, "src/Main.py")
    assert caught.value.text == "'src/Main.py' doesn't exist. Did you mean 'src/main.py' or 'src/domain.py'?"


def test_a_missing_directory_on_the_way_is_the_one_that_is_named(write, opened):
    write({"source/main.py": ""})
    with pytest.raises(ToolError, match=r"Did you mean 'source'\?"):
        resolve(opened, "sorce/main.py")


def test_no_error_names_the_hosts_path(top, write, opened):
    write({"a.txt": "x"})
    (top / "out").symlink_to("/etc/hostname")
    for path in ("b.txt", "../x", "out", "a.txt/x", "x" * 300, "a\0b", "\ud800"):
        with pytest.raises(ToolError) as caught:
            resolve(opened, path)
        assert str(top.parent) not in caught.value.text


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("x" * 300, "File name too long"),
        ("a/" * 2_000, "components"),
        ("a\0b", "is not a valid path"),
        ("a\udcff\ud800", "is not a valid path"),
    ],
)
def test_an_invalid_path_is_refused_with_the_reason(opened, path, error):
    with pytest.raises(ToolError, match=error):
        resolve(opened, path)


def test_pipes_sockets_and_devices_are_never_opened(top, opened, monkeypatch):
    os.mkfifo(top / "pipe")
    monkeypatch.chdir(top)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name in ("pipe", "socket"):
        with pytest.raises(ToolError, match="not a regular file"):
            opened.open_file((name,))
    with open_root("/dev") as devices, pytest.raises(ToolError, match="not a regular file"):
        devices.open_file(("null",))


def test_a_directory_is_no_file(write, opened):
    write({"a/b.txt": "x"})
    for parts in ((), ("a",)):
        with pytest.raises(ToolError, match="is a directory"):
            opened.open_file(parts)


NAMES = [
    "caf\udce9.txt",
    "new\nline",
    "tab\there",
    "esc\x1b[31m",
    "\u202egpj.exe",
    "na\u00efve",
    "\u540d\u524d",
    "\U0001f600",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_odd_name_is_shown_on_one_line_and_found_by_what_was_shown(top, opened, name):
    try:
        (top / name).write_text("x")
    except OSError:
        return  # some file systems of macOS only take UTF-8
    seen = printable(name)
    assert seen.isprintable()
    assert resolve(opened, seen) == (name,)
    assert resolve(opened, name) == (name,)


@pytest.mark.parametrize(("there", "asked"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_name_in_another_normal_form_is_found_in_each_component(top, opened, there, asked):
    path = "\u00e9l\u00e8ve/caf\u00e9.txt"
    target = top / unicodedata.normalize(there, path)
    target.parent.mkdir()
    target.write_text("x")
    assert resolve(opened, unicodedata.normalize(asked, path)) == tuple(unicodedata.normalize(there, path).split("/"))
    both = [target.with_name(unicodedata.normalize(form, "a\u0323\u0302")) for form in ("NFC", "NFD")]
    for each in (*both, target.with_name("\u1ea1\u0302")):
        each.write_text("x")
        assert resolve(opened, f"{target.parent.name}/{each.name}")[1] == each.name
    both[0].unlink()
    with pytest.raises(ToolError, match="doesn't exist"):  # two are equal to it
        resolve(opened, f"{target.parent.name}/{both[0].name}")


def test_a_shown_name_that_two_files_share_finds_neither(top, opened):
    (top / "\n\\n").write_text("1")
    (top / "\\n\n").write_text("2")
    with pytest.raises(ToolError, match="doesn't exist"):
        resolve(opened, "\\n\\n")


def test_a_name_is_itself_before_it_is_what_another_one_is_shown_as(top, opened):
    (top / "a\nb").write_text("1")
    (top / "a\\nb").write_text("2")
    assert content(opened, "a\\nb") == b"2"


def test_an_error_of_the_system_is_reported_without_the_hosts_path(top):
    with pytest.raises(ToolError) as caught, module.as_tool_error("a/b"):
        raise PermissionError(13, "Permission denied", str(top / "a" / "b"))
    assert caught.value.text == "'a/b': Permission denied."
    with pytest.raises(ToolError, match=r"^'\.': it can't be read\.$"), module.as_tool_error("."):
        raise OSError


def test_an_error_without_errno_is_reported_while_resolving(write, opened, monkeypatch):
    write({"a.txt": "x"})

    def refuse(*args, **kwargs):
        raise OSError

    monkeypatch.setattr(module.os, "stat", refuse)
    with pytest.raises(ToolError, match="it can't be accessed"):
        resolve(opened, "a.txt")


def test_a_missing_name_in_a_directory_that_cannot_be_listed_has_no_near_misses(write, opened, monkeypatch):
    write({"a.txt": "x"})

    def refuse(self, parts):
        raise PermissionError

    monkeypatch.setattr(module.OpenRoot, "children", refuse)
    with pytest.raises(ToolError, match=r"^'b\.txt' doesn't exist\. Use list_directory"):
        resolve(opened, "b.txt")


def test_a_directory_with_too_many_entries_is_refused(write, opened, monkeypatch):
    write({"a": "", "b": "", "c": ""})
    monkeypatch.setattr(module, "MAX_CHILDREN", 2)
    with pytest.raises(ToolError, match="more than 2 entries"):
        opened.children(())


def test_the_root_is_the_working_directory_of_the_moment(top, write, monkeypatch):
    write({"a.txt": "1", "sub/a.txt": "2"})
    monkeypatch.chdir(top)
    with open_root(None) as opened:
        assert content(opened, "a.txt") == b"1"
    monkeypatch.chdir(top / "sub")
    with open_root(None) as opened:
        assert content(opened, "a.txt") == b"2"


def test_a_tilde_in_the_setting_is_the_home(home):
    (home / "work").mkdir()
    (home / "work" / "a.txt").write_text("x")
    with open_root("~/work") as opened:
        assert content(opened, "a.txt") == b"x"


@pytest.mark.parametrize("setting", ["/nowhere/at/all", "~nobody-of-this-name/x"])
def test_a_missing_root_is_reported_without_its_path(setting):
    with pytest.raises(ToolError, match="setting 'root'") as caught, open_root(setting):
        pass
    assert setting not in caught.value.text


def open_descriptors() -> set[Path]:
    return {*Path("/dev/fd").iterdir()}


def test_no_descriptor_is_left_open(top, write):
    write({"a/b/c/d.txt": "x"})
    before = open_descriptors()
    for _ in range(3):
        with open_root(str(top)) as root:
            content(root, "a/b/c/d.txt")
            root.children(("a", "b"))
            with pytest.raises(ToolError):
                resolve(root, "a/b/x")
            with pytest.raises(NotADirectoryError):
                root.directory(("a", "b", "c", "d.txt"))
    assert open_descriptors() <= before  # others may be closed meanwhile
