"""What a check says at its end."""

from __future__ import annotations

import pytest

from pegboard.testing.argument_checks import Findings, Report


def test_a_report_reads_as_a_line_of_figures_and_what_is_worth_saying() -> None:
    report = Report("demo", ("a",), 12, 1, ("no description for 'x'",), ("not run",))
    assert str(report).splitlines() == [
        "plugin 'demo' keeps the contract: 1 tool, 12 sets of arguments tried, 1 example run",
        "warning: no description for 'x'",
        "note: not run",
    ]


def test_findings_are_told_once_each_and_numbered() -> None:
    findings = Findings("demo")
    for text in ("one", "two\nlines", "one"):
        findings.error(text)
    with pytest.raises(AssertionError) as caught:
        findings.report()
    assert str(caught.value) == "plugin 'demo' breaks the contract (2 found):\n  1. one\n  2. two\n     lines"
