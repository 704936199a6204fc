"""A preview is asked of code that may do anything."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dispatch.approval.samples import Operator, a_tool
from pegboard.dispatch.approval.request import preview_of, shown_preview
from pegboard.tools.tool import Preview


def previewed(preview, arguments='{"path": "a"}', **options):
    return asyncio.run(preview_of(a_tool(preview=preview), arguments, **options))


def test_a_tool_without_a_preview_has_none():
    assert previewed(None) is None


def test_it_is_made_off_the_loop_of_arguments_of_its_own():
    seen = []

    def preview(arguments):
        seen.append(threading.current_thread() is threading.main_thread())
        arguments["path"] += "!"
        return Preview(f"deletes {arguments['path']}", "for good")

    assert previewed(preview) == Preview("deletes a!", "for good")
    assert seen == [False]


@pytest.mark.parametrize(
    "fault", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()]
)
def test_one_that_raises_shows_nothing_and_the_operator_is_told(fault):
    def preview(arguments):
        raise fault

    operator = Operator()
    assert previewed(preview, observe=operator) is None
    assert operator.names == ["preview of delete"]
    assert previewed(preview) is None


def test_one_that_hangs_is_left_to_itself():
    free = threading.Event()
    operator = Operator()
    assert previewed(lambda arguments: free.wait(30), seconds=0.02, observe=operator) is None
    assert isinstance(operator.told[0][1], TimeoutError)
    free.set()


def test_whoever_waits_may_be_cancelled():
    async def main():
        started, free = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def preview(arguments):
            loop.call_soon_threadsafe(started.set)
            free.wait(30)

        task = asyncio.create_task(preview_of(a_tool(preview=preview), "{}"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        free.set()

    asyncio.run(main())


@pytest.mark.parametrize("nonsense", [1, b"x", ["a"], Preview(1), Preview("a", None)])
def test_nonsense_is_told(nonsense):
    with pytest.raises(TypeError, match="a preview is a Preview"):
        shown_preview(nonsense)
    operator = Operator()
    assert previewed(lambda arguments: nonsense, observe=operator) is None
    assert operator.names == ["preview of delete"]


def test_hidden_characters_are_written_out():
    """In both parts; the summary is one line."""
    shown = shown_preview(Preview("a\u202eb\nc", "d\u200be\r\nf\x1b"))
    assert shown == Preview("a\\u{202e}b\\u{a}c", "d\\u{200b}e\nf\\u{1b}")
    assert shown_preview("only a \u2067text") == Preview("only a \\u{2067}text")
    assert shown_preview(None) is None


def test_long_ones_are_cut():
    shown = shown_preview(Preview("a" * 1_001, "b" * 50_002))
    assert shown.summary == "a" * 1_000 + "..."
    assert shown.details == "b" * 50_000 + "\n... (2 more characters are not shown)"
