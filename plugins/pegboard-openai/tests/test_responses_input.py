from __future__ import annotations

import pytest

from fake_vendors.rules import payloads
from fake_vendors.rules.samples import BMP, LINK, PDF, PNG, WAV, asked
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
from pegboard.request.model_request import ModelConfig
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from pegboard_openai.openai_responses import OpenAIResponses

KEY = "openai-responses"
CALL = ToolCall("weather", {"city": "Oslo"}, "c1")
FREE = ToolCall("note", {"input": "x"}, "c2")
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}


def own(**facts):
    return {KEY: facts}


def said(*messages, **facts):
    """Items that the SDK's types take, calls paired with outputs."""
    body = OpenAIResponses().request(asked(*messages, model="m", **facts))
    assert payloads.openai_responses_request(body) == []
    assert payloads.openai_responses_input(body["input"]) == []
    return body["input"]


def test_instructions_have_a_field_of_their_own():
    body = OpenAIResponses().request(asked("hi", instructions=("a", "b"), tools=()))
    assert body == {"instructions": "a\n\nb", "input": [{"role": "user", "content": "hi"}]}


def test_what_the_host_says_within_stands_where_it_was_said():
    assert [each["role"] for each in said("a", Message.system("be brief"), "b")] == ["user", "system", "user"]


def test_a_user_says_pictures_and_files():
    (message,) = said(Message.user("Look:", PNG, WAV, PDF, LINK, BMP))
    kinds = [part["type"] for part in message["content"]]
    assert kinds == ["input_text", "input_image", "input_text", "input_file", "input_image", "input_text"]
    assert message["content"][3]["filename"] == "re port.pdf"
    assert message["content"][3]["file_data"].startswith("data:application/pdf;base64,")


def test_options_of_pictures_and_files_are_passed_through():
    parts = [MediaPart(PNG, own(detail="low")), MediaPart(PNG, own(file_id="f1")), MediaPart(PDF, own(file_id="f2"))]
    (message,) = said(Message("user", parts))
    assert message["content"][0]["detail"] == "low"
    assert message["content"][1:] == [
        {"type": "input_image", "file_id": "f1", "detail": "auto"},
        {"type": "input_file", "file_id": "f2"},
    ]


def test_messages_without_anything_are_left_out():
    assert len(said("a", Message.user(), Message.assistant(), Message.system(), Message.assistant(""))) == 1


def test_calls_and_results_of_functions_and_of_free_text():
    results = [(CALL, ToolResult([TextContent("see"), PNG, PDF])), (FREE, ToolResult.error("tool_failure", "no"))]
    made = said(Message.assistant("Well.", CALL, FREE), Message.tool(results))
    assert made[:3] == [
        {"role": "assistant", "content": "Well."},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Oslo"}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "note", "input": "x"},
    ]
    assert [part["type"] for part in made[3]["output"]] == ["input_text", "input_image", "input_file"]
    assert made[4] == {"type": "custom_tool_call_output", "call_id": "c2", "output": "Error: no"}


def test_pictures_in_results_of_free_text_are_taken_too():
    made = said(Message.assistant(FREE), Message.tool([(FREE, ToolResult(PNG))]))
    assert made[1]["output"][0]["type"] == "input_image"


def test_parts_stand_in_their_order():
    made = said(Message.assistant("a", CALL, "b"), Message.tool([(CALL, ToolResult("1"))]))
    assert [each.get("type", each.get("content")) for each in made] == [
        "a",
        "function_call",
        "b",
        "function_call_output",
    ]


def test_what_came_with_a_call_goes_back_with_it():
    facts = {"id": "fc_1", "namespace": "crm", "caller": {"type": "program", "caller_id": "p"}, "async": True}
    call = ToolCall("weather", "{}", "c", provider_metadata=own(type="function_call", **facts))
    made = said(Message.assistant(call), Message.tool([(call, ToolResult("1"))]))
    assert made[0] == {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}", **facts}
    assert made[1]["caller"] == facts["caller"]


def test_a_call_that_came_as_free_text_goes_back_so_even_where_the_tool_is_gone():
    call = ToolCall("gone", {"input": "x"}, "c", provider_metadata=own(type="custom_tool_call", id="ctc_1"))
    made = said(Message.assistant(call), Message.tool([(call, ToolResult("1"))]), tools=())
    assert [each["type"] for each in made] == ["custom_tool_call", "custom_tool_call_output"]


