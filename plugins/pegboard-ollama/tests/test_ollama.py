"""Requests of Ollama, and its answers, whole and in lines."""

from __future__ import annotations

import asyncio
import base64

import pytest

from pegboard import Tool, ToolSpec
from pegboard.errors import ExportError
from pegboard.messages.message import HostedPart, MediaPart, Message, ReasoningPart, ResultPart, TextPart
from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta, Usage
from pegboard.request.model_request import ModelConfig, ModelRequest, NamedTool
from pegboard.tools.call import ToolCall
from pegboard.tools.content import AudioContent, ImageContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard.wire.bodies import Room
from pegboard_ollama import ollama as answer
from pegboard_ollama.ollama import Conversation, Ollama, OllamaReader

CITY = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Tells.", CITY)
CLOCK = ToolSpec("clock", "Tells the time.")
PNG = ImageContent(b"\x89PNG")
PNG64 = base64.b64encode(b"\x89PNG").decode()
MADE = {"ollama": {"original_id": ""}}


def request_of(*messages, specs=(), **facts):
    tools = asyncio.run(resolve_tools([Tool(spec) for spec in specs], ())) if specs else None
    return ModelRequest(messages or "Hello.", tools=tools, **facts)


def body_of(*messages, **facts):
    return Ollama().request(request_of(*messages, **facts))


def said(*messages, **facts):
    return body_of(*messages, **facts)["messages"]


class TestTools:
    def test_a_function(self):
        exported = Ollama().tools([WEATHER])

        (entry,) = exported.entries
        assert entry["type"] == "function"
        assert entry["function"]["name"] == "weather"
        assert entry["function"]["parameters"]["properties"]["city"]["type"] == "string"
        assert exported.names == {"weather"}

    def test_what_is_lost_is_told(self):
        assert [loss.keyword for loss in Ollama().check(WEATHER)] == ["minLength"]
        assert Ollama().check(WEATHER, strict=True)[0].keyword == "strict"

    def test_a_tool_of_a_provider_is_refused(self):
        spec = ToolSpec("search", kind="provider", provider_id="openai.web_search")

        assert Ollama().tools([spec]).refused == {"search"}

    def test_options_of_the_provider_go_into_the_entry(self):
        (entry,) = Ollama().tools([WEATHER.evolve(provider_options={"ollama": {"extra": 1}})]).entries

        assert entry["extra"] == 1


