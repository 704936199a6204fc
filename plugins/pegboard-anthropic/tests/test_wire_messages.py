from __future__ import annotations

import asyncio
import base64

import pytest

from fake_vendors.rules import payloads
from pegboard import Tool
from pegboard.messages.message import (
    CallPart,
    Citation,
    HostedPart,
    MediaPart,
    Message,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from pegboard.request.model_request import ModelRequest
from pegboard.tools.call import ToolCall
from pegboard.tools.content import AudioContent, FileContent, ImageContent, LinkContent, TextContent, ToolResult
from pegboard.toolsets.resolve import resolve_tools
from pegboard_anthropic.anthropic import Anthropic

CACHE = {"cache_control": {"type": "ephemeral"}}
PNG = ImageContent(b"png", "image/png")
PDF = FileContent("file:///a.pdf", b"%PDF", "application/pdf")
NOTE = FileContent("https://example.com/note.txt", "Some words.", "text/plain")
CALL = ToolCall("weather", {"city": "Oslo"}, "c1")
OTHER = ToolCall("clock", {}, "c2")
THOUGHT = ReasoningPart("Hm.", {"anthropic": {"signature": "sig=="}})
HIDDEN = ReasoningPart("", {"anthropic": {"redacted": "abc=="}})
USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
SEARCHED = HostedPart("anthropic", USE, "call", "web_search", "s1")
PAGES = HostedPart("anthropic", FOUND, "result", "web_search", "s1")


def text(words):
    return {"type": "text", "text": words}


def turns(*messages, tools=()):
    resolved = asyncio.run(resolve_tools(list(tools), ()))
    sent = Anthropic().request(ModelRequest(list(messages), tools=resolved))["messages"]
    assert payloads.MESSAGES["anthropic"][1](sent) == []
    return [(turn["role"], turn["content"]) for turn in sent]


def of_user(*parts):
    [(role, content)] = turns(Message.user(*parts))
    assert role == "user"
    return content


def of_assistant(*parts):
    said = Message.assistant(*parts)
    answers = Message.tool([(call, ToolResult("x")) for call in said.calls if not call.provider_executed])
    return turns("?", said, answers, "!")[1:-1]


def result_of(result, **facts):
    part = ResultPart("c1", "weather", result, **facts)
    return turns("?", Message.assistant(CALL), Message("tool", [part]))[-1][1][0]


# --- words and media ---


def test_blank_words_are_left_out_and_turns_of_one_role_are_one():
    assert turns("a", Message.assistant("", " "), "b", Message.assistant("c"), "d") == [
        ("user", [text("a"), text("b")]),
        ("assistant", [text("c")]),
        ("user", [text("d")]),
    ]


def test_a_conversation_that_the_assistant_begins_gets_an_opening():
    assert [role for role, _ in turns(Message.assistant("Hello."), "Hi.")] == ["user", "assistant", "user"]


def test_a_last_word_of_the_assistants_has_no_blanks_behind_it():
    assert turns("?", Message.assistant("It is "))[-1] == ("assistant", [text("It is")])


def test_what_the_host_says_in_between_stands_in_the_users_turn_and_is_marked():
    assert turns("a", Message.assistant("b"), Message.system("Be brief."), "c")[-1] == (
        "user",
        [text("<system>\nBe brief.\n</system>"), text("c")],
    )


def test_media_of_the_users():
    data = base64.b64encode
    assert of_user(PNG, PDF, NOTE) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data(b"png").decode()}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": data(b"%PDF").decode()},
            "title": "file:///a.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Some words."},
            "title": "https://example.com/note.txt",
        },
    ]


