"""Tools as an MCP server lists them."""

from __future__ import annotations

import pytest

from pegboard import Grammar, ModelRequest, ToolAnnotations, ToolSpec
from pegboard.errors import ExportError
from pegboard_clients.listing import MCP

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]}


def listed(spec):
    (entry,) = MCP().tools([spec]).entries
    return entry


def test_all_fields_are_listed():
    spec = ToolSpec(
        "edit",
        "Edits.",
        SCHEMA,
        {"type": "object"},
        "Edit a file",
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, edit_hint=True),
        meta={"example.com/cost": 9},
        provider_options={"mcp": {"icons": [{"src": "https://example.com/a.png"}]}},
    )

    assert listed(spec) == {
        "name": "edit",
        "title": "Edit a file",
        "description": "Edits.",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": False, "destructiveHint": True},
        "_meta": {"example.com/cost": 9, "pegboard/editHint": True},
        "icons": [{"src": "https://example.com/a.png"}],
    }


def test_missing_fields_are_left_out():
    assert listed(ToolSpec("ping")) == {
        "name": "ping",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def test_the_root_is_an_objects():
    assert listed(ToolSpec("any", input_schema={}))["inputSchema"] == {"type": "object"}


def test_a_grammar_and_examples_stand_in_the_description():
    entry = listed(
        ToolSpec("free", kind="freeform", grammar=Grammar("regex", "[a-z]+"), examples=[{"input": "example"}])
    )

    assert "[a-z]+" in entry["description"]
    assert "example" in entry["description"]
    assert entry["inputSchema"]["required"] == ["input"]


def test_an_output_schema_that_is_no_objects_is_left_out():
    spec = ToolSpec("list", output_schema={"type": "array"})

    (loss,) = MCP().check(spec)

    assert "outputSchema" not in listed(spec)
    assert (loss.path, loss.refused) == ("/outputSchema", False)


def test_losses_of_an_output_schema_are_reported():
    spec = ToolSpec("list", output_schema={"type": "object", "properties": {"a": {"$ref": "https://x.test/a"}}})

    (loss,) = MCP().check(spec)

    assert (loss.path, loss.keyword) == ("/outputSchema/properties/a", "$ref")


def test_a_tool_that_a_provider_hosts_is_refused():
    assert MCP().tools([ToolSpec("s", kind="provider", provider_id="openai.web_search")]).refused == {"s"}


def test_it_writes_no_requests():
    for ask in (
        lambda: MCP().request(ModelRequest("x")),
        lambda: MCP().response({}),
        lambda: MCP().reader(),
    ):
        with pytest.raises(ExportError, match="mcp: it only lists tools"):
            ask()
