from __future__ import annotations

import base64

import pytest

from fake_vendors.rules import payloads
from fake_vendors.rules.samples import BMP, LINK, PDF, PNG, WAV, asked
from pegboard.messages.message import CallPart, HostedPart, MediaPart, Message, ReasoningPart, ResultPart, TextPart
from pegboard.request.model_request import ModelConfig
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from pegboard_openai.openai_chat import OpenAIChat

CALL = ToolCall("weather", {"city": "Oslo"}, "c1")
OTHER = ToolCall("weather", '{"city"', "c2")
FREE = ToolCall("note", {"input": "x"}, "c3")


def said(*messages, exporter=None, **facts):
    body = (exporter or OpenAIChat()).request(asked(*messages, model="m", **facts))
    assert payloads.openai_chat_request({**body, "messages": []}) == []
    return body["messages"]


def checked(*messages, **facts):
    """Messages that the SDK's types take, calls paired with results."""
    made = said(*messages, **facts)
    assert payloads.openai_chat_messages(made) == []
    return made


def test_instructions_stand_first():
    assert checked("hi", instructions=("Be kind.", "Be brief.")) == [
        {"role": "system", "content": "Be kind.\n\nBe brief."},
        {"role": "user", "content": "hi"},
    ]
    assert said("hi", instructions="x", exporter=OpenAIChat(system_role="developer"))[0]["role"] == "developer"


def test_what_the_host_says_within_stands_where_it_was_said():
    made = checked("a", Message.system("be brief", BMP), "b")
    assert [each["role"] for each in made] == ["user", "system", "user"]
    assert made[1]["content"].startswith("be brief\n[an image")


def test_a_user_says_pictures_sounds_and_files():
    (message,) = checked(Message.user("Look:", PNG, WAV, PDF, LINK, BMP))
    kinds = [part["type"] for part in message["content"]]
    assert kinds == ["text", "image_url", "input_audio", "file", "image_url", "text"]
    assert message["content"][3]["file"]["filename"] == "re port.pdf"


def test_options_of_pictures_and_files_are_passed_through():
    parts = [MediaPart(PNG, {"openai": {"detail": "low"}}), MediaPart(PDF, {"openai": {"file_id": "file-1"}})]
    (message,) = checked(Message("user", parts))
    assert message["content"][0]["image_url"]["detail"] == "low"
    assert message["content"][1] == {"type": "file", "file": {"file_id": "file-1"}}


def test_messages_without_anything_are_left_out():
    silent = (Message.user(), Message.user("", ""), Message.assistant(), Message.assistant(""), Message.system())
    assert checked("a", *silent, Message.user("", "b")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]


def test_calls_of_functions_and_of_free_text():
    results = [(CALL, ToolResult("1")), (OTHER, ToolResult.error("invalid_arguments", "no")), (FREE, ToolResult("3"))]
    made = checked("go", Message.assistant("Well.", CALL, OTHER, FREE), Message.tool(results))
    assert made[1] == {
        "role": "assistant",
        "content": "Well.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
            {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": '{"city"'}},
            {"id": "c3", "type": "custom", "custom": {"name": "note", "input": "x"}},
        ],
    }
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no"},
        {"role": "tool", "tool_call_id": "c3", "content": "3"},
    ]


def test_a_call_without_words_has_no_content():
    made = checked(Message.assistant(CALL), Message.tool([(CALL, ToolResult("1"))]))
    assert made[0]["content"] is None


def test_a_call_that_came_as_free_text_goes_back_so_even_where_the_tool_is_gone():
    call = ToolCall("gone", {"input": "x"}, "c", provider_metadata={"openai": {"type": "custom"}})
    made = checked(Message.assistant(call), Message.tool([(call, ToolResult("1"))]), tools=())
    assert made[0]["tool_calls"][0]["type"] == "custom"


def test_pictures_in_results_follow_behind_all_results():
    results = [(CALL, ToolResult([TextContent("see"), PNG])), (OTHER, ToolResult([PDF, BMP]))]
    made = checked(Message.assistant(CALL, OTHER), Message.tool(results[:1]), Message.tool(results[1:]), "thanks")
    assert [each["role"] for each in made] == ["assistant", "tool", "tool", "user", "user"]
    heading = "Picture 1 of the result of weather (c1)"
    assert made[1]["content"] == f"see\n[{heading}: in the message of the user behind the results]"
    assert [part["type"] for part in made[3]["content"]] == ["text", "image_url", "text", "file"]
    assert made[3]["content"][0]["text"] == f"{heading}:"
    assert "image/bmp" in made[2]["content"]


def test_pictures_follow_at_the_end_too():
    made = checked(Message.assistant(CALL), Message.tool([(CALL, ToolResult(PNG))]))
    assert made[-1]["role"] == "user"


def test_words_among_results_follow_behind_them():
    message = Message("tool", [ResultPart.of(CALL, ToolResult("1")), TextPart("Be quick.")])
    made = checked(Message.assistant(CALL), message)
    assert made[-1] == {"role": "user", "content": [{"type": "text", "text": "Be quick."}]}
    both = Message("tool", [ResultPart.of(CALL, ToolResult("1")), TextPart("Be"), TextPart("quick.")])
    assert len(checked(Message.assistant(CALL), both)[-1]["content"]) == 2


def test_a_later_result_of_a_call_is_told_by_the_user():
    made = checked(
        Message.assistant(CALL),
        Message.tool([(CALL, ToolResult("pending"))]),
        Message.tool([(CALL, ToolResult([TextContent("done"), PNG]))]),
    )
    assert [part.get("text") for part in made[-1]["content"]] == ["A later result of weather:", "done", None]


