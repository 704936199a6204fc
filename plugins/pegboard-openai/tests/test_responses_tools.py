from __future__ import annotations

import pytest
from attrs import evolve

from fake_vendors.rules import payloads
from fake_vendors.rules.samples import CITY, NOTE, WEATHER, asked
from pegboard import Tool, ToolSpec
from pegboard.errors import ExportError
from pegboard.request.model_request import NamedTool
from pegboard.tools.spec import Grammar
from pegboard_openai._openai import RESPONSES
from pegboard_openai.openai_responses import OpenAIResponses

EXPORTER = OpenAIResponses()
CLOSED = {**CITY, "additionalProperties": False}
WEB = Tool.provider("web", "openai.web_search", {"search_context_size": "low"})
SHELL = Tool.provider("sh", "openai.shell", {"environment": {"type": "local"}})
MCP = Tool.provider("docs", "openai.mcp", {"server_label": "docs", "server_url": "https://example.com"})


def spec(name="t", schema=CITY, **facts):
    return ToolSpec(name, input_schema=schema, **facts)


def entry(given, **options):
    (found,) = EXPORTER.tools([given], **options).entries
    return found


def body(**facts):
    made = EXPORTER.request(asked("hi", model="m", **facts))
    assert payloads.openai_responses_request(made) == []
    return made


def deferred(*tools, **options):
    return OpenAIResponses(**options).request(asked("hi", model="m", tools=tools, loads_deferred=True))["tools"]


def test_a_tool_is_a_function_whose_strictness_is_always_said():
    assert entry(WEATHER.spec) == {
        "type": "function",
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": CITY,
        "strict": False,
    }
    assert entry(spec(schema=CLOSED), strict=True)["strict"] is True


def test_what_cant_be_strict_is_exported_plainly_and_says_so():
    given = spec(schema={"type": "object", "additionalProperties": {"type": "string"}}, strict=True)
    assert entry(given)["strict"] is False
    assert "strict" in [loss.keyword for loss in EXPORTER.check(given)]


@pytest.mark.parametrize("syntax", ["lark", "regex"])
def test_a_freeform_tool_is_a_custom_tool_with_its_grammar_flat(syntax):
    given = Tool.freeform("f", grammar=Grammar(syntax, "a"), description="F.").spec
    assert entry(given) == {
        "type": "custom",
        "name": "f",
        "description": "F.",
        "format": {"type": "grammar", "syntax": syntax, "definition": "a"},
    }


def test_a_freeform_tool_is_a_function_where_there_are_no_custom_tools():
    (found,) = OpenAIResponses(custom_tools=False).tools([NOTE.spec]).entries
    assert (found["type"], found["parameters"]["required"]) == ("function", ["input"])


def test_output_schemas_and_callers_are_told():
    found = entry(spec(output_schema=CITY, provider_options={"openai": {"allowed_callers": ["direct"]}}))
    assert (found["output_schema"], found["allowed_callers"]) == (CITY, ["direct"])
    assert payloads.openai_responses_tools([found]) == []


def test_hosted_tools_go_by_their_type():
    assert entry(WEB.spec) == {"search_context_size": "low", "type": "web_search"}
    options = {"openai": {"namespace": "n"}, "openai-responses": {"search_context_size": "high"}}
    given = Tool.provider("w", "openai.web_search", provider_options=options).spec
    assert entry(given) == {"search_context_size": "high", "type": "web_search"}


def test_descriptions_can_be_limited():
    short = OpenAIResponses(limits=evolve(RESPONSES, description=5))
    (found,) = short.tools([spec(description="x" * 9)]).entries
    assert found["description"] == "xxxx…"


def test_tools_beyond_the_most_are_refused_and_a_namespace_is_one():
    few = OpenAIResponses(limits=evolve(RESPONSES, tools=2))
    inside = {"openai": {"namespace": {"name": "crm", "description": "Customers."}}}
    specs = [spec("a"), spec("b", provider_options=inside), spec("c"), spec("d", provider_options=inside)]
    other = spec("e", provider_options={"openai": {"namespace": "other"}})
    exported = few.tools([*specs, other])
    assert exported.names == {"a", "b", "d"}
    assert exported.refused == {"c", "e"}
    assert {loss.keyword for loss in exported.losses} == {"tools"}


def test_a_name_stands_once():
    exported = EXPORTER.tools([spec("a"), spec("a", description="other")])
    assert len(exported.entries) == 1
    assert [loss.keyword for loss in exported.losses] == ["name"]


# --- namespaces ---


