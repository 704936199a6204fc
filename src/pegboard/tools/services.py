"""Dependency injection by type: `Injected` parameters, services and their factories, containers of open services."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import inspect
import threading
import types
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast, get_args, get_origin

from attrs import field

from pegboard.callbacks import CallableKind, maybe_await
from pegboard.errors import MissingServiceError, log_failure
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")
Kind: TypeAlias = type[T] | Callable[..., T]
"""The type of a service, for type checkers: some refuse a protocol or an abstract class as `type[T]` alone."""


def is_kind(kind: Any) -> bool:
    """Whether services can be provided for it: a class or protocol, perhaps with its parameters filled in."""
    cls = get_origin(kind) or kind
    return isinstance(cls, type) and cls not in (types.UnionType, Annotated)


def name_of_kind(kind: Any) -> str:
    """The name of a type for people: `Database`, `Repository[User]`."""
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def path_of_kind(kind: Any) -> str:
    """The path of a type, as in manifests: `pegboard.tools.stores.Memory`."""
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)


class _Marker:
    def __repr__(self) -> str:
        return "injected"


_INJECTED: Final = _Marker()
Injected: TypeAlias = Annotated[T, _INJECTED]
"""`db: Injected[Database]`: filled with the service of `registry.provide(Database, ...)`; hidden from the model.

With a default, the tool also runs if none is provided.
"""


UNIONS: Final = (typing.Union, types.UnionType)


def injected_kind(annotation: Any) -> Any:
    """The type of the service that a parameter's annotation injects, or `None`."""
    if type(annotation) is type:
        return None
    origin = get_origin(annotation)
    if origin is Annotated:
        kind, *markers = get_args(annotation)
        if _INJECTED not in markers:
            return injected_kind(kind)
        kinds = [each for each in get_args(kind) if each is not type(None)] if get_origin(kind) in UNIONS else ()
        return kinds[0] if len(kinds) == 1 else kind  # `Database` of `Database | None`
    members = get_args(annotation) if origin in UNIONS else ()
    return next((kind for each in members if (kind := injected_kind(each)) is not None), None)


ServiceScope: TypeAlias = Literal["call", "registry"]
"""The lifetime of a factory's instances: one call, or until the registry is closed."""

_Context: TypeAlias = Any  # A `ToolContext`; its module imports this one


@frozen(eq=False)
class ServiceEntry:
    """A service as it is provided: a value or a factory."""

    kind: Any
    value: Any = None
    make: Callable[[_Context], Any] | None = None  # gives the value, an awaitable of it, or a context manager
    scope: ServiceScope = "call"

    @classmethod
    def of(cls, kind: Any, thing: Any, scope: ServiceScope | None = None) -> ServiceEntry:
        """The entry of a value or a factory, as `Services.provide` takes them."""
        if not is_kind(kind):
            raise TypeError(f"a service is provided for a class or protocol, not for {kind!r:.80}")
        if scope not in (None, "call", "registry"):
            raise TypeError(f'scope is "call" or "registry", not {scope!r:.80}')
        if not _is_factory(kind, thing):
            return cls(kind, thing)
        parameter = _context_parameter(thing, kind)
        if parameter is not None and scope == "registry":
            what = f"the factory of {name_of_kind(kind)} takes {parameter.name}"
            raise TypeError(f"{what}; it makes one for all calls of the registry, so it gets no call's context")
        wrap = _MANAGED.get(CallableKind.of(thing))
        factory = wrap(thing) if wrap else thing
        if parameter is None:
            return cls(kind, None, lambda _context: factory(), scope or "call")
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            return cls(kind, None, factory)
        name = parameter.name
        return cls(kind, None, lambda context: factory(**{name: context}))

    @property
    def name(self) -> str:
        """The name of its type."""
        return name_of_kind(self.kind)


_MANAGED: Final[Mapping[CallableKind, Callable[..., Any]]] = {
    CallableKind.GENERATOR: contextlib.contextmanager,
    CallableKind.ASYNC_GENERATOR: contextlib.asynccontextmanager,
}


def _is_factory(kind: Any, thing: Any) -> bool:
    """Whether it is a factory, and no instance of the type: for a protocol, a callable object is taken for one."""
    if not callable(thing):
        return False
    cls: Any = get_origin(kind) or kind
    with contextlib.suppress(TypeError):  # a protocol that isn't runtime_checkable
        if isinstance(thing, cls):
            return False
    is_function = inspect.isroutine(thing) or isinstance(thing, type | functools.partial)
    return is_function or not getattr(cls, "_is_protocol", False)


