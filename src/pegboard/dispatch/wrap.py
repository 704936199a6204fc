"""The callbacks that stand round the running of a tool, after approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from pegboard.chains import Link
from pegboard.dispatch.callback import failure, shown
from pegboard.dispatch.limits import cancels_the_call
from pegboard.dispatch.link import InnerError, answer_round
from pegboard.dispatch.work import Work


async def wrapped(work: Work, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    """What the outermost wrapper gives: what the tool gave, or something instead of it.

    Nothing is edited after approval: `call_next` takes no arguments. It may be called again, for a retry, or not at
    all; never twice at once, nor when its wrapper is done. For a call that a person approved it runs once: an approval
    is for one run.

    Args:
        work: The call; its `around.callbacks.wrap` stand round it, the first one outermost.
        run_inner: Runs the tool once, and gives what it gave.

    Raises:
        CallError: `callback_failure`: a wrapper raised something of its own, or took too long by itself.
        BaseException: What the tool raised, where the wrappers let it through.
    """
    run = run_inner
    for link in reversed(work.around.callbacks.wrap):
        run = partial(_round, link, work, run)
    return await run()


async def _round(link: Link, work: Work, run_inner: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await answer_round(link, work.around, run_inner, work.context, work.tool, shown(work))
    except InnerError as inner:
        raise inner.error from None
    except BaseException as error:  # a wrapper's SystemExit costs this call only
        if cancels_the_call(error):
            raise
        raise failure(work, link, error) from error


__all__ = ["wrapped"]
