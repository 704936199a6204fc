from __future__ import annotations

from pathlib import Path

import pytest

from fake_vendors.cases import cases_in, check
from pegboard import ModelRequest
from pegboard.wire.bodies import SizeBudget
from pegboard_ollama.ollama import Ollama, OllamaReader, error_of


@pytest.mark.parametrize(("exporter", "cases"), cases_in(Path(__file__).parent / "cases"))
def test_the_wire(exporter, cases):
    check(exporter, cases)


def line(*, done=False, **message):
    return {"model": "m", "message": {"role": "assistant", **message}, "done": done}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"x": float("nan")}, '{"x": NaN}'),
        ({"x": [{"y": float("inf")}]}, '{"x": [{"y": Infinity}]}'),
        ({"x": -float("inf")}, '{"x": -Infinity}'),
    ],
)
def test_numbers_that_json_does_not_have_make_a_call_invalid(given, text):
    answered = Ollama().response(line(done=True, tool_calls=[{"function": {"name": "f", "arguments": given}}]))
    (call,) = answered.calls
    assert (call.invalid, call.error.kind, call.arguments) == (True, "invalid_arguments", text)
    assert "must be a finite number" in call.error.text
    (said,) = Ollama().request(ModelRequest([answered.message]))["messages"]
    assert said["tool_calls"][0]["function"]["arguments"] == {"INVALID_JSON": text}


def test_what_a_client_knows_of_an_error_counts():
    error = error_of({"error": "model 'x' not found"}, status=503, retry_after=1.0)
    assert str(error) == "ollama: model 'x' not found"
    assert (error.status, error.retryable, error.retry_after) == (503, True, 1.0)


def test_words_without_end_are_cut():
    reader = OllamaReader(SizeBudget(10))
    for each in (*[line(content="12345")] * 5, line(done=True) | {"done_reason": "stop"}):
        reader.feed(each)
    response = reader.response()
    assert (response.text, response.finish_reason, response.complete) == ("1234512345", "length", False)
