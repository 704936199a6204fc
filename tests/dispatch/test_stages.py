from __future__ import annotations

import asyncio

import pytest

from pegboard import CallError
from pegboard.callbacks import Callback
from pegboard.dispatch.stages import STAGES, pipeline_for, run_stages
from pegboard.dispatch.state import CallPipeline

LINKS = (Callback(lambda *_: None),)


@pytest.mark.parametrize(
    ("callbacks", "missing"),
    [
        ({}, {"before", "revalidate", "on_error", "after"}),
        ({"before_tool": LINKS}, {"on_error", "after"}),
        ({"after_tool": LINKS}, {"before", "revalidate", "on_error"}),
        ({"on_tool_error": LINKS}, {"before", "revalidate", "after"}),
        ({"before_tool": LINKS, "after_tool": LINKS, "on_tool_error": LINKS}, set()),
    ],
)
def test_a_hook_without_implementations_costs_nothing(callbacks, missing):
    """Its stage isn't in the pipeline at all."""
    pipeline = pipeline_for(callbacks)
    passed = [stage.__name__ for stage in (*pipeline.prepare, *pipeline.execute, *pipeline.afterwards)]
    assert passed == [each.__name__ for each in STAGES if each.__name__ not in {*missing, "repair"}]


def fail(state):
    raise ValueError("broken")


async def fail_later(state):
    await asyncio.sleep(0)
    raise SystemExit


@pytest.mark.parametrize("place", ["prepare", "execute", "afterwards"])
@pytest.mark.parametrize("stage", [fail, fail_later])
def test_any_exception_of_a_stage_gives_a_result_for_the_last_stages(make, prepare, place, stage):
    seen = []
    state = prepare(make(print))
    stages = {place: (stage,)}
    stages["afterwards"] = (*stages.get("afterwards", ()), lambda state: seen.append(state.result.kind))
    state.services = state.services.evolve(pipeline=CallPipeline(**stages))
    asyncio.run(run_stages(state))
    assert (state.result.is_error, state.error, seen) == (True, None, ["tool_failure"])


@pytest.mark.parametrize("kind", ["unknown_tool", "not_offered", "denied", "limit"])
def test_a_call_error_is_a_result_of_its_kind(make, send, kind):
    state = send(CallError(kind, "why not", detail="for the operator"))
    assert (state.result.kind, state.result.text, state.result.detail) == (kind, "why not", "for the operator")
    assert (state.result.is_error, state.tool) == (True, None)
