from __future__ import annotations

import asyncio

import pytest

from pegboard.callbacks import Callback
from pegboard.dispatch.stages import STAGES, _Stage, _When, pipeline_for, pipeline_of, run_stages
from pegboard.dispatch.state import Callbacks
from pegboard.tools.call import CallError

LINKS = (Callback(lambda *_: None),)
NAMES = [
    "find",
    "parse",
    "validate",
    "repair",
    "before",
    "revalidate",
    "permit",
    "approve",
    "run",
    "shape",
    "on_error",
    "after",
]


def test_the_stages_stand_once_in_order():
    assert [stage.name for stage in STAGES] == NAMES


@pytest.mark.parametrize(
    ("callbacks", "missing"),
    [
        (Callbacks(), {"before", "revalidate", "on_error", "after"}),
        (Callbacks(before=LINKS), {"on_error", "after"}),
        (Callbacks(after=LINKS), {"before", "revalidate", "on_error"}),
        (Callbacks(on_error=LINKS), {"before", "revalidate", "after"}),
        (Callbacks(LINKS, LINKS, LINKS), set()),
    ],
)
def test_a_hook_that_nobody_implements_costs_nothing(callbacks, missing):
    """Its stage isn't on the way at all."""
    way = pipeline_for(callbacks)
    functions = (*way.prepare, way.repair, *way.execute, *(function for function, _ in way.afterwards))
    passed = [function.__name__ for function in functions]
    assert passed == [name for name in NAMES if name not in missing]


def mend(state):
    raise state.error


MEND = _Stage(mend, _When.UNFIT)


def visited(prepare, make, *stages):
    """The words that the stages write; each is `(when, word)` or `(when, word, what it does to the work)`."""
    words = []

    def stage(when, word, act=lambda state: None):
        def function(state):
            words.append(word)
            act(state)

        return _Stage(function, when)

    state, _ = prepare(make(print))
    asyncio.run(run_stages(state, pipeline_of([MEND, *(stage(*each) for each in stages)])))
    return words, state


@pytest.mark.parametrize("when", [_When.OPEN, _When.FAILED, _When.ALWAYS])
def test_what_a_stage_gives_back_is_awaited(make, prepare, when):
    async def later(state):
        await asyncio.sleep(0)
        state.value = "awaited"

    state, _ = prepare(make(print))
    state.error = ValueError() if when is _When.FAILED else None
    asyncio.run(run_stages(state, pipeline_of([MEND, _Stage(later, when)])))
    assert state.value == "awaited"


def fail(state):
    raise ValueError("broken")


@pytest.mark.parametrize("when", [_When.OPEN, _When.FAILED, _When.ALWAYS])
def test_whatever_a_stage_raises_there_is_one_result(make, prepare, when):
    def act(state):
        raise SystemExit

    stages = [(_When.OPEN, "one", fail)] if when is _When.FAILED else []
    words, state = visited(prepare, make, *stages, (when, "two", act), (_When.ALWAYS, "last"))
    assert words[-1] == "last"
    assert state.result.is_error
    assert state.error is None


@pytest.mark.parametrize("kind", ["unknown_tool", "not_offered", "denied", "limit"])
def test_a_call_error_is_a_result_of_its_kind(make, send, kind):
    state = send(CallError(kind, "why not", detail="for the operator"))
    assert (state.result.kind, state.result.text, state.result.detail) == (kind, "why not", "for the operator")
    assert (state.result.is_error, state.tool) == (True, None)


async def test_calls_on_their_way_at_once_do_not_touch_each_other(make, prepare):
    gate = asyncio.Event()

    async def tool(n):
        await gate.wait()
        return f"answer {n}"

    under_way = [prepare(make(tool), {"n": number}) for number in range(50)]
    tasks = [asyncio.ensure_future(run_stages(*each)) for each in under_way]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert [state.result.text for state, _ in under_way] == [f"answer {number}" for number in range(50)]
