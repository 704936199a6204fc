"""What exporters write and read, as data: one JSON file an exporter, a name for each behaviour, its cases under it.

A case has one of `request`, `answer`, `events`, `tools` (what goes in), and what has to come of it:

    {"request": {"messages": ["Hi"]}, "body": {...}}
    {"answer": {...}, "response": {...}}
    {"events": [{...}], "deltas": [{...}], "response": {...}}
    {"tools": [{...}], "strict": true, "entries": [{...}], "names": ["weather"], "losses": [{...}]}

or an `error` in the place of the latter. Beside these may stand `options` (of the exporter, where they aren't the
usual ones), `request` (of an answer, too) and `broken` (why a stream ended). A message that is a text is the user's, a
part or content that is one is just that text, and an answer's usage is left out where it is nothing;
`{"$base64": "..."}` are bytes. What is written is held against the types of the vendor's SDK, unless the case says
`odd`.

`python -m fake_vendors.cases FILE ...` writes anew what comes of the cases of a file, after a change that is meant:
look at the difference.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from fake_vendors.rules import payloads
from fake_vendors.rules.exporters import EXPORTERS
from pegboard import (
    ExportError,
    Message,
    ModelConfig,
    ModelError,
    ModelRequest,
    ModelResponse,
    NamedTool,
    Tool,
    ToolSpec,
)
from pegboard.messages import NO_USAGE
from pegboard.request.exporter import Exporter
from pegboard.toolsets.resolve import resolve_tools

Case = dict[str, Any]
_GIVEN = frozenset({"options", "request", "answer", "events", "broken", "tools", "strict", "odd"})
_WIDTH = 118


def cases_in(folder: Path) -> list[Any]:
    """The cases of all files in a folder, behaviour by behaviour, as parameters `exporter` and `cases` of a test."""
    return [
        pytest.param(path.stem, cases, id=f"{path.stem}: {behaviour}")
        for path in sorted(folder.glob("*.json"))
        for behaviour, cases in loaded(path).items()
    ]


def check(exporter: str, cases: list[Case]) -> None:
    """Fails where something else comes of a case than stands there, or a body is none that the vendor takes."""
    for case in cases:
        came = played(exporter, case)
        wanted = {key: fact for key, fact in case.items() if key not in _GIVEN}
        assert text_of(came) == text_of(wanted)
        assert case.get("odd") or faults(exporter, came) == []


def faults(exporter: str, came: Case) -> list[str]:
    """What the types of the vendor's SDK say of a body, or of a list of tools."""
    if "body" in came and exporter in payloads.MESSAGES:
        return payloads.request_faults(exporter, came["body"])
    return payloads.TOOLS[exporter](came["entries"]) if came.get("entries") else []


def played(exporter: str, case: Case) -> Case:
    """What comes of a case."""
    made = made_exporter(exporter, case.get("options", {}))
    try:
        return _played(made, case)
    except ExportError as error:
        return {"error": {"text": str(error), "exporter": error.exporter, "tool": error.tool}}
    except ModelError as error:
        names = ("provider", "code", "status", "retryable", "retry_after", "request_id")
        return {"error": {"text": str(error), **{name: getattr(error, name) for name in names}}}


def _played(made: Exporter, case: Case) -> Case:
    request = _request(case["request"]) if "request" in case else None
    if "tools" in case:
        specs = [ToolSpec.from_json(each) for each in case["tools"]]
        exported = made.tools(specs, strict=case.get("strict"))
        losses = [{**each.to_json(), **({"refused": True} if each.refused else {})} for each in exported.losses]
        return {"entries": list(exported.entries), "names": sorted(exported.names), "losses": losses}
    if "answer" in case:
        return {"response": _response(made.response(case["answer"], request))}
    if "events" in case:
        reader = made.reader(request)
        deltas = [delta.to_json() for event in case["events"] for delta in reader.feed(event)]
        return {"deltas": deltas, "response": _response(reader.response(broken=case.get("broken")))}
    assert request is not None
    return {"body": made.request(request)}


def made_exporter(name: str, options: Mapping[str, Any]) -> Exporter:
    """An exporter; of `limits`, the options say only what differs."""
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


def _response(response: ModelResponse) -> Case:
    facts = response.to_json()
    if response.usage == NO_USAGE:
        del facts["usage"]
    return {"parts": short(facts.pop("message"))["parts"], **facts}


def short(value: Any) -> Any:
    """JSON of messages with a text in the place of `{"type": "text", "text": ...}`, and without what a result lacks."""
    if isinstance(value, dict):
        if value.keys() == {"type", "text"} and value["type"] == "text":
            return value["text"]
        lacks = {key for key, fact in _LACKS.items() if key in value and value[key] is fact}
        return {key: short(each) for key, each in value.items() if key not in lacks}
    return [short(each) for each in value] if isinstance(value, list) else value


_LACKS = {"structuredContent": None, "isError": False}


def _long(message: Mapping[str, Any]) -> Case:
    """The JSON of a message again."""
    parts = [_text(part) for part in message["parts"]]
    for part in parts:
        if part["type"] == "result":
            result = part["result"]
            part["result"] = {**_LACKS, **result, "content": [_text(each) for each in result["content"]]}
    return {**message, "parts": parts}


def _text(part: Any) -> Case:
    return {"type": "text", "text": part} if isinstance(part, str) else dict(part)


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
    """A value as one text, and only that value."""
    return json.dumps(encoded(value), sort_keys=True, allow_nan=False)


def loaded(path: Path) -> dict[str, list[Case]]:
    """The cases of a file, by behaviour."""
    return json.loads(path.read_text(encoding="utf-8"), object_hook=_decoded)


def written(value: Any, indent: str = "", used: int = 0) -> str:
    """JSON that can be read: in one line what fits into one, and no line of its own for a bracket round one thing."""
    line = json.dumps(value, allow_nan=False)
    if len(indent) + used + len(line) <= _WIDTH or not value or not isinstance(value, dict | list):
        return line
    first, last = "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    each = list(value.values() if isinstance(value, dict) else value)
    if len(each) == 1:
        return f"{first}{names[0]}{written(each[0], indent, used + len(names[0]) + 2)}{last}"
    inner = f"{indent}  "
    lines = [f"{inner}{name}{written(one, inner, len(name) + 1)}" for name, one in zip(names, each, strict=True)]
    return "\n".join([first, ",\n".join(lines), f"{indent}{last}"])


def main(names: list[str]) -> None:
    """Writes anew what comes of the cases of files."""
    for path in map(Path, names):
        all_cases = loaded(path)
        anew = {
            behaviour: [
                {**{key: case[key] for key in case if key in _GIVEN}, **played(path.stem, case)} for case in cases
            ]
            for behaviour, cases in all_cases.items()
        }
        path.write_text(written(encoded(anew)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
