"""`ApprovalToolset`: calls that a person confirms."""

from __future__ import annotations

from pegboard.tools.tool import Tool
from pegboard.toolsets.custom import PredicateFunction
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import ChangedToolset, Step


class ApprovalToolset(ChangedToolset):
    """A person confirms every call of these tools; a tool's own pick of its calls no longer counts.

    Args:
        inner: Any toolset.
        predicate: Picks the tools; `None` picks all. Where it raises, the tool is out.
    """

    def __init__(self, inner: Toolset, predicate: Predicate | PredicateFunction | str | None = None) -> None:
        where = None if predicate is None else as_predicate(predicate)
        super().__init__(inner, Step("made to require approval", _confirmed, where))


def _confirmed(tool: Tool) -> Tool:
    return tool.with_spec(requires_confirmation=True).evolve(confirms=None)
