"""Requests as Gemini takes them: contents, results, tool choice, configuration."""

from __future__ import annotations

import asyncio
import base64

import pytest
from google.genai import types

from pegboard import Tool, ToolSpec
from pegboard.errors import ExportError
from pegboard.messages.message import CallPart, HostedPart, MediaPart, Message, ReasoningPart, ResultPart, TextPart
from pegboard.request.model_request import ModelConfig, ModelRequest, NamedTool
from pegboard.tools.call import CallFault, ToolCall
from pegboard.tools.content import AudioContent, FileContent, ImageContent, LinkContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard.wire.bodies import MOST_SAID
from pegboard_google._gemini import GeminiLimits
from pegboard_google.gemini import Gemini, GeminiSchema, sdk_arguments

OURS = {"gemini": {}}
SKIP = "skip_thought_signature_validator"
PNG = ImageContent(b"\x89PNG")
WEATHER = ToolSpec("get_weather", "Tells.", {"type": "object", "properties": {"city": {"type": "string"}}})
SEARCH = ToolSpec("search", kind="provider", provider_id="google.google_search")


def body_of(*messages, specs=(), **facts):
    tools = asyncio.run(resolve_tools([Tool(spec) for spec in specs], ())) if specs else None
    request = ModelRequest(messages or "Hello.", tools=tools, **facts)
    body = Gemini().request(request)
    checked(body)
    return body


def checked(body):
    """Goes through the SDK's own types, which forbid what they don't know."""
    arguments = sdk_arguments(body)
    types.GenerateContentConfig.model_validate(arguments["config"])
    for content in arguments["contents"]:
        types.Content.model_validate(content)


def contents_of(*messages, **facts):
    return body_of(*messages, **facts)["contents"]


def call(name="get_weather", arguments=None, call_id="a", **facts):
    return ToolCall(name, arguments or {}, call_id, provider_metadata=OURS, **facts)


