from __future__ import annotations

import pytest
from attrs import evolve

from fake_vendors.rules import payloads
from fake_vendors.rules.samples import CITY, NOTE, WEATHER, asked
from pegboard import Tool, ToolSpec
from pegboard.errors import ExportError
from pegboard.request.exporter import Loss
from pegboard.request.model_request import NamedTool
from pegboard.tools.spec import Grammar
from pegboard_openai._openai import CHAT
from pegboard_openai.openai_chat import OpenAIChat

CHAT_EXPORTER = OpenAIChat()
CLOSED = {**CITY, "additionalProperties": False}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def spec(name="t", schema=CITY, **facts):
    return ToolSpec(name, input_schema=schema, **facts)


def entry(given, **options):
    (found,) = CHAT_EXPORTER.tools([given], **options).entries
    return found


def body(**facts):
    return CHAT_EXPORTER.request(asked("hi", model="m", **facts))


def test_a_tool_is_a_function():
    assert entry(WEATHER.spec) == {
        "type": "function",
        "function": {"name": "weather", "description": "Tells the weather.", "parameters": CITY},
    }


def test_a_tool_that_says_nothing_has_no_description():
    assert "description" not in entry(spec())["function"]


@pytest.mark.parametrize(("own", "asked_for", "strict"), [(None, True, True), (True, None, True), (False, True, False)])
def test_strict_is_the_tools_word_before_the_requests(own, asked_for, strict):
    function = entry(spec(schema=CLOSED, strict=own), strict=asked_for)["function"]
    assert function.get("strict", False) is strict


def test_what_cant_be_strict_is_exported_plainly_and_says_so():
    exported = CHAT_EXPORTER.tools([spec(schema=MAP)], strict=True)
    assert "strict" not in exported.entries[0]["function"]
    assert [loss.path for loss in exported.losses if loss.keyword == "strict"] == ["/strict"]
    assert exported.refused == frozenset()


@pytest.mark.parametrize("syntax", ["lark", "regex"])
def test_a_freeform_tool_is_a_custom_tool_with_its_grammar_nested(syntax):
    given = Tool.freeform("f", grammar=Grammar(syntax, "a"), description="F.").spec
    assert entry(given) == {
        "type": "custom",
        "custom": {
            "name": "f",
            "description": "F.",
            "format": {"type": "grammar", "grammar": {"syntax": syntax, "definition": "a"}},
        },
    }


def test_a_freeform_tool_is_a_function_where_there_are_no_custom_tools():
    given = Tool.freeform("f", grammar=Grammar("regex", "[a-z]"), description="F.").spec
    (found,) = OpenAIChat(custom_tools=False).tools([given]).entries
    assert found["function"]["parameters"]["required"] == ["input"]
    assert "regex grammar:\n[a-z]" in found["function"]["description"]


def test_examples_stand_in_the_description():
    text = entry(spec(examples=[{"city": "Oslo"}], description="D."))["function"]["description"]
    assert text == 'D.\n\nExamples:\n{"city":"Oslo"}'


def test_a_description_that_is_too_long_loses_its_examples_and_then_its_end():
    short = spec(description="x" * 1_020, examples=[{"city": "Oslo"}])
    assert entry(short)["function"]["description"] == "x" * 1_020
    assert [loss.path for loss in CHAT_EXPORTER.check(short)] == ["/examples"]
    long = spec(description="x" * 1_025, examples=[{"city": "Oslo"}])
    assert entry(long)["function"]["description"] == "x" * 1_023 + "…"
    assert [loss.path for loss in CHAT_EXPORTER.check(long)] == ["/examples", "/description"]
    free = OpenAIChat(limits=evolve(CHAT, description=None))
    assert free.check(long) == ()


@pytest.mark.parametrize(
    ("provider_id", "word"), [("openai.web_search", "responses"), ("anthropic.web_search_20250305", "another")]
)
def test_tools_that_providers_host_are_refused(provider_id, word):
    exported = CHAT_EXPORTER.tools([Tool.provider("s", provider_id).spec])
    assert exported.entries == ()
    assert exported.refused == {"s"}
    assert word in exported.losses[0].what


