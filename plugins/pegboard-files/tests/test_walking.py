"""Walks, what is ignored, and listings."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolError
from pegboard_files import walking
from pegboard_files.patterns import globs
from pegboard_files.root import Deadline, OpenRoot, open_root, path_label, resolve
from pegboard_files.tools import FileTools, Settings
from pegboard_files.walking import MAX_IGNORE_BYTES, MAX_IGNORE_LINES, Walk, size_of


@pytest.fixture
def root(top):
    with open_root(str(top)) as opened:
        yield opened


def paths_of(walk: Walk, start=(), **options) -> list[str]:
    return [path_label((*folder, name)) for _, folder, name, _ in walk.entries(start, **options)]


def test_names_come_in_byte_order_and_directories_where_their_name_stands(write, root):
    write({"b": "", "B": "", "a.txt": "", "a/z": "", "a/é": "", "a-b": "", "é": ""})
    assert paths_of(Walk(root, Deadline(60))) == ["B", "a", "a/z", "a/é", "a-b", "a.txt", "b", "é"]


def test_links_are_given_and_not_followed(top, write, root):
    write({"real/a": ""})
    (top / "link").symlink_to("real")
    (top / "dangling").symlink_to("nowhere")
    (top / "circle").symlink_to(".")
    os.mkfifo(top / "pipe")
    kinds = {path: kind for path, _, _, kind in Walk(root, Deadline(60)).entries(())}
    assert kinds == {
        "circle": "link",
        "dangling": "link",
        "link": "link",
        "pipe": "other",
        "real": "directory",
        "real/a": "file",
    }


def test_the_git_directory_is_only_walked_by_its_name(write, root):
    write({".git/config": "", "sub/.git/HEAD": "", "a": ""})
    assert paths_of(Walk(root, Deadline(60), hidden=True, no_ignore=True)) == ["a", "sub"]
    assert paths_of(Walk(root, Deadline(60)), (".git",)) == [".git/config"]


def test_a_shallow_walk_stays_in_one_directory(write, root):
    write({"a/b": "", "c": ""})
    assert paths_of(Walk(root, Deadline(60)), deep=False) == ["a", "c"]


def test_an_excluded_directory_is_given_but_not_entered(write, root):
    write({"src/vendor/a": "", "src/b": ""})
    assert paths_of(Walk(root, Deadline(60), globs=globs([], ["vendor/"])), ("src",)) == ["src/b", "src/vendor"]


def test_a_walk_stops_at_its_deadline(write, root):
    write({"a": "", "b": ""})
    walk = Walk(root, Deadline(0))
    assert paths_of(walk) == []
    assert walk.stopped


def test_a_walk_ends_at_a_depth(write, root, monkeypatch):
    write({"a/b/c/d": ""})
    monkeypatch.setattr(walking, "MAX_DEPTH", 2)
    walk = Walk(root, Deadline(60))
    assert paths_of(walk) == ["a", "a/b", "a/b/c"]
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
    walk = Walk(root, Deadline(60))
    assert paths_of(walk) == ["a", "b", "c"]
    assert walk.unreadable == 2


def test_a_start_that_cannot_be_listed_is_an_error(write, root):
    write({"a": ""})
    with pytest.raises(OSError, match="Not a directory"):
        paths_of(Walk(root, Deadline(60)), ("a",))


def test_a_directory_that_becomes_a_link_during_the_walk_is_not_entered(tmp_path, top, write, root):
    write({"a": "", "b/x": ""})
    walk = Walk(root, Deadline(60))
    entries = walk.entries(())
    assert next(entries)[0] == "a"
    (top / "b" / "x").unlink()
    (top / "b").rmdir()
    (top / "b").symlink_to(tmp_path)
    assert [path for path, *_ in entries] == ["b"]
    assert walk.unreadable == 1


def walk_paths(top: Path, start: str = ".", **flags) -> list[str]:
    """The files of a walk."""
    with open_root(str(top)) as root:
        walk = Walk(root, Deadline(60), **flags)
        entries = walk.entries(resolve(root, start))
        return [path_label((*folder, name)) for _, folder, name, kind in entries if kind == "file"]


@pytest.fixture(scope="session")
def by_ripgrep(ripgrep):
    """The files that ripgrep finds, without git's own."""

    def run(top: Path, *arguments: str) -> list[str]:
        names = [line.removeprefix("./") for line in ripgrep(top, "--files", *arguments)]
        return [name for name in names if ".git" not in name.split("/")]

    return run