class TestContents:
    def test_a_text_is_the_users(self):
        assert contents_of() == [{"role": "user", "parts": [{"text": "Hello."}]}]

    def test_turns_of_one_side_become_one(self):
        said = contents_of(Message.user("a"), Message.user("b"), Message.assistant("c"), Message.assistant("d"))

        assert [(each["role"], len(each["parts"])) for each in said] == [("user", 2), ("model", 2)]

    def test_empty_messages_are_left_out(self):
        assert contents_of(Message.user(""), Message.assistant(), Message.user("a")) == [
            {"role": "user", "parts": [{"text": "a"}]}
        ]

    def test_nothing_to_say_is_an_error(self):
        with pytest.raises(ExportError, match="no message says anything"):
            Gemini().request(ModelRequest([Message.user("")]))

    def test_the_system_stands_before(self):
        body = body_of(Message.system("And this."), Message.user("a"), instructions=("Be kind.", "", "Be brief."))

        assert body["systemInstruction"] == {"parts": [{"text": "Be kind.\n\nBe brief.\n\nAnd this."}]}
        assert [each["role"] for each in body["contents"]] == ["user"]

    def test_a_system_message_amid_the_conversation_is_the_users(self):
        assert contents_of(Message.user("a"), Message.assistant("b"), Message.system("c"))[2] == {
            "role": "user",
            "parts": [{"text": "c"}],
        }

    def test_media_of_the_user(self):
        parts = contents_of(
            Message.user(
                PNG,
                AudioContent(b"RIFF"),
                FileContent("a.pdf", b"%PDF", "application/pdf"),
                FileContent("a.txt", "words", "text/plain"),
                FileContent("a.bin", b"12345"),
                LinkContent("gs://bucket/a.mp4", "a", "video/mp4"),
                LinkContent("gs://bucket/b", "b"),
                LinkContent("https://example.com/a", "a page", "text/html"),
            )
        )[0]["parts"]

        assert parts == [
            {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}},
            {"inlineData": {"mimeType": "audio/wav", "data": base64.b64encode(b"RIFF").decode()}},
            {"inlineData": {"mimeType": "application/pdf", "data": base64.b64encode(b"%PDF").decode()}},
            {"text": "[file a.txt]\nwords"},
            {"text": "[file a.bin (5 bytes) that can't be shown here]"},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/a.mp4"}},
            {"fileData": {"fileUri": "gs://bucket/b"}},
            {"text": "[link to a page (text/html): https://example.com/a]"},
        ]

    def test_what_gemini_wants_back_goes_back_in_its_part(self):
        signed = {"gemini": {"thoughtSignature": "c2ln", "partMetadata": {"a": 1}}}
        message = Message.assistant(
            TextPart("words", provider_metadata=signed),
            TextPart("", provider_metadata=signed),
            MediaPart(PNG, signed),
            ReasoningPart("thought", signed),
            CallPart(ToolCall("get_weather", {}, "a", provider_metadata=signed)),
        )

        parts = contents_of(Message.user("x"), message)[1]["parts"]

        assert [part["thoughtSignature"] for part in parts] == ["c2ln"] * 5
        assert all(part["partMetadata"] == {"a": 1} for part in parts)
        assert parts[1]["text"] == ""
        assert parts[3]["thought"] is True

    def test_thoughts_of_gemini_go_back_and_those_of_others_do_not(self):
        message = Message.assistant(
            ReasoningPart("mine", {"gemini": {"thought": True}}), ReasoningPart("theirs", {"anthropic": {}}), "words"
        )

        assert contents_of(Message.user("x"), message)[1]["parts"] == [
            {"text": "mine", "thought": True},
            {"text": "words"},
        ]

    @pytest.mark.parametrize("metadata", [{"gemini": 3}, {"gemini": None}, {"gemini": {"text": "forged"}}])
    def test_metadata_of_another_form_is_passed_over(self, metadata):
        message = Message.assistant(TextPart("words", provider_metadata=metadata))

        assert contents_of(Message.user("x"), message)[1]["parts"] == [{"text": "words"}]

    def test_hosted_items_go_back_unchanged_and_those_of_others_stay(self):
        code = {"executableCode": {"code": "1+1", "language": "PYTHON"}, "thoughtSignature": "c2ln"}
        message = Message.assistant(HostedPart("gemini", code), HostedPart("openai", {"type": "web_search_call"}), "2")

        assert contents_of(Message.user("x"), message)[1]["parts"] == [code, {"text": "2"}]

    def test_a_call_that_its_provider_ran_is_left_out_and_its_result_told(self):
        ran = CallPart(ToolCall("web", {}, "w", provider_executed=True))
        message = Message.assistant(ran, ResultPart("w", "web", ToolResult("found")), "words")

        assert contents_of(Message.user("x"), message)[1]["parts"] == [
            {"text": "[result of web]\nfound"},
            {"text": "words"},
        ]