def test_texts_of_one_item_are_one_message():
    citation = {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 1}
    parts = [
        TextPart("a", [Citation(data=own(**citation)), Citation(uri="http://b")], own(id="msg_1", phase="commentary")),
        TextPart("no", provider_metadata=own(id="msg_1", refusal=True)),
        TextPart("b", provider_metadata=own(id="msg_2", status="incomplete")),
        "c",
        "d",
    ]
    assert said(Message("assistant", parts)) == [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [citation]},
                {"type": "refusal", "refusal": "no"},
            ],
            "phase": "commentary",
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "status": "incomplete",
            "content": [{"type": "output_text", "text": "b", "annotations": []}],
        },
        {"role": "assistant", "content": "cd"},
    ]


def test_reasoning_goes_back_unchanged_before_what_it_led_to():
    item = {"id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "c2ln=="}
    made = said(Message.assistant(ReasoningPart("hm", own(**item)), "so"))
    assert made[0] == {"type": "reasoning", **item}


def test_reasoning_without_its_summary_gets_one():
    (made, _) = said(Message.assistant(ReasoningPart("hm", own(id="rs_1")), "so"))
    assert made["summary"] == [{"type": "summary_text", "text": "hm"}]


def test_reasoning_that_nothing_follows_is_left_out():
    assert said("a", Message.assistant(ReasoningPart("hm", own(id="rs_1")))) == [{"role": "user", "content": "a"}]


def test_what_a_provider_that_keeps_nothing_couldnt_look_up_is_left_out():
    call = ToolCall("weather", "{}", "c", provider_metadata=own(type="function_call", id="fc_1"))
    text = TextPart("so", provider_metadata=own(id="msg_1"))
    result = Message.tool([(call, ToolResult("1"))])
    options = {"openai": {"store": False}}

    lost = said(Message.assistant(ReasoningPart("hm", own(id="rs_1")), text, call), result, options=options)
    assert lost[:2] == [
        {"role": "assistant", "content": "so"},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
    ]
    sealed = ReasoningPart("hm", own(id="rs_1", encrypted_content="s"))
    kept = said(Message.assistant(sealed, text, call), result, options=options)
    assert [each.get("id") for each in kept] == ["rs_1", "msg_1", "fc_1", None]


def test_hosted_items_go_back_as_they_were_and_another_providers_dont():
    parts = [
        HostedPart(KEY, SEARCHED),
        HostedPart("anthropic", {"type": "server_tool_use"}),
        ReasoningPart("x", {"anthropic": {"signature": "s"}}),
        "found",
    ]
    assert said(Message("assistant", parts)) == [SEARCHED, {"role": "assistant", "content": "found"}]


def test_the_host_may_answer_what_a_hosted_tool_asks():
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert said(Message("user", [HostedPart(KEY, answer), TextPart("go on")]))[0] == answer


def test_a_picture_that_stands_in_an_item_isnt_said_again():
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "eA=="}
    parts = [HostedPart(KEY, item), MediaPart(ImageContent(b"x"), own(of="ig_1"))]
    assert said(Message("assistant", parts)) == [item]
    other = MediaPart(ImageContent(b"x"), {"google": {"of": "x"}})
    assert "an image" in said(Message("assistant", [other]))[0]["content"]


def test_a_later_result_of_a_call_is_told_by_the_user():
    made = said(
        Message.assistant(CALL),
        Message.tool([(CALL, ToolResult("pending"))]),
        Message.tool([(CALL, ToolResult([TextContent("done"), PNG]))]),
    )
    assert [part.get("text") for part in made[-1]["content"]] == ["A later result of weather:", "done", None]


def test_ids_are_mapped_alike_on_calls_and_results():
    calls = [ToolCall("weather", {}, "x" * 65), ToolCall("weather", {}, ""), CALL]
    turn = [Message.assistant(*calls), Message.tool([(call, ToolResult("1")) for call in calls])]
    made = said(*turn, *turn)
    ids = [each["call_id"] for each in made if each["type"] == "function_call"]
    assert len(set(ids)) == 6
    assert [each["call_id"] for each in made if each["type"] == "function_call_output"] == ids


def test_calls_that_a_provider_has_run_are_left_out_with_their_results():
    call = ToolCall("search", {}, "c", provider_executed=True)
    parts = [TextPart("x"), CallPart(call), ResultPart.of(call, ToolResult("1"))]
    assert said(Message("assistant", parts)) == [{"role": "assistant", "content": "x"}]


