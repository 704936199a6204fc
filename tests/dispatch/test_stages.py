from __future__ import annotations

import asyncio

import pytest

from pegboard.callbacks import Callback
from pegboard.dispatch.limits import CallError
from pegboard.dispatch.stages import STAGES, _Stage, _When, pipeline_for, pipeline_of, run_stages
from pegboard.dispatch.state import Callbacks
from pegboard.tools.content import ToolResult

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


def mend(work):
    raise work.error


MEND = _Stage(mend, _When.UNFIT)


def visited(prepare, make, *stages):
    """The words that the stages write; each is `(when, word)` or `(when, word, what it does to the work)`."""
    words = []

    def stage(when, word, act=lambda work: None):
        def function(work):
            words.append(word)
            act(work)

        return _Stage(function, when)

    work, _ = prepare(make(print))
    asyncio.run(run_stages(work, pipeline_of([MEND, *(stage(*each) for each in stages)])))
    return words, work


@pytest.mark.parametrize("when", [_When.OPEN, _When.FAILED, _When.ALWAYS])
def test_what_a_stage_gives_back_is_awaited(make, prepare, when):
    async def later(work):
        await asyncio.sleep(0)
        work.value = "awaited"

    work, _ = prepare(make(print))
    work.error = ValueError() if when is _When.FAILED else None
    asyncio.run(run_stages(work, pipeline_of([MEND, _Stage(later, when)])))
    assert work.value == "awaited"


def unfit(kind="unknown_tool"):
    """A stage that fails until the call was mended."""

    def find(work):
        if work.repaired is None:
            raise CallError(kind, "no such tool")

    return _Stage(find)


def test_an_unfit_call_that_was_mended_passes_the_stages_before_once_more(make, prepare):
    """Plain or async, the mending stage is awaited."""
    seen = []

    async def mend(work):
        seen.append(work.error.kind)
        work.repaired = "mended"

    def run(work):
        work.result = ToolResult("ran")

    work, _ = prepare(make(print))
    asyncio.run(run_stages(work, pipeline_of([unfit(), _Stage(mend, _When.UNFIT), _Stage(run)])))
    assert (work.result.text, work.error, seen) == ("ran", None, ["unknown_tool"])


def test_a_call_that_is_unfit_again_is_shown_to_the_mending_stage_once_more_for_its_words(make, prepare):
    def find(work):
        raise CallError("invalid_arguments", "still wrong")

    def mend(work):
        if work.repaired is not None:
            raise CallError(work.error.kind, work.error.text, detail="repaired before")
        work.repaired = "mended"

    work, _ = prepare(make(print))
    asyncio.run(run_stages(work, pipeline_of([_Stage(find), _Stage(mend, _When.UNFIT)])))
    assert (work.result.text, work.result.detail) == ("still wrong", "repaired before")


def test_only_unfit_calls_are_mended(make, prepare):
    def mend(work):
        raise AssertionError("not its affair")

    work, _ = prepare(make(print))
    asyncio.run(run_stages(work, pipeline_of([unfit("not_offered"), _Stage(mend, _When.UNFIT)])))
    assert work.result.kind == "not_offered"


def fail(work):
    raise ValueError("broken")


def answer(work):
    work.result, work.error = ToolResult("answered"), None


def test_an_error_skips_to_the_stages_for_failures_and_then_to_those_for_all(make, prepare):
    words, work = visited(
        prepare,
        make,
        (_When.OPEN, "one", fail),
        (_When.OPEN, "two"),
        (_When.FAILED, "failed"),
        (_When.ALWAYS, "always"),
    )
    assert words == ["one", "failed", "always"]
    assert work.result.kind == "tool_failure"


def test_an_answer_skips_to_the_stages_for_all(make, prepare):
    words, work = visited(
        prepare,
        make,
        (_When.OPEN, "one", answer),
        (_When.OPEN, "two"),
        (_When.FAILED, "failed"),
        (_When.ALWAYS, "always"),
    )
    assert words == ["one", "always"]
    assert work.result.text == "answered"


def test_a_recovered_error_leaves_the_recovery(make, prepare):
    words, work = visited(
        prepare, make, (_When.OPEN, "one", fail), (_When.FAILED, "failed", answer), (_When.ALWAYS, "always")
    )
    assert words == ["one", "failed", "always"]
    assert work.result.text == "answered"


def test_stages_for_all_find_the_error_as_a_result(make, prepare):
    seen = []
    visited(
        prepare,
        make,
        (_When.OPEN, "one", fail),
        (_When.ALWAYS, "always", lambda work: seen.append((work.result.kind, work.error))),
    )
    assert seen == [("tool_failure", None)]


@pytest.mark.parametrize("when", [_When.OPEN, _When.FAILED, _When.ALWAYS])
def test_whatever_a_stage_raises_there_is_one_result(make, prepare, when):
    def act(work):
        raise SystemExit

    stages = [(_When.OPEN, "one", fail)] if when is _When.FAILED else []
    _, work = visited(prepare, make, *stages, (when, "two", act))
    assert work.result.is_error
    assert work.error is None


@pytest.mark.parametrize("kind", ["unknown_tool", "not_offered", "denied", "limit"])
def test_a_call_error_is_a_result_of_its_kind(make, send, kind):
    work = send(CallError(kind, "why not", detail="for the operator"))
    assert (work.result.kind, work.result.text, work.result.detail) == (kind, "why not", "for the operator")
    assert (work.result.is_error, work.tool) == (True, None)


def test_calls_on_their_way_at_once_do_not_touch_each_other(make, prepare):
    async def main():
        gate = asyncio.Event()

        async def tool(n):
            await gate.wait()
            return f"answer {n}"

        under_way = [prepare(make(tool), {"n": number}) for number in range(50)]
        tasks = [asyncio.ensure_future(run_stages(*each)) for each in under_way]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*tasks)
        return [work.result.text for work, _ in under_way]

    assert asyncio.run(main()) == [f"answer {number}" for number in range(50)]
