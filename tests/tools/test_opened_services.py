from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading

import pytest
from hypothesis import given, strategies as st

from pegboard.errors import MissingServiceError
from pegboard.tools import services as opened_services
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.services import Services


class A: ...


class B: ...


class C: ...


class Log(list):
    """What happened, in order; observes failures too."""

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

    def observe(self, who, error):
        self.append(f"{who}: {error!r}")


def call(services, *kinds, error=None, user=None):
    """What these types gave in one call, which ends with `error`."""

    async def run():
        context = ToolContext(ReadonlyContext(user=user), services=services)
        try:
            return [await context.use(kind) for kind in kinds]
        finally:
            await context.close_services(error)

    return asyncio.run(run())


# How it is made -----------------------------------------------------------------------------------------------------


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
def test_what_needs_no_loop_is_had_without_waiting(factory):
    assert ToolContext(services={str: factory}).service(str) == "made"


@pytest.mark.parametrize("factory", [asynchronous, async_generator, async_managed, gives_a_coroutine])
def test_what_needs_a_loop_has_to_be_awaited(factory):
    context = ToolContext(services={str: factory})
    with pytest.raises(MissingServiceError, match=r"write 'await context.use\(str\)'.*'context.wait\(context.use"):
        context.service(str)
    assert context.wait(context.use(str)) == "made"


def test_what_was_awaited_is_there_without_waiting():
    async def run():
        context = ToolContext(services={A: Log().service("a", asynchronous=True)})
        assert await context.use(A) == context.service(A) == "a"
        await context.close_services()

    asyncio.run(run())


def test_a_factory_gets_the_context_of_the_call():
    services = Services({str: lambda context: f"for {context.user}"})
    assert call(services, str, user="ann") == ["for ann"]


def test_one_that_is_both_kinds_of_manager_is_entered_as_it_is_asked_for():
    class Both:
        async def __aenter__(self):
            return "async"

        async def __aexit__(self, *_): ...

        def __enter__(self):
            return "plain"

        def __exit__(self, *_): ...

    assert call(Services({Both: Both}), Both) == ["async"]
    assert ToolContext(services={Both: Both}).service(Both) == "plain"


def test_a_manager_may_be_left_as_it_is():
    services = Services()
    services.provide(threading.Lock().__class__, threading.Lock, enter=False)
    (lock,) = call(services, threading.Lock().__class__)
    assert not lock.locked()


def test_plain_factories_run_off_the_loop_unless_they_never_block():
    async def run():
        threads = []

        def factory():
            threads.append(threading.current_thread())
            yield "made"
            threads.append(threading.current_thread())

        def make():
            threads.append(threading.current_thread())

        services = Services(off_loop=asyncio.to_thread)
        services.provide(A, factory)
        services.provide(B, factory, blocking=False)
        services.provide(C, make)
        context = ToolContext(services=services)
        for kind in (A, B, C):
            await context.use(kind)
        await context.close_services()
        here = threading.current_thread()
        assert [each is here for each in threads] == [False, True, False, True, False]

    asyncio.run(run())


# Once, and in which order it is closed ------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_service_is_opened_once_a_call_and_closed_after_it_in_reverse(asynchronous):
    log = Log()
    services = Services({kind: log.service(kind.__name__, asynchronous=asynchronous) for kind in (A, B, C)})
    assert call(services, B, A, B, A) == ["B", "A", "B", "A"]
    assert log == ["open B", "open A", "close A", "close B"]
    call(services, C)
    assert log[4:] == ["open C", "close C"]


