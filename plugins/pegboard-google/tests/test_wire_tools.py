"""Tools as Gemini lists them."""

from __future__ import annotations

import pytest
from google.genai import types

from pegboard import ToolSpec
from pegboard.tools.spec import Grammar
from pegboard_google._gemini import GeminiLimits
from pegboard_google.gemini import Gemini, GeminiSchema, upper_case_types

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "exclusiveMinimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = ToolSpec("get_weather", "Tells the weather.", CITY)
SEARCH = ToolSpec("search", kind="provider", provider_id="google.google_search")


def the_only(exported):
    ((entry,),) = ([function for each in exported.entries for function in each["functionDeclarations"]],)
    return entry


class TestFunctions:
    def test_all_functions_stand_in_one_entry(self):
        exported = Gemini().tools([WEATHER, WEATHER.evolve(name="other")])

        (entry,) = exported.entries
        assert [each["name"] for each in entry["functionDeclarations"]] == ["get_weather", "other"]
        assert exported.names == {"get_weather", "other"}
        assert exported.losses == ()

    def test_a_function_is_said_by_json_schema(self):
        assert the_only(Gemini().tools([WEATHER])) == {
            "name": "get_weather",
            "description": "Tells the weather.",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
                "required": ["city"],
                "additionalProperties": False,
            },
        }

    def test_a_function_is_said_in_the_older_schema(self):
        entry = the_only(GeminiSchema().tools([WEATHER]))

        assert entry["parameters"]["type"] == "OBJECT"
        assert entry["parameters"]["properties"]["city"] == {"type": "STRING"}
        assert "parametersJsonSchema" not in entry
        assert types.FunctionDeclaration.model_validate(entry).parameters.type is types.Type.OBJECT

    def test_the_older_schema_has_no_empty_object(self):
        empty = ToolSpec("ping", "Answers.")

        assert "parameters" not in the_only(GeminiSchema().tools([empty]))
        assert the_only(Gemini().tools([empty]))["parametersJsonSchema"]["type"] == "object"

    def test_no_tools_are_no_entry(self):
        assert Gemini().tools([]).entries == ()

    def test_examples_and_a_grammar_stand_in_the_description(self):
        free = ToolSpec("free", "Runs.", kind="freeform", grammar=Grammar("regex", "[a-z]+"), examples=[{"input": "a"}])

        entry = the_only(Gemini().tools([free]))

        assert '{"input":"a"}' in entry["description"]
        assert "[a-z]+" in entry["description"]
        assert entry["parametersJsonSchema"]["properties"] == {"input": {"type": "string"}}

    def test_options_of_the_provider_go_into_the_declaration(self):
        spec = WEATHER.evolve(provider_options={"google": {"behavior": "NON_BLOCKING"}, "openai": {"x": 1}})

        entry = the_only(Gemini().tools([spec]))

        assert entry["behavior"] == "NON_BLOCKING"
        assert "x" not in entry

    def test_options_of_the_older_exporter_are_its_own(self):
        spec = WEATHER.evolve(provider_options={"gemini": {"description": "a"}, "gemini-schema": {"description": "b"}})

        assert the_only(Gemini().tools([spec]))["description"] == "a"
        assert the_only(GeminiSchema().tools([spec]))["description"] == "b"

    def test_strictness_is_told_as_a_loss(self):
        (loss,) = Gemini().check(WEATHER, strict=True)

        assert (loss.keyword, loss.refused) == ("strict", False)

    def test_what_a_tool_says_itself_of_strictness_counts(self):
        assert Gemini().check(WEATHER.evolve(strict=False), strict=True) == ()


class TestOutputSchemas:
    SPEC = WEATHER.evolve(output_schema={"type": "object", "properties": {"sky": {"const": "blue"}}})

    def test_they_are_left_to_the_host(self):
        assert "responseJsonSchema" not in the_only(Gemini().tools([self.SPEC]))

    def test_they_are_said_where_the_host_wants_it(self):
        entry = the_only(Gemini(output_schemas=True).tools([self.SPEC]))

        assert entry["responseJsonSchema"]["properties"] == {"sky": {"enum": ["blue"], "type": "string"}}
        assert "response" in the_only(GeminiSchema(output_schemas=True).tools([self.SPEC]))

    def test_one_that_can_not_be_said_is_left_out(self):
        deep = {"type": "object"}
        for _ in range(200):
            deep = {"type": "object", "properties": {"a": deep}}
        spec = WEATHER.evolve(output_schema=deep)

        (loss,) = Gemini(output_schemas=True).check(spec)

        assert (loss.path, loss.refused) == ("/outputSchema", False)
        assert "responseJsonSchema" not in the_only(Gemini(output_schemas=True).tools([spec]))

    def test_a_tool_without_one_says_none(self):
        assert "responseJsonSchema" not in the_only(Gemini(output_schemas=True).tools([WEATHER]))


