from __future__ import annotations

import base64
import copy

import httpx2
import pytest

from fake_vendors import Call, ModelServer, Reasoning, Round
from fake_vendors.server.talk import CITY, EMPTY, gemini as client_of

FUNCTIONS = [
    {"name": "weather", "description": "Tells the weather.", "parameters_json_schema": CITY},
    {"name": "clock", "parameters_json_schema": EMPTY},
]
ASKED = [{"role": "user", "parts": [{"text": "What is it like?"}]}]
SIGNATURE = base64.b64encode(b"\xff\xfesigned").decode()
"""Its base64 differs in the two alphabets."""


def config(**changes):
    return {
        "tools": [{"function_declarations": FUNCTIONS}],
        "automatic_function_calling": {"disable": True},
        **changes,
    }


def ask(client, contents=ASKED, **changes):
    return client.models.generate_content(model="m", contents=contents, config=config(**changes))


def streamed(client, contents=ASKED, **changes):
    return client.models.generate_content_stream(model="m", contents=contents, config=config(**changes))


def whole(*rounds, contents=ASKED, **changes):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return ask(client, contents, **changes)


def chunks(*rounds):
    with ModelServer(rounds) as server, client_of(server.url) as client:
        return list(streamed(client))


def parts_of(got):
    """The parts of an answer, or of a stream."""
    answers = got if isinstance(got, list) else [got]
    return [part for answer in answers for part in answer.candidates[0].content.parts or ()]


def post(body, server):
    """A body as it stands: the SDK mends some."""
    with httpx2.Client() as client:
        return client.post(server.url + "/v1beta/models/m:generateContent", json=body, headers={"x-goog-api-key": "x"})


@pytest.mark.parametrize("answer", [whole, chunks])
def test_the_first_call_carries_the_signature_of_the_reasoning(answer):
    made = [Call("clock"), Call("clock", signature=SIGNATURE), Call("clock")]
    first, second, third = parts_of(answer(Round(calls=made, reasoning=Reasoning(signature="c2ln"))))
    assert (first.thought_signature, second.thought_signature) == (b"sig", base64.b64decode(SIGNATURE))
    assert third.thought_signature is None


def call(name="weather", **changes):
    return {"functionCall": {"name": name, "args": {}, **changes}}


def answered(name="weather", **changes):
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **changes}}


def turn(role, *parts):
    return {"role": role, "parts": list(parts)}


def history(*turns):
    return {"contents": [*ASKED, *turns]}


def tools(*functions):
    return {"tools": [{"functionDeclarations": list(functions)}]}


DECLARED = tools({"name": "weather", "parametersJsonSchema": CITY}, {"name": "clock"})
UNEQUAL = "number of function response parts is equal"


def calling(**mode):
    return {"toolConfig": {"functionCallingConfig": mode}}


@pytest.fixture(scope="module")
def refusing():
    """A server without rounds, so that only a refusal answers, and a client: one for all that is refused."""
    with ModelServer() as server, httpx2.Client(headers={"x-goog-api-key": "x"}) as client:
        yield server, client


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("contents is not specified", {"contents": []}),
        ("must not be empty", {"contents": [turn("user")]}),
        ("valid role", {"contents": [turn("assistant", {"text": "x"})]}),
        ("oneof field 'data'", {"contents": [turn("user", {"thought": True})]}),
        ("oneof field 'data'", {"contents": [turn("user", {"text": "x", "functionCall": {}})]}),
        ("Unknown parameter", {"contents": [turn("user", {"words": "x"})]}),
        (UNEQUAL, history(turn("model", call()))),
        (UNEQUAL, history(turn("model", call(), call("clock")), turn("user", answered()))),
        (
            UNEQUAL,
            history(turn("model", call(), call("clock")), turn("user", answered()), turn("user", answered("clock"))),
        ),
        (UNEQUAL, history(turn("user", answered()))),
        ("turn of the user's", history(turn("model", call()), turn("model", answered()))),
        ("in the order", history(turn("model", call(), call("clock")), turn("user", answered("clock"), answered()))),
        ("in the order", history(turn("model", call(id="1")), turn("user", answered(id="2")))),
        ("immediately after a user turn", {"contents": [turn("model", call()), turn("user", answered())]}),
        ("immediately after", history(turn("model", {"text": "x"}), turn("model", call()), turn("user", answered()))),
        ("immediately after", history(turn("user", call()), turn("user", answered()))),
        ("does not declare", history(turn("model", call("gone")), turn("user", answered("gone")))),
        ("Name cannot be empty", history(turn("model", call("")))),
        ("Name cannot be empty", history(turn("model", call()), turn("user", answered("")))),
        ("cannot start list", history(turn("model", call(args="{}")))),
        ("Unknown parameter", history(turn("model", call(arguments={})))),
        ("Unknown parameter", history(turn("model", call()), turn("user", answered(output={})))),
        ("Unknown parameter", {"contents": [{**turn("user", {"text": "x"}), "name": "y"}]}),
        ("an object is required", history(turn("model", call()), turn("user", answered(response="x")))),
        ("does not match pattern", tools({"name": "1a"})),
        ("Duplicate function declaration found: a", tools({"name": "a"}, {"name": "a"})),
        ("At most 512", tools(*({"name": f"a{number}"} for number in range(513)))),
        ("can't both be set", tools({"name": "a", "parameters": EMPTY, "parametersJsonSchema": EMPTY})),
        ("of type OBJECT", tools({"name": "a", "parameters": {"type": "STRING"}})),
        ("'gone' is not declared", calling(mode="ANY", allowedFunctionNames=["gone"])),
        ("function_calling_config.mode", calling(mode="REQUIRED")),
        ("neither ANY nor VALIDATED", calling(mode="AUTO", allowedFunctionNames=["weather"])),
        ("not valid", history({**turn("model", {"text": "x", "thoughtSignature": "bWFkZQ=="})})),
        ("not valid", history(turn("model", {**call(), "thoughtSignature": "bWFkZQ=="}), turn("user", answered()))),
    ],
)
def test_what_is_refused(refusing, message, changes):
    server, client = refusing
    body = copy.deepcopy({"contents": ASKED, **DECLARED, **changes})
    got = client.post(server.url + "/v1beta/models/m:generateContent", json=body)
    assert got.status_code == 400
    assert got.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert message in got.json()["error"]["message"]
    assert server.refusals[-1] == got.json()["error"]["message"]


