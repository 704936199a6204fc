"""`python -m pegboard`: the warm front first, then the whole command."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pegboard import __main__
from pegboard.cli import warm


@pytest.fixture
def asked(monkeypatch) -> list[list[str]]:
    """What the whole command was asked; it answers 7."""
    asked: list[list[str]] = []

    def whole(argv: list[str]) -> int:
        asked.append(argv)
        return 7

    module = ModuleType("pegboard.cli.main")
    module.main = whole  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pegboard.cli.main", module)
    return asked


def test_what_is_answered_warm_needs_no_more(monkeypatch, asked):
    monkeypatch.setattr(warm, "answer", lambda _argv: 0)
    assert __main__.main(["list"]) == 0
    assert asked == []


def test_what_is_declined_is_handed_on(monkeypatch, asked):
    monkeypatch.setattr(warm, "answer", lambda _argv: None)
    assert __main__.main(["call", "x"]) == 7
    assert asked == [["call", "x"]]


def test_the_processes_arguments_are_the_default(monkeypatch, asked):
    monkeypatch.setattr(warm, "answer", lambda _argv: None)
    monkeypatch.setattr(sys, "argv", ["registry", "doctor"])
    __main__.main()
    assert asked == [["doctor"]]


@pytest.mark.parametrize("told", [True, False])
def test_closed_standard_output_is_one_line(monkeypatch, capsys, asked, told):
    monkeypatch.setattr(sys, "stdout", None)
    if not told:
        monkeypatch.setattr(sys, "stderr", None)
    assert __main__.main(["list"]) == 1
    assert asked == []
    if told:
        assert capsys.readouterr().err.startswith("error: standard output is closed")


def test_ctrl_c_ends_it(monkeypatch):
    def interrupt(_argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(warm, "answer", interrupt)
    assert __main__.main(["list"]) == 130
