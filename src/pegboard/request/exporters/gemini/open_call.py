"""`OpenCall`: a call whose arguments come in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import define, field

from pegboard.request.exporters.calls.made_calls import CUT, made_call, unreadable
from pegboard.request.exporters.gemini.argument_pieces import ArgumentPieces
from pegboard.request.exporters.untrusted import objects_in
from pegboard.tools.call import ToolCall
from pegboard.typing import JsonMapping


@define(eq=False)
class OpenCall:
    """A call whose arguments are still to come.

    Attributes:
        name: The tool's name.
        id: The id that it gets here.
        metadata: What the provider wants to have back.
    """

    name: str
    id: str
    metadata: dict[str, Any]
    _pieces: ArgumentPieces = field(factory=ArgumentPieces)

    def feed(self, said: JsonMapping) -> None:
        """Takes in what has come."""
        args = said.get("args")
        if isinstance(args, Mapping):
            self._pieces.update(cast("JsonMapping", args))
        for piece in objects_in(said, "partialArgs"):
            self._pieces.feed(piece)

    def call(self) -> ToolCall:
        """The call with all that has come."""
        value, fault = self._pieces.value(), self._pieces.fault
        error = None if fault is None or not self.name else unreadable(fault)
        return made_call(self.name, value, self.id, self.metadata, error)

    def broken_off(self) -> ToolCall:
        """The call as far as it came: it can't run."""
        return made_call(self.name, self._pieces.value(), self.id, self.metadata, CUT)


__all__ = ["OpenCall"]
