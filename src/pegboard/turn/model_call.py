"""One call of the model within a turn: its callbacks, stream, retries and errors, and the calls that start early."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from pegboard.callbacks import maybe_await
from pegboard.dispatch.batch import Batch
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, policy_of
from pegboard.dispatch.run import retry
from pegboard.errors import ModelError, log_failure
from pegboard.messages import CallPart, Delta, Message, ModelResponse, ReasoningDelta, TextDelta
from pegboard.request.model_request import Model, ModelRequest, StreamingModel
from pegboard.tools.call import ToolCall, arguments_object
from pegboard.tools.context import ReadonlyContext
from pegboard.turn.events import EventSink, ModelRetried
from pegboard.turn.history import TurnProgress, calls_of
from pegboard.turn.options import StartEarly, TurnLimits, TurnOutput

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry


@define(eq=False)
class ModelCaller:
    """Calls a model with its callbacks: before -> wrap(the model) -> on an error: on_error -> after.

    Each `before_model` callback may change the request, or answer it, which skips the rest; each `after_model` callback
    gets the answer of the one before it.
    """

    model: Model
    registry: ToolRegistry
    limits: TurnLimits
    events: EventSink  # get the pieces of streamed answers, and retries
    streams: bool = False  # whether answers are streamed, if the model can
    on_partial: Callable[[ModelResponse], Awaitable[None]] | None = None  # gets partial responses of a stream
    words: list[str] = field(factory=list[str], init=False)  # the text received so far of the current answer
    shown: bool = field(default=False, init=False)  # whether more than reasoning was emitted: then there is no retry

    async def ask(self, request: ModelRequest, context: ReadonlyContext) -> ModelResponse:
        """The answer to a request; raises the model's or a callback's error, if no `on_model_error` recovers."""
        self._forget()
        response = error = None
        try:
            chain = await self.registry.chain("before_model", ModelRequest, ModelResponse)
            for link in chain:
                answer = await chain.ask(link, context, request)
                if isinstance(answer, ModelResponse):
                    response = answer
                    break
                request = answer or request
            if response is None:
                chain = await self.registry.chain("wrap_model", ModelResponse)
                response = await chain.around_all(partial(self._retry, request), context, request)
        except Exception as raised:
            error, chain = raised, await self.registry.chain("on_model_error", ModelResponse)
            response = await chain.first_answer(context, request, error)
            if response is None:
                raise
        chain = await self.registry.chain("after_model", ModelResponse)
        for link in chain:
            response = await chain.ask(link, context, request, response, error) or response
        return response

    def _forget(self) -> None:
        self.words.clear()
        self.shown = False

    async def _retry(self, request: ModelRequest) -> Any:
        def emit(attempt: int, error: BaseException, pause: float) -> None:
            self.events.emit(ModelRetried(attempt, pause, str(error)))

        return await retry(partial(self._respond, request), self.limits.retries, self._may_retry, on_retry=emit)

    def _may_retry(self, error: BaseException) -> bool:
        if not isinstance(error, ModelError) or not error.retryable or self.shown:
            return False
        longest = self.limits.longest_pause
        return longest is None or error.retry_after is None or error.retry_after <= longest

    async def _respond(self, request: ModelRequest) -> ModelResponse:
        """The model's own answer; whatever it raises is a `ModelError`."""
        model = self.model
        try:
            if self.streams and isinstance(model, StreamingModel):
                return await self._stream(model.stream(request))
            return self._check(await maybe_await(model.respond(request)))
        except ModelError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  a vendor's client may raise anything
            text, code = f"{type(error).__name__}: {error}", type(error).__name__
            raise ModelError(text, provider=model.provider, code=code) from error.__cause__

    async def _stream(self, pieces: AsyncIterator[Delta | ModelResponse]) -> ModelResponse:
        self._forget()
        response: ModelResponse | None = None
        try:
            async for piece in pieces:
                if isinstance(piece, Delta):
                    self.shown = self.shown or not isinstance(piece, ReasoningDelta)
                    self.words += [piece.text] if isinstance(piece, TextDelta) else []
                    await self.events.emit_delta(piece)
                elif not getattr(piece, "partial", False):
                    response = self._check(piece)
                elif self.on_partial is not None and response is None:
                    self.shown = True
                    await self.on_partial(piece)
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        if response is None:
            raise ModelError("the stream ended without a response", provider=self.model.provider)
        return response

    def _check(self, response: object) -> ModelResponse:
        if not isinstance(response, ModelResponse):
            wrong = f"returned {type(response).__name__}; it must return a ModelResponse"
        elif response.message.role != "assistant":
            wrong = f"returned a message of role {response.message.role!r}; it must be 'assistant'"
        elif response.partial:
            wrong = "returned a partial response as its answer"
        else:
            return response
        raise ModelError(f"model {self.model.name!r} {wrong}", provider=self.model.provider)


