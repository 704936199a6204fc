from __future__ import annotations

import asyncio

import pytest

from fake_vendors.rules import payloads
from pegboard import Tool
from pegboard.errors import ExportError
from pegboard.messages.message import Message
from pegboard.request.model_request import ModelConfig, ModelRequest, NamedTool
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard_bedrock._bedrock import BedrockLimits
from pegboard_bedrock.bedrock import Bedrock

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool.from_schema("weather", CITY)
GROUND = Tool.provider("ground", "bedrock.nova_grounding")
CALL = ToolCall("weather", {"city": "Oslo"}, "c1")
CALLED = (Message.user("?"), Message.assistant(CALL), Message.tool([(CALL, ToolResult("rain"))]))
POINT = {"cachePoint": {"type": "default"}}


def body_of(*tools, messages=("hello",), exporter=None, config=None, **facts):
    resolved = asyncio.run(resolve_tools(list(tools), ())) if tools else None
    request = ModelRequest(list(messages), tools=resolved, config=ModelConfig(**(config or {})), **facts)
    body = (exporter or Bedrock()).request(request)
    for member in body:
        assert payloads.bedrock_member(body[member], member) == [], member
    return body


def test_the_least_request_is_its_messages():
    assert body_of() == {"messages": [{"role": "user", "content": [{"text": "hello"}]}]}


def test_model_instructions_and_configuration_are_said():
    config = {"max_output_tokens": 100, "temperature": 0.5, "top_p": 0.9, "stop": ("END",), "seed": 3}
    body = body_of(model="m", instructions=("Be kind.", "Be brief."), config=config)

    assert (body["modelId"], body["system"]) == ("m", [{"text": "Be kind.\n\nBe brief."}])
    assert body["inferenceConfig"] == {"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]}


def test_what_the_host_says_first_joins_the_instructions():
    assert body_of(instructions=("A",), messages=[Message.system("B"), "x"])["system"] == [{"text": "A"}, {"text": "B"}]


def test_reasoning_is_an_effort_and_can_be_said_otherwise():
    budget = {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2_000}}}

    assert body_of(config={"reasoning": "low"})["outputConfig"] == {"effort": "low"}
    assert "outputConfig" not in body_of(config={"reasoning": "none"})
    exporter = Bedrock(BedrockLimits(reasoning={"high": budget}))
    assert (
        body_of(config={"reasoning": "high"}, exporter=exporter)["additionalModelRequestFields"]
        == (budget["additionalModelRequestFields"])
    )


@pytest.mark.parametrize(
    ("choice", "said"),
    [("auto", None), ("required", {"any": {}}), (NamedTool("weather"), {"tool": {"name": "weather"}})],
)
def test_tool_choice(choice, said):
    config = body_of(WEATHER, tool_choice=choice)["toolConfig"]

    assert config.get("toolChoice") == said
    assert [entry["toolSpec"]["name"] for entry in config["tools"]] == ["weather"]


def test_a_choice_of_a_tool_that_the_provider_hosts_has_its_name():
    choice = body_of(GROUND, tool_choice=NamedTool("ground"))["toolConfig"]["toolChoice"]

    assert choice == {"tool": {"name": "nova_grounding"}}


def test_no_call_is_wanted_where_no_tools_are_listed():
    assert "toolConfig" not in body_of(WEATHER, tool_choice="none")
    assert "toolConfig" not in body_of()


def test_tools_are_listed_again_where_the_conversation_holds_calls():
    offered = body_of(WEATHER, tool_choice="none", messages=CALLED)["toolConfig"]
    gone = body_of(messages=CALLED)["toolConfig"]

    assert [entry["toolSpec"]["name"] for entry in offered["tools"]] == ["weather"]
    assert [entry["toolSpec"]["description"] for entry in gone["tools"]] == ["No longer available."]


def test_a_choice_that_cannot_be_met_is_refused():
    with pytest.raises(ExportError, match="Did you mean 'weather'"):
        body_of(WEATHER, tool_choice=NamedTool("weathr"))
    with pytest.raises(ExportError, match="no tool to call"):
        body_of(tool_choice="required")
    with pytest.raises(ExportError, match="no message"):
        body_of(messages=())


def test_options_of_the_request_are_merged_last():
    options = {
        "bedrock": {
            "additionalModelRequestFields": {"top_k": 5},
            "inferenceConfig": {"temperature": 0.1},
            "cachePoint": {"type": "default"},
        },
        "anthropic": {"speed": "fast"},
    }

    body = body_of(instructions=("A",), config={"provider_options": options, "max_output_tokens": 7})

    assert body["additionalModelRequestFields"] == {"top_k": 5}
    assert body["inferenceConfig"] == {"maxTokens": 7, "temperature": 0.1}
    assert body["system"] == [{"text": "A"}, POINT]
    assert body.keys() == {"messages", "system", "inferenceConfig", "additionalModelRequestFields"}


def test_a_cache_point_behind_no_system_is_left_out():
    assert "system" not in body_of(config={"provider_options": {"bedrock": POINT}})
