from __future__ import annotations

import base64
import copy

import httpx2
import pytest
from google import genai
from google.genai import errors
from google.genai.types import HttpOptions

from fake_vendors import Call, Citation, Error, ModelServer, Page, Reasoning, Round, Search, Usage
from fake_vendors.server.talk import CITY, EMPTY, LOOP, async_until, gemini as client_of, run_async, until

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


def results_of(got, **changes):
    calls = [part.function_call for part in parts_of(got) if part.function_call]
    parts = [{"function_response": {"id": call.id, "name": call.name, "response": {"output": "x"}}} for call in calls]
    return {"role": "user", "parts": parts, **changes}


def model_turn(got):
    return {"role": "model", "parts": [part.model_dump(exclude_none=True) for part in parts_of(got)]}


def post(body, server):
    """A body as it stands: the SDK mends some."""
    with httpx2.Client() as client:
        return client.post(server.url + "/v1beta/models/m:generateContent", json=body, headers={"x-goog-api-key": "x"})


def test_a_loop_with_two_calls_side_by_side():
    with ModelServer(LOOP) as server, client_of(server.url) as client:
        first = ask(client)
        assert [(call.name, call.args, call.id) for call in first.function_calls] == [
            ("weather", {"city": "Oslo"}, None),
            ("clock", {}, None),
        ]
        second = ask(client, [*ASKED, first.candidates[0].content, results_of(first)])
        assert second.text == "It is noon, and it rains."
        assert [content["role"] for content in server.requests[1].body["contents"]] == ["user", "model", "user"]


def test_a_streamed_loop():
    with ModelServer(LOOP) as server, client_of(server.url) as client:
        first = list(streamed(client))
        assert [bool(part.function_call) for part in parts_of(first)] == [False, False, False, True, True]
        assert [chunk.candidates[0].finish_reason for chunk in first[:-1]] == [None] * 5
        assert first[-1].candidates[0].finish_reason.name == "STOP"
        second = list(streamed(client, [*ASKED, model_turn(first), results_of(first)]))
        assert "".join(chunk.text or "" for chunk in second) == "It is noon, and it rains."
        assert server.requests[1].query == "alt=sse"


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_with_the_async_client(stream):
    async def play():
        async with genai.Client(api_key="x", http_options=HttpOptions(base_url=server.url)).aio as client:
            first = await answer(client, ASKED)
            return await answer(client, [*ASKED, model_turn(first), results_of(first)])

    async def answer(client, contents):
        if not stream:
            return await ask(client, contents)
        return [chunk async for chunk in await streamed(client, contents)]

    with ModelServer(LOOP) as server:
        assert "".join(part.text for part in parts_of(run_async(play))) == "It is noon, and it rains."


def test_usage():
    usage = whole(Round(text="x", usage=Usage(20, 10, cached=5, reasoning=4))).usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count, usage.total_token_count) == (20, 5, 30)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (6, 4)


@pytest.mark.parametrize("answer", [whole, chunks])
def test_reasoning_searches_and_citations(answer):
    played = Round(
        text="Ølen",
        pieces=1,
        reasoning=Reasoning("hm", SIGNATURE),
        hosted=[Search("rain", [Page("p", "t")]), {"executableCode": {"language": "PYTHON", "code": "1"}}],
        citations=[Citation("u", "t", start=1, end=4)],
    )
    got = answer(played)
    thought, code, text = parts_of(got)
    assert (thought.text, thought.thought, code.executable_code.code) == ("hm", True, "1")
    assert (text.text, text.thought_signature) == ("Ølen", base64.b64decode(SIGNATURE))
    grounding = (got if answer is whole else got[-1]).candidates[0].grounding_metadata
    assert grounding.web_search_queries == ["rain"]
    assert [chunk.web.uri for chunk in grounding.grounding_chunks] == ["u", "p"]
    segment = grounding.grounding_supports[0].segment
    assert (segment.start_index, segment.end_index, segment.text) == (2, 5, "len")