class TestMessages:
    def test_the_system_stands_first(self):
        assert said(Message.user("a"), instructions=("Be kind.", "Be brief.")) == [
            {"role": "system", "content": "Be kind.\n\nBe brief."},
            {"role": "user", "content": "a"},
        ]

    def test_a_system_message_stays_where_it_is(self):
        assert said(Message.user("a"), Message.system("b"))[1] == {"role": "system", "content": "b"}

    def test_pictures_stand_beside_and_other_media_in_words(self):
        (message,) = said(Message.user("Look: ", PNG, AudioContent(b"RIFF")))

        assert message["images"] == [PNG64]
        assert message["content"] == "Look: \n[a sound (audio/wav, 4 bytes) that can't be shown here]\n"

    def test_a_picture_of_the_system_is_the_users(self):
        assert said(Message.user("a"), Message.system(PNG))[1]["role"] == "user"

    def test_empty_messages_are_left_out(self):
        assert said(Message.user(""), Message.assistant(""), Message.user("a")) == [{"role": "user", "content": "a"}]

    def test_nothing_to_say_is_an_error(self):
        with pytest.raises(ExportError, match="no message says anything"):
            body_of(Message.user(""), instructions="Be kind.")

    def test_thoughts_of_others_and_what_they_host_stay_there(self):
        message = Message.assistant(
            ReasoningPart("mine", {"ollama": {}}),
            ReasoningPart("theirs", {"gemini": {}}),
            HostedPart("openai", {"secret": 1}),
            "words",
        )

        assert said(Message.user("x"), message)[1] == {"role": "assistant", "content": "words", "thinking": "mine"}

    def test_a_picture_of_the_models(self):
        assert said(Message.user("x"), Message.assistant(PNG))[1] == {
            "role": "assistant",
            "content": "",
            "images": [PNG64],
        }

    def test_calls_and_their_results_in_the_order_of_the_calls(self):
        calls = [ToolCall("weather", '{"city": "Oslo"}', "1"), ToolCall("", {}, "call_0", provider_metadata=MADE)]
        messages = said(
            Message.user("x"),
            Message.assistant(*calls),
            Message.tool([(calls[1], ToolResult.error("timeout", "slow")), (calls[0], ToolResult(["rain", PNG]))]),
        )

        assert messages[1]["tool_calls"][0] == {
            "id": "1",
            "function": {"name": "weather", "arguments": {"city": "Oslo"}},
        }
        name = messages[1]["tool_calls"][1]["function"]["name"]
        assert "id" not in messages[1]["tool_calls"][1]
        assert name
        assert messages[2:] == [
            {"role": "tool", "tool_name": "weather", "content": "rain", "tool_call_id": "1", "images": [PNG64]},
            {"role": "tool", "tool_name": name, "content": "Error: slow"},
        ]

    def test_results_that_come_one_by_one_are_put_in_order(self):
        calls = [ToolCall("weather", {}, "1"), ToolCall("clock", {}, "2")]
        messages = said(
            Message.user("x"),
            Message.assistant(*calls),
            *(Message.tool([(call, ToolResult(call.name))]) for call in reversed(calls)),
            Message.user("Go on."),
        )

        assert [each["content"] for each in messages[2:]] == ["weather", "clock", "Go on."]

    @pytest.mark.parametrize(
        ("result", "text"),
        [
            (ToolResult((), {"a": 1}), '{"a":1}'),
            (ToolResult("cut", {"a": 1}), "cut"),
            (ToolResult(()), ""),
            (ToolResult((), is_error=True), "Error: failed"),
        ],
    )
    def test_results_are_text(self, result, text):
        call = ToolCall("weather", {}, "1")

        assert said(Message.user("x"), Message.assistant(call), Message.tool([(call, result)]))[2]["content"] == text

    def test_other_parts_of_a_tool_message_are_the_users(self):
        call = ToolCall("weather", {}, "1")
        message = Message("tool", [ResultPart("?", "weather", ToolResult("a")), TextPart("b")])

        assert said(Message.user("x"), Message.assistant(call), message)[2:] == [
            {"role": "tool", "tool_name": "weather", "content": "a", "tool_call_id": "?"},
            {"role": "user", "content": "b"},
        ]

    def test_a_result_in_a_models_message_is_told_in_words(self):
        message = Message.assistant(ResultPart("1", "web", ToolResult("found")))

        assert said(Message.user("x"), message)[1]["content"] == "\n[result of web]\nfound"

    def test_metadata_of_another_form_is_passed_over(self):
        call = ToolCall("weather", {}, "1", provider_metadata={"ollama": 5})
        forged = ToolCall("weather", {}, "2", provider_metadata={"ollama": {"original_id": 5}})

        calls = said(Message.user("x"), Message.assistant(call, forged))[1]["tool_calls"]
        assert [each.get("id") for each in calls] == ["1", None]


class TestBody:
    def test_everything(self):
        config = ModelConfig(
            max_output_tokens=9,
            temperature=0.5,
            top_p=0.9,
            stop=("END",),
            seed=7,
            reasoning="low",
            provider_options={"ollama": {"keep_alive": "5m", "options": {"num_ctx": 4096}}},
        )

        assert body_of(model="qwen3", config=config) == {
            "model": "qwen3",
            "messages": [{"role": "user", "content": "Hello."}],
            "options": {
                "num_predict": 9,
                "temperature": 0.5,
                "top_p": 0.9,
                "seed": 7,
                "stop": ["END"],
                "num_ctx": 4096,
            },
            "think": "low",
            "keep_alive": "5m",
        }

    def test_no_reasoning(self):
        assert body_of(config=ModelConfig(reasoning="none"))["think"] is False

    def test_choices(self):
        specs = [WEATHER, CLOCK]

        assert len(body_of(specs=specs)["tools"]) == 2
        assert "tools" not in body_of(specs=specs, tool_choice="none")
        required = body_of(specs=specs, tool_choice="required")
        assert (len(required["tools"]), required["messages"][0]["content"]) == (2, "Answer by calling a tool.")
        named = body_of(specs=specs, tool_choice=NamedTool("clock"), instructions="Be kind.")
        assert [each["function"]["name"] for each in named["tools"]] == ["clock"]
        assert named["messages"][0]["content"] == "Be kind.\n\nAnswer by calling the tool clock."

    @pytest.mark.parametrize("choice", ["required", NamedTool("other")])
    def test_a_call_of_what_is_not_there_can_not_be_required(self, choice):
        with pytest.raises(ExportError):
            body_of(tool_choice=choice)


def whole(**message):
    return {"model": "m", "message": {"role": "assistant", **message}, "done": True, "done_reason": "stop"}