def test_what_is_taken():
    """The neighbours of what is refused; among them a foreign call with the signature that says so."""
    foreign = {**call("clock"), "thoughtSignature": "skip_thought_signature_validator"}
    contents = [
        turn(None, {"inlineData": {"mimeType": "image/png", "data": ""}}),
        turn("model", {"text": "x"}, call(id="1"), foreign),
        turn("function", answered(id="1"), answered("clock"), {"text": "y"}),
    ]
    choice = calling(mode="ANY", allowedFunctionNames=["clock"])
    body = {"contents": contents, "tools": [*DECLARED["tools"], {"googleSearch": {}}], **choice}
    with ModelServer([Round(text="x")]) as server, httpx2.Client() as client:
        assert client.post(server.url + "/v1beta/models/m:generateContent?key=x", json=body).status_code == 200


def test_without_a_key_the_request_is_refused():
    with ModelServer() as server, httpx2.Client() as client:
        got = client.post(server.url + "/v1beta/models/m:generateContent", json={})
    assert (got.status_code, got.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


SIGNED = Round(calls=[Call("clock", signature=SIGNATURE), Call("weather", {"city": "Oslo"})])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (SIGNATURE, None),
        (SIGNATURE.replace("/", "_").replace("+", "-"), None),
        ("b3RoZXI=", "not valid"),
        ("x", "not valid"),
        ("skip_thought_signature_validator", "not valid"),
        (None, "missing a thought_signature"),
    ],
)
def test_signatures_come_back_unchanged(given, message):
    signed = {**call("clock", args={"mended": True}), **({} if given is None else {"thoughtSignature": given})}
    contents = [*ASKED, turn("model", signed, call(args={"city": "Oslo"})), turn("user", answered("clock"), answered())]
    with ModelServer([SIGNED, *([] if message else [Round(text="x")])]) as server:
        post({"contents": ASKED, **DECLARED}, server)
        got = post({"contents": contents, **DECLARED}, server)
        assert got.status_code == (400 if message else 200)
        assert (message or "") in got.text


def test_signatures_of_a_raw_round_may_come_back():
    raw = Round(raw={"candidates": []})
    contents = [*ASKED, turn("model", {**call(), "thoughtSignature": "bWFkZQ=="}), turn("user", answered())]
    with ModelServer([raw, Round(text="x")]) as server:
        post({"contents": ASKED, **DECLARED}, server)
        assert post({"contents": contents, **DECLARED}, server).status_code == 200


@pytest.mark.parametrize("by_id", [False, True])
def test_a_part_is_known_by_its_id_or_else_by_its_arguments(by_id):
    ids = [{"id": "a"}, {"id": "b"}] if by_id else [{}, {}]
    first, second = ({"at": 1}, {"at": 1}) if by_id else ({"at": 1}, {"at": 2})
    made = [Call("clock", first, signature="b25l", **ids[0]), Call("clock", second, **ids[1])]
    swapped = turn(
        "model",
        call("clock", args=first, **ids[0]),
        {**call("clock", args=second, **ids[1]), "thoughtSignature": "b25l"},
    )
    with ModelServer([Round(calls=made)]) as server:
        post({"contents": ASKED, **DECLARED}, server)
        answers = turn("user", *(answered("clock", **one) for one in ids))
        assert "missing a thought_signature" in post({"contents": [*ASKED, swapped, answers], **DECLARED}, server).text
