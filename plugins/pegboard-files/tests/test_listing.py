"""list_directory and glob."""

from __future__ import annotations

import os

import pytest

from pegboard import ToolError
from pegboard_files.listing import size_of
from pegboard_files.root import OpenRoot, Root
from pegboard_files.settings import Settings
from pegboard_files.tools import FileTools
from pegboard_files.walking import Entry


def names(answer) -> list[str]:
    return [entry["name"] for entry in answer.structured_content["entries"]]


def paths(answer) -> list[str]:
    return [file["path"] for file in answer.structured_content["files"]]


def test_a_directory_is_listed_with_kinds_and_sizes(top, write, files):
    write({"b.txt": "12345", "a/x": "", "c": b"\0" * 2_000})
    (top / "link").symlink_to("a")
    os.mkfifo(top / "pipe")
    answer = files.list_directory()
    assert answer.structured_content == {
        "path": ".",
        "entries": [
            {"name": "a", "kind": "directory", "size": None},
            {"name": "b.txt", "kind": "file", "size": 5},
            {"name": "c", "kind": "file", "size": 2_000},
            {"name": "link", "kind": "link", "size": None},
            {"name": "pipe", "kind": "other", "size": None},
        ],
        "total": 5,
        "note": "",
    }
    assert answer.text == "a/\nb.txt  5 bytes\nc  2,000 bytes\nlink  (link)\npipe  (other)"


