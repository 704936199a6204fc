"""How calls and results have to be paired in a conversation, provider by provider; none of the SDKs checks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Conversation = Sequence[dict[str, Any]]


def openai_chat(messages: Conversation) -> list[str]:
    """Every id once; tool messages directly behind the assistant's turn."""
    found: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            found += _answer(message["tool_call_id"], waiting, number)
            continue
        found += _unanswered(waiting, number)
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        found += _twice(waiting, number)
    return found + _unanswered(waiting, len(messages))


def openai_responses(items: Conversation) -> list[str]:
    """Every `call_id` once; each output behind its call, with the kind of the call."""
    found: list[str] = []
    calls: dict[str, str] = {}
    for number, item in enumerate(items):
        kind, call_id = str(item.get("type")), item.get("call_id")
        if kind in ("function_call", "custom_tool_call"):
            found += [f"{number}: call {call_id!r} is there twice"] if call_id in calls else []
            calls[str(call_id)] = kind
        elif kind in ("function_call_output", "custom_tool_call_output"):
            is_paired = calls.pop(str(call_id), None) == kind.removesuffix("_output")
            found += [] if is_paired else [f"{number}: an output without its call {call_id!r}"]
    return found + [f"call {call_id!r} has no output" for call_id in calls]


def anthropic(messages: Conversation) -> list[str]:
    """All results first in the user's turn behind the assistant's; no text that is empty."""
    found: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        blocks = [message["content"]] if isinstance(message["content"], str) else list(message["content"])
        kinds = ["text" if isinstance(block, str) else block["type"] for block in blocks]
        results = kinds.count("tool_result")
        if kinds[:results] != ["tool_result"] * results:
            found.append(f"{number}: results come first")
        if any(block == "" or (isinstance(block, dict) and block.get("text") == "") for block in blocks) or not blocks:
            found.append(f"{number}: an empty text")
        for block, kind in zip(blocks, kinds, strict=True):
            found += _answer(block["tool_use_id"], waiting, number) if kind == "tool_result" else []
        found += _unanswered(waiting, number)
        waiting = [block["id"] for block, kind in zip(blocks, kinds, strict=True) if kind == "tool_use"]
        found += _twice(waiting, number)
        found += [f"{number}: calls of the {message['role']}"] if waiting and message["role"] != "assistant" else []
    return found + _unanswered(waiting, len(messages))


def gemini(contents: Conversation) -> list[str]:
    """As many responses as calls, in their order and by their names, in the next content."""
    found: list[str] = []
    waiting: list[str] = []
    for number, content in enumerate(contents):
        parts = content.get("parts") or ()
        if not parts or not all(parts):
            found.append(f"{number}: a content or a part without anything")
        responses = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if responses != waiting:
            found.append(f"{number}: responses {responses} to the calls {waiting}")
        waiting = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if (waiting and content["role"] != "model") or (responses and content["role"] != "user"):
            found.append(f"{number}: calls or responses of the {content['role']}")
    return found + ([f"no responses to the calls {waiting}"] if waiting else [])


def bedrock(messages: Conversation) -> list[str]:
    """Every id once; results in the user's turn behind the assistant's; turns alternate, the user's first."""
    found: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[number % 2]:
            found.append(f"{number}: a turn of the {message['role']}")
        for block in message["content"]:
            if "toolResult" in block:
                found += _answer(block["toolResult"]["toolUseId"], waiting, number)
        found += _unanswered(waiting, number)
        waiting = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
        found += _twice(waiting, number)
    return found + _unanswered(waiting, len(messages))


def _answer(call_id: str, waiting: list[str], number: int) -> list[str]:
    if call_id not in waiting:
        return [f"{number}: a result of {call_id!r}, which isn't called right before"]
    waiting.remove(call_id)
    return []


def _unanswered(waiting: Iterable[str], number: int) -> list[str]:
    return [f"{number}: call {call_id!r} has no result" for call_id in waiting]


def _twice(ids: Iterable[str], number: int) -> list[str]:
    return [f"{number}: call {call_id!r} is there twice" for call_id, count in Counter(ids).items() if count > 1]