def test_links_of_the_users_to_pictures_and_documents_are_fetched_by_the_provider():
    picture = LinkContent("https://example.com/a.png", "A", "image/png")
    paper = LinkContent("https://example.com/a.pdf", "A", "application/pdf")
    page = LinkContent("https://example.com/", "A page", "text/html")
    local = LinkContent("file:///a.png", "A", "image/png")

    assert of_user(picture, paper, page, local) == [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "title": "A"},
        text("[link to A page (text/html): https://example.com/]"),
        text("[link to A (image/png): file:///a.png]"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (AudioContent(b"abc"), "[a sound (audio/wav, 3 bytes) that can't be shown here]"),
        (ImageContent(b"BM", "image/bmp"), "[an image (image/bmp, 2 bytes) that can't be shown here]"),
        (ImageContent(b""), "[an image (image/png, 0 bytes) that can't be shown here]"),
        (FileContent("a.bin", b"abc"), "[file a.bin (3 bytes) that can't be shown here]"),
        (FileContent("a.txt", " "), "[file a.txt]\n "),
        (LinkContent("x:y", "Y"), "[link to Y: x:y]"),
    ],
)
def test_what_the_provider_does_not_take_is_told(content, words):
    assert of_user(MediaPart(content)) == [text(words)]


def test_a_picture_in_a_file_is_a_picture():
    assert of_user(FileContent("a.gif", b"GIF", "image/gif"))[0]["source"]["media_type"] == "image/gif"


def test_what_the_assistant_shows_is_told():
    assert of_assistant(PNG) == [("assistant", [text("[an image (image/png, 3 bytes) that can't be shown here]")])]


def test_options_of_a_part_and_of_a_message_end_what_is_cached():
    marked = TextPart("a", provider_metadata={"anthropic": {**CACHE, "unknown": 1}, "openai": {"id": "x"}})
    cited = MediaPart(PDF, {"anthropic": {"citations": {"enabled": True}, "title": "A", "context": "B"}})

    content = of_user(marked, cited)

    assert content[0] == {**text("a"), **CACHE}
    assert (content[1]["citations"], content[1]["title"], content[1]["context"]) == ({"enabled": True}, "A", "B")
    whole = Message("user", ["a", "b"], provider_metadata={"anthropic": CACHE})
    assert turns(whole) == [("user", [text("a"), {**text("b"), **CACHE}])]


def test_what_is_cached_does_not_end_with_a_thought():
    whole = Message("assistant", [THOUGHT], provider_metadata={"anthropic": CACHE})

    assert turns("?", whole, Message.assistant("a"))[-1] == (
        "assistant",
        [{"type": "thinking", "thinking": "Hm.", "signature": "sig=="}, text("a")],
    )


# --- calls and results ---


def test_calls_and_their_results():
    assert turns(
        "?",
        Message.assistant("I look.", CALL, OTHER),
        Message.tool([(CALL, ToolResult("rain")), (OTHER, ToolResult("noon"))]),
    ) == [
        ("user", [text("?")]),
        (
            "assistant",
            [
                text("I look."),
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "c2", "name": "clock", "input": {}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "noon"},
            ],
        ),
    ]


def test_results_stand_first_in_the_next_turn_of_the_users():
    content = turns("?", Message.assistant(CALL), "Also:", Message.tool([(CALL, ToolResult("rain"))]))[-1][1]

    assert [block["type"] for block in content] == ["tool_result", "text"]


def test_ids_that_come_in_every_answer_are_told_apart():
    call = ToolCall("weather", {}, "call_0")
    round_ = (Message.assistant(call), Message.tool([(call, ToolResult("rain"))]))

    sent = turns("?", *round_, *round_)

    assert [block["id"] for _, content in sent for block in content if block["type"] == "tool_use"] == [
        "call_0",
        "call_0_2",
    ]
    assert [block["tool_use_id"] for _, content in sent for block in content if block["type"] == "tool_result"] == [
        "call_0",
        "call_0_2",
    ]


def test_a_result_without_its_call_is_told():
    late = Message.tool([(CALL, ToolResult("rain"))])
    pictured = Message.tool([(ToolCall("", id="c9"), ToolResult([PNG]))])

    assert turns("?", late) == [("user", [text("?"), text("A result of weather:"), text("rain")])]
    assert [block["type"] for block in turns("?", pictured)[0][1]] == ["text", "text", "image"]
    assert turns("?", Message.tool([(CALL, ToolResult(()))]))[0][1] == [text("?"), text("A result of weather:")]


