"""`Turn`, the agent loop: request, model, calls, again; and `run_turn`, `stream_turn`, `resume_turn`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import attrs
from attrs import define, field

from pegboard.callbacks import maybe_await
from pegboard.dispatch.approval.pending import Answers
from pegboard.dispatch.batch import Batch, BatchOptions, Outcome, events_of
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, policy_of
from pegboard.errors import CallbackError, ModelError, PegboardError, TurnAbortedError, cause_of, checked, log_failure
from pegboard.messages import CallPart, Message, ModelResponse
from pegboard.registry import ToolRegistry
from pegboard.request.exporter import Exporter
from pegboard.request.model_request import Model, ModelRequest, ProcessorProblem, ToolChoice
from pegboard.tools.call import ToolCall
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.turn.events import (
    Answered,
    EventQueue,
    EventSink,
    MessageAdded,
    ModelRetried,
    RoundStarted,
    TurnEnded,
    TurnEvent,
    TurnOutcome,
)
from pegboard.turn.history import End, TurnProgress, calls_of, end_by_answer, end_by_results
from pegboard.turn.model_call import ModelCaller, first_answer_of
from pegboard.turn.options import (
    DEFAULT_TURN_LIMITS,
    Inbox,
    StartEarly,
    Steering,
    StopCondition,
    TurnLimits,
    TurnOptions,
    TurnOutput,
    split_options,
)
from pegboard.wire.bodies import arguments_object

if TYPE_CHECKING:
    from typing import Unpack

    from pegboard.toolsets.predicates import Where
    from pegboard.toolsets.resolve import OnToolsetError, ResolvedTools


_NOTHING: Final[Mapping[str, Any]] = {}


@define(eq=False, kw_only=True)
class Turn:
    """A running turn. Made by `turn_of` and `resumed_turn_of`; runs once.

    The other attributes are the options of the same names.

    Attributes:
        model: The model.
        request: The first request. If it has `tools`, every round offers these; otherwise each round resolves them.
        registry: Has the tools, callbacks and processors.
        context: The user and session.
        batch: Options of its batches of calls.
        suspended: The outcome to resume from, with the approvals and the host's results; or `None`.
    """

    model: Model
    request: ModelRequest
    registry: ToolRegistry
    context: ReadonlyContext
    limits: TurnLimits = DEFAULT_TURN_LIMITS
    where: Where = None
    active: Sequence[str] | None = None
    stop_when: Sequence[StopCondition] = ()
    on_toolset_error: OnToolsetError = "skip"
    first_choice: ToolChoice | None = None
    output_type: Any = None
    start_early: StartEarly = False
    steering: Steering | None = None
    listener: Callable[[TurnEvent], None] | None = None
    batch: BatchOptions = field(factory=BatchOptions)
    suspended: tuple[TurnOutcome, Answers, Mapping[str, Any]] | None = None

    _progress: TurnProgress = field(init=False)
    _events: EventSink = field(init=False)
    _inbox: Inbox = field(init=False)
    _caller: ModelCaller = field(init=False)
    _asking: asyncio.Task[ModelResponse] | None = field(default=None, init=False)
    _running: Batch | None = field(default=None, init=False)
    _early: Batch | None = field(default=None, init=False)
    _partial: Message = field(default=Message("assistant"), init=False)
    _continued: int = field(default=0, init=False)
    _interrupted: str | None = field(default=None, init=False)
    _ended: End | None = field(default=None, init=False)
    _error: BaseException | None = field(default=None, init=False)
    _outcome: TurnOutcome | None = field(default=None, init=False)
    _begun: bool = field(default=False, init=False)
    _output: TurnOutput | None = field(default=None, init=False)
    _sums_up: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        before = None if self.suspended is None else self.suspended[0]
        invocation = self.context.invocation or (before and before.invocation) or f"turn_{uuid4().hex}"
        values = {} if self.context.values is None else self.context.values
        self.context = attrs.evolve(self.context, invocation=invocation, values=values)
        self._events = EventSink(self.listener)
        self._output = None if self.output_type is None else TurnOutput(self.output_type)
        self._inbox = Inbox(self.steering)
        if before is None:
            self._progress = TurnProgress.at_the_start(self.request.messages, self.context)
        else:
            self._progress = TurnProgress.after(before, self.context)

    # Public ------------------------------------------------------------------------------------------------------

    @property
    def outcome(self) -> TurnOutcome | None:
        """The outcome; `None` until the turn has ended. It is set even if `run` raised or was cancelled."""
        return self._outcome

    async def run(self) -> TurnOutcome:
        """Runs the turn to its end. Exceptions are raised once every call has its result; see `run_turn`.

        Raises:
            RuntimeError: It has been run already.
        """
        if self._begun:
            raise RuntimeError("this turn has been run already; make another with turn_of(...)")
        self._begun = True
        try:
            await self._run()
        except asyncio.CancelledError:
            self._end("cancelled", None)
            raise
        except Exception as error:  # noqa: BLE001  raised again below, once the history is complete
            self._end("failed", str(error))
            self._error = error
        finally:
            await self._finish()
        assert self._outcome is not None
        if self._error is not None:
            if isinstance(self._error, PegboardError):
                self._error.outcome = self._outcome
            raise self._error
        return self._outcome

    def events(self) -> AsyncGenerator[TurnEvent]:
        """Runs the turn and yields its events, with streamed answers; closing the generator cancels the turn.

        Raises:
            BaseException: As `run`, after the last event.
        """
        queue = self._events.reader = EventQueue()
        return events_of(self.run, queue)

    def steer(self, *messages: Message | str) -> None:
        """Adds messages of the user to a running turn; they are sent with the next request.

        Calls that have not begun are skipped, unless `on_steering` is set otherwise.
        """
        self._inbox.put(messages, "steer")
        if self._running is not None:
            self._running.interrupt("interrupted", self.batch.get("on_steering", "skip"))

    def interrupt(self, reason: str = "interrupted") -> None:
        """Ends the turn now: cancels the model, adds its text so far to the history, and aborts running calls."""
        self._interrupted = self._interrupted or reason
        if self._running is not None:
            self._running.interrupt(reason, "abort")
        if self._asking is not None:
            self._asking.cancel()

    # The loop ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self.limits.seconds is not None:
            self._progress.deadline = time.monotonic() + self.limits.seconds
        events = self._events
        self._caller = ModelCaller(
            self.model,
            self.registry,
            self.limits,
            emit=None if events.reader is None and not self.start_early else events.emit_delta,
            on_retry=lambda attempt, error, pause: events.emit(ModelRetried(attempt, pause, str(error))),
        )
        if self.suspended is not None:
            await self._resume(*self.suspended)
        else:
            request = await first_answer_of(self.registry, "before_turn", (ModelRequest,), self.context, self.request)
            if request is not None:
                self.request = request
                self._progress = TurnProgress.at_the_start(request.messages, self.context)
        while self._ended is None:
            await self._round()

    async def _round(self) -> None:
        await self._asked("steering", self._inbox.listen)
        self._add_new_messages()
        if self._ended is not None or (self._is_at_a_limit() and not self._sums_up):
            return
        context = self._context_now()
        request = await self._processed(context)
        self._progress.rounds += 1
        self._events.emit(RoundStarted(self._progress.rounds, request))
        response = await self._answer(request, context)
        if response is None:
            return
        if response.calls and response.finish_reason in ("length", "content_filter"):
            response = response.evolve(complete=False)  # also if the client doesn't say so: calls may be cut off
        await self._drop_early(response)
        message = self._progress.take_answer(response)
        self._events.emit(Answered(response))
        self._events.emit(MessageAdded(message))
        if self._runs(response):
            await self._run_calls(message, request, response)
        if response.finish_reason == "error" and self._ended is None:
            wrong = response.error_message or "the provider answered with an error"
            raise ModelError(wrong, provider=self.model.provider, code=response.error_code)
        if self._sums_up and self._output is not None:
            await self._output.read(response.text)
        if not (response.calls or self._sums_up):
            end = end_by_answer(response)
            if end is not None and not (
                end[0] == "answered" and (await self._lacks_output(response) or await self._goes_on())
            ):
                self._end(*end)

    def _runs(self, response: ModelResponse) -> bool:
        """Whether the calls of an answer are run; in the final answer, only those that give the output."""
        own = None if self._output is None else self._output.tool.name
        return bool(response.calls) and (not self._sums_up or {call.name for call in response.calls} == {own})

    async def _lacks_output(self, response: ModelResponse) -> bool:
        """Whether the answer isn't of the output type; then a message to the model says so."""
        if self._output is None or not (wrong := await self._output.read(response.text)):
            return False
        self._output.miss(self.model)
        self._inbox.put(wrong, "output_type")
        return True

    def _is_at_a_limit(self) -> bool:
        """Whether a limit ends the turn; with `final_answer`, one more round without tools follows."""
        limit = self._progress.limit_reached(self.limits)
        if limit is not None:
            self._sums_up = self.limits.final_answer and self._progress.rounds == self.limits.rounds
            self._end("limit", limit)
        return limit is not None

    def _add_new_messages(self) -> None:
        """Adds new results of long-running calls, and new messages of the user, to the history."""
        progress, session = self._progress, self.context.session
        mine = progress.call_ids if session is None else None  # without a session, there are others' completions too
        for completion in self.registry.completions(session, mine):
            if (message := progress.complete(completion)) is not None:
                self._events.emit(MessageAdded(message))
            self._end_by(completion.fatal)
        for message in self._inbox.messages:
            progress.messages.append(message)
            self._events.emit(MessageAdded(message))
        self._inbox.messages = []

    async def _processed(self, context: ReadonlyContext) -> ModelRequest:
        """The request of this round, with the tools that may be offered now, after all processors."""
        first = self.first_choice if self._progress.rounds == 0 else None
        request = self.request.evolve(
            messages=self._progress.messages,
            model=self.request.model or context.model,
            tool_choice="none" if self._sums_up else first or self.request.tool_choice,
            loads_deferred=self.request.loads_deferred or getattr(self.model, "loads_deferred", False) is True,
            start_early=bool(self.start_early) and not (self._sums_up or self.batch.get("sequential")),
        )
        request = request.evolve(tools=await self._offered(context))
        if self._output is not None:
            request = self._output.asked_by(request, self.model, is_last=self._sums_up)
        return self._with_left_out(await self.registry.process(request, context))

    async def _offered(self, context: ReadonlyContext) -> ResolvedTools:
        """The request's tools, or those that may be offered now, by the permissions of registry and turn."""
        if self.request.tools is not None:
            return self.request.tools
        failing = self.on_toolset_error
        tools = await self.registry.resolve(context, where=self.where, active=self.active, on_toolset_error=failing)
        permissions = self.batch.get("permissions")
        hidden = [] if permissions is None else [tool.name for tool in tools if permissions.hides(tool)]
        return tools.without("permitted", dict.fromkeys(hidden, "the turn's permissions never let it run"))

    def _with_left_out(self, request: ModelRequest) -> ModelRequest:
        """The request with a problem for each tool that can't be sent to the provider; each is logged once."""
        exporter = getattr(self.model, "exporter", None)
        if not isinstance(exporter, Exporter) or not request.offered:
            return request
        try:
            tools_of = getattr(exporter, "tools_of", None)
            if tools_of is None:
                exported = exporter.tools([tool.spec for tool in request.offered], strict=request.config.strict)
            else:
                exported = tools_of(request.evolve(model=request.model or self.model.name))
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's exporter; the request itself will fail
            return request.with_problems(ProcessorProblem("export", cause_of(error), error=error))
        refused = {loss.tool: loss.what for loss in exported.losses if loss.refused}
        exported.warn(self.model.provider)
        causes = {name: f"isn't sent to {self.model.provider}: {what}" for name, what in refused.items()}
        return request.with_problems(*(ProcessorProblem("export", cause, tool=name) for name, cause in causes.items()))

    async def _answer(self, request: ModelRequest, context: ReadonlyContext) -> ModelResponse | None:
        """The model's answer; `None` if the turn ended before it."""
        if self._interrupted is not None:
            return self._end("interrupted", self._interrupted)
        self._caller.on_partial = partial(self._start_early, request) if request.start_early else None
        self._asking = asking = asyncio.ensure_future(self._caller.ask(request, context))
        is_late = False
        try:
            await asyncio.wait([asking], timeout=self._progress.seconds_left())
            is_late = not asking.done()
        finally:
            self._asking = None
            await self._stop_asking(asking)
        if is_late:
            return self._end("limit", f"{self.limits.seconds:g} seconds")
        if not asking.cancelled():
            return asking.result()
        if self._interrupted is not None:
            return self._end("interrupted", self._interrupted)
        raise ModelError(f"model {self.model.name!r} cancelled itself", provider=self.model.provider)

    async def _stop_asking(self, asking: asyncio.Task[ModelResponse]) -> None:
        """Cancels a running call of the model, and adds the text so far to the history."""
        if not asking.done():
            asking.cancel()
            await asyncio.wait([asking], timeout=self.registry.limits.grace)
        if not asking.done():
            log_failure(f"model {self.model.name!r}", TimeoutError("ignores its cancellation"))
        was_stopped = not asking.done() or asking.cancelled()
        if (was_stopped or asking.exception() is not None) and await self._drop_early():
            return
        if was_stopped and self._caller.words:
            words = ModelResponse("".join(self._caller.words), complete=False, interrupted=True)
            self._events.emit(MessageAdded(self._progress.take_answer(words)))

    async def _goes_on(self) -> bool:
        """Whether the user or `on_stop` adds messages, so that the turn continues after the answer."""
        if await self._asked("steering", self._inbox.listen):
            return True
        if self._continued >= self.limits.continuations:
            return False
        outcome = self._progress.outcome("answered")
        kinds = (str, Message, list, tuple)
        more = await first_answer_of(self.registry, "on_stop", kinds, self.context, outcome)
        self._inbox.put(more, "on_stop")
        self._continued += more is not None
        return bool(self._inbox.messages)

    # Calls -------------------------------------------------------------------------------------------------------

    async def _start_early(self, request: ModelRequest, answer: ModelResponse) -> None:
        """Starts the complete calls of a streamed answer, up to the first that has to wait for its end."""
        self._partial = message = self._progress.with_own_ids(answer.message)
        if self._early is None:
            self._early = self._running = await self._batch((), request, message.id or answer.id)
        self._early.start_early(calls_of(message), partial(self._may_start, request, self._early))

    def _may_start(self, request: ModelRequest, batch: Batch, call: ToolCall) -> bool:
        tool = None if request.tools is None else request.tools.get(call.name)
        most, own = self.limits.calls, None if self._output is None else self._output.tool
        if tool is None or tool is own or call.invalid or tool.handler is None or tool.spec.long_running:
            return False
        if most is not None and self._progress.calls + len(batch.early) >= most:
            return False
        if not callable(self.start_early):
            return policy_of(DEFAULT_PERMISSIONS, tool).only_reads(arguments_object(call), self.context)
        try:
            return bool(self.start_early(call, tool))
        except (Exception, SystemExit) as error:  # noqa: BLE001  the host's own
            log_failure("start_early", error)
            return False

    async def _drop_early(self, response: ModelResponse | None = None) -> bool:
        """Ends early calls that the answer doesn't contain, and adds them and their results as a message before it.

        Without an answer, the message has all that was received. Returns whether a message was added.
        """
        if self._early is None:
            return False
        dropped = await self._early.keep(() if response is None else response.calls)
        if not self._early.early:
            self._early = self._running = None
        if dropped is None:
            return False
        ids = {call.id for call in dropped.calls}
        parts: list[Any] = []
        for part in self._partial.parts:
            if isinstance(part, CallPart) and not part.call.provider_executed:
                parts += [part] if part.call.id in ids else []
            elif response is None:
                parts.append(part)
        if response is None and (rest := "".join(self._caller.words)[len(self._partial.text) :]):
            parts.append(rest)
        broken = ModelResponse(parts, complete=False, interrupted=True)
        self._events.emit(MessageAdded(self._progress.take_answer(broken)))
        self._events.emit(MessageAdded(self._progress.take_results(dropped)))
        return True

    async def _batch(self, calls: Iterable[ToolCall], request: ModelRequest, id_: str | None) -> Batch:
        context = attrs.evolve(self._context_now(), message=id_ or f"message_{uuid4().hex}")
        return await self.registry.batch(calls, request.tools, context, **self._batch_options(request))

    async def _run_calls(self, message: Message, request: ModelRequest, response: ModelResponse) -> None:
        calls = self._progress.within(calls_of(message), self.limits.calls)
        batch = self._early
        if batch is None:
            batch = await self._batch(calls, request, message.id or response.id)
        else:
            batch.add(calls)
            self._early = None
        batch.cut_off = not response.complete or response.finish_reason == "error"
        self._progress.broken += not response.complete
        await self._run_batch(batch, lambda outcome: [self._progress.take_results(outcome)])

    async def _run_batch(self, batch: Batch, take: Callable[[Outcome], list[Message]]) -> None:
        """Runs calls and adds their results, even if the caller is cancelled."""
        self._running = batch
        try:
            if self._interrupted is not None:
                batch.interrupt(self._interrupted, "abort")
            elif self._inbox.messages:
                batch.interrupt("interrupted", self.batch.get("on_steering", "skip"))
            await batch.run()
        finally:
            self._running = None
            if batch.outcome is not None:
                for message in take(batch.outcome):
                    self._events.emit(MessageAdded(message))
        assert batch.outcome is not None
        self._error = batch.outcome.fatal
        end = end_by_results(batch.outcome, self._progress.actions) or await self._end_by_host(batch.outcome)
        if end is not None:
            self._end(*end)

    def _batch_options(self, request: ModelRequest) -> BatchOptions:
        options = BatchOptions(**self.batch)
        options["instructions"] = request.system or None
        options["listener"] = self._events.emit
        if self.steering is not None:
            options["steering"] = self._inbox.listen
        if (left := self._progress.seconds_left()) is not None:
            options["timeout"] = max(min(left, options.get("timeout") or left), 0.001)
        return options

    async def _end_by_host(self, outcome: Outcome) -> End | None:
        if self._interrupted is not None:
            return "interrupted", self._interrupted
        if self._output is not None:
            if self._output.given:
                return "answered", None
            if any(call.name == self._output.tool.name for call in outcome.calls):
                self._output.miss(self.model)  # the call's result describes the fault
        if any(call.error is not None and call.error.kind == "limit" for call in outcome.calls):
            return "limit", f"{self.limits.calls} calls"
        if self._progress.broken > self.limits.retries:
            return "cut_off", f"{self._progress.broken} answers with calls were cut off, or broke off"
        for condition in self.stop_when:
            stops = await self._asked("stop_when", lambda: condition(self._progress.outcome("stopped")))  # noqa: B023  asked at once
            if stops:
                return "stopped", stops if isinstance(stops, str) else None
        return None

    async def _resume(self, before: TurnOutcome, answers: Answers, results: Mapping[str, Any]) -> None:
        """Resumes a turn whose calls waited for an approval, or for the host."""
        context, options = self._context_now(), self._batch_options(self.request)
        tools = await self._offered(context)
        tools = tools if self._output is None else tools.with_tools(self._output.tool)
        if results:
            await self._take_from_host(results, tools, context)
        if len(before.pending) and self._ended is None:
            batch = await self.registry.resumed_batch(before.pending, answers, tools, context, **options)
            await self._run_batch(batch, self._progress.take_late_results)
        if self._progress.for_host:
            self._end("pending", f"{len(self._progress.for_host)} for the host to run")

    async def _take_from_host(self, given: Mapping[str, Any], tools: ResolvedTools, context: ReadonlyContext) -> None:
        """Adds the host's results to the history, converted and limited as their tools declare."""
        progress = self._progress
        known = (*(call for message in progress.messages for call in message.calls), *progress.for_host)
        calls = {call.id: call for call in known if call.id in given}
        progress.ignored += tuple(id_ for id_ in given if id_ not in calls)
        batch = await self.registry.batch(calls.values(), tools, context)
        batch.left = progress.pending
        for state in batch.states:
            state.tool = tools.get(state.call.name)
        outcome = await batch.deliver(given)
        for message in progress.take_late_results(outcome):
            self._events.emit(MessageAdded(message))
        self._end_by(outcome.fatal)

    def _end_by(self, fatal: BaseException | None) -> None:
        if fatal is not None:
            self._error = fatal
            self._end("aborted" if isinstance(fatal, TurnAbortedError) else "fatal", str(fatal))

    # Helpers -----------------------------------------------------------------------------------------------------

    def _end(self, *end: *End) -> None:
        """Sets why the turn ends, unless a reason is set already."""
        if self._ended is None:
            self._ended = end

    def _context_now(self) -> ReadonlyContext:
        """The context of this round, with the session's current state."""
        context, progress = self.context, self._progress
        return attrs.evolve(
            context,
            model=context.model or self.request.model or self.model.name,
            provider=context.provider or self.model.provider,
            state=dict(progress.state),
            messages=tuple(progress.messages),
        )

    async def _asked(self, what: str, question: Callable[[], Any]) -> Any:
        """The answer of one of the host's functions, within the time limit of callbacks.

        Raises:
            CallbackError: It failed, or took too long.
        """
        limit = asyncio.timeout(seconds := self.registry.limits.callback_timeout)
        try:
            async with limit:
                return await maybe_await(question())
        except Exception as error:
            text = f"gave no answer within {seconds:g} s" if limit.expired() else f"{type(error).__name__}: {error}"
            raise CallbackError(text, stage=what, owner="the host") from error

    async def _finish(self) -> None:
        """Completes the history and emits the end of the turn."""
        await self._drop_early()  # in case it was cancelled once more
        if (skipped := self._progress.close()) is not None:
            self._events.emit(MessageAdded(skipped))
        ended, invocation = self._ended or ("failed", None), self.context.invocation
        output = self._output.given[-1] if self._output is not None and self._output.given else None
        self._outcome = self._progress.outcome(*ended, invocation=invocation, error=self._error, output=output)
        try:
            await (await self.registry.chain("after_turn")).tell(self.context, self.request, self._outcome)
        finally:
            self._events.emit(TurnEnded(self._outcome))


