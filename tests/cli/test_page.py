"""Long texts go through a pager where somebody looks."""

from __future__ import annotations

import click
import pytest

from pegboard.cli.page import write_long
from pegboard.cli.screen import PLAIN, Screen


@pytest.fixture
def paged(monkeypatch):
    """What went through the pager, with colour or without."""
    texts: list[tuple[str, bool]] = []
    monkeypatch.setattr(click, "echo_via_pager", lambda text, color: texts.append((text, color)))
    return texts


@pytest.mark.parametrize(("screen", "lines"), [(PLAIN, 99), (Screen(80, 10), 9)])
def test_what_fits_is_written(paged, capsys, screen, lines):
    write_long("x\n" * lines, screen)
    assert (paged, capsys.readouterr().out) == ([], "x\n" * lines)


def test_what_is_longer_than_the_terminal_is_paged(paged, capsys):
    write_long("x\n" * 10, Screen(80, 10, colour=True))
    assert (paged, capsys.readouterr().out) == ([("x\n" * 9 + "x", True)], "")
