"""`OwnedToolset`: tools that say who brought them, and by which toolset."""

from __future__ import annotations

import attrs

from pegboard.tools.context import ReadonlyContext
from pegboard.tools.origin import HOST, Origin
from pegboard.tools.tool import Tool
from pegboard.toolsets.offer import Offer
from pegboard.toolsets.sound import check_sound
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import ChangedToolset, Step


class OwnedToolset(ChangedToolset):
    """A toolset as it hangs on the board: its tools carry its name and its owner, whatever they say of themselves.

    Only the host's toolsets may pass on tools in a plugin's name. No owner makes tools trusted that aren't.

    Args:
        inner: Any toolset.
        origin: Who brought it.
    """

    def __init__(self, inner: Toolset, origin: Origin = HOST) -> None:
        super().__init__(inner, Step("taken over", self._owned))
        self.origin = origin

    async def tools(self, context: ReadonlyContext) -> Offer:
        """The inner toolset's tools; problems are the owner's."""
        return (await super().tools(context)).owned_by(self.origin)

    def _owned(self, tool: Tool) -> Tool:
        check_sound(tool)  # a toolset of another's making may give an `Offer`, which nobody has looked at
        own, owner = tool.origin, self.origin
        base = own if owner.plugin is None else owner
        origin = attrs.evolve(base, toolset=self.name, trusted=own.trusted and owner.trusted)
        return tool if origin == own else tool.evolve(origin=origin)