class TestNativeTools:
    @pytest.mark.parametrize(
        ("provider_id", "key"),
        [
            ("google.google_search", "googleSearch"),
            ("google.googleSearch", "googleSearch"),
            ("gemini.code_execution", "codeExecution"),
            ("google.url_context", "urlContext"),
            ("google.google_maps", "googleMaps"),
            ("google.file_search", "fileSearch"),
        ],
    )
    def test_each_is_an_entry_of_its_own(self, provider_id, key):
        spec = ToolSpec("native", kind="provider", provider_id=provider_id)

        exported = Gemini().tools([WEATHER, spec])

        assert exported.entries[1] == {key: {}}
        assert exported.names == {"get_weather", "native"}
        assert types.Tool.model_validate(exported.entries[1])

    def test_its_arguments_go_with_it(self):
        spec = ToolSpec(
            "maps",
            kind="provider",
            provider_id="google.google_maps",
            provider_arguments={"enableWidget": True},
            provider_options={"google": {"authConfig": {}}},
        )

        assert Gemini().tools([spec]).entries == ({"googleMaps": {"enableWidget": True, "authConfig": {}}},)

    def test_a_server_of_mcp_is_one_of_a_list(self):
        spec = ToolSpec("s", kind="provider", provider_id="google.mcp_servers", provider_arguments={"name": "x"})

        assert Gemini().tools([spec]).entries == ({"mcpServers": [{"name": "x"}]},)

    @pytest.mark.parametrize(
        "provider_id", ["openai.web_search", "google.", "google", "google.function_declarations", "google.a b"]
    )
    def test_one_that_gemini_does_not_host_is_refused(self, provider_id):
        spec = ToolSpec("native", kind="provider", provider_id=provider_id)

        exported = Gemini().tools([spec])

        assert (exported.entries, exported.names, exported.refused) == ((), frozenset(), {"native"})


class TestLimits:
    def test_functions_beyond_the_most_are_refused(self):
        specs = [WEATHER.evolve(name=f"tool_{number}") for number in range(4)]

        exported = Gemini(GeminiLimits(functions=2)).tools([*specs, SEARCH])

        assert exported.names == {"tool_0", "tool_1", "search"}
        assert exported.refused == {"tool_2", "tool_3"}
        assert len(exported.entries) == 2

    def test_a_name_that_breaks_the_rule_is_refused(self):
        exported = Gemini(GeminiLimits(name="[a-z]{1,5}")).tools([WEATHER])

        assert exported.entries == ()
        assert [(loss.path, loss.refused) for loss in exported.losses] == [("/name", True)]

    def test_a_schema_that_can_not_be_said_is_refused(self):
        deep = {"type": "object"}
        for _ in range(200):
            deep = {"type": "object", "properties": {"a": deep}}

        assert Gemini().tools([WEATHER.evolve(input_schema=deep)]).refused == {"get_weather"}

    def test_of_two_tools_of_one_name_the_first_is_exported(self):
        exported = Gemini().tools([WEATHER, WEATHER.evolve(description="Another.")])

        assert the_only(exported)["description"] == "Tells the weather."
        assert len(exported.losses) == 1

    @pytest.mark.parametrize(
        ("model", "dated"),
        [(None, False), ("gemini-2.5-pro", True), ("models/gemini-1.5-flash", True), ("gemini-3-pro", False)],
    )
    def test_models_of_before_gemini_3_are_told_apart(self, model, dated):
        assert GeminiLimits().is_dated(model) is dated


def test_a_tool_is_written_once_for_as_long_as_it_says_the_same():
    exporter = Gemini()

    first, second = (the_only(exporter.tools([ToolSpec("a", "x", CITY)])) for _ in range(2))

    assert first is second


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {"type": {"type": "string"}}},
            {"type": "OBJECT", "properties": {"type": {"type": "STRING"}}},
        ),
        ({"anyOf": [{"type": "null"}]}, {"anyOf": [{"type": "NULL"}]}),
    ],
)
def test_the_older_schema_names_types_in_capitals(schema, expected):
    rewritten = upper_case_types(schema)
    assert (rewritten.schema, rewritten.changes) == (expected, ())
