from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from abc import ABC
from typing import Annotated, Generic, Protocol, TypeVar, runtime_checkable
from unittest.mock import Mock

import pytest

from pegboard import ReadonlyContext, ToolContext
from pegboard.errors import MissingServiceError, PegboardError
from pegboard.tools import services as services_module
from pegboard.tools.services import ServiceEntry, Services, name_of_kind

T = TypeVar("T")


class Base(ABC): ...  # noqa: B024


class First(Base): ...


class Second(Base): ...


class Repository(Generic[T]): ...


@runtime_checkable
class Searches(Protocol):
    def search(self) -> str: ...


class Index:
    """Has the method, but doesn't inherit from the protocol."""

    def search(self):
        return "wrong"


class Meant(Searches):
    def search(self):
        return "right"


def use(services, kind):
    return asyncio.run(services.use(kind, ToolContext(services=services)))


def test_a_value_is_found_by_its_type():
    services = Services({int: 5})
    services.provide(Repository[int], "ints")
    assert (use(services, int), services.use_now(int, ToolContext())) == (5, 5)
    assert use(services, Repository[int]) == "ints"
    assert int in services
    assert str not in services
    assert Repository[str] not in services


def test_the_exact_type_comes_before_one_that_inherits_from_it():
    first, second = First(), Second()
    services = Services({First: first})
    assert use(services, Base) is first
    services.provide(Base, second)
    assert use(services, Base) is second


def test_several_that_inherit_from_it_are_ambiguous():
    services = Services({First: First(), Second: Second()})
    with pytest.raises(MissingServiceError, match="several services are a Base: First, Second; ask for one of them"):
        use(services, Base)


def test_a_protocol_is_found_by_inheritance_not_by_structure():
    services = Services({Index: Index()})
    assert Searches not in services
    services.provide(Meant, Meant())
    assert use(services, Searches).search() == "right"


def test_a_missing_service_is_named_with_the_fix():
    with pytest.raises(MissingServiceError, match=r"registry\.provide\(First, \.\.\.\)") as caught:
        use(Services(), First)
    assert caught.value.kind is First
    assert isinstance(caught.value, LookupError)
    assert isinstance(caught.value, PegboardError)


def test_providing_again_replaces_and_withdrawing_removes_only_its_own():
    services = Services()
    one, two = services.provide(int, 1), services.provide(int, 2)
    services.withdraw(one)
    assert use(services, int) == 2
    services.withdraw(two)
    assert int not in services


def test_overlaid_services_win():
    below = Services({int: 1, str: "a"})
    above = below.over({int: 2})
    assert (use(above, int), use(above, str), use(below, int)) == (2, "a", 1)
    assert below.over({}) is below
    assert below.over(Services()) is below
    assert below.over(above) is above
    assert use(below.over(Services({str: "b"})), str) == "b"


def test_registry_wide_instances_are_shared_with_overlays():
    below = Services()
    below.provide(list, list, scope="registry")
    above = below.over({int: 1})
    assert use(below, list) is use(above, list)


def test_registry_wide_instances_are_closed_and_can_be_opened_again():
    log = []

    async def factory():
        log.append("open")
        yield First()
        log.append("close")

    async def main():
        services = Services()
        services.provide(First, factory, scope="registry")
        one = await services.use(First, ToolContext(services=services))
        assert await services.use(First, ToolContext(services=services)) is one
        await services.aclose()
        await services.aclose()
        assert log == ["open", "close"]
        assert await services.use(First, ToolContext(services=services)) is not one
        await services.aclose()

    asyncio.run(main())
    asyncio.run(Services().aclose())
    assert log == ["open", "close"] * 2


class Database: ...


class Clock(Protocol):
    def now(self) -> float: ...


class CallableDatabase(Database):
    def __call__(self): ...


class CallableClock:
    def now(self): ...

    def __call__(self): ...


CONTEXT = ToolContext()
DATABASE = Database()


def function():
    return DATABASE


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((Database, each) for each in (DATABASE, CallableDatabase(), Mock(spec=Database), "not an instance", None)),
        (Clock, CallableClock()),
        (Repository[int], Repository()),
        (type, Database),
        (type(function), function),
    ],
)
def test_instances_and_objects_that_are_not_callable_are_values(kind, value):
    found = ServiceEntry.of(kind, value)
    assert found.value is value
    assert found.make is None


