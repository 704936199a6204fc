"""Conversations with planted faults in how calls and results are paired."""

from __future__ import annotations

import pytest

from fake_vendors.rules import pairing


def chat_calls(*ids):
    return {"role": "assistant", "tool_calls": [{"id": each} for each in ids]}


def chat_result(call_id):
    return {"role": "tool", "tool_call_id": call_id}


def item(kind, call_id):
    return {"type": kind, "call_id": call_id}


def uses(*ids):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": each} for each in ids]}


def results(*ids, text=None):
    blocks = [{"type": "tool_result", "tool_use_id": each} for each in ids]
    return {"role": "user", "content": blocks if text is None else [{"type": "text", "text": text}, *blocks]}


def functions(*names, role="model"):
    called = [each if isinstance(each, dict) else {"name": each} for each in names]
    return {"role": role, "parts": [{"functionCall": each} for each in called]}


def answers(*names, role="user"):
    answered = [each if isinstance(each, dict) else {"name": each} for each in names]
    return {"role": role, "parts": [{"functionResponse": each} for each in answered]}


def turn(role, kind, *ids):
    return {"role": role, "content": [{kind: {"toolUseId": each}} for each in ids] or [{"text": "x"}]}


def named(*names):
    return {"role": "assistant", "tool_calls": [{"function": {"name": each}} for each in names]}


USER = {"role": "user", "content": "x"}
ASKED = turn("user", "text")

PLANTED = [
    (pairing.openai_chat, [chat_calls("1")], "1: call '1' has no result"),
    (pairing.openai_chat, [chat_calls("1"), USER, chat_result("1")], "1: call '1' has no result"),
    (pairing.openai_chat, [chat_calls("1"), USER, chat_result("1")], "2: a result of '1', which isn't called right"),
    (pairing.openai_chat, [chat_calls("1"), chat_result("1"), chat_result("1")], "2: a result of '1'"),
    (pairing.openai_chat, [chat_calls("1", "1"), chat_result("1")], "0: call '1' is there twice"),
    (
        pairing.openai_chat,
        [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"arguments": "[]"}}]}],
        "0: arg",
    ),
    (pairing.openai_responses, [item("function_call", "1")], "call '1' has no output"),
    (pairing.openai_responses, [{**item("function_call", "1"), "arguments": "{"}], "0: arguments that are no JSON obj"),
    (pairing.openai_responses, [item("function_call_output", "1")], "0: an output without its call '1'"),
    (pairing.openai_responses, [item("function_call", "1"), item("custom_tool_call_output", "1")], "1: an output"),
    (pairing.openai_responses, [item("function_call", "1"), item("function_call", "1")], "1: call '1' is there twice"),
    (pairing.anthropic, [uses("1"), USER], "1: call '1' has no result"),
    (pairing.anthropic, [uses("1"), results("1", "1")], "1: a result of '1'"),
    (pairing.anthropic, [uses("1"), results("1", text="x")], "1: results come first"),
    (pairing.anthropic, [uses("1", "1"), results("1", "1")], "0: call '1' is there twice"),
    (pairing.anthropic, [{"role": "user", "content": ""}], "0: an empty text"),
    (pairing.anthropic, [{"role": "user", "content": []}], "0: an empty text"),
    (pairing.anthropic, [{"role": "user", "content": [{"type": "text", "text": ""}]}], "0: an empty text"),
    (pairing.anthropic, [{**uses("1"), "role": "user"}, results("1")], "0: calls of the user"),
    (pairing.anthropic, [uses("1"), results("1")], "0: a turn of the assistant"),
    (pairing.anthropic, [USER, uses("1"), results("1"), uses("1"), results("1")], "3: call '1' is there twice"),
    (pairing.anthropic, [USER, uses("a b"), results("a b")], "1: no id: 'a b'"),
    (pairing.gemini, [functions("f"), answers("f")], "0: calls or responses of the model"),
    (
        pairing.gemini,
        [answers(), functions({"name": "f", "id": "1"}), answers({"name": "f", "id": "2"})],
        "2: responses",
    ),
    (pairing.gemini, [functions("f", "g"), answers("g", "f")], "1: responses ['g', 'f'] to the calls ['f', 'g']"),
    (pairing.gemini, [functions("f"), answers()], "1: a content or a part without anything"),
    (pairing.gemini, [functions("f")], "no responses to the calls ['f']"),
    (pairing.gemini, [functions("f"), answers("f", role="tool")], "1: calls or responses of the tool"),
    (pairing.gemini, [functions("f", role="user"), answers("f")], "0: calls or responses of the user"),
    (pairing.gemini, [{"role": "user", "parts": [{}]}], "0: a content or a part without anything"),
    (pairing.bedrock, [ASKED, turn("assistant", "toolUse", "1")], "2: call '1' has no result"),
    (pairing.bedrock, [ASKED, turn("assistant", "toolUse", "1"), ASKED], "2: call '1' has no result"),
    (pairing.bedrock, [turn("user", "toolResult", "1")], "0: a result of '1'"),
    (pairing.bedrock, [ASKED, ASKED], "1: a turn of the user"),
    (pairing.bedrock, [turn("assistant", "text")], "0: a turn of the assistant"),
    (pairing.bedrock, [ASKED, turn("assistant", "toolUse", "1", "1"), turn("user", "toolResult", "1")], "1: call '1'"),
    (pairing.ollama, [named("f")], "1: call 'f' has no result"),
    (pairing.ollama, [{"role": "tool"}], "0: a result of ''"),
    (pairing.ollama, [named("f", "g"), {"role": "tool", "tool_name": "g"}], "1: a result of 'g'"),
]


@pytest.mark.parametrize(("judge", "conversation", "fault"), PLANTED)
def test_a_planted_fault_is_found(judge, conversation, fault):
    """Sound ones are those that exporters write."""
    found = judge(conversation)

    assert any(each.startswith(fault) for each in found), found
