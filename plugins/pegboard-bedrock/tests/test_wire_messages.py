from __future__ import annotations

import asyncio
import json

import pytest

from fake_vendors.rules import bedrock_rules, pairing
from pegboard import Tool
from pegboard.messages.message import Citation, HostedPart, MediaPart, Message, ReasoningPart, ResultPart, TextPart
from pegboard.request.model_request import ModelRequest
from pegboard.tools.call import ToolCall
from pegboard.tools.content import AudioContent, FileContent, ImageContent, LinkContent, TextContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard_bedrock._bedrock import BedrockLimits
from pegboard_bedrock.bedrock import Bedrock

POINT = {"cachePoint": {"type": "default"}}
PNG = ImageContent(b"png")
PDF = FileContent("file:///dir/a report.v2.pdf", b"%PDF", "application/pdf")
NOTE = FileContent("note.txt", "Some words.")
CLIP = FileContent("a.mp4", b"mp4", "video/mp4")
CALL = ToolCall("weather", {"city": "Oslo"}, "c1")
THOUGHT = ReasoningPart("Hm.", {"bedrock": {"signature": "sig=="}})
HIDDEN = ReasoningPart("", {"bedrock": {"redacted": "YWJj"}})
USE = {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {"query": "x"}, "type": "server_tool_use"}}
FOUND = {"toolResult": {"toolUseId": "s1", "content": [{"text": "found"}], "type": "nova_grounding_result"}}
SEARCHED = HostedPart("bedrock", USE, "call", "nova_grounding", "s1")
PAGES = HostedPart("bedrock", FOUND, "result", "nova_grounding", "s1")


def hosted(block):
    return any("type" in block.get(member, {}) for member in ("toolUse", "toolResult"))


def turns(*messages, tools=(), exporter=None):
    resolved = asyncio.run(resolve_tools(list(tools), ()))
    sent = (exporter or Bedrock()).request(ModelRequest(list(messages), tools=resolved))["messages"]
    assert bedrock_rules.messages(sent) == []
    assert (
        pairing.bedrock([{**turn, "content": [each for each in turn["content"] if not hosted(each)]} for turn in sent])
        == []
    )
    return [(turn["role"], turn["content"]) for turn in sent]


def of_user(*parts, **facts):
    return turns(Message.user(*parts), **facts)[0][1]


def of_assistant(*parts, **facts):
    said = Message.assistant(*parts)
    answers = Message.tool([(call, ToolResult("x")) for call in said.calls if not call.provider_executed])
    return turns("?", said, answers, "!", **facts)[1][1]


def result_of(result, **facts):
    part = ResultPart("c1", "weather", result, **facts)
    return turns("?", Message.assistant(CALL), Message("tool", [part]))[-1][1]


def test_blank_words_are_left_out_and_turns_alternate():
    assert turns("a", Message.assistant("", " "), "b", Message.assistant("c"), "d") == [
        ("user", [{"text": "a"}, {"text": "b"}]),
        ("assistant", [{"text": "c"}]),
        ("user", [{"text": "d"}]),
    ]
    assert [role for role, _ in turns(Message.assistant("Hello."))] == ["user", "assistant"]
    assert turns("a", Message.assistant("b \n"))[-1] == ("assistant", [{"text": "b"}])


def test_media_are_bytes():
    assert of_user(PNG, PDF, NOTE, CLIP, AudioContent(b"wav"), "See.") == [
        {"image": {"format": "png", "source": {"bytes": b"png"}}},
        {"document": {"format": "pdf", "name": "a report v2 pdf", "source": {"bytes": b"%PDF"}}},
        {"document": {"format": "txt", "name": "note txt", "source": {"bytes": b"Some words."}}},
        {"video": {"format": "mp4", "source": {"bytes": b"mp4"}}},
        {"audio": {"format": "wav", "source": {"bytes": b"wav"}}},
        {"text": "See."},
    ]


def test_documents_want_words_beside_them():
    assert of_user(PDF)[-1] == {"text": "The document is attached."}


def test_each_document_has_a_name_of_its_own():
    exporter = Bedrock(BedrockLimits(document_name=10))
    files = [
        FileContent(uri, b"x", "text/csv") for uri in ("a", "a", "a (2)", "ü/", "the same name 1", "the same name 2")
    ]

    names = [block["document"]["name"] for block in of_user(*files, exporter=exporter) if "document" in block]

    assert names == ["a", "a (2)", "a (2) (2)", "document", "the same n", "the sa (2)"]


