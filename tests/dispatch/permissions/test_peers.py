"""The reader beside real shells: whatever they run, it has found; and nothing runs under an allow rule that isn't."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.permissions.permissions import PermissionRules, Resource
from pegboard.dispatch.permissions.rule import Rule

SHELLS = sorted({os.path.realpath(shell) for name in ("bash", "dash", "sh") if (shell := shutil.which(name))})
RECORDER = """#!/bin/sh
said=${0##*/}
for word in "$@"; do said="$said|$word"; done
printf '%s%%' "$said" >>"$RECORD"
"""
PARTS = [
    *("c0 ", "c1 ", "c2 ", "c0 a", "c1 b", "'c2'", "c\\2", '"c"2', "$x", "${x:-c2}", "$(c2)", "`c2`"),
    *('"$(c2 a)"', "c?"),
    *("$(c0", ")", "(", "((", "))", "{ ", "; }", "{c2,a}", "\n", ";", "&", "&&", "|", " ", " ", "\\", "\\\n"),
    *("'", '"'),
    *("`", ">f", "2>&1", "&>f ", "<<E\n", "\nE\n", "<<'E'\n", "<<<", "#", "# c2\n", "$'", "!", "~", "[", "]"),
    *("=", "x=c2 "),
    *("x=(c0 a)", "if ", "; then ", "; fi", "while ", "; do ", "; done", "for x in a b", "case x in x)", ";;"),
    *("esac",),
    *("f()", "function f", "eval ", "[[ ", " ]]", "sh -c ", "env ", "command "),
]
LINES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join)
ALLOWED = PermissionRules([Rule("shell", pattern, "allow") for pattern in ("c0 *", "c1 *", "x=*")])


@pytest.fixture(scope="module")
def recorders(tmp_path_factory):
    """A folder of programs that record how they are called."""
    folder = tmp_path_factory.mktemp("recorders")
    for name in ("c0", "c1", "c2"):
        (folder / name).write_text(RECORDER)
        (folder / name).chmod(0o755)
    for name in ("sh", "env"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def calls_of(shell, line, recorders):
    """What a shell runs of a line: the words of each call."""
    record, work = recorders / "record", recorders / "work"
    record.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    process = subprocess.Popen(
        [shell, "-c", line],
        cwd=work,
        env={"PATH": str(recorders), "RECORD": str(record)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
    process.wait()
    said = record.read_text() if record.exists() else ""
    return [call.split("|") for call in said.split("%")[:-1]]


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(line=st.sampled_from(["c0 ", "c1 ", ""]).flatmap(lambda start: LINES.map(start.__add__)))
def test_what_a_shell_runs_has_been_found(shell, line, recorders):
    """Each command that ran is denied by a rule that names exactly it; and if the line was allowed, each was."""
    subject = Resource("command", line)
    allowed = ALLOWED.decide("shell", [subject]).action == "allow"
    for words in calls_of(shell, line, recorders):
        named = PermissionRules([Rule("shell", " ".join(words), "deny")])
        assert named.decide("shell", [subject]).action == "deny", words
        assert not allowed or words[0] in ("c0", "c1"), words
