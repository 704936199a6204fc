"""Each row of the behaviour page names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "behaviour.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| (?!behaviour )[^-]", line)]
TEST = re.compile(r"`([\w/.-]+\.py)::(\w+)`")


DEFINED = re.compile(r"^ *(?:async def|def|class) (test_\w+|Test\w+)|^(Test\w+) = ", re.MULTILINE)


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests of a file, read from its text without an import."""
    path = ROOT / file if file.startswith("plugins/pegboard-") else ROOT / "tests" / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return frozenset(name or made for name, made in DEFINED.findall(text))


def test_the_page_has_many_lines() -> None:
    """So that a change of its format doesn't pass unnoticed."""
    assert len(ROWS) > 100


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_names_existing_tests(row: str) -> None:
    """At least one, and nothing else in its last cell."""
    last = re.split(r"(?<!\\)\|", row)[2].strip()
    tests = TEST.findall(last)
    assert last == ", ".join(f"`{file}::{name}`" for file, name in tests) != ""
    assert not [f"{file}::{name}" for file, name in tests if name not in names_in(file)]
