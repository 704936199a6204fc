"""Tools and results as MCP's JSON."""

from __future__ import annotations

from typing import Any, Final

from pegboard import Tool, ToolResult
from pegboard.typing import JsonObject
from pegboard_clients.listing import mcp

ORIGIN: Final = "pegboard/origin"
TAGS: Final = "pegboard/tags"
DIGEST: Final = "pegboard/digest"
KIND: Final = "pegboard/kind"
"""Keys in `_meta`, where MCP requires a prefix on keys that aren't its own."""


def entry_of(tool: Tool) -> JsonObject | None:
    """A tool's entry in `tools/list`, or `None` if no server can offer it (a tool that a provider runs).

    `_meta` also has its origin, its tags and the digest of its spec. Icons come from the tool's
    `provider_options={"mcp": {"icons": [...]}}`.
    """
    entries = mcp().tools([tool.spec]).entries
    if not entries:
        return None
    origin = tool.origin
    facts = {"plugin": origin.plugin, "distribution": origin.distribution, "version": origin.version}
    brought = {name: fact for name, fact in {**facts, "toolset": origin.toolset}.items() if fact is not None}
    meta: JsonObject = {**entries[0].get("_meta", {}), DIGEST: tool.spec.digest}
    if brought:
        meta[ORIGIN] = brought
    if tool.spec.tags:
        meta[TAGS] = sorted(tool.spec.tags)
    return {**entries[0], "_meta": meta}


def result_json(result: ToolResult, *, any_structure: bool) -> JsonObject:
    """A result as the answer of `tools/call`; for an error, `_meta` has its kind.

    Args:
        result: The result of the call.
        any_structure: Whether `structuredContent` may be any JSON, as from 2026-07-28 on; before, it is an object.
    """
    data: dict[str, Any] = {"resultType": "complete", **result.to_json()}
    if not (any_structure or isinstance(result.structured_content, dict)):
        data.pop("structuredContent", None)
    if result.kind is not None:
        data["_meta"] = {KIND: result.kind}
    return data
