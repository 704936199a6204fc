"""What the checks of a plugin find: `Findings` while they go, `Report` in the end."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

from pegboard.schema.problems import counted


@frozen
class Report:
    """A plugin that keeps the contract.

    Attributes:
        plugin: Its name.
        tools: The names of the tools that were checked, in the order in which it registers them.
        tried: How many sets of arguments were put to the tools' checks.
        ran: How many declared examples were run; 0 with `run_examples=False`.
        warnings: What a model or a person would miss; nothing breaks.
        notes: What could not be checked, and why.
    """

    plugin: str
    tools: tuple[str, ...] = ()
    tried: int = 0
    ran: int = 0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line of figures, then a line for each warning and each note."""
        figures = (
            counted(len(self.tools), "tool"),
            f"{counted(self.tried, 'set')} of arguments tried",
            f"{counted(self.ran, 'example')} run",
        )
        head = f"plugin {self.plugin!r} keeps the contract: {', '.join(figures)}"
        lines = [*(f"warning: {text}" for text in self.warnings), *(f"note: {text}" for text in self.notes)]
        return "\n".join([head, *lines])


@define(eq=False)
class Findings:
    """Collects what the checks find, so that the author reads all of it at once.

    Attributes:
        plugin: The plugin's name.
        errors: What breaks the contract, a sentence each: which thing, what is wrong, what to do.
        warnings: What a model or a person would miss.
        notes: What could not be checked.
        tools: The names of the checked tools.
        tried: How many sets of arguments were tried.
        ran: How many examples were run.
    """

    plugin: str
    errors: list[str] = field(factory=list[str])
    warnings: list[str] = field(factory=list[str])
    notes: list[str] = field(factory=list[str])
    tools: list[str] = field(factory=list[str])
    tried: int = 0
    ran: int = 0

    def error(self, text: str) -> None:
        """Writes down what breaks the contract; the same only once."""
        if text not in self.errors:
            self.errors.append(text)

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
        if self.errors:
            raise AssertionError(_listing(f"plugin {self.plugin!r} breaks the contract", self.errors))
        return Report(self.plugin, tuple(self.tools), self.tried, self.ran, tuple(self.warnings), tuple(self.notes))


def _listing(head: str, findings: Sequence[str]) -> str:
    """A numbered list; what takes several lines is indented below its number."""
    items = (f"  {number}. {text}".replace("\n", "\n     ") for number, text in enumerate(findings, 1))
    return "\n".join([f"{head} ({len(findings)} found):", *items])
