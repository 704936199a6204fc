"""OpenAI's responses, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fake_vendors.server.format import Format, authorised, choice_declared
from fake_vendors.server.openai_chat import (
    NAME,
    check_function,
    need_object,
    need_room,
    openai_error,
    openai_refusal,
)
from fake_vendors.server.script import (
    Error,
    Json,
    RefusedError,
    Reply,
    Request,
    Search,
    Sent,
    Usage,
    fits,
    known,
    mapping,
    need,
    one_each,
    optional_text,
    sequence,
    sse,
    text,
)

Event = dict[str, Any]
At = dict[str, Any]
"""Which item an event speaks of: `item_id` and `output_index`."""


def items(reply: Reply) -> list[Json]:
    """The items in one piece."""
    return [item for item, _, _ in _parts(reply)]


def events(reply: Reply) -> Iterator[Event]:
    """The items' events: added, their pieces, done."""
    index = -1
    for item, begun, pieces in _parts(reply):
        index += not (begun.get("same_index") and index >= 0)
        at = {"output_index": index}
        first = {key: value for key, value in begun.items() if key != "same_index"}
        yield {"type": "response.output_item.added", **at, "item": item | first}
        yield from pieces({**at, "item_id": item.get("id")})
        yield {"type": "response.output_item.done", **at, "item": item}


_Part = tuple[dict[str, Any], dict[str, Any], Callable[[At], Iterator[Event]]]
"""An item, what differs in it when it begins, and the events between."""


def _parts(reply: Reply) -> Iterator[_Part]:
    if reply.round.reasoning is not None:
        yield _reasoning(reply)
    for place, hosted in enumerate(reply.round.hosted):
        yield (
            _search(hosted, f"ws_{reply.number}_{place}")
            if isinstance(hosted, Search)
            else (dict(hosted), {}, _nothing)
        )
    if reply.round.said or reply.round.refusal:
        yield _message(reply)
    for place, sent in enumerate(reply.calls("call_")):
        yield _call(reply, sent, f"fc_{reply.number}_{place}")


def _nothing(at: At) -> Iterator[Event]:
    yield from ()


def _reasoning(reply: Reply) -> _Part:
    thought = reply.round.reasoning
    assert thought is not None
    summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    item = {"type": "reasoning", "id": f"rs_{reply.number}", "summary": summary}
    if thought.signature is not None:
        item["encrypted_content"] = thought.signature

    def pieces(at: At) -> Iterator[Event]:
        if not thought.text:
            return
        at = {**at, "summary_index": 0}
        kind = "response.reasoning_summary_"
        yield {"type": f"{kind}part.added", **at, "part": {"type": "summary_text", "text": ""}}
        for piece in reply.pieces(thought.text):
            yield {"type": f"{kind}text.delta", **at, "delta": piece}
        yield {"type": f"{kind}text.done", **at, "text": thought.text}
        yield {"type": f"{kind}part.done", **at, "part": summary[0]}

    return item, {"summary": []}, pieces


def _search(search: Search, item_id: str) -> _Part:
    sources = [{"type": "url", "url": page.url} for page in search.pages]
    action = {"type": "search", "query": search.query, "sources": sources}
    item = {"type": "web_search_call", "id": item_id, "status": "completed", "action": action}

    def pieces(at: At) -> Iterator[Event]:
        for step in ("in_progress", "searching", "completed"):
            yield {"type": f"response.web_search_call.{step}", **at}

    return item, {"status": "in_progress"}, pieces


def _message(reply: Reply) -> _Part:
    parts = [part for part in (_text_part(reply), _refusal_part(reply)) if part is not None]
    status = "incomplete" if reply.round.ending in {"length", "content_filter"} else "completed"
    item = {"type": "message", "id": f"msg_{reply.number}", "role": "assistant", "status": status, "content": parts}

    def pieces(at: At) -> Iterator[Event]:
        for index, part in enumerate(parts):
            yield from _part_events(reply, part, {**at, "content_index": index})

    return item, {"status": "in_progress", "content": []}, pieces


