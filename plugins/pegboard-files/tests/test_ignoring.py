"""What is ignored is what the real ripgrep ignores, but for the exceptions that the package names."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from pegboard_files.deadline import Deadline
from pegboard_files.ignoring import MAX_IGNORE_BYTES, MAX_IGNORE_LINES
from pegboard_files.name import shown_path
from pegboard_files.resolving import resolve
from pegboard_files.root import Root
from pegboard_files.walking import Walk


def walked(top: Path, start: str = ".", **flags) -> list[str]:
    """The files that a walk meets."""
    with Root(str(top)).opened() as root:
        walk = Walk(root, Deadline(60), **flags)
        entries = walk.entries(resolve(root, start))
        return [shown_path(entry.parts) for entry in entries if entry.kind == "file"]


@pytest.fixture(scope="session")
def by_ripgrep(ripgrep):
    """The files that ripgrep meets; git's own are never meant."""

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


@settings(max_examples=60, deadline=None)
@given(TREES, st.booleans())
def test_any_tree_is_walked_as_ripgrep_walks_it(by_ripgrep, tree, hidden):
    """Property: the same files in the same order, whatever ignore files say."""
    with tempfile.TemporaryDirectory() as place:
        top = Path(place).resolve()
        (top / ".git" / "info").mkdir(parents=True)  # ripgrep only takes .gitignore in repositories
        plant(tree, top)
        assert walked(top, hidden=hidden) == by_ripgrep(top, *(["--hidden"] * hidden))


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
    got = walked(top, **flags)
    assert got == by_ripgrep(top, *arguments)
    assert got


@pytest.mark.parametrize("start", ["src", "src/deep", "src/node_modules", ".venv/lib", "build", "nested/sub"])
def test_a_directory_that_is_named_is_walked_even_if_it_is_ignored_or_hidden(by_ripgrep, top, write, start):
    write(NASTY)
    (top / ".git").mkdir()
    assert walked(top, start) == by_ripgrep(top, start)


def test_gitignore_counts_outside_of_repositories_too(by_ripgrep, top, write):
    """The first exception: a model's user means their .gitignore, with or without git."""
    write({".gitignore": "*.log\n", "a.log": "", "a.py": ""})
    assert walked(top) == ["a.py"]
    assert by_ripgrep(top) == ["a.log", "a.py"]
    assert by_ripgrep(top, "--no-require-git") == ["a.py"]


def test_a_root_inside_a_repository_keeps_to_the_rules_above_it(by_ripgrep, tmp_path, top, write):
    write({"a.py": "", "b.log": "", "gen/x.py": "", "sub/gen/x.py": "", "c.tmp": "", "d.bak": ""})
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.bak\n")
    (tmp_path / ".gitignore").write_text("*.log\n/top/gen/\n")
    (tmp_path / ".ignore").write_text("*.tmp\n")
    assert walked(top) == by_ripgrep(top) == ["a.py", "sub/gen/x.py"]


def test_a_root_that_is_a_repository_knows_nothing_of_one_around_it(by_ripgrep, tmp_path, top, write):
    write({"a.log": ""})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert walked(top) == []
    (top / ".git").mkdir()
    assert walked(top) == by_ripgrep(top) == ["a.log"]


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
    assert walked(top) == ["a.py"]


def test_the_users_global_excludes_are_looked_for_where_xdg_says(top, write, home, monkeypatch):
    write({"a.log": "", "a.py": ""})
    (home / "xdg" / "git").mkdir(parents=True)
    (home / "xdg" / "git" / "ignore").write_text("*.log\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert walked(top) == ["a.py"]


def test_an_ignore_file_that_is_a_link_or_a_pipe_does_not_count(tmp_path, top, write):
    """ripgrep 15 waits for the pipe, and dies of a link to /dev/zero."""
    write({"piped/a.log": "", "linked/a.log": "", "zero/a.log": ""})
    os.mkfifo(top / "piped" / ".gitignore")
    (tmp_path / "rules").write_text("*\n")
    (top / "linked" / ".gitignore").symlink_to(tmp_path / "rules")
    (top / "zero" / ".gitignore").symlink_to("/dev/zero")
    assert walked(top) == ["linked/a.log", "piped/a.log", "zero/a.log"]


@pytest.mark.parametrize("rest", ["x" * MAX_IGNORE_BYTES, "x\n" * MAX_IGNORE_LINES])
def test_an_enormous_ignore_file_does_not_count(top, write, rest):
    write({".gitignore": "*.log\n" + rest, "a.log": ""})
    assert walked(top) == ["a.log"]


def test_global_excludes_that_are_a_pipe_do_not_count(top, write, home):
    write({"a.log": ""})
    (home / ".config" / "git").mkdir(parents=True)
    os.mkfifo(home / ".config" / "git" / "ignore")
    assert walked(top) == ["a.log"]


def test_names_with_line_ends_and_stray_bytes_can_be_ignored(top, write):
    write({".gitignore": "*.log\nout/\n", "a\nb.log": "", "new\nline/x.log": "", "new\nline/x.py": ""})
    with suppress(OSError):  # some file systems of macOS only take UTF-8
        os.close(os.open(os.fsencode(top) + b"/caf\xe9.log", os.O_CREAT | os.O_WRONLY))
    assert walked(top) == ["new\\nline/x.py"]
