"""The user's programs that run for changed files: what they say, what they change, and how they can fail."""

from __future__ import annotations

import asyncio
import shlex
import sys
import threading
import time
from pathlib import Path

import pytest

import pegboard_files
from pegboard import Permissions, ReadonlyContext, Rule, ToolCall, ToolContext, ToolRegistry, run_turn
from pegboard.config import distrust, trust
from pegboard.testing import ScriptedModel
from pegboard_files.checks import MOST_FINDINGS, MOST_TEXT, Checks
from pegboard_files.edit_tools import EditTools
from pegboard_files.root import Deadline
from pegboard_files.tools import Settings
from pegboard_files.turns import TurnStore

ALLOWED = Permissions([Rule("edit", "*", "allow")])
SAYS_ITS_PATH = ["printf", "%s\\n", "{path}"]


def script(*lines: str) -> list[str]:
    """A command that runs lines of a shell, in which `$1` is the file."""
    return ["sh", "-c", "\n".join(lines), "sh", "{path}"]


FORMATS = script('sed "s/  */ /g" "$1" > "$1.new" && mv "$1.new" "$1"')


@pytest.fixture
def caller(top):
    """Calls a tool with checks by pattern, in one session unless another is named; every edit is allowed."""

    def with_checks(checks, **settings):
        registry = ToolRegistry(permissions=ALLOWED)
        pegboard_files.pegboard_register_tools(registry.register, {"root": str(top), "checks": checks, **settings})

        def call(name, session="1", **arguments):
            return registry.call_sync(name, arguments, ReadonlyContext(session=session))

        return call

    return with_checks


def test_findings_are_a_part_of_the_result(top, caller):
    call = caller({"*.py": script('echo "$1:1: unused import"; echo "  and more" >&2; exit 1')})
    result = call("write_file", path="src/a.py", content="import os\n")
    command = result.metadata["checks"][0]["command"]
    assert not result.is_error
    assert result.text.splitlines() == [
        "Created 'src/a.py': 1 line.",
        f"[Check: {command}: exit code 1]",
        "src/a.py:1: unused import",
        "  and more",
    ]
    assert result.metadata["checks"] == [
        {"path": "src/a.py", "command": command, "exit_code": 1, "problem": None},
    ]
    assert (top / "src/a.py").read_text() == "import os\n"


def test_a_file_is_checked_by_the_programs_whose_patterns_it_matches(caller):
    call = caller({"*.py": [["printf", "1 {path}"], ["printf", "2 {path}"]], "src/**": [["printf", "2 {path}"]]})
    assert [line for line in call("write_file", path="src/a.py", content="").text.splitlines() if line[0] != "["] == [
        "Created 'src/a.py': 0 lines.",
        "1 src/a.py",
        "2 src/a.py",
    ]
    assert [run["command"] for run in call("write_file", path="src/a", content="").metadata["checks"]] == [
        "printf '2 src/a'"
    ]
    result = call("write_file", path="a.txt", content="")
    assert result.text == "Created 'a.txt': 0 lines."
    assert "checks" not in result.metadata


def test_each_file_of_a_patch_is_checked_once_unless_it_is_removed(write, caller):
    write({"b.py": "b\n", "c.py": "c\n"})
    call = caller({"*.py": SAYS_ITS_PATH})
    patch = """*** Begin Patch
*** Add File: a.py
+a
*** Update File: b.py
@@
-b
+B
*** Delete File: c.py
*** End Patch
"""
    result = call("apply_patch", input=patch)
    assert sorted(run["path"] for run in result.metadata["checks"]) == ["a.py", "b.py"]


@pytest.mark.parametrize("name", ["-rf.py", "@args.py", "+x.py"])
def test_a_path_is_never_an_option(caller, name):
    result = caller({"*.py": SAYS_ITS_PATH})("write_file", path=name, content="")
    assert result.text.splitlines()[-1] == f"./{name}"


def test_what_a_check_changes_is_shown_and_counts_as_read(top, write, caller):
    write({"a.py": "x  =  1\n"})
    call = caller({"*.py": FORMATS})
    call("read_file", path="a.py")
    result = call("edit_file", path="a.py", old_string="1", new_string="2")
    assert result.text.endswith("[The checks changed 'a.py':]\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x  =  2\n+x = 2")
    assert (top / "a.py").read_text() == "x = 2\n"
    assert call("write_file", path="a.py", content="x = 3\n").text.startswith("Wrote 'a.py'")
    refused = call("write_file", session="2", path="a.py", content="x = 4\n")
    assert refused.text.startswith("'a.py' already exists")


