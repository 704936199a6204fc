"""Answers that were spoilt: exporters and readers raise nothing but a `ModelError`, and what they read can go back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fake_vendors import Call, Citation, Page, Reasoning, Request, Round, Search
from fake_vendors.rules.exporters import EXPORTERS
from fake_vendors.rules.samples import json_values, like, nested
from fake_vendors.server.script import Reply
from fake_vendors.server.server import FORMATS
from pegboard import ModelRequest, ToolResult
from pegboard.errors import ModelError
from pegboard.messages import Message, ModelResponse

RICH = Round(
    text="It rains.",
    reasoning=Reasoning("Hm, hm.", "c2ln"),
    hosted=[Search("rain", [Page("https://a", "A", "It rains.")])],
    calls=[Call("weather", {"city": "Oslo"}), Call("clock", id="x"), Call("clock", id="x")],
    citations=[Citation("https://a", "A", "It rains.", 0, 9)],
)
ASKED = Request("/x", "", {}, {"model": "m"})
WHOLE = {name: kind().body(Reply(RICH, 1, ASKED)) for name, kind in FORMATS.items()}
STREAMS = {name: list(kind().events(Reply(RICH, 1, ASKED))) for name, kind in FORMATS.items()}


def fed(name, events):
    reader = EXPORTERS[name]().reader()
    for event in events:
        reader.feed(event)
    return reader


def check(name, response):
    """It can be kept and told again, and each call has an id of its own."""
    assert isinstance(response, ModelResponse)
    assert ModelResponse.from_json(response.to_json()).finish_reason == response.finish_reason
    assert len({call.id for call in response.calls}) == len(response.calls)
    assert all(isinstance(call.id, str) for call in response.calls)
    results = Message.tool([(call, ToolResult("x")) for call in response.calls])
    EXPORTERS[name]().request(ModelRequest(["?", response.message, results, "!"]))


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_reads_as_the_whole_answer(name):
    whole, streamed = EXPORTERS[name]().response(WHOLE[name]), fed(name, STREAMS[name]).response()
    assert (streamed.text, streamed.finish_reason, streamed.complete) == (whole.text, "tool_calls", True)
    assert [(each.id, each.name) for each in streamed.calls] == [(each.id, each.name) for each in whole.calls]
    assert [each.uri for each in streamed.citations] == [each.uri for each in whole.citations]
    assert len(whole.calls) == 3
    check(name, whole)


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_cut_anywhere_is_interrupted_and_holds_the_calls_before(name):
    whole = fed(name, STREAMS[name]).response()
    for length in range(len(STREAMS[name]) - 2):
        response = fed(name, STREAMS[name][:length]).response(broken="reset")
        assert (response.interrupted, response.complete, response.error_message) == (True, False, "reset")
        ended = [call for call in response.calls if not call.invalid]
        assert [call.name for call in ended] == [call.name for call in whole.calls[: len(ended)]]
        assert whole.text.startswith(response.text)
        check(name, response)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_any_body_is_read_or_raises_a_model_error(name, data):
    raw = data.draw(json_values | like(WHOLE[name]))
    try:
        response = EXPORTERS[name]().response(raw)
    except ModelError:
        return
    check(name, response)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data(), broken=st.none() | st.just("broken"))
def test_any_stream_is_read(name, data, broken):
    events = [*data.draw(like(STREAMS[name])), *data.draw(st.lists(json_values, max_size=2))]
    check(name, fed(name, events).response(broken=broken))


def spoilt(value, put):
    """The same JSON with something put into one place after the other."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(places):
        for other in (put, *spoilt(inner, put)):
            yield {**value, key: other} if isinstance(value, dict) else [*value[:key], other, *value[key + 1 :]]


@pytest.mark.parametrize("name", FORMATS)
def test_deep_nesting_anywhere_ends_in_no_recursion(name):
    deep = nested(50_000)
    for raw in spoilt(WHOLE[name], deep):
        try:
            response = EXPORTERS[name]().response(raw)
        except ModelError:
            continue
        EXPORTERS[name]().request(ModelRequest(["?", response.message, "!"]))


NOTHING = [{"content": [None]}, {"output": [None]}, {"choices": [None]}, {"output": {"message": {"content": [None]}}}]


@pytest.mark.parametrize("raw", [None, [], "x", 5, {}, {"error": "no"}, {"a": 1}, {"error": 3}, *NOTHING], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_an_invalid_body_is_a_permanent_error(name, raw):
    with pytest.raises(ModelError) as caught:
        EXPORTERS[name]().response(raw)
    assert not caught.value.retryable
