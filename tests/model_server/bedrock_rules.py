"""What Bedrock Converse refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from model_server.format import authorised, choice_declared
from model_server.refused import fits, mapping, need, one_each, sequence
from model_server.request import Request
from model_server.script import Json

NAME = "[a-zA-Z0-9_-]{1,64}"
USE_ID = "[a-zA-Z0-9_.:-]{1,64}"

_IN_RESULT = {"json", "text", "image", "document", "video", "searchResult"}

_TOO_SHORT = "Member must have length greater than or equal to 1"

Declared = Callable[[str, set[str], str], None]
Blocks = list[dict[str, Any]]


def check(request: Request, need_declared: Declared) -> None:
    """Judges a request.

    Raises:
        RefusedError: It breaks a rule.
    """
    authorised(request, "authorization")
    body = mapping(request.body, "body")
    _check_tools(body)
    messages = sequence(body.get("messages"), "messages")
    need(messages, "The messages field is required and must not be empty.")
    before = "assistant"
    for place, message in enumerate(messages):
        role = mapping(message, f"messages.{place}").get("role")
        need(role in ("user", "assistant") and role != before, _turn_taking(place, role))
        before = role
        for at, block in enumerate(sequence(message.get("content"), f"messages.{place}.content")):
            _check_block(mapping(block, f"messages.{place}.content.{at}"), f"messages.{place}.content.{at}")
    _check_pairs(messages)
    _check_called(body, messages, need_declared)


def names(body: Json) -> set[str]:
    """The names that a checked request declares."""
    return {tool[kind]["name"] for tool in _tools(body) for kind in ("toolSpec", "systemTool") if kind in tool}


def loop_start(messages: list[Json]) -> int:
    """Where the loop that is under way begins: behind the last message of the user's that holds no results."""
    plain = [
        place for place, message in enumerate(messages) if message["role"] == "user" and not _of(message, "toolResult")
    ]
    return plain[-1] if plain else 0


def _tools(body: dict[str, Any]) -> Blocks:
    return (body.get("toolConfig") or {}).get("tools") or []


def _of(message: Json, kind: str) -> Blocks:
    return [block[kind] for block in message["content"] if kind in block]


def _turn_taking(place: int, role: Json) -> str:
    if place == 0:
        start = "A conversation must start with a user message."
        return f"{start} Try again with a conversation that starts with a user message."
    return f"messages.{place}: roles must alternate between user and assistant, not {role!r} again."


def _check_tools(body: dict[str, Any]) -> None:
    config = body.get("toolConfig")
    if config is None:
        return
    tools = sequence(mapping(config, "toolConfig").get("tools"), "toolConfig.tools")
    need(
        tools,
        f"Value at 'toolConfig.tools' failed to satisfy constraint: {_TOO_SHORT}",
    )
    for place, tool in enumerate(tools):
        if "toolSpec" in mapping(tool, f"toolConfig.tools.{place}"):
            _check_tool(
                mapping(tool["toolSpec"], f"toolConfig.tools.{place}"), f"toolConfig.tools.{place}.member.toolSpec"
            )
    declared = [tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool]
    one_each(declared, "The toolConfig field contains the duplicate tool name '{}'.")
    choice = mapping(config.get("toolChoice") or {}, "toolConfig.toolChoice")
    if "tool" in choice:
        name = mapping(choice["tool"], "toolConfig.toolChoice.tool").get("name")
        choice_declared(name, names(body), "toolConfig.toolChoice.tool.name")


def _check_tool(spec: dict[str, Any], where: str) -> None:
    fits(spec.get("name"), NAME, f"{where}.name")
    described = spec.get("description") != ""
    need(
        described,
        f"Value at '{where}.description' failed to satisfy constraint: {_TOO_SHORT}",
    )
    schema = mapping(mapping(spec.get("inputSchema"), f"{where}.inputSchema").get("json"), f"{where}.inputSchema.json")
    need(
        schema.get("type") == "object",
        f"The value at {where}.inputSchema.json.type must be one of the following: object.",
    )


def _check_block(block: dict[str, Any], where: str) -> None:
    need(len(block) == 1, f"The ContentBlock object at {where} must set exactly one member.")
    if "text" in block:
        need(
            str(block["text"]).strip(),
            f"The text field in the ContentBlock object at {where} is blank. Add text to the text field and try again.",
        )
    if "toolUse" in block:
        use = mapping(block["toolUse"], f"{where}.toolUse")
        fits(use.get("toolUseId"), USE_ID, f"{where}.toolUse.toolUseId")
        fits(use.get("name"), NAME, f"{where}.toolUse.name")
        _need_object(use.get("input"), f"{where}.toolUse.input")
    if "toolResult" in block:
        _check_result(mapping(block["toolResult"], f"{where}.toolResult"), f"{where}.toolResult")


def _check_result(result: dict[str, Any], where: str) -> None:
    fits(result.get("toolUseId"), USE_ID, f"{where}.toolUseId")
    need(
        result.get("status") in (None, "success", "error"), f"Value at '{where}.status' must be one of: success, error"
    )
    for at, part in enumerate(sequence(result.get("content"), f"{where}.content")):
        kinds = set(mapping(part, f"{where}.content.{at}"))
        need(
            len(kinds) == 1 and kinds <= _IN_RESULT,
            f"The ToolResultContentBlock object at {where}.content.{at} must set exactly one member.",
        )
        _need_object(part.get("json", {}), f"{where}.content.{at}.json")


def _need_object(value: Json, where: str) -> None:
    message = f"The format of the value at {where} is invalid. Provide a json object for the field and try again."
    need(isinstance(value, dict), message)


def _check_pairs(messages: list[Json]) -> None:
    """The next turn answers every use once; those with a type are the provider's own, answered in their own turn."""
    waiting: list[str] = []
    for place, message in enumerate([*messages, {"role": "end", "content": []}]):
        answered = [result["toolUseId"] for result in _of(message, "toolResult") if result.get("type") is None]
        missing = [use_id for use_id in waiting if use_id not in answered]
        need(
            not missing,
            f"Expected toolResult blocks at messages.{place}.content for the following Ids: {', '.join(missing)}",
        )
        found = f"The number of toolResult blocks at messages.{place}.content"
        need(len(answered) <= len(waiting), f"{found} exceeds the number of toolUse blocks of previous turn.")
        waiting = [use["toolUseId"] for use in _of(message, "toolUse") if use.get("type") is None]
        need(
            not waiting or message["role"] == "assistant",
            f"messages.{place}.content: toolUse blocks belong in an assistant turn.",
        )
        one_each(waiting, f"The toolUse blocks at messages.{place}.content contain duplicate Ids: {{}}")


def _check_called(body: dict[str, Any], messages: list[Json], need_declared: Declared) -> None:
    declared = names(body)
    for place, message in enumerate(messages):
        uses = _of(message, "toolUse")
        used = uses or _of(message, "toolResult")
        need(
            not used or _tools(body),
            "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        )
        for use in uses:
            if use.get("type") is None:
                need_declared(use["name"], declared, f"messages.{place}.content")