def test_an_id_of_a_hosted_call_may_be_another_calls_too():
    hosted = ToolCall("search", {}, "c1", provider_executed=True)
    made = said(Message.assistant(hosted, CALL), Message.tool([(CALL, ToolResult("1"))]))
    assert [each["type"] for each in made] == ["function_call", "function_call_output"]


def test_results_in_the_models_message_stand_behind_it():
    made = said(Message.assistant(CALL, ResultPart.of(CALL, ToolResult("1"))))
    assert [each["type"] for each in made] == ["function_call", "function_call_output"]


def test_words_among_results_are_the_users():
    made = said(Message.assistant(CALL), Message("tool", [ResultPart.of(CALL, ToolResult("1")), TextPart("Be quick.")]))
    assert made[-1] == {"role": "user", "content": "Be quick."}


# --- tools that the provider defines and the host runs ---

ITEMS = {
    "local_shell_call": {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "shell_call": {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}},
    "apply_patch_call": {
        "type": "apply_patch_call",
        "call_id": "c",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a"},
    },
    "computer_call": {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c",
        "status": "completed",
        "pending_safety_checks": [],
        "action": {"type": "screenshot"},
    },
}


def outputs(kind, *results):
    made = []
    for result in results:
        call = ToolCall("t", {}, "c", provider_metadata=own(type=kind, item=ITEMS[kind]))
        item, output = said(Message.assistant(call), Message.tool([(call, result)]))
        assert item == ITEMS[kind]
        made.append(output)
    return made


def test_a_local_shell_answers_with_its_text():
    assert outputs("local_shell_call", ToolResult("a\n")) == [
        {"type": "local_shell_call_output", "id": "c", "output": "a\n"}
    ]


def test_a_shell_answers_with_its_streams():
    own_output = [{"stdout": "a", "stderr": "b", "outcome": {"type": "timeout"}}]
    good, bad, own_words = outputs(
        "shell_call",
        ToolResult("a"),
        ToolResult.error("tool_failure", "no"),
        ToolResult("x", structured_content={"output": own_output}),
    )
    assert good["output"] == [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    assert bad["output"] == [{"stdout": "", "stderr": "Error: no", "outcome": {"type": "exit", "exit_code": 1}}]
    assert own_words["output"] == own_output


def test_a_patch_answers_whether_it_was_applied():
    good, bad = outputs("apply_patch_call", ToolResult("done"), ToolResult.error("tool_failure", "no"))
    assert (good["status"], good["output"], bad["status"]) == ("completed", "done", "failed")


def test_a_computer_answers_with_its_screen():
    (seen, unseen) = outputs("computer_call", ToolResult(PNG), ToolResult("none"))
    assert seen["output"]["image_url"].startswith("data:image/png")
    assert unseen["output"] == {"type": "computer_screenshot"}


def test_a_call_whose_item_is_lost_is_a_functions():
    call = ToolCall("t", {}, "c", provider_metadata=own(type="shell_call"))
    made = said(Message.assistant(call), Message.tool([(call, ToolResult("1"))]))
    assert [each["type"] for each in made] == ["function_call", "function_call_output"]


# --- the body ---


def test_the_config_is_said_in_the_wires_words():
    config = ModelConfig(
        max_output_tokens=5,
        temperature=0.0,
        top_p=0.5,
        stop=("a",),
        seed=7,
        parallel_calls=True,
        reasoning="high",
        provider_options={
            "openai": {"store": True, "reasoning": {"summary": "auto"}},
            KEY: {"store": False, "include": ["reasoning.encrypted_content"]},
        },
    )
    body = OpenAIResponses().request(asked("hi", model="m", config=config))
    assert payloads.openai_responses_request(body) == []
    assert {name: body[name] for name in body if name not in ("input", "tools")} == {
        "model": "m",
        "max_output_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "parallel_tool_calls": True,
        "reasoning": {"effort": "high", "summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize("reasoning", [None, "low"])
def test_an_option_that_isnt_an_object_stands_for_the_whole(reasoning):
    config = ModelConfig(reasoning=reasoning, provider_options={"openai": {"reasoning": None}})
    assert OpenAIResponses().request(asked("hi", config=config))["reasoning"] is None


def test_nothing_is_stored_or_not_unless_an_option_says_so():
    assert OpenAIResponses().request(asked("hi", tools=())).keys() == {"input"}
