from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path

import pytest

from installed import install, write
from pegboard import Origin, Tool, tool, tool_of
from pegboard_lock import CodeDigests, code as code_module
from pegboard_lock.code import change_of_code, join_code

SETTLED = 1_600_000_000


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on `sys.path`, with caches of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "site"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    return root


def _install_demo(root: Path, *, record: str = "", wheel: str = "", **options) -> Path:
    write(root / "demo_tools" / "__init__.py", "A = 1\n")
    write(root / "demo_tools" / "__pycache__" / "__init__.pyc", "compiled")
    record = f"demo_tools/__init__.py,,\ndemo_tools/__pycache__/__init__.pyc,,\n../bin/demo,,\n{record}"
    folder = install(root, record=record, **options)
    if wheel:
        (folder / "WHEEL").write_text(wheel)
    for path in root.rglob("*"):
        os.utime(path, (SETTLED, SETTLED))
    return folder


def _code(base: Path, name: str = "demo"):
    return CodeDigests(base).entry(name)["code"]


def test_it_covers_a_distributions_own_files_and_nothing_of_its_installer(site, tmp_path):
    folder = _install_demo(site, record="demo-1.0.dist-info/INSTALLER,,\ndemo-1.0.dist-info/RECORD,,\n")
    (folder / "INSTALLER").write_text("pip")
    entry = CodeDigests(tmp_path).entry("demo")
    assert entry["version"] == "1.0"
    (folder / "INSTALLER").write_text("uv")
    write(site / "demo_tools" / "__pycache__" / "__init__.pyc", "other")
    assert _code(tmp_path) == entry["code"]
    write(site / "demo_tools" / "__init__.py", "A = 22\n")
    assert _code(tmp_path) != entry["code"]


