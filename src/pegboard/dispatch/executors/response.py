"""`ExecutionResponse`: what an executor answers, and its way from and to a `ToolResult`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import attrs
from attrs import field, frozen

from pegboard.dispatch.executors.reading import FLAG, LIST, NOTHING, OBJECT, TEXT, Types, read
from pegboard.schema.json import json_faults
from pegboard.tools.content import Content, ErrorKind, TextContent, ToolResult
from pegboard.typing import JsonMapping, JsonObject


def _no_facts() -> dict[str, Any]:
    return {}


@frozen
class PermissionRequired:
    """What somebody has to allow before the call can run.

    Attributes:
        permission: The permission's name, such as `"edit"`.
        patterns: What it is asked for, such as paths.
        description: What the tool wants to do, for people.
        metadata: For whoever decides, such as a diff.
        approval: What is added to the request's `approvals` when it is sent again, once this was allowed: it stands
            for exactly this permission of this tool with these arguments. `None` where the executor takes none.
    """

    permission: str
    patterns: tuple[str, ...] = field(default=("*",), converter=tuple[str, ...])
    description: str = ""
    metadata: Mapping[str, Any] = field(factory=_no_facts)
    approval: str | None = None

    def to_json(self) -> JsonObject:
        """All facts by name."""
        return {**attrs.asdict(self, recurse=False), "patterns": list(self.patterns), "metadata": dict(self.metadata)}

    @classmethod
    def from_json(cls, data: JsonMapping) -> PermissionRequired:
        """Reads what `to_json` writes, from a source that isn't trusted.

        Raises:
            ValueError: Something is missing or of the wrong type.
        """
        facts = read(data, _PERMISSION, "permission")
        if not all(isinstance(pattern, str) for pattern in facts.get("patterns", ())):
            raise ValueError("patterns: expected a list of texts")
        return cls(**facts)


@frozen(kw_only=True)
class ExecutionResponse:
    """What an executor answers to one request.

    Attributes:
        output: The tool's text.
        content: All that the tool said to the model, where it is more than `output`; else empty.
        structured_content: The same as JSON data, or `None`.
        title: A short heading for people, or `None`.
        display: Text for people, where it differs from what the model gets.
        error: What went wrong, for the model; `None` where nothing did.
        is_error: Whether the call failed.
        kind: Why, where it failed. With a kind the call itself failed, and `on_error` callbacks see it; an error
            without one is what the tool has answered.
        metadata: Facts for the user interface. `{"retryable": True}` beside the kind `tool_failure` says that the
            same call may succeed later.
        attachments: Files for the user interface: their bytes, type and name.
        details: Any data for the user interface.
        detail: For the operator (message, stack, what was printed last); never for the model.
        permission_required: What has to be allowed first; the tool did not run.
        not_executed: Whether there is nothing here to run the tool with.
        actions: What the call asks of its host (`Actions.to_json()`), or `None`.
    """

    output: str = ""
    content: tuple[Content, ...] = field(default=(), converter=tuple[Content, ...])
    structured_content: Any = None
    title: str | None = None
    display: str | None = None
    error: str | None = None
    is_error: bool = False
    kind: ErrorKind | None = None
    metadata: Mapping[str, Any] = field(factory=_no_facts)
    attachments: tuple[Content, ...] = field(default=(), converter=tuple[Content, ...])
    details: Any = None
    detail: str | None = None
    permission_required: PermissionRequired | None = None
    not_executed: bool = False
    actions: Mapping[str, Any] | None = None

    @classmethod
    def failed(cls, kind: ErrorKind, text: str, *, detail: str | None = None) -> ExecutionResponse:
        """The answer where the call itself failed: `text` for the model, `detail` for the operator."""
        return cls(error=text, is_error=True, kind=kind, detail=detail, not_executed=kind == "not_executed")

    def evolve(self, **changes: Any) -> ExecutionResponse:
        """A response with some facts changed."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """The facts that say something, by their names here; what JSON can't say is written as text."""
        data: JsonObject = {"output": self.output} if self.output else {}
        data.update({name: fact for name in _PLAIN if (fact := getattr(self, name)) is not None and fact is not False})
        if self.structured_content is not None:
            data["structured_content"] = _sayable(self.structured_content)
        if self.details is not None:
            data["details"] = _sayable(self.details)
        if self.metadata:
            data["metadata"] = {f"{name}": _sayable(fact) for name, fact in self.metadata.items()}
        if self.content:
            data["content"] = [item.to_json() for item in self.content]
        if self.attachments:
            data["attachments"] = [item.to_json() for item in self.attachments]
        if self.permission_required is not None:
            data["permission_required"] = self.permission_required.to_json()
        if self.actions is not None:
            data["actions"] = dict(self.actions)
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> ExecutionResponse:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: Something is of the wrong type, or isn't JSON; names it.
        """
        facts = read(data, _TYPES)
        kind = facts.get("kind")
        if kind is not None and kind not in _KINDS:
            raise ValueError(f"kind: {kind!r:.80} is no kind of error")
        for name in ("structured_content", "details"):
            if name in data:
                facts[name] = _json(data[name], name)
        for name in ("content", "attachments"):
            if name in facts:
                facts[name] = _contents(facts[name], name)
        if facts.get("permission_required") is not None:
            facts["permission_required"] = PermissionRequired.from_json(facts["permission_required"])
        return cls(**facts)


def _sayable(value: Any) -> Any:
    if not json_faults(value):
        return value
    from pegboard.schema.dump import to_json_data

    try:
        return to_json_data(value)
    except Exception:  # noqa: BLE001  (whatever a value of the tool's own makes of being written)
        return f"<{type(value).__name__}>"


def _json(value: Any, name: str) -> Any:
    faults = json_faults({name: value})
    if faults:
        raise ValueError("; ".join(faults))
    return value


def _contents(items: list[Any], name: str) -> list[Content]:
    from pegboard.tools.content_json import content_from_json

    return [content_from_json(item, f"{name}[{place}]") for place, item in enumerate(items)]


def response_of(result: ToolResult) -> ExecutionResponse:
    """The response that says what a result says."""
    content, text = result.content, result.text
    is_text = bool(text) and len(content) == 1 and isinstance(content[0], TextContent)
    return ExecutionResponse(
        output=text,
        content=() if is_text else content,
        structured_content=result.structured_content,
        title=result.title,
        display=result.display,
        error=text if result.is_error else None,
        is_error=result.is_error,
        kind=result.kind,
        metadata=result.metadata,
        attachments=result.attachments,
        details=result.details,
        detail=result.detail,
        not_executed=result.kind == "not_executed",
    )


def result_of(response: ExecutionResponse) -> ToolResult:
    """The result that says what a response says.

    What needs a permission first is an error of the kind `confirmation_required`; where there is nothing to run the
    tool with, of the kind `not_executed`.
    """
    required = response.permission_required
    if required is not None:
        wanted = ", ".join(required.patterns)
        return ToolResult.error("confirmation_required", f"This needs the permission {required.permission} ({wanted}).")
    is_error = response.is_error or response.error is not None or response.not_executed
    kind = response.kind or ("not_executed" if response.not_executed else None)
    text = response.output or response.error or ("There is nothing to run it with." if response.not_executed else "")
    return ToolResult(
        response.content or ((TextContent(text),) if text else ()),
        response.structured_content,
        is_error,
        (kind or "tool_failure") if is_error else None,
        response.display,
        response.title,
        response.metadata,
        response.detail,
        response.attachments,
        response.details,
    )


_KINDS: Final = frozenset(get_args(ErrorKind))
_PLAIN: Final = ("title", "display", "error", "is_error", "kind", "detail", "not_executed")
_PERMISSION: Final[Mapping[str, Types]] = {
    "permission": TEXT,
    "patterns": LIST,
    "description": TEXT,
    "metadata": OBJECT,
    "approval": TEXT + NOTHING,
}
_TYPES: Final[Mapping[str, Types]] = {
    "output": TEXT,
    "content": LIST,
    **dict.fromkeys(("title", "display", "error", "kind", "detail"), TEXT + NOTHING),
    "is_error": FLAG,
    "not_executed": FLAG,
    "metadata": OBJECT,
    "attachments": LIST,
    "permission_required": OBJECT + NOTHING,
    "actions": OBJECT + NOTHING,
}
