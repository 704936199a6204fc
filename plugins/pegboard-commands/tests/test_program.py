"""Programs get only named variables, and run as they were trusted."""

from __future__ import annotations

import os

import pytest

from pegboard.config import trust
from pegboard_commands.program import ProgramSettings, check_program, program_path


def test_a_program_is_never_found_in_the_working_folder(tmp_path, monkeypatch):
    program = tmp_path / "evil"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":.:{os.defpath}")
    with pytest.raises(FileNotFoundError):
        program_path("evil")
    for path in ("./evil", "bin/evil"):
        with pytest.raises(ValueError, match="relative"):
            check_program([path], None)


def test_a_program_gets_only_named_variables(monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("GIVEN", "g")
    settings = ProgramSettings(inherit=("GIVEN", "MISSING"), env={"OWN": "o"})
    found = settings.environment(["true"], MORE="m")
    assert {"GIVEN": "g", "OWN": "o", "MORE": "m"}.items() <= found.items()
    assert not {"SECRET", "MISSING"} & found.keys()


def test_cwd_has_to_be_absolute(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ProgramSettings(cwd="~/x").folder("/call") == f"{tmp_path}/x"
    assert ProgramSettings().folder("/call") == "/call"
    with pytest.raises(ValueError, match="cwd"):
        ProgramSettings(cwd="x")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script in a git checkout, and a home folder without trusted files."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "project" / ".git").mkdir(parents=True)
    path = tmp_path / "project" / "check"
    path.write_text("#!/bin/sh\necho fine\n")
    path.chmod(0o755)
    return path


def test_a_script_of_a_project_runs_only_as_trusted(script):
    commands = [str(script)], ["sh", str(script), "x"], ["python3", "-u", str(script)]
    for words in commands:
        with pytest.raises(PermissionError, match="belongs to a project, and isn't trusted"):
            ProgramSettings().check_runs(words)
    trust(script)
    for words in commands:
        ProgramSettings().check_runs(words)
    script.write_text("#!/bin/sh\necho evil\n")
    for words in (*commands, ["sh", script.name]):
        with pytest.raises(PermissionError, match="registry config trust"):
            ProgramSettings(cwd=str(script.parent)).check_runs(words)


def test_a_script_outside_of_a_project_needs_no_trust(script):
    (script.parent / ".git").rmdir()
    ProgramSettings().check_runs([str(script)])
    ProgramSettings().check_runs(["sh", "-c", "echo"])


@pytest.mark.parametrize("words", [["nosuch"], ["/nosuch/program"], ["sh", "/nosuch/script"]])
def test_a_missing_program_or_script_is_refused(words):
    with pytest.raises(FileNotFoundError, match="nosuch"):
        ProgramSettings().check_runs(words)
