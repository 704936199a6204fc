from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from message_strategies import MESSAGES
from pegboard.messages.message import CallPart, HostedPart, Message, ResultPart, TextPart
from pegboard.request.model_request import ModelRequest
from pegboard.request.processors import _is_sound, _rebuilt, _repair_history, repaired
from pegboard.tools.call import CallFault, ToolCall
from pegboard.tools.content import ToolResult

OK = ToolResult("ok")
SOUND = (
    Message.user("go"),
    Message.assistant("so", ToolCall("add", id="a"), ToolCall("read", id="b")),
    Message.tool([(ToolCall("add", id="a"), OK), (ToolCall("read", id="b"), OK)]),
    Message.assistant("done"),
)


def calls(*ids, **facts):
    return Message.assistant(*(ToolCall(name, id=name, **facts) for name in ids))


def results(*answers):
    """A message of results: `"a"`, or an id and a text."""
    pairs = [(each, "ok") if isinstance(each, str) else each for each in answers]
    return Message("tool", [ResultPart(name, name, ToolResult(text)) for name, text in pairs])


def shape(messages):
    """Each message in short: its role, the ids of its calls, and its results with their texts or kinds."""
    return [
        (
            message.role[0],
            *(call.id for call in message.calls),
            *(f"{part.call_id}={part.result.kind or part.result.text}" for part in message.results),
        )
        for message in messages
    ]


def mended(*messages):
    return shape(repaired(messages))


def own_calls(message):
    """The calls in a message that are for us to answer."""
    return [call for call in message.calls if message.role == "assistant" and not call.provider_executed]


@given(st.lists(MESSAGES, max_size=6))
def test_every_call_has_exactly_one_result_right_behind_it(messages):
    """What every provider wants of a conversation, whatever it was before."""
    history = repaired(messages)
    hosted = {call.id for message in history for call in message.calls if call.provider_executed}
    ids = [call.id for message in history for call in own_calls(message)]
    assert len(set(ids)) == len(ids)
    assert not hosted & set(ids)
    assert "" not in ids
    for message, after in zip(history, (*history, Message("user"))[1:], strict=True):
        assert message.parts
        wanted = [(call.id, call.name) for call in own_calls(message)]
        if wanted:
            assert after.role == "tool"
            assert [(part.call_id, part.name) for part in after.results] == wanted
    for before, message in zip((Message("user"), *history), history, strict=False):
        if message.role == "tool":
            assert own_calls(before)
            assert len(message.parts) == len(message.results)


@given(st.lists(MESSAGES, max_size=6))
def test_what_is_mended_needs_no_mending(messages):
    history = repaired(messages)
    for again in (repaired(history), _rebuilt(history)):
        assert len(again) == len(history)
        assert all(new is old for new, old in zip(again, history, strict=True))


@given(st.lists(MESSAGES, max_size=6))
def test_what_is_mended_is_sound(messages):
    """And only what need not be mended; of results that a provider has in its answers the quick look says nothing."""
    history = repaired(messages)
    assert _is_sound(history) or any(message.role == "assistant" and message.results for message in history)
    assert not _is_sound(messages) or all(new is old for new, old in zip(_rebuilt(messages), messages, strict=True))


@given(st.lists(MESSAGES, max_size=6))
def test_words_and_calls_are_never_lost(messages):
    def said(history):
        texts = [part for message in history for part in message.parts if isinstance(part, TextPart | HostedPart)]
        names = [call.name for message in history if message.role == "assistant" for call in message.calls]
        return texts, names

    assert said(repaired(messages)) == said(messages)


def test_a_sound_history_is_left_as_it_is():
    assert _repair_history(ModelRequest(SOUND)) is None
    assert _repair_history(ModelRequest(())) is None


def test_a_sound_history_takes_no_building(monkeypatch):
    monkeypatch.delattr("pegboard.request.processors._rebuilt")
    assert _repair_history(ModelRequest(SOUND)) is None
    assert repaired(SOUND) is SOUND