def _part_events(reply: Reply, part: Json, at: At) -> Iterator[Event]:
    key, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    extra = {"logprobs": []} if key == "text" else {}
    begun = part | {key: ""} | ({"annotations": []} if key == "text" else {})
    yield {"type": "response.content_part.added", **at, "part": begun}
    for piece in reply.text_pieces() if key == "text" else reply.pieces(part[key]):
        yield {"type": f"response.{kind}.delta", **at, **extra, "delta": piece}
    for number, annotation in enumerate(part.get("annotations", ())):
        yield {
            "type": "response.output_text.annotation.added",
            **at,
            "annotation_index": number,
            "annotation": annotation,
        }
    yield {"type": f"response.{kind}.done", **at, **extra, key: part[key]}
    yield {"type": "response.content_part.done", **at, "part": part}


def _text_part(reply: Reply) -> Json:
    if not reply.round.said:
        return None
    cited = [
        {"type": "url_citation", "url": at.url, "title": at.title, "start_index": at.start, "end_index": at.end}
        for at in reply.round.citations
    ]
    return {"type": "output_text", "text": reply.round.said, "annotations": cited}


def _refusal_part(reply: Reply) -> Json:
    return {"type": "refusal", "refusal": reply.round.refusal} if reply.round.refusal else None


def _call(reply: Reply, sent: Sent, item_id: str) -> _Part:
    key, kind, event = ("arguments", "function_call", "function_call_arguments")
    if sent.call.freeform:
        key, kind, event = ("input", "custom_tool_call", "custom_tool_call_input")
    item = {"type": kind, "id": item_id, "name": sent.call.name, key: sent.call.text, "status": "completed"}
    if sent.id is not None:
        item["call_id"] = sent.id
    if sent.call.namespace is not None:
        item["namespace"] = sent.call.namespace

    def pieces(at: At) -> Iterator[Event]:
        for piece in reply.argument_pieces(sent.call):
            yield {"type": f"response.{event}.delta", **at, "delta": piece}
        yield {"type": f"response.{event}.done", **at, "name": sent.call.name, key: sent.call.text}

    return item, {key: "", "status": "in_progress", "same_index": sent.call.same_index}, pieces


