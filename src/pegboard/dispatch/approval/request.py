"""`ApprovalRequest`: what a person is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs
from attrs import field, frozen

from pegboard.dispatch.approval.visible import cut, visible
from pegboard.schema.json import json_faults
from pegboard.tools.call import ToolCall
from pegboard.tools.tool import Preview, Tool
from pegboard.typing import JsonObject

MOST_LINE: Final = 2_000
MOST_ARGUMENTS: Final = 50_000

Subject: TypeAlias = Literal["call", "permission", "question"]
"""What is asked about: the whole call before it runs; a permission, or a question, from inside it."""


def new_id() -> str:
    """An id that nobody can guess: 160 random bits."""
    import secrets

    return secrets.token_hex(20)


def _nothing() -> dict[str, Any]:
    return {}


@frozen
class ApprovalRequest:
    """What a person is asked, and all that helps to decide.

    Only `preview` and `to_text()` are made for showing. Everything else stands as the model, the tool or the host wrote
    it, so that it can be compared; show it through `pegboard.dispatch.approval.visible.visible`.

    Attributes:
        call: The call; its arguments are those that would run, as JSON text, which nobody can change.
        digest: Of tool and arguments; what an approval is bound to.
        permission: What is asked for, such as `"edit"`.
        patterns: What it is asked for, such as paths or a command.
        always: What an answer "always" would allow; empty where it would allow no more than "once" does.
        reason: Why it is asked: the rule, or what the tool says of itself.
        subject: `"call"`, or from inside the call `"permission"` or `"question"`.
        hint: The question, in the tool's words, or `""`.
        payload: JSON data for whoever answers, or `None`.
        preview: What the call would do, or `None` where the tool has no preview.
        tool: The tool, or `None` where it isn't at hand.
        metadata: Facts for the user interface, from the tool.
        user: For whom the call runs, or `None`.
        session: The conversation's id, or `None`.
        id: Of the request; nobody can guess it.
    """

    call: ToolCall
    digest: str
    permission: str
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    reason: str = ""
    subject: Subject = "call"
    hint: str = ""
    payload: Any = None
    preview: Preview | None = None
    tool: Tool | None = field(default=None, repr=False)
    metadata: Mapping[str, Any] = field(factory=_nothing, repr=False)
    user: str | None = None
    session: str | None = None
    id: str = field(factory=new_id)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that would run, read anew each time."""
        return json.loads(self.arguments_text)

    @property
    def arguments_text(self) -> str:
        """The same as JSON text."""
        assert isinstance(self.call.arguments, str)
        return self.call.arguments

    def with_preview(self, preview: Preview | None) -> ApprovalRequest:
        """The same request, with what the call would do."""
        return attrs.evolve(self, preview=preview)

    def to_text(self) -> str:
        """The request for a person, in lines, with nothing hidden in them."""
        who = self.call.name if self.tool is None else self.tool.spec.title or self.tool.name
        lines = [
            ("", f"{who}: {self.hint}" if self.hint else who),
            ("permission: ", self.permission),
            ("for: ", ", ".join(self.patterns)),
            ("always allows: ", ", ".join(self.always)),
            ("asked because ", self.reason),
        ]
        head = "\n".join(label + visible(cut(text, MOST_LINE)) for label, text in lines if text)
        return f"{head}\n{self._body()}"

    def to_json(self) -> JsonObject:
        """All facts as JSON; what can't be said in JSON is written as text."""
        return {
            "id": self.id,
            "call": {"id": self.call.id, "name": self.call.name, "arguments": self.arguments},
            "tool": None if self.tool is None else _tool_json(self.tool),
            "permission": self.permission,
            "patterns": list(self.patterns),
            "always": list(self.always),
            "reason": self.reason,
            "subject": self.subject,
            "hint": self.hint,
            "payload": json_or_text(self.payload),
            "preview": preview_json(self.preview),
            "metadata": self._metadata(),
            "user": self.user,
            "session": self.session,
            "digest": self.digest,
        }

    def _body(self) -> str:
        """What the call would do, or else its arguments; and what the tool says beside it."""
        if self.preview is not None:
            shown = "\n".join(filter(None, (self.preview.summary, self.preview.details)))
        elif self.payload is not None:
            shown = _pretty(self.payload)
        else:
            shown = _pretty(self.arguments)
        return f"{shown}\n{_pretty(self._metadata())}" if self.metadata else shown

    def _metadata(self) -> JsonObject:
        return {str(name): json_or_text(value) for name, value in self.metadata.items()}


def _pretty(data: JsonObject) -> str:
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return visible(cut(text, MOST_ARGUMENTS), newlines=True)


def preview_json(preview: Preview | None) -> JsonObject | None:
    """`{"summary", "details"}`, or `None`."""
    return None if preview is None else {"summary": preview.summary, "details": preview.details}


def json_or_text(value: Any) -> Any:
    """The value where it is JSON, else a short text of it."""
    return value if not json_faults(value) else _text_of(value)


def _text_of(value: object) -> str:
    try:
        return repr(value)[:MOST_LINE]
    except Exception:  # noqa: BLE001  a value of a tool's that can't even be written out
        return f"a {type(value).__name__}"


def _tool_json(tool: Tool) -> JsonObject:
    spec = tool.spec
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "origin": str(tool.origin),
        "digest": spec.digest,
    }