def test_what_is_hidden_or_ignored_is_left_out_counted_and_to_be_had(write, files):
    write({".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    answer = files.list_directory()
    assert names(answer) == ["a.py"]
    assert answer.text.endswith("[Left out: 1 hidden (hidden=true shows them), 1 ignored (no_ignore=true shows them).]")
    assert names(files.list_directory(hidden=True)) == [".gitignore", "a.py"]
    assert names(files.list_directory(no_ignore=True)) == ["a.log", "a.py"]


def test_the_host_may_always_show_them(top, write):
    write({".gitignore": "*.log\n", "a.log": ""})
    assert names(FileTools(Settings(root=str(top), hidden=True)).list_directory()) == [".gitignore"]
    assert names(FileTools(Settings(root=str(top), no_ignore=True)).list_directory()) == ["a.log"]


def test_a_long_list_comes_in_pages(write, files):
    write({f"{n:02}": "" for n in range(10)})
    answer = files.list_directory(limit=4)
    assert names(answer) == ["00", "01", "02", "03"]
    assert answer.structured_content["total"] == 10
    assert answer.structured_content["note"] == "Entries 1-4 of 10. Read on with offset=4."
    last = files.list_directory(offset=8, limit=4)
    assert names(last) == ["08", "09"]
    assert last.structured_content["note"] == "Entries 9-10 of 10."


def test_an_empty_directory_says_so(top, files):
    (top / "empty").mkdir()
    assert files.list_directory("empty").text == "[Nothing to list.]"


def test_a_directory_is_listed_by_way_of_a_link_under_its_real_name(top, write, files):
    write({"real/a": ""})
    (top / "link").symlink_to("real")
    answer = files.list_directory("link")
    assert (answer.structured_content["path"], names(answer)) == ("real", ["a"])


@pytest.mark.parametrize("name", ["a\nb", "名前", "e\u0301", "\x1b]0;x\x07", "spaces  and\ttabs"])
def test_any_name_is_listed_on_one_line_and_can_be_asked_for(top, write, files, name):
    write({f"{name}/inner.txt": "found\n"})
    (shown,) = names(files.list_directory())
    assert "\n" not in shown
    assert files.read_file(f"{shown}/inner.txt") == "1\tfound"
    assert paths(files.glob("*.txt")) == [f"{shown}/inner.txt"]


@pytest.mark.parametrize("tool", ["list_directory", "glob"])
def test_a_file_is_no_directory(top, write, files, tool):
    write({"a.txt": "x"})
    os.mkfifo(top / "pipe")
    arguments = ["*"] if tool == "glob" else []
    with pytest.raises(ToolError, match=r"'a\.txt' is a file, not a directory"):
        getattr(files, tool)(*arguments, path="a.txt")
    with pytest.raises(ToolError, match="'pipe' is not a directory"):
        getattr(files, tool)(*arguments, path="pipe")
    with pytest.raises(ToolError, match="outside"):
        getattr(files, tool)(*arguments, path="..")


def test_a_directory_that_cannot_be_listed_is_an_error(write, files, monkeypatch):
    write({"a/x": ""})

    def refuse(self, parts):
        raise PermissionError(13, "no", "/host/path")

    monkeypatch.setattr(OpenRoot, "children", refuse)
    with pytest.raises(ToolError, match=r"^'a': Permission denied\.$"):
        files.list_directory("a")


def test_a_locked_directory_is_refused_or_listed_by_root(top, write, files):
    write({"locked/a": ""})
    (top / "locked").chmod(0)
    try:
        allowed = list((top / "locked").iterdir()) != []
    except PermissionError:
        allowed = False
    try:
        if allowed:
            assert names(files.list_directory("locked")) == ["a"]
        else:
            with pytest.raises(ToolError, match="Permission denied"):
                files.list_directory("locked")
            assert "could not be read" in files.glob("nothing").text
    finally:
        (top / "locked").chmod(0o700)


def test_a_listing_that_takes_too_long_says_that_it_is_not_all(top, write):
    write({"a": "", "b": ""})
    answer = FileTools(Settings(root=str(top), time_limit=1e-9)).list_directory()
    assert answer.structured_content["note"].startswith("Stopped after 1e-09 seconds; this is not all.")


GLOBBED = {
    ".gitignore": "*.log\nout/\n",
    ".github/ci.yml": "",
    "README.md": "",
    "src/a.py": "",
    "src/deep/b.py": "",
    "src/deep/b.ts": "",
    "src/deep/c.tsx": "",
    "src/app.log": "",
    "out/x.py": "",
    "tests/test_a.py": "",
    "tests/data/x.json": "",
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pattern": "*.py"}, ["src/a.py", "src/deep/b.py", "tests/test_a.py"]),
        ({"pattern": "**/*.py"}, ["src/a.py", "src/deep/b.py", "tests/test_a.py"]),
        ({"pattern": "src/*.py"}, ["src/a.py"]),
        ({"pattern": "/*.md"}, ["README.md"]),
        ({"pattern": "*.{ts,tsx}"}, ["src/deep/b.ts", "src/deep/c.tsx"]),
        ({"pattern": "*.py", "path": "src"}, ["src/a.py", "src/deep/b.py"]),
        ({"pattern": "deep/*", "path": "src"}, ["src/deep/b.py", "src/deep/b.ts", "src/deep/c.tsx"]),
        ({"pattern": "*.py", "exclude": ["tests/", "deep/"]}, ["src/a.py"]),
        ({"pattern": "*.py", "no_ignore": True}, ["out/x.py", "src/a.py", "src/deep/b.py", "tests/test_a.py"]),
        ({"pattern": "*.yml"}, []),
        ({"pattern": "*.yml", "hidden": True}, [".github/ci.yml"]),
        ({"pattern": ".github/**"}, [".github/ci.yml"]),
        ({"pattern": "deep"}, []),
        ({"pattern": "deep/"}, ["src/deep"]),
        ({"pattern": "**/"}, ["src", "src/deep", "tests", "tests/data"]),
        ({"pattern": "*.py", "path": "out"}, ["out/x.py"]),
    ],
)
def test_a_pattern_finds_paths_in_order(write, files, options, expected):
    write(GLOBBED)
    assert paths(files.glob(**options)) == expected


@pytest.mark.parametrize("pattern", ["*.py", "src/**", "/src/*", "*.{ts,json}", "d*/*", "*[ab].*", "tests/**/*.json"])
def test_a_pattern_finds_what_ripgrep_finds_with_it(top, write, files, ripgrep, pattern):
    write({name: text for name, text in GLOBBED.items() if name != ".gitignore"})
    assert paths(files.glob(pattern)) == ripgrep(top, "--files", "-g", pattern)


def test_results_tell_kind_and_size(top, write, files):
    write({"a.txt": "123"})
    (top / "b.txt").symlink_to("a.txt")
    assert files.glob("*.txt").structured_content == {
        "files": [{"path": "a.txt", "kind": "file", "size": 3}, {"path": "b.txt", "kind": "link", "size": None}],
        "truncated": False,
        "note": "",
    }
    (top / "sub.txt").mkdir()
    assert files.glob("*.txt/").text == "sub.txt/"


def test_many_results_come_in_pages(write, files):
    write({f"{n}.txt": "" for n in range(5)})
    first = files.glob("*.txt", limit=2)
    assert first.structured_content["truncated"]
    assert first.text == "0.txt\n1.txt\n[There are more: read on with offset=2, or narrow the pattern.]"
    assert files.glob("*.txt", offset=4, limit=2).text == "4.txt"
    assert files.glob("*.txt", offset=9).text == "[Nothing further matches.]"


def test_nothing_found_says_what_was_left_out(write, files):
    write(GLOBBED)
    answer = files.glob("*.go")
    assert answer.text == (
        "[Nothing matches. Left out: 2 hidden (hidden=true shows them), 2 ignored (no_ignore=true shows them).]"
    )


def test_a_glob_that_takes_too_long_says_that_it_is_not_all(top, write):
    write({"a": ""})
    answer = FileTools(Settings(root=str(top), time_limit=1e-9)).glob("*")
    assert answer.structured_content["truncated"]
    assert answer.text.startswith("[Stopped after 1e-09 seconds; this is not all.")


def test_a_file_that_has_gone_or_changed_has_no_size(top, write):
    write({"a": ""})
    (top / "d").mkdir()
    with Root(str(top)).opened() as root:
        assert size_of(root, Entry(("gone",), "file")) is None
        assert size_of(root, Entry(("d",), "file")) is None
        assert size_of(root, Entry(("a",), "file")) == 0