def turn_of(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    **options: Unpack[TurnOptions],
) -> Turn:
    """A turn to run with `run()` or `events()`; `steer()` and `interrupt()` act on it while it runs.

    Args:
        model: The model.
        request: The request; a text is a message of the user.
        registry: Has the tools, callbacks and processors.
        context: The user and session, with the initial `state`; `TurnOutcome.state` is the final one.
        options: See `TurnOptions`.

    Raises:
        TypeError: An unknown option, with near misses; or `model` is not a model.
        ValueError: A value that isn't allowed.
    """
    missing = [name for name in ("name", "provider", "respond") if not hasattr(model, name)]
    if missing:
        named = f"; registry.model({model!r:.80}) makes one" if isinstance(model, str) else ""
        raise TypeError(f"{model!r:.80} is not a model: it has no {', '.join(missing)}{named}")
    checked("registry", registry, ToolRegistry)
    checked("context", context, ReadonlyContext)
    own, batch = split_options(options)
    request = request if isinstance(request, ModelRequest) else ModelRequest(request)
    return Turn(model=model, request=request, registry=registry, context=context, batch=batch, **own)


async def run_turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    **options: Unpack[TurnOptions],
) -> TurnOutcome:
    """Sends a request to a model, runs its calls and sends their results, until it answers without calls.

    Arguments as for `turn_of`.

    Returns:
        The whole conversation, why the turn ended, and the actions that its calls requested of the host.

    Raises:
        TurnAbortedError: A callback aborted the turn.
        FatalToolError: A tool ended it.
        ModelError: The request failed, or the provider answered with an error.
        ToolsetError: A toolset failed, and `on_toolset_error` is `"fail"`.
        CallbackError: A callback of the model or the turn failed.
        ProcessorError: One of the host's request processors failed.
        asyncio.CancelledError: The caller was cancelled.

    All but the last have the `outcome`, whose history is complete.
    """
    return await turn_of(model, request, registry, context, **options).run()