@pytest.mark.parametrize("answer", [whole, chunks])
def test_the_first_call_carries_the_signature_of_the_reasoning(answer):
    made = [Call("clock"), Call("clock", signature=SIGNATURE), Call("clock")]
    first, second, third = parts_of(answer(Round(calls=made, reasoning=Reasoning(signature="c2ln"))))
    assert (first.thought_signature, second.thought_signature) == (b"sig", base64.b64decode(SIGNATURE))
    assert third.thought_signature is None


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL")],
)
def test_the_finish_reason_is_the_scripts(finish, reason):
    assert whole(Round(text="x", finish=finish)).candidates[0].finish_reason.name == reason


def test_refusals_and_empty_answers():
    with ModelServer([Round(refusal="no")]) as server:
        got = post({"contents": ASKED}, server).json()["candidates"][0]
    assert (got["finishReason"], got["finishMessage"]) == ("SAFETY", "no")
    assert whole(Round()).candidates[0].content.parts is None
    assert len(chunks(Round())) == 1


def test_calls_have_the_ids_of_the_script():
    made = [Call("weather", id="1"), Call("clock", id="1"), Call("nobody")]
    assert [(call.id, call.name) for call in whole(Round(calls=made)).function_calls] == [
        ("1", "weather"),
        ("1", "clock"),
        (None, "nobody"),
    ]


def test_arguments_that_are_no_object_go_out_as_they_are():
    with ModelServer([Round(calls=[Call("a", '{"x'), Call("b", "[1]")])]) as server:
        parts = post({"contents": ASKED}, server).json()["candidates"][0]["content"]["parts"]
    assert [part["functionCall"]["args"] for part in parts] == ['{"x', [1]]


def test_a_stream_that_breaks_off():
    with ModelServer([Round(text="abc", break_after=2)]) as server, client_of(server.url) as client:
        got = until(httpx2.RemoteProtocolError, streamed(client))
    assert [chunk.text for chunk in got] == ["a", "b"]


def test_a_stream_that_breaks_off_for_the_async_client():
    async def play(got):
        async with genai.Client(api_key="x", http_options=HttpOptions(base_url=server.url)).aio as client:
            async for chunk in await streamed(client):
                got.append(chunk.text)

    with ModelServer([Round(text="abc", break_after=2)]) as server:
        assert async_until(httpx2.RemoteProtocolError, play) == ["a", "b"]


def test_calls_that_never_end():
    with ModelServer([Round(calls=[Call("clock")], never_ends=50)]) as server, client_of(server.url) as client:
        got = until(httpx2.RemoteProtocolError, streamed(client))
    assert len([call for chunk in got for call in chunk.function_calls]) == 51


def test_an_error_inside_a_stream():
    script = [Round(text="abc", error=Error(503, "busy", after=2))]
    with ModelServer(script) as server, client_of(server.url) as client:
        with pytest.raises(errors.ServerError, match="busy") as caught:
            list(streamed(client))
        assert caught.value.status == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("status", "kind", "name"),
    [
        (400, errors.ClientError, "INVALID_ARGUMENT"),
        (401, errors.ClientError, "UNAUTHENTICATED"),
        (429, errors.ClientError, "RESOURCE_EXHAUSTED"),
        (500, errors.ServerError, "INTERNAL"),
        (418, errors.ClientError, "UNKNOWN"),
    ],
)
@pytest.mark.parametrize("way", [ask, lambda client: list(streamed(client))])
def test_an_error_is_the_sdks_own(status, kind, name, way):
    with ModelServer([Round(error=Error(status, "no", retry_after=1.5))]) as server, client_of(server.url) as client:
        with pytest.raises(kind, match="no") as caught:
            way(client)
        assert (caught.value.code, caught.value.status) == (status, name)
        assert caught.value.details["error"]["details"][0]["retryDelay"] == "1.5s"
        assert caught.value.response.headers["retry-after"] == "1.5"


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


def test_a_refusal_is_the_sdks_own_error():
    with ModelServer() as server, client_of(server.url) as client:
        with pytest.raises(errors.ClientError, match=UNEQUAL) as caught:
            ask(client, [*ASKED, turn("user", answered())])
        assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")


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


def test_signatures_come_back_through_the_sdk():
    with ModelServer([SIGNED, Round(text="x")]) as server, client_of(server.url) as client:
        first = ask(client)
        assert ask(client, [*ASKED, model_turn(first), results_of(first)]).text == "x"


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
