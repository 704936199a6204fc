"""Elicitation and sampling for servers: their requests during a call, answered by the approver or the host's model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

from attrs import define, field
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    SamplingMessage,
    TextContent,
)

from pegboard import Message, Model, ModelConfig, ModelRequest, ToolContext
from pegboard.errors import ModelError, cause_of, operator_log
from pegboard.json import json_text
from pegboard.schema import validator_of
from pegboard.text import visible
from pegboard.tools import read_content
from pegboard.typing import JsonMapping, JsonObject

T = TypeVar("T")

PERMISSION: Final = "mcp_sampling"
"""The permission that a server needs to use the host's model; the pattern is the server's name."""

MOST_ASKED: Final = 20_000
"""Characters of a question to the user, and of its form."""

_STOPPED: Final = {"length": "maxTokens", "stop": "endTurn"}


@define(eq=False)
class Running:
    """A running call with its event loop, for access to its context from other threads.

    Attributes:
        context: The call's context.
    """

    context: ToolContext
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)

    def tell(self, function: Callable[..., None], *arguments: Any, **keywords: Any) -> None:
        """Calls a method of the context."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(partial(function, *arguments, **keywords))

    async def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the call's event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))


class Host:
    """Handler of a server's requests, in the context of its latest call.

    Args:
        server: The server's name.
        running: Gives that call, or `None`.
    """

    def __init__(self, server: str, running: Callable[[], Running | None]) -> None:
        self._server = server
        self._running = running
        self._log = operator_log().getChild(f"mcp.{server}")

    async def elicit(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """The user's answer to a question or a form; anything but a clear, valid yes is a refusal or a cancellation."""
        running = self._running()
        if running is None:
            return ErrorData(code=INVALID_REQUEST, message="no call of a tool is running that needs this")
        try:
            return await running.ask(self._elicit(params, running.context))
        except Exception as error:  # noqa: BLE001  a refusal or a pending approval, too
            self._log.info("a question wasn't answered: %s", cause_of(error))
            return ElicitResult(action="cancel")

    async def _elicit(self, params: ElicitRequestParams, context: ToolContext) -> ElicitResult:
        is_form = isinstance(params, ElicitRequestFormParams)
        words = params.message if is_form else f"{params.message}\n\nOpen this address: {params.url}"
        schema = json_text(params.requested_schema) if is_form else None
        if not is_form and not params.url.startswith(("https://", "http://")):
            raise ValueError("the address to open isn't a web page")
        if len(words) > MOST_ASKED or len(schema or "") > MOST_ASKED:
            raise ValueError("the question is too long")
        hint = f"The MCP server {self._server!r} asks: {visible(words, newlines=True)}"
        payload = None if schema is None else {"form": json.loads(schema)}
        answer = await context.request_confirmation(hint, payload)
        if not answer.confirmed:
            return ElicitResult(action="decline")
        if schema is None:
            return ElicitResult(action="accept")
        # An approver that only says yes returns the form itself: then its defaults are the answer.
        content: Any = _defaults(json.loads(schema)) if answer.payload == payload else answer.payload
        if not isinstance(content, dict):
            raise ValueError("the answer isn't an object")  # noqa: TRY004  as below
        if problems := validator_of(schema).problems(cast("dict[str, Any]", content)):
            raise ValueError(f"the answer doesn't fit the form: {problems[0]}")
        return ElicitResult(action="accept", content=cast("dict[str, Any]", content))

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """The answer of the host's model, if the rules or the user allow it."""
        running = self._running()
        if running is None:
            return ErrorData(code=INVALID_REQUEST, message="no call of a tool is running that needs this")
        try:
            return await running.ask(self._sample(params, running.context))
        except Exception as error:  # noqa: BLE001  the server gets no details
            self._log.warning("a model wasn't asked: %s", cause_of(error))
            return ErrorData(code=INTERNAL_ERROR, message="the client's model gave no answer")

    async def _sample(self, params: CreateMessageRequestParams, context: ToolContext) -> CreateMessageResult:
        words = [getattr(block, "text", block.type) for each in params.messages for block in each.content_as_list]
        shown = "\n".join([params.system_prompt or "", *words])[:MOST_ASKED]
        await context.ask(PERMISSION, (self._server,), metadata={"asks": visible(shown, newlines=True)})
        model = await _model_for(context)
        request = ModelRequest(
            [_message(each) for each in params.messages],
            instructions=params.system_prompt or (),
            config=ModelConfig(
                max_output_tokens=params.max_tokens,
                temperature=params.temperature,
                stop=tuple(params.stop_sequences or ()),
            ),
        )
        answer = await model.respond(request)
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=answer.text),
            model=answer.model or model.name,
            stop_reason=_STOPPED.get(answer.finish_reason, answer.finish_reason),
        )


async def _model_for(context: ToolContext) -> Model:
    """The host's model; if it has none, under `registry serve`, the model of the client that makes the call."""
    if not context.provides(Model):
        from pegboard_mcp.serving.sampling import ClientModel  # few servers ask for a model

        with suppress(ModelError):
            return ClientModel.of(context)
    return await context.use(Model)


def _defaults(form: JsonMapping) -> JsonObject:
    """The default values of a form's fields."""
    return {name: field["default"] for name, field in form.get("properties", {}).items() if "default" in field}


def _message(sent: SamplingMessage) -> Message:
    """A server's message; only text, images and audio are accepted."""
    contents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in sent.content_as_list]
    parts = [read_content(each) for each in contents]
    return Message.user(*parts) if sent.role == "user" else Message.assistant(*parts)
