"""What each vendor's server refuses: by its rules, which have their own tests, and by what it remembers."""

from __future__ import annotations

import json
from typing import Any

import attrs
import httpx2
import pytest

from fake_vendors import Call, ModelServer, Reasoning, Round

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED = {"role": "user", "content": "What is it like?"}
SIGNATURE = "//5zaWduZWQ="
"""Its base64 differs in the two alphabets."""


@attrs.frozen(eq=False, repr=False)
class Wire:
    """One vendor's requests: a conversation in which `clock` was called and answered, as its parts."""

    path: str
    body: dict[str, Any]
    key: str
    asked: dict[str, Any]
    call: Any
    result: dict[str, Any]
    choice: Any
    headers: dict[str, str]

    def __repr__(self):
        return self.path.rpartition("/")[2]

    def post(self, server, *turns, **changes):
        sent = {**self.body, self.key: [self.asked, *turns], **changes}
        with httpx2.Client() as client:
            return client.post(server.url + self.path, json=sent, headers=self.headers)


def chat_call(name="clock", **changes):
    function = {"name": name, "arguments": "{}", **changes}
    return {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]}


def claude_call(name="clock", *before, **changes):
    use = {"type": "tool_use", "id": "a", "name": name, "input": {}, **changes}
    return {"role": "assistant", "content": [*before, use]}


def gemini_call(name="clock", *before, args=None, **changes):
    return {"role": "model", "parts": [*before, {"functionCall": {"name": name, "args": args or {}}, **changes}]}


def bedrock_call(name="clock", *before):
    return {"role": "assistant", "content": [*before, {"toolUse": {"toolUseId": "a", "name": name, "input": {}}}]}


def ollama_call(name="clock"):
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": {}}}]}


def response_call(name="clock"):
    return {"type": "function_call", "call_id": "a", "name": name, "arguments": "{}"}


FUNCTION = {"type": "function", "function": {"name": "clock", "parameters": CITY}}
CHAT = Wire(
    "/v1/chat/completions",
    {"model": "m", "tools": [FUNCTION]},
    "messages",
    ASKED,
    chat_call,
    {"role": "tool", "tool_call_id": "a", "content": "x"},
    lambda name: {"tool_choice": {"type": "function", "function": {"name": name}}},
    {"authorization": "Bearer x"},
)
RESPONSES = Wire(
    "/v1/responses",
    {"model": "m", "tools": [{"type": "function", "name": "clock", "parameters": CITY, "strict": False}]},
    "input",
    ASKED,
    response_call,
    {"type": "function_call_output", "call_id": "a", "output": "x"},
    lambda name: {"tool_choice": {"type": "function", "name": name}},
    {"authorization": "Bearer x"},
)
CLAUDE = Wire(
    "/v1/messages",
    {"model": "m", "max_tokens": 9, "tools": [{"name": "clock", "input_schema": CITY}]},
    "messages",
    ASKED,
    claude_call,
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    lambda name: {"tool_choice": {"type": "tool", "name": name}},
    {"x-api-key": "x", "anthropic-version": "2023-06-01"},
)
GEMINI = Wire(
    "/v1beta/models/m:generateContent",
    {"tools": [{"functionDeclarations": [{"name": "clock", "parametersJsonSchema": CITY}]}]},
    "contents",
    {"role": "user", "parts": [{"text": "x"}]},
    gemini_call,
    {"role": "user", "parts": [{"functionResponse": {"name": "clock", "response": {"output": "x"}}}]},
    lambda name: {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}},
    {"x-goog-api-key": "x"},
)
SPEC = {"toolSpec": {"name": "clock", "inputSchema": {"json": CITY}}}
BEDROCK = Wire(
    "/model/m/converse",
    {"toolConfig": {"tools": [SPEC]}},
    "messages",
    {"role": "user", "content": [{"text": "x"}]},
    bedrock_call,
    {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "x"}]}}]},
    lambda name: {"toolConfig": {"tools": [SPEC], "toolChoice": {"tool": {"name": name}}}},
    {"authorization": "x"},
)
OLLAMA = Wire(
    "/api/chat",
    {"model": "m", "stream": False, "tools": [FUNCTION]},
    "messages",
    ASKED,
    ollama_call,
    {"role": "tool", "content": "x"},
    None,
    {},
)
KEYED = [CHAT, RESPONSES, CLAUDE, GEMINI, BEDROCK]
wires = pytest.mark.parametrize("wire", [*KEYED, OLLAMA], ids=repr)


@wires
def test_a_sound_conversation_is_answered(wire):
    with ModelServer([Round(text="x")]) as server:
        assert wire.post(server, wire.call(), wire.result).status_code == 200


