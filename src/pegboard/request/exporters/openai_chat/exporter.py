"""`OpenAIChat`: chat completions, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from pegboard.messages.response import ModelResponse
from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.calls.made_calls import strict_schemas
from pegboard.request.exporters.openai.limits import CHAT, Limits
from pegboard.request.exporters.openai_chat.answer import ChatAnswers
from pegboard.request.exporters.openai_chat.body import chat_body
from pegboard.request.exporters.openai_chat.messages import ChatStyle
from pegboard.request.exporters.openai_chat.reader import ChatReader
from pegboard.request.exporters.openai_chat.tools import FAMILY, ChatWriter, listed
from pegboard.request.exporters.written import WrittenTools
from pegboard.request.loss import Loss
from pegboard.request.model_request import ModelRequest
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject


@define(eq=False, kw_only=True)
class OpenAIChat:
    """Writes requests for OpenAI's chat completions, and for the many servers that speak as they do.

    Options of tools and requests stand under `"openai"` and, stronger, under its own name. There its own facts of calls
    and parts stand too: one with another name, for another server, keeps apart what is whose. The request's option
    `allowed_tools` (names) leaves the list as it is and lets the model choose among these; all other options go into
    the body as they are.

    Attributes:
        name: What it is found by.
        limits: What the provider takes.
        custom_tools: Whether it knows tools that take free text; where not, they become functions.
        system_role: Who gives the instructions: `"system"`, or `"developer"`.
        reasoning: The member in which a server wants the model's reasoning back (`"reasoning_content"`), or `None`.
        most_tokens: The member that limits an answer's length; other servers call it `"max_tokens"`.
    """

    name: str = "openai"
    limits: Limits = CHAT
    custom_tools: bool = True
    system_role: str = "system"
    reasoning: str | None = None
    most_tokens: str = "max_completion_tokens"
    _written: WrittenTools = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._written = WrittenTools(ChatWriter(self.limits, self.custom_tools, (FAMILY, self.name)))

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The list of these tools: functions and custom tools; tools that providers host are refused."""
        return listed(self._written, specs, strict, self.limits.tools).exported

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        return self._written.one(spec, strict).losses

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of `POST /chat/completions`, without `stream`.

        Raises:
            ExportError: The tool choice names a tool that isn't in the list, or wants a call where there is none.
        """
        specs = [tool.spec for tool in request.offered]
        tools = listed(self._written, specs, request.config.strict, self.limits.tools)
        style = ChatStyle(self.name, self.limits, self.system_role, self.reasoning)
        return chat_body(request, tools, style, self.most_tokens)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """A `chat.completion`, read; of several choices the first.

        Raises:
            ModelError: It is no chat completion, or the provider's error.
        """
        return self._answers(request).read(raw)

    def reader(self, request: ModelRequest | None = None) -> ChatReader:
        """What reads a stream of `chat.completion.chunk`s."""
        return ChatReader(self._answers(request))

    def _answers(self, request: ModelRequest | None) -> ChatAnswers:
        return ChatAnswers(self.name, strict_schemas(request), self.limits)


__all__ = ["OpenAIChat"]
