"""Callbacks of a stage that isn't a call's."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from pegboard import Limits, ToolRegistry, quick
from pegboard.callbacks import ChainError


@pytest.fixture
def registry():
    return ToolRegistry(limits=attrs.evolve(Limits(), callback_timeout=0.05, grace=0.05))


def chain_of(registry, stage="before_model", *functions):
    for function in functions:
        registry.add_callback(stage, function)
    return registry.chain(stage)


def test_nobody_answers_where_nobody_is(registry):
    async def main():
        chain = await chain_of(registry)
        return bool(chain), list(chain), await chain.answers(1, 2)

    assert asyncio.run(main()) == (False, [], None)


def test_the_first_answer_counts_and_says_whose_it_is(registry):
    asked = []

    def silent():
        asked.append("silent")

    async def answers(request):
        asked.append(request)
        return 0

    async def main():
        chain = await chain_of(registry, "before_model", silent, answers, lambda: asked.append("late"))
        return await chain.answers("context", "request")

    answer, link = asyncio.run(main())
    assert (answer, link.owner, asked) == (0, "the host", ["silent", "request"])


def test_one_that_hangs_is_named(registry):
    async def hangs():
        await asyncio.Event().wait()

    async def main():
        await (await chain_of(registry, "before_model", hangs)).answers(1, 2)

    with pytest.raises(ChainError, match=r"hangs of the host: TimeoutError.*gave no answer within 0.05 s"):
        asyncio.run(main())


def test_one_that_exits_costs_no_more_than_its_stage(registry):
    def leaves():
        raise SystemExit(3)

    async def main():
        await (await chain_of(registry, "before_model", leaves)).answers(1, 2)

    with pytest.raises(ChainError, match="SystemExit"):
        asyncio.run(main())


def test_cancelling_who_asks_is_a_cancellation(registry):
    begun = asyncio.Event()

    async def hangs():
        begun.set()
        await asyncio.Event().wait()

    async def main(ask):
        asking = asyncio.ensure_future(ask(await chain_of(registry, "after_turn", hangs)))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(main(lambda chain: chain.tell(1, 2, 3)))
    begun = asyncio.Event()
    asyncio.run(main(lambda chain: chain.answers(1, 2, 3)))


def test_telling_reaches_everybody(registry, caplog):
    told = []

    def broken():
        raise ValueError("oops")

    async def main():
        chain = await chain_of(registry, "after_turn", broken, quick(lambda outcome: told.append(outcome) or None))
        await chain.tell(1, 2, "the outcome")

    asyncio.run(main())
    assert told == ["the outcome"]
    assert "oops" in caplog.text


class TestAround:
    def ask(self, registry, run, *wrappers):
        async def main():
            return await (await chain_of(registry, "wrap_model", *wrappers)).around_all(run, "context", "request")

        return asyncio.run(main())

    async def inner(self):
        return "inner"

    async def failing(self):
        raise KeyError("inside")

    def test_without_wrappers_it_is_what_runs(self, registry):
        assert self.ask(registry, self.inner) == "inner"

    def test_the_first_is_the_outermost(self, registry):
        async def outer(call_next):
            return f"({await call_next()})"

        async def nested(call_next):
            return f"[{await call_next()}]"

        assert self.ask(registry, self.inner, outer, nested) == "([inner])"

    def test_what_is_raised_inside_comes_through_as_it_is(self, registry):
        async def lets_through(call_next):
            return await call_next()

        with pytest.raises(KeyError, match="inside"):
            self.ask(registry, self.failing, lets_through, lets_through)

    def test_a_wrapper_may_swallow_it(self, registry):
        async def swallows(call_next):
            try:
                return await call_next()
            except KeyError:
                return "instead"

        assert self.ask(registry, self.failing, swallows) == "instead"

    def test_a_wrapper_that_fails_is_named(self, registry):
        async def broken(call_next):
            await call_next()
            raise ValueError("oops")

        with pytest.raises(ChainError, match="broken of the host"):
            self.ask(registry, self.inner, broken)

    def test_its_own_time_stands_still_while_the_inside_runs(self, registry):
        ended = asyncio.Event()

        async def slow():
            asyncio.get_running_loop().call_later(0.15, ended.set)  # three times the wrapper's own limit
            await ended.wait()
            return "slow"

        async def wraps(call_next):
            return await call_next()

        assert self.ask(registry, slow, wraps) == "slow"

    def test_a_wrapper_that_hangs_by_itself_is_ended(self, registry):
        async def hangs(call_next):
            await asyncio.Event().wait()

        with pytest.raises(ChainError, match=r"took more than 0\.05 s beside what it stands round"):
            self.ask(registry, self.inner, hangs)


def test_a_sleeping_plugin_is_not_asked_for_stages_that_it_does_not_have(registry):
    woken = []

    class Lazy:
        hooks = frozenset({"register_tools"})

        def load(self):
            woken.append(1)

    registry.lazy_plugins.add("sleepy", Lazy())
    asyncio.run(registry.chain("before_model"))
    assert woken == []
