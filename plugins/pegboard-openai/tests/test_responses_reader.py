from __future__ import annotations

import json

import pytest
from attrs import evolve
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta
from pegboard_openai._openai import RESPONSES
from pegboard_openai.openai_responses import OpenAIResponses

KEY = "openai-responses"
URL = {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 2}
SETTINGS = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def body(*output, status="completed", **facts):
    known = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": "gpt-x"}
    return {**known, "status": status, "output": list(output), **SETTINGS, **facts}


def event(kind, **facts):
    return {"type": f"response.{kind}", "sequence_number": 0, **facts}


def function(arguments="", number=1, status="in_progress", **facts):
    known = {"id": f"fc_{number}", "call_id": f"c{number}", "name": "weather", "status": status}
    return {"type": "function_call", **known, "arguments": arguments, **facts}


def message(text=None, status="in_progress", annotations=()):
    content = [] if text is None else [{"type": "output_text", "text": text, "annotations": list(annotations)}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}


def added(index, item):
    return event("output_item.added", output_index=index, item=item)


def done(index, item):
    return event("output_item.done", output_index=index, item=item)


def text(piece, **facts):
    at = {"item_id": "msg_1", "output_index": 1, "content_index": 0, **facts}
    return event("output_text.delta", delta=piece, logprobs=[], **at)


def arguments(piece, number=1, index=2):
    return event("function_call_arguments.delta", item_id=f"fc_{number}", output_index=index, delta=piece)


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
WHOLE = [THOUGHT, message("Hi", "completed", [URL]), function('{"city":"Oslo"}', status="completed")]
AT = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
STREAM = [
    event("created", response=body(status="in_progress")),
    added(0, {**THOUGHT, "summary": []}),
    event("reasoning_summary_text.delta", delta="hm", **AT),
    done(0, THOUGHT),
    added(1, message()),
    text("H"),
    text("i"),
    event(
        "output_text.annotation.added",
        item_id="msg_1",
        output_index=1,
        content_index=0,
        annotation_index=0,
        annotation=URL,
    ),
    done(1, WHOLE[1]),
    added(2, function()),
    arguments('{"city":'),
    arguments('"Oslo"}'),
    done(2, WHOLE[2]),
    event("completed", response=body(*WHOLE)),
]


def read(*events, limits=RESPONSES, broken=None):
    reader = OpenAIResponses(limits=limits).reader()
    for each in events:
        reader.feed(each)
    return reader.response(broken=broken)


def test_pieces_are_passed_on_and_gathered():
    reader = OpenAIResponses().reader()
    adapter = TypeAdapter(ResponseStreamEvent)
    deltas = [delta for each in STREAM for delta in reader.feed(adapter.validate_python(each).model_dump())]
    assert deltas == [
        ReasoningDelta("hm"),
        TextDelta("H"),
        TextDelta("i"),
        CallDelta(0, "", "c1", "weather"),
        CallDelta(0, '{"city":', "c1", "weather"),
        CallDelta(0, '"Oslo"}', "c1", "weather"),
    ]
    response = reader.response()
    assert response == OpenAIResponses().response(body(*WHOLE))
    assert (response.finish_reason, response.complete) == ("tool_calls", True)


@pytest.mark.parametrize("end", range(len(STREAM)))
def test_a_stream_that_is_cut_anywhere_holds_what_came_before(end):
    response = read(*STREAM[:end])
    assert (response.interrupted, response.complete, response.partial) == (True, False, False)
    assert response.text == "Hi"[: max(0, min(end - 5, 2))]
    if end >= 12:
        assert [json.loads(call.arguments) for call in response.calls] == [{"city": "Oslo"}]
    if end >= 8:
        assert [cited.uri for part in response.parts for cited in getattr(part, "citations", ())] == ["http://a"]


def test_nothing_of_a_broken_answer_refers_to_what_the_provider_hasnt_kept():
    response = read(*STREAM[:-1])
    assert [part.provider_metadata for part in response.parts[:2]] == [{}, {}]
    assert "id" not in response.calls[0].provider_metadata[KEY]
    sealed = {**THOUGHT, "encrypted_content": "s"}
    assert read(done(0, sealed)).parts[0].provider_metadata[KEY]["encrypted_content"] == "s"


def test_items_gathered_count_where_the_last_event_has_fewer():
    response = read(*STREAM[:-1], event("completed", response=body()))
    assert (response.complete, len(response.parts), response.id) == (True, 3, "resp_1")
    assert response.calls[0].provider_metadata[KEY]["id"] == "fc_1"


