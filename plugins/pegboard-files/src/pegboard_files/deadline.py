"""`Deadline`: when a call has to stop."""

from __future__ import annotations

import time

from attrs import Factory, field, frozen

from pegboard import ToolError


@frozen
class Deadline:
    """A moment after which work stops and says what it has.

    Attributes:
        seconds: The limit, from the making of this object.
    """

    seconds: float
    _end: float = field(init=False, default=Factory(lambda self: time.monotonic() + self.seconds, takes_self=True))

    @property
    def passed(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() >= self._end

    def check(self, doing: str) -> None:
        """Goes on in time.

        Raises:
            ToolError: The time is over.
        """
        if self.passed:
            raise ToolError(f"{doing} took longer than {self.seconds:g} seconds.")
