"""What a step is: it takes a schema and gives the next, with what that cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from pegboard.typing import JsonSchema


@frozen
class Change:
    """One thing that the rewritten schema no longer says as the schema did.

    What is only said otherwise (`const` as `enum`, a reference replaced by what it means, an optional property as a
    required one that may be null) is no change: nothing is lost by it.

    Attributes:
        path: Where, as a JSON pointer within the schema: `""` is the root, `"/properties/count"` a property. Where
            earlier steps have moved something, it is the place that it was moved to.
        keyword: The keyword at fault (`"minimum"`, `"$ref"`).
        what: What became of it, for people (`"moved into the description"`).
        refused: Whether the provider takes no schema that says this: not at all, or not strictly.
    """

    path: str
    keyword: str
    what: str
    refused: bool = False


@frozen
class Rewritten:
    """A schema in the words of a dialect, and what that cost.

    Attributes:
        schema: The schema; what `Dialect.rewrite` gives shares nothing with any other and may be changed. Where
            `refused` is true it is only as near as could be, and not to be sent.
        changes: What was lost or refused, in the order of the steps; empty where nothing was.
    """

    schema: JsonSchema
    changes: tuple[Change, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the dialect can't say the schema at all."""
        return any(change.refused for change in self.changes)


Step: TypeAlias = Callable[[JsonSchema], Rewritten]
"""One behaviour: takes a schema, which it never changes, and gives the next. A dialect's `rewrite` is a step too."""


__all__ = ["Change", "Rewritten", "Step"]