def test_a_factory_gets_the_context_if_it_has_a_parameter_for_it():
    factories = [
        lambda context: context,
        lambda anything: anything,
        lambda it, /, other=1: it,
        lambda *, it: it,
        lambda other=1, context=None: context,
        lambda *rest, context=None, **more: context,
    ]
    for factory in factories:
        assert ServiceEntry.of(Database, factory).make(CONTEXT) is CONTEXT
    assert ServiceEntry.of(Database, lambda other=1, *rest, **more: other).make(CONTEXT) == 1
    assert ServiceEntry.of(Database, dict).make(CONTEXT) == {}  # it has no signature
    assert ServiceEntry.of(Database, function, scope="registry").scope == "registry"


@pytest.mark.parametrize(
    ("kind", "factory", "scope", "message"),
    [
        (Database, lambda url, context: url, None, "Database takes url, context; only the context is passed"),
        (Database, lambda context: context, "registry", "Database takes context; it makes one for all calls"),
        (Database, function, "turn", 'scope is "call" or "registry", not \'turn\''),
        *(
            (kind, 1, None, "a service is provided for a class or protocol")
            for kind in ("Database", 5, T, None, int | str, Annotated[int, 1])
        ),
    ],
)
def test_services_that_cannot_be_provided_are_refused(kind, factory, scope, message):
    with pytest.raises(TypeError, match=message):
        ServiceEntry.of(kind, factory, scope)


def test_types_are_named_for_people():
    assert name_of_kind(Database) == "Database"
    assert name_of_kind(Repository[int]).endswith("Repository[int]")
    assert name_of_kind(threading.Thread) == "Thread"


class A: ...


class B: ...


class C: ...


class Log(list):
    """What happened, in order."""

    def service(self, name, *, asynchronous=False, fails=None):
        def plain():
            self.append(f"open {name}")
            try:
                yield name
            except Exception as error:
                self.append(f"{name} saw {error}")
                raise
            finally:
                self.append(f"close {name}")
                if fails is not None:
                    raise fails

        async def async_():
            with contextlib.contextmanager(plain)() as value:
                await asyncio.sleep(0)
                yield value

        return async_ if asynchronous else plain


@pytest.fixture
def log():
    """What happened, including messages of the logger `pegboard`."""
    lines, handler = Log(), logging.Handler()
    handler.emit = lambda record: lines.append(f"{record.getMessage().removesuffix(' failed')}: {record.exc_info[1]!r}")
    logging.getLogger("pegboard").addHandler(handler)
    yield lines
    logging.getLogger("pegboard").removeHandler(handler)


def call(services, *kinds, error=None, user=None):
    """What these types gave in one call, which ends with `error`."""

    async def run():
        context = ToolContext(ReadonlyContext(user=user), services=services)
        try:
            return [await context.use(kind) for kind in kinds]
        finally:
            await context.internals.close_services(error)

    return asyncio.run(run())


def plain():
    return "made"


async def asynchronous():
    await asyncio.sleep(0)
    return "made"


def generator():
    yield "made"


async def async_generator():
    yield "made"


@contextlib.contextmanager
def managed():
    yield "made"


@contextlib.asynccontextmanager
async def async_managed():
    yield "made"


def gives_a_coroutine():
    return asynchronous()


async def gives_a_manager():
    return managed()


class Manager:
    def __enter__(self):
        return "made"

    def __exit__(self, *_):
        return True


@pytest.mark.parametrize(
    "factory",
    [plain, asynchronous, generator, async_generator, managed, async_managed, gives_a_manager, gives_a_coroutine],
)
def test_every_kind_of_factory_makes_its_value(factory):
    assert call(Services({str: factory}), str) == ["made"]


@pytest.mark.parametrize("factory", [plain, generator, managed, Manager])
def test_plain_factories_need_no_event_loop(factory):
    assert ToolContext(services={str: factory}).service(str) == "made"


@pytest.mark.parametrize("factory", [asynchronous, async_generator, async_managed, gives_a_coroutine])
def test_async_factories_have_to_be_awaited(factory):
    context = ToolContext(services={str: factory})
    with pytest.raises(MissingServiceError, match=r"write 'await context.use\(str\)'.*'context.wait\(context.use"):
        context.service(str)
    assert context.wait(context.use(str)) == "made"


def test_a_manager_of_both_kinds_is_entered_by_the_way_of_use():
    class Both:
        async def __aenter__(self):
            return "async"

        async def __aexit__(self, *_): ...

        def __enter__(self):
            return "plain"

        def __exit__(self, *_): ...

    assert call(Services({Both: Both}), Both) == ["async"]
    assert ToolContext(services={Both: Both}).service(Both) == "plain"


