"""How calls and results have to stand in a conversation, provider by provider; none of the SDKs checks it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

Conversation = Sequence[dict[str, Any]]


def openai_chat(messages: Conversation) -> list[str]:
    """Every id once; tool messages directly behind the assistant's turn; arguments that other servers can read."""
    found: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            found += _answer(message["tool_call_id"], waiting, number)
            continue
        found += _unanswered(waiting, number)
        calls = message.get("tool_calls") or ()
        waiting = [call["id"] for call in calls]
        found += _twice(waiting, number)
        for call in calls:
            found += _arguments(call.get("function", {}).get("arguments", "{}"), number)
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
            found += _arguments(item.get("arguments", "{}"), number)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            is_paired = calls.pop(str(call_id), None) == kind.removesuffix("_output")
            found += [] if is_paired else [f"{number}: an output without its call {call_id!r}"]
    return found + [f"call {call_id!r} has no output" for call_id in calls]


def anthropic(messages: Conversation) -> list[str]:
    """All results first in the user's turn behind the assistant's; the user begins; no text that is empty."""
    found = ["0: a turn of the assistant"] if messages and messages[0]["role"] == "assistant" else []
    used: set[str] = set()
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
        found += _twice([*waiting, *used.intersection(waiting)], number)
        found += [
            f"{number}: no id: {call_id!r}" for call_id in waiting if not re.fullmatch(r"[\w-]+", call_id, re.ASCII)
        ]
        used.update(waiting)
        found += [f"{number}: calls of the {message['role']}"] if waiting and message["role"] != "assistant" else []
    return found + _unanswered(waiting, len(messages))


def gemini(contents: Conversation) -> list[str]:
    """As many responses as calls, in their order, by name and id, in the next content; calls behind the user's."""
    found: list[str] = []
    waiting: list[tuple[str, str | None]] = []
    before = "model"
    for number, content in enumerate(contents):
        parts, role = content.get("parts") or (), content.get("role", "user")
        if not parts or not all(parts):
            found.append(f"{number}: a content or a part without anything")
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        responses = [(each["name"], each.get("id")) for each in answers]
        if len(responses) != len(waiting) or not all(map(_is_of, responses, waiting)):
            names = [[name for name, _ in each] for each in (responses, waiting)]
            found.append(f"{number}: responses {names[0]} to the calls {names[1]}")
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        waiting = [(each["name"], each.get("id")) for each in calls]
        if (waiting and (role != "model" or before == "model")) or (responses and role not in ("user", "function")):
            found.append(f"{number}: calls or responses of the {role}")
        before = role
    return found + ([f"no responses to the calls {[name for name, _ in waiting]}"] if waiting else [])


def _is_of(response: tuple[str, str | None], call: tuple[str, str | None]) -> bool:
    return response[0] == call[0] and (response[1] == call[1] or None in (response[1], call[1]))


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


def ollama(messages: Conversation) -> list[str]:
    """A tool message for each call, in their order and by their names, directly behind them."""
    found: list[str] = []
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            found += _answer(message.get("tool_name", waiting[0] if waiting else ""), waiting[:1], number)
            waiting = waiting[1:]
            continue
        found += _unanswered(waiting, number)
        waiting = [call["function"]["name"] for call in message.get("tool_calls") or ()]
    return found + _unanswered(waiting, len(messages))


def _arguments(text: str, number: int) -> list[str]:
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError:
        is_object = False
    return [] if is_object else [f"{number}: arguments that are no JSON object: {text!r:.80}"]


def _answer(call_id: str, waiting: list[str], number: int) -> list[str]:
    if call_id not in waiting:
        return [f"{number}: a result of {call_id!r}, which isn't called right before"]
    waiting.remove(call_id)
    return []


def _unanswered(waiting: Iterable[str], number: int) -> list[str]:
    return [f"{number}: call {call_id!r} has no result" for call_id in waiting]


def _twice(ids: Iterable[str], number: int) -> list[str]:
    return [f"{number}: call {call_id!r} is there twice" for call_id, count in Counter(ids).items() if count > 1]
