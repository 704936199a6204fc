"""The answers that are built hold the calls that were asked for, by the SDKs' own reckoning."""

from __future__ import annotations

import json

import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from fake_vendors.rules import answers
from fake_vendors.rules.answers import Called

CALLS = (
    Called("call_1", "f", {"q": 'größer "als" 1'}),
    Called("call_2", "g", {}),
    Called("call_3", "h", {"input": "free text"}, freeform=True),
)
FUNCTIONS = CALLS[:2]


@pytest.mark.parametrize("exporter", answers.WHOLE)
def test_each_provider_has_an_answer_at_once_and_a_stream(exporter):
    calls = CALLS if exporter in answers.WITH_FREEFORM else FUNCTIONS

    assert all(isinstance(each, dict) for each in (*answers.WHOLE[exporter](calls), *answers.STREAMED[exporter](calls)))
    assert set(answers.WHOLE) == set(answers.STREAMED)


def test_pieces_make_the_text_again():
    assert ["".join(call.pieces) for call in CALLS] == [CALLS[0].text, "{}", "free text"]
    assert json.loads(CALLS[0].text) == CALLS[0].arguments


def test_a_chat_completion_has_the_calls():
    for dump in answers.openai_chat(CALLS):
        first, second, third = ChatCompletion.model_validate(dump).choices[0].message.tool_calls
        assert (first.id, first.function.name, json.loads(first.function.arguments)) == (
            "call_1",
            "f",
            CALLS[0].arguments,
        )
        assert second.function.arguments == "{}"
        assert (third.type, third.custom.input) == ("custom", "free text")


def test_the_chunks_of_a_chat_completion_have_the_calls():
    texts = {}
    for chunk in answers.openai_chat_stream(CALLS):
        for call in chunk["choices"][0]["delta"].get("tool_calls") or ():
            body = call.get("custom") or call["function"]
            texts[call["index"]] = texts.get(call["index"], "") + (body.get("input") or body.get("arguments") or "")

    assert list(texts.values()) == [call.text for call in CALLS]


def test_a_response_has_the_calls():
    for dump in answers.openai_responses(CALLS):
        first, _, third = Response.model_validate(dump).output
        assert (first.call_id, json.loads(first.arguments)) == ("call_1", CALLS[0].arguments)
        assert (third.type, third.input) == ("custom_tool_call", "free text")


def test_the_events_of_a_message_have_the_calls():
    texts = {}
    for event in answers.anthropic_stream(FUNCTIONS):
        if event["type"] == "content_block_start":
            texts[event["content_block"]["id"]] = ""
        elif event["type"] == "content_block_delta":
            texts[list(texts)[event["index"]]] += event["delta"]["partial_json"]

    assert texts == {"call_1": CALLS[0].text, "call_2": ""}