def test_what_checks_change_belongs_to_the_diff_and_the_undo_of_the_turn(top, write):
    write({"a.py": "x  =  1\n"})
    registry = ToolRegistry(permissions=ALLOWED)
    settings = {"root": str(top), "checks": {"*.py": FORMATS}}
    pegboard_files.pegboard_register_tools(registry.register, settings)
    registry.add_callback("report_turn", pegboard_files.pegboard_report_turn)
    ann = ReadonlyContext(user="ann", session="s")
    calls = [
        [ToolCall("edit_file", {"path": "a.py", "old_string": "1", "new_string": "2"})],
        [ToolCall("edit_file", {"path": "a.py", "old_string": "x = 2", "new_string": "y  =  2"})],
        [ToolCall("write_file", {"path": "b.py", "content": "z  =  3\n"})],
    ]
    outcome = asyncio.run(run_turn(ScriptedModel([*calls, "Done."]), "Go", registry, ann))
    assert outcome.reports["host"]["diff"] == (
        "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x  =  1\n+y = 2\n--- /dev/null\n+++ b/b.py\n@@ -0,0 +1 @@\n+z = 3\n"
    )
    store = TurnStore()
    undone = store.undo(store.turns(ann)[0], Deadline(10))
    assert (sorted(undone.restored), undone.refused) == (["a.py", "b.py"], {})
    assert (top / "a.py").read_text() == "x  =  1\n"
    assert not (top / "b.py").exists()


def test_what_a_check_rewrites_without_a_change_counts_as_read(write, caller):
    call = caller({"*.py": FORMATS})
    for content in ("x = 1\n", "x = 2\n"):
        result = call("write_file", path="a.py", content=content)
        assert not result.is_error
        assert "changed" not in result.text


def test_a_change_whose_diff_is_too_long_does_not_count_as_read(top, caller):
    call = caller({"*.py": script('tr a b < "$1" > "$1.new" && mv "$1.new" "$1"')})
    result = call("write_file", path="a.py", content="a\n" * MOST_TEXT)
    assert result.text.endswith("[The checks changed 'a.py'; the diff can't be shown: read the file again.]")
    refused = call("edit_file", path="a.py", old_string="b", new_string="c", replace_all=True)
    assert refused.text.startswith("'a.py' was changed since it was read.")
    assert (top / "a.py").read_text() == "b\n" * MOST_TEXT


def test_a_check_may_make_a_file_binary(caller):
    result = caller({"*.py": script(r'printf "\0" > "$1"')})("write_file", path="a.py", content="a\n")
    assert result.text.endswith("the diff can't be shown: read the file again.]")


def test_a_check_may_remove_the_file_or_replace_it_by_another_kind(top, caller):
    call = caller({"a": script('rm "$1"'), "b": script('rm "$1"; mkdir "$1"')})
    assert call("write_file", path="a", content="").text.endswith("[A check removed 'a'.]")
    assert call("write_file", path="a", content="").text.startswith("Created 'a'")
    result = call("write_file", path="b", content="")
    assert not result.is_error
    assert result.text.splitlines()[-1].startswith("[After the checks: 'b'")


def test_hidden_characters_of_findings_are_visible_and_long_ones_are_cut(caller):
    hidden = caller({"*": script(r"printf 'a\033[2Jb\r\n'")})("write_file", path="a", content="")
    assert hidden.text.splitlines()[-1] == r"a\u{1b}[2Jb"
    cut = caller({"*": ["printf", "%9000s", "{path}"]})("write_file", path="b", content="")
    assert cut.text.splitlines()[-1] == "[cut: 4,000 more characters]"
    assert len(cut.text) < MOST_FINDINGS + 200


def test_all_findings_of_a_call_are_bounded(caller):
    call = caller({"*": [["printf", f"%{9000 + number}s", "{path}"] for number in range(8)]})
    result = call("write_file", path="a", content="")
    assert len(result.metadata["checks"]) == 8
    assert len(result.text) < MOST_TEXT + 2_000
    assert result.text.endswith("[cut: 9,007 more characters]")