def _context_parameter(factory: Any, kind: Any) -> inspect.Parameter | None:
    """The parameter that gets the context: the required one, else one called `context`."""
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:  # some builtins have no signature
        return None
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {name: each for name, each in parameters.items() if each.kind not in starred}
    required = [name for name, each in named.items() if each.default is inspect.Parameter.empty]
    if len(required) > 1:
        takes = ", ".join(required)
        raise TypeError(f"the factory of {name_of_kind(kind)} takes {takes}; only the context is passed")
    return named.get(required[0] if required else "context")


@frozen(eq=False)
class _OpenService:
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


def _make(entry: ServiceEntry, context: _Context, now: bool) -> Any:
    """Calls the factory; returns the open service, or what has to be awaited or entered, which `now` refuses."""
    assert entry.make is not None
    made: Any = entry.make(context)
    needs_loop = inspect.isawaitable(cast("object", made)) or _has(made, "__aenter__")
    if _has(made, "__enter__") and (now or not needs_loop):
        return _OpenService(made.__enter__(), made)
    if needs_loop and now:
        if inspect.iscoroutine(made):
            made.close()
        raise _not_open_error(entry)
    return made if needs_loop else _OpenService(made)


async def _open(entry: ServiceEntry, context: _Context, run: _Run, *, now: bool) -> _OpenService:
    made = await run(_make, entry, context, now)
    if isinstance(made, _OpenService):
        return made
    from asyncio import get_running_loop

    value, loop = await maybe_await(made), get_running_loop()
    if _has(value, "__aenter__"):
        return _OpenService(await value.__aenter__(), value, loop, is_async=True)
    if _has(value, "__enter__"):
        return _OpenService(await run(value.__enter__), value, loop)
    return _OpenService(value, None, loop)


async def _leave(opened: _OpenService, run: _Run, error: BaseException | None = None) -> None:
    facts = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    if opened.is_lost:
        # A generator was closed by its loop when that ended; anything else can't be closed any more.
        if getattr(getattr(opened.manager, "gen", None), "ag_frame", opened) is not None:
            raise RuntimeError("the event loop that it was opened in was closed before it")
    elif opened.is_async:
        await opened.manager.__aexit__(*facts)
    elif opened.manager is not None:
        await run(opened.manager.__exit__, *facts)


def _not_open_error(entry: ServiceEntry) -> MissingServiceError:
    name = entry.name
    how = f"write 'await context.use({name})', or in a plain function 'context.wait(context.use({name}))'"
    return MissingServiceError(f"{name} isn't open yet, and opening it needs an event loop: {how}", kind=entry.kind)


_Run: TypeAlias = Callable[..., Awaitable[Any]]
_Opening: TypeAlias = "Future[_OpenService | None]"  # `None`: whoever opened it was cancelled


