"""Answers of Gemini that come in chunks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard.messages.message import HostedPart, ReasoningPart, TextPart
from pegboard.messages.response import CallDelta, ModelResponse, ReasoningDelta, TextDelta, Usage
from pegboard.wire.bodies import EARLY, Room
from pegboard_google._gemini_answers import GeminiReader
from pegboard_google.gemini import Gemini
from strategies import json_values


def chunk(*parts, **candidate):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **candidate}]}


END = chunk(finishReason="STOP") | {"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m", "responseId": "r"}


def streamed(*chunks, broken=None):
    reader = Gemini().reader()
    deltas = [delta for each in chunks for delta in reader.feed(each)]
    return reader.response(broken=broken), deltas


class TestWords:
    def test_pieces_of_text_become_one_part(self):
        response, deltas = streamed(chunk({"text": "It "}), chunk({"text": "rains."}), END)

        assert response.parts == (TextPart("It rains."),)
        assert deltas == [TextDelta("It "), TextDelta("rains.")]
        assert (response.finish_reason, response.complete, response.interrupted) == ("stop", True, False)
        assert (response.usage, response.model, response.id) == (Usage(3), "m", "r")

    def test_thoughts_and_words_stay_apart(self):
        thought = {"text": "Hm", "thought": True}
        response, deltas = streamed(chunk(thought), chunk(thought), chunk({"text": "a"}), chunk(thought), END)

        assert [(type(part), part.text) for part in response.parts] == [
            (ReasoningPart, "HmHm"),
            (TextPart, "a"),
            (ReasoningPart, "Hm"),
        ]
        assert deltas[0] == ReasoningDelta("Hm")

    def test_a_part_with_a_signature_stays_by_itself(self):
        signed = {"text": "", "thoughtSignature": "c2ln"}
        response, _ = streamed(chunk({"text": "a"}), chunk({"text": "b"}), chunk(signed), chunk({"text": "c"}), END)

        assert [(part.text, bool(part.provider_metadata)) for part in response.parts] == [
            ("ab", False),
            ("", True),
            ("c", False),
        ]

    def test_what_stands_between_parts_them(self):
        code = {"executableCode": {"code": "1"}}
        response, _ = streamed(chunk({"text": "a"}, code, {"text": "b"}), END)

        assert [type(part) for part in response.parts] == [TextPart, HostedPart, TextPart]

    def test_empty_pieces_say_nothing(self):
        response, deltas = streamed(chunk({"text": ""}), END)

        assert (response.parts, deltas) == ((), [])

    def test_words_without_end_are_cut(self):
        reader = GeminiReader(Room(12))
        for piece in (*[chunk({"text": "12345"})] * 5, END):
            reader.feed(piece)
        response = reader.response()

        assert response.text == "123451234512"
        assert (response.finish_reason, response.complete, response.interrupted) == ("length", False, False)


class TestCalls:
    def test_calls_come_whole(self):
        parts = [{"functionCall": {"name": "f", "args": {"a": 1}}}, {"functionCall": {"name": "g", "id": "x"}}]

        response, deltas = streamed(chunk({"text": "Well."}, parts[0]), chunk(parts[1]), END)

        assert [(call.name, call.id, call.arguments) for call in response.calls] == [
            ("f", "call_0", {"a": 1}),
            ("g", "x", {}),
        ]
        assert deltas[1:] == [CallDelta(0, '{"a":1}', "call_0", "f"), CallDelta(1, "{}", "x", "g")]
        assert response.finish_reason == "tool_calls"

    def test_a_finish_reason_may_come_with_the_call(self):
        response, _ = streamed(chunk({"functionCall": {"name": "f"}}, finishReason="STOP"))

        assert (response.finish_reason, response.complete) == ("tool_calls", True)

    def test_ids_are_told_apart_across_chunks(self):
        call = chunk({"functionCall": {"name": "f", "id": "x"}})

        assert [each.id for each in streamed(call, call, END)[0].calls] == ["x", "x_2"]


def piece(path, **value):
    return {"jsonPath": path, **value}


def open_call(*pieces, name="", more=True, **facts):
    said = {"partialArgs": list(pieces), **facts}
    if name:
        said["name"] = name
    if more:
        said["willContinue"] = True
    return chunk({"functionCall": said})


class TestArgumentsInPieces:
    def call(self, *chunks):
        response, deltas = streamed(*chunks, END)
        (call,) = response.calls
        assert json.loads("".join(delta.arguments for delta in deltas)) == call.arguments
        return call

    def test_values_are_put_together(self):
        call = self.call(
            open_call(name="f", id="x"),
            open_call(piece("$.city", stringValue="Os", willContinue=True)),
            open_call(piece("$.city", stringValue="lo")),
            open_call(piece("$.days", numberValue=3), piece("$.wet", boolValue=False)),
            open_call(piece("$.none", nullValue="NULL_VALUE")),
            open_call(piece("$.list[0].a", stringValue="x"), piece("$.list[1]['b.c']", stringValue="y")),
            open_call(piece('$.list[1]["d"][0]', numberValue=1.5), piece("$.list[0].a", stringValue="z")),
            chunk({"functionCall": {}}),
        )

        assert (call.name, call.id, call.error) == ("f", "x", None)
        assert call.arguments == {
            "city": "Oslo",
            "days": 3,
            "wet": False,
            "none": None,
            "list": [{"a": "z"}, {"b.c": "y", "d": [1.5]}],
        }

    def test_the_last_piece_may_end_it(self):
        call = self.call(open_call(piece("$.a", numberValue=1), name="f", more=False))

        assert call.arguments == {"a": 1}

    def test_whole_arguments_may_come_at_the_end(self):
        call = self.call(open_call(name="f"), chunk({"functionCall": {"args": {"a": 1}}}))

        assert call.arguments == {"a": 1}

    @pytest.mark.parametrize(
        "path",
        ["", "a", "$", "$.", "$a", "$[5]", "$.a[1]", "$.a[0][0].b.c[7]", "$.s.x", "$.s[0]", "$.a'", "$" + ".a" * 65],
    )
    def test_a_place_that_can_not_be(self, path):
        call = self.call(
            open_call(piece("$.s", stringValue="text"), name="f"),
            open_call(piece(path, numberValue=1)),
            open_call(piece("$.t", numberValue=1), more=False),
        )

        assert call.error.kind == "invalid_arguments"
        assert "t" not in call.arguments

    def test_pieces_without_end_are_bounded(self):
        response, _ = streamed(
            open_call(name="f"), *[open_call(piece("$.a", stringValue="x" * 4096))] * 300, open_call(more=False), END
        )

        (call,) = response.calls
        assert call.error.kind == "invalid_arguments"
        assert len(call.arguments["a"]) <= 1 << 20

    def test_a_call_without_a_name(self):
        (call,) = streamed(chunk({"functionCall": {"partialArgs": []}}), END)[0].calls

        assert (call.name, call.error.kind) == ("", "unknown_tool")

    def test_another_call_ends_one_that_is_open(self):
        response, deltas = streamed(
            open_call(piece("$.a", numberValue=1), name="f"), chunk({"functionCall": {"name": "g"}}), END
        )

        assert [(call.name, call.error and call.error.kind) for call in response.calls] == [
            ("f", "cut_off"),
            ("g", None),
        ]
        assert [delta.index for delta in deltas] == [0, 1]

    def test_a_stream_that_ends_within_a_call(self):
        response, _ = streamed(
            chunk({"functionCall": {"name": "f", "args": {}}}), open_call(piece("$.a", numberValue=1), name="g")
        )

        assert [(call.name, call.arguments, call.invalid) for call in response.calls] == [
            ("f", {}, False),
            ("g", {"a": 1}, True),
        ]
        assert (response.complete, response.interrupted) == (False, True)


class TestEnd:
    def test_a_stream_without_an_end(self):
        response, _ = streamed(chunk({"text": "a"}))

        assert (response.finish_reason, response.complete, response.interrupted) == ("other", False, True)
        assert response.error_message == EARLY

    def test_a_stream_that_broke(self):
        response, _ = streamed(chunk({"text": "a"}), END, broken="ReadError: gone")

        assert (response.text, response.interrupted, response.error_message) == ("a", True, "ReadError: gone")

    def test_nothing_at_all(self):
        assert streamed()[0].interrupted

    def test_an_error_within_the_stream(self):
        error = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}

        response, _ = streamed(chunk({"text": "a"}), error)

        assert (response.text, response.finish_reason, response.error_code) == ("a", "error", "UNAVAILABLE")
        assert "Overloaded" in response.error_message
        assert not response.complete

    def test_a_blocked_prompt(self):
        response, _ = streamed({"promptFeedback": {"blockReason": "SAFETY"}})

        assert (response.finish_reason, response.interrupted, response.error_code) == (
            "content_filter",
            False,
            "SAFETY",
        )

    def test_a_filter_in_the_midst(self):
        response, _ = streamed(chunk({"text": "a"}), chunk(finishReason="SAFETY"))

        assert (response.finish_reason, response.complete, response.interrupted) == ("content_filter", False, False)

    @pytest.mark.parametrize("raw", [None, 5, "text", [], {}, {"a": 1}])
    def test_chunks_that_can_not_be_read_are_passed_over(self, raw):
        assert streamed(raw, chunk({"text": "a"}), END)[0].text == "a"

    def test_grounding_and_citations_come_when_they_do(self):
        grounding = {
            "groundingChunks": [{"web": {"uri": "https://a"}}],
            "groundingSupports": [{"segment": {"startIndex": 3, "endIndex": 8}, "groundingChunkIndices": [0]}],
        }
        cited = {"citations": [{"endIndex": 2, "uri": "https://b"}]}

        response, _ = streamed(
            chunk({"text": "It "}, citationMetadata=cited),
            chunk({"text": "rains."}),
            chunk(finishReason="STOP", groundingMetadata=grounding),
        )

        assert [(each.uri, each.start, each.end) for each in response.citations] == [
            ("https://a", 3, 8),
            ("https://b", 0, 2),
        ]
        assert response.grounding == grounding


STREAM = [
    chunk({"text": "Hm.", "thought": True}),
    chunk({"text": "Let "}),
    chunk({"text": "me look."}),
    chunk({"functionCall": {"name": "f", "id": "1", "args": {"a": 1}}, "thoughtSignature": "c2ln"}),
    open_call(piece("$.a", stringValue="x"), name="g", id="2"),
    open_call(piece("$.a", stringValue="y"), more=False),
    chunk({"functionCall": {"name": "h", "id": "3"}}),
    END,
]


@pytest.mark.parametrize("length", range(len(STREAM) + 1))
def test_a_stream_cut_anywhere_holds_the_complete_calls_before(length):
    whole, _ = streamed(*STREAM)

    response, _ = streamed(*STREAM[:length])

    complete = [call for call in response.calls if not call.invalid]
    assert complete == list(whole.calls[: len(complete)])
    assert len(complete) == sum(length > last for last in (3, 5, 6))
    assert response.interrupted is (length < len(STREAM))
    assert response.complete is not response.interrupted


@given(
    st.lists(
        json_values()
        | st.dictionaries(
            st.sampled_from(["text", "thought", "functionCall", "inlineData", "toolCall"]),
            json_values()
            | st.fixed_dictionaries(
                {},
                optional={
                    "name": json_values(),
                    "willContinue": st.booleans(),
                    "args": json_values(),
                    "partialArgs": json_values()
                    | st.lists(
                        st.fixed_dictionaries(
                            {
                                "jsonPath": st.sampled_from(["$.a", "$.a.b", "$[0]", "$.a[0]", "$.b[0].c"]) | st.text(),
                                "stringValue": json_values(),
                            }
                        )
                    ),
                },
            ),
        ).map(chunk),
        max_size=6,
    )
)
def test_feeding_anything_raises_nothing(chunks):
    response, deltas = streamed(*chunks, END)

    assert isinstance(response, ModelResponse)
    indices = [delta.index for delta in deltas if isinstance(delta, CallDelta)]
    assert set(indices) == set(range(len(response.calls)))
