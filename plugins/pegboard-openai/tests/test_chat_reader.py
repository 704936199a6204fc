from __future__ import annotations

from attrs import evolve
from hypothesis import given, strategies as st
from openai.types.chat import ChatCompletionChunk

from fake_vendors.rules.samples import nested
from pegboard.messages.response import CallDelta, ReasoningDelta, TextDelta
from pegboard_openai._openai import CHAT
from pegboard_openai.openai_chat import OpenAIChat


def chunk(finish=None, **delta):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-x",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def piece(arguments=None, name=None, **facts):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chunk(tool_calls=[{**facts, "function": function}])


def read(*chunks, limits=CHAT, broken=None):
    reader = OpenAIChat(limits=limits).reader()
    for each in chunks:
        reader.feed(each)
    return reader.response(broken=broken)


def calls_of(*chunks):
    response = read(*chunks, chunk("tool_calls"))
    assert response.complete
    return [(call.id, call.name, call.arguments) for call in response.calls]


def test_pieces_are_passed_on_and_gathered():
    reader = OpenAIChat().reader()
    given = [
        chunk(role="assistant", content=""),
        chunk(reasoning_content="h"),
        chunk(content="He"),
        chunk(content="llo"),
        piece(index=0, id="c1", name="weather", arguments=""),
        piece('{"a"', index=0),
        piece(":1}", index=0),
        chunk("tool_calls"),
        {**chunk(), "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    ]
    deltas = [delta for each in given for delta in reader.feed(ChatCompletionChunk.construct(**each).model_dump())]

    assert deltas == [
        ReasoningDelta("h"),
        TextDelta("He"),
        TextDelta("llo"),
        CallDelta(0, "", "c1", "weather"),
        CallDelta(0, '{"a"', "c1", "weather"),
        CallDelta(0, ":1}", "c1", "weather"),
    ]
    response = reader.response()
    assert (response.text, response.finish_reason, response.complete) == ("Hello", "tool_calls", True)
    assert (response.usage.input_tokens, response.model, response.id) == (3, "gpt-x", "chatcmpl-1")
    assert [(call.id, call.arguments) for call in response.calls] == [("c1", '{"a":1}')]


def test_a_new_id_under_an_old_index_is_a_new_call():
    assert calls_of(
        piece(index=0, id="a", name="x", arguments="{"),
        piece("}", index=0),
        piece(index=0, id="b", name="y", arguments="{"),
        piece("}", index=0),
    ) == [("a", "x", "{}"), ("b", "y", "{}")]


def test_pieces_of_several_calls_may_come_in_turns():
    assert calls_of(
        piece(index=0, id="a", name="x"),
        piece(index=1, id="b", name="y"),
        piece("{}", index=0),
        piece('{"b":1}', index=1),
        piece(" ", index=0),
    ) == [("a", "x", "{} "), ("b", "y", '{"b":1}')]


def test_the_same_id_under_two_indexes_is_two_calls():
    ids = [call[0] for call in calls_of(piece("{}", "x", index=0, id="a"), piece("{}", "x", index=1, id="a"))]
    assert ids == ["a", "a_2"]


def test_pieces_without_an_index_belong_to_the_call_that_came_last():
    assert calls_of(
        piece("{", "x", id="a"), piece("}"), piece("{", "y", id="b"), piece("}", id="b"), piece("}", id="a")
    ) == [("a", "x", "{}}"), ("b", "y", "{}")]


def test_whole_calls_without_index_and_id_are_told_apart():
    given = [piece('{"a":1}', "x"), piece('{"a":2}', "x"), piece('{"a":3}', "x", index=0), piece("{}", "y", index=0)]
    assert [call[2] for call in calls_of(*given)] == ['{"a":1}', '{"a":2}', '{"a":3}', "{}"]


def test_a_name_that_comes_in_pieces_or_again_and_again_is_one_name():
    assert calls_of(piece(name="wea", index=0, id="a"), piece(name="ther", index=0), piece("{}", index=0)) == [
        ("a", "weather", "{}")
    ]
    again = [piece(text, "x", index=0, id="a") for text in ("{", '"k":', "1", "}", " ")]
    assert calls_of(*again) == [("a", "x", '{"k":1} ')]


def test_a_whole_call_that_is_said_again_is_one_call():
    assert calls_of(
        piece("{", "x", index=0, id="a"), piece('"k":1}', index=0), piece('{"k":1}', "x", index=0, id="a")
    ) == [("a", "x", '{"k":1}')]
    assert len(calls_of(piece("{}", "x", index=0, id="a"), piece('{"k":1}', "x", index=0, id="a"))) == 2


def test_an_id_that_comes_late_is_the_calls():
    assert calls_of(piece(name="x", index=0), piece("{}", index=0, id="a"), piece(" ", index=0)) == [("a", "x", "{} ")]


def test_arguments_that_come_whole_as_an_object_are_read():
    assert calls_of(piece({"a": 1}, "x", index=0)) == [("call_0", "x", '{"a":1}')]
    response = read(piece(nested(500), "x", index=0), chunk("tool_calls"))
    assert "levels" in response.calls[0].arguments


def test_free_text_and_the_old_form_come_in_pieces_too():
    custom = [{"index": 0, "id": "a", "custom": {"name": "note", "input": ""}}, {"index": 0, "custom": {"input": "x"}}]
    assert calls_of(*(chunk(tool_calls=[each]) for each in custom)) == [("a", "note", {"input": "x"})]
    legacy = [chunk(function_call={"name": "x", "arguments": ""}), chunk(function_call={"arguments": "{}"})]
    assert calls_of(*legacy) == [("call_0", "x", "{}")]


def test_what_other_servers_want_back_is_kept():
    given = [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}, "extra_content": {"g": 1}}]
    (call,) = read(chunk(tool_calls=given), chunk("tool_calls")).calls
    assert call.provider_metadata == {"openai": {"extra_content": {"g": 1}}}


