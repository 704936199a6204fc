from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from fake_vendors.cases import cases_in, check
from pegboard import ModelConfig, ModelRequest, Tool, ToolSpec
from pegboard.messages import CallDelta, ModelResponse
from pegboard.toolsets import resolve_tools
from pegboard_clients.wire.bodies import SizeBudget
from pegboard_google import GoogleModel
from pegboard_google._gemini import error_of
from pegboard_google._gemini_answers import GeminiReader
from pegboard_google.gemini import Gemini, sdk_arguments
from strategies import json_values


@pytest.mark.parametrize(("exporter", "cases"), cases_in(Path(__file__).parent / "cases"))
def test_the_wire(exporter, cases):
    check(exporter, cases)


# --- whole answers ---


def raw_of(*parts, **facts):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", **facts}]}


RAW = raw_of(
    {"text": "Hm.", "thought": True},
    {"inlineData": {"mimeType": "image/png", "data": "_-8="}},
    {"executableCode": {"code": "1+1", "language": "PYTHON"}, "thoughtSignature": "c2ln"},
    {"functionCall": {"id": "x", "name": "f", "args": {"some_key": {"other_key": 1}}}, "thoughtSignature": "c2ln"},
    groundingMetadata={
        "groundingChunks": [{"retrievedContext": {"uri": "https://a"}}],
        "groundingSupports": [{"groundingChunkIndices": [0], "segment": {"startIndex": 1}}],
    },
) | {"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"}


def test_an_answer_of_the_sdk_is_read_by_its_json():
    model = types.GenerateContentResponse.model_validate(RAW)
    response = Gemini().response(model.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert response == Gemini().response(RAW)
    assert ModelResponse.from_json(json.loads(json.dumps(response.to_json()))) == response
    assert response.calls[0].arguments == {"some_key": {"other_key": 1}}
    assert response.calls[0].provider_metadata == {"gemini": {"thoughtSignature": "c2ln"}}


def test_keys_that_are_no_texts_are_passed_over():
    assert Gemini().response(raw_of({"text": "a", 5: 6})).text == "a"


@pytest.mark.parametrize("word", [each.value for each in types.FinishReason])
def test_every_reason_of_the_sdk_is_read(word):
    assert Gemini().response(raw_of(finishReason=word)).finish_reason


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
def test_an_invalid_segment_has_no_place(segment):
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a"}}],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    (citation,) = Gemini().response(raw_of({"text": "ü rains"}, groundingMetadata=grounding)).citations
    assert (citation.uri, citation.start, citation.end) == ("https://a", None, None)


def test_more_citations_than_are_read_are_left_in_the_grounding():
    support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [0] * 5000}
    grounding = {"groundingChunks": [{"web": {"uri": "https://a"}}], "groundingSupports": [support]}
    assert len(Gemini().response(raw_of({"text": "abc"}, groundingMetadata=grounding)).citations) == 1000


@pytest.mark.parametrize("delay", ["soon", "-1s", 3, "1e999s", "9" * 5000 + "s", None])
def test_a_delay_of_another_form(delay):
    assert error_of({"error": {"details": [{"retryDelay": delay}]}}).retry_after is None


# --- tools, and the SDK's client ---


def test_an_output_schema_beyond_the_limits_is_left_out():
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    exported = Gemini(output_schemas=True).tools([ToolSpec("deep", output_schema=deep)])
    assert [(loss.path, loss.refused) for loss in exported.losses] == [("/outputSchema", False)]
    assert "responseJsonSchema" not in exported.entries[0]["functionDeclarations"][0]


FUNCTION = ToolSpec("weather", "Forecasts.")
SEARCH = Tool.provider("search", "google.google_search").spec


def test_models_before_gemini_3_get_no_search_beside_functions():
    exporter = GoogleModel("gemini-2.5-pro", client=object()).exporter
    assert exporter.tools([FUNCTION, SEARCH]).refused == {"search"}
    assert exporter.tools([SEARCH]).names == {"search"}
    assert Gemini().tools([FUNCTION, SEARCH]).names == {"weather", "search"}
    tools = asyncio.run(resolve_tools([Tool(FUNCTION), Tool(SEARCH)]))
    assert Gemini().tools_of(ModelRequest("Hi.", tools=tools, model="gemini-2.5-pro")).refused == {"search"}
    tools = asyncio.run(resolve_tools([Tool(FUNCTION), Tool(SEARCH)], ()))
    kinds = [
        [key for entry in Gemini().request(ModelRequest("x", model, tools=tools))["tools"] for key in entry]
        for model in ("gemini-2.5-pro", "gemini-3-pro")
    ]
    assert kinds == [["functionDeclarations"], ["functionDeclarations", "googleSearch"]]


