"""Gemini, and what is refused of it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from fake_vendors.server.format import Format, authorised, same_json
from fake_vendors.server.script import (
    Call,
    Error,
    Json,
    RefusedError,
    Reply,
    Request,
    Search,
    Usage,
    fits,
    known,
    mapping,
    need,
    one_each,
    optional_text,
    sequence,
)

NAME = "^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$"
MOST_TOOLS = 512
SKIP = "skip_thought_signature_validator"
"""A signature that Gemini takes for calls that have none, such as another model's."""

_SKIPS = {SKIP, base64.b64encode(SKIP.encode()).decode()}

_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_BESIDE = {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}
_MODES = (None, "MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_CALL = {"id", "name", "args"}
_RESPONSE = {"id", "name", "response", "parts", "willContinue", "scheduling"}

Declared = Callable[[str, set[str], str], None]


@frozen
class Issued:
    """A call (or, without a name, a text) that went out, with its signature."""

    name: str | None
    id: str | None
    args: Json
    signature: str | None


def check(request: Request, need_declared: Declared) -> None:
    """Judges a request.

    Raises:
        RefusedError: It breaks a rule.
    """
    if "key=" not in request.query:
        authorised(request, "x-goog-api-key", "authorization")
    body = mapping(request.body, "body")
    _check_tools(body)
    contents = sequence(body.get("contents"), "contents")
    need(contents, "* GenerateContentRequest.contents: contents is not specified")
    for place, content in enumerate(contents):
        _check_content(mapping(content, f"contents[{place}]"), f"contents[{place}]")
    _check_pairs(contents)
    declared = names(body)
    for place, content in enumerate(contents):
        for call in _of(content, "functionCall"):
            need_declared(call["name"], declared, f"contents[{place}]")


def check_signatures(contents: list[Json], issued: list[Issued]) -> None:
    """Signatures come back as they went out, on the parts that carried them.

    A part is known by its id, else by name and arguments, else by its name. A text may lose its signature, a call may
    not.

    Raises:
        RefusedError: One was changed, made up, or left out.
    """
    for place, content in enumerate(contents):
        for at, part in enumerate(content["parts"] if content.get("role") == "model" else ()):
            where = f"contents[{place}].parts[{at}]"
            given = optional_text(part.get("thoughtSignature"), where)
            call = part.get("functionCall")
            legal = _legal(call, issued)
            message = f"Function call is missing a thought_signature in functionCall parts, {where}."
            need(given is not None or None in legal, message)
            need(given in legal or _same_bytes(given, legal), f"Thought signature is not valid: {where}.")


def names(body: Json) -> set[str]:
    """The names that a checked request declares."""
    return {function["name"] for tool in body.get("tools") or () for function in tool.get("functionDeclarations") or ()}


def _legal(call: dict[str, Any] | None, issued: list[Issued]) -> set[str | None]:
    """The signatures that a part may have; `None` stands for none."""
    if call is None:
        return {None, *(one.signature for one in issued if one.name is None)}
    given = {one.signature for one in _same(call, issued)} or {None}
    return given | _SKIPS if None in given else given


def _same(call: dict[str, Any], issued: list[Issued]) -> list[Issued]:
    named = [one for one in issued if one.name == call["name"]]
    by_id = [one for one in named if call.get("id") and one.id == call["id"]]
    by_args = [one for one in named if same_json(one.args, call.get("args") or {})]
    return by_id or by_args or named


def _same_bytes(given: str, legal: set[str | None]) -> bool:
    """Base64 has two alphabets, and the SDK reads one and writes the other."""
    return any(one is not None and _bytes(one) == _bytes(given) for one in legal)


def _bytes(signature: str) -> bytes:
    try:
        return base64.b64decode(signature.replace("-", "+").replace("_", "/") + "==", validate=False)
    except binascii.Error:
        return signature.encode()


def _of(content: Json, kind: str) -> list[dict[str, Any]]:
    return [part[kind] for part in content["parts"] if kind in part]


def _check_tools(body: dict[str, Any]) -> None:
    found = []
    for place, tool in enumerate(sequence(body.get("tools") or [], "tools")):
        functions = mapping(tool, f"tools[{place}]").get("functionDeclarations") or []
        for at, function in enumerate(sequence(functions, f"tools[{place}].function_declarations")):
            _check_function(mapping(function, f"tools[{place}]"), f"tools[{place}].function_declarations[{at}]")
            found.append(function["name"])
    one_each(found, "Duplicate function declaration found: {}")
    need(len(found) <= MOST_TOOLS, f"At most {MOST_TOOLS} function declarations are allowed, got {len(found)}")
    config = mapping(
        mapping(body.get("toolConfig") or {}, "tool_config").get("functionCallingConfig") or {},
        "function_calling_config",
    )
    mode = config.get("mode")
    need(mode in _MODES, f"Invalid value at 'tool_config.function_calling_config.mode': {mode!r}")
    allowed = config.get("allowedFunctionNames") or []
    for name in sequence(allowed, "tool_config.function_calling_config.allowed_function_names"):
        need(
            name in found,
            f"tool_config.function_calling_config.allowed_function_names: '{name}' is not declared in tools",
        )
    fit = not allowed or mode in ("ANY", "VALIDATED")
    need(fit, "Function calling config is set with allowed_function_names, but the mode is neither ANY nor VALIDATED.")


def _check_function(function: dict[str, Any], where: str) -> None:
    fits(function.get("name"), NAME, f"{where}.name")
    both = "parameters" in function and "parametersJsonSchema" in function
    need(not both, f"{where}: parameters and parameters_json_schema can't both be set")
    schema = function.get("parametersJsonSchema", function.get("parameters"))
    if schema is not None:
        kind = mapping(schema, f"{where}.parameters").get("type")
        need(str(kind).lower() == "object", f"{where}.parameters: schema should be of type OBJECT")


def _check_content(content: dict[str, Any], where: str) -> None:
    known(content, {"role", "parts"}, where)
    need(content.get("role") in (None, "user", "model", "function"), "Please use a valid role: user, model.")
    parts = sequence(content.get("parts") or [], f"{where}.parts")
    need(parts, f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.")
    for at, part in enumerate(parts):
        _check_part(mapping(part, f"{where}.parts[{at}]"), f"{where}.parts[{at}]")


def _check_part(part: dict[str, Any], where: str) -> None:
    known(part, {*_DATA, *_BESIDE}, where)
    data = [key for key in _DATA if key in part]
    need(
        len(data) == 1,
        f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one initialized field",
    )
    if "functionCall" in part:
        call = mapping(part["functionCall"], f"{where}.function_call")
        known(call, _CALL, f"{where}.function_call")
        need(isinstance(call.get("name"), str) and call["name"], f"{where}.function_call.name: Name cannot be empty.")
        need(
            isinstance(call.get("args", {}), dict),
            f"{where}.function_call.args: Proto field is not repeating, cannot start list or scalar.",
        )
    if "functionResponse" in part:
        response = mapping(part["functionResponse"], f"{where}.function_response")
        known(response, _RESPONSE, f"{where}.function_response")
        need(
            isinstance(response.get("name"), str) and response["name"],
            f"{where}.function_response.name: Name cannot be empty.",
        )
        need(isinstance(response.get("response"), dict), f"{where}.function_response.response: an object is required")


def _check_pairs(contents: list[Json]) -> None:
    """The turn after calls answers each, in their order."""
    waiting: list[dict[str, Any]] = []
    before = None
    for content in [*contents, {"role": "end", "parts": []}]:
        answers = _of(content, "functionResponse")
        need(
            len(answers) == len(waiting),
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn.",
        )
        need(
            not answers or content.get("role") != "model",
            "Please ensure that function responses are in a turn of the user's.",
        )
        for call, answer in zip(waiting, answers, strict=True):
            _check_answer(call, answer)
        waiting = _of(content, "functionCall")
        legal = not waiting or (
            content.get("role") == "model" and before in (None, "user", "function") and content is not contents[0]
        )
        need(
            legal,
            "Please ensure that function call turn comes immediately after a user turn "
            "or after a function response turn.",
        )
        before = content.get("role")


def _check_answer(call: dict[str, Any], answer: dict[str, Any]) -> None:
    same = call["name"] == answer["name"] and (call.get("id") is None or answer.get("id") in (None, call["id"]))
    if not same:
        raise RefusedError(
            f"Please ensure that function responses stand in the order of their calls: "
            f"'{call['name']}' ({call.get('id')}) is answered by '{answer['name']}' ({answer.get('id')})."
        )


_FINISH = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "refusal": "SAFETY",
}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini(Format):
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent?alt=sse`."""

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        super().__init__(undeclared_calls=undeclared_calls)
        self._issued: list[Issued] = []

    def streamed(self, path: str, body: Json) -> bool:
        """By the path."""
        return path.endswith(":streamGenerateContent")

    def check(self, request: Request) -> None:
        """Judges a request."""
        check(request, self.need_declared)
        if not self._raw_played:
            check_signatures(request.body["contents"], self._issued)

    def declared(self, body: Json) -> set[str]:
        """The tools' names."""
        return names(body)

    def remember(self, reply: Reply) -> None:
        """Keeps the calls with their signatures."""
        super().remember(reply)
        for part in _parts(reply):
            call = part.get("functionCall", {})
            signature = part.get("thoughtSignature")
            self._issued.append(Issued(call.get("name"), call.get("id"), call.get("args"), signature))

    def body(self, reply: Reply) -> Json:
        """A `GenerateContentResponse`."""
        return _response(reply, list(_parts(reply)), last=True)

    def events(self, reply: Reply) -> Iterator[Json]:
        """`GenerateContentResponse`s; the last has finish reason and grounding."""
        for part in _stream_parts(reply):
            yield _response(reply, [part], last=False)
        yield _response(reply, [], last=True)

    def error_body(self, error: Error) -> Json:
        """`{"error": {code, message, status, details}}`."""
        status = _STATUS.get(error.status, "UNKNOWN")
        said: dict[str, Any] = {"code": error.status, "message": error.text, "status": status}
        if error.retry_after is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            said["details"] = [{"@type": kind, "retryDelay": f"{error.retry_after:g}s"}]
        return {"error": said}


def _response(reply: Reply, parts: list[Json], *, last: bool) -> Json:
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content["parts"] = parts
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if last:
        candidate["finishReason"] = _FINISH.get(reply.round.ending, reply.round.ending)
        if reply.round.refusal:
            candidate["finishMessage"] = reply.round.refusal
        grounding = _grounding(reply)
        if grounding:
            candidate["groundingMetadata"] = grounding
    model = reply.request.path.rpartition("/")[2].partition(":")[0]
    usage = _usage(reply.round.usage)
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": f"response_{reply.number}",
    }


def _parts(reply: Reply) -> Iterator[dict[str, Any]]:
    yield from _before_text(reply)
    if reply.round.said:
        yield {"text": reply.round.said} | _on_text(reply)
    for call in reply.round.calls:
        yield _call_part(reply, call)


def _stream_parts(reply: Reply) -> Iterator[dict[str, Any]]:
    yield from _before_text(reply)
    pieces = list(reply.text_pieces())
    for place, piece in enumerate(pieces, 1):
        yield {"text": piece} | (_on_text(reply) if place == len(pieces) else {})
    for call in reply.endless_calls():
        yield _call_part(reply, call)


def _before_text(reply: Reply) -> Iterator[dict[str, Any]]:
    thought = reply.round.reasoning
    if thought is not None and thought.text:
        yield {"text": thought.text, "thought": True}
    for hosted in reply.round.hosted:
        if not isinstance(hosted, Search):
            yield dict(hosted)


def _on_text(reply: Reply) -> dict[str, Any]:
    """Without calls the text carries the signature."""
    thought = reply.round.reasoning
    alone = not reply.round.calls and thought is not None and thought.signature is not None
    return {"thoughtSignature": thought.signature} if alone and thought is not None else {}


def _call_part(reply: Reply, call: Call) -> dict[str, Any]:
    made = {"name": call.name, "args": call.value} | ({"id": call.id} if call.id else {})
    thought = reply.round.reasoning
    signature = call.signature
    if signature is None and thought is not None and call is reply.round.calls[0]:
        signature = thought.signature
    return {"functionCall": made} | ({} if signature is None else {"thoughtSignature": signature})


def _grounding(reply: Reply) -> dict[str, Any]:
    searches = [hosted for hosted in reply.round.hosted if isinstance(hosted, Search)]
    cited = reply.round.citations
    pages = [*cited, *(page for search in searches for page in search.pages)]
    if not searches and not cited:
        return {}
    supports = [
        {"segment": _segment(reply.round.said, at.start, at.end), "groundingChunkIndices": [place]}
        for place, at in enumerate(cited)
    ]
    chunks = [{"web": {"uri": page.url, "title": page.title}} for page in pages]
    return {
        "webSearchQueries": [search.query for search in searches],
        "groundingChunks": chunks,
        "groundingSupports": supports,
    }


def _segment(said: str, start: int, end: int) -> Json:
    """Gemini counts bytes."""
    offsets = {"startIndex": len(said[:start].encode()), "endIndex": len(said[:end].encode())}
    return {**offsets, "text": said[start:end]}


def _usage(usage: Usage) -> Json:
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    }
