"""Dependency injection by type: `Injected` parameters, services and their factories, containers of open services."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import threading
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast, get_args, get_origin

from attrs import field

from pegboard.callbacks import CallableKind
from pegboard.errors import MissingServiceError, log_failure
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")
Kind: TypeAlias = type[T] | Callable[..., T]
"""The type of a service, for type checkers: some refuse a protocol or an abstract class as `type[T]` alone."""

_NO_CLASSES: Final = (types.UnionType, Annotated)  # classes without instances that could be services


def class_of_kind(kind: Any) -> Any:
    """`Repository` of `Repository[User]`; anything else unchanged."""
    return get_origin(kind) or kind


def is_kind(kind: Any) -> bool:
    """Whether services can be provided for it: a class or protocol, perhaps with its parameters filled in."""
    cls = class_of_kind(kind)
    return isinstance(cls, type) and cls not in _NO_CLASSES


def name_of_kind(kind: Any) -> str:
    """The name of a type for people: `Database`, `Repository[User]`."""
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def path_of_kind(kind: Any) -> str:
    """The path of a type, as in manifests: `pegboard.tools.stores.Memory`."""
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)


@frozen
class _Marker:
    def __repr__(self) -> str:
        return "injected"


_INJECTED: Final = _Marker()
Injected: TypeAlias = Annotated[T, _INJECTED]
"""`db: Injected[Database]`: filled with the service of `registry.provide(Database, ...)`; hidden from the model.

With a default, the tool also runs if none is provided.
"""


def injected_kind(annotation: Any) -> Any:
    """The type of the service that a parameter's annotation injects, or `None`."""
    if get_origin(annotation) is Annotated:
        kind, *markers = get_args(annotation)
        if _INJECTED not in markers:
            return injected_kind(kind)
        kinds = [each for each in _members(kind) if each is not type(None)]
        return kinds[0] if len(kinds) == 1 else kind  # `Database` of `Database | None`
    return next((kind for each in _members(annotation) if (kind := injected_kind(each)) is not None), None)


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else ()


ServiceScope: TypeAlias = Literal["call", "registry"]
"""The lifetime of a factory's instances: one call, or until the registry is closed."""

_Context: TypeAlias = Any  # A `ToolContext`; its module imports this one
_STARRED: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@frozen(eq=False)
class _Provided:
    """A service as the host provides it: a value or a factory."""

    kind: Any
    value: Any = None
    make: Callable[[_Context], Any] | None = None  # gives the value, an awaitable of it, or a context manager
    scope: ServiceScope = "call"

    @property
    def name(self) -> str:
        return name_of_kind(self.kind)


def _provided(kind: Any, thing: Any, *, scope: ServiceScope | None = None) -> _Provided:
    """The entry that `Services.provide` stores. An instance of the type, or anything not callable, is a value."""
    if not is_kind(kind):
        raise TypeError(f"a service is provided for a class or protocol, not for {kind!r:.80}")
    if scope not in (None, "call", "registry"):
        raise TypeError(f'scope is "call" or "registry", not {scope!r:.80}')
    if not _is_factory(kind, thing):
        return _Provided(kind, thing)
    parameter = _context_parameter(thing, kind)
    if parameter is not None and scope == "registry":
        what = f"the factory of {name_of_kind(kind)} takes {parameter.name}"
        raise TypeError(f"{what}; it makes one for all calls of the registry, so it gets no call's context")
    return _Provided(kind, None, _maker(thing, parameter), scope or "call")


def _is_factory(kind: Any, thing: Any) -> bool:
    if not callable(thing):
        return False
    cls = class_of_kind(kind)
    try:
        is_instance = isinstance(thing, cls)
    except TypeError:  # a protocol that isn't runtime_checkable
        is_instance = False
    if inspect.isroutine(thing) or isinstance(thing, type | functools.partial):  # pyright: ignore[reportUnknownArgumentType]
        return not is_instance
    # Conformance to a protocol can't be checked at run time; an object that isn't a function is taken as conforming.
    return not (getattr(cls, "_is_protocol", False) or is_instance)


def _context_parameter(factory: Any, kind: Any) -> inspect.Parameter | None:
    """The parameter that gets the context: the required one, else one called `context`."""
    try:
        every = [*inspect.signature(factory).parameters.values()]
    except ValueError:  # some builtins have no signature
        return None
    parameters = [each for each in every if each.kind not in _STARRED]
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    if len(required) > 1:
        names = ", ".join(each.name for each in required)
        raise TypeError(f"the factory of {name_of_kind(kind)} takes {names}; only the context is passed")
    return next(iter(required), None) or next((each for each in parameters if each.name == "context"), None)