class TestAnswers:
    def test_words_thoughts_and_calls(self):
        raw = whole(
            content="Well.",
            thinking="Hm.",
            tool_calls=[
                {"function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "x", "function": {"name": "g", "arguments": {}}},
                {"id": "x", "function": {"name": "g", "arguments": None}},
            ],
        )

        response = Ollama().response(raw | {"prompt_eval_count": 3, "eval_count": 4})

        assert response.parts[:2] == (ReasoningPart("Hm.", {"ollama": {}}), TextPart("Well."))
        assert [(call.name, call.id, call.arguments, call.provider_metadata) for call in response.calls] == [
            ("f", "call_0", {"a": 1}, MADE),
            ("g", "x", {}, None),
            ("g", "x_2", {}, {"ollama": {"original_id": "x"}}),
        ]
        assert (response.finish_reason, response.usage, response.model) == ("tool_calls", Usage(3, 4), "m")

    @pytest.mark.parametrize(
        ("word", "reason", "complete"), [("stop", "stop", True), ("length", "length", False), ("load", "other", True)]
    )
    def test_reasons(self, word, reason, complete):
        response = Ollama().response(whole(content="a") | {"done_reason": word})

        assert (response.finish_reason, response.complete) == (reason, complete)

    @pytest.mark.parametrize(("given", "text"), [("{oops", "{oops"), ([1], "[1]"), (5, "5")])
    def test_arguments_that_are_no_object(self, given, text):
        (call,) = Ollama().response(whole(tool_calls=[{"function": {"name": "f", "arguments": given}}])).calls

        assert call.arguments == text
        assert call.invalid is not isinstance(given, str)

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"x": float("nan")}, '{"x": NaN}'),
            ({"x": [{"y": float("inf")}]}, '{"x": [{"y": Infinity}]}'),
            ({"x": -float("inf")}, '{"x": -Infinity}'),
        ],
    )
    def test_numbers_that_json_does_not_have_make_a_call_invalid(self, given, text):
        (call,) = Ollama().response(whole(tool_calls=[{"function": {"name": "f", "arguments": given}}])).calls

        assert (call.invalid, call.error.kind, call.arguments) == (True, "invalid_arguments", text)
        assert "must be a finite number" in call.error.text
        assert Conversation().add([Message.assistant(call)])[0]["tool_calls"][0]["function"]["arguments"] == {
            "INVALID_JSON": text
        }

    def test_a_call_without_a_name(self):
        (call,) = Ollama().response(whole(tool_calls=[{}])).calls

        assert (call.name, call.error.kind) == ("", "unknown_tool")

    @pytest.mark.parametrize(
        ("data", "kind"),
        [
            (b"\x89PNG", "image/png"),
            (b"\xff\xd8x", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFFxxxx", "image/webp"),
            (b"?", "image/png"),
        ],
    )
    def test_pictures(self, data, kind):
        response = Ollama().response(whole(images=[base64.b64encode(data).decode(), "%", 5, "ä"]))

        assert response.parts == (MediaPart(ImageContent(data, kind)),)

    def test_an_error_is_told(self):
        error = answer.error_of({"error": "model 'x' not found"}, status=503, retry_after=1.0)

        assert str(error) == "ollama: model 'x' not found"
        assert (error.status, error.retryable, error.retry_after) == (503, True, 1.0)


def line(done=False, **message):
    return {"model": "m", "message": {"role": "assistant", **message}, "done": done}


LINES = [
    line(thinking="Hm."),
    line(content="It "),
    line(content="rains."),
    line(tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}]),
    line(tool_calls=[{"function": {"name": "g", "arguments": {}}}]),
    line(done=True) | {"done_reason": "stop", "eval_count": 2},
]


def streamed(*lines, broken=None):
    reader = Ollama().reader()
    deltas = [delta for each in lines for delta in reader.feed(each)]
    return reader.response(broken=broken), deltas


class TestStreams:
    def test_lines(self):
        response, deltas = streamed(*LINES)

        assert (response.text, response.finish_reason, response.usage) == ("It rains.", "tool_calls", Usage(0, 2))
        assert deltas == [
            ReasoningDelta("Hm."),
            TextDelta("It "),
            TextDelta("rains."),
            CallDelta(0, '{"a":1}', "call_0", "f"),
            CallDelta(1, "{}", "call_1", "g"),
        ]

    @pytest.mark.parametrize("length", range(len(LINES) + 1))
    def test_a_stream_cut_anywhere_holds_the_calls_before(self, length):
        response, _ = streamed(*LINES[:length])

        assert len(response.calls) == max(0, min(length - 3, 2))
        assert response.interrupted is (length < len(LINES))
        assert response.complete is not response.interrupted

    def test_an_error_within_the_stream(self):
        response, _ = streamed(LINES[1], {"error": "out of memory"})

        assert (response.finish_reason, response.text) == ("error", "It ")
        assert "out of memory" in response.error_message

    def test_words_without_end_are_cut(self):
        reader = OllamaReader(Room(10))
        for piece in (*[line(content="12345")] * 5, LINES[-1]):
            reader.feed(piece)
        response = reader.response()

        assert (response.text, response.finish_reason, response.complete) == ("1234512345", "length", False)
