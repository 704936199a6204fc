"""`ProcessorProblem`: what went wrong while a request was made ready; everything else worked."""

from __future__ import annotations

from attrs import field, frozen

from pegboard.tools.origin import HOST, Origin


@frozen
class ProcessorProblem:
    """Something that went wrong while a request was made ready. For the operator; never sent.

    Attributes:
        processor: The name of the processor in which it happened.
        cause: What happened, in one line.
        origin: Whose doing it was.
        tool: The name of the tool, where it is about one; else `None`.
        error: What was raised, or `None`.
    """

    processor: str
    cause: str
    origin: Origin = HOST
    tool: str | None = None
    error: BaseException | None = field(default=None, eq=False, repr=False)

    @property
    def who(self) -> str:
        """What failed, and who brought it, for logs."""
        what = f"request processor {self.processor!r}"
        return f"{what}, tool {self.tool!r} of {self.origin}" if self.tool else f"{what} of {self.origin}"

    def __str__(self) -> str:
        return f"{self.who}: {self.cause}"


__all__ = ["ProcessorProblem"]
