"""Requests as exporters write them fit the vendors' own types, and their APIs' rules of pairing calls with results."""

from __future__ import annotations

import asyncio
import base64
import json
import re

import pytest
from hypothesis import given, strategies as st

from fake_vendors import Call
from fake_vendors.rules import answers, payloads
from fake_vendors.rules.corpus import BY_NAME
from fake_vendors.rules.exporters import EXPORTERS
from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    LinkContent,
    ModelConfig,
    ModelRequest,
    NamedTool,
    TextContent,
    Tool,
    ToolCall,
    ToolResult,
)
from pegboard.messages import Message, ReasoningPart, TextPart
from pegboard.toolsets import resolve_tools

NAMES = sorted(payloads.MESSAGES)
PNG = ImageContent(b"\x89PNG\r\n\x1a\n" + bytes(24))
WAV = AudioContent(b"RIFF" + bytes(40))
PDF = FileContent("file:///report.pdf", b"%PDF-1.7 ...", "application/pdf")
NOTE = FileContent("file:///note.txt", "Some words.", "text/plain")
LINK = LinkContent("https://example.com/page", "A page", "text/html")
ODD = ImageContent(b"BM....", "image/bmp")

WEATHER = ToolCall("get_weather", {"city": "Tōkyō"}, "call_1")
SEARCH = ToolCall("search_web", '{"query": "größer", "limit": 3}', "call_2")
FREE = ToolCall("free_by_lark", {"input": "one, two"}, "call_3")
TOOLS = [Tool(BY_NAME[name]) for name in ("get_weather", "search_web", "free_by_lark", "draw")]

ASKED = Message.user("What is this?", PNG, WAV, PDF, NOTE, LINK)
CALLING = Message.assistant("I'll look.", WEATHER, SEARCH)
THINKING = Message.assistant(ReasoningPart("Hm, let me see."), "I'll look.", WEATHER, SEARCH)
FAILED = ToolResult("there is no such city", is_error=True, kind="tool_failure")

CONVERSATIONS = {
    "text alone": [Message.user("Hello."), Message.assistant("Hello!"), Message.user("Bye.")],
    "an empty answer": [Message.user("Hello."), Message.assistant(), Message.user("Are you there?")],
    "empty texts": [Message.user(""), Message.assistant(""), Message.user("", "x", "")],
    "every kind of media": [ASKED],
    "media of a kind that few take": [Message.user(ODD, "What is it?")],
    "two calls and their results": [
        ASKED,
        CALLING,
        Message.tool([(WEATHER, ToolResult("sunny")), (SEARCH, ToolResult(structured_content={"hits": [1, None]}))]),
        Message.assistant("It is sunny."),
    ],
    "reasoning before calls": [
        Message.user("Why?"),
        THINKING,
        Message.tool([(WEATHER, ToolResult("sunny")), (SEARCH, ToolResult("none"))]),
    ],
    "an error and an image": [
        Message.user("Draw it."),
        CALLING,
        Message.tool([(WEATHER, FAILED), (SEARCH, ToolResult([TextContent("Here it is:"), PNG]))]),
        Message.user("Again."),
    ],
    "results of every kind": [
        Message.user("All of it."),
        CALLING,
        Message.tool([(WEATHER, ToolResult([PNG, WAV, PDF, NOTE, LINK, ODD])), (SEARCH, ToolResult(()))]),
    ],
    "structured results": [
        Message.user("As JSON."),
        CALLING,
        Message.tool([(WEATHER, ToolResult(structured_content={"a": {"b": []}})), (SEARCH, FAILED)]),
    ],
    "text as a call's input": [
        Message.user("Write."),
        Message.assistant(FREE),
        Message.tool([(FREE, ToolResult("written"))]),
    ],
    "round after round": [
        Message.user("Go on."),
        Message.assistant(WEATHER),
        Message.tool([(WEATHER, ToolResult("sunny"))]),
        Message.assistant("And now:", SEARCH),
        Message.tool([(SEARCH, ToolResult("none"))]),
        Message.assistant("Done."),
    ],
    "words of the host": [Message.user("Hello."), Message.system("Be brief."), Message.user("Well?")],
    "broken words": [Message.user("half \ud83d of a pair"), Message.assistant("\udc00")],
}


def request_of(messages, **facts):
    tools = asyncio.run(resolve_tools(TOOLS, ()))
    facts = {"model": "m", "instructions": ("Be kind.", "Be brief."), "tools": tools, **facts}
    return ModelRequest(messages, **facts)


def body_of(name, messages, **facts):
    return EXPORTERS[name]().request(request_of(messages, **facts))