def test_a_body_is_parted_into_what_the_client_takes():
    tools = asyncio.run(resolve_tools([Tool(ToolSpec("t"))], ()))
    config = ModelConfig(seed=1)
    body = Gemini().request(ModelRequest("x", "m", "Be kind.", tools=tools, config=config, tool_choice="none"))
    arguments = sdk_arguments(body)
    assert set(arguments) == {"model", "contents", "config"}
    keys = {"automaticFunctionCalling", "systemInstruction", "tools", "toolConfig", "seed"}
    assert set(arguments["config"]) == keys
    types.GenerateContentConfig.model_validate(arguments["config"])
    assert set(sdk_arguments(Gemini().request(ModelRequest("x")))) == {"contents", "config"}


# --- streams ---


def chunk(*parts, **candidate):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **candidate}]}


def piece(path, **value):
    return {"jsonPath": path, **value}


def open_call(*pieces, more=True, **facts):
    return chunk({"functionCall": {"partialArgs": list(pieces), "willContinue": more, **facts}})


END = chunk(finishReason="STOP")


def streamed(*chunks):
    reader = Gemini().reader()
    deltas = [delta for each in chunks for delta in reader.feed(each)]
    return reader.response(), deltas


@pytest.mark.parametrize(
    ("part", "budget", "count"),
    [
        ({"text": "12345"}, 12, 1),
        ({"text": "", "thoughtSignature": "c2ln"}, 2_500, 2),
        ({"functionCall": {"name": "f"}}, 2_500, 2),
        ({"executableCode": {"code": "1+1"}}, 2_500, 2),
    ],
)
def test_a_stream_is_cut_at_its_size_limit(part, budget, count):
    reader = GeminiReader(budget=SizeBudget(budget))
    for each in (*[chunk(part)] * 5, END):
        reader.feed(each)
    response = reader.response()
    assert response.text in ("", "123451234512")
    assert (len(response.parts), response.complete, response.interrupted) == (count, False, False)


@pytest.mark.parametrize(
    "path",
    ["", "a", "$", "$.", "$a", "$[5]", "$.a[1]", "$.a[0][0].b.c[7]", "$.s.x", "$.s[0]", "$.a'", "$" + ".a" * 65],
)
def test_a_piece_of_arguments_at_a_place_that_can_not_be_spoils_the_call(path):
    begun = open_call(piece("$.s", stringValue="text"), name="f")
    last = open_call(piece("$.t", numberValue=1), more=False)
    response, deltas = streamed(begun, open_call(piece(path, numberValue=1)), last, END)
    (call,) = response.calls
    assert json.loads("".join(delta.arguments for delta in deltas)) == call.arguments
    assert call.error.kind == "invalid_arguments"
    assert "t" not in call.arguments


def test_pieces_of_arguments_without_end_are_bounded():
    pieces = [open_call(piece("$.a", stringValue="x" * 4096))] * 300
    (call,) = streamed(open_call(name="f"), *pieces, open_call(more=False), END)[0].calls
    assert call.error.kind == "invalid_arguments"
    assert len(call.arguments["a"]) <= 1 << 20


@pytest.mark.parametrize("raw", [None, 5, "text", [], {}, {"a": 1}])
def test_chunks_that_can_not_be_read_are_passed_over(raw):
    assert streamed(raw, chunk({"text": "a"}), END)[0].text == "a"


STREAM = [
    chunk({"text": "Let me look."}),
    chunk({"functionCall": {"name": "f", "id": "1", "args": {"a": 1}}, "thoughtSignature": "c2ln"}),
    open_call(piece("$.a", stringValue="x"), name="g", id="2"),
    open_call(piece("$.a", stringValue="y"), more=False),
    chunk({"functionCall": {"name": "h", "id": "3"}}),
    END,
]


@pytest.mark.parametrize("length", range(len(STREAM) + 1))
def test_a_stream_cut_anywhere_holds_the_complete_calls_before(length):
    whole, response = streamed(*STREAM)[0], streamed(*STREAM[:length])[0]
    complete = [call for call in response.calls if not call.invalid]
    assert complete == list(whole.calls[: len(complete)])
    assert len(complete) == sum(length > last for last in (1, 3, 4))
    assert response.interrupted is (length < len(STREAM))
    assert response.complete is not response.interrupted


PIECE = {"jsonPath": st.sampled_from(["$.a", "$.a.b", "$[0]", "$.a[0]", "$.b[0].c"]) | st.text()}
CALL = st.fixed_dictionaries(
    {},
    optional={
        "name": json_values(),
        "willContinue": st.booleans(),
        "args": json_values(),
        "partialArgs": json_values() | st.lists(st.fixed_dictionaries({**PIECE, "stringValue": json_values()})),
    },
)
KINDS = st.sampled_from(["text", "thought", "functionCall", "inlineData", "toolCall"])


@given(st.lists(json_values() | st.dictionaries(KINDS, json_values() | CALL).map(chunk), max_size=6))
def test_feeding_anything_raises_nothing(chunks):
    response, deltas = streamed(*chunks, END)
    assert isinstance(response, ModelResponse)
    indices = [delta.index for delta in deltas if isinstance(delta, CallDelta)]
    assert set(indices) == set(range(len(response.calls)))
