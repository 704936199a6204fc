"""Model adapter for the client that calls a tool, by MCP's sampling."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    SamplingMessage,
    Tool,
    ToolChoice,
)
from pydantic import BaseModel, ValidationError

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    ModelRequest,
    NamedTool,
    ReadonlyContext,
    ToolCall,
    ToolContext,
)
from pegboard.errors import ModelError
from pegboard.messages import CallPart, FinishReason, MediaPart, Message, ModelResponse, ResultPart, TextPart
from pegboard.typing import JsonObject
from pegboard_clients.listing import mcp
from pegboard_mcp.serving.asking import Asker
from pegboard_mcp.serving.sessions import CLIENT

MOST_TOKENS: Final = 4_096
"""The default of an answer."""

_REASONS: Final[Mapping[str, FinishReason]] = {
    "endTurn": "stop",
    "stopSequence": "stop",
    "maxTokens": "length",
    "toolUse": "tool_calls",
}


class ClientModel:
    """The model of the client that calls a tool; the client's user may see and change the request.

    The client needs the capability `sampling`; for tools, `sampling.tools`. Unsupported parts are left out: citations,
    reasoning, the provider's own parts, and of the configuration all but the temperature, the stop sequences and the
    number of tokens.

    Attributes:
        name: `"client"`: the actual model is only known from an answer.
        provider: `"mcp"`.

    Args:
        asker: Sends requests to the client.
    """

    name: str = "client"
    provider: str = "mcp"

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    @classmethod
    def of(cls, context: ToolContext | ReadonlyContext) -> ClientModel:
        """The model of the client that made the call with this context.

        Raises:
            ModelError: The call wasn't made by an MCP client, or the client doesn't support sampling.
        """
        asker: Asker | None = context.extra.get(CLIENT)
        if asker is None:
            raise ModelError("this call wasn't made by an MCP client", provider=cls.provider)
        capabilities = asker.request.session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            raise ModelError("the client doesn't let tools use its model", provider=cls.provider)
        return cls(asker)

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The answer of the client's model.

        Raises:
            ModelError: The client or its user refuses, or doesn't support tools or some content of the messages.
        """
        capabilities = self._asker.request.session.client_capabilities
        sampling = None if capabilities is None else capabilities.sampling
        asked = _params(request)
        if asked.tools is not None and (sampling is None or sampling.tools is None):
            raise ModelError("the client's model takes no tools", provider=self.provider)
        kind = CreateMessageResult if asked.tools is None else CreateMessageResultWithTools
        try:
            answer = await self._asker.ask(CreateMessageRequest(params=asked), kind)
        except MCPError as error:
            raise ModelError(error.error.message, provider=self.provider, code=str(error.error.code)) from error
        except ValidationError as error:
            raise ModelError(f"the client's answer is invalid: {error}", provider=self.provider) from error
        return _response(answer)


def _params(request: ModelRequest) -> CreateMessageRequestParams:
    """The request in the protocol's form."""
    config, choice, offered = request.config, request.tool_choice, request.offered
    if isinstance(choice, NamedTool):  # which the protocol can't express
        offered, choice = tuple(tool for tool in offered if tool.name == choice.name), "required"
    entries = mcp().tools([tool.spec for tool in offered]).entries
    return CreateMessageRequestParams(
        messages=[made for message in request.messages if (made := _message(message)) is not None],
        max_tokens=config.max_output_tokens or MOST_TOKENS,
        system_prompt=request.system or None,
        temperature=config.temperature,
        stop_sequences=list(config.stop) or None,
        tools=[Tool.model_validate(entry, by_name=False) for entry in entries] or None,
        tool_choice=ToolChoice(mode=choice) if entries else None,
    )


def _message(message: Message) -> SamplingMessage | None:
    """A message in the protocol's form, of the user or the assistant; `None` if nothing is left of it."""
    content = [block for part in message.parts for block in _blocks(part)]
    role = "assistant" if message.role == "assistant" else "user"
    return SamplingMessage.model_validate({"role": role, "content": content}, by_name=False) if content else None


def _blocks(part: Any) -> Iterable[JsonObject]:
    if isinstance(part, TextPart) and part.text:
        yield {"type": "text", "text": part.text}
    elif isinstance(part, MediaPart):
        content = part.content
        if isinstance(content, FileContent) and isinstance(content.data, str):
            yield {"type": "text", "text": content.data}
        elif isinstance(content, ImageContent | AudioContent):
            yield content.to_json()
        else:
            raise ModelError(f"the client's model takes no {type(content).__name__}", provider=ClientModel.provider)
    elif isinstance(part, CallPart):
        call = part.call
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call)}
    elif isinstance(part, ResultPart):
        result = part.result.to_json()
        if not isinstance(part.result.structured_content, dict):
            result.pop("structuredContent", None)
        yield {"type": "tool_result", "toolUseId": part.call_id, **result}


def _arguments(call: ToolCall) -> JsonObject:
    """A call's arguments as an object; an invalid text becomes its member `input`."""
    if isinstance(call.arguments, Mapping):
        return dict(call.arguments)
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError:
        given = None
    return cast("JsonObject", given) if isinstance(given, dict) else {"input": str(call.arguments)}


def _response(answer: CreateMessageResult | CreateMessageResultWithTools) -> ModelResponse:
    content: Any = answer.content
    blocks = cast("list[BaseModel]", content if isinstance(content, list) else [content])
    parts: list[Any] = []
    for block in blocks:
        data = block.model_dump(by_alias=True, mode="json", exclude_none=True)
        if data["type"] == "tool_use":
            parts.append(ToolCall(data["name"], data["input"], id=data["id"]))
        elif data["type"] == "text":
            parts.append(data["text"])
        elif data["type"] in _MEDIA:
            parts.append(_MEDIA[data["type"]](_decode(data["data"]), data["mimeType"]))
    message = Message.assistant(*parts)
    reason = "tool_calls" if message.calls else _REASONS.get(answer.stop_reason or "endTurn", "stop")
    return ModelResponse(message, reason, model=answer.model)


_MEDIA: Final[Mapping[str, Any]] = {"image": ImageContent, "audio": AudioContent}


def _decode(data: str) -> bytes:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        raise ModelError("the client's model answered with damaged data", provider=ClientModel.provider) from None