def test_links_into_the_providers_storage_are_locations():
    picture = LinkContent("s3://bucket/a.png", "A", "image/png")
    paper = LinkContent("s3://bucket/a.pdf", "A paper", "application/pdf")
    page = LinkContent("https://example.com", "A page", "text/html")
    unknown = LinkContent("s3://bucket/a", "A")

    assert of_user(picture, paper, page, unknown) == [
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}},
        {"document": {"format": "pdf", "name": "A paper", "source": {"s3Location": {"uri": "s3://bucket/a.pdf"}}}},
        {"text": "[link to A page (text/html): https://example.com]"},
        {"text": "[link to A: s3://bucket/a]"},
    ]


@pytest.mark.parametrize(
    "content", [ImageContent(b"x", "image/bmp"), ImageContent(b""), FileContent("a", b"x"), FileContent("a", b"")]
)
def test_what_the_provider_does_not_take_is_told(content):
    [block] = of_user(MediaPart(content))

    assert "can't be shown here" in block["text"]


def test_an_empty_file_of_text_is_named():
    assert of_user(FileContent("a.txt", "")) == [{"text": "[file a.txt]\n"}]


def test_what_the_assistant_shows_is_told():
    assert "can't be shown" in of_assistant(PNG)[0]["text"]


def test_options_of_a_part_and_of_a_message_are_followed_by_a_cache_point():
    marked = TextPart("a", provider_metadata={"bedrock": POINT, "anthropic": {"cache_control": {"type": "ephemeral"}}})

    assert of_user(marked, "b") == [{"text": "a"}, POINT, {"text": "b"}]
    assert turns(Message("user", ["a", "b"], provider_metadata={"bedrock": POINT}))[0][1] == [
        {"text": "a"},
        {"text": "b"},
        POINT,
    ]
    assert of_assistant(ToolCall("t", {}, "c", provider_metadata={"bedrock": POINT}))[1] == POINT
    assert len(of_assistant(ToolCall("t", {}, "c", provider_metadata=3))) == 1


