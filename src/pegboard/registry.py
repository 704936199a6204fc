"""`ToolRegistry`: registers tools, resolves them for a context, and runs calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from pegboard.catalogue import TOOL_STAGES
from pegboard.contributions import Registrar
from pegboard.errors import CallbackError, checked, log_failure, tuple_of
from pegboard.tools.call import ToolCall
from pegboard.tools.content import ToolResult
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.limits import DEFAULT_LIMITS, Limits
from pegboard.tools.spec import ConflictPolicy

if TYPE_CHECKING:
    from typing import Self, TypeAlias, Unpack

    from pegboard.callbacks import Callback
    from pegboard.catalogue import Catalogue
    from pegboard.dispatch.approval.grants import Grants
    from pegboard.dispatch.approval.pending import Answers, PendingCalls
    from pegboard.dispatch.approval.queue import AnyApprover
    from pegboard.dispatch.background import Operations
    from pegboard.dispatch.batch import Batch, BatchOptions, Outcome
    from pegboard.dispatch.callbacks import Chain
    from pegboard.dispatch.dispatcher import Dispatcher, Health
    from pegboard.dispatch.events import CallEvent
    from pegboard.dispatch.executors.executor import Executor, ToolExecutor
    from pegboard.dispatch.permissions.evaluation import Decision
    from pegboard.dispatch.permissions.permissions import Permissions
    from pegboard.dispatch.state import CallSnapshot, Settings
    from pegboard.dispatch.truncate import ResultStore
    from pegboard.request.model_request import ModelRequest
    from pegboard.request.pipeline import Pipeline
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.predicates import Where
    from pegboard.toolsets.resolve import OnToolsetError, ResolvedTools
    from pegboard.toolsets.toolset import Toolset

    _Prepared: TypeAlias = tuple[Catalogue, Dispatcher, CallSnapshot, Settings]


class ToolRegistry(Registrar):
    """Registry of tools, toolsets and what else hosts and plugins contribute; resolves tools and runs calls.

    It may be used from any thread and from any task at once. Tools that another registry has resolved are refused by a
    `ValueError`.

    Args:
        limits: What calls may use, where their tool sets nothing else.
        where: A predicate that every resolution starts with (`"not destructive"`), several, of which a tool has to
            match all, or `None`. Calls without resolved tools are limited by it, too.
        on_conflict: What happens when the host registers a name that it has registered already.
        permissions: What may run, and what needs approval; by default everything runs, once approved where it asks.
        approver: Asks the user for approval; `None` denies what asks. Several approvers are asked in order, until one
            gives an answer other than `None`.
        grants: Stores what users have allowed for longer than one call; in memory by default.
    """

    def __init__(  # noqa: PLR0913  what a host may settle, all by name
        self,
        *,
        limits: Limits = DEFAULT_LIMITS,
        where: Where | Sequence[Where] = None,
        on_conflict: ConflictPolicy = "error",
        permissions: Permissions | None = None,
        approver: AnyApprover | None = None,
        grants: Grants | None = None,
    ) -> None:
        super().__init__(on_conflict)
        self.limits: Final[Limits] = checked("limits", limits, Limits)
        self._permissions = permissions
        self._approver = approver
        self._grants = grants
        several: Any = where if isinstance(where, list | tuple) else (where,)  # pyright: ignore[reportUnknownVariableType]
        self._where = tuple(each for each in several if each is not None)
        self._prepared: Mapping[ResolvedTools | None, _Prepared] = {}  # for all tools, and the last request's
        self._dispatcher: Dispatcher | None = None
        self._pipeline: Pipeline | None = None

    async def chain(self, stage: str, *kinds: type) -> Chain:
        """The callbacks of a stage, plugins' first, ready to be called; imports the plugins that have some.

        Args:
            stage: As for `add_callback`.
            kinds: The types that they may answer with; none are all.
        """
        from pegboard.callbacks import ChainError
        from pegboard.dispatch.callbacks import Chain

        def failure(link: Callback, error: BaseException) -> CallbackError:
            return CallbackError(str(ChainError(link, error)), stage=stage, owner=link.owner)

        await self._load(stage)
        runtime, links = self._get_dispatcher().runtime, self.contributions.catalogue.callbacks(stage)
        return Chain(links, runtime, self.limits, kinds or (object,), failure=failure)

    @property
    def results(self) -> ResultStore:
        """The full texts of truncated results; `read_result_tool(registry.results)` lets a model read the rest."""
        return self._get_dispatcher().store

    @property
    def permissions(self) -> Permissions | None:
        """What may run, and what needs approval; `None` is the default."""
        return self._permissions

    @permissions.setter
    def permissions(self, permissions: Permissions | None) -> None:
        with self.contributions.lock:
            self._permissions, self._prepared = permissions, {}
            if self._dispatcher is not None:
                self._dispatcher.set_permissions(permissions)
        if self.contributions.catalogue.tools:
            self.contributions.check_rules(permissions)

    @property
    def approver(self) -> AnyApprover | None:
        """Asks the user for approval; `None` denies what asks."""
        return self._approver

    @approver.setter
    def approver(self, approver: AnyApprover | None) -> None:
        self._approver = approver
        self._prepare_again()

    @property
    def grants(self) -> Grants:
        """What users have allowed for longer than one call; `registry.grants.forget(context)` revokes it."""
        return self._get_dispatcher().runtime.grants

    @property
    def pipeline(self) -> Pipeline:
        """The steps that prepare requests: pegboard's, and the processors that hosts and plugins register.

        Reading it imports the plugins that have some.
        Set it to change them: `registry.pipeline = registry.pipeline.insert_before("pack_tools", "memory", remember)`.
        Processors that plugins register later are still added; a step that was removed stays removed.
        """
        from pegboard.request.processors import DEFAULT_PIPELINE

        for load in self.contributions.unloaded("register_processors"):
            load()
        own = DEFAULT_PIPELINE if self._pipeline is None else self._pipeline
        return own.with_registered(self.contributions.catalogue.in_order("processors"))

    @pipeline.setter
    def pipeline(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    async def resolve(  # noqa: PLR0913  what a request may settle, all by name
        self,
        context: ReadonlyContext = EMPTY_CONTEXT,
        *,
        where: Where = None,
        active: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        toolsets: Collection[str] | Callable[[Toolset], bool] | None = None,
        on_toolset_error: OnToolsetError = "skip",
    ) -> ResolvedTools:
        """The tools that this context may be offered now.

        Args:
            context: Of the user and the model.
            where: A predicate, or its text (`"read_only and not tag:network"`).
            active: Names to keep, in this order; `None` keeps all, `[]` none.
            order: Names to list first; the rest follow alphabetically.
            toolsets: Names of the toolsets to query, or a function that picks them; `None` queries all.
            on_toolset_error: `"skip"` leaves out the tools of a failing toolset; `"fail"` raises.

        Raises:
            ExpressionError: The predicate's text doesn't parse.
            ToolsetError: A toolset failed and `on_toolset_error` is `"fail"`.
        """
        checked("context", context, ReadonlyContext, ToolContext)
        await self._load("register_toolsets", "register_predicates", "register_transforms")
        catalogue = self.contributions.catalogue
        asked = catalogue.toolsets
        if toolsets is not None:
            wanted = toolsets if callable(toolsets) else tuple_of("toolsets", str)(toolsets)
            asked = [each for each in asked if (wanted(each) if callable(wanted) else each.name in wanted)]
        options: Any = {"active": active, "order": order, "on_toolset_error": on_toolset_error}
        options["where"] = None if where is None else catalogue.predicate(where)
        resolved = await self._resolve(asked, context, **options)
        held_back = resolved.unsolved(problem for problem in catalogue.problems if problem.tool)
        return attrs.evolve(resolved, registry=self, held_back=[(each.tool, each.cause) for each in held_back])

    async def process(self, request: ModelRequest, context: ReadonlyContext = EMPTY_CONTEXT) -> ModelRequest:
        """Prepares a request for a model by the steps of `pipeline`; its `problems` are what went wrong.

        Args:
            request: The host's request. Its tools are resolved here if they aren't yet.
            context: Of the user and the model.

        Raises:
            ProcessorError: A step of the host failed; a plugin's failing step is left out.
        """
        await self._load("register_processors")
        if request.tools is None:
            request = request.evolve(tools=await self.resolve(context))
        else:
            self._check_own(request.tools)
        run = self._get_dispatcher().runtime.threads.run
        return await self.pipeline.process(request, context, run=run, observe=log_failure, services=self.services)

    async def call(  # noqa: PLR0913  all but two by name
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        context: ReadonlyContext | ToolContext | None = None,
        *,
        call_id: str = "",
        resolved: ResolvedTools | None = None,
        approver: AnyApprover | None = None,
    ) -> ToolResult:
        """Runs one call and always returns a result, but for what is raised below.

        Args:
            name: The tool's name.
            arguments: JSON text or a mapping; nothing means `{}`.
            context: Of the user and the session; an empty one by default.
            call_id: The call's id.
            resolved: The tools of the request that the call answers; only these run. `None`: all that are registered.
            approver: Used instead of the registry's own.

        Raises:
            FatalToolError: The tool ends the turn.
            TurnAbortedError: A callback ends the turn.
            asyncio.CancelledError: The caller was cancelled.
        """
        if isinstance(name, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
            raise TypeError("call takes a tool's name and its arguments; dispatch([...]) takes ToolCalls")
        if self.contributions.catalogue.has_lazy_callbacks:
            await self._load(*TOOL_STAGES)
        catalogue = self.contributions.catalogue
        is_plain = type(name) is str and name in catalogue.tools and not (self._where or catalogue.has_transforms)
        if resolved is None and (not is_plain or (catalogue.has_checks and await self._is_checked())):
            resolved = await self._callable([name], EMPTY_CONTEXT if context is None else context)
        prepared = self._prepared.get(resolved)
        if prepared is None or prepared[0] is not self.contributions.catalogue:
            prepared = self._prepare(resolved)
        _, dispatcher, snapshot, settings = prepared
        if approver is not None:
            settings = attrs.evolve(settings, approver=approver)
        arguments, context = {} if arguments is None else arguments, EMPTY_CONTEXT if context is None else context
        make = dispatcher.new if type(context) is ReadonlyContext else dispatcher.make_state
        state = make(name, arguments, call_id, context, snapshot, settings)
        await dispatcher.run(state, is_alone=True)
        if state.fatal is not None:
            raise state.fatal
        assert state.result is not None
        return state.result

    async def decide(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        context: ReadonlyContext | ToolContext | None = None,
        *,
        resolved: ResolvedTools | None = None,
    ) -> Decision:
        """What `call` would do with the same arguments before the tool runs: allow it, ask a person, or deny it.

        Rules, mode and grants decide, and callbacks that are marked as `read_only`; a `before_tool` callback without
        the mark may decide otherwise, so that the answer is `ask`. Neither the tool nor a repairer runs, and nobody is
        asked. A running tool may still ask.

        Returns:
            The `action`, `"allow"`, `"ask"` or `"deny"`, and its `reason`: of a denial, the text for the model. A call
            that can't run, as it is unknown, not offered or invalid, is denied.
        """
        context = EMPTY_CONTEXT if context is None else context
        _, dispatcher, snapshot, settings = await self._ready([name], resolved, context)
        return await dispatcher.decide(name, {} if arguments is None else arguments, context, snapshot, settings)

    def may_ask(self, tool: Tool) -> bool:
        """Whether a person may be asked before a call of a tool, under the permissions and callbacks of now.

        `False` is certain: `decide` never answers `ask` for it as it is given. A running tool may still ask.
        """
        from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, policy_of

        contributions = self.contributions
        if contributions.catalogue.callbacks("before_tool") or contributions.unloaded("before_tool"):
            return True
        return policy_of(self._permissions or DEFAULT_PERMISSIONS, tool).may_ask

    async def dispatch(
        self,
        calls: Iterable[ToolCall],
        resolved: ResolvedTools | None = None,
        context: ReadonlyContext = EMPTY_CONTEXT,
        **options: Unpack[BatchOptions],
    ) -> Outcome:
        """Runs the calls of one answer, concurrently where possible, and always returns one result for each.

        Args:
            calls: As the model made them, or as `parse` read them.
            resolved: The tools of the request that the calls answer; only these run. `None`: all that are registered.
            context: Of the user and the session.
            options: `approver`, `permissions`, `max_concurrency`, `sequential`, `steering`, `on_steering`, `cut_off`,
                `timeout`, `instructions`, `listener`: see `BatchOptions`.

        Returns:
            The results in call order, and the error that ends the turn, if any.

        Raises:
            asyncio.CancelledError: The caller was cancelled. A `batch` still has the results then.
        """
        return await (await self.batch(calls, resolved, context, **options)).run()

    async def stream(
        self,
        calls: Iterable[ToolCall],
        resolved: ResolvedTools | None = None,
        context: ReadonlyContext = EMPTY_CONTEXT,
        **options: Unpack[BatchOptions],
    ) -> AsyncGenerator[CallEvent]:
        """`dispatch` as a stream of events; the last event of each call has its result.

        Closing the stream early aborts running calls. A `batch` has the whole outcome afterwards.
        """
        batch = await self.batch(calls, resolved, context, **options)
        async with aclosing(batch.events()) as events:
            async for event in events:
                yield event

    async def batch(
        self,
        calls: Iterable[ToolCall] | PendingCalls,
        resolved: ResolvedTools | None = None,
        context: ReadonlyContext = EMPTY_CONTEXT,
        *,
        answers: Answers | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """A batch of calls, to run by `run()` or `events()`; `interrupt()` ends it early.

        Arguments as for `dispatch`; or pending calls and `answers`, which it consumes, as for `resume`.
        """
        if answers is None:
            given = tuple(cast("Iterable[ToolCall]", calls))
            for call in given:
                if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass anything
                    raise TypeError(f"expected a ToolCall, got {call!r:.80}; registry.parse(...) reads a model's")
            _, dispatcher, snapshot, settings = await self._ready([call.name for call in given], resolved, context)
            return dispatcher.batch(given, context, snapshot, settings, **options)
        from pegboard.dispatch.approval.pending import PendingCalls, match_answers

        pending = checked("calls", calls, PendingCalls)
        answered, ignored = match_answers(pending, answers, context)
        names = [each.pending.call.name for each in answered.values()]
        _, dispatcher, snapshot, settings = await self._ready(names, resolved, context)
        batch = await dispatcher.resume_batch(pending, answered, context, snapshot, settings, **options)
        batch.ignored = (*ignored, *batch.ignored)
        return batch

    async def resume(
        self,
        pending: PendingCalls,
        answers: Answers,
        resolved: ResolvedTools | None = None,
        context: ReadonlyContext = EMPTY_CONTEXT,
        **options: Unpack[BatchOptions],
    ) -> Outcome:
        """Runs pending calls that have been answered, in this process or another.

        Answers may come in parts, in any order and repeatedly; each counts once. Calls without an answer stay in the
        outcome's `pending`, and so do those that can't run concurrently with an earlier call that is still pending.
        What was approved is what runs: a tool whose spec has changed since, or other arguments, are denied.

        Args:
            pending: The pending calls of an earlier outcome, perhaps read back from JSON.
            answers: By the pending call's id: `Once()`, `Always()`, `Reject()`, or their JSON.
            resolved: As for `dispatch`.
            context: As for `dispatch`; of the same session and user.
            options: As for `dispatch`. A batch that had permissions of its own needs them again.

        Raises:
            PendingError: Its batch had permissions of its own, and this one has none.
        """
        return await (await self.batch(pending, resolved, context, answers=answers, **options)).run()

    async def attach(
        self, call: ToolCall, context: ReadonlyContext = EMPTY_CONTEXT, resolved: ResolvedTools | None = None
    ) -> ToolResult | None:
        """The result of a call that an earlier process has sent to its tool's executor, as soon as it is there.

        For a host that restarts. The call passes its stages, as for `call`, but nobody is asked and no tool is started.

        Args:
            call: The call, with the same id and arguments.
            context: As for `dispatch`; of the same user, session, turn and message.
            resolved: As for `dispatch`.

        Returns:
            The result, or why the call can't have one now, such as `denied`. `None` if the executor has no run of it,
            or keeps none: a `dispatch` of the call runs it.

        Raises:
            FatalToolError: The tool ends the turn.
        """
        _, dispatcher, snapshot, settings = await self._ready([checked("call", call, ToolCall).name], resolved, context)
        return await dispatcher.attach(call, context, snapshot, settings)

    def parse(self, raw: Any, resolved: ResolvedTools | None = None) -> ToolCall:
        """Parses a call as a model or a client wrote it. Never raises: a bad one is marked invalid, with its error.

        Args:
            raw: A `ToolCall`, or a mapping with `name`, `arguments` (an object or JSON text) and `id`, or as the AI SDK
                (`toolName`, `toolCallId`), OpenAI (`function`, `call_id`), Anthropic, Gemini or Bedrock write one.
            resolved: The tools that it may call. `None`: all that are registered.
        """
        from pegboard.dispatch.arguments import parse_call

        return parse_call(raw, partial(self.contributions.find_tool, resolved=resolved), self.limits)

    @property
    def operations(self) -> Operations:
        """The operations that continue after the first result of their call, and their final results."""
        return self._get_dispatcher().operations

    @property
    def health(self) -> Health:
        """What can't be ended, and what was lost: abandoned threads, blocked loops, dropped events."""
        return self._get_dispatcher().health()

    def call_sync(  # noqa: PLR0913  as `call`
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        context: ReadonlyContext | ToolContext | None = None,
        *,
        call_id: str = "",
        resolved: ResolvedTools | None = None,
        approver: AnyApprover | None = None,
    ) -> ToolResult:
        """`call` for code that isn't async; blocks until the result.

        Without a running event loop in this thread, the call has one of its own. In one that runs, such as a notebook's
        or another framework's, the call runs in a loop of the registry in a thread of its own, which stays for the next
        call, and so do the approver and async tools; context variables have the caller's values there. The caller's
        loop is blocked meanwhile: `await registry.call(...)` isn't.

        At most 256 such calls of one tool run at once, which ends a recursion through threads.

        Args and exceptions as for `call`.
        """
        own: Any = {"call_id": call_id, "resolved": resolved, "approver": approver}
        call = partial(self.call, name, arguments, context, **own)
        return self._get_dispatcher().call_and_wait(f"{name}", call)  # hosts may pass on anything

    async def aclose(self) -> None:
        """Ends background work and closes executors, services and toolsets; failures are logged."""
        if self._dispatcher is not None:
            sources = self.contributions.catalogue.extras.get("executors", {}).values()
            await self._dispatcher.aclose(self.contributions.take_executors(sources))
        await self.services.aclose()
        if toolsets := self.contributions.catalogue.toolsets:
            from pegboard.toolsets.toolset import close_all  # only for toolsets, as below

            for failure in await close_all(toolsets):
                log_failure("closing a toolset", failure)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _load(self, *hooks: str) -> None:
        """Imports the plugins that implement one of these hooks."""
        for load in self.contributions.unloaded(*hooks):
            await self._get_dispatcher().runtime.threads.run(load)

    async def _executor(self, name: str) -> Executor | ToolExecutor:
        """The executor of this name, as `Contributions.executor` finds it; in a thread, if that may take long."""
        executor = self.contributions.ready_executor(name)
        return executor or await self._get_dispatcher().runtime.threads.run(self.contributions.executor, name)

    def _get_dispatcher(self) -> Dispatcher:
        """The dispatcher, made at first use."""
        if self._dispatcher is None:
            from pegboard.dispatch.dispatcher import Dispatcher

            with self.contributions.lock:
                if self._dispatcher is None:
                    own = self._executor, self._prepare_all
                    self._dispatcher = Dispatcher(self.limits, self.services, self._grants, *own)
                    self.services.changed = self._prepare_again
        return self._dispatcher

    def _prepare_all(self) -> tuple[CallSnapshot, Settings]:
        """What calls need, after importing the plugins that take part in them; may block."""
        for load in self.contributions.unloaded(*TOOL_STAGES):
            load()
        return self._prepare(None)[2:]

    def _prepare_again(self) -> None:
        with self.contributions.lock:
            self._prepared = {}

    def _prepare(self, resolved: ResolvedTools | None) -> _Prepared:
        """The catalogue, the dispatcher, and what calls of these tools need; made once per catalogue and request."""
        with self.contributions.lock:
            known, catalogue = self._prepared, self.contributions.catalogue
            if None not in known or known[None][0] is not catalogue:
                self.contributions.check_rules(self._permissions)
                dispatcher = self._get_dispatcher()
                dispatcher.set_permissions(self._permissions)
                find = self.contributions.find_tool
                made = dispatcher.prepare(find, catalogue.ordered, catalogue.callbacks, self._approver)
                known = self._prepared = {None: (catalogue, dispatcher, *made)}
            if resolved is not None and resolved not in known:
                self._check_own(resolved)
                _, dispatcher, snapshot, settings = known[None]
                find = partial(self.contributions.find_tool, resolved=resolved)
                named = {tool.name: tool for tool in resolved if tool.offered}
                snapshot = attrs.evolve(snapshot, find=find, named=named, tools=(*resolved.tools, *resolved.findable))
                known = self._prepared = {None: known[None], resolved: (catalogue, dispatcher, snapshot, settings)}
            return known[resolved]

    async def _ready(
        self, names: Sequence[str], resolved: ResolvedTools | None, context: ReadonlyContext | ToolContext
    ) -> _Prepared:
        """`_prepare` for calls of these names; imports the plugins that they need."""
        checked("context", context, ReadonlyContext, ToolContext)
        await self._load(*TOOL_STAGES)
        if resolved is None and names:
            resolved = await self._callable(names, context)
        return self._prepare(resolved)

    def _check_own(self, resolved: ResolvedTools) -> None:
        if resolved.registry not in (None, self):
            raise ValueError("these tools were resolved by another registry, by its rules; resolve them with this one")

    async def _callable(self, names: Sequence[str], context: ReadonlyContext | ToolContext) -> ResolvedTools | None:
        """The tools for calls without resolved ones, of toolsets for names that no static tool has; `None`: all."""
        texts = {name for name in names if isinstance(name, str)}  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        if texts - self.contributions.catalogue.tools.keys() or self.contributions.catalogue.has_transforms:
            await self._load("register_toolsets")
        await self._load("register_predicates", "register_transforms")
        catalogue = self.contributions.catalogue
        missing = texts - catalogue.tools.keys()
        if (toolsets := catalogue.toolsets) and catalogue.transforms is None:
            from pegboard.toolsets.toolset import may_contain

            toolsets = [each for each in toolsets if may_contain(each, missing)]
        if not (self._where or toolsets or catalogue.transforms or await self._is_checked()):
            return None
        return await self._resolve(toolsets, context.request if isinstance(context, ToolContext) else context)

    async def _resolve(self, toolsets: Sequence[Toolset], context: ReadonlyContext, **options: Any) -> ResolvedTools:
        """`resolve_tools` of what is registered now, by what this registry always requires, within its limits."""
        from pegboard.toolsets.predicates import Custom, all_of
        from pegboard.toolsets.resolve import resolve_tools

        catalogue, permissions, limits = self.contributions.catalogue, self._permissions, self.limits
        always = [catalogue.predicate(each) for each in self._where]  # each time, as plugins may have added some
        if permissions is not None:
            always.append(Custom(lambda tool, _: not permissions.hides(tool), "permitted", reads_context=False))
        options["default"] = all_of(*always) if always else None
        options["check"] = self._check if await self._is_checked() else None
        timeouts = {"toolset_timeout": limits.toolset_timeout, "predicate_timeout": limits.predicate_timeout}
        own: Any = {"conflicting": catalogue.conflicting, "transforms": catalogue.transforms, **timeouts}
        return await resolve_tools(catalogue.ordered, toolsets, context, **own, **options)

    async def _is_checked(self) -> bool:
        """Whether a resolution is checked now; imports the plugins that may check it."""
        await self._load("check_tools")
        return self.contributions.is_checked()

    async def _check(self, resolved: ResolvedTools) -> ResolvedTools:
        """What the `check_tools` callbacks leave of resolved tools."""
        from pegboard.dispatch.checks import check_tools

        chain, catalogue = await self.chain("check_tools"), self.contributions.catalogue
        required = catalogue.required_check
        missing = None if required is None else catalogue.lacks_check(required)
        return await check_tools(resolved, chain, self.contributions.config, required=required, missing=missing)