def test_arguments_that_never_end_mark_the_call():
    limits = evolve(CHAT, argument_text=10)
    given = [piece("", "x", index=0, id="a"), *(piece("1234", index=0) for _ in range(50))]
    response = read(*given, piece("{}", "y", index=1, id="b"), chunk("tool_calls"), limits=limits)
    long, other = response.calls
    assert (long.error.kind, long.arguments) == ("invalid_arguments", "1234123412")
    assert (other.arguments, other.error, response.complete) == ("{}", None, True)


def test_an_answer_that_never_ends_isnt_complete():
    limits = evolve(CHAT, answer_text=2_500)
    response = read(*(chunk(content="x" * 100) for _ in range(30)), chunk("stop"), limits=limits)
    assert (len(response.text), response.finish_reason, response.complete) == (2_500, "length", False)
    calls = read(*(piece("{}", "x", index=place) for place in range(9)), chunk("tool_calls"), limits=limits)
    assert (len(calls.calls), calls.complete) == (2, False)
    cited = read(*(chunk(annotations=[{"type": "url_citation"}]) for _ in range(9)), chunk("stop"), limits=limits)
    assert not cited.complete


def test_an_error_within_the_stream_marks_the_answer():
    response = read(chunk(content="He"), {"error": {"message": "Too much.", "code": "overloaded"}})
    assert (response.text, response.error_code, response.error_message) == ("He", "overloaded", "Too much.")
    assert (response.finish_reason, response.complete, response.interrupted) == ("error", False, True)
    assert read({"error": "Too much."}).error_message == "Too much."


def test_other_choices_are_passed_over():
    other = {**chunk(), "choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]}
    response = read(chunk(content="a"), other)
    assert (response.text, response.interrupted) == ("a", True)


def test_refusals_citations_and_sounds_are_gathered():
    url = {"type": "url_citation", "url_citation": {"url": "http://a"}}
    given = [
        chunk(content="x", annotations=[url]),
        chunk(audio={"id": "audio_1"}),
        chunk(audio={"data": "UklG", "transcript": "he"}),
        chunk(audio={"data": "Rg=="}),
        chunk("stop", refusal="no"),
    ]
    text, refusal, sound = read(*given).parts
    assert (text.citations[0].uri, refusal.text, sound.content.data) == ("http://a", "no", b"RIFF")


@given(st.data())
def test_any_pieces_make_calls_with_ids_of_their_own(data):
    pieces = st.fixed_dictionaries(
        {},
        optional={
            "index": st.integers(0, 2) | st.none(),
            "id": st.sampled_from(["a", "b", ""]) | st.none(),
            "function": st.fixed_dictionaries(
                {},
                optional={"name": st.sampled_from(["x", "y", ""]), "arguments": st.sampled_from(["{}", "{", "}", ""])},
            ),
        },
    )
    given_pieces = data.draw(st.lists(pieces, max_size=8))
    response = read(*(chunk(tool_calls=[each]) for each in given_pieces), chunk("tool_calls"))

    said = "".join(each.get("function", {}).get("arguments", "") for each in given_pieces)
    kept = "".join(call.arguments for call in response.calls)
    assert len({call.id for call in response.calls}) == len(response.calls)
    assert len(kept) <= len(said)