def test_a_call_that_was_no_json_is_still_said():
    use = of_assistant(ToolCall("weather", '{"city"', "c1"))

    assert use[0][1][0]["input"] == {"INVALID_JSON": '{"city"'}


def test_a_name_that_no_tool_can_have_is_mapped():
    [(_, [use])] = of_assistant(ToolCall("a b", {}, "c1"))

    assert use["name"].startswith("a_b_")


def test_what_a_call_carried_goes_back_with_it_and_with_its_result():
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    call = ToolCall("weather", {}, "c1", provider_metadata={"anthropic": {"caller": caller, "toolset_name": "browser"}})

    sent = turns("?", Message.assistant(call), Message.tool([(call, ToolResult("x"))]))

    assert (sent[1][1][0]["caller"], sent[1][1][0]["toolset_name"]) == (caller, "browser")
    assert sent[2][1][0]["toolset_name"] == "browser"


def test_metadata_of_another_shape_is_passed_over():
    assert "caller" not in of_assistant(ToolCall("weather", {}, "c1", provider_metadata="opaque"))[0][1][0]


def test_a_call_that_another_provider_ran_is_left_out():
    assert of_assistant("Hm.", ToolCall("search", {}, "x", provider_executed=True)) == [("assistant", [text("Hm.")])]


def test_a_tool_that_the_provider_brings_is_called_by_its_name_there():
    shell = Tool.provider("shell", "anthropic.bash_20250124")
    call = ToolCall("shell", {"command": "ls"}, "c1")

    sent = turns("?", Message.assistant(call), Message.tool([(call, ToolResult("a"))]), tools=[shell])

    assert sent[1][1][0]["name"] == "bash"


def test_parts_stand_in_the_turn_of_who_can_say_them():
    result = ResultPart("c1", "weather", ToolResult("rain"))

    sent = turns("?", Message("assistant", [CALL, result, "So it rains."]))

    assert [role for role, _ in sent] == ["user", "assistant", "user", "assistant"]


def test_a_result_holds_text_pictures_documents_and_words_for_the_rest():
    link = LinkContent("https://example.com/a.png", "A", "image/png")

    content = result_of(ToolResult([TextContent("See:"), PNG, PDF, NOTE, AudioContent(b"x"), link, TextContent(" ")]))[
        "content"
    ]

    assert [block["type"] for block in content] == ["text", "image", "document", "document", "text", "text"]


def test_attachments_that_can_be_shown_stand_behind_and_others_are_not_told():
    content = result_of(ToolResult("Drawn.", attachments=[PNG, AudioContent(b"x")]))["content"]

    assert [block["type"] for block in content] == ["text", "image"]


def test_an_error_says_so():
    assert result_of(ToolResult.error("timeout", "Too slow.")) == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "Too slow.",
        "is_error": True,
    }
    assert result_of(ToolResult((), is_error=True))["content"] == "The call failed and said nothing."


def test_nothing_is_no_content():
    assert result_of(ToolResult(())) == {"type": "tool_result", "tool_use_id": "c1"}
    assert result_of(ToolResult(" ")) == {"type": "tool_result", "tool_use_id": "c1"}


def test_structured_content_alone_is_told_as_json():
    assert result_of(ToolResult((), structured_content={"a": [1]}))["content"] == '{"a":[1]}'
    assert result_of(ToolResult("one", structured_content={"a": [1]}))["content"] == "one"
    assert result_of(ToolResult((), structured_content={1, 2}))["content"] == "a set that is no JSON"


def test_a_result_whose_call_wants_citations_holds_search_results():
    options = {"anthropic": {"citations": {"enabled": True}, **CACHE}}

    block = result_of(ToolResult([NOTE, PDF, TextContent("x"), FileContent("a", " ")]), provider_metadata=options)

    assert [each["type"] for each in block["content"]] == ["search_result", "document", "text", "text"]
    assert [each.get("citations") for each in block["content"]] == [{"enabled": True}, {"enabled": True}, None, None]
    assert block["content"][0]["source"] == "https://example.com/note.txt"
    assert block["cache_control"] == CACHE["cache_control"]


# --- reasoning and hosted tools ---