def test_calls_and_their_results():
    sent = turns("?", Message.assistant("I look.", CALL), "Also:", Message.tool([(CALL, ToolResult("rain"))]))

    assert sent[1:] == [
        (
            "assistant",
            [{"text": "I look."}, {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Oslo"}}}],
        ),
        ("user", [{"toolResult": {"toolUseId": "c1", "content": [{"text": "rain"}]}}, {"text": "Also:"}]),
    ]


def test_ids_that_the_provider_does_not_take_are_mapped_for_both():
    call = ToolCall("weather", {}, "a|b")

    sent = turns("?", Message.assistant(call), Message.tool([(call, ToolResult("x"))]))

    assert sent[1][1][0]["toolUse"]["toolUseId"] == sent[2][1][0]["toolResult"]["toolUseId"] != "a|b"


def test_a_result_without_its_call_is_told():
    late = Message.tool([(CALL, ToolResult(structured_content={"a": 1}))])

    assert turns("?", late)[0][1] == [{"text": "?"}, {"text": "A result of weather:"}, {"text": '{"a":1}'}]
    pictured = turns("?", Message.tool([(ToolCall("", id="x"), ToolResult([PNG]))]))
    assert [next(iter(block)) for block in pictured[0][1]] == ["text", "text", "image"]


def test_a_call_that_was_no_json_and_a_name_that_no_tool_has_are_still_said():
    [use] = of_assistant(ToolCall("a b", "{", "c1"))

    assert use["toolUse"]["input"] == {"INVALID_JSON": "{"}
    assert use["toolUse"]["name"].startswith("a_b_")


def test_a_call_that_another_provider_ran_is_left_out():
    assert of_assistant("Hm.", ToolCall("search", {}, "x", provider_executed=True)) == [{"text": "Hm."}]


def test_a_tool_that_the_provider_hosts_is_called_by_its_name_there():
    [use] = of_assistant(ToolCall("ground", {}, "c"), tools=[Tool.provider("ground", "bedrock.nova_grounding")])

    assert use["toolUse"]["name"] == "nova_grounding"


def test_an_object_is_json_and_everything_else_is_not():
    def content(*given, **facts):
        return result_of(ToolResult(*given, **facts))[0]["toolResult"]["content"]

    data = {"a": [1]}
    assert content((), structured_content=data) == [{"json": data}]
    assert content('{"a": [1]}', structured_content=data) == [{"json": data}]
    assert content("one", structured_content=data) == [{"text": "one"}]
    assert content(["one", '{"a":[1]}'], structured_content=data) == [{"text": "one"}, {"text": '{"a":[1]}'}]
    assert content("", structured_content={}) == [{"text": "(nothing)"}]
    assert content((), structured_content=[1]) == [{"text": "[1]"}]
    assert content("[1]", structured_content=[1]) == [{"text": "[1]"}]
    assert content((), structured_content={1}) == [{"text": "a set that is no JSON"}]
    assert content((), structured_content={"a": b"x"}) == [{"text": "a dict that is no JSON"}]


def test_a_result_holds_media_but_no_sounds():
    shown = ToolResult(
        [TextContent("See:"), PNG, PDF, CLIP, AudioContent(b"wav")], attachments=[PNG, AudioContent(b"wav")]
    )

    content = result_of(shown)[0]["toolResult"]["content"]

    assert [next(iter(block)) for block in content] == ["text", "image", "document", "video", "text", "image"]


def test_an_error_says_so_and_nothing_is_said_to_be_nothing():
    assert result_of(ToolResult.error("timeout", "Too slow."))[0]["toolResult"] == {
        "toolUseId": "c1",
        "content": [{"text": "Too slow."}],
        "status": "error",
    }
    assert result_of(ToolResult((), is_error=True))[0]["toolResult"]["content"] == [
        {"text": "The call failed and said nothing."}
    ]
    assert result_of(ToolResult(()))[0]["toolResult"]["content"] == [{"text": "(nothing)"}]


def test_what_is_for_people_and_the_operator_is_not_sent():
    secret = ToolResult(
        "said", display="SECRET", title="SECRET", metadata={"a": "SECRET"}, detail="SECRET", details="SECRET"
    )

    assert "SECRET" not in str(result_of(secret))


def test_thoughts_go_back_unchanged_and_in_their_place():
    assert of_assistant(THOUGHT, "Let me see.", HIDDEN, CALL)[:3] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig=="}}},
        {"text": "Let me see."},
        {"reasoningContent": {"redactedContent": b"abc"}},
    ]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"anthropic": {"signature": "x"}},
        {"bedrock": {}},
        {"bedrock": {"redacted": "é"}},
        {"bedrock": {"redacted": "a"}},
    ],
)
def test_thoughts_of_others_and_broken_ones_are_left_out(metadata):
    assert of_assistant(ReasoningPart("Hm.", metadata), "Yes.") == [{"text": "Yes."}]


def test_a_turn_does_not_end_with_a_thought():
    assert of_assistant("b", THOUGHT) == [{"text": "b"}]


def test_what_the_provider_has_run_goes_back_as_it_was_and_what_others_have_run_does_not():
    foreign = HostedPart("anthropic", {"type": "server_tool_use", "id": "w"}, "call", "web_search", "w")

    assert of_assistant(SEARCHED, PAGES, foreign, "Found.") == [USE, FOUND, {"text": "Found."}]
    assert of_assistant(HostedPart("bedrock", {"a": 1, "b": 2}), "x") == [{"text": "x"}]


def test_citations_of_the_providers_go_back():
    web = {"title": "A", "sourceContent": [{"text": "x"}], "location": {"web": {"url": "https://a"}}}
    cited = TextPart(
        "words", [Citation("x", data={"bedrock": web}), Citation("y", data={"openai": {"a": 1}}), Citation("z")]
    )

    assert of_assistant(cited) == [{"citationsContent": {"content": [{"text": "words"}], "citations": [web]}}]


def test_a_conversation_kept_as_json_is_written_the_same():
    messages = [Message.user("?", PNG), Message.assistant(THOUGHT, HIDDEN, SEARCHED, PAGES, "a")]
    kept = [Message.from_json(json.loads(json.dumps(message.to_json()))) for message in messages]

    assert turns(*kept) == turns(*messages)