@given(st.lists(st.sampled_from([A, B, C]), max_size=6))
def test_whatever_a_call_asks_for_is_closed_in_reverse(kinds):
    log = Log()
    call(Services({kind: log.service(kind.__name__) for kind in (A, B, C)}), *kinds)
    names = [kind.__name__ for kind in dict.fromkeys(kinds)]
    assert log == [f"open {name}" for name in names] + [f"close {name}" for name in reversed(names)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failing_call_is_told_to_what_it_used(asynchronous):
    log = Log()
    services = Services({A: log.service("a", asynchronous=asynchronous)}, observe=log.observe)
    call(services, A, error=ValueError("broken"))
    assert log == ["open a", "a saw broken", "close a"]


def test_an_error_that_is_passed_on_is_no_failure_of_the_service():
    class PassesOn(Manager):
        def __exit__(self, kind, error, trace):
            raise error

    log = Log()
    call(Services({PassesOn: PassesOn}, observe=log.observe), PassesOn, error=ValueError("the call's"))
    assert log == []


def test_a_transaction_is_rolled_back_when_its_call_failed():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a)")
    for error, rows in ((ValueError(), 0), (None, 1)):
        services = Services({A: lambda: contextlib.nullcontext(1), sqlite3.Connection: lambda: connection})

        async def run(error, services):
            context = ToolContext(services=services)
            (await context.use(sqlite3.Connection)).execute("insert into t values (1)")
            await context.close_services(error)

        asyncio.run(run(error, services))
        assert connection.execute("select count(*) from t").fetchone() == (rows,)
    connection.close()


@pytest.mark.parametrize("error", [ValueError("stuck"), SystemExit(1), KeyboardInterrupt(), StopIteration()])
def test_what_fails_while_it_is_closed_costs_nothing_else(error):
    log = Log()
    services = Services({A: log.service("a"), B: log.service("b", fails=error)}, observe=log.observe)
    assert call(services, A, B) == ["a", "b"]
    assert log[:3] == ["open a", "open b", "close b"]
    assert log[3].startswith("closing B: ")
    assert log[4:] == ["close a"]


def test_what_hangs_while_it_is_closed_costs_nothing_else(monkeypatch):
    monkeypatch.setattr(opened_services, "CLOSE_SECONDS", 0.01)
    log = Log()

    async def hangs():
        yield "b"
        await asyncio.Event().wait()

    call(Services({A: log.service("a"), B: hangs}, observe=log.observe), A, B)
    assert log == ["open a", "closing B: TimeoutError()", "close a"]


def test_the_others_are_closed_though_who_waits_is_cancelled():
    log = Log()

    async def run():
        leaving = asyncio.Event()

        async def slow():
            yield "b"
            leaving.set()
            await asyncio.Event().wait()

        context = ToolContext(services=Services({A: log.service("a"), B: slow}, observe=log.observe))
        await context.use(A)
        await context.use(B)
        closing = asyncio.create_task(context.close_services())
        await leaving.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(run())
    assert log == ["open a", "closing B: CancelledError()", "close a"]


def test_a_cancellation_of_its_own_is_a_failure_like_others():
    log = Log()
    call(Services({A: log.service("a", fails=asyncio.CancelledError())}, observe=log.observe), A)
    assert log == ["open a", "close a", "closing A: CancelledError()"]


def test_closing_without_anything_open_does_nothing():
    context = ToolContext()
    asyncio.run(context.close_services())
    assert context.opened is None


def test_a_service_that_is_closed_is_not_opened_again_by_a_call_that_is_over():
    log = Log()
    context = ToolContext(services={A: log.service("a")})
    context.service(A)
    asyncio.run(context.close_services())
    with pytest.raises(MissingServiceError, match="A isn't opened any more: the call is over"):
        context.service(A)
    assert log == ["open a", "close a"]


# Several at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["call", "registry"])
def test_concurrent_first_uses_open_one(scope):
    log = Log()

    async def run():
        services = Services()
        services.provide(A, log.service("a", asynchronous=True), scope=scope)
        context = ToolContext(services=services)
        assert await asyncio.gather(*(context.use(A) for _ in range(20))) == ["a"] * 20
        await context.close_services()
        await services.aclose()

    asyncio.run(run())
    assert log == ["open a", "close a"]


def test_threads_that_ask_at_once_get_one():
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


def test_what_is_being_opened_is_waited_for_in_a_thread_and_not_in_the_loop():
    async def run():
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

    asyncio.run(run())