async def stream_turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    **options: Unpack[TurnOptions],
) -> AsyncGenerator[TurnEvent]:
    """`run_turn` as a stream of events; the last is `TurnEnded`, with the outcome. Closing it cancels the turn."""
    async with aclosing(turn_of(model, request, registry, context, **options).events()) as events:
        async for event in events:
            yield event


def resumed_turn_of(  # noqa: PLR0913  as `turn_of`, and the suspended turn
    model: Model,
    request: ModelRequest,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    *,
    suspended: TurnOutcome | Mapping[str, Any],
    answers: Answers = _NOTHING,
    tool_results: Mapping[str, Any] = _NOTHING,
    **options: Unpack[TurnOptions],
) -> Turn:
    """A turn that resumes one whose calls waited for an approval or for the host, in this process or another.

    Args:
        model: The model.
        request: The original request (instructions, config, tools); its messages are replaced by the outcome's.
        registry: The original registry.
        context: The same session and user.
        suspended: The outcome, or its JSON.
        answers: By the pending call's id, as for `registry.resume`. Some may be missing: while any call waits, the turn
            is suspended again.
        tool_results: By call id, what the tool would have returned, a `ToolResult` or an exception: for the calls in
            `for_host`, and later results of any call of the conversation, as of long-running tools.
        options: See `TurnOptions`.

    Raises:
        PendingError: `suspended` is not the outcome of a turn.
        ValueError: No call waits in it, and there are no results.
    """
    before = suspended if isinstance(suspended, TurnOutcome) else TurnOutcome.from_json(suspended)
    if not (len(before.pending) or before.for_host or tool_results):
        raise ValueError(f"no call waits in this outcome, which ended by {before.ended!r}; continue with run_turn(...)")
    turn = turn_of(model, request, registry, context, **options)
    return attrs.evolve(turn, context=context, suspended=(before, answers, tool_results))


async def resume_turn(  # noqa: PLR0913  as above
    model: Model,
    request: ModelRequest,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    *,
    suspended: TurnOutcome | Mapping[str, Any],
    answers: Answers = _NOTHING,
    tool_results: Mapping[str, Any] = _NOTHING,
    **options: Unpack[TurnOptions],
) -> TurnOutcome:
    """Resumes and runs a suspended turn. Arguments as for `resumed_turn_of`, errors as for `run_turn`."""
    turn = resumed_turn_of(
        model, request, registry, context, suspended=suspended, answers=answers, tool_results=tool_results, **options
    )
    return await turn.run()
