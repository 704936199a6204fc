"""Runner of exporter tests written as data: one JSON file per exporter, with cases by behaviour.

A case has the input and the complete expected output, except for defaults (a finish reason `"stop"`, no usage, no
losses, every tool's name):

    {"messages": ["Hi"], "sent": [{...}]}                        # the conversation of a body
    {"request": {"messages": ["Hi"], "model": "m"}, "body": {...}}
    {"answer": {...}, "response": {"parts": ["Hello."]}}
    {"events": [{...}], "deltas": [{...}], "response": {...}}    # deltas are only checked if given
    {"tools": [{...}], "strict": true, "entries": [{...}], "losses": [{...}]}

or an `error` instead of the output. Further keys are `options` (of the exporter), `request` (of an answer) and `broken`
(why a stream ended). `"early": true` means that the stream ended without its end mark. A message that is a text is the
user's, others are `{ROLE: [PART, ...]}`; a text part or content is just the text; `{"$base64": "..."}` are bytes.
Output is checked against the types of the vendor's SDK, unless the case has `odd`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from fake_vendors.rules import payloads
from fake_vendors.rules.exporters import EXPORTERS
from pegboard import Exporter, Message, ModelConfig, ModelError, ModelRequest, ModelResponse, NamedTool, Tool, ToolSpec
from pegboard.errors import ExportError
from pegboard.messages import Usage
from pegboard.toolsets import resolve_tools
from pegboard_clients.wire.bodies import EARLY

Case = dict[str, Any]
_GIVEN = ("options", "messages", "request", "answer", "events", "broken", "tools", "strict", "odd")
_CONVERSATION = {"openai-responses": "input", "gemini": "contents", "gemini-schema": "contents"}
_USUAL = {"finishReason": "stop", "complete": True, "usage": Usage().to_json()}
_CUT = {"finishReason": "other", "errorMessage": EARLY, "complete": False, "interrupted": True}


def cases_in(folder: Path) -> list[Any]:
    """The cases of all files in a folder, by behaviour, as parameters `exporter` and `cases` of a test."""
    return [
        pytest.param(path.stem, cases, id=f"{path.stem}: {behaviour}")
        for path in sorted(folder.glob("*.json"))
        for behaviour, cases in loaded(path).items()
    ]


def check(exporter: str, cases: list[Case]) -> None:
    """Checks the output of each case, and bodies against the vendor's types."""
    for case in cases:
        came, body = played(exporter, case)
        wanted = {key: fact for key, fact in case.items() if key not in _GIVEN}
        assert text_of(came) == text_of(wanted)
        assert case.get("odd") or faults(exporter, body, came.get("entries")) == []


def faults(exporter: str, body: Case | None, entries: list[Case] | None) -> list[str]:
    """The faults of a body or a list of tools by the types of the vendor's SDK."""
    if body is not None and exporter in payloads.MESSAGES:
        return payloads.request_faults(exporter, body)
    return payloads.TOOLS[exporter](entries) if entries else []


def played(exporter: str, case: Case) -> tuple[Case, Case | None]:
    """The output of a case, with deltas if they are checked; and the body, if one is written."""
    try:
        came = _played(exporter, made_exporter(exporter, case.get("options", {})), case)
    except ExportError as error:
        return {"error": {"text": str(error), "tool": error.tool}}, None
    except ModelError as error:
        names = ("code", "status", "retryable", "retry_after", "request_id")
        facts = {name: getattr(error, name) for name in names}
        return {"error": {"text": str(error), **{name: fact for name, fact in facts.items() if fact}}}, None
    if "deltas" not in case:
        came.pop("deltas", None)
    return came, came.pop("whole", None)


def _played(exporter: str, made: Exporter, case: Case) -> Case:
    request = _request(case["request"]) if "request" in case else None
    if "tools" in case:
        specs = [ToolSpec.from_json(each) for each in case["tools"]]
        exported = made.tools(specs, strict=case.get("strict"))
        losses = [each.to_json() for each in exported.losses]
        names = sorted(exported.names)
        came = {"entries": list(exported.entries), **({"losses": losses} if losses else {})}
        return came if names == sorted(spec.name for spec in specs) else {**came, "names": names}
    if "answer" in case:
        return {"response": _response(made.response(case["answer"], request))}
    if "events" in case:
        reader = made.reader(request)
        deltas = [delta.to_json() for event in case["events"] for delta in reader.feed(event)]
        return {"deltas": deltas, "response": _response(reader.response(broken=case.get("broken")))}
    if "messages" in case:
        whole = made.request(_request({"messages": case["messages"]}))
        return {"sent": whole[_CONVERSATION.get(exporter, "messages")], "whole": whole}
    assert request is not None
    whole = made.request(request)
    return {"body": whole, "whole": whole}