@define(eq=False)
class EarlyCalls:
    """Calls of a streamed answer that start before its end; they join the answer's batch, or are dropped."""

    chosen: StartEarly  # the option of the turn
    caller: ModelCaller
    context: ReadonlyContext
    progress: TurnProgress
    output: TurnOutput | None  # its tool never starts early
    make_batch: Callable[[Sequence[ToolCall], ModelRequest, str | None], Awaitable[Batch]]  # with the answer's id
    batch: Batch | None = field(default=None, init=False)  # those that have started, until they join or are dropped
    _answer: Message = field(default=Message("assistant"), init=False)

    async def start(self, request: ModelRequest, answer: ModelResponse) -> None:
        """Starts the complete calls of the answer so far, up to the first that has to wait for its end."""
        self._answer = message = self.progress.with_own_ids(answer.message)
        if self.batch is None:
            self.batch = await self.make_batch((), request, message.id or answer.id)
        self.batch.start_early(calls_of(message), partial(self._may_start, request, self.batch))

    def _may_start(self, request: ModelRequest, batch: Batch, call: ToolCall) -> bool:
        tool = None if request.tools is None else request.tools.get(call.name)
        most, own = self.caller.limits.calls, None if self.output is None else self.output.tool
        if tool is None or tool is own or call.invalid or tool.handler is None or tool.spec.long_running:
            return False
        if most is not None and self.progress.calls + len(batch.started_early) >= most:
            return False
        if not callable(self.chosen):
            return policy_of(DEFAULT_PERMISSIONS, tool).only_reads(arguments_object(call), self.context)
        try:
            return bool(self.chosen(call, tool))
        except (Exception, SystemExit) as error:  # noqa: BLE001  the host's own
            log_failure("start_early", error)
            return False

    def join(self, calls: Sequence[ToolCall]) -> Batch | None:
        """The batch of the complete answer, with all its calls; `None` if none has started."""
        batch, self.batch = self.batch, None
        if batch is not None:
            batch.add(calls)
        return batch

    async def drop(self, response: ModelResponse | None = None) -> bool:
        """Ends the started calls that the answer doesn't contain; `None`: it broke off.

        They go into the history before it, in an incomplete answer, with all that was received if there is no other.
        Returns whether there were any.
        """
        if self.batch is None:
            return False
        broke_off = response is None
        dropped = await self.batch.keep(() if broke_off else response.calls)
        if not self.batch.started_early:
            self.batch = None
        if dropped is None:
            return False
        ids = {call.id for call in dropped.calls}
        parts: list[Any] = [
            part
            for part in self._answer.parts
            if (part.call.id in ids if isinstance(part, CallPart) and not part.call.provider_executed else broke_off)
        ]
        if broke_off and (rest := "".join(self.caller.words)[len(self._answer.text) :]):
            parts.append(rest)
        answer = self.progress.take_answer(ModelResponse(parts, complete=False, interrupted=True))
        self.caller.events.emit_messages(answer, self.progress.take_results(dropped))
        return True