def test_a_new_call_under_an_old_index_is_a_new_call():
    given = [
        added(0, function()),
        arguments("{", index=0),
        arguments("}", index=0),
        added(0, function(number=2)),
        arguments('{"b":1}', number=2, index=0),
    ]
    calls = [(call.id, call.arguments) for call in read(*given).calls]
    assert calls == [("c1", "{}"), ("c2", '{"b":1}')]
    ended = [done(0, function("{}")), done(0, function('{"b":1}', number=2))]
    assert [(call.id, call.arguments) for call in read(*ended).calls] == calls
    over = read(added(0, function()), done(0, function("{}", number=2)))
    assert [call.id for call in over.calls] == ["c1", "c2"]


def test_an_item_that_ends_in_another_kind_is_another_item():
    response = read(added(0, message("x")), done(0, function("{}")))
    assert [type(part).__name__ for part in response.parts] == ["TextPart", "CallPart"]


def test_pieces_of_items_that_never_began_are_kept():
    response = read(
        event("function_call_arguments.delta", output_index=0, delta="{}"),
        event("custom_tool_call_input.delta", output_index=1, item_id="ctc_1", delta="x"),
        event("output_text.delta", output_index=2, delta="Hi"),
        event("reasoning_text.delta", output_index=3, delta="hm"),
        event("output_text.delta", output_index=2, item_id="msg_9", delta="!"),
    )
    assert [call.arguments for call in response.calls] == ["{}", {"input": "x"}]
    assert response.text == "Hi!"
    assert response.parts[3].text == "hm"


def test_pieces_of_arguments_for_what_is_no_call_are_passed_over():
    assert read(added(0, message("Hi")), event("function_call_arguments.delta", output_index=0, delta="x")).calls == ()


def test_refusals_and_several_texts_are_kept_apart():
    response = read(
        added(0, {**message(), "id": "msg_1"}),
        text("a", output_index=0),
        text("b", output_index=0, content_index=1),
        event("refusal.delta", item_id="msg_1", output_index=0, content_index=2, delta="no"),
    )
    assert [part.text for part in response.parts] == ["a", "b", "no"]
    assert response.parts[2].provider_metadata[KEY]["refusal"] is True


def test_arguments_that_never_end_mark_the_call():
    limits = evolve(RESPONSES, argument_text=10)
    response = read(added(2, function()), *(arguments("1234") for _ in range(50)), limits=limits)
    assert (response.calls[0].error.kind, response.calls[0].arguments) == ("invalid_arguments", "1234123412")
    whole = read(event("completed", response=body(function("x" * 11))), limits=limits)
    assert whole.calls[0].error.kind == "invalid_arguments"


def test_an_answer_that_never_ends_isnt_complete():
    limits = evolve(RESPONSES, answer_text=4_500)
    begun, end = added(1, message()), event("completed", response=body())
    response = read(begun, *(text("x" * 100) for _ in range(30)), end, limits=limits)
    assert (len(response.text), response.finish_reason, response.complete) == (2_500, "length", False)
    many = read(*(added(place, function(number=place)) for place in range(9)), end, limits=limits)
    assert (len(many.calls), many.complete) == (4, False)
    parts = read(begun, *(text("x", content_index=place) for place in range(9)), end, limits=limits)
    assert (len(parts.parts), parts.complete) == (3, False)
    cited = event("output_text.annotation.added", item_id="msg_1", annotation=URL)
    assert not read(begun, *[cited] * 9, end, limits=limits).complete
    assert not read(
        *(event("output_text.delta", output_index=place, delta="x") for place in range(9)), limits=limits
    ).complete
    assert not read(*(done(place, function(number=place)) for place in range(9)), end, limits=limits).complete
    assert not read(*(arguments("x", number=place, index=place) for place in range(9)), end, limits=limits).complete
    annotated = [event("output_text.annotation.added", output_index=place, annotation=URL) for place in range(9)]
    assert not read(*annotated, end, limits=limits).complete


def test_a_cut_off_answer_isnt_complete():
    cut = body(*WHOLE, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    response = read(*STREAM[:-1], event("incomplete", response=cut))
    assert (response.finish_reason, response.complete, response.interrupted) == ("length", False, False)


def test_errors_mark_the_answer():
    failed = body(status="failed", error={"code": "server_error", "message": "Down."})
    response = read(*STREAM[:7], event("failed", response=failed))
    assert (response.error_code, response.error_message, response.text) == ("server_error", "Down.", "Hi")
    assert (response.finish_reason, response.complete) == ("error", False)
    plain = read({"type": "error", "code": "overloaded", "message": "Too much."})
    assert (plain.error_code, plain.error_message) == ("overloaded", "Too much.")
    wrapped = read({"type": "error", "error": {"type": "overloaded", "message": "Too much."}})
    assert wrapped.error_code == "overloaded"
    assert read({"type": "error", "message": "x"}).error_code is None
    assert read({"error": {"code": "x", "message": "y"}}).error_code == "x"
