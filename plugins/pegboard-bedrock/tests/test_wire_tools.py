from __future__ import annotations

import pytest

from fake_vendors.rules import payloads
from fake_vendors.rules.rules import RULES
from pegboard import Tool
from pegboard.tools.spec import Grammar, ToolSpec
from pegboard_bedrock._bedrock import BedrockLimits
from pegboard_bedrock.bedrock import Bedrock

TEXT = {"type": "string"}
CITY = {"type": "object", "properties": {"city": TEXT}, "required": ["city"], "additionalProperties": False}
POINT = {"cachePoint": {"type": "default"}}


@pytest.fixture
def exporter():
    return Bedrock()


def entries_of(exporter, *tools, **options):
    entries = list(exporter.tools([tool.spec for tool in tools], **options).entries)
    assert payloads.bedrock_tools(entries) == []
    assert RULES["bedrock"](entries) == []
    return entries


def only(exporter, tool, **options):
    [entry] = entries_of(exporter, tool, **options)
    return entry["toolSpec"]


def test_a_function_has_name_description_and_schema(exporter):
    tool = Tool.from_schema("weather", CITY, description="Tells the weather.")

    assert only(exporter, tool) == {
        "name": "weather",
        "description": "Tells the weather.",
        "inputSchema": {"json": CITY},
    }
    assert exporter.check(tool.spec) == ()


@pytest.mark.parametrize("description", ["", " \n"])
def test_an_empty_description_is_left_out(exporter, description):
    assert "description" not in only(exporter, Tool.from_schema("t", CITY, description=description))


def test_a_strict_tool_says_so(exporter):
    assert only(exporter, Tool.from_schema("t", CITY, strict=True))["strict"] is True
    assert "strict" not in only(exporter, Tool.from_schema("t", CITY))


def test_examples_and_a_grammar_stand_in_the_description(exporter):
    shown = only(exporter, Tool.from_schema("t", CITY, description="Tells.", examples=[{"city": "Oslo"}]))
    free = only(exporter, Tool.freeform("run", grammar=Grammar("regex", "[a-z]+")))

    assert shown["description"] == 'Tells.\n\nExamples:\n{"city":"Oslo"}'
    assert "[a-z]+" in free["description"]
    assert free["inputSchema"]["json"]["properties"] == {"input": TEXT}


def test_a_cache_point_stands_behind_the_tool_whose_options_want_it(exporter):
    options = {"bedrock": {"cachePoint": {"type": "default"}}, "anthropic": {"cache_control": {"type": "ephemeral"}}}
    marked = Tool.from_schema("a", CITY, provider_options=options)

    first, point, second = entries_of(exporter, marked, Tool.from_schema("b", CITY))

    assert (first["toolSpec"]["name"], point, second["toolSpec"]["name"]) == ("a", POINT, "b")
    assert "cachePoint" not in first["toolSpec"]
    assert exporter.tools([marked.spec]).names == {"a"}


def test_a_tool_that_the_provider_hosts_is_a_system_tool(exporter):
    grounding = Tool.provider(
        "ground", "bedrock.nova_grounding", provider_options={"bedrock": {"cachePoint": {"type": "default"}}}
    )

    assert entries_of(exporter, grounding) == [{"systemTool": {"name": "nova_grounding"}}, POINT]


@pytest.mark.parametrize("foreign", ["openai.web_search", "bedrock.", "bedrock.no name"])
def test_another_providers_tool_is_refused(exporter, foreign):
    exported = exporter.tools([Tool.provider("mine", foreign).spec])

    assert (exported.entries, exported.refused) == ((), {"mine"})


def test_names_and_schemas_that_cannot_be_said_are_refused():
    named = Bedrock(BedrockLimits(name="[a-z]{1,3}")).tools([Tool.from_schema("weather", CITY).spec])
    deep: dict[str, object] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    levels = ToolSpec("t", input_schema={"type": "object", "properties": {"a": deep}})

    assert named.refused == {"weather"}
    assert Bedrock().tools([levels]).refused == {"t"}


def test_options_that_replace_a_schema_are_as_the_host_wrote_them(exporter):
    options = {"bedrock": {"inputSchema": 3, "strict": True}}
    tool = Tool.from_schema("t", CITY, provider_options=options)

    assert exporter.tools([tool.spec]).entries[0]["toolSpec"]["inputSchema"] == 3