class TestCalls:
    def said(self, *calls, **facts):
        parts = contents_of(Message.user("x"), Message.assistant(*calls), **facts)[1]["parts"]
        return [part["functionCall"] for part in parts]

    def test_a_call(self):
        assert self.said(call(arguments={"city": "Oslo"})) == [
            {"name": "get_weather", "args": {"city": "Oslo"}, "id": "a"}
        ]

    @pytest.mark.parametrize("text", ['{"city": "Oslo"}', b'{"city": "Oslo"}'])
    def test_arguments_as_text(self, text):
        assert self.said(call(arguments=text))[0]["args"] == {"city": "Oslo"}

    @pytest.mark.parametrize("text", ["{oops", "[1]", '{"a": NaN}'])
    def test_arguments_that_were_no_object(self, text):
        fault = CallFault("invalid_arguments", "no JSON")

        assert self.said(call(arguments=text, error=fault))[0]["args"] == {"INVALID_JSON": text}

    def test_of_endless_arguments_the_beginning_is_said(self):
        args = self.said(call(arguments="[" * 100_000))[0]["args"]

        assert args == {"INVALID_JSON": "[" * MOST_SAID + " … (100,000 characters)"}

    def test_blank_arguments_are_none(self):
        assert self.said(call(arguments=" "))[0]["args"] == {}

    def test_a_call_without_an_id_has_none(self):
        assert "id" not in self.said(call(call_id=""))[0]

    def test_an_id_that_was_made_here_stays_here(self):
        made = ToolCall("get_weather", {}, "call_0", provider_metadata={"gemini": {"original_id": ""}})
        said = contents_of(Message.user("x"), Message.assistant(made), Message.tool([(made, ToolResult("sunny"))]))

        assert "id" not in said[1]["parts"][0]["functionCall"]
        assert "id" not in said[2]["parts"][0]["functionResponse"]

    def test_a_name_that_gemini_does_not_take_is_mapped_the_same_everywhere(self):
        foreign = call(name="not a name!")
        said = contents_of(Message.user("x"), Message.assistant(foreign), Message.tool([(foreign, ToolResult("no"))]))

        name = said[1]["parts"][0]["functionCall"]["name"]
        assert GeminiLimits().takes_name(name)
        assert said[2]["parts"][0]["functionResponse"]["name"] == name

    def parts(self, *calls, **facts):
        return contents_of(Message.user("x"), Message.assistant("Well,", *calls), **facts)[1]["parts"]

    def test_the_first_call_of_another_provider_says_that_it_is_not_validated(self):
        foreign = [ToolCall("a", {}, "1", provider_metadata={"openai": {}}), ToolCall("b", {}, "2")]

        assert [part.get("thoughtSignature") for part in self.parts(*foreign)] == [None, SKIP, None]

    @pytest.mark.parametrize("model", ["gemini-2.5-pro", "models/gemini-2.0-flash"])
    def test_older_models_are_told_no_such_thing(self, model):
        assert all("thoughtSignature" not in part for part in self.parts(ToolCall("a", {}, "1"), model=model))

    def test_a_host_may_turn_it_off(self):
        request = ModelRequest([Message.user("x"), Message.assistant(ToolCall("a", {}, "1"))])

        assert SKIP not in str(Gemini(GeminiLimits(unvalidated=None)).request(request))

    def test_calls_of_gemini_are_left_as_they_are(self):
        assert all("thoughtSignature" not in part for part in self.parts(call()))