def _maker(factory: Callable[..., Any], parameter: inspect.Parameter | None) -> Callable[[_Context], Any]:
    """The factory as a function of the context; a generator becomes a context manager."""
    flavour = CallableKind.of(factory)
    if flavour is CallableKind.GENERATOR:
        factory = contextlib.contextmanager(factory)
    elif flavour is CallableKind.ASYNC_GENERATOR:
        factory = contextlib.asynccontextmanager(factory)
    if parameter is None:
        return lambda _context: factory()
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        return factory
    name = parameter.name
    return lambda context: factory(**{name: context})


@frozen(eq=False)
class _OpenService:
    provided: _Provided
    value: Any
    manager: Any = None  # to exit at the end
    loop: asyncio.AbstractEventLoop | None = None  # where it was opened, if that needed an event loop
    is_async: bool = False  # whether exiting the manager needs one, too

    @property
    def is_lost(self) -> bool:
        """Whether the event loop that it was opened in is closed."""
        return self.loop is not None and self.loop.is_closed()


def _has(thing: object, method: str) -> bool:
    """Whether the class of a factory's result has this method, as `with` looks it up."""
    return hasattr(type(thing), method)


def _call_factory(provided: _Provided, context: _Context, now: bool) -> tuple[Any, Any]:
    """The result of a factory, entered in the same thread if that needs no event loop; and the manager to exit."""
    assert provided.make is not None
    made = provided.make(context)
    waits = isawaitable(cast("object", made)) or _has(made, "__aenter__")
    if _has(made, "__enter__") and (now or not waits):
        return made.__enter__(), made
    if waits and now:
        if iscoroutine(made):
            made.close()
        raise _not_open_error(provided)
    return made, None


def _not_open_error(provided: _Provided) -> MissingServiceError:
    """The error for a service that can't be opened without awaiting."""
    name = provided.name
    return MissingServiceError(
        f"{name} isn't open yet, and opening it needs an event loop: write 'await context.use({name})', or in a plain "
        f"function 'context.wait(context.use({name}))'",
        kind=provided.kind,
    )


_OffLoop: TypeAlias = Callable[..., Awaitable[Any]]  # calls a function with its arguments off the event loop
CLOSE_SECONDS: Final = 10.0  # the time limit for closing one service
# The services whose factories are running here, the innermost last:
_opening: Final[contextvars.ContextVar[tuple[_Provided, ...]]] = contextvars.ContextVar("opening", default=())


class _GivenUpError(Exception):
    """The call that was opening a service was cancelled; another may retry."""