def test_a_history_with_a_providers_results_is_left_as_it_is_too():
    hosted = CallPart(ToolCall("search", id="s", provider_executed=True))
    request = ModelRequest([Message("assistant", [hosted, ResultPart("s", "search", OK)])])
    assert not _is_sound(request.messages)
    assert _repair_history(request) is None


def test_a_history_is_mended_in_another_request():
    request = ModelRequest([calls("a")])
    assert shape(_repair_history(request).messages) == [("a", "a"), ("t", "a=not_executed")]
    assert shape(request.messages) == [("a", "a")]


_LOST = ("a_2=not_executed", "a_3=not_executed")


@pytest.mark.parametrize(
    ("messages", "shaped"),
    [
        # a call without a result gets an error result
        ([calls("a"), Message.user("b")], [("a", "a"), ("t", "a=not_executed"), ("u",)]),
        ([calls("a", "b"), results("b")], [("a", "a", "b"), ("t", "a=not_executed", "b=ok")]),
        # one of an answer that was cut off says so
        (
            [calls("a", "b").evolve(metadata={"complete": False}), results("b")],
            [("a", "a", "b"), ("t", "a=cut_off", "b=ok")],
        ),
        ([calls("a").evolve(metadata={"complete": True})], [("a", "a"), ("t", "a=not_executed")]),
        # one that is marked invalid says why
        (
            [calls("a", error=CallFault("unknown_tool", "none")).evolve(metadata={})],
            [("a", "a"), ("t", "a=unknown_tool")],
        ),
        # results without a call are dropped, those before it too
        ([Message.user("x"), results("a")], [("u",)]),
        ([results("a"), calls("a")], [("a", "a"), ("t", "a=not_executed")]),
        # the last of several is the one: a long-running tool's replaces the pending one
        (
            [calls("a"), results(("a", "pending")), Message.user("x"), results(("a", "done"))],
            [("a", "a"), ("t", "a=done"), ("u",)],
        ),
        # they stand right behind their answer, in call order, in one message
        (
            [calls("a", "b"), results("b"), Message.user("x"), results("a")],
            [("a", "a", "b"), ("t", "a=ok", "b=ok"), ("u",)],
        ),
        ([calls("a"), results("a", ("a", "twice"))], [("a", "a"), ("t", "a=twice")]),
        # ids are made distinct, within an answer and from one to the next
        (
            [calls("a", "a"), results(("a", "first"), ("a", "second"))],
            [("a", "a", "a_2"), ("t", "a=first", "a_2=second")],
        ),
        (
            [calls("a"), results(("a", "1")), calls("a"), results(("a", "2")), calls("a")],
            [("a", "a"), ("t", "a=1"), ("a", "a_2"), ("t", "a_2=2"), ("a", "a_3"), ("t", "a_3=not_executed")],
        ),
        ([calls("a", "a_2", "a"), results("a")], [("a", "a", "a_2", "a_3"), ("t", "a=ok", *_LOST)]),
        # messages with nothing in them go
        ([Message("user"), Message("assistant"), Message("tool"), Message.user("x")], [("u",)]),
        # a call in another's mouth is none
        ([Message("user", [ToolCall("a", id="a"), "x"]), results("a")], [("u",)]),
        # what a provider has executed needs no result of ours
        ([calls("a", provider_executed=True), results("a")], [("a", "a")]),
        (
            [calls("a"), results("a"), calls("a", provider_executed=True), results(("a", "late"))],
            [("a", "a_2"), ("t", "a_2=ok"), ("a", "a")],
        ),
    ],
)
def test_each_fault_is_mended(messages, shaped):
    assert mended(*messages) == shaped


