"""Request processors in order: `Processor`, `Pipeline`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from attrs import Factory, field, frozen

from pegboard.callbacks import Callback, by_name, settle
from pegboard.errors import ProcessorError, RegistrationError, did_you_mean, suggest
from pegboard.request.model_request import ModelRequest, ProcessorProblem
from pegboard.threads import off_loop
from pegboard.timeout import LimitExpiredError, cancels_the_call, within
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext, ToolContext
from pegboard.tools.spec import HOST, Origin
from pegboard.tools.tool import docstring_of
from pegboard.toolsets.toolset import error_text

if TYPE_CHECKING:
    from pegboard.tools.services import Services

_NO_SERVICES: Final[Mapping[Any, Any]] = {}
_TIMEOUT: Final = 10.0  # seconds that one processor, one tool or one toolset has for its part
_OffLoop: TypeAlias = Callable[..., Awaitable[Any]]  # calls a plain function with its arguments off the event loop


@frozen
class Runner:
    """Runner of code of others: what it does wrong becomes an error, and it can't hold up the loop.

    Attributes:
        off_loop: Where plain functions run that don't say that they are quick.
        timeout: Seconds for one answer; `None` is no limit. What has not ended by then is cancelled and left behind.
        services: Finds memory, artifacts and services for the code of others.
    """

    off_loop: _OffLoop = off_loop
    timeout: float | None = _TIMEOUT
    services: ToolContext = field(factory=ToolContext)

    async def ask(self, link: Callback, *arguments: Any) -> Any:
        """What a function answers, plain or async.

        Raises:
            BaseException: Whatever it raised.
            TimeoutError: It gave no answer in time.
        """

        async def answered() -> Any:
            answer = await self.off_loop(link.function, *arguments) if link.blocking else link.function(*arguments)
            return await settle(answer)

        try:
            return await within(self.timeout, answered())
        except LimitExpiredError:
            raise TimeoutError(f"gave no answer within {self.timeout:g} s") from None


_ProcessorFunction: TypeAlias = Callable[..., Any]
"""`(request, context) -> ModelRequest | None`, plain or async; `None` leaves the request as it is."""

_TAKES: Final = ("request", "context", "runner", "services")
"""What a processor may ask for, by name: the `ModelRequest`, the `ReadonlyContext`, the `Runner` of other code, and the
`ToolContext` by which it has `memory`, `artifacts` and services (`await services.use(Database)`)."""


@frozen
class Placed:
    """A processor, and where it is to stand: `register("memory", Placed(add_memory, before="pack_tools"))`.

    Attributes:
        function: The processor.
        before: The name of the processor that it stands before, or `None`.
        after: The name of the one that it stands behind, or `None`; one of the two.

    Raises:
        ValueError: Both are given, or neither.
    """

    function: _ProcessorFunction
    before: str | None = field(default=None, kw_only=True)
    after: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if (self.before is None) is (self.after is None):
            raise ValueError("a processor is placed before another or after one: name one of the two")


def _link(processor: Processor) -> Callback:
    try:
        return Callback(by_name(processor.function, _TAKES))
    except TypeError as error:
        raise RegistrationError(f"request processor {processor.name!r}: {error}") from None


def _check_name(_processor: Any, _attribute: Any, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise RegistrationError(f"a request processor's name has to be a text, not {name!r:.80}")


@frozen
class Processor:
    """One named step by which a request is made ready.

    Attributes:
        name: What it is found by.
        function: What is called.
        owner: Who brought it. What a plugin's does wrong costs only itself; what the host's does wrong is raised.
        built_in: Whether it came with pegboard.
        registered: Whether a plugin or `registry.add` has registered it; it goes when that goes.

    Raises:
        RegistrationError: The function takes something that there isn't, or is none.
    """

    name: str = field(validator=_check_name)
    function: _ProcessorFunction
    owner: Origin = HOST
    built_in: bool = False
    registered: bool = False
    link: Callback = field(init=False, eq=False, repr=False, default=Factory(_link, takes_self=True))

    @classmethod
    def of(cls, name: str, thing: _ProcessorFunction | Placed, owner: Origin) -> Processor:
        """A processor that is registered with the registry.

        Raises:
            RegistrationError: The function takes something that there isn't, or is none.
        """
        return cls(name, thing.function if isinstance(thing, Placed) else thing, owner, registered=True)

    @property
    def summary(self) -> str:
        """What it does: the first line of its docstring, or `""`."""
        return next(iter(docstring_of(self.function).description.splitlines()), "")

    async def ask(self, request: Any, context: Any, runner: Runner) -> Any:
        """What it makes of a request; a built-in one bounds what it asks of others by itself.

        Raises:
            BaseException: As `Runner.ask`.
        """
        arguments = (request, context, runner, runner.services)
        return await (settle(self.link.function(*arguments)) if self.built_in else runner.ask(self.link, *arguments))


_Observer: TypeAlias = Callable[[str, BaseException], None]  # called with who failed, and how
_Brought: TypeAlias = tuple[str, "_ProcessorFunction | Placed", Origin]  # a name, what was registered, and by whom

STARTS: Final = ("tool_requests", "instructions")
"""The steps that add what tools and toolsets want; registered ones stand right behind them."""


@frozen
class Pipeline:
    """The named steps by which a request is made ready. Changing it gives a new one.

    Attributes:
        processors: In order.
        timeout: Seconds that one step has; `None` is no limit. Built-in ones give it to each tool and toolset instead.
        removed: The names of those that were taken out, so that they don't come back from the registry.

    Raises:
        RegistrationError: Two have one name.
    """

    processors: tuple[Processor, ...] = field(default=(), converter=tuple[Processor, ...])
    timeout: float | None = _TIMEOUT
    removed: frozenset[str] = field(default=frozenset(), repr=False)

    def __attrs_post_init__(self) -> None:
        names = self.names
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise RegistrationError(f"request processor {twice!r} stands there twice; give one another name")

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(processor.name for processor in self.processors)

    def get(self, name: str) -> Processor:
        """The processor of this name.

        Raises:
            RegistrationError: There is none; with near misses.
        """
        return self.processors[self._place(name)]

    def insert_before(
        self, name: str, new_name: str, function: _ProcessorFunction, *, owner: Origin = HOST
    ) -> Pipeline:
        """A pipeline with one more, before that of `name`.

        Raises:
            RegistrationError: There is no `name`, `new_name` is taken, or the function takes something else.
        """
        return self._with(self._place(name), Processor(new_name, function, owner))

    def insert_after(self, name: str, new_name: str, function: _ProcessorFunction, *, owner: Origin = HOST) -> Pipeline:
        """A pipeline with one more, behind that of `name`.

        Raises:
            RegistrationError: As `insert_before`.
        """
        return self._with(self._place(name) + 1, Processor(new_name, function, owner))

    def append(self, name: str, function: _ProcessorFunction, *, owner: Origin = HOST) -> Pipeline:
        """A pipeline with one more at its end.

        Raises:
            RegistrationError: The name is taken, or the function takes something else.
        """
        return self._with(len(self.processors), Processor(name, function, owner))

    def replace(self, name: str, function: _ProcessorFunction, *, owner: Origin = HOST) -> Pipeline:
        """A pipeline in which another function stands in that place, under the same name.

        Raises:
            RegistrationError: There is no `name`, or the function takes something else.
        """
        place = self._place(name)
        return self._spliced(place, place + 1, Processor(name, function, owner))

    def remove(self, name: str) -> Pipeline:
        """A pipeline without that one.

        Raises:
            RegistrationError: There is none of this name; with near misses.
        """
        place = self._place(name)
        return attrs.evolve(self._spliced(place, place + 1), removed=self.removed | {name})

    def with_brought(self, brought: Iterable[_Brought]) -> Pipeline:
        """A pipeline with what is registered now, and without what was registered and isn't any more.

        Each stands where it is `Placed`, or else right behind what tools and toolsets add, in the given order; there,
        too, where it is to stand beside a processor that there isn't. A name that the pipeline has, or that was taken
        out of it, is passed over: the host's word stands.
        """
        made = [(Processor.of(*each), each[1]) for each in brought]
        here = {processor for processor, _ in made}
        pipeline = self._spliced(0, len(self), *(each for each in self if not each.registered or each in here))
        known = {*pipeline.names, *self.removed}
        waiting = [each for each in made if each[0].name not in known]
        while waiting:
            ready = [  # what they are to stand beside is there
                (step, thing)
                for step, thing in waiting
                if not isinstance(thing, Placed) or (thing.before or thing.after) in pipeline
            ] or waiting
            for processor, thing in ready:
                pipeline = pipeline._with(_place_for(thing, pipeline), processor)  # noqa: SLF001  of this class
            waiting = [each for each in waiting if each not in ready]
        return pipeline

    async def process(
        self,
        request: ModelRequest,
        context: ReadonlyContext = EMPTY_CONTEXT,
        *,
        run: _OffLoop = off_loop,
        observe: _Observer | None = None,
        services: Services | Mapping[Any, Any] = _NO_SERVICES,
    ) -> ModelRequest:
        """The request, made ready step by step.

        What a plugin's step, tool or toolset does wrong (it raises, is late, or gives something that is no request)
        costs only itself: the request goes on as it was before, and its `problems` say so.

        Args:
            request: What the host asks.
            context: The user and session.
            run: Calls plain functions off the event loop.
            observe: Called with each problem as it happens.
            services: What is provided, by type; what is opened for one call is open until the request is ready.

        Raises:
            ProcessorError: A step of the host's own failed.
            asyncio.CancelledError: The caller was cancelled.
        """
        runner = Runner(run, self.timeout, ToolContext(context, services=services))
        request = request.evolve(problems=()) if request.problems else request
        try:
            for processor in self.processors:
                before = request.problems
                request = await _processed(processor, request, context, runner)
                if observe is not None:
                    for problem in request.problems[len(before) :]:
                        observe(problem.who, problem.error or RuntimeError(problem.cause))
        finally:
            await runner.services.internals.close_services()
        return request

    def _place(self, name: str) -> int:
        names = self.names
        if name in names:
            return names.index(name)
        near = did_you_mean(suggest(str(name), names))
        raise RegistrationError(
            f"no request processor is called {name!r}.{near} There are {', '.join(names) or 'none'}"
        )

    def _with(self, place: int, processor: Processor) -> Pipeline:
        if processor.name in self.names:
            taken = self.get(processor.name)
            whose = "pegboard" if taken.built_in else str(taken.owner)
            raise RegistrationError(f"request processor {processor.name!r} is taken: {whose} has brought one")
        return self._spliced(place, place, processor)

    def _spliced(self, start: int, end: int, *processors: Processor) -> Pipeline:
        changed = (*self.processors[:start], *processors, *self.processors[end:])
        return attrs.evolve(self, processors=changed, removed=self.removed - {each.name for each in processors})

    def __iter__(self) -> Iterator[Processor]:
        return iter(self.processors)

    def __len__(self) -> int:
        return len(self.processors)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def _place_for(thing: _ProcessorFunction | Placed, pipeline: Pipeline) -> int:
    """Where it stands: where it is placed, else behind the first steps and those registered before."""
    names = pipeline.names
    if isinstance(thing, Placed):
        if thing.before in names:
            return names.index(thing.before)
        if thing.after in names:
            return names.index(thing.after) + 1
    place = max((place + 1 for place, name in enumerate(names) if name in STARTS), default=0)
    while place < len(names) and pipeline.processors[place].registered:
        place += 1
    return place


async def _processed(
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
        return request.with_problems(ProcessorProblem(processor.name, cause, processor.owner, error=error))


def answered(answer: object, request: ModelRequest, owner: Origin) -> ModelRequest:
    """The next request by a processor's answer; what a plugin's has made of the tools is that plugin's.

    Raises:
        TypeError: It is neither a request nor `None`.
        SchemaError: A tool that it brings is refused.
    """
    if answer is None:
        return request
    if not isinstance(answer, ModelRequest):
        raise TypeError(f"gave {type(answer).__name__}; it may give a ModelRequest or None")
    if owner.plugin is not None and answer.tools is not None and answer.tools is not request.tools:
        answer = answer.evolve(tools=answer.tools.brought_by(owner, request.tools))
    return answer.keeping_problems(request)


def built_in(*named: tuple[str, Callable[..., Any]]) -> Pipeline:
    """A pipeline of processors that come with pegboard."""
    return Pipeline(tuple(Processor(name, function, built_in=True) for name, function in named))
