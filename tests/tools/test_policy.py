from __future__ import annotations

import pytest

from pegboard.tools.policy import DEFAULT_RESULT_LIMITS, HOST, Origin, Policy, ResultLimits


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (HOST, "the host"),
        (Origin("files"), "plugin 'files'"),
        (Origin("files", "pegboard-files", "1.2"), "plugin 'files' (pegboard-files 1.2)"),
        (Origin("files", "pegboard-files"), "plugin 'files' (pegboard-files ?)"),
        (Origin("files", toolset="disk"), "plugin 'files', toolset 'disk'"),
    ],
)
def test_an_origin_says_who_brought_a_tool(origin, text):
    assert str(origin) == text


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_under_which_no_call_could_run_is_refused(most):
    with pytest.raises(ValueError, match="max_concurrency"):
        Policy(max_concurrency=most)


def test_the_defaults_are_2000_lines_and_50_kib_of_which_the_head_stays():
    limits = DEFAULT_RESULT_LIMITS
    assert (limits.lines, limits.bytes, limits.tokens, limits.keep) == (2_000, 50 * 1024, None, "head")


@pytest.mark.parametrize("options", [{"lines": 0}, {"bytes": -1}, {"tokens": 0}, {"media_bytes": 0}, {"keep": "all"}])
def test_limits_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ResultLimits(**options)


@pytest.mark.parametrize(
    ("options", "small"),
    [({}, 2_000), ({"bytes": 100}, 25), ({"tokens": 40}, 10), ({"lines": 3}, 3)],
)
def test_small_texts_are_known_to_fit_without_a_look(options, small):
    """Of four bytes, and so of four tokens, is the largest character; each a line, at worst."""
    assert ResultLimits(**options).small == small


def test_without_limits_every_text_is_small():
    assert ResultLimits(lines=None, bytes=None).small > 10**12


def test_a_policy_by_hand_is_held_to_the_least_memory_too():
    with pytest.raises(ValueError, match="memory_limit"):
        Policy(memory_limit=1000)