async def run_in_place(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a plain function without a thread, and never suspends."""
    return function(*arguments)


CLOSE_SECONDS: Final = 10.0  # the time limit for closing one service
# The services whose factories are running here, the innermost last:
_opening: Final[contextvars.ContextVar[tuple[ServiceEntry, ...]]] = contextvars.ContextVar("opening", default=())


@define(eq=False)
class ServiceContainer:
    """Service container: the open instances of one call or of a registry.

    The first user of a service opens it; the others wait for its future.
    """

    run: _Run = run_in_place  # calls plain factories, which may block
    for_call: bool = False  # whether it belongs to a call, after which it opens nothing
    _futures: dict[ServiceEntry, _Opening] = field(factory=dict[Any, Any], init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    async def use(self, entry: ServiceEntry, context: _Context, *, now: bool = False) -> Any:
        """The service; raises as its factory does, and `MissingServiceError` if that needs itself, or it is closed.

        `now`: opens it in this thread and never suspends; raises `MissingServiceError` if it has to be awaited.
        """
        while True:
            future, is_mine = self._future_of(entry)
            if is_mine:
                return await self._open_first(entry, future, context, now=now)
            if future.done():
                opened = future.result()
            else:
                import asyncio  # loading it takes longer than listing tools

                from pegboard.threads import running_loop

                if now and running_loop() is not None:
                    raise _not_open_error(entry)
                opened = future.result(context.remaining) if now else await asyncio.wrap_future(future)
            if opened is not None and not opened.is_lost:
                return opened.value
            self._forget(entry, future)  # its opener was cancelled, or its event loop is closed: open it again

    async def close(self, error: BaseException | None = None, only: Collection[ServiceEntry] | None = None) -> None:
        """Closes the open services, or `only` some, in reverse order; errors are logged, and don't affect the others.

        `error` is the exception that ended the call, for context managers that roll back. If the caller is cancelled,
        all are closed nevertheless.
        """
        import asyncio

        with self._lock:
            entries = [entry for entry in self._futures if only is None or entry in only]
            futures = [self._futures.pop(entry) for entry in entries]
            self._is_closed = self.for_call
        task, cancelled = asyncio.current_task(), None
        for entry, future in zip(reversed(entries), reversed(futures), strict=True):
            opened = future.result() if future.done() else None  # what is still opening, its opener closes
            if opened is None or opened.manager is None:
                continue
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await _leave(opened, self.run, error)
            except BaseException as failed:  # noqa: BLE001  (a service may raise anything)
                # A cancellation is the caller's if its task is being cancelled, else the service's own.
                if isinstance(failed, asyncio.CancelledError) and task is not None and task.cancelling():
                    cancelled = failed
                if failed is not error:
                    log_failure(f"closing {entry.name}", failed)
        if cancelled is not None:
            raise cancelled

    def _future_of(self, entry: ServiceEntry) -> tuple[_Opening, bool]:
        """The future of a service, and whether the caller has to open it."""
        from concurrent.futures import Future  # which imports logging

        with self._lock:
            future = self._futures.get(entry)
            if future is None:
                if self._is_closed:
                    raise _closed_error(entry)
                future = self._futures[entry] = Future()
                future.set_running_or_notify_cancel()  # so that a cancelled waiter can't cancel it for the others
                return future, True
        if not future.done() and entry in _opening.get():
            chain = " -> ".join(each.name for each in (*_opening.get(), entry))
            raise MissingServiceError(f"circular service factories: {chain}", kind=entry.kind)
        return future, False

    async def _open_first(self, entry: ServiceEntry, future: _Opening, context: _Context, *, now: bool) -> Any:
        """Opens a service for all its waiters: they get an error, too, or `None` if the caller was cancelled."""
        token, run = _opening.set((*_opening.get(), entry)), run_in_place if now else self.run
        try:
            opened = await _open(entry, context, run, now=now)
            with self._lock:
                if in_time := self._futures.get(entry) is future:
                    self._futures[entry] = self._futures.pop(entry)  # after those that its factory has opened
                    future.set_result(opened)
            if not in_time:  # the container was closed meanwhile
                await _leave(opened, run)
                raise _closed_error(entry)  # noqa: TRY301  its waiters get it, too
        except BaseException as error:
            from asyncio import CancelledError

            self._forget(entry, future)
            if isinstance(error, CancelledError | GeneratorExit):
                future.set_result(None)
            else:
                future.set_exception(error)
            raise
        finally:
            _opening.reset(token)
        return opened.value

    def _forget(self, entry: ServiceEntry, future: _Opening) -> None:
        with self._lock:
            if self._futures.get(entry) is future:
                del self._futures[entry]


def _closed_error(entry: ServiceEntry) -> MissingServiceError:
    what = f"{entry.name} isn't opened any more: the call is over, or the registry was closed"
    return MissingServiceError(what, kind=entry.kind)


def _entries_of(things: Mapping[Any, Any]) -> Mapping[Any, ServiceEntry]:
    return {kind: one if isinstance(one, ServiceEntry) else ServiceEntry.of(kind, one) for kind, one in things.items()}


@define(eq=False)
class Services:
    """Services that the host provides, by type. Reads don't lock: a change replaces the mapping."""

    # given as values or factories, as `provide` takes them
    entries: Mapping[Any, ServiceEntry] = field(factory=dict[Any, Any], converter=_entries_of)
    # calls plain factories, which may block; may be set later, before the first service is opened
    run: _Run = field(default=run_in_place, kw_only=True)
    # what plugins have for the path of a type: the entry, for which the plugin is loaded; whether there may be one;
    # and the packages whose plugins provide it, loaded or not
    of_plugins: Callable[[str], ServiceEntry | None] = field(default=lambda _: None, kw_only=True)
    may_be_of_plugins: Callable[[str], bool] = field(default=lambda _: False, kw_only=True)
    packages: Callable[[str], Sequence[str]] = field(default=lambda _: (), kw_only=True)
    changed: Callable[[], None] = field(default=lambda: None, init=False)  # called after each change
    lock: threading.RLock = field(factory=threading.RLock, init=False)  # held for each change
    # defaults by type, and the container; a copy by `over` shares it and `lock`
    _shared: dict[Any, Any] = field(factory=dict[Any, Any], init=False)

    def provide(self, kind: Any, thing: Any, *, scope: ServiceScope | None = None) -> ServiceEntry:
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
        entry = ServiceEntry.of(kind, thing, scope)
        with self.lock:
            self.entries = {**self.entries, kind: entry}
        self.changed()
        return entry

    def withdraw(self, entry: ServiceEntry) -> None:
        """Removes an entry of `provide`, unless it was replaced already."""
        with self.lock:
            self.entries = {kind: each for kind, each in self.entries.items() if each is not entry}
        self.changed()

    def over(self, values: Services | Mapping[Any, Any]) -> Services:
        """These services overlaid with others, which take precedence; registry-wide instances stay shared."""
        others = values if isinstance(values, Services) else Services(values) if values else self
        if not others.entries:
            return self
        if others.lock is self.lock:  # they are these, or these with others over them
            return others
        both = copy.copy(self)
        both.entries = {**self.entries, **others.entries}
        return both

    def find(self, kind: Any) -> ServiceEntry | None:
        """The entry for this type: for exactly this type, for its only provided subclass, or by a plugin."""
        if (entry := self.entries.get(kind)) is not None:
            return entry
        below = [each for each in self.entries if isinstance(each, type) and kind in each.__mro__]
        if len(below) > 1:
            names = ", ".join(sorted(map(name_of_kind, below)))
            what = f"several services are a {name_of_kind(kind)}: {names}; ask for one of them"
            raise MissingServiceError(what, kind=kind)
        return self.entries[below[0]] if below else self.of_plugins(path_of_kind(kind))

    def may_find(self, kind: Any) -> bool:
        """Whether `find` may have an entry; loads no plugin."""
        provided = any(isinstance(each, type) and kind in each.__mro__ for each in self.entries)
        return provided or self.may_be_of_plugins(path_of_kind(kind))

    async def use(self, kind: Kind[T], context: _Context, *, now: bool = False) -> T:
        """The service of this type, opened if needed; raises as its factory does."""
        if (entry := self.find(kind)) is None:
            name = name_of_kind(kind)
            what = f"no {name} is provided; the host does it with registry.provide({name}, ...)"
            if packages := self.packages(path_of_kind(kind)):
                what += f", or a plugin does once it is installed and loaded: {', '.join(packages)}"
            raise MissingServiceError(what, kind=kind)
        return entry.value if entry.make is None else await self._container(entry, context).use(entry, context, now=now)

    def use_now(self, kind: Kind[T], context: _Context) -> T:
        """`use` without an event loop; raises `MissingServiceError` if the service has to be awaited."""
        try:
            self.use(kind, context, now=True).send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("it suspended")

    def default(self, kind: Kind[T], make: Callable[[], T]) -> T:
        """The default for a type that isn't provided, made at first use and then shared by these services."""
        with self.lock:
            if kind not in self._shared:
                self._shared[kind] = make()
            return self._shared[kind]

    async def aclose(self, only: Collection[ServiceEntry] | None = None) -> None:
        """Closes registry-wide instances, or some of them, in reverse order; a later use opens them again."""
        if (container := self._shared.get(ServiceContainer)) is not None:
            await container.close(only=only)

    def __contains__(self, kind: object) -> bool:
        return self.find(kind) is not None

    def _container(self, entry: ServiceEntry, context: _Context) -> ServiceContainer:
        """The container of the registry or of the call."""
        if entry.scope == "registry":
            return self.default(ServiceContainer, lambda: ServiceContainer(self.run))
        with self.lock:
            internals = context.internals
            internals.container = internals.container or ServiceContainer(self.run, for_call=True)
            return internals.container
