"""`Loss`: what a provider can't be told of a tool."""

from __future__ import annotations

from attrs import frozen

from pegboard.typing import JsonObject


@frozen
class Loss:
    """One thing that an export drops, changes, or can't do at all.

    Attributes:
        tool: The tool's name.
        path: Where in the spec, as a JSON pointer from the spec's JSON (`"/inputSchema/properties/count"`).
        keyword: The keyword or fact at fault (`"minimum"`, `"$ref"`, `"name"`).
        what: What became of it, for people (`"moved into the description"`).
        refused: Whether the provider can't be given the tool at all.
    """

    tool: str
    path: str
    keyword: str
    what: str
    refused: bool = False

    def to_json(self) -> JsonObject:
        """`{"tool", "path", "keyword", "what"}`."""
        return {"tool": self.tool, "path": self.path, "keyword": self.keyword, "what": self.what}


__all__ = ["Loss"]
