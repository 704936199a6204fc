"""A response, read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.messages.message import CallPart, Message, Part, TextPart
from pegboard.messages.response import FinishReason, ModelResponse
from pegboard.request.exporters.calls.made_calls import MadeCalls, StrictSchema
from pegboard.request.exporters.openai.counts import read_usage
from pegboard.request.exporters.openai.failure import failure, no_answer
from pegboard.request.exporters.openai.limits import RESPONSES, Limits
from pegboard.request.exporters.openai_responses.items import Items, ToolOfType, sources
from pegboard.request.exporters.untrusted import known_text, object_in, object_or_none, objects_in, own, text_in
from pegboard.typing import JsonMapping, JsonObject

_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_RUNNING: Final = frozenset({"queued", "in_progress"})
_NOTED: Final = ("service_tier", "previous_response_id")


@frozen
class ResponsesAnswers:
    """Reads responses.

    Attributes:
        key: Under which the provider's own facts are kept; also for errors.
        strict: Gives the schemas of the tools that were to be strict.
        tool_of_type: Finds the tools that OpenAI defines and the host runs.
        limits: How much is read.
    """

    key: str
    strict: StrictSchema
    tool_of_type: ToolOfType
    limits: Limits = RESPONSES

    def read(self, raw: object) -> ModelResponse:
        """The answer. One that has only begun (in the background) is partial.

        Raises:
            ModelError: It is no response, or the provider's error.
        """
        body = object_or_none(raw)
        if body is None:
            raise no_answer(f"an object was expected, got {type(raw).__name__}", self.key)
        status = text_in(body, "status")
        if status == "failed" or (body.get("error") and not isinstance(body.get("output"), list)):
            raise failure(body.get("error"), self.key)
        if not isinstance(body.get("output"), list):
            raise no_answer("it has no output", self.key)
        return self.answer(body)

    def answer(self, body: JsonMapping, *, whole: bool = True) -> ModelResponse:
        """The answer of a body that has been looked at.

        Args:
            body: With a list as its output.
            whole: Whether it came to its end.
        """
        items = objects_in(body, "output")
        unread: list[str] = []
        calls = MadeCalls(self.key, self.strict, most=self.limits.argument_text)
        parts = Items(self.key, calls, self.tool_of_type, unread, whole).read(items)
        status = text_in(body, "status") or "completed"
        found = sources(items)
        return ModelResponse(
            Message("assistant", parts),
            self._finish(body, status, parts),
            read_usage(object_in(body, "usage"), "input", "output"),
            known_text(body, "model"),
            known_text(body, "id"),
            partial=status in _RUNNING,
            complete=status == "completed",
            interrupted=status == "cancelled",
            grounding={"sources": found} if found else {},
            custom_metadata=_noted(body, unread),
        )

    def _finish(self, body: JsonMapping, status: str, parts: tuple[Part, ...]) -> FinishReason:
        if status != "completed":
            return _INCOMPLETE.get(text_in(object_in(body, "incomplete_details"), "reason"), "other")
        if any(isinstance(part, CallPart) for part in parts):
            return "tool_calls"
        texts = (part for part in parts if isinstance(part, TextPart))
        refused = any(own(text.provider_metadata, self.key).get("refusal") is True for text in texts)
        return "refusal" if refused else "stop"


def _noted(body: JsonMapping, unread: list[str]) -> JsonObject:
    noted: dict[str, Any] = {name: body[name] for name in _NOTED if known_text(body, name)}
    if reason := known_text(object_in(body, "incomplete_details"), "reason"):
        noted["incomplete"] = reason
    if unread:
        noted["unread_items"] = unread
    return noted


__all__ = ["ResponsesAnswers"]
