"""One callback: how it is asked, what it may see, and what becomes of a call whose callback fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.chains import Link, LinkError
from pegboard.dispatch.limits import CallError, cancels_the_call
from pegboard.dispatch.link import answer_of
from pegboard.dispatch.read_only import read_only
from pegboard.dispatch.work import Work
from pegboard.errors import FatalToolError


async def asked(link: Link, work: Work, *facts: Any) -> Any:
    """What one callback answers; it gets the context, the tool and the facts.

    A plain one is called in a thread, unless it says that it is quick: whatever it waits for, the loop goes on.

    Raises:
        CallError: `callback_failure`: it raised, or took too long.
        asyncio.CancelledError: Whoever waits for the call was cancelled.
    """
    try:
        return await answer_of(link, work.around, work.context, work.tool, *facts)
    except BaseException as error:  # a callback's SystemExit costs this call only
        if cancels_the_call(error) or isinstance(error, CallError):  # what it asked for was denied
            raise
        raise failure(work, link, error) from error


def failure(work: Work, link: Link, error: BaseException) -> CallError:
    """The model learns that something failed; the operator, who and how, and what was being handled."""
    from pegboard.errors import detail_of

    if work.around.observe is not None:
        work.around.observe(f"callback of {link.owner}", error)
    if isinstance(work.error, FatalToolError):
        work.fatal = work.error
    detail = f"{LinkError(link, error)}\n{detail_of(error)}"
    if work.error is not None:
        detail += f"\nIt was handling:\n{detail_of(work.error)}"
    text = f"{work.call.name} was not completed: a check round it failed."
    return CallError("callback_failure", text, detail=detail)


def shown(work: Work) -> Mapping[str, Any]:
    """The arguments as callbacks see them; made once for as long as they stay what they are."""
    made = work.shown
    if made is None or made[0] is not work.arguments:
        made = work.shown = work.arguments, read_only(work.arguments, is_tree=work.parsed)
    return made[1]


__all__ = ["asked", "failure", "shown"]