@wires
def test_what_breaks_a_rule_is_refused_in_the_vendors_shape(wire):
    """One of the conversation's types, of its pairs, of the tools, of what has to be there; and an undeclared call."""
    broken = json.loads(json.dumps(wire.body).replace('"clock"', '"clo ck"'))
    turns = (wire.call(), wire.result)
    with ModelServer() as server:
        answers = [
            wire.post(server, {**wire.call(), "parsed": 1}, wire.result),
            wire.post(server, wire.call()),
            wire.post(server, wire.call("gone"), json.loads(json.dumps(wire.result).replace("clock", "gone"))),
            wire.post(server, *turns, **broken),
            wire.post(server, **{wire.key: []}),
            wire.post(server, **{wire.key: [7]}),
        ]
        refusals = server.refusals
    assert [got.status_code for got in answers] == [400] * 6
    assert [refusal in texts_in(got.json()) for refusal, got in zip(refusals, answers, strict=True)] == [True] * 6


def texts_in(value):
    inner = value.values() if isinstance(value, dict) else ()
    return [value] if isinstance(value, str) else [text for each in inner for text in texts_in(each)]


@wires
def test_calls_of_tools_that_a_round_made_up_or_that_are_let_pass_may_come_back(wire):
    gone = (wire.call("gone"), json.loads(json.dumps(wire.result).replace("clock", "gone")))
    with ModelServer([Round(calls=[Call("gone")]), Round(text="x")]) as server:
        assert [wire.post(server, *turns).status_code for turns in ((), gone)] == [200, 200]
    with ModelServer([Round(text="x")], undeclared_calls=True) as server:
        assert wire.post(server, *gone).status_code == 200


@pytest.mark.parametrize("wire", KEYED, ids=repr)
def test_the_tool_choice_names_a_declared_tool(wire):
    with ModelServer([Round(text="x")]) as server:
        assert [wire.post(server, **wire.choice(name)).status_code for name in ("gone", "clock")] == [400, 200]


@pytest.mark.parametrize("wire", [CLAUDE, BEDROCK], ids=repr)
def test_calls_in_the_history_want_tools(wire):
    with ModelServer(undeclared_calls=True) as server:
        got = wire.post(server, wire.call(), wire.result, tools=[], toolConfig=None)
        assert (got.status_code, server.refusals) == (400, ["requests with calls or results must define tools"])


@pytest.mark.parametrize("wire", KEYED, ids=repr)
def test_without_a_key_the_request_is_refused(wire):
    with ModelServer() as server, httpx2.Client() as client:
        assert client.post(server.url + wire.path, json=wire.body).status_code == 401


@pytest.mark.parametrize(
    ("wire", "changes", "why"),
    [
        (CLAUDE, {"tool_choice": {"type": "any"}, "thinking": {"type": "enabled", "budget_tokens": 9}}, "Thinking may"),
        (GEMINI, {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["clock"]}}}, "neither ANY nor"),
        (RESPONSES, {"previous_response_id": "gone"}, "'gone' not found"),
    ],
)
def test_what_a_vendor_refuses_beside(wire, changes, why):
    with ModelServer() as server:
        assert why in wire.post(server, **changes).text


def test_anthropic_wants_a_version_and_pings():
    with ModelServer([Round(text="x")]) as server, httpx2.Client(headers={"x-api-key": "x"}) as client:
        body = {**CLAUDE.body, "messages": [ASKED]}
        assert "anthropic-version" in client.post(server.url + CLAUDE.path, json=body).text
        assert 'event: ping\ndata: {"type": "ping"}\n\n' in CLAUDE.post(server, stream=True).text


def test_a_response_goes_on_from_the_one_before():
    with ModelServer([Round(calls=[Call("clock")]), Round(text="x")]) as server:
        first = RESPONSES.post(server).json()
        output = {**RESPONSES.result, "call_id": first["output"][0]["call_id"]}
        for items, status in (([], 400), ([output], 200)):
            sent = {"input": items or "x", "previous_response_id": first["id"]}
            assert RESPONSES.post(server, **sent).status_code == status


def test_ollama_streams_unless_it_is_told_not_to():
    with ModelServer([Round(text="abc")]) as server:
        lines = [json.loads(line) for line in OLLAMA.post(server, stream=None).text.splitlines()]
    assert [(line["message"]["content"], line["done"]) for line in lines] == [
        *[(piece, False) for piece in "abc"],
        ("", True),
    ]


# --- what a vendor wants to have back unchanged ---

THINKING = {"type": "thinking", "thinking": "hm", "signature": "secret"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
REASONED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "secret"}}}
HIDDEN = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
FIRST_IDS = {CLAUDE: "toolu_1_0", BEDROCK: "tooluse_1_0", RESPONSES: "call_1_0"}


