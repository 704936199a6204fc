"""The file of accepted definitions."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ToolRegistry
from pegboard_mcp import mcp_toolset
from pegboard_mcp.definitions import Accepted, Definitions
from pegboard_mcp.differences import differences


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text("{"),
        lambda path: path.write_text('{"format": 0}'),
        lambda path: path.chmod(0o666),
        lambda path: path.symlink_to(path.rename(path.with_name("elsewhere.json"))),
    ],
)
def test_a_damaged_file_accepts_no_tool(tmp_path, damage):
    """It doesn't count as a first use, where all that the server lists now would be accepted."""
    path = tmp_path / "accepted.json"
    accepted = Accepted(str(path))
    assert accepted.read() is None
    accepted.write("notes", Definitions.of([{"name": "get", "inputSchema": {"type": "object"}}], 10))
    assert [*accepted.read().tools] == ["get"]
    damage(path)
    registry = ToolRegistry()
    registry.register(mcp_toolset("notes", command="/nowhere", accepted=str(path)))
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ()
    words = "accept it anew: run 'registry mcp accept notes'"
    assert [words in problem.cause for problem in resolved.problems] == [True]


async def offered(tmp_path, *listed, **settings):
    """The tools and problems of a server with these definitions, which isn't started."""
    file = Accepted(str(tmp_path / "accepted.json"))
    file.write("notes", Definitions.of(listed, 100))
    registry = ToolRegistry()
    registry.register(mcp_toolset("notes", command="/nowhere", accepted=file.path, **settings))
    return await registry.resolve()


A = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"properties": {"a": {"type": "string"}}, "type": None},
        {"required": ["a"]},
        {"type": ["object", "null"]},
        {"anyOf": [A, {"type": "object"}]},
        {"oneOf": [A, {"type": "null"}]},
        {"allOf": [A, {"required": ["a"]}]},
        {"$ref": "#/$defs/A", "$defs": {"A": A}},
    ],
)
async def test_a_schema_that_accepts_objects_counts_as_that_of_an_object(tmp_path, schema):
    tool = (await offered(tmp_path, {"name": "get", "inputSchema": schema, "outputSchema": schema})).get("notes__get")
    assert tool.spec.input_schema == {**(schema or {}), "type": "object"}
    assert tool.spec.output_schema == (tool.spec.input_schema if schema else None)


@pytest.mark.parametrize(
    "schema",
    [
        [],
        True,
        {"type": "array"},
        {"type": ["null"]},
        {"anyOf": [{"type": "string"}]},
        {"allOf": [A, {"type": "null"}]},
    ],
)
async def test_a_schema_that_accepts_no_object_costs_its_tool(tmp_path, schema):
    resolved = await offered(tmp_path, {"name": "get", "inputSchema": schema}, {"name": "put", "inputSchema": A})
    assert resolved.names == ("notes__put",)
    assert "tool 'get' is refused" in str(resolved.problems[0])


async def test_of_two_tools_with_one_name_both_are_held_back_and_named(tmp_path):
    tools = [{"name": name, "inputSchema": A} for name in ("get", "put", "add")]
    resolved = await offered(tmp_path, *tools, rename={"put": "get"})
    assert resolved.names == ("notes__add",)
    assert "'get' and 'put' are held back: both would be called 'notes__get'" in str(resolved.problems[0])


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}}


def changed(**parts):
    return {**OBJECT, **parts}


def with_property(name, schema):
    return changed(properties={**OBJECT["properties"], name: schema})


@pytest.mark.parametrize(
    ("old", "new", "ways"),
    [
        (OBJECT, with_property("b", {"type": "string"}), "wider"),
        (OBJECT, changed(additionalProperties=False), "narrower"),
        (OBJECT, changed(required=["a"]), "narrower"),
        (OBJECT, with_property("a", {"type": ["string", "null"]}), "wider"),
        (OBJECT, with_property("a", {"type": "string", "enum": ["x"]}), "narrower"),
        (OBJECT, with_property("a", {"type": "integer"}), "wider and narrower"),
        (OBJECT, with_property("n", {"type": "integer", "minimum": 0}), "wider"),
        (OBJECT, with_property("n", {"type": "number", "minimum": 1}), "wider"),
        (with_property("a", {"enum": ["x", "y"]}), with_property("a", {"const": "x"}), "narrower"),
        (OBJECT, with_property("a", {"type": "string", "uniqueItems": True}), "narrower"),
        (OBJECT, with_property("a", {"type": "string", "uniqueItems": False}), ""),
        (changed(**{"$defs": {"A": {"maxLength": 5}}}), changed(**{"$defs": {"A": {"maxLength": 3}}}), "narrower"),
        ({"type": "object"}, None, "wider"),
        (OBJECT, with_property("a", {"type": "string", "description": "x"}), ""),
    ],
)
def test_a_changed_schema_is_called_wider_or_narrower(old, new, ways):
    opposite = " and ".join(sorted((OPPOSITES[way] for way in ways.split(" and ")), reverse=True))
    for before, after, words in ((old, new, ways), (new, old, opposite)):
        both = ({"name": "get", "inputSchema": schema} for schema in (before, after))
        assert differences(*both) == f"inputSchema{words and ': '}{words}"


def test_a_new_required_parameter_counts_as_narrower():
    new = {**with_property("b", {}), "required": ["b"]}
    assert differences({"inputSchema": OBJECT}, {"inputSchema": new}) == "inputSchema: narrower"


OPPOSITES = {"wider": "narrower", "narrower": "wider", "": ""}


async def test_a_server_is_not_started_for_a_tool_with_another_prefix(tmp_path):
    """With accepted definitions, its tools' names are known, and there is no prefix."""
    toolset = mcp_toolset("never", command="/no/such/program", accepted=str(tmp_path / "accepted.json"))
    async with ToolRegistry() as registry:
        registry.register(toolset)
        result = await registry.call("other__echo")
        assert (result.kind, toolset.name_prefix) == ("unknown_tool", "never__")
    Accepted(str(tmp_path / "accepted.json")).write("never", Definitions())
    assert toolset.name_prefix == ""
