from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from pegboard import load
from pegboard_clients.wire import parsed_object


def chat(pieces):
    for index, call_id, name, text in pieces:
        function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
        call = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [{**call, "function": function}]}}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def responses(pieces):
    for index, call_id, name, text in pieces:
        at = {} if index is None else {"output_index": index}
        if name:
            item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}
            yield {"type": "response.output_item.added", **at, "item": item}
        else:
            yield {"type": "response.function_call_arguments.delta", **at, "item_id": call_id, "delta": text}
    yield {"type": "response.completed", "response": {"status": "completed", "output": []}}


def blocks(pieces):
    indexes = {0}
    for index, call_id, name, text in pieces:
        at = {} if index is None else {"index": index}
        indexes.add(index)
        if name:
            block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            yield {"type": "content_block_start", **at, "content_block": block}
        if text:
            yield {"type": "content_block_delta", **at, "delta": {"type": "input_json_delta", "partial_json": text}}
    for index in indexes:
        yield {"type": "content_block_stop", **({} if index is None else {"index": index})}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    yield {"type": "message_stop"}


def bedrock(pieces):
    for event in blocks(pieces):
        at = {"contentBlockIndex": event["index"]} if "index" in event else {}
        if event["type"] == "content_block_start":
            block = event["content_block"]
            start = {"toolUse": {"toolUseId": block["id"] or "", "name": block["name"]}}
            yield {"contentBlockStart": {**at, "start": start}}
        elif event["type"] == "content_block_delta":
            yield {"contentBlockDelta": {**at, "delta": {"toolUse": {"input": event["delta"]["partial_json"]}}}}
        elif event["type"] == "content_block_stop":
            yield {"contentBlockStop": at}
    yield {"messageStop": {"stopReason": "tool_use"}}


WIRES = {"openai": chat, "openai-responses": responses, "anthropic": blocks, "bedrock": bedrock}
REGISTRY = load()


def runnable(exporter, pieces):
    """The calls of a stream that would run, if the tools are called `w` and `x`."""
    reader = REGISTRY.exporter(exporter).reader()
    for event in WIRES[exporter](pieces):
        reader.feed(event)
    found = []
    for call in reader.response().calls:
        data = parsed_object(call.arguments) if isinstance(call.arguments, str) else call.arguments
        if data is not None and not call.invalid and call.name in ("w", "x"):
            found.append((call.name, data))
    return found


indexes = st.integers(0, 2) | st.none()
ids = st.sampled_from(["a", "b", "c", ""]) | st.none()


@st.composite
def streams(draw):
    """Calls, one after the other, and their pieces in any chunks, under any indexes and ids.

    Some have a last piece that repeats the name in the place of the first.
    """
    calls = draw(st.lists(st.tuples(st.sampled_from("wx"), st.integers(0, 3)), min_size=1, max_size=3))
    pieces = []
    for name, number in calls:
        text = json.dumps({"n": number, "t": '{"}'})
        cuts = [0, *sorted(draw(st.sets(st.integers(1, len(text) - 1), max_size=3))), len(text)]
        chunks = [text[start:end] for start, end in pairwise(cuts)]
        head = draw(st.sampled_from(["", "{}", None]))
        index = draw(indexes)
        pieces.append((index, draw(ids), name, chunks.pop(0) if head is None else head))
        pieces += [(draw(indexes), draw(ids), None, chunk) for chunk in chunks]
        pieces += [(draw(st.sampled_from([index, None])), draw(ids), name, "")] * draw(st.booleans())
    return [(name, {"n": number, "t": '{"}'}) for name, number in calls], pieces


@pytest.mark.parametrize("exporter", WIRES)
@given(stream=streams())
def test_no_change_of_ids_indexes_or_chunks_runs_a_call_that_was_not_streamed(exporter, stream):
    streamed, pieces = stream
    for call in runnable(exporter, pieces):
        assert call in streamed
        streamed.remove(call)


@st.composite
def turns(draw):
    """Calls, some without arguments, whose pieces arrive in any order, each piece with its call's id."""
    calls = draw(st.lists(st.tuples(st.sampled_from("wx"), st.integers(0, 3) | st.none()), min_size=1, max_size=3))
    pieces, is_named = [], draw(st.booleans())
    arguments = [{} if number is None else {"n": number, "t": '{"}'} for _, number in calls]
    for place, (name, _) in enumerate(calls):
        text = json.dumps(arguments[place]) if arguments[place] else ""
        cuts = sorted({0, len(text), *draw(st.sets(st.integers(0, len(text)), max_size=3))})
        chunks = [text[start:end] for start, end in pairwise(cuts)]
        head = "" if draw(st.booleans()) or not chunks else chunks.pop(0)
        pieces.append([(f"id{place}", name, head)])
        pieces[-1] += [(f"id{place}", name if is_named else None, chunk) for chunk in chunks]
    order = draw(st.permutations([place for place, each in enumerate(pieces) for _ in each]))
    streamed = [(name, each) for (name, _), each in zip(calls, arguments, strict=True)]
    return streamed, [(at, *pieces[at].pop(0)) for at in order]