def history(wire, thought):
    """The conversation after a round that thought this and called `clock`; `None`: without the thought."""
    first = [] if thought is None else [thought]
    if wire is RESPONSES:
        turns = [*first, {**response_call(), "id": "fc_1_0"}, RESPONSES.result]
    else:
        turns = [wire.call("clock", *first), wire.result]
    return json.loads(json.dumps(turns).replace('"a"', f'"{FIRST_IDS[wire]}"'))


@pytest.mark.parametrize(
    ("wire", "reasoning", "thought", "other"),
    [
        (CLAUDE, Reasoning("hm", "secret"), THINKING, {**THINKING, "signature": "other"}),
        (CLAUDE, Reasoning(signature="c2VjcmV0", redacted=True), REDACTED, {**REDACTED, "data": "b3RoZXI="}),
        (BEDROCK, Reasoning("hm", "secret"), REASONED, {"reasoningContent": {"reasoningText": {"text": "x"}}}),
        (
            BEDROCK,
            Reasoning(signature="c2VjcmV0", redacted=True),
            HIDDEN,
            {"reasoningContent": {"redactedContent": ""}},
        ),
        (RESPONSES, Reasoning("hm", "secret"), {**ITEM, "encrypted_content": "secret"}, ITEM),
    ],
)
def test_reasoning_comes_back_unchanged(wire, reasoning, thought, other):
    with ModelServer([Round(reasoning=reasoning, calls=[Call("clock")]), Round(text="x")]) as server:
        wire.post(server)
        got = [wire.post(server, *history(wire, each)).status_code for each in (other, None, thought)]
        assert got == [400, 400, 200], server.refusals


RAW = {
    CLAUDE: {"content": [THINKING]},
    BEDROCK: {"output": {"message": {"role": "assistant", "content": []}}},
    RESPONSES: {"output": [ITEM]},
    GEMINI: {"candidates": []},
}


@pytest.mark.parametrize(
    ("wire", "turns"),
    [
        (CLAUDE, [claude_call("clock", THINKING), CLAUDE.result]),
        (BEDROCK, [bedrock_call("clock", REASONED), BEDROCK.result]),
        (RESPONSES, [ITEM, response_call(), RESPONSES.result]),
        (GEMINI, [gemini_call(thoughtSignature="bWFkZQ=="), GEMINI.result]),
    ],
    ids=repr,
)
def test_what_a_raw_round_brought_may_come_back(wire, turns):
    with ModelServer([Round(raw=RAW[wire]), Round(text="x")]) as server:
        assert [wire.post(server, *each).status_code for each in ((), turns)] == [200, 200]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (SIGNATURE, ""),
        (SIGNATURE.replace("/", "_"), ""),
        ("b3RoZXI=", "not valid"),
        ("skip_thought_signature_validator", "not valid"),
        (None, "missing a thought_signature"),
    ],
)
def test_signatures_of_gemini_come_back_on_their_calls(given, why):
    """By the name, where the arguments are others."""
    signed = {} if given is None else {"thoughtSignature": given}
    with ModelServer([Round(calls=[Call("clock", signature=SIGNATURE)]), *([] if why else [Round()])]) as server:
        GEMINI.post(server)
        got = GEMINI.post(server, gemini_call(args={"city": "x"}, **signed), GEMINI.result)
        assert (got.status_code, why in got.text) == (400 if why else 200, True)


def test_a_call_that_gemini_never_made_needs_no_signature_and_may_say_so():
    skipped = gemini_call(thoughtSignature="skip_thought_signature_validator")
    with ModelServer([Round()] * 2) as server:
        assert [GEMINI.post(server, each, GEMINI.result).status_code for each in (gemini_call(), skipped)] == [200, 200]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_call_of_gemini_is_known_by_its_id_or_else_by_its_arguments(by_id):
    ids = [{"id": "a"}, {"id": "b"}] if by_id else [{}, {}]
    given = [{"city": "x"}, {"city": "x" if by_id else "y"}]
    made = [Call("clock", each, **one) for each, one in zip(given, ids, strict=True)]
    calls = [{"functionCall": {"name": "clock", "args": each, **one}} for each, one in zip(given, ids, strict=True)]
    answers = [{"functionResponse": {"name": "clock", "response": {}, **one}} for one in ids]
    played = Round(calls=[Call("clock", given[0], signature="b25l", **ids[0]), made[1]])
    with ModelServer([played]) as server:
        GEMINI.post(server)
        swapped = [calls[0], {**calls[1], "thoughtSignature": "b25l"}]
        got = GEMINI.post(server, {"role": "model", "parts": swapped}, {"role": "user", "parts": answers})
        assert "missing a thought_signature" in got.text