def test_calls_without_ids_are_told_apart_and_their_results_by_name():
    asked = Message.assistant(ToolCall("add"), ToolCall("read"), ToolCall("add"))
    texts = (("read", "1"), ("add", "2"), ("add", "3"))
    answered = Message("tool", [ResultPart("", name, ToolResult(text)) for name, text in texts])
    assert mended(asked, answered) == [
        ("a", "call_1", "call_2", "call_3"),
        ("t", "call_1=2", "call_2=1", "call_3=3"),
    ]


def test_calls_that_share_an_id_are_answered_in_order_and_the_last_again():
    """One of the name goes first; what comes when all are answered is for the last of its name, or the last at all."""
    asked = Message.assistant(*(ToolCall(name, id="a") for name in ("add", "read", "add")))

    def answered(*texts):
        made = Message("tool", [ResultPart("a", name, ToolResult(text)) for name, text in texts])
        return [part.result.text for part in repaired([asked, made])[1].results]

    first = (("other", "1"), ("add", "2"), ("add", "3"))
    assert answered(*first) == ["1", "3", "2"]
    assert answered(*first, ("read", "4")) == ["1", "4", "2"]
    assert answered(*first, ("other", "4")) == ["1", "3", "4"]
    assert answered(*first, ("add", "4"), ("add", "5")) == ["1", "3", "5"]


def test_a_result_takes_the_name_that_its_call_has():
    """Gemini wants the names to match."""
    answered = Message("tool", [ResultPart("a", "other", OK, {"gemini": 1})])
    _, made = repaired([calls("a"), answered])
    assert made.parts == (ResultPart("a", "a", OK, {"gemini": 1}),)


def test_a_result_in_the_midst_of_an_answer_moves_behind_it():
    answer = Message.assistant("so", ToolCall("a", id="a")).evolve(
        parts=["so", ToolCall("a", id="a"), ResultPart("a", "a", OK), "on"]
    )
    first, second = repaired([answer])
    assert (first.text, shape([first, second])) == ("soon", [("a", "a"), ("t", "a=ok")])


def test_the_result_of_what_a_provider_has_executed_stays_in_its_answer():
    hosted = CallPart(ToolCall("search", id="s", provider_executed=True))
    answer = Message("assistant", [hosted, ResultPart("s", "search", OK), HostedPart("p", {})])
    assert repaired([answer]) == (answer,)


def test_what_else_stands_in_a_message_of_results_is_said_by_the_user():
    said = Message("tool", [ResultPart("a", "a", OK), "look"], "m1")
    made = repaired([calls("a"), said])
    assert shape(made) == [("a", "a"), ("t", "a=ok"), ("u",)]
    assert made[2].text == "look"


def test_a_message_of_results_stays_the_same_message():
    """With its id and what the host keeps with it."""
    answered = Message("tool", results("b", "a").parts, "m2", {}, {"host": 1})
    _, made = repaired([calls("a", "b"), answered])
    assert (made.id, made.metadata) == ("m2", {"host": 1})


def test_the_words_tell_the_model_what_to_do():
    _, made = repaired([calls("a")])
    assert made.results[0].result.text == "a was not run, or its result was lost. Call it again if it is still needed."
    _, made = repaired([calls("a").evolve(metadata={"complete": False})])
    assert made.results[0].result.text == "a was not run: the answer that called it was cut off."


def test_long_histories_take_no_longer_for_their_length():
    """Ids that are all the same: no step looks back over all of them."""
    messages = [message for _ in range(3_000) for message in (calls("a"), results("a"))]
    made = repaired(messages)
    assert made[-1].results[0].call_id == "a_3000"


@pytest.mark.parametrize("name", ["a", "other"])
def test_many_calls_of_one_id_take_no_longer_for_their_number(name):
    """Each finds its result without a look at all the others, whatever name the results have."""
    asked = Message.assistant(*(ToolCall("a", id="a") for _ in range(20_000)))
    answered = Message("tool", [ResultPart("a", name, ToolResult(str(place))) for place in range(20_001)])
    _, made = repaired([asked, answered])
    assert [part.result.text for part in made.results[::19_999]] == ["0", "20000"]
