from __future__ import annotations

import io
import json
import os
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from installed import install, write
from json_page import faults
from pegboard import ToolSpec
from pegboard.cli import Options
from pegboard.cli.main import main
from pegboard.cli.output import report_error
from pegboard.testing import discover
from pegboard_lock import LockPlugin

FUNCTIONS = """
def double(n: int) -> int:
    "Double a number."
    return 2 * n


def half(n: int) -> int:
    "Halve a number."
    return n // 2
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a file of functions, and folders of the user's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    project = tmp_path / "project"
    write(project / "pegboard.toml")
    write(project / "fns.py", FUNCTIONS)
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def run(project, monkeypatch, capsys):
    """Runs a command of the plugin without the other plugins; returns the code, standard output and error."""
    monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
    group = click.Group()
    LockPlugin().pegboard_register_commands(group)
    return partial(_run, capsys, lambda words: group.main(words, obj=Options(), standalone_mode=False))


@pytest.fixture
def run_whole(project, monkeypatch, capsys):
    """Runs `registry`, with this plugin and those that a test installs."""
    others = (found.name for found in discover().entries if found.name != "lock")
    monkeypatch.setenv("PEGBOARD_BLOCK", ",".join(others))
    return partial(_run, capsys, main)


def _run(capsys, command, name, *words, functions=("--functions", "fns.py")):
    path = [*sys.path]
    try:
        code = command([name, *functions, *words])
    except (EOFError, click.Abort):
        code = 130
    except Exception as error:  # noqa: BLE001  as `registry` does
        code = report_error(error, Options())
    finally:
        sys.path[:] = path
        sys.modules.pop("pegboard_functions_fns", None)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def _change(old, new):
    with open("fns.py", "r+") as file:  # noqa: PTH123  in the current folder
        text = file.read()
        assert old in text
        file.seek(0)
        file.truncate()
        file.write(text.replace(old, new))
    later = Path("fns.py").stat().st_mtime + 10  # Python doesn't see a change in the same second to as many bytes
    os.utime("fns.py", (later, later))


def _lock():
    with open("pegboard.lock") as file:  # noqa: PTH123  likewise
        return file.read()


def test_what_was_locked_is_verified(run):
    assert run("lock")[2].endswith("pegboard.lock: 2 tools locked\n")
    assert set(json.loads(_lock())["tools"]) == {"double", "half"}
    assert run("verify") == (0, "", "2 tools as locked\n")
    assert run("verify", "--json") == (0, '{"drift":[]}\n', "")
    assert run("diff") == (0, "", "2 tools as locked\n")
    assert run("verify", "--live") == (0, "", "2 tools as locked\n")


def test_drift_is_shown_with_its_class_and_exits_with_1(run):
    run("lock")
    _change('n: int) -> int:\n    "Double', 'n: float) -> int:\n    "Double')
    code, out, _ = run("verify")
    assert code == 1
    assert out.splitlines()[0].split() == ["CLASS", "ACTION", "OF", "WHAT"]
    assert "widened" in out
    code, out, _ = run("verify", "--json")
    drifts = json.loads(out)["drift"]
    assert [(each["class"], each["tool"]) for each in drifts] == [("widened", "double"), ("code", None)]
    assert drifts[0]["onlyNew"]
    assert not faults("registry verify --json", json.loads(out))
    code, out, _ = run("diff", "double")
    assert code == 1
    assert '-          "type": "integer"' in out
    assert '+          "type": "number"' in out
    assert "half" not in out


def test_fail_on_picks_the_classes(run):
    run("lock")
    _change("Double", "Twice")
    assert run("verify")[0] == 1
    assert run("verify", "--fail-on", "reach, widened")[0] == 0
    assert run("verify", "--fail-on", "wording")[0] == 1
    assert run("verify", "--fail-on", "")[0] == 0
    code, _, err = run("verify", "--fail-on", "wordings")
    assert code == 2
    assert "'wordings' is no class of drift. Did you mean 'wording'?" in err


def test_the_settings_say_what_fails(run, tmp_path):
    run("lock")
    _change("Double", "Twice")
    write(tmp_path / "project" / "pegboard.toml", '[lock]\nwording = "warn"\ncode = "warn"\n')
    assert run("verify")[0] == 1, "the project isn't trusted"
    main(["config", "trust"])
    assert run("verify")[0] == 0
    write(tmp_path / "project" / "pegboard.toml", '[lock]\nword = "warn"\n')
    main(["config", "trust"])
    code, _, err = run("verify")
    assert code != 0
    assert "lock.word: unknown key" in err


def test_lock_of_a_name_shows_the_difference_and_changes_its_lines_only(run):
    run("lock")
    before = _lock()
    _change("Double", "Twice")
    _change("Halve", "Divide")
    code, out, _ = run("lock", "double", "--yes")
    assert code == 0
    assert '-    "description": "Double a number."' in out
    assert "Divide" not in out
    changed = [new for old, new in zip(before.splitlines(), _lock().splitlines(), strict=True) if old != new]
    assert len(changed) == 2
    assert all("Twice" in line or '"digest"' in line for line in changed)
    assert run("lock", "double", "--yes")[2] == "nothing has changed\n"
    run("lock", "file:fns.py", "--yes")
    assert "half" in run("verify")[1]
    assert run("lock", "half", "--yes")[0] == 0
    assert run("verify")[0] == 0


def test_a_difference_has_no_tools_that_are_as_they_are_locked(run):
    """A whole number is without a point in the file."""
    _change("return 2", "return 2.0")
    _change("n: int)", "n: float = 1.0)")
    run("lock")
    _change("Halve", "Divide")
    _, out, _ = run("diff")
    assert "--- half locked" in out
    assert "--- double" not in out


def test_without_an_answer_nothing_changes(run, monkeypatch):
    run("lock")
    before = _lock()
    _change("Double", "Twice")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run("lock", "double")[0] == 130
    assert _lock() == before


def test_a_removed_tool_is_reported_and_can_be_unlocked(run):
    run("lock")
    _change('def half(n: int) -> int:\n    "Halve a number."\n    return n // 2\n', "")
    code, out, _ = run("verify", "--fail-on", "removed")
    assert (code, "half" in out) == (1, True)
    run("lock", "half", "--yes")
    assert set(json.loads(_lock())["tools"]) == {"double"}


@pytest.mark.parametrize("content", [None, "{}", "<<<<<<< a", '{"format": 9}'])
def test_without_a_usable_lock_the_code_is_3(run, tmp_path, content):
    if content is not None:
        write(tmp_path / "project" / "pegboard.lock", content)
    for command in ("verify", "diff"):
        code, out, err = run(command)
        assert (code, out) == (3, "")
        assert "pegboard.lock" in err
    if content is not None:
        assert run("lock", "double", "--yes")[0] == 3
        assert "it is written anew" in run("lock")[2]
        assert run("verify")[0] == 0


def test_an_unknown_name_is_a_usage_error_with_near_misses(run):
    run("lock")
    for command in ("lock", "diff"):
        code, _, err = run(command, "doubel")
        assert code == 2
        assert "Did you mean 'double'?" in err
    assert run("verify", "-T", "double")[0] == 2


def test_a_changed_lock_isnt_trusted_until_it_is_accepted(run, tmp_path):
    run("lock")
    file = tmp_path / "project" / "pegboard.lock"
    file.write_text(_lock() + "\n")
    assert "isn't trusted, and accepts nothing" in run("verify")[2]
    _change("Double", "Twice")
    assert "until you run: registry config trust" in run("lock", "double", "--yes")[2]
    run("lock")
    assert run("verify")[2] == "2 tools as locked\n"


def test_functions_that_arent_loaded_stay_locked_and_the_option_that_loads_them_is_named(run):
    run("lock")
    before, hint = _lock(), "weren't loaded: --functions fns.py does"
    for words in (["lock"], ["lock", "half", "--yes"], ["verify"], ["diff"]):
        code, _, err = run(*words, functions=())
        assert (code, hint in err) == (0, True)
    assert _lock() == before
    Path("fns.py").unlink()
    run("lock", functions=())
    assert json.loads(_lock())["tools"] == {}


def test_nothing_of_a_lock_that_isnt_trusted_is_kept(run):
    """Neither tools of sources that aren't known now, nor code for other platforms."""
    run("lock")
    lock = json.loads(_lock())
    entry = lock["tools"]["half"]
    lock["tools"]["evil"] = {**entry, "toolset": "web", "spec": {**entry["spec"], "name": "evil"}}
    lock["tools"]["evil"]["digest"] = ToolSpec.from_json(lock["tools"]["evil"]["spec"]).digest
    Path("pegboard.lock").write_text(json.dumps(lock))
    assert "isn't trusted: nothing of it is kept" in run("lock")[2]
    assert set(json.loads(_lock())["tools"]) == {"double", "half"}