@pytest.mark.parametrize("what", CONVERSATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_has_no_faults(name, what):
    assert payloads.request_faults(name, body_of(name, CONVERSATIONS[what])) == []


@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedTool("get_weather")], ids=str)
@pytest.mark.parametrize("parallel", [None, False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_choice_of_tools_has_no_faults(name, choice, parallel):
    body = body_of(name, "x", tool_choice=choice, config=ModelConfig(parallel_calls=parallel))

    assert payloads.request_faults(name, body) == []


@pytest.mark.parametrize("reasoning", [None, "none", "low", "medium", "high"])
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_configuration_has_no_faults(name, reasoning):
    config = ModelConfig(
        max_output_tokens=8_000, temperature=0.5, top_p=0.9, stop=("END",), seed=7, reasoning=reasoning, strict=True
    )

    assert payloads.request_faults(name, body_of(name, "x", config=config)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_request_without_tools_says_nothing_of_tools(name):
    body = body_of(name, "x", tools=None, instructions=())

    assert payloads.request_faults(name, body) == []
    assert not {"tools", "toolConfig", "tool_choice"} & body.keys()


@pytest.mark.parametrize("name", answers.NAMES)
def test_what_a_model_answered_goes_back_without_a_fault(name):
    """An answer of the SDK is read, its calls are answered, and the next request has no faults."""
    calls = [Call("get_weather", {"city": "Rome"}, "call_1"), Call("search_web", {"query": "x"}, "call_2")]
    if name in answers.WITH_FREEFORM:
        calls.append(Call("free_by_lark", "one, two", "call_3", freeform=True))
    asked = request_of([Message.user("Go.")])

    for dump in answers.whole(name, calls):
        response = EXPORTERS[name]().response(dump, asked)
        results = Message.tool([(call, ToolResult("done")) for call in response.calls])
        body = EXPORTERS[name]().request(asked.with_messages(response.message, results))
        assert payloads.request_faults(name, body) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_for_people_and_the_operator_or_another_provider_is_never_sent(name):
    secret = {"display": "SECRET", "title": "SECRET", "metadata": {"a": "SECRET"}, "detail": "SECRET"}
    attached = ["SECRET", FileContent("file:///SECRET", "SECRET", "text/plain")]
    result = ToolResult("for the model", **secret, details="SECRET", attachments=attached)
    text = TextPart("words", provider_metadata={"another": {"id": "SECRET"}})
    messages = [Message.user("x"), Message.assistant(text, WEATHER), Message.tool([(WEATHER, result)])]

    body = str(body_of(name, messages))

    assert "for the model" in body
    assert "SECRET" not in body


@pytest.mark.parametrize("name", NAMES)
def test_half_a_character_in_the_instructions_is_replaced(name):
    body = body_of(name, "x", instructions=("Be kind \ud83d.", "\udc00"), tools=None)

    assert "Be kind \ufffd." in json.dumps(body, ensure_ascii=False)
    json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_that_was_kept_as_json_is_written_the_same(name):
    messages = CONVERSATIONS["two calls and their results"]
    kept = [Message.from_json(json.loads(json.dumps(message.to_json()))) for message in messages]

    assert body_of(name, kept) == body_of(name, messages)


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_with_another_model_goes_on_with_this_one(name):
    """Ids, signatures and hosted items of one provider are not sent to another."""
    for other in answers.NAMES:
        answer = answers.whole(other, [Call("get_weather", {"city": "Rome"}, "call_1")])[0]
        response = EXPORTERS[other]().response(answer, request_of("x"))
        results = Message.tool([(call, ToolResult("done")) for call in response.calls])
        body = body_of(name, [Message.user("Go."), response.message, results])

        assert payloads.request_faults(name, body) == [], other


@pytest.mark.parametrize("name", NAMES)
def test_a_body_is_the_callers_own(name):
    config = ModelConfig(provider_options={EXPORTERS[name]().name: {"labels": {"a": "b"}}})
    first, again = (body_of(name, CONVERSATIONS["an error and an image"], config=config) for _ in range(2))
    assert first == again
    for value in first.values():
        if isinstance(value, dict | list):
            value.clear()
    assert body_of(name, CONVERSATIONS["an error and an image"], config=config) == again


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [{1}, {"a": b"x"}, float("nan")], ids=str)
def test_structured_content_that_is_no_json_ends_no_request(name, data):
    result = ToolResult((), structured_content=data)
    assert body_of(name, [Message.user("x"), Message.assistant(WEATHER), Message.tool([(WEATHER, result)])])


STARTS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\0\0\0\0WEBP",
    "image/svg+xml": b"<svg/>",
    "application/pdf": b"%PDF-1.7",
    "audio/wav": b"RIFF\0\0\0\0WAVE",
    "audio/mpeg": b"ID3\x04",
    "video/mp4": b"\0\0\0\x20ftypisom",
    "text/plain": b"words",
    "application/json": b'{"a": 1}',
    "application/xml": "<a>größer</a>".encode("latin-1"),
    "text/html": b"<!DOCTYPE html>",
    "application/zip": b"PK\x03\x04",
    "image/tiff": b"II*\0",
    "application/octet-stream": b"\0\1\2",
}
ALIASES = ["IMAGE/PNG; charset=binary", "image/jpg", "audio/x-wav", "text/xml", "png", "image/*", ""]
TYPES = st.sampled_from([*STARTS, *ALIASES])
MADE = [ImageContent, AudioContent, lambda data, kind: FileContent("file:///a.png", data, kind or None)]
MEDIA = st.tuples(
    st.sampled_from(MADE), st.just(b"") | st.sampled_from([*STARTS.values()]) | st.binary(max_size=3), TYPES
)
SHOWN = STARTS.keys() - {"text/plain", "application/json", "application/xml"}
PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
TAKEN = {
    "openai": {*PICTURES, "application/pdf", "audio/wav", "audio/mpeg"},
    "openai-responses": {*PICTURES, "application/pdf"},
    "anthropic": {*PICTURES, "application/pdf"},
    "gemini": {*PICTURES - {"image/gif"}, "application/pdf", "audio/wav", "audio/mpeg", "video/mp4"},
    "bedrock": {*PICTURES, "application/pdf", "audio/wav", "audio/mpeg", "video/mp4"},
    "ollama": PICTURES - {"image/gif"},
}
FORMATS = {kind.rpartition("/")[2]: kind for kind in STARTS} | {"mp3": "audio/mpeg", "txt": "text/plain"}


def media_in(body):
    """The type, or `None` if it isn't given, and the bytes of each medium in a body, however the provider writes it."""
    if isinstance(body, str) and body.startswith("data:"):
        kind, _, data = body.removeprefix("data:").partition(";base64,")
        yield kind, base64.b64decode(data)
    elif isinstance(body, list):
        for item in body:
            yield from media_in(item)
    elif isinstance(body, dict):
        kind = body.get("media_type") or body.get("mimeType") or FORMATS.get(body.get("format"))
        source = body.get("source")
        if kind and isinstance(source, dict) and "bytes" in source:
            yield kind, source["bytes"]
        elif kind and "data" in body:
            yield kind, base64.b64decode(body["data"]) if body.get("type") != "text" else body["data"].encode()
        elif "images" in body:
            yield from ((None, base64.b64decode(data)) for data in body["images"])
        else:
            yield from media_in(list(body.values()))


@pytest.mark.parametrize("name", TAKEN)
@given(media=st.lists(MEDIA, min_size=1, max_size=3), is_result=st.booleans(), is_error=st.booleans())
def test_a_medium_is_sent_with_the_type_of_its_bytes_or_becomes_a_text(name, media, is_result, is_error):
    marks = [f"({place})" for place in range(len(media))]
    said = [make(data and data + mark.encode(), kind) for mark, (make, data, kind) in zip(marks, media, strict=True)]
    result = Message.tool([(WEATHER, ToolResult(said, is_error=is_error))])
    messages = [Message.user("x"), Message.assistant(WEATHER), result] if is_result else [Message.user(*said)]

    body = body_of(name, messages, tools=None)

    sent = list(media_in(body))
    for kind, data in sent:
        shown = next((each for each, start in STARTS.items() if each in SHOWN and data.startswith(start)), None)
        assert data
        assert kind is None or kind in TAKEN[name] or (kind.startswith("text/") and data.decode())
        assert (
            shown == (kind or shown)
            if {kind, shown} & {*PICTURES, "application/pdf", "audio/wav"}
            else kind is not None
        )
    written = json.dumps(body, default=str)
    lost = [mark for mark in marks if mark not in written and not any(mark.encode() in data for _, data in sent)]
    assert len(lost) <= len(re.findall(r": it can't be shown here\]|: it is empty\]", written))


@pytest.mark.parametrize("name", TAKEN)
def test_nothing_but_text_is_in_an_error_that_may_have_only_that(name):
    result = ToolResult([TextContent("It failed."), PNG, PDF, NOTE], is_error=True)

    body = body_of(name, [Message.user("x"), Message.assistant(WEATHER), Message.tool([(WEATHER, result)])], tools=None)

    if name in ("anthropic", "bedrock"):
        first, *after = body["messages"][-1]["content"]
        inside = first.get("toolResult", first)["content"]
        assert all("text" in block for block in inside)
        assert NOTE.data in inside[-1]["text"]
        assert len(list(media_in(after))) == 2
    assert payloads.request_faults(name, body) == [] if name in payloads.MESSAGES else True