NAMES = ["a", "b", "src", "x.py", "y.log", ".h", "build", "foo", "a b", "keep", "é.txt", "#c", "!d", "[e]"]
LINES = [
    *("*.py", "*.log", "/a", "a/", "!a", "*", "!*/", "!*.py", "src/", "/src/*", "!/src/a", "build", "**/foo"),
    *("foo/**", "a/**/b", "!keep", "keep/", "# c", "\\#c", "\\!d", "", "  ", "x.*", "?.py", "[a-z].py", "[!a]*"),
    *("a/b", "!a/b", "src/**/x.py", "/*", "!/src/", "!src", "*b", "**/a/", "a/*/", "a/**/", "a b", "a b ", "a\\ b"),
    *("é*", "\\[e\\]", "[e]", "[[]e]", "**", "**/", "*/", "/**", "./a", "a//b", "***", "x**y", "!**/keep", ".*"),
    *("!.h", "foo/bar", "/foo/", "src/a/", "!src/a/", "*.p[xy]", "a\\", "[", "[a", "a\r", "/", "//", "\\", "src\\/a"),
    *("**/src/**", "src/**", "!src/**/a", "a?", "[^a]", "[]a]", "\\a"),
]
RULES = st.lists(st.sampled_from(LINES), min_size=1, max_size=5).map("\n".join)
IGNORE_FILES = st.dictionaries(
    st.sampled_from([".gitignore", ".gitignore", ".ignore", ".rgignore", ".git/info/exclude"]), RULES, max_size=2
)
TREES = st.recursive(
    st.none(),
    lambda inner: st.tuples(st.dictionaries(st.sampled_from(NAMES), inner, max_size=5), IGNORE_FILES),
    max_leaves=25,
).filter(lambda tree: tree is not None)


def plant(tree, folder: Path) -> None:
    """Makes a folder of a tree."""
    contents, ignore_files = tree
    for name, inner in contents.items():
        if inner is None:
            (folder / name).write_text("x\n")
        else:
            (folder / name).mkdir()
            plant(inner, folder / name)
    for name, text in ignore_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.slow
@given(TREES, st.booleans())
def test_any_tree_is_walked_as_ripgrep_walks_it(by_ripgrep, tree, hidden):
    """Property: the same files in the same order, whatever ignore files say."""
    with tempfile.TemporaryDirectory() as place:
        top = Path(place).resolve()
        (top / ".git" / "info").mkdir(parents=True)  # ripgrep only takes .gitignore in repositories
        plant(tree, top)
        assert walk_paths(top, hidden=hidden) == by_ripgrep(top, *(["--hidden"] * hidden))


NASTY = {
    ".gitignore": "*.log\n!important.log\n/build/\nnode_modules\n*\n!*/\n!*.py\n!*.md\n!.github/\n",
    "a.py": "",
    "a.txt": "",
    "important.log": "",
    "build/x.py": "",
    "src/build/x.py": "",
    "src/.gitignore": "!kept.txt\ngenerated_*.py\n",
    "src/kept.txt": "",
    "src/generated_a.py": "",
    "src/deep/generated_b.py": "",
    "src/deep/.ignore": "!generated_b.py\n",
    "src/node_modules/x.py": "",
    "docs/.rgignore": "!notes.txt\nsecret.md\n",
    "docs/.ignore": "notes.txt\n!secret.md\n",
    "docs/notes.txt": "",
    "docs/secret.md": "",
    ".github/x.py": "",
    ".github/x.yml": "",
    ".venv/.gitignore": "*\n",
    ".venv/lib/x.py": "",
    "nested/.git/info/exclude": "excluded.py\n",
    "nested/free.txt": "",
    "nested/excluded.py": "",
    "nested/sub/free.txt": "",
}


@pytest.mark.parametrize("arguments", [(), ("--hidden",), ("--no-ignore",), ("--hidden", "--no-ignore")])
def test_a_nasty_tree_is_walked_as_ripgrep_walks_it(by_ripgrep, top, write, arguments):
    write(NASTY)
    (top / ".git").mkdir()
    flags = {name.removeprefix("--").replace("-", "_"): True for name in arguments}
    got = walk_paths(top, **flags)
    assert got == by_ripgrep(top, *arguments)
    assert got


@pytest.mark.parametrize("start", ["src", "src/deep", "src/node_modules", ".venv/lib", "build", "nested/sub"])
def test_a_directory_that_is_named_is_walked_even_if_it_is_ignored_or_hidden(by_ripgrep, top, write, start):
    write(NASTY)
    (top / ".git").mkdir()
    assert walk_paths(top, start) == by_ripgrep(top, start)