def made_exporter(name: str, options: Mapping[str, Any]) -> Exporter:
    """Makes an exporter; `limits` in the options override the defaults."""
    usual: Any = EXPORTERS[name]()
    if not options:
        return usual
    limits = attrs.evolve(usual.limits, **options.get("limits", {}))
    return type(usual)(**{**options, "limits": limits})


def _request(facts: Mapping[str, Any]) -> ModelRequest:
    given = dict(facts)
    messages = [each if isinstance(each, str) else Message.from_json(_long(each)) for each in given.pop("messages")]
    if isinstance(given.get("tool_choice"), dict):
        given["tool_choice"] = NamedTool(**given["tool_choice"])
    if "tools" in given:
        tools = [Tool(ToolSpec.from_json(each)) for each in given["tools"]]
        given["tools"] = asyncio.run(resolve_tools(tools, ()))
    return ModelRequest(messages, **{**given, "config": ModelConfig(**given.get("config", {}))})


# --- messages ---

_KINDS = {"call": "call", "result": "result", "content": "media", "data": "hosted"}


def _response(response: ModelResponse) -> Case:
    facts = response.to_json()
    parts = short(facts.pop("message"))["assistant"]
    facts = {key: fact for key, fact in facts.items() if _USUAL.get(key) != fact}
    if all(facts.get(key) == fact for key, fact in _CUT.items()):
        facts = {"early": True, **{key: fact for key, fact in facts.items() if key not in _CUT}}
    return {"parts": parts, **facts}


def short(message: Mapping[str, Any]) -> Case:
    """A message's JSON in the short form of cases."""
    rest = {key: fact for key, fact in message.items() if key not in ("role", "parts")}
    return {message["role"]: [_short_part(part) for part in message["parts"]], **rest}


def _short_part(part: Mapping[str, Any]) -> Any:
    kind, facts = part["type"], {key: fact for key, fact in part.items() if key != "type"}
    if kind in ("text", "reasoning"):
        text = {"text" if kind == "text" else "thought": facts.pop("text"), **facts}
        return text["text"] if text.keys() == {"text"} else text
    if kind == "result":
        result = {key: fact for key, fact in facts["result"].items() if fact is not None and fact is not False}
        result["content"] = [each["text"] if each["type"] == "text" else each for each in result["content"]]
        facts["result"] = result["content"] if result.keys() == {"content"} else result
    return facts


def _long(message: Mapping[str, Any]) -> Case:
    role = next(iter(message))
    rest = {key: fact for key, fact in message.items() if key != role}
    return {"role": role, "parts": [_long_part(part) for part in message[role]], **rest}


def _long_part(part: Any) -> Case:
    if isinstance(part, str) or "text" in part:
        return {"type": "text", **({"text": part} if isinstance(part, str) else part)}
    if "thought" in part:
        facts = {key: fact for key, fact in part.items() if key != "thought"}
        return {"type": "reasoning", "text": part["thought"], **facts}
    facts = {"type": next(_KINDS[key] for key in part if key in _KINDS), **part}
    if facts["type"] == "result":
        given = facts["result"]
        result = {"content": given} if isinstance(given, list) else given
        content = [{"type": "text", "text": each} if isinstance(each, str) else each for each in result["content"]]
        facts["result"] = {"structuredContent": None, "isError": False, **result, "content": content}
    return facts


# --- JSON ---


def encoded(value: Any) -> Any:
    """A value as JSON data, bytes as `{"$base64": ...}`.

    Raises:
        TypeError: It is none.
    """
    if isinstance(value, bytes):
        return {"$base64": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key that is no text")
        return {key: encoded(each) for key, each in value.items()}
    return [encoded(each) for each in value] if isinstance(value, list | tuple) else value


def _decoded(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["$base64"]) if value.keys() == {"$base64"} else value


def text_of(value: Any) -> str:
    """A value as canonical JSON text."""
    return json.dumps(encoded(value), sort_keys=True, allow_nan=False)


def loaded(path: Path) -> dict[str, list[Case]]:
    """The cases of a file, by behaviour."""
    return json.loads(path.read_text(encoding="utf-8"), object_hook=_decoded)