class TestResults:
    def answer(self, result, **facts):
        said = contents_of(Message.user("x"), Message.assistant(call()), Message.tool([(call(), result)]), **facts)
        ((part,),) = (said[2]["parts"],)
        return part["functionResponse"]

    def test_text(self):
        assert self.answer(ToolResult("sunny")) == {
            "name": "get_weather",
            "id": "a",
            "response": {"output": "sunny"},
        }

    def test_an_error(self):
        assert self.answer(ToolResult.error("timeout", "too slow"))["response"] == {"error": "too slow"}
        assert self.answer(ToolResult((), is_error=True))["response"] == {"error": "failed"}

    def test_a_structured_object_stands_there_itself(self):
        result = ToolResult('{"sky": "blue"}', {"sky": "blue"})

        assert self.answer(result)["response"] == {"sky": "blue"}
        assert self.answer(ToolResult((), {"sky": "blue"}))["response"] == {"sky": "blue"}

    @pytest.mark.parametrize("data", [[1, 2], "text", {"error": "none"}, {"output": 1}, 5])
    def test_what_is_no_object_or_could_be_taken_for_gemini_s_own_is_wrapped(self, data):
        assert self.answer(ToolResult((), data))["response"] == {"output": data}

    @pytest.mark.parametrize("text", ["cut: {", "other", '{"sky": "grey"}', "[" * 100_000])
    def test_where_the_text_says_something_else_the_text_counts(self, text):
        assert self.answer(ToolResult(text, {"sky": "blue"}))["response"] == {"output": text}

    def test_several_texts_beside_structured_data(self):
        assert self.answer(ToolResult(["{}", "and more"], {}))["response"] == {"output": "{}\nand more"}

    def test_media_stand_beside(self):
        result = ToolResult(["Look:", PNG, AudioContent(b"RIFF"), FileContent("a.pdf", b"%PDF", "application/pdf")])

        answer = self.answer(result)

        assert answer["response"] == {"output": "Look:"}
        assert [part["inlineData"]["mimeType"] for part in answer["parts"]] == [
            "image/png",
            "audio/wav",
            "application/pdf",
        ]

    def test_media_that_gemini_does_not_take_are_told_in_words(self):
        result = ToolResult(
            [FileContent("a.zip", b"12", "application/zip"), LinkContent("https://x", "x"), FileContent("a", "text")]
        )

        answer = self.answer(result)

        assert "parts" not in answer
        assert answer["response"] == {
            "output": "[file a.zip (application/zip, 2 bytes) that can't be shown here]\n[link to x: https://x]\n"
            "[file a]\ntext"
        }

    def test_pictures_may_be_refused_by_the_limits(self):
        request = ModelRequest(
            [Message.user("x"), Message.assistant(call()), Message.tool([(call(), ToolResult([PNG]))])]
        )

        body = Gemini(GeminiLimits(result_media=())).request(request)

        response = body["contents"][2]["parts"][0]["functionResponse"]
        assert response["response"] == {"output": "[an image (image/png, 4 bytes) that can't be shown here]"}

    def test_results_stand_in_the_order_of_their_calls(self):
        calls = [call(call_id="1"), call(name="b", call_id="2"), call(name="c", call_id="3")]
        said = contents_of(
            Message.user("x"),
            Message.assistant(*calls),
            Message.tool([(calls[2], ToolResult("third"))]),
            Message.tool([(calls[0], ToolResult("first")), (calls[1], ToolResult("second"))]),
            Message.user("Go on."),
        )

        answers = [part["functionResponse"] for part in said[2]["parts"]]
        assert [(each["id"], each["name"]) for each in answers] == [("1", "get_weather"), ("2", "b"), ("3", "c")]
        assert said[3] == {"role": "user", "parts": [{"text": "Go on."}]}

    def test_the_same_id_twice_is_answered_in_order(self):
        calls = [call(name="a", call_id="1"), call(name="b", call_id="1")]
        results = [ResultPart("1", "a", ToolResult("A")), ResultPart("1", "b", ToolResult("B"))]
        said = contents_of(Message.user("x"), Message.assistant(*calls), Message("tool", results))

        assert [part["functionResponse"]["name"] for part in said[2]["parts"]] == ["a", "b"]

    def test_a_result_without_a_call_comes_last(self):
        results = [ResultPart("?", "b", ToolResult("B")), ResultPart("a", "get_weather", ToolResult("A"))]
        said = contents_of(Message.user("x"), Message.assistant(call()), Message("tool", results))

        assert [part["functionResponse"]["name"] for part in said[2]["parts"]] == ["get_weather", "b"]

    def test_other_parts_of_a_tool_message_follow_in_a_turn_of_their_own(self):
        parts = [ResultPart("a", "get_weather", ToolResult("A")), TextPart("A note.")]
        said = contents_of(Message.user("x"), Message.assistant(call()), Message("tool", parts))

        assert [len(each["parts"]) for each in said[2:]] == [1, 1]
        assert said[3]["parts"] == [{"text": "A note."}]

    def test_ids_that_come_again_in_a_later_turn_are_their_own(self):
        first = ToolCall("a", {}, "call_0", provider_metadata={"gemini": {"original_id": ""}})
        second = ToolCall("a", {}, "call_0", provider_metadata={"gemini": {}})
        said = contents_of(
            Message.user("x"),
            Message.assistant(first),
            Message.tool([(first, ToolResult("1"))]),
            Message.assistant(second),
            Message.tool([(second, ToolResult("2"))]),
        )

        assert "id" not in said[2]["parts"][0]["functionResponse"]
        assert said[4]["parts"][0]["functionResponse"]["id"] == "call_0"


