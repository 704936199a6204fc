"""Tools as `llm tools list --json` lists them."""

from __future__ import annotations

import pytest

from pegboard import Tool, ToolSpec
from pegboard.errors import ExportError
from pegboard.request.exporters.llm_listing import LLMListing
from pegboard.request.model_request import ModelRequest
from pegboard.tools.origin import Origin

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}}
SPEC = ToolSpec("read", "Reads.", SCHEMA)


def test_a_tool():
    assert LLMListing().tools([SPEC]).entries == (
        {"name": "read", "description": "Reads.", "arguments": SCHEMA, "plugin": None},
    )


def test_the_plugins_of_tools_are_named_where_the_tools_are_known():
    tools = [Tool(SPEC, origin=Origin("files", "pegboard-files", "1")), Tool(ToolSpec("own"))]

    exported = LLMListing().knowing(tools).tools([tool.spec for tool in tools])

    assert [entry["plugin"] for entry in exported.entries] == ["files", None]


def test_a_tool_that_a_provider_hosts_is_refused():
    spec = ToolSpec("s", kind="provider", provider_id="openai.web_search")

    assert LLMListing().tools([spec]).refused == {"s"}
    assert LLMListing().check(spec)[0].refused


def test_a_schema_beyond_every_bound_is_refused():
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}

    assert LLMListing().tools([SPEC.evolve(input_schema=deep)]).refused == {"read"}


def test_no_model_is_asked_in_it():
    with pytest.raises(ExportError, match="llm: it lists tools"):
        LLMListing().request(ModelRequest("x"))