_ROLES = ("user", "assistant", "system", "developer")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
_COMMON = {"type", "id", "status", "async", "caller"}
_KEYS = {
    "message": {"type", "id", "role", "content", "status", "phase"},
    "function_call": _COMMON | {"arguments", "call_id", "name", "namespace"},
    "custom_tool_call": _COMMON | {"input", "call_id", "name", "namespace"},
    "function_call_output": _COMMON | {"call_id", "output"},
    "custom_tool_call_output": _COMMON | {"call_id", "output"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
_PARTS = {
    "user": {"input_text", "input_image", "input_file", "input_audio"},
    "system": {"input_text", "input_image", "input_file"},
    "developer": {"input_text", "input_image", "input_file"},
    "assistant": {"output_text", "refusal"},
}

Declared = Callable[[str, set[str], str], None]


def check(request: Request, stored: Mapping[str, list[Json]], need_declared: Declared) -> list[Json]:
    """Judges a request, and returns its items, those before it too.

    Raises:
        RefusedError: It breaks a rule.
    """
    authorised(request, "authorization")
    body = mapping(request.body, "body")
    text(body.get("model"), "model")
    _check_tools(body)
    before = _before(body.get("previous_response_id"), stored)
    asked = body.get("input")
    if isinstance(asked, str):
        need(asked, "Invalid 'input': empty string.", param="input")
        asked = []
    for place, item in enumerate(sequence(asked, "input")):
        _check_item(mapping(item, f"input[{place}]"), f"input[{place}]")
    items = [*before, *asked]
    _check_pairs(items)
    declared = names(body)
    for place, item in enumerate(asked):
        if item.get("type") in _CALLS:
            need_declared(item["name"], declared, f"input[{place}]")
    return items


def check_reasoning(items: list[Json], issued: Mapping[str, str | None], thought_first: Mapping[str, str]) -> None:
    """What was thought comes back unchanged, and before the call that it led to.

    Raises:
        RefusedError: It was changed, or left out.
    """
    seen = set()
    for item in items:
        if item.get("type") == "reasoning":
            seen.add(item.get("id"))
            known_one = item.get("id") in issued and item.get("encrypted_content") == issued[item["id"]]
            message = f"The encrypted content for item {item.get('id')} could not be verified."
            need(known_one, message, code="invalid_encrypted_content")
        if item.get("type") in _CALLS and item.get("id") in thought_first:
            wanted = thought_first[item["id"]]
            named = f"Item '{item['id']}' of type '{item['type']}'"
            message = f"{named} was provided without its required 'reasoning' item: '{wanted}'."
            need(wanted in seen, message, param="input")


def names(body: Json) -> set[str]:
    """The names that a checked request declares, those of namespaces too; a hosted tool goes by its type."""
    return {tool.get("name", tool["type"]) for tool in _flat(body.get("tools") or ())}


def _flat(tools: Any) -> list[Json]:
    flat = []
    for tool in tools:
        flat.extend(tool["tools"] if tool["type"] == "namespace" else [tool])
    return flat


def _before(response_id: Json, stored: Mapping[str, list[Json]]) -> list[Json]:
    if response_id is None:
        return []
    if not isinstance(response_id, str) or response_id not in stored:
        message = f"Previous response with id '{response_id}' not found."
        raise RefusedError(message, param="previous_response_id", code="previous_response_not_found")
    return stored[response_id]


def _check_tools(body: dict[str, Any]) -> None:
    tools = [] if body.get("tools") is None else sequence(body["tools"], "tools")
    need_room(tools)
    for place, tool in enumerate(tools):
        _check_tool(mapping(tool, f"tools[{place}]"), f"tools[{place}]")
    one_each([tool["name"] for tool in tools if "name" in tool], "Duplicate tool name: '{}'.", param="tools")
    _check_choice(body.get("tool_choice"), names(body))


def _check_tool(tool: dict[str, Any], where: str) -> None:
    kind = text(tool.get("type"), f"{where}.type")
    optional_text(tool.get("name"), f"{where}.name")
    if kind == "function":
        known(
            tool,
            {
                "type",
                "name",
                "parameters",
                "strict",
                "description",
                "defer_loading",
                "allowed_callers",
                "output_schema",
            },
            where,
        )
        check_function(tool, where)
    elif kind == "custom":
        fits(tool.get("name"), NAME, f"{where}.name")
    elif kind == "namespace":
        text(tool.get("name"), f"{where}.name")
        text(tool.get("description"), f"{where}.description")
        inner = sequence(tool.get("tools"), f"{where}.tools")
        for place, one in enumerate(inner):
            _check_tool(mapping(one, f"{where}.tools[{place}]"), f"{where}.tools[{place}]")
        one_each([one.get("name") for one in inner], "Duplicate tool name: '{}'.", param=f"{where}.tools")


def _check_choice(choice: Json, declared: set[str]) -> None:
    if choice is None or choice in ("none", "auto", "required"):
        return
    kind = text(mapping(choice, "tool_choice").get("type"), "tool_choice.type")
    if kind == "allowed_tools":
        for tool in sequence(choice.get("tools"), "tool_choice.tools"):
            _check_choice(tool, declared)
        return
    named = kind in {"function", "custom"}
    choice_declared(choice.get("name") if named else kind, declared, "tool_choice.name" if named else "tool_choice")


def _check_item(item: dict[str, Any], where: str) -> None:
    kind = item.get("type", "message")
    need(isinstance(kind, str), f"Invalid type for '{where}.type': expected a string.", param=f"{where}.type")
    optional_text(item.get("id"), f"{where}.id")
    if kind in _KEYS:
        known(item, _KEYS[kind], where)
    if kind in _CALLS or kind in _OUTPUTS:
        text(item.get("call_id"), f"{where}.call_id")
    if kind in _CALLS:
        text(item.get("name"), f"{where}.name")
        key = _CALLS[kind]
        need(isinstance(item.get(key), str), f"Missing required parameter: '{where}.{key}'.", param=f"{where}.{key}")
        if kind == "function_call":
            need_object(item[key], f"{where}.{key}")
    if kind in _OUTPUTS:
        _check_output(item.get("output"), f"{where}.output")
    if kind == "reasoning":
        sequence(item.get("summary"), f"{where}.summary")
    if kind == "message":
        _check_message(item, where)


def _check_output(output: Json, where: str) -> None:
    if isinstance(output, str):
        return
    for place, part in enumerate(sequence(output, where)):
        _check_part(part, {"input_text", "input_image", "input_file"}, f"{where}[{place}]")


def _check_message(item: dict[str, Any], where: str) -> None:
    role = text(item.get("role"), f"{where}.role")
    need(
        role in _ROLES,
        f"Invalid value: '{role}'. Supported values are: {', '.join(_ROLES)}.",
        param=f"{where}.role",
        code="invalid_value",
    )
    content = item.get("content")
    if isinstance(content, str):
        return
    for place, part in enumerate(sequence(content, f"{where}.content")):
        _check_part(part, _PARTS[role], f"{where}.content[{place}]")


def _check_part(part: Json, legal: set[str], where: str) -> None:
    kind = text(mapping(part, where).get("type"), f"{where}.type")
    message = f"Invalid value: '{kind}'. Supported values are: {', '.join(sorted(legal))}."
    need(kind in legal, message, param=f"{where}.type", code="invalid_value")


def _check_pairs(items: list[dict[str, Any]]) -> None:
    """Each output has its call before it, each call its output."""
    waiting: dict[str, str] = {}
    used: set[str] = set()
    for item in items:
        kind = item.get("type", "message")
        if kind in _CALLS:
            need(item.get("call_id") not in used, f"Duplicate call_id '{item.get('call_id')}'.", param="input")
            waiting[item.get("call_id")] = kind
            used.add(item.get("call_id"))
        elif kind in _OUTPUTS:
            legal = waiting.pop(item["call_id"], None) == _OUTPUTS[kind]
            need(
                legal, f"No tool call found for {kind.replace('_', ' ')} with call_id {item['call_id']}.", param="input"
            )
    if waiting:
        raise RefusedError(f"No tool output found for function call {next(iter(waiting))}.", param="input")


_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class OpenAIResponses(Format):
    """`POST /v1/responses`."""

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        super().__init__(undeclared_calls=undeclared_calls)
        self._stored: dict[str, list[Json]] = {}
        self._reasoning: dict[str, str | None] = {}
        self._thought_first: dict[str, str] = {}

    def check(self, request: Request) -> None:
        """Judges a request, together with the earlier ones that it goes on from."""
        items = check(request, self._stored, self.need_declared)
        if not self._raw_played:
            check_reasoning(items, self._reasoning, self._thought_first)

    def declared(self, body: Json) -> set[str]:
        """The tools' names."""
        return names(body)

    def remember(self, reply: Reply) -> None:
        """Keeps the conversation for `previous_response_id`, and what was thought before which call."""
        super().remember(reply)
        given = items(reply)
        body = reply.request.body
        before = self._stored.get(body.get("previous_response_id") or "", [])
        asked = body["input"] if isinstance(body["input"], list) else []
        self._stored[_id(reply)] = [*before, *asked, *given]
        thought = [item for item in given if item["type"] == "reasoning"]
        self._reasoning |= {item["id"]: item.get("encrypted_content") for item in thought}
        calls = [item for item in given if item["type"] in {"function_call", "custom_tool_call"}]
        self._thought_first |= {item["id"]: thought[0]["id"] for item in calls if thought}

    def body(self, reply: Reply) -> Json:
        """A `response`."""
        return _response(reply, items(reply))

    def events(self, reply: Reply) -> Iterator[Json]:
        """`response.created`, each item's events, `response.completed` or `response.incomplete`."""
        for number, event in enumerate(self._events(reply)):
            yield event | {"sequence_number": number}

    def frame(self, event: Json) -> bytes:
        """With its type as its name."""
        return sse(event, event.get("type"))

    def error_body(self, error: Error) -> Json:
        """`{"error": {message, type, param, code}}`."""
        return openai_error(error)

    def refusal_body(self, refused: RefusedError) -> Json:
        """The same, with the path to the bad field."""
        return openai_refusal(refused)

    def error_frame(self, error: Error) -> bytes:
        """An `error` event."""
        said = openai_error(error)["error"]
        return self.frame(
            {**said, "type": "error", "code": said["code"] or said["type"], "sequence_number": error.after}
        )

    def _events(self, reply: Reply) -> Iterator[dict[str, Any]]:
        begun = _response(reply, []) | {"status": "in_progress", "usage": None, "completed_at": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        yield from events(reply)
        done = self.body(reply)
        yield {"type": f"response.{done['status']}", "response": done}


def _id(reply: Reply) -> str:
    return f"resp_{reply.number}"


def _response(reply: Reply, items: list[Json]) -> dict[str, Any]:
    reason = _INCOMPLETE.get(reply.round.ending)
    body = reply.request.body
    return {
        "id": _id(reply),
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": None if reason else 1_700_000_001,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": reply.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": _usage(reply.round.usage),
    }


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
