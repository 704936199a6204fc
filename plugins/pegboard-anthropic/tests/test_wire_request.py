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
from pegboard_anthropic._anthropic import AnthropicLimits, thinking_budgets
from pegboard_anthropic.anthropic import Anthropic

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool.from_schema("weather", CITY)
FOUND = Tool.from_schema(
    "found", CITY, deferred=True, provider_options={"anthropic": {"cache_control": {"type": "ephemeral"}}}
)
BASH = Tool.provider("shell", "anthropic.bash_20250124")
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
CALL = ToolCall("weather", {"city": "Oslo"}, "c1")
CALLED = (Message.user("?"), Message.assistant(CALL), Message.tool([(CALL, ToolResult("rain"))]))


def body_of(*tools, messages=("hello",), exporter=None, config=None, **facts):
    resolved = asyncio.run(resolve_tools(list(tools), ())) if tools else None
    request = ModelRequest(list(messages), tools=resolved, config=ModelConfig(**(config or {})), **facts)
    body = (exporter or Anthropic()).request(request)
    assert payloads.anthropic_request({"model": "m", **body}) == []
    return body


def test_the_least_request_has_a_limit_and_its_messages():
    assert body_of() == {
        "max_tokens": 8_192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }


def test_model_instructions_and_configuration_are_said():
    body = body_of(
        model="m",
        instructions=("Be kind.", "", "Be brief."),
        config={"max_output_tokens": 100, "stop": ("END",), "seed": 3},
    )

    assert (body["model"], body["max_tokens"], body["system"]) == ("m", 100, "Be kind.\n\nBe brief.")
    assert body["stop_sequences"] == ["END"]


def test_what_the_host_says_first_joins_the_instructions():
    body = body_of(instructions=("A",), messages=[Message.system("B"), "hello"])

    assert body["system"] == "A\n\nB"
    assert len(body["messages"]) == 1


def test_the_default_of_max_tokens_can_be_set():
    assert body_of(exporter=Anthropic(AnthropicLimits(max_tokens=4_096)))["max_tokens"] == 4_096


def test_chance_is_said_only_to_models_that_take_it():
    config = {"temperature": 0.5, "top_p": 0.9}
    older = Anthropic(AnthropicLimits(sampling=True, reasoning=thinking_budgets()))
    request = ModelRequest("x", config=ModelConfig(**config))
    thinking = ModelRequest("x", config=ModelConfig(**config, reasoning="low"))

    assert not {"temperature", "top_p"} & body_of(config=config).keys()
    assert older.request(request)["temperature"] == 0.5
    assert not {"temperature", "top_p"} & older.request(thinking).keys()
    assert older.request(thinking)["thinking"] == {"type": "enabled", "budget_tokens": 1_024}


def test_reasoning_is_an_effort():
    body = body_of(config={"reasoning": "high"})

    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}
    assert body_of(config={"reasoning": "none"})["thinking"] == {"type": "disabled"}


def test_a_forced_call_goes_without_thinking():
    body = body_of(WEATHER, tool_choice="required", config={"reasoning": "high"})

    assert body["tool_choice"] == {"type": "any"}
    assert "thinking" not in body


@pytest.mark.parametrize(
    ("choice", "parallel", "said"),
    [
        ("auto", None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        (NamedTool("weather"), None, {"type": "tool", "name": "weather"}),
        (NamedTool("weather"), False, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(choice, parallel, said):
    body = body_of(WEATHER, tool_choice=choice, config={"parallel_calls": parallel})

    assert body.get("tool_choice") == said
    assert [entry["name"] for entry in body["tools"]] == ["weather"]


def test_a_choice_of_a_tool_that_the_provider_brings_has_its_name():
    assert body_of(BASH, tool_choice=NamedTool("shell"))["tool_choice"] == {"type": "tool", "name": "bash"}


def test_a_choice_that_cannot_be_met_is_refused():
    with pytest.raises(ExportError, match="Did you mean 'weather'") as caught:
        body_of(WEATHER, tool_choice=NamedTool("weathr"))
    assert (caught.value.exporter, caught.value.tool) == ("anthropic", "weathr")
    with pytest.raises(ExportError, match="no tool to call"):
        body_of(tool_choice="required")


def test_without_tools_nothing_is_said_of_them():
    assert not {"tools", "tool_choice"} & body_of(tool_choice="none").keys()


def test_tools_that_were_called_are_listed_once_more_where_none_are_offered():
    body = body_of(messages=CALLED)

    assert [entry["name"] for entry in body["tools"]] == ["weather"]
    assert body["tool_choice"] == {"type": "none"}


def test_deferred_tools_are_loaded_by_a_search():
    body = body_of(FOUND, WEATHER, loads_deferred=True)

    assert body["tools"][0] == SEARCH
    assert [(entry["name"], entry.get("defer_loading")) for entry in body["tools"][1:]] == [
        ("found", True),
        ("weather", None),
    ]
    assert "cache_control" not in body["tools"][1]


def test_all_tools_may_be_deferred_for_the_search_is_not():
    assert [entry.get("defer_loading") for entry in body_of(FOUND, loads_deferred=True)["tools"]] == [None, True]


def test_a_search_that_the_host_offers_is_the_only_one():
    regex = Tool.provider("find", "anthropic.tool_search_tool_regex_20251119")

    names = [entry["name"] for entry in body_of(FOUND, regex, loads_deferred=True)["tools"]]

    assert sorted(names) == ["found", "tool_search_tool_regex"]


def test_a_deferred_tool_that_must_be_called_is_loaded_at_once():
    body = body_of(FOUND, loads_deferred=True, tool_choice=NamedTool("found"))

    assert [entry.get("defer_loading") for entry in body["tools"]] == [None]


def test_deferred_tools_stay_out_where_nobody_searches():
    assert "tools" not in body_of(FOUND)


def test_a_tool_whose_options_defer_it_is_searched_too():
    lazy = Tool.from_schema("lazy", CITY, provider_options={"anthropic": {"defer_loading": True}})

    assert [entry["name"] for entry in body_of(lazy)["tools"]] == ["tool_search_tool_bm25", "lazy"]


def test_options_of_the_request_are_merged_last():
    options = {"anthropic": {"cache_control": {"type": "ephemeral"}, "max_tokens": 7}, "openai": {"user": "x"}}

    body = body_of(config={"provider_options": options})

    assert (body["cache_control"], body["max_tokens"]) == ({"type": "ephemeral"}, 7)
    assert "user" not in body


def test_nothing_to_say_is_refused():
    with pytest.raises(ExportError, match="no message"):
        Anthropic().request(ModelRequest(()))
    with pytest.raises(ExportError, match="no message"):
        Anthropic().request(ModelRequest([Message.assistant(""), ""]))


def test_a_request_is_written_the_same_each_time():
    exporter = Anthropic()
    request = ModelRequest(CALLED, tools=asyncio.run(resolve_tools([WEATHER, FOUND], ())), loads_deferred=True)

    assert exporter.request(request) == exporter.request(request)
    assert "defer_loading" not in exporter.tools([FOUND.spec]).entries[0]