def test_ids_are_mapped_alike_on_calls_and_results():
    long, empty = ToolCall("weather", {}, "x" * 41), ToolCall("weather", {}, "")
    again = [Message.assistant(long, empty), Message.tool([(long, ToolResult("1")), (empty, ToolResult("2"))])]
    made = checked(*again, *again)
    ids = [call["id"] for message in made for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 4
    assert [each["tool_call_id"] for each in made if each["role"] == "tool"] == ids


def test_what_other_providers_want_back_is_left_out():
    made = checked(
        Message(
            "assistant",
            [
                ReasoningPart("thought", {"anthropic": {"signature": "s"}}),
                HostedPart("anthropic", {"type": "server_tool_use"}),
                TextPart("said", provider_metadata={"google": {"thoughtSignature": "s"}}),
                CallPart(ToolCall("weather", {}, "c", provider_metadata={"google": {"type": "custom"}})),
            ],
        ),
        Message.tool([(ToolCall("weather", {}, "c"), ToolResult("1"))]),
    )
    assert made[0].keys() == {"role", "content", "tool_calls"}
    assert made[0]["tool_calls"][0]["type"] == "function"


def test_calls_that_a_provider_has_run_are_left_out_with_their_results():
    call = ToolCall("search", {}, "c", provider_executed=True)
    assert checked(Message.assistant("x", call), Message.tool([(call, ToolResult("1"))])) == [
        {"role": "assistant", "content": "x"}
    ]


def test_an_id_of_a_hosted_call_may_be_another_calls_too():
    hosted = ToolCall("search", {}, "c1", provider_executed=True)
    made = checked(Message.assistant(hosted, CALL), Message.tool([(CALL, ToolResult("1"))]))
    assert [each["role"] for each in made] == ["assistant", "tool"]


def test_reasoning_goes_back_only_where_the_server_wants_it():
    thinking = Message.assistant(ReasoningPart("hm", {"openai": {"field": "reasoning_content"}}), "yes")
    assert said(thinking) == [{"role": "assistant", "content": "yes"}]
    made = said(thinking, exporter=OpenAIChat(reasoning="reasoning_content"))
    assert made[0]["reasoning_content"] == "hm"
    foreign = Message.assistant(ReasoningPart("hm", {"anthropic": {}}), "yes")
    assert "reasoning_content" not in said(foreign, exporter=OpenAIChat(reasoning="reasoning_content"))[0]


def test_refusals_and_sounds_go_back_as_what_they_were():
    refusal = TextPart("I won't.", provider_metadata={"openai": {"refusal": True}})
    assert checked(Message.assistant(refusal))[0] == {"role": "assistant", "content": None, "refusal": "I won't."}
    spoken = MediaPart(WAV, {"openai": {"audio": "audio_1", "transcript": "hello"}})
    assert checked(Message.assistant(spoken))[0]["audio"] == {"id": "audio_1"}


def test_what_a_model_cant_say_is_described():
    (message,) = checked(Message.assistant("Here:", ImageContent(b"abc")))
    assert message["content"] == "Here:\n[an image (image/png, 3 bytes) that can't be shown here]"


def test_what_other_servers_want_back_with_a_call_goes_back_unchanged():
    extra = {"google": {"thought_signature": "c2ln"}}
    call = ToolCall("weather", {}, "c", provider_metadata={"openai": {"extra_content": extra}})
    (message, _) = said(Message.assistant(call), Message.tool([(call, ToolResult("1"))]))
    assert message["tool_calls"][0]["extra_content"] == extra


def test_results_in_other_messages_are_results_too():
    made = checked(Message.assistant(CALL, ResultPart.of(CALL, ToolResult("1"))), "go on")
    assert [each["role"] for each in made] == ["assistant", "tool", "user"]


def test_the_config_is_said_in_the_wires_words():
    config = ModelConfig(
        max_output_tokens=5,
        temperature=0.0,
        top_p=0.5,
        stop=("a",),
        seed=7,
        parallel_calls=False,
        reasoning="low",
        provider_options={"openai": {"seed": 8, "store": False, "user": "u"}},
    )
    body = OpenAIChat().request(asked("hi", model="m", config=config))
    assert payloads.openai_chat_request(body) == []
    assert {name: body[name] for name in body if name not in ("messages", "tools")} == {
        "model": "m",
        "max_completion_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "stop": ["a"],
        "seed": 8,
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "store": False,
        "user": "u",
    }
    assert OpenAIChat(most_tokens="max_tokens").request(asked("hi", config=config))["max_tokens"] == 5


def test_a_body_says_no_more_than_the_request():
    assert OpenAIChat().request(asked("hi", tools=())) == {"messages": [{"role": "user", "content": "hi"}]}


def test_a_body_is_the_callers_own():
    exporter, request = OpenAIChat(), asked("hi", options={"openai": {"metadata": {"a": "b"}}})
    body = exporter.request(request)
    body["messages"].clear()
    body["tools"].clear()
    body["metadata"]["a"] = "c"
    again = exporter.request(request)
    assert (len(again["messages"]), len(again["tools"]), again["metadata"]) == (1, 2, {"a": "b"})


@pytest.mark.parametrize("data", [b"", b"x" * 10])
def test_pictures_are_data_urls(data):
    (message,) = checked(Message.user(ImageContent(data)))
    assert message["content"][0]["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(data).decode()}"
