"""`python -m pegboard`: the warm command first, then the full CLI."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from pegboard import __main__
from pegboard.cli import warm


@pytest.fixture
def runs(monkeypatch) -> list[list[str]]:
    """The arguments of each run of the full CLI, which exits with 7."""
    runs: list[list[str]] = []

    def full(argv: list[str]) -> int:
        runs.append(argv)
        return 7

    module = ModuleType("pegboard.cli.main")
    module.main = full  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pegboard.cli.main", module)
    return runs


def test_the_full_cli_runs_only_what_the_warm_command_declines(monkeypatch, runs):
    monkeypatch.setattr(warm, "answer", lambda _argv: 0)
    assert __main__.main(["list"]) == 0
    assert runs == []
    monkeypatch.setattr(warm, "answer", lambda _argv: None)
    assert __main__.main(["call", "x"]) == 7
    monkeypatch.setattr(sys, "argv", ["registry", "doctor"])
    __main__.main()
    assert runs == [["call", "x"], ["doctor"]]


@pytest.mark.parametrize("has_stderr", [True, False])
def test_closed_standard_output_is_one_line(monkeypatch, capsys, runs, has_stderr):
    monkeypatch.setattr(sys, "stdout", None)
    if not has_stderr:
        monkeypatch.setattr(sys, "stderr", None)
    assert __main__.main(["list"]) == 1
    assert runs == []
    if has_stderr:
        assert capsys.readouterr().err.startswith("error: standard output is closed")


def test_ctrl_c_ends_it(monkeypatch):
    def interrupt(_argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(warm, "answer", interrupt)
    assert __main__.main(["list"]) == 130


def test_both_scripts_run_the_command():
    """`uvx pegboard` runs the script that is named like the distribution."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == dict.fromkeys(("registry", "pegboard"), "pegboard.__main__:run")
