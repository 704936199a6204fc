"""`Report`: what `check_plugin` has looked at, and what it found worth saying."""

from __future__ import annotations

from attrs import frozen

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