def test_tools_of_a_namespace_stand_together_at_the_place_of_the_first():
    told = {"openai": {"namespace": {"name": "crm", "description": "Customers."}}}
    named = {"openai": {"namespace": "crm"}}
    specs = [spec("a", provider_options=named), spec("b"), spec("c", provider_options=told)]
    crm, other = EXPORTER.tools(specs).entries
    assert (crm["type"], crm["name"], crm["description"]) == ("namespace", "crm", "Customers.")
    assert [tool["name"] for tool in crm["tools"]] == ["a", "c"]
    assert other["name"] == "b"
    assert payloads.openai_responses_tools([crm, other]) == []


def test_a_namespace_always_has_a_description():
    assert entry(spec(provider_options={"openai": {"namespace": "crm"}}))["description"] == "Tools of crm."


@pytest.mark.parametrize("given", [3, "", {"description": "x"}, {"name": 1}])
def test_what_is_no_namespace_is_left_out(given):
    made = spec(provider_options={"openai": {"namespace": given}})
    assert entry(made)["type"] == "function"
    assert [loss.keyword for loss in EXPORTER.check(made)] == ["namespace"]


def test_a_tool_in_a_namespace_can_be_chosen():
    tool = Tool(spec("a", provider_options={"openai": {"namespace": "crm"}}))
    assert body(tools=[tool], tool_choice=NamedTool("a"))["tool_choice"] == {"type": "function", "name": "a"}


# --- deferred tools ---


def test_deferred_tools_are_plain_unless_the_provider_searches():
    assert "defer_loading" not in entry(spec(deferred=True))
    assert "tools" not in body(tools=[Tool(spec(deferred=True))])


def test_deferred_tools_go_with_a_search():
    made = deferred(Tool(spec("a", deferred=True)), Tool.freeform("b", deferred=True), Tool(spec("c")))
    assert [each.get("defer_loading") for each in made] == [True, True, None, None]
    assert made[-1] == {"type": "tool_search"}
    assert payloads.openai_responses_tools(made) == []
    assert "defer_loading" not in entry(spec("a", deferred=True))


def test_no_search_without_anything_to_search():
    assert [each["type"] for each in deferred(Tool(spec("a")))] == ["function"]
    hosted = Tool.provider("w", "openai.web_search", deferred=True)
    assert deferred(hosted) == [{"type": "web_search"}]


def test_a_search_that_the_host_has_put_there_is_enough():
    search = Tool.provider("find", "openai.tool_search", {"execution": "server"})
    made = deferred(Tool(spec("a", deferred=True)), search)
    assert [each for each in made if each["type"] == "tool_search"] == [{"execution": "server", "type": "tool_search"}]


def test_the_search_has_room_in_the_list():
    tools = [Tool(spec(name, deferred=True)) for name in "abc"]
    made = deferred(*tools, limits=evolve(RESPONSES, tools=2))
    assert [each.get("name", each["type"]) for each in made] == ["a", "tool_search"]


def test_deferred_tools_can_stand_in_a_namespace():
    option = {"openai": {"namespace": "crm"}}
    crm, search = deferred(Tool(spec("a", deferred=True, provider_options=option)))
    assert crm["tools"][0]["defer_loading"] is True
    assert search == {"type": "tool_search"}


# --- tool choice ---


def test_choice_is_said_where_it_says_something():
    assert "tool_choice" not in body()
    assert body(tool_choice="none")["tool_choice"] == "none"
    assert body(tool_choice="required")["tool_choice"] == "required"
    assert not body(tools=()).keys() & {"tools", "tool_choice"}


@pytest.mark.parametrize(
    ("tool", "choice"),
    [
        (WEATHER, {"type": "function", "name": "weather"}),
        (NOTE, {"type": "custom", "name": "note"}),
        (SHELL, {"type": "shell"}),
        (MCP, {"type": "mcp", "server_label": "docs"}),
        (WEB, {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}),
        (Tool.provider("i", "openai.image_generation"), {"type": "image_generation"}),
    ],
)
def test_a_named_tool_is_named_as_the_provider_wants_it(tool, choice):
    assert body(tools=[tool], tool_choice=NamedTool(tool.name))["tool_choice"] == choice


def test_a_named_tool_that_isnt_listed_is_an_error():
    with pytest.raises(ExportError, match="isn't among the tools"):
        body(tool_choice=NamedTool("nothing_like_it"))


def test_some_tools_can_be_allowed():
    options = {"openai-responses": {"allowed_tools": ["weather", "web"]}}
    assert body(tools=[WEATHER, NOTE, WEB], options=options)["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "weather"}, {"type": "web_search"}],
    }
