"""`Notebook`: what the checks of one plugin write down while they go."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from pegboard.testing.report import Report


@define(eq=False)
class Notebook:
    """Collects what the checks find, so that the author reads all of it at once.

    Attributes:
        plugin: The plugin's name.
        findings: What breaks the contract, a sentence each: which thing, what is wrong, what to do.
        warnings: What a model or a person would miss.
        notes: What could not be checked.
        tools: The names of the checked tools.
        tried: How many sets of arguments were tried.
        ran: How many examples were run.
    """

    plugin: str
    findings: list[str] = field(factory=list[str])
    warnings: list[str] = field(factory=list[str])
    notes: list[str] = field(factory=list[str])
    tools: list[str] = field(factory=list[str])
    tried: int = 0
    ran: int = 0

    def finding(self, text: str) -> None:
        """Writes down what breaks the contract; the same only once."""
        if text not in self.findings:
            self.findings.append(text)

    def warn(self, text: str) -> None:
        """Writes down what a model or a person would miss."""
        self.warnings.append(text)

    def note(self, text: str) -> None:
        """Writes down what could not be checked."""
        self.notes.append(text)

    def report(self) -> Report:
        """The report.

        Raises:
            AssertionError: There are findings; the text lists all of them.
        """
        __tracebackhide__ = True  # pytest shows the author's line, not ours
        if self.findings:
            raise AssertionError(_listing(f"plugin {self.plugin!r} breaks the contract", self.findings))
        return Report(self.plugin, tuple(self.tools), self.tried, self.ran, tuple(self.warnings), tuple(self.notes))


def _listing(head: str, findings: Sequence[str]) -> str:
    """A numbered list; what takes several lines is indented below its number."""
    items = (f"  {number}. {text}".replace("\n", "\n     ") for number, text in enumerate(findings, 1))
    return "\n".join([f"{head} ({len(findings)} found):", *items])
