"""`Handle`: what a registration gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from typing import Self


class Handle:
    """What a registration gives back: `dispose()`, or leaving its `with`, takes back exactly what it brought.

    Attributes:
        tools: The tools that hang on the board by it, under their final names.
    """

    def __init__(self, take_back: Callable[[], None], tools: Sequence[Tool] = ()) -> None:
        self.tools = tuple(tools)
        self._take_back: Callable[[], None] | None = take_back

    def dispose(self) -> None:
        """Takes it back; a second time does nothing."""
        take_back, self._take_back = self._take_back, None
        if take_back is not None:
            take_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()