@pytest.mark.slow  # each command looks for all installed plugins
def test_a_drifted_function_isnt_called(run_whole):
    run = run_whole
    run("lock")
    assert run("call", "double", "n=2")[1] == "4\n"
    _change("Double", "Twice")
    code, _, err = run("call", "double", "n=2")
    assert code == 2
    assert "'double' isn't offered here: lock: wording" in err
    assert "- lock: wording" in run("explain", "double")[1]


TRANSFORMING = """
from pegboard import ToolsetFunction, hookimpl, tool

@tool
def fetch(url: str) -> str:
    "Fetch a page."
    return url

@hookimpl
def pegboard_register_toolsets(register):
    register(ToolsetFunction("web", lambda: [fetch]))

@hookimpl
def pegboard_register_transforms(register):
    register("short", lambda tools: tools.renamed({"double": "twice", "fetch": "get"}))
"""


@pytest.mark.slow  # likewise
def test_tools_are_locked_and_verified_as_a_plugin_transforms_them(run_whole, tmp_path, monkeypatch):
    run = run_whole
    write(tmp_path / "site" / "short_tools.py", TRANSFORMING)
    install(tmp_path / "site", "pegboard-short", "1.0", "[pegboard]\nshort = short_tools\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    run("lock")
    lock = json.loads(_lock())
    assert set(lock["tools"]) == {"twice", "half", "get"}
    assert run("verify") == (0, "", "3 tools as locked\n")
    pins = lock["toolsets"]["web"].pop("definitions")
    assert pins["fetch"] != lock["tools"]["get"]["digest"]
    lock["toolsets"]["web"]["definitions"] = {"other": "sha256:1"}
    Path("pegboard.lock").write_text(json.dumps(lock))
    run("lock", "get", "--yes")
    assert json.loads(_lock())["toolsets"]["web"]["definitions"] == {"other": "sha256:1", **pins}
    assert run("call", "twice", "n=2")[:2] == (0, "4\n")


TWO_TOOLS = """
from pegboard import hookimpl, tool

@tool
def read(path: str) -> str:
    "Read a file."
    return path

@tool
def write(path: str) -> str:
    "Write a file."
    return path

@hookimpl
def pegboard_register_tools(register):
    register(read, write)
"""


@pytest.mark.slow  # likewise
def test_what_is_held_back_isnt_exported_and_doctor_reports_it(run_whole, tmp_path, monkeypatch):
    run = partial(run_whole, functions=())
    others = os.environ["PEGBOARD_BLOCK"].split(",")
    monkeypatch.setenv("PEGBOARD_BLOCK", ",".join(name for name in others if name != "ollama"))
    write(tmp_path / "site" / "two_tools.py", TWO_TOOLS)
    install(tmp_path / "site", "pegboard-two", "1.0", "[pegboard]\ntwo = two_tools\n", record="two_tools.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    run("lock")
    export = ("export", "--to", "ollama", "--json")
    assert {each["function"]["name"] for each in json.loads(run(*export)[1])["tools"]} == {"read", "write"}
    lock = json.loads(_lock())
    del lock["tools"]["write"]
    Path("pegboard.lock").write_text(json.dumps(lock))
    code, out, err = run(*export)
    assert [each["function"]["name"] for each in json.loads(out)["tools"]] == ["read"]
    assert "'write' is held back: added" in err
    code, out, _ = run("doctor", "--json")
    finding = next(each for each in json.loads(out)["findings"] if "'write'" in each["cause"])
    assert (code, finding["subject"]) == (1, "lock of plugin 'two'")
    Path("pegboard.lock").write_text("{}")
    Path("pegboard.toml").write_text("[lock]\nrequired = true\n")
    main(["config", "trust"])
    assert json.loads(run(*export)[1])["tools"] == []


FAILING = """
from pathlib import Path

from pegboard import ToolsetFunction, hookimpl, tool

@tool
def fetch(url: str) -> str:
    "Fetch a page."
    return url

def fetches():
    if Path("mode.txt").read_text() == "silent":
        raise OSError("it doesn't answer")
    return [fetch]

@hookimpl
def pegboard_register_toolsets(register):
    mode = Path("mode.txt").read_text()
    if mode == "broken":
        raise RuntimeError("its settings are wrong")
    if mode != "gone":
        register(ToolsetFunction("web", fetches))
"""


@pytest.mark.slow  # likewise
def test_a_toolset_that_is_gone_is_removed_and_one_that_doesnt_answer_cant_be_compared(
    run_whole, tmp_path, monkeypatch
):
    run = partial(run_whole, functions=())
    write(tmp_path / "site" / "failing_tools.py", FAILING)
    install(tmp_path / "site", "pegboard-failing", "1.0", "[pegboard]\nfailing = failing_tools\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    mode = write(Path("mode.txt"), "well")
    assert run("lock", "--live")[0] == 0
    before = _lock()
    for name in ("silent", "broken"):
        mode.write_text(name)
        code, out, err = run("verify", "--live")
        assert (code, "removed" in out) == (3, False)
        assert "toolset 'web': " in err
        run("lock", "--live")
        assert _lock() == before
    mode.write_text("gone")
    code, out, _ = run("verify", "--live")
    assert (code, "removed" in out) == (0, True)
    assert run("verify", "--live", "--fail-on", "removed")[0] == 1
    assert run("lock", "--live")[0] == 0
    assert (json.loads(_lock())["tools"], json.loads(_lock())["toolsets"]) == ({}, {})
