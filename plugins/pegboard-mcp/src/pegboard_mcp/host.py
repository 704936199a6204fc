"""What a server asks of the host while a call of it runs: a person's answer, by the approver, or a model's."""

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
from pegboard.schema.json import json_text
from pegboard.schema.validator import validator_of
from pegboard.tools.content import read_content
from pegboard.tools.visible import visible
from pegboard.typing import JsonMapping, JsonObject

T = TypeVar("T")

PERMISSION: Final = "mcp_sampling"
"""What a server needs to use the host's model; the pattern is the server's name."""

MOST_ASKED: Final = 20_000
"""Characters of what a person is asked, and of the form beside it."""

_STOPPED: Final = {"length": "maxTokens", "stop": "endTurn"}


@define(eq=False)
class Running:
    """A call that runs, and the loop that it runs in; other threads reach its context by these.

    Attributes:
        context: The call's.
    """

    context: ToolContext
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)

    def tell(self, function: Callable[..., None], *arguments: Any, **keywords: Any) -> None:
        """Calls a method of the context."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(partial(function, *arguments, **keywords))

    async def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))


class Host:
    """Answers what a server asks, by the context of the call of it that was begun last.

    Args:
        server: The server's name.
        running: Gives that call, or `None`.
    """

    def __init__(self, server: str, running: Callable[[], Running | None]) -> None:
        self._server = server
        self._running = running
        self._log = operator_log().getChild(f"mcp.{server}")

    async def elicit(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """The user's answer to a question, or to a form; whatever isn't clearly a yes is none."""
        running = self._running()
        if running is None:
            return ErrorData(code=INVALID_REQUEST, message="no call is running that it could be asked for")
        try:
            return await running.ask(self._elicited(params, running.context))
        except Exception as error:  # noqa: BLE001  a refusal, or an answer that comes later, is none for the server
            self._log.info("a question wasn't answered: %s", cause_of(error))
            return ElicitResult(action="cancel")

    async def _elicited(self, params: ElicitRequestParams, context: ToolContext) -> ElicitResult:
        is_form = isinstance(params, ElicitRequestFormParams)
        words = params.message if is_form else f"{params.message}\n\nIt wants you to open {params.url}"
        schema = json_text(params.requested_schema) if is_form else None
        if not is_form and not params.url.startswith(("https://", "http://")):
            raise ValueError("what it wants opened is no page of the web")
        if len(words) > MOST_ASKED or len(schema or "") > MOST_ASKED:
            raise ValueError("it is too long to be asked")
        hint = f"The MCP server {self._server!r} asks: {visible(words, newlines=True)}"
        payload = None if schema is None else {"form": json.loads(schema)}
        answer = await context.request_confirmation(hint, payload)
        if not answer.confirmed:
            return ElicitResult(action="decline")
        if schema is None:
            return ElicitResult(action="accept")
        content: Any = _defaults(json.loads(schema)) if answer.payload == payload else answer.payload
        if not isinstance(content, dict):
            raise ValueError("the answer is no object")  # noqa: TRY004  as below
        if problems := validator_of(schema).problems(cast("dict[str, Any]", content)):
            raise ValueError(f"the answer doesn't fit the form: {problems[0]}")
        return ElicitResult(action="accept", content=cast("dict[str, Any]", content))

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """The answer of the host's model, where the rules or a person allow it."""
        running = self._running()
        if running is None:
            return ErrorData(code=INVALID_REQUEST, message="no call is running that it could be asked for")
        try:
            return await running.ask(self._sampled(params, running.context))
        except Exception as error:  # noqa: BLE001  whatever it is, the server learns that there is no answer
            self._log.warning("a model wasn't asked: %s", cause_of(error))
            return ErrorData(code=INTERNAL_ERROR, message="the client's model gave no answer")

    async def _sampled(self, params: CreateMessageRequestParams, context: ToolContext) -> CreateMessageResult:
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
    """The host's model; behind `registry serve`, where the host has none, that of the client that makes the call."""
    if not context.provides(Model):
        from pegboard_mcp.serving.sampling import ClientModel  # few servers ask for a model

        with suppress(ModelError):
            return ClientModel.of(context)
    return await context.use(Model)


def _defaults(form: JsonMapping) -> JsonObject:
    """What the fields of a form hold that are left as they are."""
    return {name: field["default"] for name, field in form.get("properties", {}).items() if "default" in field}


def _message(sent: SamplingMessage) -> Message:
    """A server's message; only words, pictures and sounds are taken."""
    contents = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in sent.content_as_list]
    parts = [read_content(each) for each in contents]
    return Message.user(*parts) if sent.role == "user" else Message.assistant(*parts)