def test_it_is_the_same_in_another_folder(site, tmp_path, monkeypatch):
    _install_demo(site)
    before = _code(tmp_path)
    shutil.move(site, tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert _code(tmp_path) == before


def test_compiled_files_have_a_digest_for_their_wheel_tag(site, tmp_path):
    write(site / "demo_tools" / "fast.so", "machine code")
    _install_demo(site, record="demo_tools/fast.so,,\n", wheel="Tag: cp311-cp311-linux_x86_64\n")
    code = _code(tmp_path)
    assert set(code) == {"*", "cp311-cp311-linux_x86_64"}
    other = {"*": code["*"], "cp312-cp312-macosx_11_0_arm64": "sha256:1"}
    assert change_of_code(code, code) is None
    assert change_of_code({**other, **code}, code) is None
    assert change_of_code(other, code) == "isn't locked for cp311-cp311-linux_x86_64"
    assert join_code(other, code) == {**other, **code}
    for changed in ({"*": "sha256:2"}, {"cp311-cp311-linux_x86_64": "sha256:2"}):
        assert change_of_code({**code, **changed}, code) == "has changed"
    assert join_code({**other, "*": "sha256:2"}, code) == code


@pytest.mark.parametrize(
    ("locked", "now", "how"),
    [
        (None, "sha256:1", None),
        ("sha256:1", "sha256:1", None),
        ("sha256:1", "sha256:2", "has changed"),
        ("sha256:1", None, "can't be examined"),
        ({"*": "sha256:1"}, "sha256:1", "has changed"),
        ("sha256:1", {"*": "sha256:1", "any": "sha256:2"}, "has changed"),
    ],
)
def test_what_the_lock_doesnt_know_is_no_drift_and_what_cant_be_known_now_is(locked, now, how):
    assert change_of_code(locked, now) == how


def test_of_an_editable_install_the_sources_count(site, tmp_path):
    _install_demo(site, editable=True)
    before = _code(tmp_path)
    assert before is not None
    write(site / "demo_tools" / "data.txt", "more")
    assert _code(tmp_path) != before


@pytest.mark.parametrize("has_url", [True, False])
def test_of_an_editable_install_all_packages_beside_the_plugins_count_and_no_path_does(tmp_path, monkeypatch, has_url):
    def code(root):
        write(root / "src" / "demo_tools" / "__init__.py", "A = 1\n")
        write(root / "src" / "demo_core" / "data.json", "{}")
        write(root / "src" / "demo.egg-info" / "PKG-INFO", str(root))
        write(root / "src" / "__pycache__" / "more.pyc", str(root))
        write(root / "site" / "_demo.pth", f"{root / 'src'}\n")
        install(root / "site", record="_demo.pth,,\n", editable=has_url)
        with monkeypatch.context() as patched:
            patched.setattr("sys.path", [str(root / "site"), str(root / "src"), *sys.path])
            yield _code(tmp_path)
            write(root / "src" / "demo_core" / "data.json", "{1}")
            yield _code(tmp_path)
            now, digests = [0.0], CodeDigests(tmp_path, clock=lambda: now[0])
            digests.entry("demo")
            write(root / "src" / "demo_more.py", "B = 1\n")
            now[0] = 1.0
            yield digests.entry("demo")["code"]

    codes = [*code(tmp_path / "here")]
    assert len({*codes}) == 3
    assert [*code(tmp_path / "there")] == codes


def test_one_that_isnt_installed_or_has_no_record_has_none(site, tmp_path):
    assert CodeDigests(tmp_path).entry("nowhere") == {"version": None, "code": None}
    folder = _install_demo(site)
    (folder / "RECORD").unlink()
    assert CodeDigests(tmp_path).entry("demo") == {"version": "1.0", "code": None}


def test_a_file_that_is_missing_makes_it_unknown(site, tmp_path):
    _install_demo(site)
    (site / "demo_tools" / "__init__.py").unlink()
    assert _code(tmp_path) is None


def test_files_are_looked_at_once_a_second_and_read_when_their_stamp_changes(site, tmp_path):
    now = [0.0]
    _install_demo(site)
    digests = CodeDigests(tmp_path, clock=lambda: now[0])
    before = digests.entry("demo")
    write(site / "demo_tools" / "__init__.py", "A = 22\n")
    assert digests.entry("demo") == before
    now[0] = 1.0
    assert digests.entry("demo") != before


@pytest.mark.parametrize("editable", [False, True])
def test_files_are_listed_again_only_when_their_record_or_a_folder_has_changed(site, tmp_path, monkeypatch, editable):
    folder, now = _install_demo(site, record="demo-1.0.dist-info/RECORD,,\n", editable=editable), [0.0]
    digests = CodeDigests(tmp_path, clock=lambda: now[0])
    seen = [digests.entry("demo")]
    with monkeypatch.context() as patched:
        patched.setattr(code_module, "_files_of_distribution", lambda _: pytest.fail("listed again"))
        now[0] = 1.0
        assert digests.entry("demo") == seen[0]
        write(site / "demo_tools" / "__init__.py", "A = 22\n")
        now[0] = 2.0
        seen.append(digests.entry("demo"))
    write(site / "demo_tools" / "more.py", "B = 1\n")
    if not editable:
        record = folder / "RECORD"
        record.write_text(f"{record.read_text()}demo_tools/more.py,,\n")
    now[0] = 3.0
    seen.append(digests.entry("demo"))
    assert len({entry["code"] for entry in seen}) == 3
    assert seen[-1] == CodeDigests(tmp_path).entry("demo")


def test_digests_are_kept_for_other_processes_by_the_files_stamps(site, tmp_path):
    _install_demo(site)
    before = _code(tmp_path)
    (cache,) = (tmp_path / "cache").rglob("lock-code.json")
    assert cache.stat().st_mode & 0o077 == 0
    cache.write_text(cache.read_text().replace(before, "sha256:kept"))
    assert _code(tmp_path) == "sha256:kept"
    cache.write_text("[")
    assert _code(tmp_path) == before


def test_what_changed_just_now_isnt_kept(site, tmp_path):
    _install_demo(site)
    write(site / "demo_tools" / "__init__.py", "A = 22\n")
    assert _code(tmp_path)
    assert not [*(tmp_path / "cache").rglob("lock-code.json")]


def test_a_file_of_functions_counts_by_its_content(tmp_path):
    file = write(tmp_path / "fns.py", "x") or tmp_path / "fns.py"
    before = CodeDigests(tmp_path).entry("file:fns.py")
    assert before["version"] is None
    file.write_text("yy")
    assert CodeDigests(tmp_path).entry("file:fns.py") != before
    assert CodeDigests(tmp_path).entry("file:gone.py")["code"] is None


def test_the_name_of_code_has_no_path_of_this_machine(tmp_path):
    @tool
    def own() -> int:
        "own"
        return 1

    here = Path(__file__).resolve()
    made = tool_of(own)
    inside, outside = CodeDigests(here.parents[1]), CodeDigests(tmp_path)
    assert inside.name_of(made) == "file:tests/test_code.py"
    assert outside.name_of(made) == "file:test_code.py"
    assert inside.entry("file:tests/test_code.py")["code"] is not None
    assert outside.entry("file:test_code.py")["code"] is not None
    partial = Tool.from_function(functools.partial(own), name="own")
    assert outside.name_of(partial) == "file:test_code.py"
    assert outside.name_of(made.evolve(origin=Origin("files", "pegboard-files"))) == "pegboard-files"
    assert outside.name_of(made.evolve(origin=Origin(toolset="web"))) is None
    assert outside.name_of(made.evolve(handler=None)) is None


def test_files_of_one_name_outside_of_the_project_count_together(tmp_path):
    digests, tools = CodeDigests(tmp_path / "project"), []
    for folder in ("a", "b"):
        file = write(tmp_path / folder / "fns.py", f"def {folder}(): return 1\n")
        names = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        tools.append(Tool.from_function(names[folder]))
    assert {digests.name_of(each) for each in tools} == {"file:fns.py"}
    before = digests.entry("file:fns.py")
    write(tmp_path / "b" / "fns.py", "def b(): return 2\n")
    after = CodeDigests(tmp_path / "project")
    assert [after.name_of(each) for each in reversed(tools)] == ["file:fns.py"] * 2
    assert after.entry("file:fns.py") != before


def test_code_of_a_toolset_is_that_of_all_files_below_its_folders(tmp_path):
    def code(root):
        return CodeDigests(root).of_toolset("mine", [str(root / "tools"), str(root / "one.py"), str(root / "gone")])

    for root in (tmp_path / "here", tmp_path / "there"):
        write(root / "tools" / "dice.py", "1")
        write(root / "tools" / "deep" / "data.txt", "2")
        write(root / "tools" / "__pycache__" / "dice.pyc", str(root))
        write(root / "one.py", "3")
    before = code(tmp_path / "here")
    assert before == code(tmp_path / "there")
    write(tmp_path / "there" / "tools" / "deep" / "data.txt", "4")
    assert code(tmp_path / "there") != before
    assert CodeDigests(tmp_path).of_toolset("none", []) is None


def test_code_in_linked_folders_and_hidden_files_counts_and_a_link_upwards_ends(tmp_path):
    tools, elsewhere = tmp_path / "tools", tmp_path / "elsewhere"
    write(tools / "dice.py", "1")
    write(elsewhere / "more.py", "2")
    write(tools / ".hidden" / ".run.sh", "3")
    (tools / "linked").symlink_to(elsewhere)
    (tools / "linked-up").symlink_to(tools)
    digests = [CodeDigests(tmp_path).of_toolset("mine", [str(tools)])]
    for file in (elsewhere / "more.py", tools / ".hidden" / ".run.sh"):
        write(file, "44")
        digests.append(CodeDigests(tmp_path).of_toolset("mine", [str(tools)]))
    write(tools / ".git" / "index", "5")
    assert len({*digests}) == 3
    assert CodeDigests(tmp_path).of_toolset("mine", [str(tools)]) == digests[-1]