def test_thoughts_go_back_unchanged_and_in_their_place():
    assert of_assistant(THOUGHT, "Let me see.", HIDDEN, CALL)[0][1][:3] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig=="},
        text("Let me see."),
        {"type": "redacted_thinking", "data": "abc=="},
    ]


def test_a_thought_without_words_goes_back_with_its_signature():
    empty = ReasoningPart("", {"anthropic": {"signature": "sig"}})

    assert of_assistant(empty, "x")[0][1][0] == {"type": "thinking", "thinking": "", "signature": "sig"}


@pytest.mark.parametrize(
    "metadata", [{}, {"openai": {"encrypted": "x"}}, {"anthropic": {}}, {"anthropic": {"signature": 3}}]
)
def test_thoughts_of_others_are_left_out(metadata):
    assert of_assistant(ReasoningPart("Hm.", metadata), "Yes.") == [("assistant", [text("Yes.")])]


def test_a_turn_does_not_end_with_a_thought():
    assert turns("a", Message.assistant("b", THOUGHT, HIDDEN), "c") == [
        ("user", [text("a")]),
        ("assistant", [text("b")]),
        ("user", [text("c")]),
    ]
    assert turns("a", Message.assistant(THOUGHT), "c") == [("user", [text("a"), text("c")])]


def test_what_the_provider_has_run_goes_back_as_it_was():
    assert of_assistant(SEARCHED, PAGES, "Found.") == [("assistant", [USE, FOUND, text("Found.")])]


def test_what_another_provider_has_run_is_left_out():
    foreign = HostedPart("openai", {"type": "web_search_call", "id": "w"}, "call", "web_search", "w")

    assert of_assistant(foreign, "x") == [("assistant", [text("x")])]


def test_a_hosted_item_without_type_is_left_out():
    assert of_assistant(HostedPart("anthropic", {"a": 1}), "x") == [("assistant", [text("x")])]


def test_a_paused_turn_goes_back_as_it_is():
    assert turns("?", Message.assistant("I search.", SEARCHED))[-1] == ("assistant", [text("I search."), USE])


def test_a_hosted_call_that_was_never_answered_is_left_out_once_the_user_went_on():
    assert of_assistant("I search.", SEARCHED) == [("assistant", [text("I search.")])]


def test_a_program_that_waits_for_other_calls_stays():
    sent = turns("?", Message.assistant(SEARCHED, CALL), Message.tool([(CALL, ToolResult("x"))]))

    assert sent[1][1][0] == USE


def test_a_hosted_result_without_its_call_is_left_out():
    assert of_assistant(PAGES, "Found.") == [("assistant", [text("Found.")])]


def test_a_hosted_item_without_id_stays():
    upload = {"type": "container_upload", "file_id": "f"}

    assert of_assistant(HostedPart("anthropic", upload, "result"), "x")[0][1][0] == upload


def test_marking_a_message_leaves_what_it_holds_as_it_was():
    message = Message("assistant", [SEARCHED, PAGES], provider_metadata={"anthropic": CACHE})

    assert turns("?", message)[-1][1][-1] == {**FOUND, **CACHE}
    assert PAGES.data == {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


# --- citations ---


def test_citations_of_the_providers_go_back_as_it_takes_them():
    web = {
        "type": "web_search_result_location",
        "url": "https://a",
        "title": "A",
        "cited_text": "x",
        "encrypted_index": "i",
    }
    page = {
        "type": "page_location",
        "cited_text": "y",
        "document_index": 0,
        "start_page_number": 1,
        "end_page_number": 2,
    }
    own = [Citation("x", data={"anthropic": web}), Citation("y", data={"anthropic": {**page, "file_id": "f"}})]
    foreign = [Citation("z", data={"openai": {}}), Citation("z"), Citation("z", data={"anthropic": {"type": "new"}})]

    [(_, [block])] = of_assistant(TextPart("words", [*own, *foreign]))

    assert block["citations"] == [web, {**page, "document_title": None}]


def test_calls_may_be_parts_already():
    assert of_assistant(CallPart(CALL))[0][1][0]["id"] == "c1"