@pytest.mark.slow
def test_a_check_that_hangs_or_floods_is_ended_and_the_change_stays(top, caller):
    call = caller({"a": [["tail", "-f", "{path}"], SAYS_ITS_PATH], "b": ["yes", "{path}"]}, check_time=0.5)
    result = call("write_file", path="a", content="a\n")
    assert not result.is_error
    assert result.text.splitlines()[1:] == [
        "[Check: tail -f a: was ended, as it took more than 0.5 s]",
        "a",
        "[Checks that weren't run, as no time was left: 1.]",
    ]
    assert (top / "a").read_text() == "a\n"
    flood = caller({"b": ["yes", "{path}"]})("write_file", path="b", content="")
    assert "[Check: yes b: was ended, as it wrote more than 1,000,000 bytes]" in flood.text


def test_checks_leave_time_to_their_call(top):
    """A call that has hardly any time left returns before its limit, without checks."""
    tools = EditTools(Settings(root=str(top), checks={"*": SAYS_ITS_PATH}))
    call = ToolContext()
    call.deadline = time.monotonic() + 2.5
    result = tools.write_file("a", "", call=call)
    assert result.text.splitlines() == ["Created 'a': 0 lines.", "[Checks that weren't run, as no time was left: 1.]"]


@pytest.mark.slow
def test_a_cancelled_call_ends_its_checks(top):
    tools = EditTools(Settings(root=str(top), checks={"*": script("echo > started; sleep 1000")}))
    call = ToolContext()
    thread = threading.Thread(target=tools.write_file, args=("a", ""), kwargs={"call": call})
    thread.start()
    while not (top / "started").exists():
        assert thread.is_alive()
        thread.join(0.01)
    call.cancelled = True
    thread.join(10)
    assert not thread.is_alive()


def test_a_program_that_is_missing_or_does_not_start_is_named(top, caller):
    (top.parent / "broken").write_bytes(b"\x7fELF")
    (top.parent / "broken").chmod(0o755)
    result = caller({"*": [["no-such-program", "{path}"], [str(top.parent / "broken"), "{path}"]]})(
        "write_file", path="a", content=""
    )
    assert not result.is_error
    assert "[Check: no-such-program a: can't be run: there is no program 'no-such-program'" in result.text
    assert result.metadata["checks"][1]["problem"].startswith("can't be run: ")
    assert (top / "a").exists()