class TestToolChoice:
    def config(self, choice, specs=(WEATHER,), **facts):
        return body_of(specs=specs, tool_choice=choice, **facts).get("toolConfig")

    def test_each_choice(self):
        assert self.config("auto") is None
        assert self.config("none") == {"functionCallingConfig": {"mode": "NONE"}}
        assert self.config("required") == {"functionCallingConfig": {"mode": "ANY"}}
        assert self.config(NamedTool("get_weather")) == {
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}
        }

    def test_strictly_calls_are_validated(self):
        assert self.config("auto", config=ModelConfig(strict=True)) == {"functionCallingConfig": {"mode": "VALIDATED"}}

    @pytest.mark.parametrize("choice", ["auto", "none"])
    def test_without_functions_nothing_is_said(self, choice):
        assert self.config(choice, ()) is None
        assert self.config(choice, [SEARCH]) is None

    @pytest.mark.parametrize("choice", ["required", NamedTool("get_weather")])
    @pytest.mark.parametrize("specs", [(), (SEARCH,)])
    def test_a_call_of_what_is_not_there_can_not_be_required(self, choice, specs):
        with pytest.raises(ExportError):
            self.config(choice, specs)

    def test_a_tool_that_gemini_hosts_can_not_be_required(self):
        with pytest.raises(ExportError, match="search"):
            self.config(NamedTool("search"), [WEATHER, SEARCH])

    def test_functions_beside_native_tools(self):
        body = body_of(specs=[WEATHER, SEARCH])

        assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
        assert [list(entry) for entry in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]


class TestConfig:
    def test_nothing_asked_is_nothing_said(self):
        assert set(body_of()) == {"contents"}

    def test_everything(self):
        config = ModelConfig(
            max_output_tokens=9, temperature=0.5, top_p=0.9, stop=("END",), seed=7, parallel_calls=True
        )

        assert body_of(config=config, model="gemini-3-pro") == {
            "model": "gemini-3-pro",
            "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
            "generationConfig": {
                "maxOutputTokens": 9,
                "temperature": 0.5,
                "topP": 0.9,
                "seed": 7,
                "stopSequences": ["END"],
            },
        }

    @pytest.mark.parametrize(
        ("model", "reasoning", "said"),
        [
            ("gemini-3-pro", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
            (None, "none", {"thinkingLevel": "MINIMAL"}),
            ("gemini-2.5-pro", "low", {"thinkingBudget": 1024, "includeThoughts": True}),
            ("gemini-2.5-pro", "none", {"thinkingBudget": 0}),
        ],
    )
    def test_reasoning(self, model, reasoning, said):
        body = body_of(model=model, config=ModelConfig(reasoning=reasoning))

        assert body["generationConfig"] == {"thinkingConfig": said}

    def test_options_of_the_provider_come_last_and_into_what_is_there(self):
        options = {
            "google": {"safetySettings": []},
            "gemini": {"generationConfig": {"temperature": 1.0}},
            "openai": {"user": "x"},
        }
        config = ModelConfig(temperature=0.5, top_p=0.9, provider_options=options)

        body = Gemini().request(ModelRequest("Hello.", config=config))

        assert body["safetySettings"] == []
        assert body["generationConfig"] == {"temperature": 1.0, "topP": 0.9}
        assert "user" not in body

    def test_the_body_is_the_callers_own(self):
        request = ModelRequest("Hello.", config=ModelConfig(provider_options={"gemini": {"labels": {"a": "b"}}}))

        Gemini().request(request)["labels"]["a"] = "changed"

        assert Gemini().request(request)["labels"] == {"a": "b"}

    def test_the_older_exporter_writes_the_same_but_for_schemas(self):
        tools = asyncio.run(resolve_tools([Tool(WEATHER)], ()))
        request = ModelRequest([Message.user("x"), Message.assistant(call())], tools=tools)

        new, old = Gemini().request(request), GeminiSchema().request(request)

        assert new["contents"] == old["contents"]
        assert "parameters" in old["tools"][0]["functionDeclarations"][0]


class TestForTheSdk:
    def test_a_body_is_parted_into_what_the_client_takes(self):
        body = body_of(specs=[WEATHER], model="m", instructions="s", config=ModelConfig(seed=1), tool_choice="none")

        arguments = sdk_arguments(body)

        assert set(arguments) == {"model", "contents", "config"}
        assert set(arguments["config"]) == {
            "automaticFunctionCalling",
            "systemInstruction",
            "tools",
            "toolConfig",
            "seed",
        }

    def test_a_body_without_a_model_has_none(self):
        assert set(sdk_arguments(body_of())) == {"contents", "config"}
