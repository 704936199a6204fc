"""Request processors in order: `Processor`, `Pipeline`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from attrs import field, frozen

from pegboard.callbacks import Callback, accept_keywords, maybe_await
from pegboard.errors import ProcessorError, RegistrationError, did_you_mean, suggest, tuple_of
from pegboard.request.model_request import ModelRequest, processor_problem
from pegboard.threads import run_in_thread
from pegboard.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.signature import docstring_of
from pegboard.tools.spec import HOST, Origin
from pegboard.toolsets.filters import error_text

if TYPE_CHECKING:
    from pegboard.tools.services import Services

_NO_SERVICES: Final[Mapping[Any, Any]] = {}
_TIMEOUT: Final = 10.0  # seconds for each processor, tool or toolset
_OffLoop: TypeAlias = Callable[..., Awaitable[Any]]  # calls a plain function with its arguments off the event loop


@frozen
class Runner:
    """Runner of third-party code: off the event loop if it may block, and abandoned after the timeout in seconds."""

    run_in_thread: _OffLoop = run_in_thread
    timeout: float | None = _TIMEOUT
    context: ToolContext = field(factory=ToolContext)

    async def ask(self, link: Callback, *arguments: Any) -> Any:
        """The answer of a function, plain or async; raises whatever that raises, or a `TimeoutError`."""

        async def call() -> Any:
            answer = await self.run_in_thread(link.function, *arguments) if link.blocking else link.function(*arguments)
            return await maybe_await(answer)

        try:
            return await within(self.timeout, call())
        except LimitExpiredError:
            raise TimeoutError(f"gave no answer within {self.timeout:g} s") from None


_ProcessorFunction: TypeAlias = Callable[..., Any]
"""`(request, context) -> ModelRequest | None`, plain or async; `None` leaves the request as it is."""

_TAKES: Final = ("request", "context", "runner", "services")
"""Parameters that a processor may have: the `ModelRequest`, the `ReadonlyContext`, the `Runner` of third-party code,
and the `ToolContext`, for `memory`, `artifacts` and services (`await services.use(Database)`)."""


@frozen
class Position:
    """A processor and its position: `register("memory", Position(add_memory, before="pack_tools"))`.

    Attributes:
        function: The processor.
        before: The name of the processor that it goes before, or `None`.
        after: The name of the processor that it goes after, or `None`; one of the two.

    Raises:
        ValueError: Both are given, or neither.
    """

    function: _ProcessorFunction
    before: str | None = field(default=None, kw_only=True)
    after: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if (self.before is None) is (self.after is None):
            raise ValueError("a processor is placed before or after another one: give exactly one of the two")


@frozen
class Processor:
    """One named step of a pipeline; a `RegistrationError` if the function has an unknown parameter or isn't callable.

    A plugin's failing step is skipped; the host's errors are raised.
    """

    name: str
    function: _ProcessorFunction
    owner: Origin = HOST
    built_in: bool = False
    registered: bool = False  # by a plugin or `registry.add`; it is removed along with that
    position: Position | None = field(default=None, eq=False)  # `None`: after the first steps
    link: Callback = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"a request processor's name must be a text, not empty, got {self.name!r:.80}")
        try:
            object.__setattr__(self, "link", Callback(accept_keywords(self.function, _TAKES)))
        except TypeError as error:
            raise RegistrationError(f"request processor {self.name!r}: {error}") from None

    @classmethod
    def of(cls, name: str, thing: _ProcessorFunction | Position, owner: Origin) -> Processor:
        """A processor that is registered with the registry."""
        if isinstance(thing, Position):
            return cls(name, thing.function, owner, registered=True, position=thing)
        return cls(name, thing, owner, registered=True)

    @property
    def summary(self) -> str:
        """The first line of its docstring, or `""`."""
        return next(iter(docstring_of(self.function).description.splitlines()), "")

    async def ask(self, request: Any, context: Any, runner: Runner) -> Any:
        """Calls it; a built-in one limits the third-party code that it calls by itself. Raises as `Runner.ask`."""
        arguments = (request, context, runner, runner.context)
        return await (
            maybe_await(self.link.function(*arguments)) if self.built_in else runner.ask(self.link, *arguments)
        )


_Observer: TypeAlias = Callable[[str, BaseException], None]  # called with what failed, and the error
_STARTS: Final = ("tool_requests", "instructions")  # the steps for what tools and toolsets require


@frozen
class Pipeline:
    """Immutable sequence of the named processors of a request; its methods return changed copies.

    Attributes:
        processors: In order.
        timeout: Seconds for each step; `None` is no limit. In built-in ones it is for each tool and toolset instead.
        removed: The names of removed ones, so that they aren't added again from the registry.

    Raises:
        RegistrationError: Two have the same name.
    """

    processors: tuple[Processor, ...] = field(default=(), converter=tuple_of("processors", Processor))
    timeout: float | None = _TIMEOUT
    removed: frozenset[str] = field(default=frozenset(), repr=False)

    def __attrs_post_init__(self) -> None:
        names = self.names
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise RegistrationError(f"request processor {twice!r} is there twice; rename one of them")

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(processor.name for processor in self.processors)

    def get(self, name: str) -> Processor:
        """The processor with this name.

        Raises:
            RegistrationError: There is none; with near misses.
        """
        return self.processors[self._place(name)]

    def insert_before(
        self, name: str, new_name: str, function: _ProcessorFunction, *, owner: Origin = HOST
    ) -> Pipeline:
        """A pipeline with one more processor, before `name`.

        Raises:
            RegistrationError: There is no `name`, `new_name` is taken, or the function has an unknown parameter.
        """
        return self._with(self._place(name), Processor(new_name, function, owner))

    def insert_after(self, name: str, new_name: str, function: _ProcessorFunction, *, owner: Origin = HOST) -> Pipeline:
        """A pipeline with one more processor, after `name`.

        Raises:
            RegistrationError: As `insert_before`.
        """
        return self._with(self._place(name) + 1, Processor(new_name, function, owner))

    def append(self, name: str, function: _ProcessorFunction, *, owner: Origin = HOST) -> Pipeline:
        """A pipeline with one more processor at the end.

        Raises:
            RegistrationError: The name is taken, or the function has an unknown parameter.
        """
        return self._with(len(self.processors), Processor(name, function, owner))

    def replace(self, name: str, function: _ProcessorFunction, *, owner: Origin = HOST) -> Pipeline:
        """A pipeline with another function under this name, in the same place.

        Raises:
            RegistrationError: There is no `name`, or the function has an unknown parameter.
        """
        place = self._place(name)
        return self._splice(place, place + 1, Processor(name, function, owner))

    def remove(self, name: str) -> Pipeline:
        """A pipeline without this processor.

        Raises:
            RegistrationError: There is no `name`; with near misses.
        """
        place = self._place(name)
        return attrs.evolve(self._splice(place, place + 1), removed=self.removed | {name})

    def with_registered(self, registered: Iterable[tuple[str, _ProcessorFunction | Position, Origin]]) -> Pipeline:
        """A pipeline with the processors that are registered now, and without those that no longer are.

        Each goes to its `Position`; else, or without such a neighbour, after the first steps, in the given order. Names
        that the pipeline has, or that the host has removed from it, are skipped.
        """
        made = [Processor.of(*each) for each in registered]  # a list, as a processor needn't be hashable
        pipeline = attrs.evolve(self, processors=[each for each in self if not each.registered or each in made])
        known = {*pipeline.names, *self.removed}
        waiting = [each for each in made if each.name not in known]
        while waiting:
            placed = (each for each in waiting if (at := each.position) is None or (at.before or at.after) in pipeline)
            processor = next(placed, waiting[0])
            waiting.remove(processor)
            pipeline = pipeline._with(pipeline._index_at(processor.position), processor)  # noqa: SLF001  of this class
        return pipeline

    async def process(
        self,
        request: ModelRequest,
        context: ReadonlyContext = EMPTY_CONTEXT,
        *,
        run: _OffLoop = run_in_thread,
        observe: _Observer | None = None,
        services: Services | Mapping[Any, Any] = _NO_SERVICES,
    ) -> ModelRequest:
        """Runs the processors on a request, in order.

        A plugin's step, tool or toolset that fails (it raises, takes too long, or doesn't return a request) is skipped:
        the request stays as it was, with one more of its `problems`.

        Args:
            request: The host's request.
            context: The user and session.
            run: Calls plain functions off the event loop.
            observe: Called with each problem as it happens.
            services: Services by type; those opened for one call are closed once the request is ready.

        Raises:
            ProcessorError: A step of the host's own failed.
            asyncio.CancelledError: The caller was cancelled.
        """
        runner = Runner(run, self.timeout, ToolContext(context, services=services))
        request = request.evolve(problems=()) if request.problems else request
        try:
            for processor in self.processors:
                before = request.problems
                request = await _process(processor, request, context, runner)
                if request.problems is before:
                    continue
                own = processor_problem(processor.name, "", processor.owner).subject
                new = [each.evolve(subject=each.subject or own) for each in request.problems[len(before) :]]
                request = attrs.evolve(request, problems=(*before, *new))
                if observe is not None:
                    for problem in new:
                        observe(problem.subject or "", problem.error or RuntimeError(problem.cause))
        finally:
            await runner.context.internals.close_services()
        return request

    def _place(self, name: str) -> int:
        names = self.names
        if name in names:
            return names.index(name)
        near, known = did_you_mean(suggest(str(name), names)), ", ".join(names) or "none"
        raise RegistrationError(f"no request processor is called {name!r}.{near} There are {known}")

    def _index_at(self, position: Position | None) -> int:
        """The index at a position; without one, or without its neighbour, that after the first steps."""
        names = self.names
        if position is not None and (neighbour := position.before or position.after) in names:
            return names.index(neighbour) + (position.before is None)
        index = max((index + 1 for index, name in enumerate(names) if name in _STARTS), default=0)
        while index < len(names) and self.processors[index].registered:
            index += 1
        return index

    def _with(self, place: int, processor: Processor) -> Pipeline:
        if processor.name in self.names:
            taken = self.get(processor.name)
            whose = "pegboard" if taken.built_in else str(taken.owner)
            raise RegistrationError(f"request processor {processor.name!r} is taken: {whose} has registered one")
        return self._splice(place, place, processor)

    def _splice(self, start: int, end: int, *processors: Processor) -> Pipeline:
        changed = (*self.processors[:start], *processors, *self.processors[end:])
        return attrs.evolve(self, processors=changed, removed=self.removed - {each.name for each in processors})

    def __iter__(self) -> Iterator[Processor]:
        return iter(self.processors)

    def __len__(self) -> int:
        return len(self.processors)

    def __contains__(self, name: object) -> bool:
        return name in self.names


async def _process(
    processor: Processor, request: ModelRequest, context: ReadonlyContext, runner: Runner
) -> ModelRequest:
    try:
        return answered(await processor.ask(request, context, runner), request, processor.owner)
    except BaseException as error:  # a plugin's SystemExit costs its own part only
        if cancels_the_call(error):
            raise
        cause = error_text(error)
        if processor.owner.plugin is None:
            raise ProcessorError(cause, processor=processor.name) from error
        return request.with_problems(processor_problem(processor.name, cause, processor.owner, error=error))


def answered(answer: object, request: ModelRequest, owner: Origin) -> ModelRequest:
    """The next request, from a processor's answer; tools that a plugin's processor adds or replaces get its origin."""
    if answer is None:
        return request
    if not isinstance(answer, ModelRequest):
        raise TypeError(f"returned {type(answer).__name__}; it must return a ModelRequest or None")
    if owner.plugin is not None and answer.tools is not None and answer.tools is not request.tools:
        answer = answer.evolve(tools=answer.tools.provided_by(owner, request.tools))
    return answer.keeping_problems(request)


def built_in(*named: tuple[str, Callable[..., Any]]) -> Pipeline:
    """A pipeline of processors that come with pegboard."""
    return Pipeline(tuple(Processor(name, function, built_in=True) for name, function in named))
