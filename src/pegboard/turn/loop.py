"""`Turn`, the agent loop: request, model, calls, again; and `run_turn`, `stream_turn`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import attrs

from pegboard.callbacks import maybe_await
from pegboard.dispatch.batch import Batch, BatchOptions, CallOptions, Interruption, Outcome, check_options, events_of
from pegboard.errors import CallbackError, ModelError, PegboardError, cause_of, checked, log_failure
from pegboard.json import plain_copy
from pegboard.messages import Message, ModelResponse
from pegboard.registry import ToolRegistry
from pegboard.request.model_request import Exporter, Model, ModelRequest, processor_problem
from pegboard.tools.call import ToolCall
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.turn.events import Answered, EventSink, RoundStarted, TurnEnded, TurnEvent, TurnOutcome, TurnReported
from pegboard.turn.history import TurnProgress, calls_of
from pegboard.turn.model_call import EarlyCalls, ModelCaller
from pegboard.turn.options import DEFAULT_TURN_LIMITS, Inbox, TurnOptions, TurnOutput, read_conditions, read_resumed

if TYPE_CHECKING:
    from typing import Unpack

    from pegboard.toolsets.resolve import ResolvedTools

_MOST_REPORTED: Final = 1_000_000  # values, and characters of JSON, of a plugin's report
_DEEPEST_REPORT: Final = 100


class Turn:
    """A turn to run with `run()` or `events()`, once; `steer()` and `interrupt()` act on it while it runs.

    Args:
        model: The model.
        request: The request; a text is a message of the user. If it has `tools`, every round offers these; otherwise
            each round resolves them. To resume a turn, pass the original one, for its instructions, config and tools.
        registry: Has the tools, callbacks and processors.
        context: The user and session, with the initial `state`; `TurnOutcome.state` is the final one.
        options: See `TurnOptions`.

    Attributes:
        outcome: The outcome; `None` until the turn has ended. It is set even if `run` raised or was cancelled.

    Raises:
        TypeError: An unknown option, with near misses; or `model` is not a model.
        ValueError: A value that isn't allowed; or no call waits in the outcome to resume, and there are no results.
        PendingError: `resume` is not the outcome of a turn.
    """

    def __init__(
        self,
        model: Model,
        request: ModelRequest | str,
        registry: ToolRegistry,
        context: ReadonlyContext = EMPTY_CONTEXT,
        **options: Unpack[TurnOptions],
    ) -> None:
        missing = [name for name in ("name", "provider", "respond") if not hasattr(model, name)]
        if missing:
            named = f"; registry.model({model!r:.80}) makes one" if isinstance(model, str) else ""
            raise TypeError(f"{model!r:.80} is not a model: it has no {', '.join(missing)}{named}")
        checked("registry", registry, ToolRegistry)
        checked("context", context, ReadonlyContext)
        check_options(options, TurnOptions.__annotations__)
        before, limits = read_resumed(options), options.get("limits", DEFAULT_TURN_LIMITS)
        invocation = context.invocation or (before and before.invocation) or f"turn_{uuid4().hex}"
        values = {} if context.values is None else context.values
        self.model: Final = model
        self.request = request if isinstance(request, ModelRequest) else ModelRequest(request)
        self.registry: Final = registry
        self.context: Final = attrs.evolve(context, invocation=invocation, values=values)
        self._options: Final = options
        self._limits: Final = limits
        self._conditions: Final = read_conditions(options)
        self._before: Final = before
        self._progress: Final = TurnProgress.start(self.request.messages, self.context, before)
        self._events: Final = EventSink(options.get("listener"))
        self._inbox: Final = Inbox(options.get("steering"))
        kind, chosen = options.get("output_type"), options.get("start_early", False)
        self._output: Final = None if kind is None else TurnOutput(kind)
        self._caller: Final = ModelCaller(model, registry, limits, self._events)
        facts = self.context, self._progress, self._output, self._make_batch
        self._early: Final = EarlyCalls(chosen, self._caller, *facts)
        self._current: asyncio.Task[ModelResponse] | Batch | None = None  # the model's answer, or the running calls
        self._interrupted: str | None = None
        self._begun = False
        self.outcome: TurnOutcome | None = None

    async def run(self) -> TurnOutcome:
        """Runs the turn to its end. Exceptions are raised once every call has its result; see `run_turn`.

        Raises:
            RuntimeError: It has been run already.
        """
        if self._begun:
            raise RuntimeError("this turn has been run already; make another Turn(...)")
        self._begun = True
        progress = self._progress
        try:
            await self._begin()
            while progress.ended is None:
                await self._round()
        except asyncio.CancelledError:
            progress.end("cancelled")
            raise
        except Exception as error:  # noqa: BLE001  raised again below, once the history is complete
            progress.end("failed", str(error))
            progress.error = error
        finally:
            outcome = await self._finish()
        if progress.error is not None:
            if isinstance(progress.error, PegboardError):
                progress.error.outcome = outcome
            raise progress.error
        return outcome

    def events(self) -> AsyncGenerator[TurnEvent]:
        """Runs the turn and yields its events, with streamed answers; closing the generator cancels the turn.

        Raises:
            BaseException: As `run`, after the last event.
        """
        queue = self._events.reader = asyncio.Queue()
        return events_of(self.run, queue)

    def steer(self, *messages: Message | str) -> None:
        """Adds messages of the user to a running turn; they are sent with the next request.

        Calls that have not begun are skipped, unless `on_steering` is set otherwise.
        """
        self._inbox.put(messages, "steer")
        self._interrupt_calls("interrupted", self._options.get("on_steering", "skip"))

    def interrupt(self, reason: str = "interrupted") -> None:
        """Ends the turn now: cancels the model, adds its text so far to the history, and aborts running calls."""
        self._interrupted = self._interrupted or reason
        self._interrupt_calls(reason, "abort")
        if isinstance(self._current, asyncio.Task):
            self._current.cancel()

    def _interrupt_calls(self, reason: str, how: Interruption) -> None:
        for batch in (self._current, self._early.batch):
            if isinstance(batch, Batch):
                batch.interrupt(reason, how)

    async def _begin(self) -> None:
        """Calls the `before_turn` callbacks, or resumes the turn's calls."""
        progress, before = self._progress, self._before
        if self._limits.seconds is not None:
            progress.deadline = time.monotonic() + self._limits.seconds
        self._caller.streams = self._events.reader is not None or bool(self._early.chosen)
        if before is None:
            chain = await self.registry.chain("before_turn", ModelRequest)
            if (request := await chain.first_answer(self.context, self.request)) is not None:
                self.request = request
                progress.messages, progress.began = list(request.messages), len(request.messages)
            return
        await (await self.registry.chain("resume_turn")).tell(self.context, before)
        context, options = self._make_context(), self._make_options(self.request)
        tools = await self._resolve_tools(context)
        tools = tools if self._output is None else tools.with_tools(self._output.tool)
        if results := self._options.get("tool_results"):
            await self._take_from_host(results, tools, context)
        if len(before.pending) and progress.ended is None:
            answers = self._options.get("answers", ())
            batch = await self.registry.batch(before.pending, tools, context, answers=answers, **options)
            await self._run_batch(batch, progress.take_late_results)
        if progress.for_host:
            progress.end("pending", f"{len(progress.for_host)} for the host to run")

    async def _take_from_host(self, given: Mapping[str, Any], tools: ResolvedTools, context: ReadonlyContext) -> None:
        """Adds the host's results to the history, converted and limited as their tools declare."""
        progress = self._progress
        known = (*(call for message in progress.messages for call in message.calls), *progress.for_host)
        waiting = {call.id for call in progress.for_host}

        def may_have(call: ToolCall) -> bool:
            tool = tools.get(call.name)
            return call.id in waiting or (not call.provider_executed and (tool is None or tool.spec.long_running))

        calls = {call.id: call for call in known if call.id in given and may_have(call)}
        progress.ignored += tuple(id_ for id_ in given if id_ not in calls)
        batch = await self.registry.batch(calls.values(), tools, context)
        batch.unanswered = progress.pending
        outcome = await batch.deliver(given, tools.get)
        self._events.emit_messages(*progress.take_late_results(outcome))
        progress.end_by_error(outcome.fatal)

    async def _round(self) -> None:
        """One request to the model, its answer and its calls."""
        progress, output, is_last = self._progress, self._output, False
        await self._ask_host("steering", self._inbox.listen)
        await self._add_new_messages()
        if progress.ended is None and (limit := progress.find_limit(self._limits)) is not None:
            progress.end("limit", limit)  # but one more answer without tools may follow
            is_last = self._limits.final_answer and progress.rounds == self._limits.rounds
        if progress.ended is not None and not is_last:
            return
        context = self._make_context()
        request = await self._prepare_request(context, is_last=is_last)
        progress.rounds += 1
        self._events.emit(RoundStarted(progress.rounds, request))
        response = await self._ask_model(request, context)
        if response is None:
            return
        if response.calls and response.finish_reason in ("length", "content_filter"):
            response = response.evolve(complete=False)  # also if the client doesn't say so: calls may be cut off
        await self._early.drop(response)
        message = progress.take_answer(response)
        self._events.emit(Answered(response))
        self._events.emit_messages(message)
        # Of the calls in the final answer, only those that give the output are run.
        if response.calls and (not is_last or {call.name for call in response.calls} == {output and output.tool.name}):
            await self._run_calls(message, request, response)
        if response.finish_reason == "error" and progress.ended is None:
            wrong = response.error_message or "the provider answered with an error"
            raise ModelError(wrong, provider=self.model.provider, code=response.error_code)
        if is_last and output is not None:
            output.read(response.text)
        if not (response.calls or is_last):
            await self._end_by_answer(response)

    async def _add_new_messages(self) -> None:
        """Adds new results of long-running calls, and new messages of the user, to the history."""
        progress, session = self._progress, self.context.session
        mine = progress.call_ids if session is None else None  # without a session, there are others' completions too
        operations = self.registry.operations
        take = partial(operations.take, session, mine, {self.context.user})
        for completion in await asyncio.to_thread(take) if operations.is_stored else take():
            if (message := progress.complete(completion)) is not None:
                self._events.emit_messages(message)
            progress.end_by_error(completion.fatal)
        for message in self._inbox.messages:  # the listener may add more
            progress.messages.append(message)
            self._events.emit_messages(message)
        self._inbox.messages = []

    async def _prepare_request(self, context: ReadonlyContext, *, is_last: bool) -> ModelRequest:
        """The request of this round, with the tools that may be offered now, after all processors."""
        first = self._options.get("first_choice") if self._progress.rounds == 0 else None
        request = self.request.evolve(
            messages=self._progress.messages,
            model=self.request.model or context.model,
            tool_choice="none" if is_last else first or self.request.tool_choice,
            loads_deferred=self.request.loads_deferred or getattr(self.model, "loads_deferred", False) is True,
            start_early=bool(self._early.chosen) and not (is_last or self._options.get("sequential")),
            tools=await self._resolve_tools(context),
        )
        if self._output is not None:
            request = self._output.add_to(request, self.model, is_last=is_last)
        return self._report_left_out(await self.registry.process(request, context))

    async def _resolve_tools(self, context: ReadonlyContext) -> ResolvedTools:
        """The request's tools, or those that may be offered now, by the permissions of registry and turn."""
        if self.request.tools is not None:
            return self.request.tools
        permissions, names = self._options.get("permissions"), ("where", "active", "on_toolset_error")
        chosen: Any = {name: value for name, value in self._options.items() if name in names}
        tools = await self.registry.resolve(context, **chosen)
        hidden = [] if permissions is None else [tool.name for tool in tools if permissions.hides(tool)]
        return tools.without("permitted", dict.fromkeys(hidden, "the turn's permissions never let it run"))

    def _report_left_out(self, request: ModelRequest) -> ModelRequest:
        """The request with a problem for each tool that can't be sent to the provider; each is logged once."""
        exporter, provider = getattr(self.model, "exporter", None), self.model.provider
        if not isinstance(exporter, Exporter) or not request.offered:
            return request
        try:
            tools_of = getattr(exporter, "tools_of", None)
            if tools_of is None:
                exported = exporter.tools([tool.spec for tool in request.offered], strict=request.config.strict)
            else:
                exported = tools_of(request.evolve(model=request.model or self.model.name))
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's exporter; the request itself will fail
            return request.with_problems(processor_problem("export", cause_of(error), error=error))
        exported.warn(provider)
        causes = {loss.tool: f"isn't sent to {provider}: {loss.what}" for loss in exported.losses if loss.refused}
        return request.with_problems(*(processor_problem("export", cause, tool=name) for name, cause in causes.items()))

    async def _ask_model(self, request: ModelRequest, context: ReadonlyContext) -> ModelResponse | None:
        """The model's answer; `None` if the turn ended before it."""
        if self._interrupted is not None:
            return self._progress.end("interrupted", self._interrupted)
        self._caller.on_partial = partial(self._early.start, request) if request.start_early else None
        self._current = asking = asyncio.ensure_future(self._caller.ask(request, context))
        is_late = False
        try:
            await asyncio.wait([asking], timeout=self._progress.seconds_left())
            is_late = not asking.done()
        finally:
            self._current = None
            await self._stop_asking(asking)
        if is_late:
            return self._progress.end("limit", f"{self._limits.seconds:g} seconds")
        if not asking.cancelled():
            return asking.result()
        if self._interrupted is not None:
            return self._progress.end("interrupted", self._interrupted)
        raise ModelError(f"model {self.model.name!r} cancelled itself", provider=self.model.provider)

    async def _stop_asking(self, asking: asyncio.Task[ModelResponse]) -> None:
        """Cancels a running call of the model, and adds the text so far to the history."""
        if not asking.done():
            asking.cancel()
            await asyncio.wait([asking], timeout=self.registry.limits.grace)
        if not asking.done():
            log_failure(f"model {self.model.name!r}", TimeoutError("ignores its cancellation"))
        was_stopped = not asking.done() or asking.cancelled()
        if (was_stopped or asking.exception() is not None) and await self._early.drop():
            return
        if was_stopped and self._caller.words:
            words = ModelResponse("".join(self._caller.words), complete=False, interrupted=True)
            self._events.emit_messages(self._progress.take_answer(words))

    async def _end_by_answer(self, response: ModelResponse) -> None:
        """Ends the turn by an answer without calls, unless the provider paused, or there is more to say."""
        progress = self._progress
        if response.finish_reason == "pause":
            return None
        if response.interrupted:
            return progress.end("cut_off", response.error_message or "the answer was broken off")
        if not response.complete:
            return progress.end("cut_off", f"the answer ended by {response.finish_reason}")
        if self._output is not None and (wrong := self._output.read(response.text)):
            self._output.count_miss(self.model)
            return self._inbox.put(wrong, "output_type")
        return await self._end_or_continue()

    async def _end_or_continue(self) -> None:
        """Ends the turn with its answer, unless the user or an `on_stop` callback has more to say."""
        progress, inbox, output = self._progress, self._inbox, self._output
        if progress.ended is not None:
            return
        if not await self._ask_host("steering", inbox.listen) and progress.continued < self._limits.continuations:
            chain = await self.registry.chain("on_stop", str, Message, list, tuple)
            so_far = progress.outcome("answered", output=output and output.value)
            more = await chain.first_answer(self.context, so_far)
            inbox.put(more, "on_stop")
            progress.continued += more is not None
        if not inbox.messages:
            progress.end("answered")
        elif output is not None:
            output.given.clear()

    async def _make_batch(self, calls: Iterable[ToolCall], request: ModelRequest, id_: str | None) -> Batch:
        context = attrs.evolve(self._make_context(), message=id_ or f"message_{uuid4().hex}")
        return await self.registry.batch(calls, request.tools, context, **self._make_options(request))

    async def _run_calls(self, message: Message, request: ModelRequest, response: ModelResponse) -> None:
        calls = self._progress.limit_calls(calls_of(message), self._limits.calls)
        batch = self._early.join(calls) or await self._make_batch(calls, request, message.id or response.id)
        batch.cut_off = not response.complete or response.finish_reason == "error"
        self._progress.broken += not response.complete
        await self._run_batch(batch, lambda outcome: [self._progress.take_results(outcome)])

    async def _run_batch(self, batch: Batch, take: Callable[[Outcome], list[Message]]) -> None:
        """Runs calls and adds their results, even if the caller is cancelled."""
        self._current = batch
        try:
            if self._interrupted is not None:
                batch.interrupt(self._interrupted, "abort")
            elif self._inbox.messages:
                batch.interrupt("interrupted", self._options.get("on_steering", "skip"))
            outcome = await batch.run()
        finally:
            self._current = None
            if batch.outcome is not None:
                self._events.emit_messages(*take(batch.outcome))
        if not self._progress.end_by_results(outcome):
            await self._end_by_host(outcome)

    async def _end_by_host(self, outcome: Outcome) -> None:
        """Ends the turn after calls by the host's interruption, output, limits or stop conditions."""
        progress, output = self._progress, self._output
        if self._interrupted is not None:
            return progress.end("interrupted", self._interrupted)
        if output is not None:
            if output.given:
                return await self._end_or_continue()
            if any(call.name == output.tool.name for call in outcome.calls):
                output.count_miss(self.model)  # the call's result describes the fault
        if any(call.error is not None and call.error.kind == "limit" for call in outcome.calls):
            return progress.end("limit", f"{self._limits.calls} calls")
        if progress.broken > self._limits.retries:
            return progress.end("cut_off", f"{progress.broken} answers with calls were cut off, or broke off")
        for condition in self._conditions:
            stops = await self._ask_host("stop_when", partial(condition, progress.outcome("stopped")))
            if stops:
                return progress.end("stopped", stops if isinstance(stops, str) else None)
        return None

    def _make_options(self, request: ModelRequest) -> BatchOptions:
        """The options of a batch of calls."""
        own: Any = {name: value for name, value in self._options.items() if name in CallOptions.__annotations__}
        options = BatchOptions(**own, instructions=request.system or None, listener=self._events.emit)
        if self._inbox.steering is not None:
            options["steering"] = self._inbox.listen
        if (left := self._progress.seconds_left()) is not None:
            options["timeout"] = max(min(left, options.get("timeout") or left), 0.001)
        return options

    def _make_context(self) -> ReadonlyContext:
        """The context of this round, with the session's current state."""
        context, progress = self.context, self._progress
        return attrs.evolve(
            context,
            model=context.model or self.request.model or self.model.name,
            provider=context.provider or self.model.provider,
            state=dict(progress.state),
            messages=tuple(progress.messages),
        )

    async def _ask_host(self, what: str, question: Callable[[], Any]) -> Any:
        """The answer of one of the host's functions, within the time limit of callbacks; else a `CallbackError`."""
        limit = asyncio.timeout(seconds := self.registry.limits.callback_timeout)
        try:
            async with limit:
                return await maybe_await(question())
        except Exception as error:
            text = f"gave no answer within {seconds:g} s" if limit.expired() else f"{type(error).__name__}: {error}"
            raise CallbackError(text, stage=what, owner="the host") from error

    async def _finish(self) -> TurnOutcome:
        """Completes the history, makes the outcome and emits the end of the turn."""
        progress, output = self._progress, self._output
        await self._early.drop()  # in case it was cancelled once more
        if (skipped := progress.close()) is not None:
            self._events.emit_messages(skipped)
        ended, detail = progress.ended or ("failed", None)
        facts = {"invocation": self.context.invocation, "error": progress.error, "output": output and output.value}
        self.outcome = progress.outcome(ended, detail, **facts)
        try:
            self.outcome = outcome = await self._report(self.outcome)
            await (await self.registry.chain("after_turn")).tell(self.context, self.request, outcome)
        finally:
            self._events.emit(TurnEnded(self.outcome))
        return outcome

    async def _report(self, outcome: TurnOutcome) -> TurnOutcome:
        """The outcome with the plugins' reports, each of which is emitted, too; a failure is logged."""
        chain = await self.registry.chain("report_turn", dict)
        for link in sorted(chain, key=lambda each: each.plugin != "host"):  # the host's may end what others report on
            try:
                answer = await chain.ask(link, self.context, outcome)
                if answer is None:
                    continue
                report: dict[str, Any] = plain_copy(answer, _DEEPEST_REPORT, [_MOST_REPORTED])
                if (size := len(json.dumps(report, ensure_ascii=False))) > _MOST_REPORTED:
                    raise ValueError(f"it has {size:,} characters, more than {_MOST_REPORTED:,}")  # noqa: TRY301  as the callback
            except Exception as error:  # noqa: BLE001  a plugin's
                log_failure(f"the report of {link.owner}", error.__cause__ or error)
                continue
            if report or link.plugin in outcome.reports:
                reports = {**outcome.reports, link.plugin: report}
                outcome = outcome.evolve(reports={plugin: each for plugin, each in reports.items() if each})
                self._events.emit(TurnReported(link.plugin, report))
        return outcome


async def run_turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    **options: Unpack[TurnOptions],
) -> TurnOutcome:
    """Sends a request to a model, runs its calls and sends their results, until it answers without calls.

    Arguments as for `Turn`; with `resume`, it continues a turn whose calls waited for an approval or for the host.

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
    return await Turn(model, request, registry, context, **options).run()


def stream_turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = EMPTY_CONTEXT,
    **options: Unpack[TurnOptions],
) -> AsyncGenerator[TurnEvent]:
    """`run_turn` as a stream of events; the last is `TurnEnded`, with the outcome. Closing it cancels the turn."""
    return Turn(model, request, registry, context, **options).events()