async def test_plain_factories_run_off_the_loop():
    threads = []

    def factory():
        threads.append(threading.current_thread())
        yield "made"
        threads.append(threading.current_thread())

    def make():
        threads.append(threading.current_thread())

    services = Services(run=asyncio.to_thread)
    services.provide(A, factory)
    services.provide(B, make)
    context = ToolContext(services=services)
    for kind in (A, B):
        await context.use(kind)
    await context.internals.close_services()
    assert len(threads) == 3
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_service_is_opened_once_a_call_and_closed_after_it_in_reverse(asynchronous):
    log = Log()
    services = Services({kind: log.service(kind.__name__, asynchronous=asynchronous) for kind in (A, B, C)})
    assert call(services, B, A, B, A) == ["B", "A", "B", "A"]
    assert log == ["open B", "open A", "close A", "close B"]
    call(services, C)
    assert log[4:] == ["open C", "close C"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_services_get_the_error_of_the_call(asynchronous, log):
    services = Services({A: log.service("a", asynchronous=asynchronous)})
    call(services, A, error=ValueError("broken"))
    assert log == ["open a", "a saw broken", "close a"]


def test_a_reraised_error_is_not_a_failure_of_the_service(log):
    class PassesOn(Manager):
        def __exit__(self, kind, error, trace):
            raise error

    call(Services({PassesOn: PassesOn}), PassesOn, error=ValueError("the call's"))
    assert log == []


@pytest.mark.parametrize("error", [ValueError("stuck"), SystemExit(1), KeyboardInterrupt(), StopIteration()])
def test_an_error_on_close_does_not_affect_other_services(error, log):
    services = Services({A: log.service("a"), B: log.service("b", fails=error)})
    assert call(services, A, B) == ["a", "b"]
    assert log[:3] == ["open a", "open b", "close b"]
    assert log[3].startswith("closing B: ")
    assert log[4:] == ["close a"]


def test_a_hanging_close_does_not_affect_other_services(monkeypatch, log):
    monkeypatch.setattr(services_module, "CLOSE_SECONDS", 0.01)

    async def hangs():
        yield "b"
        await asyncio.Event().wait()

    call(Services({A: log.service("a"), B: hangs}), A, B)
    assert log == ["open a", "closing B: TimeoutError()", "close a"]


async def test_a_cancelled_close_still_closes_the_others(log):
    leaving = asyncio.Event()

    async def slow():
        yield "b"
        leaving.set()
        await asyncio.Event().wait()

    context = ToolContext(services=Services({A: log.service("a"), B: slow}))
    await context.use(A)
    await context.use(B)
    closing = asyncio.create_task(context.internals.close_services())
    await leaving.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert log == ["open a", "closing B: CancelledError()", "close a"]


def test_a_cancellation_raised_by_a_service_is_logged(log):
    call(Services({A: log.service("a", fails=asyncio.CancelledError())}), A)
    assert log == ["open a", "close a", "closing A: CancelledError()"]


def test_a_finished_call_opens_no_services():
    log = Log()
    context = ToolContext(services={A: log.service("a")})
    context.service(A)
    asyncio.run(context.internals.close_services())
    with pytest.raises(MissingServiceError, match="A isn't opened any more: the call is over"):
        context.service(A)
    assert log == ["open a", "close a"]


@pytest.mark.parametrize("scope", ["call", "registry"])
async def test_concurrent_first_uses_open_one(scope):
    log = Log()

    services = Services()
    services.provide(A, log.service("a", asynchronous=True), scope=scope)
    context = ToolContext(services=services)
    assert await asyncio.gather(*(context.use(A) for _ in range(20))) == ["a"] * 20
    await context.internals.close_services()
    await services.aclose()
    assert log == ["open a", "close a"]


def test_concurrent_threads_share_one_instance():
    opened, barrier = [], threading.Barrier(8)
    services = Services()
    services.provide(A, lambda: opened.append(1) or A(), scope="registry")
    got = []

    def work():
        barrier.wait()
        got.append(ToolContext(services=services).service(A))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1
    assert len(set(got)) == 1


async def test_a_thread_waits_for_an_opening_service_and_the_loop_does_not():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow():
        begun.set()
        await go_on.wait()
        return "made"

    context = ToolContext(services={A: slow})
    opening = asyncio.create_task(context.use(A))
    await begun.wait()
    with pytest.raises(MissingServiceError, match=r"await context\.use"):
        context.service(A)
    in_a_thread = asyncio.create_task(asyncio.to_thread(context.service, A))
    await asyncio.sleep(0)
    go_on.set()
    assert await opening == await in_a_thread == "made"


async def test_a_failed_factory_fails_all_waiters_and_is_retried_later():
    tries = []

    async def factory():
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "made"

    context = ToolContext(services={A: factory})
    results = await asyncio.gather(context.use(A), context.use(A), return_exceptions=True)
    assert [str(each) for each in results] == ["not yet", "not yet"]
    assert await context.use(A) == "made"


@pytest.mark.parametrize("waits_in_a_thread", [False, True])
async def test_a_waiter_opens_the_service_if_the_first_was_cancelled(waits_in_a_thread):
    begun, tries = asyncio.Event(), []

    def factory():
        tries.append(1)
        return "made" if len(tries) > 1 else never()

    async def never():
        begun.set()
        await asyncio.Event().wait()

    services = Services()
    services.provide(A, factory, scope="registry")
    first, second = ToolContext(services=services), ToolContext(services=services)
    opening = asyncio.create_task(first.use(A))
    await begun.wait()
    waiting = asyncio.to_thread(second.service, A) if waits_in_a_thread else second.use(A)
    waiter = asyncio.create_task(waiting)
    await asyncio.sleep(0)
    opening.cancel()
    assert await waiter == "made"
    with pytest.raises(asyncio.CancelledError):
        await opening


async def test_a_cancelled_waiter_does_not_affect_the_others():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow():
        begun.set()
        await go_on.wait()
        return "made"

    context = ToolContext(services={A: slow})
    opening, waiting = (asyncio.create_task(context.use(A)) for _ in range(2))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    assert await opening == "made"


def test_circular_factories_are_refused():
    async def a(context):
        return await context.use(B)

    def b(context):
        return context.service(A)

    services = Services({A: a, B: b})
    with pytest.raises(MissingServiceError, match="circular service factories: A -> B -> A"):
        call(services, A)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_service_opened_after_the_call_is_closed_at_once(asynchronous):
    """The call ended while a thread, or another task, was still opening it."""
    log = Log()

    begun, go_on = threading.Event(), threading.Event()

    def plain():
        begun.set()
        go_on.wait(60)
        yield from log.service("a")()

    async def async_():
        await asyncio.to_thread(plain_wait)
        async for value in log.service("a", asynchronous=True)():
            yield value

    def plain_wait():
        begun.set()
        go_on.wait(60)

    context = ToolContext(services={A: async_ if asynchronous else plain})
    using = context.use(A) if asynchronous else asyncio.to_thread(context.service, A)
    opening = asyncio.create_task(using)
    await asyncio.to_thread(begun.wait, 60)
    await context.internals.close_services()
    go_on.set()
    with pytest.raises(MissingServiceError, match="the call is over"):
        await opening
    assert log == ["open a", "close a"]


def test_a_service_made_after_the_call_is_not_returned():
    async def closes(context):
        await context.internals.close_services()

    context = ToolContext(services={A: lambda context: asyncio.run(closes(context)), B: closes})
    with pytest.raises(MissingServiceError, match="the call is over"):
        context.service(A)
    context = ToolContext(services=context.services)
    with pytest.raises(MissingServiceError, match="the call is over"):
        asyncio.run(context.use(B))


class Session:
    """Lives in one event loop."""

    def __init__(self):
        self.closed = False

    async def __aenter__(self):
        self.loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_):
        self.closed = True


def test_a_service_of_a_closed_loop_is_opened_again(log):
    services = Services()
    services.provide(Session, Session, scope="registry")
    (first,), (second,) = call(services, Session), call(services, Session)
    assert first is not second
    assert log == []

    async def in_a_thread():
        return await asyncio.to_thread(ToolContext(services=services).service, Session)

    with pytest.raises(MissingServiceError, match="await"):
        asyncio.run(in_a_thread())


def test_a_service_that_can_no_longer_be_closed_is_logged(log):
    services = Services()
    services.provide(Session, Session, scope="registry")
    services.provide(A, log.service("a", asynchronous=True), scope="registry")
    call(services, Session, A)
    assert log == ["open a", "close a"]  # generators are closed by their loop
    asyncio.run(services.aclose())
    assert len(log) == 3
    assert log[2].startswith("closing Session: RuntimeError('the event loop that it was opened in was closed")