@pytest.mark.parametrize("exporter", WIRES)
@given(stream=turns(), index=st.sampled_from([0, None]), other=st.sampled_from([False, "", "a", None]))
def test_calls_in_turns_run_as_streamed_under_their_indexes_and_never_otherwise_under_one(
    exporter, stream, index, other
):
    """Under one index, the pieces without names have their ids, or `other`."""
    streamed, pieces = stream
    order = list(dict.fromkeys(at for at, *_ in pieces))
    if exporter == "openai":  # the only wire whose pieces may repeat the name
        assert runnable(exporter, pieces) == [streamed[at] for at in order]
    mixed = [(index, call_id if name or other is False else other, name, text) for _, call_id, name, text in pieces]
    for call in runnable(exporter, mixed):
        assert call in streamed
        streamed.remove(call)


A, B = '{"n": 1}', '{"n": 2}'
W, WA, WB, XA = ("w", {}), ("w", {"n": 1}), ("w", {"n": 2}), ("x", {"n": 1})


@pytest.mark.parametrize("exporter", WIRES)
@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([(0, "a", "w", ""), (0, "a", None, A), (1, "b", "x", ""), (1, "b", None, A)], [WA, XA]),
        ([(0, "a", "w", ""), (1, "b", "x", ""), (1, "b", None, A), (0, "a", None, B)], [WB, XA]),
        ([(0, "a", "w", "{}"), (0, "a", None, A)], [WA]),
        ([(0, "a", "w", "{"), (0, "a", None, "} "), (0, "a", None, A)], [WA]),
        ([(0, "a", "w", "{}"), (0, "a", None, " ")], [W]),
        ([(0, "a", "w", "{}"), (1, "b", "x", "{}"), (0, "a", None, A)], []),
        ([(0, "a", "w", A), (0, "a", None, B)], []),
        ([(0, "a", "w", A), (1, "b", "x", ""), (0, "a", None, B)], []),
        ([(None, None, None, A)], []),
        ([(0, "a", "w", ""), (0, "b", "x", ""), (0, None, None, A)], []),
        ([(None, "a", "w", ""), (None, "b", "x", ""), (None, None, None, A)], []),
        ([(0, "a", "w", '{"'), (0, "b", "x", "{}"), (0, "c", "w", ""), (0, None, None, A[2:])], []),
        ([(0, "a", "w", A), (0, "b", "w", "")], [WA]),
        ([(0, "a", "w", A), (1, "b", "w", "")], [WA, W]),
        ([(0, "a", "w", ""), (0, "a", None, A), (None, "b", "w", "")], [WA]),
        (
            [
                (0, "a", "w", ""),
                (0, None, None, '{"'),
                (0, "b", "x", "{"),
                (0, None, None, "}"),
                (0, None, None, A[2:]),
            ],
            [],
        ),
    ],
)
def test_pieces_become_calls_by_index_and_then_by_the_last_call(exporter, pieces, calls):
    assert runnable(exporter, pieces) == calls


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([(0, "a", "w", ""), (0, "z", None, A)], [WA]),
        ([(0, "a", "w", ""), (0, "z", "w", A)], [WA]),
        ([(0, "a", "w", A), (0, "b", "w", ""), (1, None, None, B)], [WA, WB]),
        ([(0, "a", "w", ""), (0, "b", "x", ""), (0, "b", None, A), (0, "a", None, B)], [WB, XA]),
        ([(0, "a", "w", ""), (1, "b", "x", ""), (0, "b", None, A)], []),
        ([(0, "a", "w", '{"'), (0, "a", "x", "{"), (0, None, None, A[1:])], []),
        ([(0, "a", "w", '{"'), (0, "a", "x", "{"), (0, "a", None, A[1:])], []),
        ([(0, "a", "w", A), (0, "b", "w", ""), (0, None, None, "{}")], [WA, W]),
        ([(0, "a", "w", A), (0, None, "w", ""), (0, "b", "x", B)], [WA, ("x", {"n": 2})]),
        ([(0, "a", "w", A), (0, "a", "w", A)], [WA]),
        ([(0, "a", "w", A), (0, None, None, A)], [WA]),
        ([(0, "a", "w", A), (0, "a", "w", B)], []),
        ([(0, "a", "w", "{}"), (0, "b", "w", A), (0, "c", "w", "{}")], [WA, W]),
        ([(0, "a", "w", "{}"), (0, "b", "x", A), (0, "c", "x", "{}")], [W, XA, ("x", {})]),
        ([(0, "a", "w", A), (0, "a", "w", json.dumps(A))], [WA]),
        ([(0, "a", "w", A), (0, "a", "w", json.dumps(B))], []),
        ([(0, "a", "w", "{}"), (1, "a", "w", A)], [W, WA]),
        ([(0, "a", "w", A[:3]), (0, "b", "w", A[3:5]), (0, "c", "w", A[5:])], [WA]),
        ([(0, "a", "w", '{"'), (0, "b", "w", "{"), (0, "b", None, "}"), (0, "a", None, A[2:])], []),
        ([(0, "a", "w", "{"), (0, "b", "w", ""), (0, "a", None, A[1:]), (0, "c", "x", '{"'), (0, "b", None, "{}")], []),
        ([(None, "null", "w", A), (None, "null", "w", B)], [WA, WB]),
        ([(0, "a", "w", '{"'), (0, "b", "w", "{"), (0, None, None, "}"), (0, None, None, A[2:])], []),
        ([(0, "", "w", A), (1, "", "w", B)], [WA, WB]),
        ([(0, "a", "w", A), (1, "a", "w", A)], [WA]),
        ([(0, "a", "w", "{}"), (1, "a", "w", "{}")], [W, W]),
        ([(0, "a", "w", A), (1, "b", "w", A)], [WA, WA]),
        ([(0, "a", "w", A), (1, "a", "w", B), (2, "a", "x", A)], [WA, WB, XA]),
        ([(0, "a", "w", ""), (1, "a", "w", A)], [WA]),
        ([(None, None, "w", ""), (None, None, None, A), (None, None, "w", ""), (None, None, None, B)], [WA, WB]),
        ([(None, None, "w", A), (None, None, "w", "")], [WA]),
        ([(None, "a", "w", A), (None, "b", "w", B)], [WA, WB]),
        ([(0, "a", "w", A[:3]), (0, "a", "w", A[3:])], [WA]),
        ([(0, None, None, ""), (1, "a", "w", A)], [WA]),
        ([(0, "a", "w", A), (1, "b", "w", ""), (0, None, None, B), (0, "", "w", "{}"), (None, "b", None, A)], []),
        ([(0, "a", "w", {}), (0, "a", "w", {"n": 1})], [WA]),
    ],
)
def test_servers_that_imitate_openai_number_and_name_calls_in_many_ways(pieces, calls):
    assert runnable("openai", pieces) == calls