def test_gitignore_counts_outside_of_repositories_too(by_ripgrep, top, write):
    """The first exception: a model's user means their .gitignore, with or without git."""
    write({".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    assert walk_paths(top) == ["a.py"]
    assert by_ripgrep(top) == ["a.log", "a.py"]
    assert by_ripgrep(top, "--no-require-git") == ["a.py"]


def test_a_root_inside_a_repository_keeps_to_the_rules_above_it(by_ripgrep, tmp_path, top, write):
    write({"a.py": "", "b.log": "", "gen/x.py": "", "sub/gen/x.py": "", "c.tmp": "", "d.bak": ""})
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.bak\n")
    (tmp_path / ".gitignore").write_text("*.log\n/top/gen/\n")
    (tmp_path / ".ignore").write_text("*.tmp\n")
    assert walk_paths(top) == by_ripgrep(top) == ["a.py", "sub/gen/x.py"]


def test_a_root_that_is_a_repository_ignores_the_rules_of_one_around_it(by_ripgrep, tmp_path, top, write):
    write({"a.log": ""})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert walk_paths(top) == []
    (top / ".git").mkdir()
    assert walk_paths(top) == by_ripgrep(top) == ["a.log"]


@pytest.mark.parametrize(
    ("place", "config"),
    [
        (".config/git/ignore", {}),
        ("my ignores", {".gitconfig": '[core]\n\tname = x\n\texcludesFile = "~/my ignores"\n'}),
        ("mine", {".config/git/config": "[core]\nexcludesfile=~/mine\n"}),
    ],
)
def test_the_users_global_excludes_count(top, write, home, place, config):
    write({"a.log": "", "a.py": ""})
    for name, text in {**config, place: "*.log\n"}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    assert walk_paths(top) == ["a.py"]


def test_the_users_global_excludes_are_looked_for_where_xdg_says(top, write, home, monkeypatch):
    write({"a.log": "", "a.py": ""})
    (home / "xdg" / "git").mkdir(parents=True)
    (home / "xdg" / "git" / "ignore").write_text("*.log\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert walk_paths(top) == ["a.py"]


def test_an_ignore_file_that_is_a_link_or_a_pipe_does_not_count(tmp_path, top, write):
    """ripgrep 15 waits for the pipe, and dies of a link to /dev/zero."""
    write({"piped/a.log": "", "linked/a.log": "", "zero/a.log": ""})
    os.mkfifo(top / "piped" / ".gitignore")
    (tmp_path / "rules").write_text("*\n")
    (top / "linked" / ".gitignore").symlink_to(tmp_path / "rules")
    (top / "zero" / ".gitignore").symlink_to("/dev/zero")
    assert walk_paths(top) == ["linked/a.log", "piped/a.log", "zero/a.log"]


@pytest.mark.parametrize("rest", ["x" * MAX_IGNORE_BYTES, "x\n" * MAX_IGNORE_LINES])
def test_an_enormous_ignore_file_does_not_count(top, write, rest):
    write({".gitignore": "*.log\n" + rest, "a.log": ""})
    assert walk_paths(top) == ["a.log"]


def test_global_excludes_that_are_a_pipe_do_not_count(top, write, home):
    write({"a.log": ""})
    (home / ".config" / "git").mkdir(parents=True)
    os.mkfifo(home / ".config" / "git" / "ignore")
    assert walk_paths(top) == ["a.log"]


def test_names_with_line_ends_and_stray_bytes_can_be_ignored(top, write):
    write({".gitignore": "*.log\nout/\n", "a\nb.log": "", "new\nline/x.log": "", "new\nline/x.py": ""})
    with suppress(OSError):  # some file systems of macOS only take UTF-8
        os.close(os.open(os.fsencode(top) + b"/caf\xe9.log", os.O_CREAT | os.O_WRONLY))
    assert walk_paths(top) == ["new\\nline/x.py"]


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


def test_hidden_and_ignored_entries_are_left_out_counted_and_shown_on_request(write, files):
    write({".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    answer = files.list_directory()
    assert names(answer) == ["a.py"]
    assert answer.text.endswith("[Not shown: 1 hidden (use hidden=true), 1 ignored (use no_ignore=true).]")
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
    assert answer.structured_content["note"] == "Entries 1-4 of 10. To continue, use offset=4."
    last = files.list_directory(offset=8, limit=4)
    assert names(last) == ["08", "09"]
    assert last.structured_content["note"] == "Entries 9-10 of 10."
    assert files.list_directory(offset=10).text == "[No more entries.]"


def test_an_empty_directory_says_so(top, files):
    (top / "empty").mkdir()
    assert files.list_directory("empty").text == "[No entries to list.]"


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
def test_a_file_cannot_be_listed(top, write, files, tool):
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
    assert answer.structured_content["note"].startswith("Stopped after 1e-09 seconds; the list is incomplete.")


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
    assert first.text == "0.txt\n1.txt\n[There are more results. To continue, use offset=2, or use a narrower pattern.]"
    assert files.glob("*.txt", offset=4, limit=2).text == "4.txt"
    assert files.glob("*.txt", offset=9).text == "[No more results.]"


def test_nothing_found_says_what_was_left_out(write, files):
    write(GLOBBED)
    answer = files.glob("*.go")
    assert answer.text == ("[No path matches. Not shown: 2 hidden (use hidden=true), 2 ignored (use no_ignore=true).]")


def test_a_glob_that_takes_too_long_says_that_it_is_not_all(top, write):
    write({"a": ""})
    answer = FileTools(Settings(root=str(top), time_limit=1e-9)).glob("*")
    assert answer.structured_content["truncated"]
    assert answer.text.startswith("[Stopped after 1e-09 seconds; the list is incomplete.")


def test_a_file_that_was_removed_or_replaced_has_no_size(top, write):
    write({"a": ""})
    (top / "d").mkdir()
    with open_root(str(top)) as root:
        assert [size_of(root, (name,), "file") for name in ("gone", "d", "a")] == [None, None, 0]
