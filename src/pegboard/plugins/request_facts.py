"""`RequestFacts`: what a tool has to do with requests, as a manifest says it beside the tool's spec."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from attrs import frozen

from pegboard.chains import by_name, may_block, settle
from pegboard.errors import ManifestError
from pegboard.plugins.untrusted import as_object
from pegboard.tools.handler import LateHandler
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject

MOST_CHARACTERS: Final = 100_001
"""Of instructions: one more than a request takes, so that what is too long is refused there, by name."""


@frozen
class RequestFacts:
    """What a tool has to do with requests, known before its plugin's code is imported.

    Attributes:
        offered: Whether models may be offered it.
        processes: Whether it processes requests.
        instructions: What the model is told of it, or `None`.
    """

    offered: bool = True
    processes: bool = False
    instructions: str | None = None

    @classmethod
    def of(cls, tool: Tool) -> RequestFacts:
        """What a live tool says."""
        said: object = tool.instructions
        text = said[:MOST_CHARACTERS] if isinstance(said, str) and said else None
        return cls(bool(tool.offered), tool.process_request is not None, text)

    def on(self, tool: Tool, late: LateHandler) -> Tool:
        """A listed tool that says the same; where it processes requests, its plugin is imported for the first."""
        process = partial(_processed, late) if self.processes else None
        return tool.evolve(offered=self.offered, instructions=self.instructions, process_request=process)

    def to_json(self) -> JsonObject:
        """`{"offered": false, "processes": true, "instructions": "..."}`, without what is the default."""
        said = {"offered": self.offered, "processes": self.processes, "instructions": self.instructions}
        return {name: value for name, value in said.items() if value != getattr(_DEFAULT, name)}

    @classmethod
    def from_json(cls, data: Any, place: str) -> RequestFacts:
        """Reads what `to_json` writes, from a source that isn't trusted.

        Raises:
            ManifestError: Something is unknown or of the wrong type, named by its place.
        """
        members = as_object(data, place)
        for name, value in members.items():
            if name not in _TYPES:
                raise ManifestError(f"{place}: {name!r} is unknown")
            if type(value) is not _TYPES[name] or (name == "instructions" and len(value) > MOST_CHARACTERS):
                raise ManifestError(f"{place}: {name}: expected a {_TYPES[name].__name__} that fits")
        return cls(**members)


_DEFAULT: Final = RequestFacts()
_TYPES: Final[dict[str, type]] = {"offered": bool, "processes": bool, "instructions": str}


async def _processed(late: LateHandler, request: Any, context: Any) -> Any:
    """What the live tool makes of a request; a plain one runs off the loop, as the import does."""
    from pegboard.threads import off_loop

    tool = await off_loop(late.load)
    if tool.process_request is None:
        return None  # its code says otherwise than its manifest, of which the listing tells
    function = by_name(tool.process_request, ("request", "context"))
    if may_block(function):
        return await settle(await off_loop(function, request, context))
    return await settle(function(request, context))


__all__ = ["RequestFacts"]