def test_options_go_into_the_definition_but_for_those_of_responses():
    given = spec(provider_options={"openai": {"x": {"y": 1}, "allowed_callers": ["direct"]}, "other": {"z": 1}})
    assert entry(given)["function"]["x"] == {"y": 1}
    assert "allowed_callers" not in entry(given)["function"]
    assert [loss.keyword for loss in CHAT_EXPORTER.check(given)] == ["allowed_callers"]


def test_an_exporter_of_another_name_reads_its_own_options_last():
    given = spec(provider_options={"openai": {"a": 1, "b": 1}, "mine": {"b": 2}})
    (found,) = OpenAIChat(name="mine").tools([given]).entries
    assert (found["function"]["a"], found["function"]["b"]) == (1, 2)


def test_an_output_schema_is_told_to_be_lost():
    assert [loss.path for loss in CHAT_EXPORTER.check(spec(output_schema=CITY))] == ["/outputSchema"]


def test_deferred_tools_are_exported_plainly():
    assert entry(spec(deferred=True)) == entry(spec())


def test_tools_beyond_the_most_are_refused_not_cut():
    few = OpenAIChat(limits=evolve(CHAT, tools=2))
    hosted = Tool.provider("h", "openai.web_search").spec
    exported = few.tools([spec("a"), hosted, spec("b"), spec("a"), spec("c"), spec("d")])
    assert [each["function"]["name"] for each in exported.entries] == ["a", "b"]
    assert exported.names == {"a", "b"}
    assert exported.refused == {"c", "d", "h"}
    assert Loss("a", "/name", "name", "another tool has this name; the first is exported") in exported.losses


def test_each_tool_is_written_once():
    assert entry(WEATHER.spec) is entry(ToolSpec.from_json(WEATHER.spec.to_json()))


# --- tool choice ---


def test_choice_is_said_where_it_says_something():
    assert "tool_choice" not in body()
    assert body(tool_choice="none")["tool_choice"] == "none"
    assert body(tool_choice="required")["tool_choice"] == "required"


def test_without_tools_nothing_is_said_of_them():
    without = body(tools=(), tool_choice="none")
    assert not without.keys() & {"tools", "tool_choice", "parallel_tool_calls"}
    with pytest.raises(ExportError, match="no tool to call"):
        body(tools=(), tool_choice="required")


def test_a_named_tool_is_named_as_it_is_listed():
    choice = body(tool_choice=NamedTool("weather"))["tool_choice"]
    assert choice == {"type": "function", "function": {"name": "weather"}}
    assert body(tool_choice=NamedTool("note"))["tool_choice"] == {"type": "custom", "custom": {"name": "note"}}


def test_a_named_tool_that_isnt_listed_is_an_error():
    with pytest.raises(ExportError, match="Did you mean 'weather'") as caught:
        body(tool_choice=NamedTool("wether"))
    assert (caught.value.exporter, caught.value.tool) == ("openai", "wether")


@pytest.mark.parametrize(("choice", "mode"), [("auto", "auto"), ("required", "required")])
def test_some_tools_can_be_allowed(choice, mode):
    made = body(tool_choice=choice, options={"openai": {"allowed_tools": ["note", "weather"]}})
    allowed = made["tool_choice"]["allowed_tools"]
    assert allowed["mode"] == mode
    assert [each["type"] for each in allowed["tools"]] == ["custom", "function"]
    assert payloads.openai_chat_request(made) == []
    assert len(made["tools"]) == 2


@pytest.mark.parametrize("allowed", [[], "weather", [1], {"a": 1}])
def test_allowed_tools_are_names(allowed):
    with pytest.raises(ExportError, match="allowed_tools"):
        body(options={"openai": {"allowed_tools": allowed}})


def test_nothing_is_allowed_where_none_shall_be_called():
    assert body(tool_choice="none", options={"openai": {"allowed_tools": ["note"]}})["tool_choice"] == "none"


def test_many_custom_tools_need_no_schema():
    assert payloads.openai_chat_tools([entry(NOTE.spec), entry(WEATHER.spec)]) == []
