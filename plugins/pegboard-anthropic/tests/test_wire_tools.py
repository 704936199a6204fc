from __future__ import annotations

import pytest

from pegboard import Tool
from pegboard.tools.spec import Grammar
from pegboard_anthropic._anthropic import AnthropicLimits
from pegboard_anthropic.anthropic import Anthropic

TEXT = {"type": "string"}
CITY = {"type": "object", "properties": {"city": TEXT}, "required": ["city"], "additionalProperties": False}


@pytest.fixture
def exporter():
    return Anthropic()


def only(exporter, tool, **options):
    exported = exporter.tools([tool.spec], **options)
    assert len(exported.entries) == 1
    return exported.entries[0]


def test_a_function_has_name_description_and_schema(exporter):
    tool = Tool.from_schema("weather", CITY, description="Tells the weather.")

    assert only(exporter, tool) == {"name": "weather", "description": "Tells the weather.", "input_schema": CITY}
    assert exporter.check(tool.spec) == ()


def test_a_strict_tool_says_so(exporter):
    assert only(exporter, Tool.from_schema("t", CITY, strict=True))["strict"] is True
    assert only(exporter, Tool.from_schema("t", CITY), strict=True)["strict"] is True
    assert "strict" not in only(exporter, Tool.from_schema("t", CITY, strict=False), strict=True)


def test_a_schema_that_cannot_be_strict_is_written_plainly_with_a_loss(exporter):
    free = Tool.from_schema("t", {"type": "object", "properties": {"a": {"type": "object"}}})

    assert "strict" not in only(exporter, free, strict=True)
    assert [loss.path for loss in exporter.check(free.spec, strict=True)] == ["/strict"]


def test_examples_that_fit_stand_in_their_own_field(exporter):
    tool = Tool.from_schema("t", CITY, examples=[{"city": "Oslo"}])

    entry = only(exporter, tool)

    assert entry["input_examples"] == [{"city": "Oslo"}]
    assert "description" not in entry


def test_an_example_that_does_not_fit_what_is_exported_is_left_out_with_a_loss(exporter):
    odd = {"type": "object", "properties": {"city": TEXT, "the name": TEXT}, "additionalProperties": False}
    tool = Tool.from_schema("t", odd, examples=[{"city": "Oslo"}, {"the name": "x"}])

    assert only(exporter, tool)["input_examples"] == [{"city": "Oslo"}]
    assert ("/examples/1", "examples") in [(loss.path, loss.keyword) for loss in exporter.check(tool.spec)]


def test_examples_are_left_out_where_the_schema_cannot_judge(exporter):
    from pegboard.tools.spec import ToolSpec

    looks_around = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)a"}}}
    spec = ToolSpec("t", input_schema=looks_around, examples=[{"a": "a"}])

    exported = exporter.tools([spec])

    assert ["input_examples" in entry for entry in exported.entries] == [False]
    assert [loss.path for loss in exported.losses] == ["/examples"]


def test_no_examples_are_said_where_none_fits(exporter):
    odd = {"type": "object", "properties": {"the name": TEXT}, "additionalProperties": False}

    assert "input_examples" not in only(exporter, Tool.from_schema("t", odd, examples=[{"the name": "x"}]))


def test_a_freeform_tool_is_a_function_of_one_text_that_tells_its_grammar(exporter):
    entry = only(exporter, Tool.freeform("run", grammar=Grammar("lark", "start: WORD"), description="Runs."))

    assert entry["input_schema"]["properties"] == {"input": TEXT}
    assert entry["description"] == "Runs.\n\nThe input must fit this lark grammar:\nstart: WORD"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("web_search_20250305", "web_search"),
        ("web_fetch_20250910", "web_fetch"),
        ("code_execution_20250825", "code_execution"),
        ("bash_20250124", "bash"),
        ("memory_20250818", "memory"),
        ("text_editor_20250124", "str_replace_editor"),
        ("text_editor_20250728", "str_replace_based_edit_tool"),
        ("computer_20250124", "computer"),
        ("tool_search_tool_regex_20251119", "tool_search_tool_regex"),
    ],
)
def test_a_tool_that_the_provider_brings_has_a_type_with_date_and_the_name_that_goes_with_it(exporter, kind, name):
    entry = only(exporter, Tool.provider("mine", f"anthropic.{kind}", {"max_uses": 3}))

    assert entry == {"type": kind, "name": name, "max_uses": 3}


@pytest.mark.parametrize("kind", ["browser_toolset_20260801", "mcp_toolset"])
def test_a_toolset_of_the_providers_has_no_name(exporter, kind):
    assert only(exporter, Tool.provider("mine", f"anthropic.{kind}")) == {"type": kind}


@pytest.mark.parametrize("foreign", ["openai.web_search", "anthropic.", "anthropic.Web Search"])
def test_another_providers_tool_is_refused(exporter, foreign):
    exported = exporter.tools([Tool.provider("mine", foreign).spec])

    assert exported.entries == ()
    assert exported.refused == {"mine"}


def test_a_tool_whose_name_at_the_provider_is_taken_is_refused(exporter):
    exported = exporter.tools(
        [Tool.from_schema("bash", CITY).spec, Tool.provider("shell", "anthropic.bash_20250124").spec]
    )

    assert [entry["name"] for entry in exported.entries] == ["bash"]
    assert exported.refused == {"shell"}
    assert exported.names == {"bash"}


def test_options_of_the_provider_are_passed_through_and_others_are_not(exporter):
    options = {
        "anthropic": {"cache_control": {"type": "ephemeral"}, "allowed_callers": ["direct"]},
        "openai": {"secret": True},
    }

    entry = only(exporter, Tool.from_schema("t", CITY, provider_options=options))

    assert entry["cache_control"] == {"type": "ephemeral"}
    assert entry["allowed_callers"] == ["direct"]
    assert "secret" not in entry


def test_a_name_that_the_limits_refuse_is_refused():
    exported = Anthropic(AnthropicLimits(name="[a-z]{1,3}")).tools([Tool.from_schema("weather", CITY).spec])

    assert exported.entries == ()
    assert [(loss.keyword, loss.refused) for loss in exported.losses] == [("name", True)]


def test_a_schema_that_cannot_be_said_is_refused(exporter):
    odd = Tool.from_schema("t", {"type": "object", "properties": {"a b": TEXT}, "required": ["a b"]})

    assert exporter.tools([odd.spec]).refused == {"t"}
    assert any(loss.refused for loss in exporter.check(odd.spec))


def test_deferred_tools_are_listed_plainly_without_a_request(exporter):
    assert "defer_loading" not in only(exporter, Tool.from_schema("t", CITY, deferred=True))