def test_a_check_for_which_there_is_no_thread_does_not_fail_the_change(top, caller, monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name.startswith("pegboard-program"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    result = caller({"a": SAYS_ITS_PATH})("write_file", path="a", content="a\n")
    assert result.metadata["checks"][0]["problem"] == "can't be run: can't start new thread"
    assert (top / "a").read_text() == "a\n"


def test_a_file_of_the_project_is_run_or_read_only_if_it_is_trusted(top, caller, caplog):
    """How to trust it is in the log: the model doesn't learn it."""
    (top / "pegboard.toml").write_text("")
    (top / "check.sh").write_text('echo "checked $1"\n')
    (top / "strict.conf").write_text('echo "configured $1"\n')
    for words in (["sh", str(top / "check.sh"), "{path}"], ["printf", "%s", "strict.conf", "{path}"]):
        call = caller({"a": words})
        refused = call("write_file", path="a", content="")
        assert not refused.is_error
        assert "can't be run: the user hasn't allowed it, or a file that it names]" in refused.text
        file = next(file for file in (top / "check.sh", top / "strict.conf") if file.name in shlex.join(words))
        assert "config trust" not in f"{refused.text} {refused.metadata}"
        assert f"review it, then run: registry config trust {file}" in caplog.text
        trust(file)
        assert "exit code 0" in call("write_file", path="a", content="").text
        file.write_text("echo other\n")
        assert "hasn't allowed it" in call("write_file", path="a", content="").text
        (top / "a").unlink()


@pytest.mark.parametrize(
    "command",
    [
        *("{path}", "sh {path}", "env sh {path}", "env -i A=b sh {path}", "timeout 5 sh {path}", "busybox sh {path}"),
        *("sh -c 'cat {path}'", "bash -c {path}", "xargs sh {path}", "bash --rcfile /x {path} -i", "sh -s {path}"),
        *("python3 {path}", "python -u {path}", "python -W ignore {path}", "python -m runpy {path}"),
        *("python -Impdb {path}", "python -m {path}", "node --x {path}", "node -r x {path}", "node --import /x {path}"),
        *("deno run {path}", "deno test {path}", "bun run {path}", "bun {path}", "perl -w {path}", "make -f {path}"),
        *("uv run python {path}", "find . -exec sh {path} ;", "awk -f {path}", "pwsh -File {path}", "php -f {path}"),
    ],
)
def test_an_interpreter_that_would_run_the_changed_file_is_refused(command):
    with pytest.raises(ValueError, match=r"plugins\.files\.checks\.'\*': "):
        Checks.of({"*": shlex.split(command)}, 1.0)


@pytest.mark.parametrize(
    "command",
    [
        *("ruff check {path}", "shellcheck -s bash {path}", "env A=b ruff check {path}", "timeout 5 ruff check {path}"),
        *("bash -n {path}", "node --check {path}", "php -l {path}", "deno lint {path}", "sh /x/lint.sh {path}"),
        *(
            "python -m ruff check {path}",
            "python -Im mypy {path}",
            "python -c 'import sys' {path}",
            "perl -ne 1 {path}",
        ),
        *("sed -n 3p {path}", "awk -f /x/a.awk {path}", "sed -f/x/a.sed {path}"),
    ],
)
def test_an_interpreter_may_run_what_the_command_names(command):
    assert len(Checks.of({"*": shlex.split(command)}, 1.0).checks) == 1


@pytest.mark.parametrize("place", ["bin", "link"])
def test_a_program_on_path_in_the_project_runs_only_if_it_is_trusted(top, write, caller, monkeypatch, place):
    """Also one that a link in another folder leads to."""
    write({"pegboard.toml": "", "bin/lint": "#!/bin/sh\necho linted\n"})
    (top / "bin/lint").chmod(0o755)
    (top.parent / "link").mkdir()
    (top.parent / "link/lint").symlink_to(top / "bin/lint")
    folder = top / "bin" if place == "bin" else top.parent / "link"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for words in (["lint", "{path}"], ["env", "lint", "{path}"]):
        call = caller({"a": words})
        assert "the user hasn't allowed it" in call("write_file", path="a", content="").text
        trust(folder / "lint")
        assert call("write_file", path="a", content="").text.endswith("exit code 0]\nlinted")
        (top / "a").unlink()
        distrust(folder / "lint")


def test_a_name_never_becomes_an_option_that_runs_a_program(caller):
    result = caller({"*": ["tar", "--{path}"]})("write_file", path="to-command=reboot", content="")
    assert not result.is_error
    assert "this value would run another program" in result.metadata["checks"][0]["problem"]


@pytest.mark.parametrize(
    ("checks", "error"),
    [
        ({"*": "ruff {path}"}, "has to be a program with its arguments"),
        ({"*": []}, "has to be a program with its arguments"),
        ({"*": ["ruff"]}, "command has no {path}"),
        ({"*": ["ruff", "{file}"]}, "there is no argument 'file'"),
        ({"*": [["ruff", "{path}"], [["ruff", "{path}"]]]}, "a word of a command has to be a text"),
        ({"*": ["./check", "{path}"]}, "relative path"),
        ({"*": ["ruff", 1, "{path}"]}, "has to be a text, not int"),
        ({"../*": SAYS_ITS_PATH}, "must not contain"),
    ],
)
def test_a_wrong_check_is_an_error_of_the_settings_and_no_tool_is_registered(top, checks, error):
    registered = []
    with pytest.raises(ValueError, match=r"plugins\.files\.checks\.'") as raised:
        pegboard_files.pegboard_register_tools(registered.append, {"root": str(top), "checks": checks})
    assert error in str(raised.value)
    assert registered == []


def test_without_the_package_that_runs_programs_the_settings_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pegboard_commands", None)
    with pytest.raises(ValueError, match=r"pip install 'pegboard-files\[checks\]'"):
        Checks.of({"*": SAYS_ITS_PATH}, 1.0)
    assert Checks.of({}, 1.0) == Checks()


def test_programs_run_in_the_root_with_few_variables(top, caller, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    result = caller({"*": script('pwd -P; echo "[$SECRET]"')})("write_file", path="b/a", content="")
    assert result.text.splitlines()[-2:] == [str(Path(top).resolve()), "[]"]
