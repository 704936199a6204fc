from __future__ import annotations

from pegboard.request.processors import DEFAULT_PIPELINE


def test_its_order_is_what_adds_first_and_what_makes_sound_last():
    assert DEFAULT_PIPELINE.names == (
        "tool_requests",
        "instructions",
        "repair_history",
        "limit_results",
        "budget_tools",
        "pack_tools",
    )


def test_every_step_comes_with_pegboard_and_says_what_it_does():
    assert all(step.built_in and step.summary.endswith(".") for step in DEFAULT_PIPELINE)


def test_none_of_them_leaves_the_loop():
    """A request of a host without plugins costs no thread."""
    assert not any(step.link.blocking for step in DEFAULT_PIPELINE)