def test_a_factory_that_fails_fails_for_all_who_wait_and_is_tried_again_later():
    async def run():
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

    asyncio.run(run())


@pytest.mark.parametrize("waits_in_a_thread", [False, True])
def test_who_waits_opens_it_himself_where_the_first_was_cancelled(waits_in_a_thread):
    async def run():
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

    asyncio.run(run())


def test_who_waits_and_is_cancelled_takes_nothing_from_the_others():
    async def run():
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

    asyncio.run(run())


def test_a_factory_that_asks_for_itself_is_refused():
    async def a(context):
        return await context.use(B)

    def b(context):
        return context.service(A)

    services = Services({A: a, B: b})
    with pytest.raises(MissingServiceError, match="a factory asks for what it makes: A -> B -> A"):
        call(services, A)


def test_factories_may_use_each_other():
    log = Log()

    async def a(context):
        yield f"a of {await context.use(B)}"
        log.append("close a")

    assert call(Services({A: a, B: log.service("b")}), A) == ["a of b"]
    assert log == ["open b", "close a", "close b"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_opened_too_late_is_closed_at_once(asynchronous):
    """The call ended while a thread, or another task, was still opening it."""
    log = Log()

    async def run():
        begun, go_on = threading.Event(), threading.Event()

        def plain():
            begun.set()
            go_on.wait(10)
            yield from log.service("a")()

        async def async_():
            await asyncio.to_thread(plain_wait)
            async for value in log.service("a", asynchronous=True)():
                yield value

        def plain_wait():
            begun.set()
            go_on.wait(10)

        context = ToolContext(services={A: async_ if asynchronous else plain})
        using = context.use(A) if asynchronous else asyncio.to_thread(context.service, A)
        opening = asyncio.create_task(using)
        await asyncio.to_thread(begun.wait, 10)
        await context.close_services()
        go_on.set()
        with pytest.raises(MissingServiceError, match="the call is over"):
            await opening

    asyncio.run(run())
    assert log == ["open a", "close a"]


def test_what_is_made_too_late_is_not_handed_out():
    async def closes(context):
        await context.close_services()

    context = ToolContext(services={A: lambda context: asyncio.run(closes(context)), B: closes})
    with pytest.raises(MissingServiceError, match="the call is over"):
        context.service(A)
    context = ToolContext(services=context.services)
    with pytest.raises(MissingServiceError, match="the call is over"):
        asyncio.run(context.use(B))


# Services of a registry in scripts, where each call has a loop of its own -------------------------------------------


class Session:
    """Lives in one event loop."""

    def __init__(self):
        self.closed = False

    async def __aenter__(self):
        self.loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_):
        self.closed = True


def test_what_lived_in_a_loop_that_is_closed_is_opened_anew():
    log = Log()
    services = Services(observe=log.observe)
    services.provide(Session, Session, scope="registry")
    (first,), (second,) = call(services, Session), call(services, Session)
    assert first is not second
    assert log == []

    async def in_a_thread():
        return await asyncio.to_thread(ToolContext(services=services).service, Session)

    with pytest.raises(MissingServiceError, match="await"):
        asyncio.run(in_a_thread())


def test_what_can_no_longer_be_closed_is_told():
    log = Log()
    services = Services(observe=log.observe)
    services.provide(Session, Session, scope="registry")
    services.provide(A, log.service("a", asynchronous=True), scope="registry")
    call(services, Session, A)
    assert log == ["open a", "close a"]  # generators are closed by their loop
    asyncio.run(services.aclose())
    assert len(log) == 3
    assert log[2].startswith("closing Session: RuntimeError('the event loop that it was opened in was closed")


def test_what_needs_no_loop_outlives_it():
    log = Log()
    services = Services()
    services.provide(A, log.service("a"), scope="registry")
    assert call(services, A) + call(services, A) == ["a", "a"]
    asyncio.run(services.aclose())
    assert log == ["open a", "close a"]
