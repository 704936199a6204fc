"""Calls of tools that OpenAI defines and the host runs: a shell, patches, a computer's screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.request.exporters.openai.spoken import Spoken
from pegboard.request.exporters.untrusted import known_text, object_or_none, objects_in
from pegboard.typing import JsonMapping, JsonObject


@frozen
class ClientCall:
    """One kind of such calls.

    Attributes:
        tools: The types of its tool; the first is the call's name where no tool of the request has one of them.
        arguments: The members of the item that may hold what to do.
        output: Makes the item of the result, from the call's id, what is said, whether it failed, and structured data.
    """

    tools: tuple[str, ...]
    arguments: tuple[str, ...]
    output: Callable[[str, list[Spoken], bool, Any], JsonObject]

    def read(self, item: JsonMapping) -> Any:
        """What to do, as the call's arguments: the member itself, or under its name where it is no object."""
        for name in self.arguments:
            if item.get(name) is not None:
                return item[name] if object_or_none(item[name]) is not None else {name: item[name]}
        return None


def _texts(said: list[Spoken]) -> str:
    return "\n".join(each.value for each in said if each.kind == "text")


def _local_shell(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    del failed, data
    return {"type": "local_shell_call_output", "id": call_id, "output": _texts(said)}


def _shell(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    """The tool's own list of outputs, under `output` of its structured result, else all its text as one."""
    outputs = [dict(each) for each in objects_in(object_or_none(data) or {}, "output")]
    if not outputs or not all(each.keys() == {"stdout", "stderr", "outcome"} for each in outputs):
        streams = {"stdout": "", "stderr": _texts(said)} if failed else {"stdout": _texts(said), "stderr": ""}
        outputs = [{**streams, "outcome": {"type": "exit", "exit_code": int(failed)}}]
    return {"type": "shell_call_output", "call_id": call_id, "output": outputs}


def _apply_patch(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    del data
    status = "failed" if failed else "completed"
    return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": _texts(said)}


def _computer(call_id: str, said: list[Spoken], failed: bool, data: Any) -> JsonObject:
    """The screen; a result without one can't be said otherwise than as a screen that nobody sees."""
    del failed, data
    picture = next((each.value for each in said if each.kind == "image"), None)
    screen = {"type": "computer_screenshot", **({} if picture is None else {"image_url": picture})}
    return {"type": "computer_call_output", "call_id": call_id, "output": screen}


CLIENT_CALLS: Final[Mapping[str, ClientCall]] = {
    "local_shell_call": ClientCall(("local_shell",), ("action",), _local_shell),
    "shell_call": ClientCall(("shell",), ("action",), _shell),
    "apply_patch_call": ClientCall(("apply_patch",), ("operation",), _apply_patch),
    "computer_call": ClientCall(("computer", "computer_use_preview", "computer_use"), ("actions", "action"), _computer),
}
"""By the type of the item."""


def client_call(item: JsonMapping) -> ClientCall | None:
    """The kind of an item that the host has to answer, or `None` where it is none."""
    kind = CLIENT_CALLS.get(known_text(item, "type") or "")
    return None if kind is None or _is_hosted(item) else kind


def _is_hosted(item: JsonMapping) -> bool:
    """Whether a shell's call ran in a container of the provider's."""
    environment = object_or_none(item.get("environment")) or {}
    return known_text(environment, "type") == "container_reference"


__all__ = ["CLIENT_CALLS", "ClientCall", "client_call"]
