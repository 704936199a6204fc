"""Answers of Gemini that came whole."""

from __future__ import annotations

import base64
import json

import pytest
from google.genai import types

from pegboard.errors import ModelError
from pegboard.messages.message import Citation, HostedPart, MediaPart, ReasoningPart, TextPart
from pegboard.messages.response import ModelResponse, Usage
from pegboard.request.model_request import ModelRequest
from pegboard.tools.content import AudioContent, FileContent, ImageContent, LinkContent
from pegboard_google._gemini import error_of
from pegboard_google._gemini_answers import response_of
from pegboard_google.gemini import Gemini


def raw_of(*parts, **facts):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", **facts}]}


def read(*parts, **facts):
    """Read, after it went through the SDK's own types, both ways of dumping them."""
    raw = raw_of(*parts, **facts)
    model = types.GenerateContentResponse.model_validate(raw)
    full, short = (model.model_dump(mode="json", by_alias=True, exclude_none=each) for each in (False, True))
    response = Gemini().response(full)
    assert Gemini().response(short).calls == response.calls
    return response


class TestParts:
    def test_words(self):
        assert read({"text": "Hello."}) == ModelResponse([TextPart("Hello.")], grounding={})

    def test_parts_stay_apart_in_an_answer_that_came_whole(self):
        assert read({"text": "a"}, {"text": "b"}).parts == (TextPart("a"), TextPart("b"))

    def test_thoughts(self):
        response = read({"text": "Hm.", "thought": True}, {"text": "Yes."})

        assert response.parts == (ReasoningPart("Hm.", {"gemini": {"thought": True}}), TextPart("Yes."))
        assert response.text == "Yes."

    def test_a_signature_stays_with_its_part(self):
        response = read({"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}, {"text": "b"})

        assert [part.provider_metadata for part in response.parts] == [{}, {"gemini": {"thoughtSignature": "c2ln"}}, {}]

    def test_a_signature_as_bytes_is_kept_as_base64(self):
        (part,) = response_of(raw_of({"text": "a", "thoughtSignature": b"\xfb\xff"})).parts

        assert part.provider_metadata == {"gemini": {"thoughtSignature": "-_8="}}

    def test_a_call(self):
        response = read({"functionCall": {"id": "x", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"})

        (call,) = response.calls
        assert (call.name, call.arguments, call.id, call.error) == ("f", {"a": 1}, "x", None)
        assert call.provider_metadata == {"gemini": {"thoughtSignature": "c2ln"}}
        assert (response.finish_reason, response.complete) == ("tool_calls", True)

    def test_calls_without_ids_get_some(self):
        calls = read({"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "g"}}).calls

        assert [(call.id, call.arguments) for call in calls] == [("call_0", {}), ("call_1", {})]
        assert calls[0].provider_metadata == {"gemini": {"original_id": ""}}

    def test_the_same_id_twice(self):
        calls = read(*({"functionCall": {"id": "x", "name": "f", "args": {}}},) * 3).calls

        assert [call.id for call in calls] == ["x", "x_2", "x_3"]
        assert [call.provider_metadata["gemini"].get("original_id") for call in calls] == [None, "x", "x"]

    def test_an_id_that_is_like_one_made_here(self):
        calls = read({"functionCall": {"id": "call_1", "name": "f"}}, {"functionCall": {"name": "f"}}).calls

        assert [call.id for call in calls] == ["call_1", "call_1_2"]

    @pytest.mark.parametrize(("args", "text"), [([1], "[1]"), ("{oops", "{oops"), (5, "5"), (True, "true")])
    def test_arguments_that_are_no_object(self, args, text):
        (call,) = response_of(raw_of({"functionCall": {"name": "f", "args": args}})).calls

        assert call.arguments == text
        assert (call.error is None) is isinstance(args, str)  # text is read by dispatch, which refuses it there

    def test_a_call_without_a_name(self):
        (call,) = response_of(raw_of({"functionCall": {"args": {"a": 1}}})).calls

        assert (call.name, call.arguments, call.error.kind) == ("", {"a": 1}, "unknown_tool")

    def test_media(self):
        blob = base64.b64encode(b"\xff\xfe\xfd").decode()
        response = read(
            {"inlineData": {"mimeType": "image/png", "data": blob}},
            {"inlineData": {"mimeType": "audio/wav", "data": blob}},
            {"inlineData": {"mimeType": "video/mp4", "data": blob}},
            {"fileData": {"fileUri": "gs://a", "mimeType": "image/png"}},
        )

        assert [part.content for part in response.parts] == [
            ImageContent(b"\xff\xfe\xfd", "image/png"),
            AudioContent(b"\xff\xfe\xfd", "audio/wav"),
            FileContent("file", b"\xff\xfe\xfd", "video/mp4"),
            LinkContent("gs://a", "gs://a", "image/png"),
        ]

    def test_media_as_bytes(self):
        raw = raw_of({"inlineData": {"mimeType": "image/png", "data": b"x"}})

        assert response_of(raw).parts == (MediaPart(ImageContent(b"x"), {"gemini": {}}),)

    @pytest.mark.parametrize("data", ["%%%", "ä", None, 5])
    def test_media_that_can_not_be_read_are_kept_as_they_are(self, data):
        part = {"inlineData": {"mimeType": "image/png", "data": data}}

        (hosted,) = response_of(raw_of(part)).parts

        assert isinstance(hosted, HostedPart)
        assert hosted.data["inlineData"]["mimeType"] == "image/png"

    def test_what_the_provider_ran_itself(self):
        parts = [
            {"executableCode": {"code": "1+1", "language": "PYTHON", "id": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2", "id": "1"}},
            {"toolCall": {"id": "2", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}}},
            {"toolResponse": {"id": "2", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}},
        ]

        response = read(*parts)

        assert [(part.role, part.name, part.id) for part in response.parts] == [
            ("call", "code_execution", "1"),
            ("result", "code_execution", "1"),
            ("call", "google_search_web", "2"),
            ("result", "google_search_web", "2"),
        ]
        assert response.calls == ()
        assert response.finish_reason == "stop"

    def test_parts_of_a_kind_that_is_not_known_are_kept(self):
        (part,) = response_of(raw_of({"newThing": {"a": 1}, "thoughtSignature": "c2ln", "other": None})).parts

        assert (part.provider, part.data) == ("gemini", {"newThing": {"a": 1}, "thoughtSignature": "c2ln"})

    def test_parts_that_say_nothing_are_passed_over(self):
        assert response_of(raw_of({}, {"text": None}, 5, None)).parts == ()

    def test_what_came_goes_back_as_it_came(self):
        parts = [
            {"text": "Hm.", "thought": True},
            {"text": "Well:", "thoughtSignature": "c2ln"},
            {"executableCode": {"code": "1+1", "language": "PYTHON"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "aW1n"},
            {"functionCall": {"id": "x", "name": "f", "args": {"a": 1}}, "thoughtSignature": "Y2Fs"},
            {"functionCall": {"id": "x", "name": "f", "args": {"a": 2}}},
            {"functionCall": {"name": "f", "args": {}}},
            {"text": "", "thoughtSignature": "ZW5k"},
        ]
        message = Gemini().response(raw_of(*parts)).message

        body = Gemini().request(ModelRequest([message]))

        assert body["contents"] == [{"role": "model", "parts": parts}]


class TestDumps:
    RAW = raw_of(
        {"text": "Hm.", "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": "_-8="}},
        {"executableCode": {"code": "1+1", "language": "PYTHON"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "x", "name": "f", "args": {"some_key": {"other_key": 1}}}, "thoughtSignature": "c2ln"},
        finishReason="STOP",
        groundingMetadata={
            "groundingChunks": [{"retrievedContext": {"uri": "https://a"}}],
            "groundingSupports": [{"groundingChunkIndices": [0], "segment": {"startIndex": 1}}],
        },
    ) | {"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"}

    @pytest.mark.parametrize("mode", ["json", "python"])
    @pytest.mark.parametrize("by_alias", [False, True])
    def test_of_the_sdk_s_own_model_any_dump_will_do(self, mode, by_alias):
        model = types.GenerateContentResponse.model_validate(self.RAW)

        response = Gemini().response(model.model_dump(mode=mode, by_alias=by_alias, exclude_none=True))

        assert response == Gemini().response(self.RAW)
        assert ModelResponse.from_json(json.loads(json.dumps(response.to_json()))) == response
        assert response.calls[0].arguments == {"some_key": {"other_key": 1}}
        assert response.calls[0].provider_metadata == {"gemini": {"thoughtSignature": "c2ln"}}

    def test_with_everything_that_is_not_set(self):
        model = types.GenerateContentResponse.model_validate(self.RAW)
        reader = Gemini().reader()

        reader.feed(model.model_dump())

        assert [call.arguments for call in reader.response().calls] == [{"some_key": {"other_key": 1}}]
        assert reader.response().usage == Usage(3)

    def test_what_is_deeper_than_the_provider_s_words_stays(self):
        deep = {"a_b": 1}
        for _ in range(50_000):
            deep = {"a_b": deep}

        raw = raw_of({"function_call": {"name": "f", "args": deep}, "new_thing": deep, 5: 6})
        (call,) = response_of(raw).calls

        assert call.arguments is not None
        assert "a_b" in call.arguments


class TestEnd:
    @pytest.mark.parametrize(
        ("word", "reason", "complete"),
        [
            ("STOP", "stop", True),
            ("MAX_TOKENS", "length", False),
            ("SAFETY", "content_filter", False),
            ("MALFORMED_FUNCTION_CALL", "error", False),
            ("OTHER", "other", True),
            ("CONTINUATION", "pause", True),
            ("SOMETHING_NEW", "other", True),
        ],
    )
    def test_reasons(self, word, reason, complete):
        response = response_of(raw_of({"text": "a"}, finishReason=word))

        assert (response.finish_reason, response.complete) == (reason, complete)

    @pytest.mark.parametrize("word", [each.value for each in types.FinishReason])
    def test_every_reason_of_the_sdk_is_read(self, word):
        assert response_of(raw_of(finishReason=word)).finish_reason

    def test_a_cut_off_answer_keeps_its_calls_and_is_not_complete(self):
        response = read({"functionCall": {"name": "f", "args": {}}}, finishReason="MAX_TOKENS")

        assert (len(response.calls), response.complete, response.error_code) == (1, False, None)

    def test_what_went_wrong_is_told(self):
        response = read(finishReason="UNEXPECTED_TOOL_CALL", finishMessage="no tools were there")

        assert (response.error_code, response.error_message) == ("UNEXPECTED_TOOL_CALL", "no tools were there")

    def test_a_blocked_prompt(self):
        raw = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}, "usageMetadata": {}}

        response = Gemini().response(raw)

        assert (response.finish_reason, response.complete, response.parts) == ("content_filter", False, ())
        assert (response.error_code, response.error_message) == ("SAFETY", "no")
        assert response.custom_metadata == {"gemini": {"promptFeedback": raw["promptFeedback"]}}

    def test_no_candidate(self):
        response = Gemini().response({"candidates": [], "usageMetadata": {}})

        assert (response.finish_reason, response.complete) == ("error", False)
        assert response.error_message == "the answer holds no candidate"

    def test_of_several_candidates_the_first_is_read(self):
        raw = {"candidates": [*raw_of({"text": "a"})["candidates"], *raw_of({"text": "b"})["candidates"]]}

        assert Gemini().response(raw).text == "a"

    def test_usage_and_names(self):
        usage = {
            "promptTokenCount": 10,
            "toolUsePromptTokenCount": 2,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 3,
            "cachedContentTokenCount": 4,
            "totalTokenCount": 20,
        }
        response = Gemini().response(raw_of() | {"usageMetadata": usage, "modelVersion": "m", "responseId": "r"})

        assert response.usage == Usage(12, 8, 4, 0, 3)
        assert (response.model, response.id) == ("m", "r")

    @pytest.mark.parametrize("count", [-1, "5", 1.5, True, None])
    def test_counts_that_are_none(self, count):
        raw = raw_of() | {"usageMetadata": {"promptTokenCount": count}}

        assert Gemini().response(raw).usage == Usage()

    def test_what_stands_beside(self):
        beside = {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}], "avgLogprobs": -1}

        response = Gemini().response(raw_of(**beside))

        assert response.custom_metadata == {"gemini": beside}


CHUNKS = [
    {"web": {"uri": "https://a", "title": "A"}},
    {"retrievedContext": {"uri": "https://b", "title": "B", "text": "said there"}},
    {"image": {"sourceUri": "https://c", "title": "C"}},
    {},
]


class TestCitations:
    def cited(self, parts, supports):
        grounding = {"groundingChunks": CHUNKS, "groundingSupports": supports, "webSearchQueries": ["q"]}
        response = read(*parts, groundingMetadata=grounding)
        assert response.grounding["webSearchQueries"] == ["q"]
        return [
            [(each.uri, each.title, each.text, each.start, each.end) for each in part.citations]
            for part in response.parts
            if isinstance(part, TextPart)
        ]

    def test_places_are_counted_in_characters(self):
        text = "Grüße: it rains."
        start = len("Grüße: ".encode())
        support = {"segment": {"startIndex": start, "endIndex": start + 8, "text": "it rains"}}

        cited = self.cited([{"text": text}], [{**support, "groundingChunkIndices": [0, 1]}])

        assert cited == [[("https://a", "A", None, 7, 15), ("https://b", "B", "said there", 7, 15)]]

    def test_the_part_is_the_one_that_says_it(self):
        parts = [{"text": "Hm.", "thought": True}, {"text": "It rains."}, {"text": "It pours."}]
        segment = {"startIndex": 0, "endIndex": 8, "text": "It pours"}

        assert self.cited(parts, [{"segment": segment, "groundingChunkIndices": [2]}]) == [
            [],
            [("https://c", "C", None, 0, 8)],
        ]

    def test_the_part_is_the_one_that_is_named(self):
        parts = [{"text": "same words"}, {"text": "same words"}]
        segment = {"partIndex": 1, "endIndex": 4, "text": "same"}

        assert self.cited(parts, [{"segment": segment, "groundingChunkIndices": [0]}]) == [
            [],
            [("https://a", "A", None, 0, 4)],
        ]

    @pytest.mark.parametrize(
        "segment",
        [
            {"startIndex": 5, "endIndex": 2},
            {"startIndex": 0, "endIndex": 99},
            {"startIndex": 0, "endIndex": 2, "text": "zz"},
            {"startIndex": 1, "endIndex": 2},
            {},
        ],
    )
    def test_a_place_that_is_none_is_left_out(self, segment):
        assert self.cited([{"text": "ü rains"}], [{"segment": segment, "groundingChunkIndices": [0]}]) == [
            [("https://a", "A", None, None, None)]
        ]

    def test_chunks_that_are_not_there_are_passed_over(self):
        supports = [{"segment": {"endIndex": 2}, "groundingChunkIndices": [9, -1, 3]}]

        assert self.cited([{"text": "abc"}], supports) == [[(None, None, None, 0, 2)]]

    def test_what_the_provider_wrote_is_kept(self):
        support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [0]}
        grounding = {"groundingChunks": CHUNKS, "groundingSupports": [support]}

        (citation,) = response_of(raw_of({"text": "ab"}, groundingMetadata=grounding)).citations

        assert citation.data == {"gemini": {"chunk": CHUNKS[0], "support": support}}

    def test_citations_of_what_was_recited(self):
        cited = {"citations": [{"startIndex": 0, "endIndex": 2, "uri": "https://a", "license": "MIT"}]}

        (part,) = read({"text": "abc"}, citationMetadata=cited).parts

        assert [(each.uri, each.start, each.end) for each in part.citations] == [("https://a", 0, 2)]
        assert part.citations[0].data["gemini"]["license"] == "MIT"

    def test_without_words_there_is_nothing_to_cite(self):
        grounding = {"groundingChunks": CHUNKS, "groundingSupports": [{"groundingChunkIndices": [0]}]}

        assert read({"functionCall": {"name": "f"}}, groundingMetadata=grounding).citations == ()

    def test_more_than_are_read_are_left_in_the_grounding(self):
        grounding = {
            "groundingChunks": CHUNKS,
            "groundingSupports": [{"segment": {"endIndex": 2}, "groundingChunkIndices": [0] * 5000}],
        }

        response = response_of(raw_of({"text": "abc"}, groundingMetadata=grounding))

        assert len(response.citations) == 1000
        assert isinstance(response.citations[0], Citation)


class TestErrors:
    def test_an_error_body(self):
        body = {
            "error": {
                "code": 429,
                "message": "Too many.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {"@type": "x"},
                    {"@type": "google.rpc.RetryInfo", "retryDelay": "3.5s"},
                ],
            }
        }

        with pytest.raises(ModelError, match="Too many") as caught:
            Gemini().response(body)

        error = caught.value
        assert (error.provider, error.status, error.code) == ("gemini", 429, "RESOURCE_EXHAUSTED")
        assert (error.retryable, error.retry_after) == (True, 3.5)

    def test_what_a_client_knows_better_counts(self):
        error = error_of({"error": {"code": 500, "message": "x"}}, status=400, retry_after=7.0)

        assert (error.status, error.retryable, error.retry_after) == (400, False, 7.0)

    @pytest.mark.parametrize("delay", ["soon", "-1s", 3, "1e999s", "9" * 5000 + "s", None])
    def test_a_delay_of_another_form(self, delay):
        assert error_of({"error": {"details": [{"retryDelay": delay}]}}).retry_after is None
