from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import pytest

from installed import install, write
from pegboard import Origin, Tool, tool, tool_of
from pegboard_lock import CodeDigests
from pegboard_lock.code import code_name, joined_code, same_code

SETTLED = 1_600_000_000


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on `sys.path`, with caches of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "site"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    return root


def _installed(root: Path, *, record: str = "", wheel: str = "", **options) -> Path:
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
    return CodeDigests().entry(name, base)["code"]


def test_it_covers_a_distributions_own_files_and_nothing_of_its_installer(site, tmp_path):
    folder = _installed(site, record="demo-1.0.dist-info/INSTALLER,,\ndemo-1.0.dist-info/RECORD,,\n")
    (folder / "INSTALLER").write_text("pip")
    entry = CodeDigests().entry("demo", tmp_path)
    assert entry["version"] == "1.0"
    (folder / "INSTALLER").write_text("uv")
    write(site / "demo_tools" / "__pycache__" / "__init__.pyc", "other")
    assert _code(tmp_path) == entry["code"]
    write(site / "demo_tools" / "__init__.py", "A = 22\n")
    assert _code(tmp_path) != entry["code"]


def test_it_is_the_same_in_another_folder(site, tmp_path, monkeypatch):
    _installed(site)
    before = _code(tmp_path)
    shutil.move(site, tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert _code(tmp_path) == before


def test_compiled_files_have_a_digest_for_their_wheel_tag(site, tmp_path):
    write(site / "demo_tools" / "fast.so", "machine code")
    _installed(site, record="demo_tools/fast.so,,\n", wheel="Tag: cp311-cp311-linux_x86_64\n")
    code = _code(tmp_path)
    assert set(code) == {"*", "cp311-cp311-linux_x86_64"}
    other = {"*": code["*"], "cp312-cp312-macosx_11_0_arm64": "sha256:1"}
    assert same_code(other, code)
    assert joined_code(other, code) == {**other, **code}
    assert not same_code({**code, "*": "sha256:2"}, code)
    assert not same_code({**code, "cp311-cp311-linux_x86_64": "sha256:2"}, code)
    assert joined_code({**other, "*": "sha256:2"}, code) == code


def test_what_the_lock_doesnt_know_is_no_drift_and_what_cant_be_known_now_is():
    assert same_code(None, "sha256:1")
    assert not same_code("sha256:1", None)
    assert same_code("sha256:1", "sha256:1")
    assert not same_code({"*": "sha256:1"}, "sha256:1")


def test_of_an_editable_install_the_sources_count(site, tmp_path):
    _installed(site, editable=True)
    before = _code(tmp_path)
    assert before is not None
    write(site / "demo_tools" / "data.txt", "more")
    assert _code(tmp_path) != before


def test_one_that_isnt_installed_or_has_no_record_has_none(site, tmp_path):
    assert CodeDigests().entry("nowhere", tmp_path) == {"version": None, "code": None}
    folder = _installed(site)
    (folder / "RECORD").unlink()
    assert CodeDigests().entry("demo", tmp_path) == {"version": "1.0", "code": None}


def test_a_file_that_is_missing_makes_it_unknown(site, tmp_path):
    _installed(site)
    (site / "demo_tools" / "__init__.py").unlink()
    assert _code(tmp_path) is None


def test_files_are_looked_at_once_a_second_and_read_when_their_stamp_changes(site, tmp_path):
    now = [0.0]
    _installed(site)
    digests = CodeDigests(clock=lambda: now[0])
    before = digests.entry("demo", tmp_path)
    write(site / "demo_tools" / "__init__.py", "A = 22\n")
    assert digests.entry("demo", tmp_path) == before
    now[0] = 1.0
    assert digests.entry("demo", tmp_path) != before


def test_digests_are_kept_for_other_processes_by_the_files_stamps(site, tmp_path):
    _installed(site)
    before = _code(tmp_path)
    (cache,) = (tmp_path / "cache").rglob("lock-code.json")
    assert cache.stat().st_mode & 0o077 == 0
    cache.write_text(cache.read_text().replace(before, "sha256:kept"))
    assert _code(tmp_path) == "sha256:kept"
    cache.write_text("[")
    assert _code(tmp_path) == before


def test_what_changed_just_now_isnt_kept(site, tmp_path):
    _installed(site)
    write(site / "demo_tools" / "__init__.py", "A = 22\n")
    assert _code(tmp_path)
    assert not [*(tmp_path / "cache").rglob("lock-code.json")]


def test_a_file_of_functions_counts_by_its_content(tmp_path):
    file = write(tmp_path / "fns.py", "x") or tmp_path / "fns.py"
    before = CodeDigests().entry("file:fns.py", tmp_path)
    assert before["version"] is None
    file.write_text("yy")
    assert CodeDigests().entry("file:fns.py", tmp_path) != before
    assert CodeDigests().entry("file:gone.py", tmp_path)["code"] is None


def test_the_name_of_code_has_no_path_of_this_machine(tmp_path):
    @tool
    def own() -> int:
        "own"
        return 1

    here = Path(__file__).resolve()
    made = tool_of(own)
    assert code_name(made, here.parents[1]) == "file:tests/test_code.py"
    assert code_name(made, tmp_path) == "file:test_code.py"
    partial = Tool.from_function(functools.partial(own), name="own")
    assert code_name(partial, tmp_path) == "file:test_code.py"
    assert code_name(made.evolve(origin=Origin("files", "pegboard-files")), tmp_path) == "pegboard-files"
    assert code_name(made.evolve(origin=Origin(toolset="web")), tmp_path) is None
    assert code_name(made.evolve(handler=None), tmp_path) is None