@define(eq=False)
class ServiceContainer:
    """Service container: the open instances of one call or of a registry.

    Attributes:
        run_in_thread: Runs plain factories, which may block, in a thread; `None`: they run in place.
        for_call: Whether it belongs to a call, after which it opens nothing.
    """

    run_in_thread: _OffLoop | None = None
    for_call: bool = False
    _found: dict[_Provided, Future[_OpenService]] = field(factory=dict[_Provided, "Future[_OpenService]"], init=False)
    _order: list[_OpenService] = field(factory=list[_OpenService], init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def use(self, provided: _Provided, context: _Context, *, now: bool = False) -> Any:
        """The service, opened once by its first user; concurrent users wait for it.

        `now`: do without an event loop, so that the coroutine ends at its first step.

        Raises:
            MissingServiceError: Its factory needs itself, the call is over, or it has to be awaited despite `now`.
            BaseException: Any exception of the factory; the next use retries.
        """
        from concurrent.futures import Future  # which imports logging

        while True:
            with self._lock:
                future = self._found.get(provided)
                is_mine = future is None
                if future is None:
                    self._refuse_when_closed(provided)
                    future = self._found[provided] = Future[_OpenService]()
                    future.set_running_or_notify_cancel()  # so that a cancelled waiter can't cancel it for the others
            if is_mine:
                return await self._open(provided, context, future, now)
            try:
                opened = await self._opened_by_another(provided, context, future, now)
            except _GivenUpError:
                continue
            if not opened.is_lost:
                return opened.value
            self._forget(provided, future)

    async def close(self, error: BaseException | None = None, only: Collection[_Provided] | None = None) -> None:
        """Closes the open services in reverse order; errors are logged, and don't affect the others.

        Args:
            error: The exception that ended the call, for context managers that roll back; or `None`.
            only: The services to close; `None`: all.

        Raises:
            asyncio.CancelledError: The caller was cancelled; all services were closed nevertheless.
        """
        import asyncio  # loading it takes longer than listing tools

        with self._lock:
            order = [opened for opened in self._order if only is None or opened.provided in only]
            self._order = [opened for opened in self._order if opened not in order]
            others = () if only is None else self._found.keys() - {*only}
            self._found = {provided: self._found[provided] for provided in others}
            self._is_closed = self.for_call
        task, cancelled = asyncio.current_task(), None
        for opened in reversed(order):
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._leave(opened, error)
            except BaseException as failed:  # noqa: BLE001  (a service may raise anything)
                # A cancellation is the caller's if its task is being cancelled, else the service's own.
                if isinstance(failed, asyncio.CancelledError) and task is not None and task.cancelling():
                    cancelled = failed
                if failed is not error:
                    log_failure(f"closing {opened.provided.name}", failed)
        if cancelled is not None:
            raise cancelled

    def _forget(self, provided: _Provided, future: Future[_OpenService]) -> None:
        with self._lock:
            if self._found.get(provided) is future:
                del self._found[provided]
                self._order = [each for each in self._order if each.provided is not provided]

    def _refuse_when_closed(self, provided: _Provided) -> None:
        if self._is_closed:
            raise MissingServiceError(f"{provided.name} isn't opened any more: the call is over", kind=provided.kind)

    @staticmethod
    async def _opened_by_another(
        provided: _Provided, context: _Context, future: Future[_OpenService], now: bool
    ) -> _OpenService:
        if future.done():
            return future.result()
        if provided in _opening.get():
            chain = " -> ".join(each.name for each in (*_opening.get(), provided))
            raise MissingServiceError(f"circular service factories: {chain}", kind=provided.kind)
        import asyncio  # loading it takes longer than listing tools

        from pegboard.threads import running_loop

        if not now:
            return await asyncio.wrap_future(future)
        if running_loop() is not None:
            raise _not_open_error(provided)
        return future.result(context.remaining)

    async def _open(self, provided: _Provided, context: _Context, future: Future[_OpenService], now: bool) -> Any:
        """Opens the service by its factory; its waiters get the value or the error."""
        import asyncio

        token = _opening.set((*_opening.get(), provided))
        try:
            opened = await self._enter(provided, context, now)
            with self._lock:
                in_time = self._found.get(provided) is future
                if in_time and opened.manager is not None:
                    self._order.append(opened)
            if not in_time:
                await self._leave(opened, None, now)
                self._refuse_when_closed(provided)
        except BaseException as error:
            self._forget(provided, future)
            gave_up = isinstance(error, asyncio.CancelledError | GeneratorExit)
            future.set_exception(_GivenUpError() if gave_up else error)
            raise
        finally:
            _opening.reset(token)
        future.set_result(opened)
        return opened.value

    async def _enter(self, provided: _Provided, context: _Context, now: bool) -> _OpenService:
        value, manager = await self._called(now, _call_factory, provided, context, now)
        if manager is not None:
            return _OpenService(provided, value, manager)
        import asyncio  # loading it takes longer than listing tools

        loop = None
        if isawaitable(value):
            loop, value = asyncio.get_running_loop(), await value
        if _has(value, "__aenter__"):
            return _OpenService(provided, await value.__aenter__(), value, asyncio.get_running_loop(), is_async=True)
        if _has(value, "__enter__"):
            return _OpenService(provided, await self._called(now, value.__enter__), value, loop)
        return _OpenService(provided, value, None, loop)

    async def _leave(self, opened: _OpenService, error: BaseException | None, now: bool = False) -> None:
        facts = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        if opened.is_lost:
            # A generator was closed by its loop when that ended; anything else can't be closed any more.
            if getattr(getattr(opened.manager, "gen", None), "ag_frame", opened) is not None:
                raise RuntimeError("the event loop that it was opened in was closed before it")
        elif opened.is_async:
            await opened.manager.__aexit__(*facts)
        elif opened.manager is not None:
            await self._called(now, opened.manager.__exit__, *facts)

    async def _called(self, now: bool, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function that may block, off the event loop if possible."""
        if now or self.run_in_thread is None:
            return function(*arguments)
        return await self.run_in_thread(function, *arguments)


@define(eq=False)
class _Shared:
    """State that layered services share."""

    of_plugins: Callable[[str], _Provided | None]
    packages: Callable[[str], Sequence[str]]
    lock: Any = field(factory=threading.RLock)
    opened: ServiceContainer | None = None
    defaults: dict[Any, Any] = field(factory=dict[Any, Any])


class Services:
    """Services that the host provides, by type. Reads don't lock: a change replaces the mapping.

    Args:
        values: Type -> value or factory, as `provide` takes them.
        run_in_thread: Runs plain factories, which may block, in a thread; `None`: they run in place. May be set later,
            before the first service is opened.
        of_plugins: Returns the entry of a plugin for the path of a type, or `None`; loads the plugin.
        packages: Returns the packages whose plugins provide the path of a type, loaded or not.
    """

    def __init__(
        self,
        values: Mapping[Any, Any] | None = None,
        *,
        run_in_thread: _OffLoop | None = None,
        of_plugins: Callable[[str], _Provided | None] = lambda _: None,
        packages: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        self.run_in_thread = run_in_thread
        self._provided: dict[Any, _Provided] = {kind: _provided(kind, value) for kind, value in (values or {}).items()}
        self._shared = _Shared(of_plugins, packages)

    @classmethod
    def of(cls, values: Services | Mapping[Any, Any]) -> Services:
        """These values as `Services`; returns `Services` unchanged."""
        return values if isinstance(values, Services) else cls(values)

    def provide(self, kind: Any, thing: Any, *, scope: ServiceScope | None = None) -> _Provided:
        """Provides a value or a factory for a type; replaces an earlier one; returns the entry, for `withdraw`.

        Args:
            kind: A class or protocol, perhaps with type arguments.
            thing: The value, or a factory: plain, async, a generator (plain or async) that yields the value and then
                closes it, or one that returns a context manager. It gets the call's `ToolContext` if it has a required
                parameter, or one called `context`. An instance of the type, or anything not callable, is a value.
            scope: The lifetime of a factory's instances: `"call"`, by default, or `"registry"`.

        Raises:
            TypeError: `kind` isn't a type, `scope` is unknown, or the factory requires other parameters.
        """
        made = _provided(kind, thing, scope=scope)
        with self._shared.lock:
            self._provided = {**self._provided, kind: made}
        return made

    def withdraw(self, given: _Provided) -> None:
        """Removes an entry of `provide`, unless it was replaced already."""
        with self._shared.lock:
            self._provided = {kind: each for kind, each in self._provided.items() if each is not given}

    def over(self, values: Services | Mapping[Any, Any]) -> Services:
        """These services overlaid with others, which take precedence; registry-wide instances stay shared."""
        if not isinstance(values, Services) and not values:
            return self
        others = Services.of(values)
        if not others._provided:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return self
        if others._shared is self._shared:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return others
        both = Services(run_in_thread=self.run_in_thread)
        both._provided = {**self._provided, **others._provided}  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        both._shared = self._shared
        return both

    def find(self, kind: Any) -> _Provided | None:
        """The entry for this type: for exactly this type, for its only provided subclass, or by a plugin."""
        if (found := self._provided.get(kind)) is not None:
            return found
        below = [each for each in self._provided if isinstance(each, type) and kind in each.__mro__]
        if len(below) > 1:
            names = ", ".join(sorted(map(name_of_kind, below)))
            what = f"several services are a {name_of_kind(kind)}: {names}; ask for one of them"
            raise MissingServiceError(what, kind=kind)
        return self._provided[below[0]] if below else self._shared.of_plugins(path_of_kind(kind))

    async def use(self, kind: Kind[T], context: _Context) -> T:
        """The service of this type, opened if needed; raises as its factory does."""
        given = self._found(kind)
        if given.make is None:
            return given.value
        return await self._container(given, context).use(given, context)

    def use_now(self, kind: Kind[T], context: _Context) -> T:
        """The same without an event loop; raises `MissingServiceError` if it has to be awaited."""
        given = self._found(kind)
        if given.make is None:
            return given.value
        using = self._container(given, context).use(given, context, now=True)
        try:
            using.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("a coroutine without an event loop ends at its first step")

    def default(self, kind: Kind[T], make: Callable[[], T]) -> T:
        """The default for a type that isn't provided, made at first use and then shared by these services."""
        with self._shared.lock:
            if kind not in self._shared.defaults:
                self._shared.defaults[kind] = make()
            return self._shared.defaults[kind]

    async def aclose(self, only: Collection[_Provided] | None = None) -> None:
        """Closes registry-wide instances, or some of them, in reverse order; a later use opens them again."""
        if self._shared.opened is not None:
            await self._shared.opened.close(only=only)

    def __contains__(self, kind: object) -> bool:
        return self.find(kind) is not None

    def _found(self, kind: Any) -> _Provided:
        given = self.find(kind)
        if given is None:
            name = name_of_kind(kind)
            what = f"no {name} is provided; the host does it with registry.provide({name}, ...)"
            if packages := self._shared.packages(path_of_kind(kind)):
                what += f", or a plugin does once it is installed and loaded: {', '.join(packages)}"
            raise MissingServiceError(what, kind=kind)
        return given

    def _container(self, given: _Provided, context: _Context) -> ServiceContainer:
        shared = self._shared
        with shared.lock:
            if given.scope == "registry":
                shared.opened = shared.opened or ServiceContainer(self.run_in_thread)
                return shared.opened
            internals = context.internals
            internals.container = internals.container or ServiceContainer(self.run_in_thread, for_call=True)
            return internals.container