def whole(kind, call_id, text, item_id="i"):
    item = {"type": "function_call", "id": item_id, "call_id": call_id, "name": "w", "arguments": text}
    return {"type": f"response.output_item.{kind}", "output_index": 0, "item": item}


def completed(text, call_id="c"):
    output = [whole("done", call_id, text)["item"]]
    return {"type": "response.completed", "response": {"status": "completed", "output": output}}


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        ([whole("added", "c", ""), whole("done", "d", A, "j"), completed(A, "e")], [WA]),
        ([whole("added", "c", "{}"), whole("done", "c", A), completed(A)], [WA]),
        ([whole("done", "c", A), whole("done", "c", A), completed(A)], [WA]),
        ([whole("added", "c", A), whole("done", "c", ""), completed("")], [WA]),
        ([whole("added", "c", A), whole("done", "c", B), completed(B)], []),
        ([whole("added", "c", A), completed("{}")], []),
    ],
)
def test_an_item_that_is_repeated_is_one_call_which_never_runs_if_it_contradicts_itself(events, calls, monkeypatch):
    monkeypatch.setitem(WIRES, "openai-responses", iter)
    assert runnable("openai-responses", events) == calls


def gemini(*calls):
    return [{"candidates": [{"content": {"parts": [{"functionCall": call}]}}]} for call in calls]


def lines(*calls):
    return [{"message": {"tool_calls": [{"function": call}]}, "done": False} for call in calls]


PART = [{"jsonPath": "$.n", "numberValue": 1}]


@pytest.mark.parametrize(
    ("exporter", "events", "calls"),
    [
        ("gemini", gemini({"name": "w", "willContinue": True}, {"name": "w", "partialArgs": PART}), [WA]),
        ("gemini", gemini({"name": "w", "id": "a", "willContinue": True}, {"id": "b", "partialArgs": PART}), []),
        ("gemini", gemini({"name": "w", "args": {}}, {"args": {"n": 1}}), []),
        ("ollama", lines({"name": "w", "arguments": {}}, {"name": "w", "arguments": {"n": 1}}), [W, WA]),
        ("ollama", lines({"name": "w", "arguments": {}}, {"arguments": {"n": 1}}), []),
        ("ollama", lines({"name": "w", "arguments": A}), [WA]),
    ],
)
def test_other_wires_follow_the_same_rule(exporter, events, calls, monkeypatch):
    monkeypatch.setitem(WIRES, exporter, iter)
    assert runnable(exporter, events) == calls
